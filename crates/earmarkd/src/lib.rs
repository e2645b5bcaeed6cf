//! The Earmark daemon as a library.
//!
//! [`daemon::run`] is the daemon: one thread with one epoll loop between the kernel, the clients of the control socket and a
//! [`Node`](earmark_node::Node), which contains all protocol logic. [`cli::main`] is the `earmarkd` command;
//! [`embedded::Embedded`] runs a node inside another program. Clients use the crate `earmark-control`.
#![forbid(unsafe_code)]

pub mod cli;
pub mod config;
pub mod control;
pub mod daemon;
pub mod describe;
pub mod driver;
pub mod embedded;
mod enforcement;
mod event_loop;
pub mod history;
pub mod key_file;
pub mod log;
mod metrics;
mod node_settings;
pub mod private_file;
pub mod protocol;
pub mod protocols;
pub mod record;
mod reload;
pub mod running_config;
#[cfg(feature = "http")]
mod server_thread;
mod service_manager;
pub mod streams;
pub mod syscall_filter;
mod system;
mod user;
mod wall_clock;
mod watch;
mod web;
