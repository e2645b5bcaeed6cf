//! The fragments with their fields and wire formats.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use super::error::ErrorKind;
use super::iana::{AddressFamily, Command, FailureReason, Style};
use crate::intserv::{FlowSpec, Rspec, TokenBucket};

/// Length of a fragment's header, octets: type, flags, length including the header.
pub const HEADER: usize = 4;

/// A rate in octets per second, an IEEE 754 single on the wire. Equality compares bits.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OctetRate(#[serde(with = "crate::intserv::exact")] pub f32);

impl PartialEq for OctetRate {
    fn eq(&self, other: &OctetRate) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for OctetRate {}

/// GENERIC: the sender's request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generic {
    /// Command.
    pub command: Command,
    /// Sharing of the reservation.
    pub style: Style,
    /// Interval between reports, seconds; the actual interval is 0.7 to 1.3 times that.
    pub interval: u16,
    /// Identifier of the reservation at its sender, repeated in answers.
    pub reservation: u32,
    /// Whether data and reports use the same ports (rtcp-mux, RFC 5761). Otherwise the ports of the data are one less.
    pub multiplexed: bool,
}

/// One of the four flowspecs: the requested bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flowspec {
    /// FlowSpec of integrated services.
    Intserv(FlowSpec),
    /// Bandwidth of a payload format.
    Codec {
        /// RTP payload type (RFC 3551 section 6).
        payload_type: u8,
        /// Frames in each packet; 0 counts as 1. See [`super::codec::packet_stream`].
        frames: u8,
    },
    /// Rate for a class of packets.
    Class {
        /// Differentiated services code point of the data.
        dscp: u8,
        /// Requested rate.
        rate: OctetRate,
    },
    /// Rate measured from the reports.
    Measured {
        /// Measurement window, of which the largest rate counts, seconds.
        window: u16,
        /// Headroom added to the measured rate, percent.
        headroom: u16,
    },
}

/// LINK_INFO: properties of the path, updated by routers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkInfo {
    /// TTL with which the sender sent the report; 0 if unknown.
    pub send_ttl: u8,
    /// Number of YESSIR routers so far.
    pub hops: u8,
    /// Whether a router without YESSIR was seen.
    pub other_hops: bool,
    /// Smallest MTU of the links so far, octets.
    pub path_mtu: u16,
    /// Minimum available rate of the links so far.
    pub available: OctetRate,
    /// Sum of the minimum latencies of the links so far, microseconds.
    pub latency_us: u32,
}

impl LinkInfo {
    /// Creates the LINK_INFO of a sender, without limits yet, for a report sent with this TTL.
    pub const fn unknown(send_ttl: u8) -> LinkInfo {
        LinkInfo {
            send_ttl,
            hops: 0,
            other_hops: false,
            path_mtu: u16::MAX,
            available: OctetRate(f32::INFINITY),
            latency_us: 0,
        }
    }
}

/// An entry of FAILURE: a hop without reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureNote {
    /// Reason of the failure.
    pub reason: FailureReason,
    /// Position on the path: 0 is the sender's own host, 1 the first YESSIR router; 65 535 if the message has no
    /// LINK_INFO to count them.
    pub hop: u16,
    /// Rate that could have been reserved.
    pub available: OctetRate,
    /// Address of the reporting node: that of the link that lacks the bandwidth, or another one.
    pub node: IpAddr,
}

/// AUTH: authentication of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auth {
    /// Key identifier.
    pub key: u32,
    /// Sequence number, which increases with each message.
    pub sequence: u64,
    /// HMAC-SHA-256 of [`super::covered`], truncated to 16 octets.
    pub digest: [u8; 16],
}

/// Flag of GENERIC: rtcp-mux.
const MULTIPLEXED: u8 = 0x01;
/// Flag in the body of LINK_INFO: a hop without YESSIR was seen.
const OTHER_HOPS: u8 = 0x01;
/// Service numbers of FLOWSPEC_INTSERV, as in RFC 2210.
const CONTROLLED_LOAD: u32 = 5;
const GUARANTEED: u32 = 2;

impl Generic {
    pub(super) const LEN: usize = HEADER + 8;

    #[inline]
    pub(super) fn read(flags: u8, body: [u8; 8]) -> Generic {
        let [command, style, i0, i1, r0, r1, r2, r3] = body;
        Generic {
            command: Command::from_code(command),
            style: Style::from_code(style),
            interval: u16::from_be_bytes([i0, i1]),
            reservation: u32::from_be_bytes([r0, r1, r2, r3]),
            multiplexed: flags & MULTIPLEXED != 0,
        }
    }

    /// Returns an unknown field with its offset in the body.
    #[inline]
    pub(super) fn unknown(&self) -> Option<(ErrorKind, usize)> {
        match (self.command, self.style) {
            (Command::Unknown(_), _) => Some((ErrorKind::Command, 0)),
            (_, Style::Unknown(_)) => Some((ErrorKind::Style, 1)),
            _ => None,
        }
    }

    pub(super) fn flags(&self) -> u8 {
        if self.multiplexed { MULTIPLEXED } else { 0 }
    }

    pub(super) fn body(&self) -> [u8; 8] {
        let [i0, i1] = self.interval.to_be_bytes();
        let [r0, r1, r2, r3] = self.reservation.to_be_bytes();
        [self.command.code(), self.style.code(), i0, i1, r0, r1, r2, r3]
    }
}

/// Length of the body of FLOWSPEC_INTSERV, octets.
pub(super) const INTSERV: usize = 32;

