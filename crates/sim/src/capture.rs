//! Captured packets: the signalling that a node sends and receives, as the octets on its links.

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::{InterfaceId, Time};
use earmark_node::router_alert6;
use earmark_wire::{ipv4, ipv6};

use crate::packet::{Body, Packet};

/// Type of service of signalling: internetwork control (RFC 791), as the daemon sets it.
const TYPE_OF_SERVICE: u8 = 0xc0;
/// Octets of the longest header: IPv6 with the router-alert option.
const LONGEST_HEADER: usize = 48;

/// One IP packet sent or received by a node whose signalling is captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapturedPacket {
    /// Time when its last octet was received, or its first one sent.
    pub at: Time,
    /// Interface of the node.
    pub interface: InterfaceId,
    /// The whole packet: IP header and message.
    pub octets: Vec<u8>,
}

/// Encodes a message in its IP packet; `None` for data, and if no valid IP packet results.
pub(crate) fn octets(packet: &Packet) -> Option<Vec<u8>> {
    let Body::Signalling(payload) = &packet.body else {
        return None;
    };
    let mut header = [0; LONGEST_HEADER];
    let length = match (packet.source, packet.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => ipv4::Repr {
            tos: TYPE_OF_SERVICE,
            identification: 0,
            dont_fragment: false,
            ttl: packet.ttl,
            protocol: packet.protocol,
            source,
            destination,
            router_alert: packet.router_alert.then_some(0),
            payload_len: payload.len(),
        }
        .emit(&mut header),
        (IpAddr::V6(source), IpAddr::V6(destination)) => ipv6::Repr {
            traffic_class: TYPE_OF_SERVICE,
            flow_label: 0,
            hop_limit: packet.ttl,
            source,
            destination,
            router_alert: packet.router_alert.then(|| router_alert6(packet.protocol)),
            next_header: packet.protocol,
            payload_len: payload.len(),
        }
        .emit(&mut header),
        _ => return None,
    };
    Some([header.get(..length.ok()?)?, payload].concat())
}
