//! RTCP: emitted packets parse to the same value, malformed ones are reported, and arbitrary octets do not panic.

use earmark_testkit::messages::rtcp::{Owned, compound};
use earmark_wire::EmitError;
use earmark_wire::rtcp::*;
use proptest::collection::vec;
use proptest::prelude::*;

proptest! {
    #[test]
    fn emitted_compounds_parse_to_the_same_value(packets in compound()) {
        let octets: Vec<u8> = packets.iter().flat_map(Owned::octets).collect();
        let compound = Compound::parse(&octets).expect("it was emitted");
        let read: Vec<Packet<'_>> = compound.packets().collect();
        prop_assert_eq!(read.len(), packets.len());
        for (owned, read) in packets.iter().zip(&read) {
            owned.with(|packet| assert_eq!(packet, *read));
        }
        let mut again = vec![0x5a; buffer_len(&read)];
        prop_assert_eq!(emit(&read, &mut again), Ok(octets.len()));
        prop_assert_eq!(&again, &octets);
    }

    #[test]
    fn arbitrary_octets_do_not_panic(octets in vec(any::<u8>(), 0..200), damage in any::<(u8, u8)>(), packets in compound()) {
        let _ = Compound::parse(&octets);
        let mut octets: Vec<u8> = packets.iter().flat_map(Owned::octets).collect();
        let at = usize::from(damage.0) % octets.len();
        octets[at] ^= damage.1;
        match Compound::parse(&octets) {
            Ok(compound) => {
                let read: Vec<Packet<'_>> = compound.packets().collect();
                let items = |packet: &Packet<'_>| match packet {
                    Packet::SourceDescription(chunks) => chunks.iter().flat_map(|c| c.items().collect::<Vec<_>>()).count(),
                    _ => 0,
                };
                prop_assert!(read.iter().map(items).sum::<usize>() <= octets.len());
            }
            Err(error) => {
                prop_assert!(error.offset <= octets.len());
                prop_assert!(!error.to_string().is_empty());
            }
        }
    }

    #[test]
    fn report_blocks_round_trip(octets in any::<[u8; 24]>()) {
        prop_assert_eq!(ReportBlock::from_octets(&octets).to_octets(), octets);
    }
}

/// A sender report of 28 octets and a source description of 12, written by hand.
const GOOD: [u8; 40] = [
    0x80, 200, 0, 6, 0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 9, 0, 0, 0, 10, 0, 0, 0,
    11, //
    0x81, 202, 0, 2, 0, 0, 0, 7, 1, 1, b'a', 0,
];

#[test]
fn fields_have_the_offsets_of_the_rfc() {
    let compound = Compound::parse(&GOOD).expect("it is one");
    let packets: Vec<Packet<'_>> = compound.packets().collect();
    let Packet::SenderReport(report) = packets[0] else { panic!("{packets:?}") };
    assert_eq!((report.ssrc, report.sender.ntp), (7, 0x0102_0304_0506_0708));
    let SenderInfo { rtp_timestamp, packets: sent, octets, .. } = report.sender;
    assert_eq!((rtp_timestamp, sent, octets), (9, 10, 11));
    let Packet::SourceDescription(chunks) = packets[1] else { panic!("{packets:?}") };
    let chunk = chunks.iter().next().expect("one");
    assert_eq!(chunk.ssrc, 7);
    let items: Vec<_> = chunk.items().collect();
    assert_eq!(items, [(ItemType::CanonicalName, &b"a"[..])]);
    let mut block = [0; 24];
    block[4..8].copy_from_slice(&[0x80, 0xff, 0xff, 0xfe]);
    let block = ReportBlock::from_octets(&block);
    assert_eq!((block.fraction_lost, block.lost), (128, -2), "losses have a sign");
}

