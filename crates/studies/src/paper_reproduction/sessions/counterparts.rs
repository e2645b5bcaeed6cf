//! Steps of Table 9 of the Budapest paper, and our steps that do the same.

use earmark_core::checkpoint::Checkpoint as C;

use crate::bench::router::Protocol;
use crate::paper_reproduction::steps::{RESERVATION_MANAGEMENT, Steps};

/// A step of the paper, and our steps in a message of RSVP that do the same.
pub(super) struct Counterpart {
    pub(super) key: &'static str,
    pub(super) words: &'static str,
    pub(super) message: &'static str,
    pub(super) steps: &'static [C],
}

/// The steps of Table 9, in its order.
pub(super) const COUNTERPARTS: [Counterpart; 5] = [
    Counterpart {
        key: "create_psb_path",
        words: "create path state",
        message: "Path, new",
        steps: &[C::CreatePsb],
    },
    Counterpart {
        key: "tear_psb_path_tear",
        words: "tear path state",
        message: "PathTear",
        steps: &[C::TearPsb],
    },
    Counterpart {
        key: "reservation_management_resv",
        words: "reservation management",
        message: "Resv, new",
        steps: RESERVATION_MANAGEMENT,
    },
    Counterpart {
        key: "reservation_refresh_resv",
        words: "reservation refresh",
        message: "Resv, new",
        steps: &[C::ResvRefresh],
    },
    Counterpart {
        key: "reservation_tear_resv_tear",
        words: "reservation tear",
        message: "ResvTear",
        steps: &[C::TearRsb],
    },
];

/// Returns the groups of a message's steps that were published as one.
pub(super) fn groups(protocol: Protocol, message: &str) -> Vec<Steps> {
    COUNTERPARTS
        .iter()
        .filter(|one| protocol == Protocol::Rsvp && one.message == message)
        .map(|one| Steps::of(one.steps))
        .collect()
}
