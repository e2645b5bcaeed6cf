//! Boomerang: its settings, its requests, and its events as text.

pub(crate) mod config;
pub(crate) mod describe;
pub mod offload;
pub(crate) mod request;