/// Changed octets of the valid compound, with fault and offset.
#[test]
fn malformed_compounds_are_reported_with_offset() {
    let changed = |at: usize, octet: u8| {
        let mut octets = GOOD.to_vec();
        octets[at] = octet;
        octets
    };
    let padded = |padding: [u8; 4]| [&changed(28, 0xa1)[..], &padding].concat();
    let with_length = |mut octets: Vec<u8>| {
        octets[31] = 3;
        octets
    };
    let with = |packet: &[u8]| [&GOOD, packet].concat();
    let cases = [
        ("nothing", vec![], ErrorKind::Truncated, 0),
        ("cut in a header", GOOD[..30].to_vec(), ErrorKind::Truncated, 28),
        ("cut in a packet", GOOD[..36].to_vec(), ErrorKind::Length, 30),
        ("version 1", changed(28, 0x41), ErrorKind::Version, 28),
        ("length too long", changed(31, 3), ErrorKind::Length, 30),
        ("length too short", changed(31, 1), ErrorKind::Item, 36),
        ("a source description first", GOOD[28..].to_vec(), ErrorKind::FirstPacket, 1),
        (
            "a report too short for its sender",
            vec![0x80, 200, 0, 1, 0, 0, 0, 7],
            ErrorKind::Length,
            4,
        ),
        ("a report without a source", vec![0x80, 201, 0, 0], ErrorKind::Length, 4),
        ("more blocks than there is room for", changed(0, 0x81), ErrorKind::Count, 4),
        ("more chunks than there is room for", changed(28, 0x82), ErrorKind::Count, 40),
        ("an item past the end", changed(37, 2), ErrorKind::Item, 36),
        ("padding in the middle", changed(0, 0xa0), ErrorKind::Padding, 0),
        (
            "no padding where some is said",
            with_length(padded([0, 0, 0, 0])),
            ErrorKind::Padding,
            28,
        ),
        ("more padding than packet", with_length(padded([0, 0, 0, 16])), ErrorKind::Padding, 28),
        ("padding of no whole words", with_length(padded([0, 0, 0, 3])), ErrorKind::Padding, 28),
        (
            "a goodbye of more than are there",
            with(&[0x82, 203, 0, 1, 0, 0, 0, 7]),
            ErrorKind::Count,
            44,
        ),
        ("a reason past the end", with(&[0x80, 203, 0, 1, 4, 0, 0, 0]), ErrorKind::Reason, 44),
        (
            "an application without a name",
            with(&[0x80, 204, 0, 1, 0, 0, 0, 7]),
            ErrorKind::Application,
            44,
        ),
    ];
    for (what, octets, kind, offset) in cases {
        let error = Compound::parse(&octets).expect_err(what);
        assert_eq!((error.kind, error.offset), (kind, offset), "{what}");
        assert!(error.to_string().starts_with(&format!("RTCP, octet {offset}: ")), "{error}");
    }
    let padded = with_length(padded([0, 0, 0, 4]));
    assert_eq!(Compound::parse(&padded).expect("it is right").packets().count(), 2);
}

#[test]
fn invalid_packets_are_not_emitted() {
    let blocks = [[0; 24]; 32];
    let report =
        |blocks, extension| Packet::ReceiverReport(ReceiverReport { ssrc: 1, blocks, extension });
    let mut buffer = [0; 1_024];
    assert_eq!(report(&blocks[..], &[]).emit(&mut buffer), Err(EmitError::TooLong));
    assert_eq!(report(&[], &[1, 2, 3]).emit(&mut buffer), Err(EmitError::Contradiction));
    assert_eq!(report(&[], &[]).emit(&mut buffer[..7]), Err(EmitError::BufferTooShort));
    let long = vec![0; 4 << 16];
    let application =
        Packet::Application(Application { subtype: 0, ssrc: 0, name: *b"long", data: &long });
    assert_eq!(application.emit(&mut buffer), Err(EmitError::TooLong));
    let goodbye = Packet::Goodbye(Goodbye::default());
    assert_eq!(emit(&[goodbye], &mut buffer), Err(EmitError::Contradiction));
    let mut room = [0; CNAME_LEN];
    assert_eq!(Chunks::cname(1, &[b'x'; 256], &mut room), Err(EmitError::TooLong));
}
