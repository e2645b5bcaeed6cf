//! Copies of accounting records elsewhere: to a PostgreSQL database for many routers, and to a collector of IPFIX.
//!
//! The program reads the database of a daemon and never concerns the daemon. What it has delivered it notes in that database, so that
//! nothing is removed before, and nothing is left out after a failure.
#![forbid(unsafe_code)]

pub mod cli;
pub mod ipfix;
pub mod postgres;
pub mod run;
