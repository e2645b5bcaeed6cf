//! RSVP inside UDP, for hosts without raw sockets and for their routers (RFC 2205 appendix C, figures 13 and 14).

use alloc::collections::BTreeSet;
use alloc::string::String;

use earmark_core::{Datagram, InterfaceId, Outgoing, Routes};
use earmark_node::Input;
use earmark_wire::rsvp::encapsulation::{self, FROM_OTHERS, FROM_UDP_ONLY};
use earmark_wire::udp;

use crate::host::Host;
use crate::ids::NodeId;
use crate::network::Network;
use crate::packet::{Body, Packet};

/// IP protocol number of RSVP.
const RSVP: u8 = 46;

/// Use of UDP by a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RsvpOverUdp {
    /// None.
    #[default]
    Off,
    /// A node with raw sockets has hosts without them behind the interfaces of these names. What follows the data leaves there
    /// inside UDP, too, and what these hosts send is received.
    Behind(BTreeSet<String>),
    /// A host without raw sockets sends and receives RSVP inside UDP only.
    Only,
}

impl Network {
    /// Sets whether a node signals inside UDP from now on.
    pub fn set_rsvp_over_udp(&mut self, node: NodeId, how: RsvpOverUdp) {
        self.hosts[node.0].rsvp_over_udp = how;
    }

    /// Passes the message inside a UDP packet to the engines of a node.
    pub(crate) fn deliver_from_udp(
        &mut self,
        node: NodeId,
        interface: InterfaceId,
        packet: &Packet,
    ) {
        let Some(message) = self.hosts[node.0].message_in_udp(interface, packet) else { return };
        let datagram = Datagram {
            interface,
            source: packet.source,
            destination: packet.destination,
            ttl: encapsulation::send_ttl(message).unwrap_or_default(),
            router_alert: false,
            encapsulated: true,
            payload: message,
        };
        self.drive(node, Input::Datagram(RSVP, datagram));
    }
}

impl Host {
    /// Returns whether a packet is a message for the raw sockets that the host does not have.
    pub(crate) fn lacks_raw_socket(&self, packet: &Packet) -> bool {
        self.rsvp_over_udp == RsvpOverUdp::Only && packet.protocol == RSVP
    }

    /// Returns whether a UDP socket of the daemon receives a packet to a group, which this host has joined or not.
    pub(crate) fn receives_in_udp(
        &self,
        interface: InterfaceId,
        packet: &Packet,
        has_joined: bool,
    ) -> bool {
        let is_here =
            has_joined || packet.destination == encapsulation::group(packet.destination.is_ipv6());
        is_here && self.message_in_udp(interface, packet).is_some()
    }

    /// Returns the message inside a packet that a UDP socket of the daemon receives.
    pub(crate) fn message_in_udp<'a>(
        &self,
        interface: InterfaceId,
        packet: &'a Packet,
    ) -> Option<&'a [u8]> {
        let ports: &[u16] = match self.rsvp_over_udp {
            RsvpOverUdp::Only => &[FROM_UDP_ONLY, FROM_OTHERS],
            RsvpOverUdp::Behind(_) if self.has_hosts_behind(interface) => &[FROM_UDP_ONLY],
            RsvpOverUdp::Behind(_) | RsvpOverUdp::Off => &[],
        };
        let Body::Signalling(octets) = &packet.body else { return None };
        if ports.is_empty() || packet.protocol != udp::PROTOCOL || self.node.is_none() {
            return None;
        }
        let parsed = udp::Packet::parse(octets).ok()?;
        let is_valid = parsed.verify(packet.source, packet.destination) != udp::Checksum::Invalid;
        (is_valid && ports.contains(&parsed.destination_port)).then_some(parsed.payload)
    }

    /// Returns the packets of a message: alone, inside UDP, or both.
    pub(crate) fn packets(&self, out: &Outgoing, message: &[u8]) -> [Option<Packet>; 2] {
        if out.protocol != RSVP || self.rsvp_over_udp == RsvpOverUdp::Off {
            return [Some(Packet::signalling(out, message)), None];
        }
        let is_only = self.rsvp_over_udp == RsvpOverUdp::Only;
        // What follows the data is for hosts of both kinds.
        let is_for_both =
            out.router_alert && out.interface.is_some_and(|to| self.has_hosts_behind(to));
        let raw = (!is_only && !out.encapsulated).then(|| Packet::signalling(out, message));
        let inside = is_only || out.encapsulated || is_for_both;
        [raw, inside.then(|| self.inside_udp(out, message)).flatten()]
    }

    fn has_hosts_behind(&self, interface: InterfaceId) -> bool {
        let RsvpOverUdp::Behind(names) = &self.rsvp_over_udp else { return false };
        self.interfaces.by_id(interface).is_some_and(|known| names.contains(&known.name))
    }

    fn inside_udp(&self, out: &Outgoing, message: &[u8]) -> Option<Packet> {
        let is_only = self.rsvp_over_udp == RsvpOverUdp::Only;
        let gateway = || self.routes.lookup(out.destination).and_then(|hop| hop.gateway);
        // The first router intercepts no UDP, and gets the messages that follow the data itself.
        let destination = match is_only && out.router_alert {
            true if out.destination.is_multicast() => {
                encapsulation::group(out.destination.is_ipv6())
            }
            true => out.next_hop.or_else(gateway).unwrap_or(out.destination),
            false => out.destination,
        };
        let (interface, source) = match destination.is_multicast() {
            true => {
                let interface = self.outgoing(out)?;
                (Some(interface), self.interfaces.by_id(interface)?.address_like(destination)?)
            }
            false => (out.interface, self.source_for(destination)?),
        };
        let port = if is_only { FROM_UDP_ONLY } else { FROM_OTHERS };
        let header = udp::Repr { source, destination, source_port: port, destination_port: port };
        let mut octets = alloc::vec![0; udp::HEADER + message.len()];
        octets[udp::HEADER..].copy_from_slice(message);
        header.emit(&mut octets).ok()?;
        let (protocol, router_alert) = (udp::PROTOCOL, false);
        let out = Outgoing { protocol, source, destination, router_alert, interface, ..*out };
        Some(Packet::signalling(&out, &octets))
    }
}
