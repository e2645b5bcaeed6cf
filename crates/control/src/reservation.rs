//! Requests to reserve and to listen, the same for all protocols.

use std::net::SocketAddr;

use earmark_core::{ApplicationId, Rate};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

#[cfg(feature = "schema")]
use crate::protocols::describe;
use crate::protocols::{
    default_burst, default_max_packet, default_min_packet, default_protocol, default_ttl, udp,
};

/// Parameters of [`Request::Reserve`](crate::Request::Reserve).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReservationRequest {
    /// Protocol to reserve with.
    #[serde(default = "default_protocol")]
    #[cfg_attr(feature = "schema", schemars(description = describe::PROTOCOL))]
    pub protocol: String,
    /// Destination of the data; port 0 stands for protocols without ports, or for all ports.
    pub to: SocketAddr,
    /// Source of the data. An unspecified or absent address means this host's own address towards the destination.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<SocketAddr>,
    /// Flow label of the data, which identifies it instead of the source port: IPv6 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_label: Option<u32>,
    /// SPI of the data, which identifies it instead of the source port: ESP and AH only. Where sessions have a port
    /// nevertheless, it tells them apart and is in no packet (RFC 2207).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spi: Option<u32>,
    /// IP protocol of the data.
    #[serde(default = "udp")]
    pub ip_protocol: u8,
    /// Token rate; may be absent if the protocol's options contain the rates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<Rate>,
    /// Bucket depth, octets.
    #[serde(default = "default_burst")]
    pub burst_octets: u32,
    /// Peak rate; absent if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bps: Option<Rate>,
    /// Minimum policed unit: smaller packets count as this many octets.
    #[serde(default = "default_min_packet")]
    pub min_packet: u32,
    /// Maximum packet size, octets.
    #[serde(default = "default_max_packet")]
    pub max_packet: u32,
    /// TTL of the data, and so of the messages that follow its path.
    #[serde(default = "default_ttl")]
    pub ttl: u8,
    /// Identity for policy.
    #[serde(default, skip_serializing_if = "Identity::is_empty")]
    pub identity: Identity,
    /// Whether to query the available rate only, if the protocol can.
    #[serde(default)]
    #[cfg_attr(feature = "schema", schemars(description = describe::QUERY))]
    pub query: bool,
    /// Whether the reservation is released when this connection ends.
    #[serde(default)]
    pub hold: bool,
    /// Whether its events are sent over this connection.
    #[serde(default)]
    pub follow: bool,
    /// The protocol's own options.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
}

impl ReservationRequest {
    /// Creates a request of the default protocol for UDP to `to` at `rate`, with defaults otherwise.
    pub fn new(to: SocketAddr, rate: Rate) -> ReservationRequest {
        ReservationRequest {
            rate_bps: Some(rate),
            ..ReservationRequest::of(default_protocol(), to)
        }
    }

    /// Creates a request of a protocol for UDP to `to`, with defaults otherwise.
    pub fn of(protocol: impl Into<String>, to: SocketAddr) -> ReservationRequest {
        ReservationRequest {
            protocol: protocol.into(),
            to,
            from: None,
            flow_label: None,
            spi: None,
            ip_protocol: udp(),
            rate_bps: None,
            burst_octets: default_burst(),
            peak_bps: None,
            min_packet: default_min_packet(),
            max_packet: default_max_packet(),
            ttl: default_ttl(),
            identity: Identity::default(),
            query: false,
            hold: false,
            follow: false,
            options: Map::new(),
        }
    }

    /// Sets the protocol's own options.
    pub fn with(self, options: &impl Serialize) -> ReservationRequest {
        ReservationRequest { options: members(options), ..self }
    }
}

/// Parameters of [`Request::Listen`](crate::Request::Listen).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ListenRequest {
    /// Protocol by which senders announce themselves.
    #[serde(default = "default_protocol")]
    #[cfg_attr(feature = "schema", schemars(description = describe::ANNOUNCING_PROTOCOL))]
    pub protocol: String,
    /// Destination of the data: an address of this host, or a group.
    pub on: SocketAddr,
    /// IP protocol of the data.
    #[serde(default = "udp")]
    pub ip_protocol: u8,
    /// Rate to reserve for each sender, or the largest one; by default the rate that the sender announces.
    #[cfg_attr(feature = "schema", schemars(description = describe::LISTENING_RATE))]
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<Rate>,
    /// Identity for policy.
    #[serde(default, skip_serializing_if = "Identity::is_empty")]
    pub identity: Identity,
    /// Whether the application ends when this connection ends.
    #[serde(default)]
    pub hold: bool,
    /// Whether its events are sent over this connection.
    #[serde(default)]
    pub follow: bool,
    /// The protocol's own options.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
}

impl ListenRequest {
    /// Creates a request of the default protocol for UDP to `on`, at the rate that senders announce.
    pub fn new(on: SocketAddr) -> ListenRequest {
        ListenRequest::of(default_protocol(), on)
    }

    /// Creates a request of a protocol for UDP to `on`, at the rate that senders announce.
    pub fn of(protocol: impl Into<String>, on: SocketAddr) -> ListenRequest {
        ListenRequest {
            protocol: protocol.into(),
            on,
            ip_protocol: udp(),
            rate_bps: None,
            identity: Identity::default(),
            hold: false,
            follow: false,
            options: Map::new(),
        }
    }

    /// Sets the protocol's own options.
    pub fn with(self, options: &impl Serialize) -> ListenRequest {
        ListenRequest { options: members(options), ..self }
    }
}

/// Parameters of [`Request::Change`](crate::Request::Change). Absent members, and all other parameters of the request that opened
/// the application, stay as they are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ChangeRequest {
    /// Number of the application.
    pub application: ApplicationId,
    /// Token rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<Rate>,
    /// Bucket depth, octets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub burst_octets: Option<u32>,
    /// Peak rate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bps: Option<Rate>,
    /// Token that proves the name of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
    /// Whether the application's events are sent over this connection until the change has an outcome. If the connection ends
    /// before that, the change is undone.
    #[serde(default)]
    pub follow: bool,
    /// The protocol's own options; the others stay.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub options: Map<String, Value>,
}

impl ChangeRequest {
    /// Creates a request that changes nothing yet.
    pub fn new(application: ApplicationId) -> ChangeRequest {
        ChangeRequest {
            application,
            rate_bps: None,
            burst_octets: None,
            peak_bps: None,
            token: None,
            follow: false,
            options: Map::new(),
        }
    }

    /// Sets the protocol's own options.
    pub fn with(self, options: &impl Serialize) -> ChangeRequest {
        ChangeRequest { options: members(options), ..self }
    }
}

/// Converts options to members; options are structures, so that this cannot fail.
fn members(options: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(options) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

/// User, application and priority of a request. All members are optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Identity {
    /// User, as a distinguished name (`CN=Alice, O=Example`) or as a plain one (`alice@example.org`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    /// Application, in the syntax of RFC 2872: `GUID=http://example.org, APP=voice, VER=1.2`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub application: Option<String>,
    /// Preemption and defending priority (RFC 3181).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<u16>,
    /// Token that proves the name of the user, as `earmark token issue` prints it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub token: Option<String>,
}

impl Identity {
    /// Returns whether all members are missing.
    pub fn is_empty(&self) -> bool {
        *self == Identity::default()
    }
}
