//! The command line of Earmark: a client of the daemon `earmarkd`.
//!
//! [`cli::main`] is the `earmark` command. It links no protocol engine and no driver: everything goes through the control
//! socket, by [`earmark_control`].
#![forbid(unsafe_code)]

pub mod cli;
mod protocols;
