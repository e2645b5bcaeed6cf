//! RSVP as properties: emitted messages parse to the same value, canonical octets are emitted unchanged, and arbitrary
//! octets do not panic.

mod common;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use common::{KINDS, OwnedIntegrity, Parts, STYLES, octets, sample, seal};
use earmark_wire::intserv::{Adspec, FlowSpec, Rspec, TokenBucket};
use earmark_wire::rsvp::*;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn address(ipv6: bool) -> BoxedStrategy<IpAddr> {
    if ipv6 {
        // Neither zero nor multicast.
        any::<u128>().prop_map(|n| Ipv6Addr::from(n >> 8 | 1 << 110).into()).boxed()
    } else {
        (1u32..0xe000_0000).prop_map(|n| Ipv4Addr::from(n).into()).boxed()
    }
}

/// Arbitrary bits, NaN included.
fn bucket() -> impl Strategy<Value = TokenBucket> {
    let float = || any::<u32>().prop_map(f32::from_bits);
    (float(), float(), float(), any::<u32>(), any::<u32>()).prop_map(
        |(rate, depth, peak, m, max)| TokenBucket {
            rate,
            depth,
            peak,
            min_policed_unit: m,
            max_packet_size: max,
        },
    )
}

fn flowspec() -> impl Strategy<Value = FlowSpec> {
    (bucket(), option::of((any::<u32>(), any::<u32>()))).prop_map(|(bucket, rspec)| match rspec {
        None => FlowSpec::ControlledLoad(bucket),
        Some((rate, slack_us)) => {
            FlowSpec::Guaranteed(bucket, Rspec { rate: f32::from_bits(rate), slack_us })
        }
    })
}

fn filter(ipv6: bool) -> impl Strategy<Value = FilterSpec> {
    (address(ipv6), any::<u16>(), option::of(0u32..1 << 24)).prop_map(
        move |(source, port, label)| {
            let selector = match label {
                Some(label) if ipv6 => SourceSelector::FlowLabel(label),
                _ => SourceSelector::Port(port),
            };
            FilterSpec { source, selector }
        },
    )
}

/// Generates a whole object of any of `classes`.
fn object(classes: &'static [u8]) -> impl Strategy<Value = Vec<u8>> {
    let class = proptest::sample::select(classes);
    (class, any::<u8>(), vec(any::<[u8; 4]>(), 0..6)).prop_map(|(class, c_type, words)| {
        let length = u16::try_from(4 + 4 * words.len()).expect("short");
        let [high, low] = length.to_be_bytes();
        // POLICY_DATA of C-Type 1 has a format that messages do not check, but the object layer does.
        let c_type = if class == 14 { c_type.max(2) } else { c_type };
        [vec![high, low, class, c_type], words.concat()].concat()
    })
}

/// Generates an ADSPEC body with an override, a parameter and two unknown services.
fn adspec() -> impl Strategy<Value = Vec<u8>> {
    (any::<[u32; 5]>(), any::<bool>(), any::<bool>(), vec(any::<[u8; 4]>(), 0..4)).prop_map(
        |(values, guaranteed, load, unknown)| {
            let word = |id: u8, value: u32| [&[id, 0, 0, 1][..], &value.to_be_bytes()].concat();
            let fragment = |id: u8, broken: bool, data: Vec<u8>| {
                let words = u8::try_from(data.len() / 4).expect("short");
                [vec![id, if broken { 0x80 } else { 0 }, 0, words], data].concat()
            };
            let [hops, bandwidth, latency, mtu, c] = values;
            let general =
                [word(4, hops), word(6, bandwidth), word(8, latency), word(10, mtu), word(60, c)];
            let mut parts = vec![fragment(1, guaranteed, general.concat())];
            if guaranteed {
                let terms = [word(133, c), word(134, mtu), word(135, 0), word(136, 1), word(6, 9)];
                parts.push(fragment(2, load, terms.concat()));
            }
            parts.push(fragment(3, load, unknown.concat()));
            if load {
                parts.push(fragment(5, false, word(10, mtu)));
            }
            parts.push(fragment(200, true, Vec::new()));
            let data = parts.concat();
            let words = u16::try_from(data.len() / 4).expect("short").to_be_bytes();
            [vec![0, 0, words[0], words[1]], data].concat()
        },
    )
}

