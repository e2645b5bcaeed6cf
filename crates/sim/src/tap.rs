//! A tap: what a node sends and receives in the way of signalling, as the octets that would be on its links.

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

/// One IP packet that passed a tapped node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tapped {
    /// When its last octet had come in, or its first one went out.
    pub at: Time,
    /// Through which interface of the node.
    pub interface: InterfaceId,
    /// The whole packet: IP header and message.
    pub octets: Vec<u8>,
}

impl Network {
    /// From now on keeps the signalling that enters or leaves a node through its links, for
    /// [`take_tapped`](Network::take_tapped). A message that a node passes on is seen twice, as on the wires of a router.
    pub fn tap(&mut self, node: NodeId) {
        self.tapped.entry(node).or_default();
    }

    /// Takes what a tapped node sent and received so far, oldest first; nothing where there is no tap.
    pub fn take_tapped(&mut self, node: NodeId) -> Vec<Tapped> {
        self.tapped.get_mut(&node).map(core::mem::take).unwrap_or_default()
    }

    /// The node at the other end of the link behind an interface.
    pub fn peer(&self, node: NodeId, interface: InterfaceId) -> Option<NodeId> {
        self.hosts[node.0].ports.get(interface).map(|port| port.peer.0)
    }

    /// Whether any node has a tap.
    pub(crate) fn is_tapped(&self) -> bool {
        !self.tapped.is_empty()
    }

    /// A packet passes a link of a node.
    pub(crate) fn passes(&mut self, node: NodeId, interface: InterfaceId, packet: &Packet) {
        if let Some(tapped) = self.tapped.get_mut(&node)
            && let Some(octets) = octets(packet)
        {
            tapped.push(Tapped { at: self.now, interface, octets });
        }
    }
}

/// A message in its IP packet; `None` for data, and for what no IP packet can be.
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
                // Of the other protocols it is that of "any datagram of interest" (RFC 2711: 0).
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
