//! The Earmark daemon, its control protocol and its command line, as a library.
//!
//! [`daemon::run`] is the daemon: one thread and one epoll loop between the kernel, the clients of the control socket
//! and a [`Node`](earmark_node::Node), which holds all protocol logic. [`client::Client`] talks to it;
//! [`cli::main`] is the `earmark` command, made of both. A program that wants to be a node itself has
//! [`embedded::Embedded`].
#![forbid(unsafe_code)]

pub mod cli;
pub mod client;
pub mod config;
pub mod control;
pub mod daemon;
pub mod decode;
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
