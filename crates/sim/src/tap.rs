//! A tap: the signalling that a node sends and receives, as the octets on its links.

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::{InterfaceId, Time};
use earmark_wire::{ipv4, ipv6};

use crate::network::{Network, NodeId};
use crate::packet::{Body, Packet, RSVP};

/// Type of service of signalling: internetwork control (RFC 791), as the daemon sets it.
const TYPE_OF_SERVICE: u8 = 0xc0;
/// Octets of the longest header: IPv6 with the router-alert option.
const LONGEST_HEADER: usize = 48;

/// One IP packet sent or received by a tapped node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tapped {
    /// Time when its last octet was received, or its first one sent.
    pub at: Time,
    /// Interface of the node.
    pub interface: InterfaceId,
    /// The whole packet: IP header and message.
    pub octets: Vec<u8>,
}

impl Network {
    /// Records the signalling that enters or leaves a node through its links from now on, for
    /// [`take_tapped`](Network::take_tapped). A forwarded message is recorded twice, as on the links of a router.
    pub fn tap(&mut self, node: NodeId) {
        self.tapped.entry(node).or_default();
    }

    /// Returns the packets that a tapped node has sent and received so far, oldest first, and removes them; empty
    /// without a tap.
    pub fn take_tapped(&mut self, node: NodeId) -> Vec<Tapped> {
        self.tapped.get_mut(&node).map(core::mem::take).unwrap_or_default()
    }

    /// Returns the node at the other end of the link behind an interface.
    pub fn peer(&self, node: NodeId, interface: InterfaceId) -> Option<NodeId> {
        self.hosts[node.0].ports.get(interface).map(|port| port.peer.0)
    }

    /// Whether any node has a tap.
    pub(crate) fn is_tapped(&self) -> bool {
        !self.tapped.is_empty()
    }

    /// Records a packet on a link of a node, if it has a tap.
    pub(crate) fn passes(&mut self, node: NodeId, interface: InterfaceId, packet: &Packet) {
        if let Some(tapped) = self.tapped.get_mut(&node)
            && let Some(octets) = octets(packet)
        {
            tapped.push(Tapped { at: self.now, interface, octets });
        }
    }
}

/// Encodes a message in its IP packet; `None` for data, and if no valid IP packet results.
fn octets(packet: &Packet) -> Option<Vec<u8>> {
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
            router_alert: match packet.protocol {
                // The other protocols have the value of "any datagram of interest" (RFC 2711: 0).
                RSVP => packet.router_alert.then_some(ipv6::ALERT_RSVP),
                _ => packet.router_alert.then_some(0),
            },
            next_header: packet.protocol,
            payload_len: payload.len(),
        }
        .emit(&mut header),
        _ => return None,
    };
    Some([header.get(..length.ok()?)?, payload].concat())
}
