//! Studies: published simulations done again with the very engines of the daemon, and what comes of them beyond.

mod plot;
pub mod retry;
