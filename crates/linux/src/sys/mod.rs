//! All `unsafe` code of the house: thin, checked wrappers of system calls.
//!
//! Each wrapper takes and gives only safe types, so that nothing outside can break memory; each block says why it is
//! sound. What rustix wraps already is used from there.
#![allow(unsafe_code)]

pub(crate) mod bpf;
pub(crate) mod bpf_run;
pub mod cycles;
pub(crate) mod ethtool;
pub mod heap;
pub(crate) mod namespace;
pub(crate) mod ring;
pub(crate) mod scheduling;
pub mod sightings;
pub(crate) mod socket;
