//! RTCP: any compound packet.
#![allow(missing_docs)] // the fields of packets are named as in RFC 3550

use earmark_wire::rtcp::*;
use proptest::collection::vec;
use proptest::prelude::*;

use super::words;

/// A packet with owned parts.
#[derive(Clone, Debug)]
pub enum Owned {
    /// SR with five words of sender information, or RR.
    Report { sender: Option<[u32; 5]>, ssrc: u32, blocks: Vec<[u8; 24]>, extension: Vec<[u8; 4]> },
    /// SDES with a CNAME.
    Cname { ssrc: u32, name: Vec<u8> },
    /// BYE.
    Goodbye { sources: Vec<[u8; 4]>, reason: Option<Vec<u8>> },
    /// APP.
    Application { subtype: u8, ssrc: u32, name: [u8; 4], data: Vec<[u8; 4]> },
    /// A packet of another type.
    Unknown { packet_type: u8, count: u8, body: Vec<[u8; 4]> },
}

impl Owned {
    /// Calls `then` with the packet.
    pub fn with<R>(&self, then: impl FnOnce(Packet<'_>) -> R) -> R {
        let mut room = [0xa5; CNAME_LEN];
        then(match self {
            Owned::Report {
                sender: Some([high, low, rtp_timestamp, packets, octets]),
                ssrc,
                blocks,
                extension,
            } => {
                let sender = SenderInfo {
                    ntp: u64::from(*high) << 32 | u64::from(*low),
                    rtp_timestamp: *rtp_timestamp,
                    packets: *packets,
                    octets: *octets,
                };
                let extension = extension.as_flattened();
                Packet::SenderReport(SenderReport { ssrc: *ssrc, sender, blocks, extension })
            }
            Owned::Report { sender: None, ssrc, blocks, extension } => {
                let extension = extension.as_flattened();
                Packet::ReceiverReport(ReceiverReport { ssrc: *ssrc, blocks, extension })
            }
            Owned::Cname { ssrc, name } => {
                Packet::SourceDescription(Chunks::cname(*ssrc, name, &mut room).expect("short"))
            }
            Owned::Goodbye { sources, reason } => {
                Packet::Goodbye(Goodbye { sources, reason: reason.as_deref() })
            }
            Owned::Application { subtype, ssrc, name, data } => Packet::Application(Application {
                subtype: *subtype,
                ssrc: *ssrc,
                name: *name,
                data: data.as_flattened(),
            }),
            Owned::Unknown { packet_type, count, body } => Packet::Unknown {
                packet_type: *packet_type,
                count: *count,
                body: body.as_flattened(),
            },
        })
    }

    /// Emits the packet into a buffer with other contents.
    ///
    /// # Panics
    /// The packet cannot be emitted.
    pub fn octets(&self) -> Vec<u8> {
        self.with(|packet| {
            let mut buffer = vec![0xa5; packet.buffer_len()];
            assert_eq!(packet.emit(&mut buffer), Ok(buffer.len()));
            buffer
        })
    }
}

fn report() -> impl Strategy<Value = Owned> {
    (
        proptest::option::of(any::<[u32; 5]>()),
        any::<u32>(),
        vec(any::<[u8; 24]>(), 0..=31),
        words(0..6),
    )
        .prop_map(|(sender, ssrc, blocks, extension)| Owned::Report {
            sender,
            ssrc,
            blocks,
            extension,
        })
}

fn other() -> impl Strategy<Value = Owned> {
    let text = || vec(any::<u8>(), 0..=255);
    prop_oneof![
        (any::<u32>(), text()).prop_map(|(ssrc, name)| Owned::Cname { ssrc, name }),
        (vec(any::<[u8; 4]>(), 0..=31), proptest::option::of(text()))
            .prop_map(|(sources, reason)| Owned::Goodbye { sources, reason }),
        (0_u8..32, any::<u32>(), any::<[u8; 4]>(), words(0..6)).prop_map(
            |(subtype, ssrc, name, data)| Owned::Application { subtype, ssrc, name, data }
        ),
        (205_u8..=255, 0_u8..32, words(0..6))
            .prop_map(|(packet_type, count, body)| Owned::Unknown { packet_type, count, body }),
    ]
}

/// Generates compounds: a report, and packets of every type.
pub fn compound() -> impl Strategy<Value = Vec<Owned>> {
    (report(), vec(prop_oneof![other(), report()], 0..6)).prop_map(|(first, mut rest)| {
        rest.insert(0, first);
        rest
    })
}
