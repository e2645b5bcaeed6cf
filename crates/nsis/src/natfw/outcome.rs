//! Outcomes of requests that this node answers (RFC 5973 section 4.2.5).

use earmark_wire::natfw_nslp::Outcome;
use earmark_wire::natfw_nslp::iana::{
    PermanentFailure, SignalingSessionFailure, Success, TransientFailure,
};

/// Outcome of a request above a limit.
pub(super) const FULL: Outcome = Outcome::TransientFailure(TransientFailure::ResourcesUnavailable);

/// Returns the outcome of a session that cannot be as requested.
pub(super) const fn failure(failure: SignalingSessionFailure) -> Outcome {
    Outcome::SignalingSessionFailure(failure)
}

/// Returns the outcome of a request that will not succeed later.
pub(super) const fn permanent(failure: PermanentFailure) -> Outcome {
    Outcome::PermanentFailure(failure)
}

/// Outcome of a granted request.
pub(super) const PROCESSED: Outcome = Outcome::Success(Success::Processed);
