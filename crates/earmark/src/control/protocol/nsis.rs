//! Requests of NSIS: Ping NSLP's questions, and QoS NSLP's reservations.

use std::net::{IpAddr, SocketAddr};

use earmark_core::Rate;
use serde::{Deserialize, Serialize};

use super::{default_burst, default_max_packet, udp};

/// Ping NSLP: find out which nodes on the way to a host take part in signalling.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ping {
    /// Where the way ends.
    pub to: IpAddr,
    /// How many messages are sent.
    #[serde(default = "one")]
    pub count: u32,
    /// Milliseconds between one and the next.
    #[serde(default = "second")]
    pub interval_ms: u32,
    /// Milliseconds that an answer may take; those of the daemon's settings where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u32>,
    /// Ask each node also what it could still reserve.
    #[serde(default)]
    pub qos: bool,
    /// Over connections.
    #[serde(default)]
    pub reliable: bool,
    /// Over connections by TLS.
    #[serde(default)]
    pub secure: bool,
    /// End it when this connection ends.
    #[serde(default)]
    pub hold: bool,
    /// Send its events over this connection.
    #[serde(default)]
    pub follow: bool,
}

impl Ping {
    /// One message in datagrams.
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

/// QoS NSLP: reserve along the path of a flow of this host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Establish {
    /// Where the data goes; port 0 stands for all ports.
    pub to: SocketAddr,
    /// Where it comes from. An unspecified address, or none, means this host's own; port 0 all ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<SocketAddr>,
    /// Flow label of the data, where that tells it from other data: IPv6 only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_label: Option<u32>,
    /// IP protocol of the data.
    #[serde(default = "udp")]
    pub ip_protocol: u8,
    /// Token rate.
    pub rate_bps: Rate,
    /// The least rate that will do; exactly the other one is reserved, or nothing, where this is not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum_bps: Option<Rate>,
    /// Bucket depth, octets.
    #[serde(default = "default_burst")]
    pub burst_octets: u32,
    /// Peak rate; none where it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peak_bps: Option<Rate>,
    /// Largest packet, octets.
    #[serde(default = "default_max_packet")]
    pub max_packet: u32,
    /// How important it is: routers may let it displace what is less.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<u16>,
    /// Have the receiver reserve: it runs `listen`.
    #[serde(default)]
    pub by_receiver: bool,
    /// Only find out what could be had.
    #[serde(default)]
    pub query: bool,
    /// Over connections.
    #[serde(default)]
    pub reliable: bool,
    /// Over connections by TLS.
    #[serde(default)]
    pub secure: bool,
    /// Release it when this connection ends.
    #[serde(default)]
    pub hold: bool,
    /// Send its events over this connection.
    #[serde(default)]
    pub follow: bool,
}

impl Establish {
    /// UDP to `to` at this rate, in datagrams.
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

/// QoS NSLP: reserve for flows to this host whose senders ask for it, and tell of those that come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expect {
    /// Where the data arrives; an unspecified address means all of this host's, port 0 all ports.
    pub on: SocketAddr,
    /// IP protocol of the data.
    #[serde(default = "udp")]
    pub ip_protocol: u8,
    /// The most that is reserved for one flow; whatever its sender announces where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub most_bps: Option<Rate>,
    /// Reserve this for the way back, in a session of its own that is bound to the one that came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse_bps: Option<Rate>,
    /// End it when this connection ends.
    #[serde(default)]
    pub hold: bool,
    /// Send its events over this connection.
    #[serde(default)]
    pub follow: bool,
}

impl Expect {
    /// With nothing else said.
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
