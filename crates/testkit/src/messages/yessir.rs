//! YESSIR: any message, in a report.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use earmark_wire::rtcp::{Packet, SenderInfo, SenderReport};
use earmark_wire::udp;
use earmark_wire::yessir::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

use super::{intserv, words};

/// Source of all reports.
pub const SOURCE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
/// Destination of all reports.
pub const DESTINATION: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1));
/// SSRC of all reports.
pub const SSRC: u32 = 0x1234_5678;

/// A message with owned lists.
#[derive(Clone, Debug)]
pub struct Owned {
    /// GENERIC.
    pub generic: Generic,
    /// Flowspec.
    pub flowspec: Option<Flowspec>,
    /// LINK_INFO.
    pub link_info: Option<LinkInfo>,
    /// Notes of FAILURE.
    pub notes: Vec<FailureNote>,
    /// AUTH.
    pub auth: Option<Auth>,
    /// Fragments of other types: type, flags, body.
    pub others: Vec<(u8, u8, Vec<[u8; 4]>)>,
}

impl Owned {
    /// Calls `then` with the message.
    pub fn with<R>(&self, then: impl FnOnce(&Message<'_>) -> R) -> R {
        let mut notes = Vec::new();
        for note in &self.notes {
            let (octets, length) = note.to_octets();
            notes.extend(&octets[..length]);
        }
        let mut others = Vec::new();
        for (number, flags, body) in &self.others {
            let length = u16::try_from(4 + 4 * body.len()).expect("short");
            others.extend([*number, *flags]);
            others.extend(length.to_be_bytes());
            others.extend(body.as_flattened());
        }
        then(&Message {
            ssrc: SSRC,
            generic: self.generic,
            flowspec: self.flowspec,
            link_info: self.link_info,
            failures: Failures::of(&notes).expect("they were written as they should be"),
            auth: self.auth,
            token: None,
            others: &others,
        })
    }

    /// Emits the APP packet into a buffer with other contents.
    ///
    /// # Panics
    /// The message cannot be emitted.
    pub fn app(&self) -> Vec<u8> {
        self.with(|message| {
            let mut app = vec![0xa5; message.buffer_len()];
            assert_eq!(message.emit(&mut app), Ok(app.len()));
            app
        })
    }

    /// Returns the compound with the message in a report.
    pub fn compound(&self) -> Vec<u8> {
        [report(), self.app()].concat()
    }

    /// Returns the compound in UDP.
    /// Returns the compound in UDP, with `behind` behind it.
    ///
    /// # Panics
    /// The packet is too long for UDP.
    pub fn packet(&self, behind: &[u8]) -> Vec<u8> {
        let mut packet = [&[0; udp::HEADER], &self.compound()[..], behind].concat();
        header().emit(&mut packet).expect("it is short");
        packet
    }
}

/// Returns the UDP header of all reports.
pub fn header() -> udp::Repr {
    let (source, destination) = (SOURCE, DESTINATION);
    udp::Repr { source, destination, source_port: 5_001, destination_port: 5_003 }
}

/// Returns the sender report in front of all messages.
///
/// # Panics
/// Never: it is short.
pub fn report() -> Vec<u8> {
    let sender = SenderInfo { ntp: 1 << 32, rtp_timestamp: 2, packets: 3, octets: 4 };
    let report = SenderReport { ssrc: SSRC, sender, blocks: &[], extension: &[] };
    let mut octets = vec![0; 28];
    Packet::SenderReport(report).emit(&mut octets).expect("it fits");
    octets
}

/// Generates rates.
pub fn rate() -> impl Strategy<Value = OctetRate> {
    intserv::single().prop_map(OctetRate)
}

/// Generates GENERIC.
pub fn generic() -> impl Strategy<Value = Generic> {
    let command =
        prop_oneof![Just(Command::Active), Just(Command::Passive), Just(Command::Release)];
    let style = prop_oneof![Just(Style::Individual), Just(Style::Shared)];
    (command, style, any::<u16>(), any::<u32>(), any::<bool>()).prop_map(
        |(command, style, interval, reservation, multiplexed)| Generic {
            command,
            style,
            interval,
            reservation,
            multiplexed,
        },
    )
}

/// Generates flowspecs of all forms.
pub fn flowspec() -> impl Strategy<Value = Flowspec> {
    prop_oneof![
        intserv::flowspec().prop_map(Flowspec::Intserv),
        any::<(u8, u8)>()
            .prop_map(|(payload_type, frames)| Flowspec::Codec { payload_type, frames }),
        (any::<u8>(), rate()).prop_map(|(dscp, rate)| Flowspec::Class { dscp, rate }),
        any::<(u16, u16)>().prop_map(|(window, headroom)| Flowspec::Measured { window, headroom }),
    ]
}

/// Generates LINK_INFO.
pub fn link_info() -> impl Strategy<Value = LinkInfo> {
    (any::<(u8, u8, bool, u16, u32)>(), rate()).prop_map(
        |((send_ttl, hops, other_hops, path_mtu, latency_us), available)| LinkInfo {
            send_ttl,
            hops,
            other_hops,
            path_mtu,
            available,
            latency_us,
        },
    )
}

/// Generates notes of FAILURE.
pub fn note() -> impl Strategy<Value = FailureNote> {
    let node = prop_oneof![
        any::<u32>().prop_map(|n| IpAddr::V4(Ipv4Addr::from_bits(n))),
        any::<u128>().prop_map(|n| IpAddr::V6(Ipv6Addr::from_bits(n))),
    ];
    (any::<(u8, u16)>(), rate(), node).prop_map(|((reason, hop), available, node)| FailureNote {
        reason: FailureReason::from_code(reason),
        hop,
        available,
        node,
    })
}

/// Generates messages with every fragment.
pub fn message() -> impl Strategy<Value = Owned> {
    let auth = any::<(u32, u64, [u8; 16])>().prop_map(|(key, sequence, digest)| Auth {
        key,
        sequence,
        digest,
    });
    let other = (10_u8..=255, any::<u8>(), words(0..4));
    (
        generic(),
        option::of(flowspec()),
        option::of(link_info()),
        vec(note(), 0..5),
        option::of(auth),
        vec(other, 0..3),
    )
        .prop_map(|(generic, flowspec, link_info, notes, auth, others)| Owned {
            generic,
            flowspec,
            link_info,
            notes,
            auth,
            others,
        })
}

/// Returns a compound with YESSIR: GENERIC, a flowspec of a codec, LINK_INFO and a note; with BYE if asked for.
///
/// # Panics
/// Never: there is room.
pub fn valid(goodbye: bool) -> Vec<u8> {
    let sender = SenderInfo { ntp: 1 << 32, rtp_timestamp: 2, packets: 3, octets: 4 };
    let report = SenderReport { ssrc: 7, sender, blocks: &[], extension: &[] };
    let mut compound = vec![0; 28];
    Packet::SenderReport(report).emit(&mut compound).expect("it fits");
    compound.extend([0x81, 204, 0, 16, 0, 0, 0, 7]);
    compound.extend(b"YSSR");
    compound.extend([1, 0, 0, 12, 1, 1, 0, 30, 0, 0, 0, 5]);
    compound.extend([3, 0, 0, 8, 0, 1, 0, 0]);
    compound.extend([6, 64, 0, 16, 1, 0, 5, 220, 0x46, 0x1c, 0x40, 0, 0, 0, 0, 9]);
    compound.extend([7, 0, 0, 20, 1, 0, 0, 0, 1, 1, 0, 2, 0, 0, 0, 0, 10, 0, 0, 9]);
    if goodbye {
        compound.extend([0x81, 203, 0, 1, 0, 0, 0, 7]);
    }
    compound
}
