//! Bytes to messages and back, for every protocol that Earmark speaks. No state, no I/O, no allocation while parsing.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod intserv;
pub mod rsvp;
