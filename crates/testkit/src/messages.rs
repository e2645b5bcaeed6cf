//! Messages of every protocol for tests: valid samples, and strategies that generate any message that can be written.
//!
//! A generated message has owned parts and lends them to the borrowed message of `earmark-wire`. This module needs no
//! engine.

pub mod boomerang;
pub mod gist;
pub mod intserv;
pub mod natfw_nslp;
pub mod packets;
pub mod ping_nslp;
pub mod qos_nslp;
pub mod qspec;
pub mod rsvp;
pub mod rtcp;
pub mod samples;
pub mod yessir;

use proptest::collection::{SizeRange, vec};
use proptest::prelude::*;

/// Generates 32-bit words.
pub fn words(count: impl Into<SizeRange>) -> impl Strategy<Value = Vec<[u8; 4]>> {
    vec(any::<[u8; 4]>(), count)
}

/// Returns octets from hexadecimal digits; white space is ignored.
///
/// # Panics
/// The text has something else.
pub fn hex(text: &str) -> Vec<u8> {
    let digits: String = text.split_whitespace().collect();
    (0..digits.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal digits"))
        .collect()
}
