//! Requests of YESSIR, and its refusals as text.

use std::net::SocketAddr;

use earmark_core::Rate;
use earmark_wire::yessir::{FailureNote, FailureReason, Flowspec, LinkInfo, OctetRate};
use serde::{Deserialize, Serialize};

use super::default_ttl;

/// A request of YESSIR: announce an RTP stream of this host in sender reports, which reserve for it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Attach {
    /// Destination of the data.
    pub to: SocketAddr,
    /// Source of the data. An unspecified address means this host's own.
    pub from: SocketAddr,
    /// Rate: `{"class":{"dscp":46,"rate":octets_per_second}}`, `{"codec":{"payload_type":0,"frames":1}}`,
    /// `{"measured":{"window":60,"headroom":20}}`, or `{"intserv":...}`.
    pub flowspec: Flowspec,
    /// Whether one reservation is shared with the other senders to this destination, as large as the largest of them.
    #[serde(default)]
    pub shared: bool,
    /// Whether reports use the ports of the data (RFC 5761).
    #[serde(default)]
    pub multiplexed: bool,
    /// Whether to query the available rate only.
    #[serde(default)]
    pub query: bool,
    /// Interval between reports, seconds; by default that of the daemon's settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<u16>,
    /// SSRC of the stream; random by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ssrc: Option<u32>,
    /// Canonical name of the source, `user@host`; by default one with the node's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cname: Option<String>,
    /// TTL of the data, and so of the reports.
    #[serde(default = "default_ttl")]
    pub ttl: u8,
    /// Number of the key in the daemon's settings to sign with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<u32>,
    /// Whether the reservation is released when this connection ends.
    #[serde(default)]
    pub hold: bool,
    /// Whether its events are sent over this connection.
    #[serde(default)]
    pub follow: bool,
}

impl Attach {
    /// A request for a stream between these endpoints, with defaults otherwise.
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

/// A request of YESSIR: answer streams to this host or a group, so that their senders learn what is reserved.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Answer {
    /// Destination of the data.
    pub on: SocketAddr,
    /// Canonical name in the answers; by default one with the node's name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cname: Option<String>,
    /// Whether the application ends when this connection ends.
    #[serde(default)]
    pub hold: bool,
    /// Whether its events are sent over this connection.
    #[serde(default)]
    pub follow: bool,
}

impl Answer {
    /// A request for streams to `on`, with defaults otherwise.
    pub fn new(on: SocketAddr) -> Answer {
        Answer { on, cname: None, hold: false, follow: false }
    }
}

/// A request of YESSIR: the amount of its stream that an application has sent, for measured reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Statistics {
    /// Number of the application.
    pub application: u64,
    /// Packets since the start.
    pub packets: u32,
    /// Octets of payload in these packets.
    pub octets: u32,
    /// Current RTP timestamp, in units of the media clock.
    pub rtp_timestamp: u32,
}

/// Describes the refusal of a hop.
pub fn failure(note: &FailureNote) -> String {
    let FailureNote { reason, available, node, .. } = note;
    format!("{node} refused: {}; {} could be had there", failure_reason(*reason), rate(*available))
}

/// Describes the path as announced to a receiver.
pub fn way(offered: Option<&LinkInfo>) -> String {
    let Some(&LinkInfo { hops, other_hops, path_mtu, available, latency_us, .. }) = offered else {
        return "nobody on the way tells what could be had".to_owned();
    };
    let others = if other_hops { ", and over others that speak none" } else { "" };
    format!(
        "{} could be had over {hops} nodes that speak YESSIR{others} (packets of {path_mtu} octets, latency {latency_us} us)",
        rate(available)
    )
}

/// Converts a rate to bits per second.
fn rate(rate: OctetRate) -> Rate {
    Rate::from_octets_per_second(rate.0)
}

/// Describes the reason of a refusal.
pub fn failure_reason(reason: FailureReason) -> String {
    match reason {
        FailureReason::Unknown(code) => format!("reason {code}"),
        known => known.name().to_lowercase(),
    }
}
