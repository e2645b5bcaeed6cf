//! RSVP as properties: emitted messages parse to the same value, canonical octets are emitted unchanged, and arbitrary
//! octets do not panic.

use earmark_testkit::messages::rsvp::octets as emitted;
use earmark_testkit::messages::rsvp::{KINDS, STYLES, adspec, object, octets, parts, sample, seal};
use earmark_wire::intserv::Adspec;
use earmark_wire::rsvp::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Tests `parse(emit(m)) == m`, and that the second emission gives the same octets: both properties in one.
    #[test]
    fn messages_round_trip(parts in parts()) {
        let message = parts.message();
        let wire = octets(&message);
        let parsed = Message::parse(&wire).expect("what was emitted parses");
        prop_assert_eq!(parsed, message);
        prop_assert_eq!(octets(&parsed), wire);
    }

    /// The object layer shows every object that the message layer accepts, and no other.
    #[test]
    fn object_view_shows_all_objects_of_a_message(parts in parts()) {
        let wire = octets(&parts.message());
        let mut length = 8;
        for object in objects(&wire) {
            let object = object.expect("every object decodes");
            prop_assert_eq!(object.raw.offset, length);
            length += object.raw.bytes.len();
        }
        prop_assert_eq!(length, wire.len());
    }

    /// NULL objects may be anywhere behind INTEGRITY without effect (RFC 2205 section 3.1.2), and so may objects of
    /// classes 10bbbbbb (section 3.10).
    #[test]
    fn ignored_objects_change_nothing(parts in parts(), ignored in object(&[0, 128, 191]), at: usize) {
        let message = parts.message();
        let mut wire = octets(&message);
        let first = usize::from(message.integrity.is_some());
        let mut places: Vec<usize> =
            objects(&wire).map(|o| o.expect("decodes").raw.offset).skip(first).collect();
        places.push(wire.len());
        let place = places[at % places.len()];
        wire.splice(place..place, ignored);
        seal(&mut wire);
        let parsed = Message::parse(&wire);
        prop_assert_eq!(parsed, Ok(message));
    }

    #[test]
    fn adspecs_round_trip(body in adspec()) {
        let adspec = Adspec::parse(&body).expect("it is well formed");
        let mut again = vec![0xa5; adspec.buffer_len()];
        prop_assert_eq!(adspec.emit(&mut again), Ok(body.len()));
        prop_assert_eq!(again, body);
    }

    #[test]
    fn arbitrary_octets_do_not_panic(octets in vec(any::<u8>(), 0..200)) {
        parse_by_all_means(&octets);
    }

    /// Damaged valid messages reach more code than random octets. The checksum is removed.
    #[test]
    fn damaged_messages_do_not_panic(
        parts in parts(),
        damage in vec((any::<usize>(), any::<u8>()), 1..6),
        cut in option::of(any::<usize>()),
    ) {
        let mut wire = octets(&parts.message());
        for (at, octet) in damage {
            let at = at % wire.len();
            wire[at] = octet;
        }
        if let Some(cut) = cut {
            wire.truncate(8 + cut % wire.len());
        }
        wire[0] = 0x10;
        seal(&mut wire);
        parse_by_all_means(&wire);
    }
}

/// Parses and displays `octets` by all means; a valid message must round-trip.
fn parse_by_all_means(octets: &[u8]) {
    let salvage = PartialMessage::scan(octets);
    let _ = format!("{salvage:?}");
    for object in objects(octets) {
        let _ = format!("{object:?}");
    }
    match Message::parse(octets) {
        Ok(message) => {
            let wire = emitted(&message);
            assert_eq!(Message::parse(&wire), Ok(message));
            if let Some(session) = message.body.session() {
                assert_eq!(salvage.session.as_ref(), Some(session));
            }
        }
        Err(error) => {
            assert!(error.offset <= octets.len() + 4, "{error}");
            let _ = (error.to_string(), error.report());
        }
    }
}

/// Samples of each type, family and style, without a generator.
#[test]
fn samples_round_trip() {
    for kind in KINDS {
        for style in STYLES {
            for ipv6 in [false, true] {
                let parts = sample(kind, style, ipv6);
                let wire = octets(&parts.message());
                assert_eq!(Message::parse(&wire), Ok(parts.message()), "{kind:?} {style:?}");
            }
        }
    }
}

/// Every buffer that is too short is refused, and so is a message that is too long.
#[test]
fn short_buffers_and_long_messages_are_refused() {
    let parts = sample(MessageType::Resv, Style::SharedExplicit, true);
    let message = parts.message();
    let mut buffer = vec![0; message.buffer_len()];
    for length in 0..buffer.len() {
        let refused = message.emit(&mut buffer[..length]);
        assert_eq!(refused, Err(earmark_wire::EmitError::BufferTooShort));
    }
    let mut parts = parts;
    parts.filters = vec![parts.filters[0]; 3000];
    let mut buffer = vec![0; 100_000];
    assert_eq!(parts.message().emit(&mut buffer), Err(earmark_wire::EmitError::TooLong));
}
