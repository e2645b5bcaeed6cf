//! Sequences of messages, commands and changes of the host in a network of three nodes with the engine of NSIS.
#![no_main]

use earmark_fuzz::play;
use earmark_fuzz::protocols::nsis::NSIS;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|octets: &[u8]| play(&NSIS, octets));
