//! Sequences of messages, commands and changes of the host in a network of three nodes with NATFW NSLP on GIST.
#![no_main]

use earmark_fuzz::play;
use earmark_fuzz::protocols::natfw::Natfw;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| play(&Natfw, octets));
