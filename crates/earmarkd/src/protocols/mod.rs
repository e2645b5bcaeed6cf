//! What belongs to one protocol in the daemon.

pub mod boomerang;
pub(crate) mod nsis;
pub(crate) mod rsvp;
pub(crate) mod yessir;
