//! Studies: published simulations, run again with the engines of the daemon, and further cases.

pub mod knee;
pub mod retry;
