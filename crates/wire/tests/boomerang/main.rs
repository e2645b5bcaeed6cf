//! Boomerang messages: layouts of the draft octet by octet, and one fault at a time.

use std::net::IpAddr;

use earmark_wire::EmitError;
use earmark_wire::boomerang::ErrorKind as E;
use earmark_wire::boomerang::iana::aggregation_flag::{LEAVES, RAISES};
use earmark_wire::boomerang::*;
use earmark_wire::icmp::{Echo, HEADER, Kind, PseudoHeader, seal};

mod properties;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn keys(family: Family) -> Keys {
    let (source, destination) = match family {
        Family::V4 => ("10.1.2.3", "10.9.8.7"),
        Family::V6 => ("2001:db8::1", "2001:db8::2"),
    };
    Keys {
        source: ip(source),
        destination: ip(destination),
        source_port: 0x1111,
        destination_port: 0x2222,
        protocol: 17,
        tos: 0xb8,
        flags: 0,
    }
}

fn sample(family: Family) -> Reservation<'static> {
    Reservation {
        transaction_id: 0xdead_beef,
        flags: Flags(0),
        refresh_interval: 30,
        key: 1,
        classifier: keys(family),
        mask: Shape::exact(family),
        qos: Qos::Bitrate(Rates { forward: 2_000_000, reverse: 64_000 }),
        options: Options::NONE,
    }
}

fn octets(message: &Reservation<'_>) -> Vec<u8> {
    let mut octets = vec![0xa5; message.buffer_len()];
    assert_eq!(message.emit(&mut octets), Ok(octets.len()));
    octets
}

/// The layout of the specification draft from MAGIC on, written by hand.
#[test]
fn a_message_octet_by_octet() {
    let expected = [
        0x47, 0x11, 0x47, 0x11, 0xde, 0xad, 0xbe, 0xef, 0x10, 0x12, 0x00, 0x00, // container
        30, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, // reservation: interval, version, padding, key
        10, 1, 2, 3, 10, 9, 8, 7, 0x11, 0x11, 0x22, 0x22, 17, 0xb8, 0, 0, // classifier
        255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 0, // mask
        0x00, 0x1e, 0x84, 0x80, 0x00, 0x00, 0xfa, 0x00, // rates
    ];
    assert_eq!(octets(&sample(Family::V4)), expected);
    let six = octets(&sample(Family::V6));
    assert_eq!((six.len(), six[9]), (112, 0x1a));
    assert_eq!(six[24..28], [0x20, 0x01, 0x0d, 0xb8]);
    assert_eq!(six[104..], [0x00, 0x1e, 0x84, 0x80, 0x00, 0x00, 0xfa, 0x00]);
}

#[test]
fn downgrades_and_options_octet_by_octet() {
    let vector = [Rates { forward: 3, reverse: 2 }, Rates { forward: 1, reverse: 1 }];
    let note = Aggregation {
        flags: OptionFlags(2),
        node: ip("10.0.0.9"),
        transaction_id: 5,
        classifier: keys(Family::V4),
        mask: Shape::exact(Family::V4).keys(Family::V4).expect("a mask"),
        rate: 0x0102_0304,
    };
    let id = UserId { flags: OptionFlags(0), user: *b"alice\0\0\0", credential: [7; 8] };
    let message = Reservation {
        qos: Qos::Downgrade { policy: 0x0a0b, vector: Vector::Items(&vector) },
        options: Options::Items(&[OptionItem::UserId(id), OptionItem::Aggregation(note)]),
        ..sample(Family::V4)
    };
    let wire = octets(&message);
    assert_eq!(wire[9], 0x32);
    let list = [2, 0x0a, 0x0b, 0, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1];
    assert_eq!(wire[56..76], list);
    assert_eq!(wire[76..96], *b"\0\x01\0\0alice\0\0\0\x07\x07\x07\x07\x07\x07\x07\x07");
    assert_eq!(wire[96..108], [0, 2, 0, 2, 10, 0, 0, 9, 0, 0, 0, 5]);
    assert_eq!(wire[108..112], [10, 1, 2, 3]);
    assert_eq!(wire[140..], [1, 2, 3, 4]);
    assert_eq!(Reservation::parse(&wire), Ok(message));
}

/// A note of an aggregate has two flags, and neither stands for the other.
#[test]
fn flags_of_a_note_are_independent() {
    for (octet, leaves, raises) in [
        (0, false, false),
        (LEAVES, true, false),
        (RAISES, false, true),
        (LEAVES | RAISES, true, true),
    ] {
        let flags = OptionFlags(octet);
        assert_eq!((flags.leaves(), flags.raises()), (leaves, raises), "{octet}");
    }
}

