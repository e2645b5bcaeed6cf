//! A packet on its way.

use alloc::vec::Vec;
use core::net::IpAddr;

/// IP protocol number of RSVP.
pub(crate) const RSVP: u8 = 46;
/// IP protocol number of UDP.
pub(crate) const UDP: u8 = 17;

/// An IP packet, as far as the network looks at it.
#[derive(Clone, Debug)]
pub(crate) struct Packet {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: u8,
    pub(crate) ttl: u8,
    pub(crate) router_alert: bool,
    /// Octets of the whole IP packet.
    pub(crate) length: u32,
    /// Whether one of its bits is turned over.
    pub(crate) damaged: bool,
    pub(crate) body: Body,
}

/// What a packet carries.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// A message for a protocol engine.
    Signalling(Vec<u8>),
    /// One packet of a stream; its octets do not matter.
    Data { source_port: u16, destination_port: u16, stream: usize, sequence: u64 },
}

impl Packet {
    /// A message in its IP packet: header, and the router-alert option where it is wanted.
    pub(crate) fn signalling(out: &earmark_core::Outgoing, payload: &[u8]) -> Packet {
        let header = match (out.source.is_ipv4(), out.router_alert) {
            (true, false) => 20,
            (true, true) => 24,
            (false, false) => 40,
            (false, true) => 48,
        };
        Packet {
            source: out.source,
            destination: out.destination,
            protocol: out.protocol,
            ttl: out.ttl,
            router_alert: out.router_alert,
            length: header + u32::try_from(payload.len()).unwrap_or(u32::MAX - header),
            damaged: false,
            body: Body::Signalling(payload.to_vec()),
        }
    }
}
