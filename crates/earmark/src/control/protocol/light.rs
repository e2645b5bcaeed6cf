//! Requests of the protocols that reserve in one pass: Boomerang's loops, and YESSIR's streams.

use std::net::SocketAddr;

use earmark_boomerang::{Account, OnRefusal, ReservationRequest};
use earmark_core::Rate;
use earmark_wire::yessir::Flowspec;
use serde::{Deserialize, Serialize};

use super::{default_ttl, udp};

/// Boomerang: reserve both ways between this host and another one, which only has to answer pings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loop {
    /// Where the data goes; port 0 stands for all ports.
    pub to: SocketAddr,
    /// Where it comes from. An unspecified address, or none, means this host's own; port 0 all ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<SocketAddr>,
    /// IP protocol of the data.
    #[serde(default = "udp")]
    pub ip_protocol: u8,
    /// The rates, `{"forward":bps,"reverse":bps}`, the most wanted first: the network grants the first of them that it can.
    pub wishes: Vec<ReservationRequest>,
    /// Seconds between refreshes; those of the daemon's settings where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<u8>,
    /// What to do when not everything is granted: `"release"`, `"take_offer"`, or `"retry"`.
    #[serde(default = "release")]
    pub on_refusal: OnRefusal,
    /// Only find out what could be had.
    #[serde(default)]
    pub query: bool,
    /// As whom, for nodes that want to know: `{"name":"...","secret":"..."}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<Account>,
    /// Release it when this connection ends.
    #[serde(default)]
    pub hold: bool,
    /// Send its events over this connection.
    #[serde(default)]
    pub follow: bool,
}

impl Loop {
    /// UDP to `to` and back at these rates, released if it is refused.
    pub fn new(to: SocketAddr, forward: Rate, reverse: Rate) -> Loop {
        Loop {
            to,
            from: None,
            ip_protocol: udp(),
            wishes: vec![ReservationRequest { forward, reverse }],
            interval_s: None,
            on_refusal: release(),
            query: false,
            user: None,
            hold: false,
            follow: false,
        }
    }
}

/// YESSIR: announce an RTP stream of this host in sender reports, and so reserve for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attach {
    /// Where the data goes.
    pub to: SocketAddr,
    /// Where it comes from. An unspecified address means this host's own.
    pub from: SocketAddr,
    /// How much: `{"class":{"dscp":46,"rate":octets_per_second}}`, `{"codec":{"payload_type":0,"frames":1}}`,
    /// `{"measured":{"window":60,"headroom":20}}`, or `{"intserv":...}`.
    pub flowspec: Flowspec,
    /// Share one reservation with the other senders to this destination; it is as large as the largest of them wants.
    #[serde(default)]
    pub shared: bool,
    /// Reports use the ports of the data (RFC 5761).
    #[serde(default)]
    pub multiplexed: bool,
    /// Only find out what the way offers.
    #[serde(default)]
    pub query: bool,
    /// Seconds between reports; those of the daemon's settings where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<u16>,
    /// SSRC of the stream; drawn at random where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssrc: Option<u32>,
    /// Canonical name of the source, `user@host`; one with the node's name where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cname: Option<String>,
    /// TTL of the data, and so the reach of the reports.
    #[serde(default = "default_ttl")]
    pub ttl: u8,
    /// The key to sign with, by its number in the daemon's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<u32>,
    /// Release it when this connection ends.
    #[serde(default)]
    pub hold: bool,
    /// Send its events over this connection.
    #[serde(default)]
    pub follow: bool,
}

impl Attach {
    /// A stream from port to port, with nothing else said.
    pub fn new(from: SocketAddr, to: SocketAddr, flowspec: Flowspec) -> Attach {
        Attach {
            to,
            from,
            flowspec,
            shared: false,
            multiplexed: false,
            query: false,
            interval_s: None,
            ssrc: None,
            cname: None,
            ttl: default_ttl(),
            key: None,
            hold: false,
            follow: false,
        }
    }
}

/// YESSIR: answer streams that are announced to this host or to a group, so that their senders know what they have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Where the data arrives.
    pub on: SocketAddr,
    /// Canonical name of the answers; one with the node's name where nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cname: Option<String>,
    /// End it when this connection ends.
    #[serde(default)]
    pub hold: bool,
    /// Send its events over this connection.
    #[serde(default)]
    pub follow: bool,
}

impl Answer {
    /// With nothing else said.
    pub fn new(on: SocketAddr) -> Answer {
        Answer { on, cname: None, hold: false, follow: false }
    }
}

/// YESSIR: how much of its stream an application has sent; what is measured goes by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statistics {
    /// Whose stream.
    pub application: u64,
    /// Packets since the beginning.
    pub packets: u32,
    /// Octets of payload in them.
    pub octets: u32,
    /// Time now in the units of the media clock.
    pub rtp_timestamp: u32,
}

fn release() -> OnRefusal {
    OnRefusal::Release
}
