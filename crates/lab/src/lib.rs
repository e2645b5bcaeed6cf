//! Networks to try Earmark on: in namespaces of this machine, or simulated; traffic to measure, and a demo.
//!
//! - [`testbed`]: builds a [topology](earmark_scenario::topology) from namespaces, with a daemon in each.
//! - [`traffic`]: sends and receives packets that are measured one by one.
//! - [`demo`]: a stream beside a flood, without and with a reservation, on either kind of network.
//! - [`capture`]: the signalling that passes a node, as a pcap file.
//! - [`bench`](mod@bench): what many sessions cost real daemons, and how fast they are set up.
//! - [`report`]: what the demo found, as table, drawing and page.
//! - [`runs`]: many runs of the simulator at once, over all processors.
//! - [`outcomes`]: what came of such runs, as tables, a timeline of attempts, and a summary.
//! - [`overhead`]: the published studies of overhead, done again on this machine, in one report.
//! - [`statistics`]: medians, and how sure they are.
//! - [`cli`]: the command line over all that.
//!
//! The program is one file: the daemons of a testbed are this program too, started with its hidden subcommand `node`.
#![forbid(unsafe_code)]

pub mod bench;
pub mod capture;
pub mod cli;
pub mod demo;
pub mod outcomes;
pub mod overhead;
pub mod report;
pub mod runs;
pub mod statistics;
pub mod study;
pub mod testbed;
pub mod traffic;
