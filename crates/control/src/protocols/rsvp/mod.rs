//! Options of RSVP, its traces, and its errors as text.

mod client;

use std::net::{IpAddr, SocketAddr};

use earmark_core::Rate;
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::iana::{AdmissionControlError, TrafficControlError, error_value};
use earmark_wire::rsvp::{ErrorCode, ErrorSpec, FilterSpec};
use serde::{Deserialize, Serialize};

use super::udp;
use crate::text::sender;
use crate::{Role, SenderName};

/// Options of RSVP in a [`ReservationRequest`](crate::ReservationRequest).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ReserveOptions {
    /// End of the flow that this host is; by default the receiver if the destination is an address of this host, and
    /// the sender otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
}

/// Options of RSVP in a [`ListenRequest`](crate::ListenRequest).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ListenOptions {
    /// Bound of the queueing delay, milliseconds: guaranteed service instead of controlled load (RFC 2212).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<f64>,
    /// Reservation style.
    pub style: StyleName,
    /// Senders to reserve for; all if empty. A sender without port and flow label stands for everything sent from its
    /// address. Not allowed with WF, which cannot tell senders apart.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub senders: Vec<SenderName>,
    /// Whether to request confirmation: a `confirmed` event reports that the reservation stands.
    pub confirm: bool,
}

impl Default for ListenOptions {
    fn default() -> ListenOptions {
        ListenOptions {
            delay_ms: None,
            style: default_style(),
            senders: Vec::new(),
            confirm: false,
        }
    }
}

earmark_core::named_enum! {
    /// A reservation style, by its name in RFC 2205 section 1.3 and in listings.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "UPPERCASE")]
    pub enum StyleName {
        /// Fixed filter: each sender has a reservation of its own.
        Ff = "FF",
        /// Shared explicit: the named senders share one reservation.
        Se = "SE",
        /// Wildcard filter: all senders share one reservation.
        Wf = "WF",
    }
}

/// Parameters of [`Request::Trace`](crate::Request::Trace).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Trace {
    /// Destination of the data.
    pub to: SocketAddr,
    /// Sender of the data; may be absent if the daemon knows only one. Without port and flow label, the one that the daemon
    /// knows at that address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<SenderName>,
    /// IP protocol of the data.
    #[serde(default = "udp")]
    pub ip_protocol: u8,
    /// Node to begin at, downstream; by default the receiver, for a group this node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_hop: Option<IpAddr>,
    /// Most nodes to query; 0 for all.
    #[serde(default)]
    pub max_hops: u8,
    /// Timeout, milliseconds.
    #[serde(default = "default_trace_timeout")]
    pub timeout_ms: u32,
}

impl Trace {
    /// A trace of the only sender of UDP to `to`, beginning at the receiver.
    pub fn new(to: SocketAddr) -> Trace {
        Trace {
            to,
            from: None,
            ip_protocol: udp(),
            last_hop: None,
            max_hops: 0,
            timeout_ms: default_trace_timeout(),
        }
    }
}

fn default_trace_timeout() -> u32 {
    20_000
}

fn default_style() -> StyleName {
    StyleName::Ff
}
/// Describes an error: error code, sub-code, and the node that reports it.
pub fn error_text(error: &ErrorSpec) -> String {
    let what = match error.code {
        ErrorCode::Unknown(code) => format!("error {code}"),
        known => known.name().to_lowercase(),
    };
    let detail = match detail(error) {
        Some(detail) => format!(" ({})", detail.to_lowercase()),
        None if error.value != 0 => format!(" (value {})", error.value),
        None => String::new(),
    };
    format!("{what}{detail}, found by {}", error.node)
}

/// Advice about a refused reservation for its requester; `None` if none is known. `available` is the rate that could have been
/// granted, which a node reports on its own host only.
pub fn advice(error: &ErrorSpec, available: Option<Rate>) -> Option<String> {
    let remedy = remedy(error, available)?;
    let stands = error.flags & ErrorSpec::IN_PLACE != 0;
    Some(if stands {
        format!("{remedy}; the previous reservation is still in place")
    } else {
        remedy
    })
}

