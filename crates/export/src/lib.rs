//! Exports from a daemon: accounting records to a PostgreSQL database for many routers and to a collector of IPFIX, and events to a
//! NATS server.
//!
//! For records the program reads the database of a daemon and never concerns the daemon. What it has delivered it notes in that
//! database, so that nothing is removed before, and nothing is left out after a failure. For events it is a client of the daemon's
//! control socket.
#![forbid(unsafe_code)]

pub mod cli;
pub mod events;
pub mod ipfix;
pub mod postgres;
pub mod run;
