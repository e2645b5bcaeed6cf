//! Journal of the attempts to claim bandwidth, for studies of admission.

use serde::{Deserialize, Serialize};

use super::Owner;
use super::queue::QueuedRequest;
use crate::{Flow, InterfaceId, Rate};

/// An attempt to claim bandwidth that was not held before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// The link, or a lane of one.
    pub link: InterfaceId,
    /// The owner.
    pub owner: Owner,
    /// The flow; `None` for a queued request that the released bandwidth was not enough for
    /// ([`Counting::Tries`](super::Counting::Tries)).
    pub flow: Option<Flow>,
    /// The requested rate.
    pub rate: Rate,
    /// Whether the attempt was granted.
    pub granted: bool,
    /// Rate that would have been granted in its place, if the attempt was refused; `None` for a queued request.
    #[serde(default)]
    pub available: Option<Rate>,
}

impl Attempt {
    /// Creates the attempt of a queued request that the released bandwidth was not enough for.
    pub(super) fn failed_retry(link: InterfaceId, waiting: &QueuedRequest) -> Attempt {
        let QueuedRequest { owner, demand, .. } = *waiting;
        Attempt { link, owner, flow: None, rate: demand.rate, granted: false, available: None }
    }
}