#[test]
fn participation_record_octet_by_octet() {
    let record = Participation {
        flags: OptionFlags(3),
        initiator: ip("10.0.0.1"),
        seen: ip("192.0.2.1"),
        last_forward: ip("10.0.0.2"),
        first_reverse: ip("0.0.0.0"),
        forward: PassCount { nodes: 1, gaps: 2 },
        reverse: PassCount { nodes: 3, gaps: 4 },
        ttl: 61,
    };
    let options = [OptionItem::Participation(record)];
    let message = Reservation { options: Options::Items(&options), ..sample(Family::V4) };
    let wire = octets(&message);
    let expected = [
        [0, 3, 0, 3],
        [10, 0, 0, 1],
        [192, 0, 2, 1],
        [10, 0, 0, 2],
        [0, 0, 0, 0],
        [1, 2, 3, 4],
        [61, 0, 0, 0],
    ];
    assert_eq!(wire[64..], *expected.as_flattened());
    assert_eq!(Reservation::parse(&wire), Ok(message));
    let view = View::parse(&wire).expect("it was read");
    assert_eq!(view.options().participation(), Some((64, record)));

    // Edited in place, with the checksum.
    let counted = Participation { forward: PassCount { nodes: 2, gaps: 2 }, ttl: 60, ..record };
    let mut echo = echo(&wire, PseudoHeader::V4);
    Editor::new(&mut echo, &view).set_participation(64, &counted);
    let read = Echo::parse(&echo, PseudoHeader::V4).expect("the sum is right");
    let changed = View::parse(read.data).expect("it was read");
    assert_eq!(changed.options().participation(), Some((64, counted)));

    // A truncated option is an error.
    let view = Reservation::parse(&wire[..wire.len() - 1]);
    assert!(view.is_err());
}

fn verdict(wire: &[u8]) -> Result<(), (ErrorKind, usize)> {
    Reservation::parse(wire).map(|_| ()).map_err(|error| (error.kind, error.offset))
}

#[test]
fn headers_are_checked_field_by_field() {
    let good = octets(&sample(Family::V4));
    assert_eq!(verdict(&good), Ok(()));
    for (at, octet, kind, offset) in [
        (0, 0x48, E::Magic, 0),
        (3, 0x12, E::Magic, 0),
        (8, 0x20, E::Type, 8),
        (8, 0x11, E::Type, 8),
        (9, 0x13, E::Family, 9),
        (9, 0x10, E::Family, 9),
        (9, 0x22, E::Qos, 9),
        (9, 0x02, E::Qos, 9),
        (9, 0xf2, E::Qos, 9),
        (13, 0, E::Version, 13),
        (13, 2, E::Version, 13),
        (9, 0x1a, E::Truncated, 64), // what is IPv4 is too short for IPv6
        (9, 0x32, E::EmptyVector, 56),
    ] {
        let mut wire = good.clone();
        wire[at] = octet;
        assert_eq!(verdict(&wire), Err((kind, offset)), "octet {at} is {octet:#x}");
    }
}

#[test]
fn truncated_message_is_refused_at_every_octet() {
    let vector = [Rates { forward: 3, reverse: 2 }, Rates { forward: 1, reverse: 1 }];
    let list = Qos::Downgrade { policy: 0, vector: Vector::Items(&vector) };
    for family in [Family::V4, Family::V6] {
        for qos in [sample(family).qos, list] {
            let wire = octets(&Reservation { qos, ..sample(family) });
            for length in 0..wire.len() {
                assert_eq!(verdict(&wire[..length]), Err((E::Truncated, length)));
            }
        }
    }
    let id = UserId { flags: OptionFlags(0), user: [1; 8], credential: [2; 8] };
    let items = [OptionItem::UserId(id)];
    let wire = octets(&Reservation { options: Options::Items(&items), ..sample(Family::V4) });
    for length in 65..wire.len() {
        assert_eq!(verdict(&wire[..length]), Err((E::OptionLength, 64)), "{length}");
    }
}

/// Invalid masks, and the offset of the fault.
#[test]
fn invalid_masks_are_refused() {
    for (family, at, mask, kind) in [
        (Family::V4, 40, &[0xff, 0xff, 0x00, 0xff][..], E::SourceMask),
        (Family::V4, 40, &[0x7f], E::SourceMask),
        (Family::V4, 44, &[0xff, 0xff, 0xff, 0x01], E::DestinationMask),
        (Family::V4, 48, &[0xff, 0xf0], E::SourcePortMask),
        (Family::V4, 50, &[0x00, 0x01], E::DestinationPortMask),
        (Family::V4, 52, &[0x0f], E::ProtocolMask),
        (Family::V4, 53, &[0xfc], E::TosMask),
        (Family::V4, 54, &[0x00, 0x01], E::FlagsMask),
        (Family::V4, 52, &[0x00], E::PortsWithoutProtocol),
        (Family::V6, 64, &[0xff, 0x00], E::SourceMask),
        (Family::V6, 80, &[0x00], E::DestinationMask),
        (Family::V6, 96, &[0x80, 0x00], E::SourcePortMask),
    ] {
        let mut wire = octets(&sample(family));
        wire[at..at + mask.len()].copy_from_slice(mask);
        assert_eq!(verdict(&wire), Err((kind, at)), "{mask:x?} at {at}");
    }
    let mut wire = octets(&sample(Family::V4));
    wire[40..56].fill(0);
    let everything = Reservation::parse(&wire).expect("a mask of nothing is one").mask;
    assert_eq!(everything.specificity(), 0);
    assert_eq!(Shape::exact(Family::V4).specificity(), 104);
}

