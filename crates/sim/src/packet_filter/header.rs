//! What a packet filter reads of a packet and rewrites in it: addresses, protocol, ports, SPI and ICMP type.

use core::net::IpAddr;

use earmark_core::{Endpoint, FilteredPackets};
use earmark_wire::{icmp, ipsec, udp};

use crate::connections::TCP;
use crate::packet::{Body, Packet};

/// IP protocol numbers of ICMP and ICMPv6.
const ICMP: [u8; 2] = [1, 58];
/// Types of echo requests and replies, of ICMP and ICMPv6.
const ECHO_REQUEST: [u8; 2] = [8, 128];
const ECHO_REPLY: [u8; 2] = [0, 129];
/// Protocols whose packets begin with the ports: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u8; 5] = [TCP, udp::PROTOCOL, 33, 132, 136];

/// Source, destination and protocol of packets of one direction of a connection. The port of the end that sends echo requests
/// is their identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Tuple {
    pub(super) source: Endpoint,
    pub(super) destination: Endpoint,
    pub(super) protocol: u8,
}

impl Tuple {
    /// Returns the tuple of the packets in the other direction.
    pub(super) fn inverted(self) -> Tuple {
        Tuple { source: self.destination, destination: self.source, ..self }
    }

    /// Returns whether packets have ports that a translation may change.
    pub(super) fn has_ports(&self) -> bool {
        WITH_PORTS.contains(&self.protocol)
    }

    /// Returns whether packets of this tuple are those of a rule, as far as its addresses, protocol and ports say.
    pub(super) fn is_of(&self, packets: &FilteredPackets) -> bool {
        let flow = &packets.flow;
        let ports = !self.has_ports()
            || (flow.source_port == 0 || flow.source_port == self.source.port)
                && (flow.destination_port == 0 || flow.destination_port == self.destination.port);
        flow.destination == self.destination.address
            && flow.source.is_none_or(|source| source == self.source.address)
            && (flow.protocol == 0 || flow.protocol == self.protocol)
            && ports
    }
}

/// Header fields of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) tuple: Tuple,
    /// SPI of ESP or AH; 0 for none.
    pub(super) spi: u32,
    pub(super) icmp_type: Option<u8>,
}

impl Packet {
    /// Returns the fields that a packet filter reads.
    pub(super) fn header(&self) -> Header {
        let (mut ports, mut spi, mut icmp_type) = ((0, 0), 0, None);
        match &self.body {
            Body::Data { source_port, destination_port, .. } => {
                ports = (*source_port, *destination_port);
            }
            Body::Signalling(octets) if WITH_PORTS.contains(&self.protocol) => {
                ports = (word_at(octets, 0), word_at(octets, 2));
            }
            Body::Signalling(octets) if ICMP.contains(&self.protocol) => {
                icmp_type = octets.first().copied();
                let identifier = word_at(octets, 4);
                if icmp_type.is_some_and(|of| ECHO_REQUEST.contains(&of)) {
                    ports.0 = identifier;
                } else if icmp_type.is_some_and(|of| ECHO_REPLY.contains(&of)) {
                    ports.1 = identifier;
                }
            }
            Body::Signalling(octets) if ipsec::has_spi(self.protocol) => {
                let offset = if self.protocol == ipsec::AH { 4 } else { 0 };
                let [high, low] = [0, 2].map(|more| u32::from(word_at(octets, offset + more)));
                spi = high << 16 | low;
            }
            Body::Signalling(_) => {}
        }
        let tuple = Tuple {
            source: Endpoint { address: self.source, port: ports.0 },
            destination: Endpoint { address: self.destination, port: ports.1 },
            protocol: self.protocol,
        };
        Header { tuple, spi, icmp_type }
    }

    /// Sets the addresses and ports of a packet whose tuple is `old`, and updates its checksum (RFC 1624).
    pub(super) fn rewrite(&mut self, old: &Tuple, new: &Tuple) {
        (self.source, self.destination) = (new.source.address, new.destination.address);
        let (source, destination) = (new.source.port, new.destination.port);
        match &mut self.body {
            Body::Data { source_port, destination_port, .. } => {
                (*source_port, *destination_port) = (source, destination);
            }
            Body::Signalling(octets) => {
                if new.has_ports() && octets.len() >= 4 {
                    octets[..2].copy_from_slice(&source.to_be_bytes());
                    octets[2..4].copy_from_slice(&destination.to_be_bytes());
                }
                let Some((offset, may_be_absent)) = checksum_of(self.protocol) else { return };
                let is_absent = may_be_absent && word_at(octets, offset) == 0;
                if let Some(field) = octets.get_mut(offset - 2..).filter(|_| !is_absent) {
                    icmp::update_checksum(field, &covered(old), &covered(new));
                }
            }
        }
    }
}

/// Returns the offset of the checksum of a protocol that covers addresses, and whether zero means that there is none.
const fn checksum_of(protocol: u8) -> Option<(usize, bool)> {
    match protocol {
        TCP => Some((16, false)),
        udp::PROTOCOL => Some((6, true)),
        58 => Some((2, false)),
        _ => None,
    }
}

/// Returns the addresses and ports, as a checksum counts them.
fn covered(tuple: &Tuple) -> [u8; 36] {
    let mut octets = [0; 36];
    for (at, end) in [(0, tuple.source), (18, tuple.destination)] {
        match end.address {
            IpAddr::V4(address) => octets[at..at + 4].copy_from_slice(&address.octets()),
            IpAddr::V6(address) => octets[at..at + 16].copy_from_slice(&address.octets()),
        }
        if tuple.has_ports() {
            octets[at + 16..at + 18].copy_from_slice(&end.port.to_be_bytes());
        }
    }
    octets
}

/// Returns two octets; zero where there are none.
fn word_at(octets: &[u8], offset: usize) -> u16 {
    octets.get(offset..offset + 2).map_or(0, |two| u16::from_be_bytes([two[0], two[1]]))
}
