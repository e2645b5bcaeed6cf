//! Reasons for refusing a request.

use core::net::IpAddr;

use earmark_core::Rate;
use earmark_core::admission::{Priority, Reason, Refusal};
use earmark_token::TokenError;
use earmark_wire::rsvp::iana::{AdmissionControlError, PolicyControlError, TrafficControlError};
use earmark_wire::rsvp::{ErrorCode, ErrorSpec};

/// Reason for refusing a reservation, or a Path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ResvFault {
    pub(crate) code: ErrorCode,
    pub(crate) value: u16,
    /// Whether an older reservation remains (InPlace).
    pub(crate) in_place: bool,
    /// Available rate, if admission control failed.
    pub(crate) available: Option<Rate>,
    /// Priority of the reservation that preempted this one.
    pub(crate) preempted_by: Option<Priority>,
    /// Reason for refusing the token of the request.
    pub(crate) token: Option<TokenError>,
}

impl ResvFault {
    pub(crate) const fn new(code: ErrorCode, value: u16) -> ResvFault {
        let (available, preempted_by, token) = (None, None, None);
        ResvFault { code, value, in_place: false, available, preempted_by, token }
    }

    /// Returns the error for a limit of this node that is reached.
    pub(crate) const fn limit_reached() -> ResvFault {
        ResvFault::new(ErrorCode::RsvpSystemError, 0)
    }

    /// Returns the error for a path without enough bandwidth.
    pub(crate) const fn bandwidth_unavailable() -> ResvFault {
        let value = AdmissionControlError::BandwidthUnavailable.code();
        ResvFault::new(ErrorCode::AdmissionControlFailure, value)
    }

    /// Returns the error for an aggregate from behind an access interface: it would take the class of all packets with its
    /// DSCP, also of those of others.
    pub(crate) const fn policy_rejected() -> ResvFault {
        ResvFault::new(ErrorCode::PolicyControlFailure, PolicyControlError::Rejected.code())
    }

    /// Returns the error for an invalid flowspec.
    pub(crate) const fn bad_flowspec() -> ResvFault {
        ResvFault::new(ErrorCode::TrafficControlError, TrafficControlError::BadFlowspec.code())
    }

    pub(crate) fn spec(&self, node: IpAddr) -> ErrorSpec {
        let flags = if self.in_place { ErrorSpec::IN_PLACE } else { 0 };
        ErrorSpec { node, flags, code: self.code, value: self.value }
    }

    /// Returns the error of RFC 2205 appendix B for a refusal by the ledger.
    pub(crate) fn refused(refusal: Refusal) -> ResvFault {
        let fault = match refusal.reason {
            Reason::Bandwidth => ResvFault::bandwidth_unavailable(),
            Reason::MaxPacket => {
                let value = AdmissionControlError::MtuTooLarge.code();
                ResvFault::new(ErrorCode::AdmissionControlFailure, value)
            }
            Reason::NoSuchLink => {
                let value = TrafficControlError::ServiceUnsupported.code();
                ResvFault::new(ErrorCode::TrafficControlError, value)
            }
        };
        ResvFault { available: Some(refusal.available), ..fault }
    }
}
