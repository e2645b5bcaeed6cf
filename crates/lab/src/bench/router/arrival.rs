//! A message on its way to the router: handed over as it is, or sent as a packet to a router of that kind elsewhere.

use std::net::{IpAddr, Ipv4Addr};

use earmark_core::InterfaceId;
use earmark_wire::ipv4;

use super::{LINKS, NEAR, TTL};

/// From which side of the router a message comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// From where sessions come.
    Near,
    /// From where they go.
    Far,
}

/// A message on its way in.
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
    /// The session that it is about.
    pub fn session(&self) -> u32 {
        self.session
    }

    /// IP protocol number.
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// To whom it is addressed.
    pub fn destination(&self) -> IpAddr {
        self.destination
    }

    /// Where it comes from.
    pub fn side(&self) -> Side {
        if self.interface == NEAR { Side::Near } else { Side::Far }
    }

    /// What is behind its IP header.
    pub fn octets(&self) -> &[u8] {
        &self.octets
    }

    /// From where to where it goes.
    pub fn ends(&self) -> (IpAddr, IpAddr) {
        (self.source, self.destination)
    }

    /// As an IPv4 packet, for a network that has the addresses of the module's drawing: with router alert, unless it is addressed to
    /// the router.
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
            ttl: TTL,
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
