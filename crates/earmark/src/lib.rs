//! The Earmark daemon, its control protocol and its command line, as a library.
//!
//! [`daemon::run`] is the daemon: one thread with one epoll loop between the kernel, the clients of the control socket and a
//! [`Node`](earmark_node::Node), which contains all protocol logic. [`client::Client`] is its client; [`cli::main`] is the
//! `earmark` command, which uses both. [`embedded::Embedded`] runs a node inside another program.
#![forbid(unsafe_code)]

pub mod cli;
pub mod client;
pub mod config;
pub mod control;
pub mod daemon;
pub mod describe;
pub mod driver;
pub mod embedded;
mod enforcement;
mod event_loop;
pub mod record;
mod reload;
pub mod short_cut;
pub mod streams;
mod system;
mod user;
mod watch;