/// Parses the body; `None` if the service is unknown.
#[inline]
pub(super) fn read_intserv(body: &[u8; INTSERV]) -> Option<FlowSpec> {
    let (words, _) = body.as_chunks::<4>();
    let word = |i: usize| u32::from_be_bytes(words.get(i).copied().unwrap_or_default());
    let single = |i: usize| f32::from_bits(word(i));
    let bucket = TokenBucket {
        rate: single(0),
        depth: single(1),
        peak: single(2),
        min_policed_unit: word(3),
        max_packet_size: word(4),
    };
    match word(5) {
        CONTROLLED_LOAD => Some(FlowSpec::ControlledLoad(bucket)),
        GUARANTEED => {
            Some(FlowSpec::Guaranteed(bucket, Rspec { rate: single(6), slack_us: word(7) }))
        }
        _ => None,
    }
}

pub(super) fn intserv_body(flowspec: &FlowSpec) -> [u8; INTSERV] {
    let bucket = flowspec.token_bucket();
    let (service, rate, slack) = match flowspec {
        FlowSpec::ControlledLoad(_) => (CONTROLLED_LOAD, 0, 0),
        FlowSpec::Guaranteed(_, rspec) => (GUARANTEED, rspec.rate.to_bits(), rspec.slack_us),
    };
    let words = [
        bucket.rate.to_bits(),
        bucket.depth.to_bits(),
        bucket.peak.to_bits(),
        bucket.min_policed_unit,
        bucket.max_packet_size,
        service,
        rate,
        slack,
    ];
    let mut body = [0; INTSERV];
    for (target, word) in body.as_chunks_mut().0.iter_mut().zip(words) {
        *target = word.to_be_bytes();
    }
    body
}

impl LinkInfo {
    pub(super) const LEN: usize = HEADER + 12;

    #[inline]
    pub(super) fn read(send_ttl: u8, body: [u8; 12]) -> LinkInfo {
        let [hops, flags, m0, m1, a0, a1, a2, a3, l0, l1, l2, l3] = body;
        LinkInfo {
            send_ttl,
            hops,
            other_hops: flags & OTHER_HOPS != 0,
            path_mtu: u16::from_be_bytes([m0, m1]),
            available: OctetRate(f32::from_be_bytes([a0, a1, a2, a3])),
            latency_us: u32::from_be_bytes([l0, l1, l2, l3]),
        }
    }

    #[inline]
    pub(super) fn body(&self) -> [u8; 12] {
        let flags = if self.other_hops { OTHER_HOPS } else { 0 };
        let [m0, m1] = self.path_mtu.to_be_bytes();
        let [a0, a1, a2, a3] = self.available.0.to_be_bytes();
        let [l0, l1, l2, l3] = self.latency_us.to_be_bytes();
        [self.hops, flags, m0, m1, a0, a1, a2, a3, l0, l1, l2, l3]
    }
}

impl FailureNote {
    /// Maximum length of a note, with an IPv6 address; octets.
    pub const MAX_LEN: usize = 24;

    /// Splits the first note off `octets`.
    pub(super) fn split(octets: &[u8]) -> Option<(FailureNote, &[u8])> {
        let (&[family, reason, h0, h1, a0, a1, a2, a3], behind) = octets.split_first_chunk()?;
        let (node, behind) = match AddressFamily::from_code(family) {
            AddressFamily::Ipv4 => {
                let (address, behind) = behind.split_first_chunk::<4>()?;
                (IpAddr::V4(Ipv4Addr::from(*address)), behind)
            }
            AddressFamily::Ipv6 => {
                let (address, behind) = behind.split_first_chunk::<16>()?;
                (IpAddr::V6(Ipv6Addr::from(*address)), behind)
            }
            AddressFamily::Unknown(_) => return None,
        };
        let note = FailureNote {
            reason: FailureReason::from_code(reason),
            hop: u16::from_be_bytes([h0, h1]),
            available: OctetRate(f32::from_be_bytes([a0, a1, a2, a3])),
            node,
        };
        Some((note, behind))
    }

    /// Returns the octets of the note, and their number.
    pub fn to_octets(&self) -> ([u8; Self::MAX_LEN], usize) {
        let mut octets = [0; Self::MAX_LEN];
        let (family, length) = match self.node {
            IpAddr::V4(node) => {
                octets[8..12].copy_from_slice(&node.octets());
                (AddressFamily::Ipv4, 12)
            }
            IpAddr::V6(node) => {
                octets[8..24].copy_from_slice(&node.octets());
                (AddressFamily::Ipv6, 24)
            }
        };
        let [h0, h1] = self.hop.to_be_bytes();
        let [a0, a1, a2, a3] = self.available.0.to_be_bytes();
        let head = [family.code(), self.reason.code(), h0, h1, a0, a1, a2, a3];
        octets[..8].copy_from_slice(&head);
        (octets, length)
    }
}

impl Auth {
    pub(super) const LEN: usize = HEADER + 28;

    pub(super) fn read(body: &[u8; 28]) -> Auth {
        let &[k0, k1, k2, k3, s0, s1, s2, s3, s4, s5, s6, s7, ref digest @ ..] = body;
        Auth {
            key: u32::from_be_bytes([k0, k1, k2, k3]),
            sequence: u64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
            digest: *digest,
        }
    }

    pub(super) fn body(&self) -> [u8; 28] {
        let mut body = [0; 28];
        body[..4].copy_from_slice(&self.key.to_be_bytes());
        body[4..12].copy_from_slice(&self.sequence.to_be_bytes());
        body[12..].copy_from_slice(&self.digest);
        body
    }
}
