//! The fragments: each with its fields, and how they stand on the wire.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use super::error::ErrorKind;
use super::iana::{AddressFamily, Command, FailureReason, Style};
use crate::intserv::{FlowSpec, Rspec, TokenBucket};

/// Length of a fragment's header, octets: type, flags, length with the header.
pub const HEADER: usize = 4;

/// A number of octets per second as it stands on the wire: an IEEE 754 single. Two are equal when their bits are.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OctetRate(#[serde(with = "crate::intserv::exact")] pub f32);

impl PartialEq for OctetRate {
    fn eq(&self, other: &OctetRate) -> bool {
        self.0.to_bits() == other.0.to_bits()
    }
}

impl Eq for OctetRate {}

/// GENERIC: what a sender wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generic {
    /// What is to be done.
    pub command: Command,
    /// With whom bandwidth is shared.
    pub style: Style,
    /// Time between two reports, seconds; they come after 0.7 to 1.3 times that.
    pub interval: u16,
    /// Names the reservation to its sender, who finds it in the answers.
    pub reservation: u32,
    /// Data and reports use the same ports (rtcp-mux, RFC 5761). Otherwise those of the data are one less.
    pub multiplexed: bool,
}

/// One of the four flowspecs: how much.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Flowspec {
    /// As integrated services have it.
    Intserv(FlowSpec),
    /// As the payload format has it.
    Codec {
        /// RTP payload type (RFC 3551 section 6).
        payload_type: u8,
        /// Frames in one packet; 0 counts as 1. See [`super::codec::packet_stream`].
        frames: u8,
    },
    /// A rate for a class of packets.
    Class {
        /// Differentiated services code point of the data.
        dscp: u8,
        /// How much.
        rate: OctetRate,
    },
    /// As much as the reports show.
    Measured {
        /// Over how much time the largest rate counts, seconds.
        window: u16,
        /// What is added to it, percent.
        headroom: u16,
    },
}

/// LINK_INFO: what the way offers, as routers fill it in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkInfo {
    /// TTL with which the sender sent the report; 0 where it does not say.
    pub send_ttl: u8,
    /// Routers so far that speak YESSIR.
    pub hops: u8,
    /// There is one that does not.
    pub other_hops: bool,
    /// Smallest MTU of the links so far, octets.
    pub path_mtu: u16,
    /// Least that is left on a link so far.
    pub available: OctetRate,
    /// Sum of the smallest latencies of the links so far, microseconds.
    pub latency_us: u32,
}

impl LinkInfo {
    /// As a sender begins it: any link is less. Sent with this TTL.
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

/// One entry of FAILURE: a hop that has not reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureNote {
    /// Why.
    pub reason: FailureReason,
    /// Which on the way: 0 is the sender's own host, 1 the first router that speaks YESSIR; 65 535 where the message has no
    /// LINK_INFO in which they are counted.
    pub hop: u16,
    /// What could have been reserved.
    pub available: OctetRate,
    /// Who says so: the address of the link that lacks it, or another one of the node.
    pub node: IpAddr,
}

/// AUTH: who vouches for the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Auth {
    /// Names the key.
    pub key: u32,
    /// Larger in each message than in the one before.
    pub sequence: u64,
    /// HMAC-SHA-256 of [`super::covered`], cut to 16 octets.
    pub digest: [u8; 16],
}

/// Flag of GENERIC: rtcp-mux.
const MULTIPLEXED: u8 = 0x01;
/// Flag in the body of LINK_INFO: a hop that does not speak YESSIR was seen.
const OTHER_HOPS: u8 = 0x01;
/// Service numbers of FLOWSPEC_INTSERV, as RFC 2210 has them.
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

    /// What of it is not known here, and at which octet of the body that is.
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

/// Body of FLOWSPEC_INTSERV, octets.
pub(super) const INTSERV: usize = 32;

/// `None` where the service is not known.
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
    /// Octets of the longest, with an IPv6 address.
    pub const MOST: usize = 24;

    /// Reads the one at the front of `octets`: it, and what is behind it.
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

    /// It as octets, and how many of them count.
    pub fn to_octets(&self) -> ([u8; Self::MOST], usize) {
        let mut octets = [0; Self::MOST];
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
