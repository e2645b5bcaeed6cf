//! The handshake that waits for a new association.

use alloc::boxed::Box;
use alloc::vec::Vec;

use earmark_wire::gist::{Profile, Profiles};

/// Data of a Response that the Confirm over a new association needs.
#[derive(Debug)]
pub(crate) struct Handshake {
    pub(crate) cookie: Box<[u8]>,
    /// The profiles of the responder, most wanted first.
    pub(crate) profiles: Vec<Box<[u8]>>,
    pub(crate) validity_ms: u32,
    pub(crate) ip_distance: Option<u8>,
    pub(crate) confirm_requested: bool,
}

impl Handshake {
    pub(crate) fn copy_profiles(profiles: Profiles<'_>) -> Vec<Box<[u8]>> {
        profiles.iter().map(|Profile(layers)| layers.into()).collect()
    }
}
