//! Networks for trials of Earmark, in namespaces of this machine or simulated; measured traffic, and a demo.
//!
//! - [`testbed`]: builds a [topology](earmark_scenario::topology) from namespaces, with a daemon in each.
//! - [`traffic`]: sends and receives packets, each of which is measured.
//! - [`demo`]: a stream beside a flood, without and with a reservation, on either kind of network.
//! - [`protocols`]: what of each protocol is in the demo.
//! - [`attack`]: attacks on a reservation, on either kind of network.
//! - [`capture`]: the signalling that passes a node, as a pcap file.
//! - [`plot`]: plots as SVG.
//! - [`report`]: results of the demo, as table, drawing and page.
//! - [`runs`]: many runs of the simulator in parallel, on all processors.
//! - [`run_output`]: results of such runs, as tables, a timeline of attempts, and a summary.
//! - [`statistics`]: medians, with confidence intervals.
//! - [`cli`]: the command line.
//!
//! The program is one file: the daemons of a testbed run this program with its hidden subcommand `node`.
#![forbid(unsafe_code)]

pub mod attack;
pub mod capture;
pub mod cli;
pub mod demo;
pub mod plot;
pub mod protocols;
pub mod report;
pub mod run_output;
pub mod runs;
pub mod statistics;
pub mod testbed;
pub mod traffic;