#[test]
fn invalid_messages_are_not_emitted() {
    let good = sample(Family::V4);
    let emit = |message: &Reservation<'_>| message.emit(&mut [0; 4_096]);
    assert_eq!(good.emit(&mut [0; 63]), Err(EmitError::BufferTooShort));
    let mixed = Keys { source: ip("::1"), ..good.classifier };
    assert_eq!(emit(&Reservation { classifier: mixed, ..good }), Err(EmitError::Contradiction));
    for mask in [
        Shape { source: 33, ..good.mask },
        Shape { destination: 128, ..good.mask },
        Shape { protocol: false, ..good.mask },
    ] {
        assert_eq!(emit(&Reservation { mask, ..good }), Err(EmitError::Contradiction));
    }
    let list = |vector| Reservation {
        qos: Qos::Downgrade { policy: 0, vector: Vector::Items(vector) },
        ..good
    };
    assert_eq!(emit(&list(&[])), Err(EmitError::Contradiction));
    assert_eq!(emit(&list(&[Rates::ZERO; 256])), Err(EmitError::TooLong));
    let unknown = OptionItem::Unknown { code: 9, rest: &[] };
    let id = OptionItem::UserId(UserId { flags: OptionFlags(0), user: [0; 8], credential: [0; 8] });
    let options = [unknown, id];
    let message = Reservation { options: Options::Items(&options), ..good };
    assert_eq!(emit(&message), Err(EmitError::Contradiction), "nobody could find the second");
    let known = [OptionItem::Unknown { code: 1, rest: &[] }];
    let message = Reservation { options: Options::Items(&known), ..good };
    assert_eq!(emit(&message), Err(EmitError::Contradiction));
}

/// Returns the message in an echo request.
fn echo(data: &[u8], pseudo_header: PseudoHeader) -> Vec<u8> {
    let mut message = [&[0; HEADER], data].concat();
    seal(&mut message, pseudo_header, Kind::Request, 7, 9).expect("it fits");
    message
}

fn pseudo_header(family: Family) -> PseudoHeader {
    match family {
        Family::V4 => PseudoHeader::V4,
        Family::V6 => {
            PseudoHeader::of(ip("2001:db8::77"), ip("2001:db8::88")).expect("of one family")
        }
    }
}

/// Returns whether a message has the common form. [`CommonForm`] and the general view must agree on it.
fn is_common_form(wire: &[u8]) -> bool {
    let Some(common_form) = CommonForm::read(wire) else { return false };
    let echo =
        Echo::parse(wire, PseudoHeader::V4).expect("it is an echo, and its checksum is right");
    let view = View::parse(echo.data).expect("it is a message");
    assert_eq!((common_form.kind, common_form.view()), (echo.kind, view));
    assert_eq!(common_form.refresh_interval(), view.refresh_interval());
    assert_eq!(QosView::Bitrate(common_form.rates()), view.qos());
    assert_eq!(view.shape(), Ok(Shape::exact(Family::V4)));
    assert_eq!((view.flags(), view.has_options()), (Flags(0), false));
    let flow = common_form.flow().map(u64::to_ne_bytes);
    assert_eq!(flow.as_flattened()[..13], view.classifier_octets()[..13]);
    assert_eq!(flow.as_flattened()[13..], [0; 3]);
    true
}

#[test]
fn common_form_is_recognized() {
    let common_form =
        |message: &Reservation<'_>| is_common_form(&echo(&octets(message), PseudoHeader::V4));
    let good = sample(Family::V4);
    assert!(common_form(&good));
    assert!(common_form(&Reservation { key: 6, refresh_interval: 0, ..good }));
    let id = UserId { flags: OptionFlags(0), user: [1; 8], credential: [2; 8] };
    let vector = [Rates { forward: 3, reverse: 2 }];
    for other in [
        sample(Family::V6),
        Reservation { flags: Flags(1), ..good },
        Reservation { mask: Shape { tos: true, ..Shape::exact(Family::V4) }, ..good },
        Reservation { mask: Shape { source: 24, ..Shape::exact(Family::V4) }, ..good },
        Reservation { options: Options::Items(&[OptionItem::UserId(id)]), ..good },
        Reservation { qos: Qos::Downgrade { policy: 0, vector: Vector::Items(&vector) }, ..good },
    ] {
        assert!(!common_form(&other), "{other:?}");
    }
    // Wrong checksums, and faults behind a valid one.
    let wire = echo(&octets(&good), PseudoHeader::V4);
    let mut known = 0;
    for at in 0..wire.len() {
        let mut changed = wire.clone();
        changed[at] ^= 1;
        assert!(!is_common_form(&changed), "octet {at}");
        if at > 3 {
            seal(&mut changed, PseudoHeader::V4, Kind::Reply, 7, 9).expect("it fits");
            known += usize::from(is_common_form(&changed));
        }
    }
    // All octets but MAGIC, type, format, flags, version and mask.
    assert_eq!(known, wire.len() - 4 - 4 - 1 - 1 - 2 - 1 - 16);
}
