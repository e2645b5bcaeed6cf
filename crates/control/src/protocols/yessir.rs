//! Options of YESSIR, and its refusals as text.

use std::net::SocketAddr;

use earmark_core::{ApplicationId, Rate};
use earmark_wire::yessir::{FailureNote, FailureReason, LinkInfo, OctetRate};
use serde::{Deserialize, Serialize};

use crate::{ListenRequest, ReservationRequest};

/// Options of YESSIR in a [`ReservationRequest`]. The bandwidth is that of the request, or else of `codec` or `measured`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ReserveOptions {
    /// Differentiated services code point: the rate of the request is for a class of packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<u8>,
    /// Guaranteed service for the traffic of the request (RFC 2212).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guaranteed: Option<Guaranteed>,
    /// Bandwidth of a payload format.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub codec: Option<Codec>,
    /// Bandwidth measured from the reports.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured: Option<Measured>,
    /// Whether one reservation is shared with the other senders to this destination, as large as the largest of them.
    pub shared: bool,
    /// Whether reports use the ports of the data (RFC 5761).
    pub multiplexed: bool,
    /// Interval between reports, seconds; by default that of the daemon's settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interval_s: Option<u16>,
    /// SSRC of the stream; random by default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ssrc: Option<u32>,
    /// Canonical name of the source, `user@host`; by default one with the node's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cname: Option<String>,
}

/// Parameters of guaranteed service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Guaranteed {
    /// Reserved rate R.
    pub rate_bps: Rate,
    /// Slack term S, microseconds.
    #[serde(default)]
    pub slack_us: u32,
}

/// A payload format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Codec {
    /// RTP payload type (RFC 3551 section 6).
    pub payload_type: u8,
    /// Frames in each packet.
    #[serde(default = "one")]
    pub frames: u8,
}

/// Measurement of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// Window of which the largest rate counts, seconds.
    pub window: u16,
    /// Headroom added to the measured rate, percent.
    pub headroom: u16,
}

/// Options of YESSIR in a [`ListenRequest`].
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ListenOptions {
    /// Canonical name in the answers; by default one with the node's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cname: Option<String>,
}

/// Creates a request for a stream between these endpoints.
pub fn request(from: SocketAddr, to: SocketAddr, options: &ReserveOptions) -> ReservationRequest {
    let from = Some(from);
    ReservationRequest { from, ..ReservationRequest::of("yessir", to).with(options) }
}

/// Creates a request to answer streams to `on`.
pub fn listen_request(on: SocketAddr) -> ListenRequest {
    ListenRequest::of("yessir", on)
}

fn one() -> u8 {
    1
}

/// A request of YESSIR: the amount of its stream that an application has sent, for measured reservations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct Statistics {
    /// Number of the application.
    pub application: ApplicationId,
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
    format!("{node} refused: {}; {} available there", failure_reason(*reason), rate(*available))
}

/// Describes the path as announced to a receiver.
pub fn way(offered: Option<&LinkInfo>) -> String {
    let Some(&LinkInfo { hops, other_hops, path_mtu, available, latency_us, .. }) = offered else {
        return "no node on the path reports an available rate".to_owned();
    };
    let others = if other_hops { ", and over nodes without YESSIR" } else { "" };
    format!(
        "{} available over {hops} nodes with YESSIR{others} (packets of {path_mtu} octets, \
         latency {latency_us} us)",
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
