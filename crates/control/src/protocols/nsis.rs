//! Options of QoS NSLP, requests of Ping NSLP and NATFW NSLP, and outcomes as text.

pub mod natfw;

use std::net::{IpAddr, SocketAddr};

use earmark_core::Rate;
use earmark_wire::qos_nslp::Outcome;
use serde::{Deserialize, Serialize};

use crate::{ApplicationId, ListenRequest, ReservationRequest};

/// A request of Ping NSLP: find the nodes on the path to a host that take part in signalling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Ping {
    /// End of the path.
    pub to: IpAddr,
    /// Number of messages to send.
    #[serde(default = "one")]
    pub count: u32,
    /// Interval between messages, milliseconds.
    #[serde(default = "second")]
    pub interval_ms: u32,
    /// Timeout of an answer, milliseconds; by default that of the daemon's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u32>,
    /// Whether to query each node for its available rate as well.
    #[serde(default)]
    pub qos: bool,
    /// Whether to use messaging associations.
    #[serde(default)]
    pub reliable: bool,
    /// Whether to use messaging associations with TLS.
    #[serde(default)]
    pub secure: bool,
    /// Whether the application ends when this connection ends.
    #[serde(default)]
    pub hold: bool,
    /// Whether its events are sent over this connection.
    #[serde(default)]
    pub follow: bool,
}

impl Ping {
    /// A request for one message, sent in datagrams.
    pub fn new(to: IpAddr) -> Ping {
        Ping {
            to,
            count: one(),
            interval_ms: second(),
            timeout_ms: None,
            qos: false,
            reliable: false,
            secure: false,
            hold: false,
            follow: false,
        }
    }
}

/// Options of QoS NSLP in a [`ReservationRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ReserveOptions {
    /// Least acceptable rate; if absent, exactly the rate of the request is reserved, or nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum_bps: Option<Rate>,
    /// Whether the receiver reserves, which must have run `listen`.
    pub by_receiver: bool,
    /// Whether to use messaging associations.
    pub reliable: bool,
    /// Whether to use messaging associations with TLS.
    pub secure: bool,
    /// Application of this host that has opened the path by NATFW NSLP: the reservation ends with it, at all nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bound_to: Option<ApplicationId>,
}

/// Options of QoS NSLP in a [`ListenRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ListenOptions {
    /// Rate to reserve in the reverse direction, in a session of its own that is bound to the incoming one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reverse_bps: Option<Rate>,
}

/// Creates a request for UDP to `to` at this rate, signalled in datagrams.
pub fn request(to: SocketAddr, rate: Rate) -> ReservationRequest {
    ReservationRequest { rate_bps: Some(rate), ..ReservationRequest::of("nsis", to) }
}

/// Creates a request for flows to `on`; an unspecified address means all addresses of this host, port 0 all ports.
pub fn listen_request(on: SocketAddr) -> ListenRequest {
    ListenRequest::of("nsis", on)
}

fn one() -> u32 {
    1
}

fn second() -> u32 {
    1_000
}

/// Describes the outcome that a node reported (RFC 5974 section 5.1.3.6).
pub fn outcome(outcome: Outcome) -> String {
    let class = outcome.class();
    match outcome {
        Outcome::QosModelError(_)
        | Outcome::SignalingSessionFailure(_)
        | Outcome::Unknown { .. } => {
            format!("{} (class {}, code {})", class.name(), class.code(), outcome.code())
        }
        _ => format!("{} ({})", outcome.name(), class.name()),
    }
}
