//! Measurements of Earmark: benchmarks of its daemons and engines, and published studies done again.
//!
//! - [`bench`](mod@bench): cost of many sessions in real daemons, and rate of their set-up; cost of each message.
//! - [`paper_reproduction`]: the published studies of overhead, measured again on this machine, in one report.
//! - `callgrind`: runs under valgrind, and the files that it writes.
//! - [`study`]: published simulations, run again.
//! - [`provenance`]: where results come from; [`reproduce`]: the same again, compared.
//! - [`cli`]: the command line.
//!
//! Test networks, simulated runs and statistics are those of [`earmark_lab`]. The program is one file: the daemons of
//! a testbed run this program with its hidden subcommand `node`.
#![forbid(unsafe_code)]

pub mod bench;
mod callgrind;
pub mod cli;
pub mod paper_reproduction;
pub mod provenance;
pub mod reproduce;
pub mod study;
