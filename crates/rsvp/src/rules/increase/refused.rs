//! Reservations whose increase was refused.

use alloc::collections::BTreeSet;

use earmark_core::timer::TimerId;

use crate::state::Index;

/// Reservations whose increase was refused.
#[derive(Debug, Default)]
pub(crate) struct RefusedIncreases {
    /// Traffic-control blocks. One may have ended meanwhile, or be another one: a try changes nothing then.
    pub(super) blocks: BTreeSet<Index>,
    /// The first one of the next turn.
    pub(super) next: Index,
    pub(super) timer: Option<TimerId>,
}
