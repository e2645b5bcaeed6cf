//! Requests of NSIS, queries with Ping NSLP and reservations with QoS NSLP, and their outcomes as text.

use std::net::{IpAddr, SocketAddr};

use earmark_core::Rate;
use earmark_wire::qos_nslp::Outcome;
use serde::{Deserialize, Serialize};

use super::{default_burst, default_max_packet, udp};

/// A request of Ping NSLP: find the nodes on the path to a host that take part in signalling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
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

/// A request of QoS NSLP: reserve along the path of a flow of this host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Establish {
    /// Destination of the data; port 0 stands for all ports.
    pub to: SocketAddr,
    /// Source of the data. An unspecified or absent address means this host's own; port 0 means all ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<SocketAddr>,
    /// Flow label that identifies the data: IPv6 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_label: Option<u32>,
    /// IP protocol of the data.
    #[serde(default = "udp")]
    pub ip_protocol: u8,
    /// Token rate.
    pub rate_bps: Rate,
    /// Least acceptable rate; if absent, exactly `rate_bps` is reserved, or nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_bps: Option<Rate>,
    /// Bucket depth, octets.
    #[serde(default = "default_burst")]
    pub burst_octets: u32,
    /// Peak rate; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bps: Option<Rate>,
    /// Maximum packet size, octets.
    #[serde(default = "default_max_packet")]
    pub max_packet: u32,
    /// Priority: routers may preempt reservations of lower priority for this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u16>,
    /// Whether the receiver reserves, which must have run `listen`.
    #[serde(default)]
    pub by_receiver: bool,
    /// Whether to query the available rate only.
    #[serde(default)]
    pub query: bool,
    /// Whether to use messaging associations.
    #[serde(default)]
    pub reliable: bool,
    /// Whether to use messaging associations with TLS.
    #[serde(default)]
    pub secure: bool,
    /// Whether the reservation is released when this connection ends.
    #[serde(default)]
    pub hold: bool,
    /// Whether its events are sent over this connection.
    #[serde(default)]
    pub follow: bool,
}

impl Establish {
    /// A request for UDP to `to` at this rate, signalled in datagrams.
    pub fn new(to: SocketAddr, rate: Rate) -> Establish {
        Establish {
            to,
            from: None,
            flow_label: None,
            ip_protocol: udp(),
            rate_bps: rate,
            minimum_bps: None,
            burst_octets: default_burst(),
            peak_bps: None,
            max_packet: default_max_packet(),
            priority: None,
            by_receiver: false,
            query: false,
            reliable: false,
            secure: false,
            hold: false,
            follow: false,
        }
    }
}

/// A request of QoS NSLP: reserve for flows to this host whose senders request it, and report incoming reservations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Destination of the data; an unspecified address means all addresses of this host, port 0 all ports.
    pub on: SocketAddr,
    /// IP protocol of the data.
    #[serde(default = "udp")]
    pub ip_protocol: u8,
    /// Largest rate to reserve for one flow; by default the rate that its sender announces.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_bps: Option<Rate>,
    /// Rate to reserve in the reverse direction, in a session of its own that is bound to the incoming one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_bps: Option<Rate>,
    /// Whether the application ends when this connection ends.
    #[serde(default)]
    pub hold: bool,
    /// Whether its events are sent over this connection.
    #[serde(default)]
    pub follow: bool,
}

impl Expect {
    /// A request for flows to `on`, with defaults otherwise.
    pub fn new(on: SocketAddr) -> Expect {
        Expect {
            on,
            ip_protocol: udp(),
            most_bps: None,
            reverse_bps: None,
            hold: false,
            follow: false,
        }
    }
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