/// Generates the leading objects.
fn leading_objects() -> impl Strategy<Value = LeadingObjects> {
    let digest = vec(any::<u8>(), 4..80).prop_map(|mut digest| {
        digest.truncate(digest.len() / 4 * 4);
        digest
    });
    let integrity = (any::<u8>(), 0u64..1 << 48, any::<u64>(), digest).prop_map(
        |(flags, key_id, sequence, digest)| OwnedIntegrity { flags, key_id, sequence, digest },
    );
    let kind = any::<bool>()
        .prop_map(|ack| if ack { AcknowledgementKind::Ack } else { AcknowledgementKind::Nack });
    let acknowledgement = (kind, 0u32..1 << 24, any::<u32>())
        .prop_map(|(kind, epoch, id)| Acknowledgement { kind, epoch, id });
    let message_id = (any::<u8>(), 0u32..1 << 24, any::<u32>())
        .prop_map(|(flags, epoch, id)| MessageId { flags, epoch, id });
    (option::of(integrity), vec(acknowledgement, 0..4), option::of(message_id))
}

type LeadingObjects = (Option<OwnedIntegrity>, Vec<Acknowledgement>, Option<MessageId>);

fn parts() -> impl Strategy<Value = Parts> {
    (any::<bool>(), proptest::sample::select(&KINDS[..]), proptest::sample::select(&STYLES[..]))
        .prop_flat_map(|(ipv6, kind, style)| {
            let common = (
                0u8..16,
                any::<u8>(),
                leading_objects(),
                (address(ipv6), 1u8.., any::<u8>(), 1u16..),
                (address(ipv6), any::<u32>(), any::<u32>()),
                (address(ipv6), any::<u8>(), any::<u8>(), any::<u16>()),
                option::of(address(ipv6)),
                option::of(vec(address(ipv6), 0..4)),
            );
            // POLICY_DATA is not allowed in every message; classes 11bbbbbb are.
            let carried: &[u8] = match kind {
                MessageType::PathTear | MessageType::ResvTear | MessageType::ResvConf => {
                    &[192, 200, 255]
                }
                _ => &[14, 192, 255],
            };
            let descriptors = (
                vec(object(carried), 0..3),
                option::of(filter(ipv6)),
                option::of(bucket()),
                option::of(adspec()),
                flowspec(),
                vec((flowspec(), filter(ipv6)), 1..5),
                any::<bool>(),
            );
            (Just((kind, style)), common, descriptors)
        })
        .prop_map(|((kind, style), common, descriptors)| {
            let (flags, send_ttl, front, session, hop, error, confirm, scope) = common;
            let (carried, template, tspec, adspec, flowspec, mut flows, bare) = descriptors;
            // Teardowns and errors may omit flowspecs; a ResvErr has at most one flow descriptor.
            let bare = bare && matches!(kind, MessageType::ResvTear | MessageType::ResvErr);
            if kind == MessageType::ResvErr && style == Style::FixedFilter {
                flows.truncate(1);
            }
            let (destination, protocol, session_flags, port) = session;
            Parts {
                kind,
                flags,
                send_ttl,
                integrity: front.0,
                acknowledgements: front.1,
                message_id: front.2,
                session: Session { destination, protocol, flags: session_flags, port },
                hop: RsvpHop { address: hop.0, lih: hop.1 },
                refresh_ms: hop.2,
                error: ErrorSpec {
                    node: error.0,
                    flags: error.1,
                    code: ErrorCode::from_code(error.2),
                    value: error.3,
                },
                confirm,
                scope,
                carried: carried.concat(),
                template,
                tspec,
                adspec,
                style,
                flowspec: (!bare).then_some(flowspec),
                fixed: flows
                    .iter()
                    .map(|(flowspec, filter)| FixedFilterFlow {
                        flowspec: (!bare).then_some(*flowspec),
                        filter: *filter,
                    })
                    .collect(),
                filters: flows.iter().map(|(_, filter)| *filter).collect(),
            }
        })
}

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
            let wire = common::octets(&message);
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
