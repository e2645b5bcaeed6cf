//! Backbones: routers and the links between them, from a model or a published file.

use std::time::Duration;

use earmark_core::Rate;

use super::Place;

/// Maximum number of routers of a backbone.
pub const MAX_ROUTERS: usize = 2_048;
/// Maximum number of links between its routers.
pub(super) const MAX_TRUNKS: usize = 65_536;

/// A backbone; see the module documentation.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Backbone {
    /// Name.
    pub(super) name: String,
    pub(super) routers: Vec<Site>,
    pub(super) trunks: Vec<Trunk>,
}

/// A router.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Site {
    /// Valid node name, of at most 24 characters.
    pub(super) name: String,
    pub(super) place: Option<Place>,
}

/// A link between two routers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Trunk {
    /// Numbers of two different routers.
    pub(super) ends: [usize; 2],
    pub(super) delay: Duration,
    /// Bandwidth, if the source gives it.
    pub(super) bandwidth: Option<Rate>,
}