fn remedy(error: &ErrorSpec, available: Option<Rate>) -> Option<String> {
    let node = error.node;
    Some(match error.code {
        ErrorCode::AdmissionControlFailure => match (sub_code(error), available) {
            (Some(BANDWIDTH), Some(Rate::ZERO)) => {
                format!("nothing is available there; release other reservations on {node}")
            }
            (Some(BANDWIDTH), Some(rate)) => format!("request less: at most {rate}"),
            (Some(BANDWIDTH), None) => format!(
                "request less, or release other reservations (`earmark show links` on {node} \
                 shows what is available)"
            ),
            (Some(DELAY), _) => "allow for a longer delay".to_owned(),
            (Some(MTU), _) => "have the sender announce smaller packets (--max-packet)".to_owned(),
            _ => return None,
        },
        ErrorCode::ServicePreempted => {
            "a more important reservation displaced it; ask again later".to_owned()
        }
        ErrorCode::NoPathInformation | ErrorCode::NoSenderInformation => {
            "the sender has stopped, or the path has changed; try again when it announces itself"
                .to_owned()
        }
        ErrorCode::ConflictingStyle => {
            "use the reservation style of the session's other receivers".to_owned()
        }
        ErrorCode::PolicyControlFailure => format!("ask the operator of {node} for permission"),
        ErrorCode::TrafficControlError
        | ErrorCode::TrafficControlSystemError
        | ErrorCode::RsvpSystemError => format!("the daemon's log on {node} says more"),
        _ => return None,
    })
}

const DELAY: u16 = AdmissionControlError::DelayBoundCannotBeMet.code();
const BANDWIDTH: u16 = AdmissionControlError::BandwidthUnavailable.code();
const MTU: u16 = AdmissionControlError::MtuTooLarge.code();

/// The sub-code of an error value, if it is globally defined (RFC 2205 appendix B).
fn sub_code(error: &ErrorSpec) -> Option<u16> {
    (error.value & error_value::DEFINED_BY == 0).then_some(error.value & error_value::SUB_CODE)
}

/// The name of a globally defined sub-code (RFC 2205 appendix B).
fn detail(error: &ErrorSpec) -> Option<&'static str> {
    let code = sub_code(error)?;
    let name = match error.code {
        ErrorCode::AdmissionControlFailure => AdmissionControlError::from_code(code).name(),
        ErrorCode::TrafficControlError => TrafficControlError::from_code(code).name(),
        _ => return None,
    };
    (name != "unknown").then_some(name)
}

/// The rate that is admitted on a link: r for controlled load, R for guaranteed service.
pub fn rate(flowspec: &FlowSpec) -> Rate {
    match flowspec {
        FlowSpec::ControlledLoad(bucket) => Rate::from_octets_per_second(bucket.rate),
        FlowSpec::Guaranteed(_, rspec) => Rate::from_octets_per_second(rspec.rate),
    }
}

/// Formats a sender: `10.0.0.1:4000`.
pub fn filter(filter: &FilterSpec) -> String {
    sender(&SenderName::from(filter.parts()))
}

/// Describes the progress of a trace.
pub fn tracing(last_hop: IpAddr, known: usize, attempt: u8, reach: u8) -> String {
    let again = if attempt > 1 { ", again" } else { "" };
    match reach {
        0 => format!("asking the nodes from {last_hop} towards the sender{again}"),
        reach => format!("looking for a silent node: {known} answer, asking {reach}{again}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(flags: u8, code: ErrorCode, value: u16) -> ErrorSpec {
        ErrorSpec { node: [10, 0, 12, 1].into(), flags, code, value }
    }

    /// The text of a refusal contains the error, the node and advice; values of RFC 2205 appendix B.
    #[test]
    fn refusal_has_error_node_and_advice() {
        let full = error(0, ErrorCode::AdmissionControlFailure, BANDWIDTH);
        assert_eq!(
            error_text(&full),
            "admission control failure (requested bandwidth unavailable), found by 10.0.12.1"
        );
        let rate = Some(Rate::from_bps(1_500_000));
        assert_eq!(advice(&full, rate).unwrap(), "request less: at most 1.5 Mbit/s");
        assert!(advice(&full, None).unwrap().contains("`earmark show links` on 10.0.12.1"));
        assert!(advice(&full, Some(Rate::ZERO)).unwrap().starts_with("nothing is available"));

        let stands = error(ErrorSpec::IN_PLACE, ErrorCode::AdmissionControlFailure, MTU);
        let text = advice(&stands, None).unwrap();
        assert!(text.contains("--max-packet") && text.ends_with("is still in place"), "{text}");
    }

    /// Organization-defined sub-codes may have any number and must not be read as globally defined ones.
    #[test]
    fn organization_sub_codes_are_not_read_as_global() {
        let value = error_value::BY_ORGANIZATION | BANDWIDTH;
        let foreign = error(0, ErrorCode::AdmissionControlFailure, value);
        assert!(error_text(&foreign).contains("(value 32770)"), "{}", error_text(&foreign));
        assert_eq!(advice(&foreign, None), None);
        assert_eq!(advice(&error(0, ErrorCode::Unknown(99), 0), None), None);
    }
}
