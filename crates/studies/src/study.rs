//! Studies: published simulations, run again with the engines of the daemon, further cases, and comparisons of the protocols.

pub mod compare;
pub mod knee;
pub mod retry;
