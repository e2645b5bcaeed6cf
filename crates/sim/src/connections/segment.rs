//! Segments: the part of TCP (RFC 9293) that connections between simulated nodes need, in TCP's octets, so that captures
//! and faults treat them like any other message.

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_wire::checksum;

/// IP protocol number of TCP.
pub(crate) const TCP: u8 = 6;
/// Octets of the header; there are no options.
pub(crate) const HEADER: usize = 20;
/// Header length in words, in its position.
const DATA_OFFSET: u8 = 5 << 4;

/// Flags.
pub(crate) mod flag {
    pub(crate) const FIN: u8 = 0x01;
    pub(crate) const SYN: u8 = 0x02;
    pub(crate) const RST: u8 = 0x04;
    pub(crate) const ACK: u8 = 0x10;
}

/// A segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) source_port: u16,
    pub(crate) destination_port: u16,
    /// Sequence number of the first octet.
    pub(crate) sequence: u32,
    /// Sequence number of the next expected octet, with [`flag::ACK`].
    pub(crate) acknowledgement: u32,
    pub(crate) flags: u8,
    /// Receive window, octets.
    pub(crate) window: u16,
    pub(crate) payload: Vec<u8>,
}

impl Segment {
    pub(crate) fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// Parses a segment; `None` if it is malformed, or was damaged.
    pub(crate) fn parse(octets: &[u8], source: IpAddr, destination: IpAddr) -> Option<Segment> {
        let (&header, payload) = octets.split_first_chunk::<HEADER>()?;
        let [s0, s1, d0, d1, q0, q1, q2, q3, a0, a1, a2, a3, offset, flags, w0, w1, ..] = header;
        if offset != DATA_OFFSET || checksum_of(octets, source, destination) != 0 {
            return None;
        }
        Some(Segment {
            source_port: u16::from_be_bytes([s0, s1]),
            destination_port: u16::from_be_bytes([d0, d1]),
            sequence: u32::from_be_bytes([q0, q1, q2, q3]),
            acknowledgement: u32::from_be_bytes([a0, a1, a2, a3]),
            flags,
            window: u16::from_be_bytes([w0, w1]),
            payload: payload.into(),
        })
    }

    pub(crate) fn octets(&self, source: IpAddr, destination: IpAddr) -> Vec<u8> {
        let mut octets = Vec::with_capacity(HEADER + self.payload.len());
        octets.extend(self.source_port.to_be_bytes());
        octets.extend(self.destination_port.to_be_bytes());
        octets.extend(self.sequence.to_be_bytes());
        octets.extend(self.acknowledgement.to_be_bytes());
        octets.extend([DATA_OFFSET, self.flags]);
        octets.extend(self.window.to_be_bytes());
        octets.extend([0; 4]);
        octets.extend(&self.payload);
        let checksum = checksum_of(&octets, source, destination).to_be_bytes();
        if let Some(place) = octets.get_mut(16..18) {
            place.copy_from_slice(&checksum);
        }
        octets
    }

    /// Returns the answer to a segment without a connection; a reset gets none (RFC 9293 section 3.10.7.1).
    pub(crate) fn reset_reply(&self) -> Option<Segment> {
        if self.has(flag::RST) {
            return None;
        }
        let extent =
            self.payload.len() as u32 + u32::from(self.has(flag::SYN) || self.has(flag::FIN));
        Some(Segment {
            source_port: self.destination_port,
            destination_port: self.source_port,
            sequence: if self.has(flag::ACK) { self.acknowledgement } else { 0 },
            acknowledgement: self.sequence.wrapping_add(extent),
            flags: flag::RST | flag::ACK,
            window: 0,
            payload: Vec::new(),
        })
    }
}

/// Returns the checksum with the pseudo-header; zero if the present one is right.
fn checksum_of(octets: &[u8], source: IpAddr, destination: IpAddr) -> u16 {
    let mut covered = Vec::with_capacity(40 + octets.len());
    for address in [source, destination] {
        match address {
            IpAddr::V4(address) => covered.extend(address.octets()),
            IpAddr::V6(address) => covered.extend(address.octets()),
        }
    }
    // In IPv6 the length has two more words, which are zero and do not affect the sum.
    covered.extend((octets.len() as u16).to_be_bytes());
    covered.extend([0, TCP]);
    covered.extend(octets);
    checksum::checksum(&covered)
}
