//! A message on its way to the router: delivered directly, or sent as a packet to such a router elsewhere.

use std::net::{IpAddr, Ipv4Addr};

use earmark_core::{Datagram, InterfaceId};
use earmark_wire::ipv4;
use earmark_wire::rsvp::MessageType;

use super::{LINKS, NEAR, NEIGHBOR_TTL, TTL};

/// Side of the router at which a message arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Side of the senders.
    Near,
    /// Side of the receivers.
    Far,
}

/// An arriving message.
#[derive(Clone)]
pub struct Arrival {
    pub(super) session: u32,
    pub(super) protocol: u8,
    pub(super) interface: InterfaceId,
    pub(super) source: IpAddr,
    pub(super) destination: IpAddr,
    pub(super) octets: Vec<u8>,
}

impl Arrival {
    /// Number of the session of the message.
    pub fn session(&self) -> u32 {
        self.session
    }

    /// IP protocol number.
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Destination address.
    pub fn destination(&self) -> IpAddr {
        self.destination
    }

    /// Side at which the message arrives.
    pub fn side(&self) -> Side {
        if self.interface == NEAR { Side::Near } else { Side::Far }
    }

    /// Octets after the IP header.
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// Source and destination address.
    pub fn ends(&self) -> (IpAddr, IpAddr) {
        (self.source, self.destination)
    }

    /// Returns the message as the router receives it.
    pub(in crate::bench) fn datagram(&self) -> Datagram<'_> {
        Datagram {
            interface: self.interface,
            source: self.source,
            destination: self.destination,
            ttl: self.ttl(),
            router_alert: true,
            encapsulated: false,
            payload: &self.octets,
        }
    }

    /// Returns the TTL that the message has when it arrives.
    pub(super) fn ttl(&self) -> u8 {
        let is_along_path = self.octets.get(1).is_some_and(|code| {
            matches!(
                MessageType::from_code(*code),
                MessageType::Path | MessageType::PathTear | MessageType::ResvConf
            )
        });
        match self.protocol == earmark_rsvp::PROTOCOL && !is_along_path {
            true => NEIGHBOR_TTL,
            false => TTL,
        }
    }

    /// Returns the message as an IPv4 packet, for a network with the addresses of the drawing in [`super`]: with
    /// router alert, unless it is addressed to the router.
    pub fn packet(&self) -> Vec<u8> {
        let v4 = |address: IpAddr| match address {
            IpAddr::V4(address) => address,
            IpAddr::V6(_) => Ipv4Addr::UNSPECIFIED,
        };
        let destination = v4(self.destination);
        let to_router = LINKS.iter().any(|link| link.address == destination);
        let header = ipv4::Repr {
            tos: 0xc0,
            identification: 0,
            dont_fragment: false,
            ttl: self.ttl(),
            protocol: self.protocol,
            source: v4(self.source),
            destination,
            router_alert: (!to_router).then_some(0),
            payload_len: self.octets.len(),
        };
        let mut packet = vec![0; header.header_len()];
        header.emit(&mut packet).expect("messages are shorter than packets may be");
        packet.extend_from_slice(&self.octets);
        packet
    }
}
