//! RSVP: its settings, its requests, and its events as text.

pub(crate) mod checks;
pub(crate) mod describe;
pub(crate) mod keys;
pub(crate) mod policy;
pub(crate) mod proxy;
pub(crate) mod refresh_reduction;
pub(crate) mod request;
pub(crate) mod trace;
