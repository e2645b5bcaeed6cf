//! All `unsafe` code of Earmark: thin, checked wrappers of system calls.
//!
//! The signatures of the wrappers have only safe types, so that no caller can violate memory safety; each block says
//! why it is sound. Calls that rustix already wraps are used from there.
#![allow(unsafe_code)]

pub(crate) mod bpf;
pub(crate) mod bpf_run;
pub mod cycles;
pub(crate) mod ethtool;
pub mod heap;
pub(crate) mod namespace;
pub mod packet_times;
pub(crate) mod ring;
pub(crate) mod scheduling;
pub(crate) mod shared_array;
pub(crate) mod socket;
