//! A packet in the network.

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_wire::icmp::{self, Echo, Kind, PseudoHeader};
use earmark_wire::udp;

/// IP protocol number of UDP.
pub(crate) const UDP: u8 = udp::PROTOCOL;
/// Octets of an Ethernet header, which an IP length does not include.
pub(crate) const FRAMING: u32 = 14;
/// Largest IP packet of a link, octets.
pub(crate) const MTU: u32 = 1_500;
/// Default TTL of the packets that a host sends.
pub(crate) const DEFAULT_TTL: u8 = 64;

/// An IP packet, with the properties that the network uses.
#[derive(Clone, Debug)]
pub struct Packet {
    pub(crate) source: IpAddr,
    pub(crate) destination: IpAddr,
    pub(crate) protocol: u8,
    pub(crate) dscp: u8,
    pub(crate) ttl: u8,
    pub(crate) router_alert: bool,
    /// Whether a daemon sent it; such messages have a queue of their own.
    pub(crate) from_daemon: bool,
    /// Octets of the whole IP packet.
    pub(crate) length: u32,
    /// Whether one of its bits is flipped.
    pub(crate) damaged: bool,
    pub(crate) body: Body,
}

/// Content of a packet.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    /// Significant octets: a message of a protocol engine, a ping, a report of an application.
    Signalling(Vec<u8>),
    /// One packet of a stream; its octets do not matter.
    Data { source_port: u16, destination_port: u16, stream: usize, sequence: u64 },
}

impl Packet {
    /// Returns the octets of the whole IP packet.
    pub fn octets(&self) -> u32 {
        self.length
    }

    /// Returns a message in its IP packet: header, and the router-alert option if requested.
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
            dscp: 0,
            ttl: out.ttl,
            router_alert: out.router_alert,
            from_daemon: true,
            length: header + u32::try_from(payload.len()).unwrap_or(u32::MAX - header),
            damaged: false,
            body: Body::Signalling(payload.to_vec()),
        }
    }

    /// Returns a host's answer to a ping with any content.
    pub(crate) fn echo(&self) -> Option<Packet> {
        let Body::Signalling(octets) = &self.body else { return None };
        let ends = PseudoHeader::of(self.source, self.destination)?;
        if self.protocol != ends.protocol() || Echo::parse(octets, ends).ok()?.kind != Kind::Request
        {
            return None;
        }
        let mut reply = octets.clone();
        icmp::make_reply(&mut reply, ends);
        // The router-alert option is not copied.
        let header = if self.source.is_ipv4() { 20 } else { 40 };
        Some(Packet {
            source: self.destination,
            destination: self.source,
            ttl: DEFAULT_TTL,
            router_alert: false,
            from_daemon: false,
            length: header + u32::try_from(reply.len()).unwrap_or(u32::MAX - header),
            body: Body::Signalling(reply),
            ..*self
        })
    }
}
