//! Malformed RSVP messages with one fault each: kind, offset, and whether the fault is answered.

use earmark_testkit::messages::rsvp::{KINDS, STYLES, has_flows, octets, sample, seal};
use earmark_wire::intserv::FormatProblem;
use earmark_wire::rsvp::ErrorKind as E;
use earmark_wire::rsvp::*;

/// Offsets of the objects of the sample Path over IPv4.
const SESSION: usize = 8;
const HOP: usize = 20;
const TIME: usize = 32;
const TEMPLATE: usize = 40;
const TSPEC: usize = 52;
const ADSPEC: usize = 88;

fn path() -> Vec<u8> {
    octets(&sample(MessageType::Path, Style::Wildcard, false).message())
}

fn resv(style: Style) -> Vec<u8> {
    octets(&sample(MessageType::Resv, style, false).message())
}

/// Returns the parser's verdict, as kind and offset.
fn verdict(wire: &[u8]) -> Result<(), (ErrorKind, usize)> {
    Message::parse(wire).map(|_| ()).map_err(|error| (error.kind, error.offset))
}

/// Returns the verdict after octets were overwritten and length and checksum updated.
fn changed(mut wire: Vec<u8>, at: usize, octets: &[u8]) -> Result<(), (ErrorKind, usize)> {
    wire[at..at + octets.len()].copy_from_slice(octets);
    seal(&mut wire);
    verdict(&wire)
}

/// Returns the verdict after octets were inserted and length and checksum updated.
fn inserted(mut wire: Vec<u8>, at: usize, octets: &[u8]) -> Result<(), (ErrorKind, usize)> {
    wire.splice(at..at, octets.iter().copied());
    seal(&mut wire);
    verdict(&wire)
}

/// Returns the message without the objects of a class.
fn without(wire: &[u8], class: ObjectClass) -> Vec<u8> {
    let kept = objects(wire)
        .map(|object| object.expect("it decodes").raw)
        .filter(|raw| raw.class_num() != class.code());
    let mut shorter = wire[..8].to_vec();
    shorter.extend(kept.flat_map(|raw| raw.bytes.iter().copied()));
    seal(&mut shorter);
    shorter
}

/// Returns offset and octets of the nth object of a class.
fn find(wire: &[u8], class: ObjectClass, nth: usize) -> (usize, Vec<u8>) {
    let raw = objects(wire)
        .map(|object| object.expect("it decodes").raw)
        .filter(|raw| raw.class_num() == class.code())
        .nth(nth)
        .expect("it is there");
    (raw.offset, raw.bytes.to_vec())
}

#[test]
fn the_common_header_is_checked_field_by_field() {
    assert_eq!(verdict(&path()), Ok(()));
    assert_eq!(changed(path(), 0, &[0x20]), Err((E::Version, 0)));
    assert_eq!(changed(path(), 1, &[0]), Err((E::MessageType, 1)));
    for unknown in [10, 11, 14, 27, 255] {
        assert_eq!(changed(path(), 1, &[unknown]), Err((E::MessageType, 1)));
    }
    let mut wire = path();
    wire[4] ^= 1;
    assert_eq!(verdict(&wire), Err((E::Checksum, 2)));
    wire[2..4].fill(0);
    assert_eq!(verdict(&wire), Ok(()), "no checksum was sent");
    wire.extend([0; 4]);
    assert_eq!(verdict(&wire), Err((E::Length, 6)));
}

/// A truncated message is refused because of its length or, if the length was updated, because of missing objects.
#[test]
fn truncated_message_is_refused_at_every_octet() {
    for kind in KINDS {
        for ipv6 in [false, true] {
            let wire = octets(&sample(kind, Style::SharedExplicit, ipv6).message());
            for length in 0..wire.len() {
                let expected = if length < 8 { (E::Truncated, length) } else { (E::Length, 6) };
                assert_eq!(verdict(&wire[..length]), Err(expected), "{kind:?}");
            }
        }
    }
    let starts = [SESSION, HOP, TIME, TEMPLATE, TSPEC];
    for length in 8..ADSPEC {
        let mut wire = path();
        wire.truncate(length);
        seal(&mut wire);
        let expected = match starts.iter().position(|start| *start == length) {
            Some(_) => (E::MissingObject, length),
            None => (E::ObjectLength, *starts.iter().rfind(|s| **s < length).expect("there is")),
        };
        assert_eq!(verdict(&wire), Err(expected), "cut at {length}");
    }
}

#[test]
fn objects_with_wrong_length_are_refused() {
    for length in [0u16, 1, 3, 5, 6, 7, 11, 13, 400, 0xffff] {
        assert_eq!(changed(path(), HOP, &length.to_be_bytes()), Err((E::ObjectLength, HOP)));
    }
    // A length that is valid for another C-Type.
    assert_eq!(changed(path(), SESSION, &[0, 24]), Err((E::ObjectSize, SESSION)));
    assert_eq!(inserted(changed_octets(SESSION, &[0, 8]), 16, &[]), Err((E::ObjectSize, SESSION)));
}

fn changed_octets(at: usize, octets: &[u8]) -> Vec<u8> {
    let mut wire = path();
    wire[at..at + octets.len()].copy_from_slice(octets);
    wire
}

#[test]
fn missing_required_objects_are_refused() {
    use ObjectClass as C;
    use earmark_wire::rsvp::MessageType as M;
    let cases: [(M, &[C]); 7] = [
        (M::Path, &[C::Session, C::RsvpHop, C::TimeValues, C::SenderTemplate, C::SenderTspec]),
        (M::Resv, &[C::Session, C::RsvpHop, C::TimeValues]),
        (M::PathErr, &[C::Session, C::ErrorSpec]),
        (M::ResvErr, &[C::Session, C::RsvpHop, C::ErrorSpec]),
        (M::PathTear, &[C::Session, C::RsvpHop, C::SenderTemplate]),
        (M::ResvTear, &[C::Session, C::RsvpHop]),
        (M::ResvConf, &[C::Session, C::ErrorSpec, C::ResvConfirm]),
    ];
    for (kind, required) in cases {
        for class in required {
            let wire = without(&octets(&sample(kind, Style::FixedFilter, true).message()), *class);
            let error = Message::parse(&wire).expect_err("something is missing");
            let found = (error.kind, error.offset, error.class_num);
            assert_eq!(found, (E::MissingObject, wire.len(), class.code()), "{kind:?}");
            assert_eq!(error.report(), None);
        }
    }
    // Without STYLE the flow descriptors are out of place; without flow descriptors it is missing.
    let wire = without(&resv(Style::Wildcard), ObjectClass::Style);
    assert_eq!(verdict(&wire), Err((E::ObjectOrder, find(&wire, C::FlowSpec, 0).0)));
    let wire = without(&wire, C::FlowSpec);
    assert_eq!(verdict(&wire), Err((E::MissingObject, wire.len())));
}

#[test]
fn illegal_objects_are_refused() {
    use earmark_wire::rsvp::MessageType as M;
    let style = [0, 8, 8, 1, 0, 0, 0, 0x11];
    assert_eq!(inserted(path(), HOP, &style), Err((E::IllegalObject, HOP)));
    let policy = [0, 8, 14, 1, 0, 0, 0, 0];
    assert_eq!(inserted(path(), HOP, &policy), Ok(()));
    let tear = octets(&sample(M::PathTear, Style::Wildcard, false).message());
    assert_eq!(inserted(tear, HOP, &policy), Err((E::IllegalObject, HOP)));
    let (_, session) = find(&path(), ObjectClass::Session, 0);
    assert_eq!(inserted(path(), HOP, &session), Err((E::DuplicateObject, HOP)));
}

#[test]
fn integrity_comes_first_and_flow_descriptors_last() {
    let mut integrity = [0; 24];
    integrity[..4].copy_from_slice(&[0, 24, 4, 1]);
    assert_eq!(inserted(path(), SESSION, &integrity), Ok(()));
    assert_eq!(inserted(path(), HOP, &integrity), Err((E::ObjectOrder, HOP)));
    let wire = resv(Style::FixedFilter);
    let (at, _) = find(&wire, ObjectClass::Style, 0);
    let (_, filter) = find(&wire, ObjectClass::FilterSpec, 0);
    assert_eq!(inserted(wire.clone(), at, &filter), Err((E::ObjectOrder, at)));
    let (at, _) = find(&wire, ObjectClass::FilterSpec, 0);
    let policy = [0, 8, 14, 1, 0, 0, 0, 0];
    assert_eq!(inserted(wire, at, &policy), Err((E::ObjectOrder, at)));
}

/// RFC 2205 section 3.10: reject, ignore or forward, by the two highest bits.
#[test]
fn unknown_classes_are_treated_by_their_two_high_bits() {
    for class in [2u8, 16, 127] {
        let mut wire = path();
        wire.splice(HOP..HOP, [0, 8, class, 7, 0, 0, 0, 0]);
        seal(&mut wire);
        let error = Message::parse(&wire).expect_err("it must be rejected");
        assert_eq!((error.kind, error.offset), (E::UnknownClass, HOP));
        let value = u16::from_be_bytes([class, 7]);
        assert_eq!(error.report(), Some((ErrorCode::UnknownObjectClass, value)));
    }
    for (class, carried) in [(128u8, 0), (191, 0), (192, 8), (255, 8)] {
        let mut wire = path();
        wire.splice(HOP..HOP, [0, 8, class, 7, 0, 0, 0, 0]);
        seal(&mut wire);
        let message = Message::parse(&wire).expect("it must not be rejected");
        let Body::Path(path) = message.body else { panic!("it is a Path") };
        assert_eq!(path.carried.octets(), carried);
        assert_eq!(
            path.carried.iter().map(|object| object.offset).sum::<usize>(),
            carried / 8 * HOP
        );
    }
}

#[test]
fn unknown_c_types_are_refused_and_answered() {
    for at in [SESSION, HOP, TIME, TEMPLATE, TSPEC, ADSPEC] {
        let mut wire = path();
        wire[at + 3] = 99;
        seal(&mut wire);
        let error = Message::parse(&wire).expect_err("the C-Type is unknown");
        assert_eq!((error.kind, error.offset, error.c_type), (E::UnknownCType, at, 99));
        let value = u16::from_be_bytes([wire[at + 2], 99]);
        assert_eq!(error.report(), Some((ErrorCode::UnknownObjectCType, value)));
    }
}

#[test]
fn unknown_styles_are_refused_and_answered() {
    let mut wire = resv(Style::FixedFilter);
    let (at, _) = find(&wire, ObjectClass::Style, 0);
    wire[at + 7] = 0b11010;
    seal(&mut wire);
    let error = Message::parse(&wire).expect_err("the style is unknown");
    assert_eq!((error.kind, error.offset), (E::UnknownStyle, at));
    assert_eq!(error.report(), Some((ErrorCode::UnknownStyle, 0)));

    let salvage = PartialMessage::scan(&wire);
    assert_eq!((salvage.flows, salvage.option_vector), (None, Some(0b11010)));
    let hop = salvage.hop.expect("it can be read");
    let node = ErrorSpec { node: hop.address, flags: 0, code: ErrorCode::UnknownStyle, value: 0 };
    let mut answer = [0xa5; PartialMessage::MAX_ANSWER];
    let length = salvage.emit_resv_err(&hop, &node, 1, &mut answer).expect("it fits");
    let answer = &mut answer[..length.expect("session and style are there")];
    // The answer has the style as received; with a known style it is an ordinary ResvErr.
    let (at, _) = (8 + 12 + 12 + 12, ());
    assert_eq!(answer[at..at + 8], [0, 8, 8, 1, 0, 0, 0, 0b11010]);
    answer[at + 7] = 0b01010;
    seal(answer);
    let Body::ResvErr(parsed) = Message::parse(answer).expect("it is well formed").body else {
        panic!("it is a ResvErr");
    };
    assert_eq!((parsed.session, parsed.error), (salvage.session.expect("it is there"), node));
    assert_eq!(parsed.flows.style(), Style::FixedFilter);
}

/// Higher bits of the option vector belong to future options (RFC 2205 appendix A.7).
#[test]
fn unknown_style_options_are_ignored() {
    let wire = resv(Style::Wildcard);
    let (at, _) = find(&wire, ObjectClass::Style, 0);
    assert_eq!(changed(wire, at + 4, &[0xff, 0xff, 0xff, 0xf1]), Ok(()));
}

#[test]
fn flow_descriptors_must_fit_the_style() {
    let (_, flowspec) = find(&resv(Style::FixedFilter), ObjectClass::FlowSpec, 0);
    let (_, filter) = find(&resv(Style::FixedFilter), ObjectClass::FilterSpec, 0);
    let f = flowspec.as_slice();
    let s = filter.as_slice();
    // Style, objects behind it, and the index of the refused one; their number means the end of the message.
    type Case<'a> = (Style, &'a [&'a [u8]], Option<usize>);
    let cases: [Case<'_>; 16] = [
        (Style::Wildcard, &[f], None),
        (Style::Wildcard, &[], Some(0)),
        (Style::Wildcard, &[f, f], Some(1)),
        (Style::Wildcard, &[f, s], Some(1)),
        (Style::FixedFilter, &[f, s, s], None),
        (Style::FixedFilter, &[f, s, f, s], None),
        (Style::FixedFilter, &[], Some(0)),
        (Style::FixedFilter, &[s], Some(0)),
        (Style::FixedFilter, &[f], Some(1)),
        (Style::FixedFilter, &[f, f, s], Some(1)),
        (Style::FixedFilter, &[f, s, f], Some(3)),
        (Style::SharedExplicit, &[f, s, s], None),
        (Style::SharedExplicit, &[f], Some(1)),
        (Style::SharedExplicit, &[s, s], Some(0)),
        (Style::SharedExplicit, &[f, s, f, s], Some(2)),
        (Style::SharedExplicit, &[], Some(0)),
    ];
    for (style, list, refused) in cases {
        let wire = without(&resv(style), ObjectClass::FlowSpec);
        let mut wire = without(&wire, ObjectClass::FilterSpec);
        let offset =
            wire.len() + list.iter().take(refused.unwrap_or(0)).map(|o| o.len()).sum::<usize>();
        wire.extend(list.concat());
        seal(&mut wire);
        let expected = refused.map_or(Ok(()), |_| Err((E::FlowDescriptors, offset)));
        assert_eq!(verdict(&wire), expected, "{style:?} {refused:?}");
    }
}

/// An omitted FLOWSPEC repeats its predecessor (RFC 2205 section 3.1.4).
#[test]
fn an_omitted_flowspec_repeats_its_predecessor() {
    let mut wire = resv(Style::FixedFilter);
    let (_, filter) = find(&wire, ObjectClass::FilterSpec, 0);
    wire.extend(filter);
    seal(&mut wire);
    let Body::Resv(resv) = Message::parse(&wire).expect("it is well formed").body else {
        panic!("it is a Resv");
    };
    let FlowDescriptors::FixedFilter(flows) = resv.flows else {
        panic!("it is FF");
    };
    let flows: Vec<FixedFilterFlow> = flows.iter().collect();
    assert_eq!(flows.len(), 3);
    assert_eq!(flows[2].flowspec, flows[1].flowspec);
    assert_eq!(flows[2].filter, flows[0].filter);
    assert_ne!(flows[0].flowspec, flows[1].flowspec);
}

/// A ResvErr has one flow descriptor or none; a ResvTear needs no flowspecs (RFC 2205 sections 3.1.6 and 3.1.8).
#[test]
fn flow_descriptors_of_errors_and_teardowns_are_checked() {
    for style in STYLES {
        let tear = octets(&sample(MessageType::ResvTear, style, false).message());
        assert_eq!(verdict(&without(&tear, ObjectClass::FlowSpec)), Ok(()), "{style:?}");
        let error = octets(&sample(MessageType::ResvErr, style, false).message());
        let bare = without(&error, ObjectClass::FilterSpec);
        assert_eq!(verdict(&without(&bare, ObjectClass::FlowSpec)), Ok(()), "{style:?}");
    }
    let tear = octets(&sample(MessageType::ResvTear, Style::FixedFilter, false).message());
    let tear = without(&without(&tear, ObjectClass::FlowSpec), ObjectClass::FilterSpec);
    assert_eq!(verdict(&tear), Err((E::FlowDescriptors, tear.len())));
    let mut error = octets(&sample(MessageType::ResvErr, Style::FixedFilter, false).message());
    let (_, filter) = find(&error, ObjectClass::FilterSpec, 0);
    let at = error.len();
    error.extend(filter);
    seal(&mut error);
    assert_eq!(verdict(&error), Err((E::FlowDescriptors, at)));
}

#[test]
fn contradictions_between_objects_are_refused() {
    let wire = path();
    // An object of another family than the SESSION is at fault, wherever it is.
    let (_, session6) = find(
        &octets(&sample(MessageType::Path, Style::Wildcard, true).message()),
        ObjectClass::Session,
        0,
    );
    let mut mixed = without(&wire, ObjectClass::Session);
    mixed.splice(8..8, session6);
    seal(&mut mixed);
    assert_eq!(verdict(&mixed), Err((E::AddressFamily, find(&mixed, ObjectClass::RsvpHop, 0).0)));
    // RFC 2205 section 3.2, rule 2.
    assert_eq!(changed(wire.clone(), SESSION + 10, &[0, 0]), Err((E::BadSourcePort, TEMPLATE)));
    assert_eq!(changed(changed_octets(SESSION + 10, &[0, 0]), TEMPLATE + 10, &[0, 0]), Ok(()));
    assert_eq!(changed(wire.clone(), SESSION + 8, &[0]), Err((E::ZeroProtocol, SESSION)));
    assert_eq!(changed(wire.clone(), SESSION + 4, &[0; 4]), Err((E::ZeroAddress, SESSION)));
    assert_eq!(changed(wire.clone(), TEMPLATE + 4, &[0; 4]), Err((E::ZeroAddress, TEMPLATE)));
    // An aggregate has a DSCP from 1 to 63 (RFC 3175 section 3.3, RFC 2474 section 3).
    for dscp in [0, 64, 255] {
        let mut aggregate = wire.clone();
        aggregate[SESSION + 3] = 9;
        assert_eq!(changed(aggregate, SESSION + 11, &[dscp]), Err((E::BadDscp, SESSION)));
    }
    // Its senders are aggregating routers, and theirs no other sessions (RFC 4860 section 3.1).
    let mut aggregate = wire.clone();
    aggregate[SESSION + 3] = 9;
    let with_port = changed(aggregate, SESSION + 10, &[0, 46]);
    assert_eq!(with_port, Err((E::ConflictingCType, TEMPLATE)));
    let (_, template) = find(&wire, ObjectClass::SenderTemplate, 0);
    let mut mixed = without(&wire, ObjectClass::SenderTemplate);
    let aggregator = [&[0, 8, template[2], 9], &template[4..8]].concat();
    mixed.splice(TEMPLATE..TEMPLATE, aggregator);
    seal(&mut mixed);
    assert_eq!(verdict(&mixed), Err((E::ConflictingCType, TEMPLATE)));
    assert_eq!(changed(wire.clone(), HOP + 4, &[0; 4]), Err((E::HopAddress, HOP)));
    assert_eq!(changed(wire, HOP + 4, &[224, 0, 0, 1]), Err((E::HopAddress, HOP)));
}

/// Malformed integrated-services data: reported with the offset inside the object, answered as a traffic-control error.
#[test]
fn malformed_traffic_specifications_are_answered() {
    use earmark_wire::rsvp::iana::TrafficControlError as Sub;
    let resv = resv(Style::Wildcard);
    let (flowspec, _) = find(&resv, ObjectClass::FlowSpec, 0);
    let cases = [
        (path(), TSPEC + 4, 0x10, FormatProblem::Version, 4, Sub::BadTspec),
        (path(), TSPEC + 7, 6, FormatProblem::Length, 4 + 28, Sub::BadTspec),
        (path(), TSPEC + 7, 8, FormatProblem::Length, 4, Sub::BadTspec),
        (path(), TSPEC + 12, 126, FormatProblem::UnexpectedParameter, 12, Sub::BadTspec),
        (path(), ADSPEC + 8, 2, FormatProblem::ServiceOrder, 8, Sub::BadAdspec),
        (path(), ADSPEC + 80, 2, FormatProblem::DuplicateService, 80, Sub::BadAdspec),
        (path(), ADSPEC + 12, 11, FormatProblem::MissingParameter, 8, Sub::BadAdspec),
        (path(), ADSPEC + 20, 4, FormatProblem::UnexpectedParameter, 20, Sub::BadAdspec),
        (resv.clone(), flowspec + 8, 3, FormatProblem::UnknownService, 8, Sub::ServiceUnsupported),
        (resv.clone(), flowspec + 8, 2, FormatProblem::MissingParameter, 36, Sub::BadFlowspec),
        (resv, flowspec + 15, 4, FormatProblem::Length, 12, Sub::BadFlowspec),
    ];
    for (mut wire, at, octet, problem, offset, sub_code) in cases {
        let object = [TSPEC, ADSPEC, flowspec]
            .into_iter()
            .rfind(|start| *start < at && [9, 12, 13].contains(&wire[start + 2]));
        let object = object.expect("the octet is inside one of them");
        wire[at] = octet;
        seal(&mut wire);
        let error = Message::parse(&wire).expect_err("it is broken");
        assert_eq!((error.kind, error.offset), (E::Intserv(problem), object + offset));
        assert_eq!(error.report(), Some((ErrorCode::TrafficControlError, sub_code.code())));
    }
}

/// The answer needs everything but the object at fault.
#[test]
fn rejected_message_is_readable_enough_for_the_answer() {
    for kind in KINDS {
        for style in STYLES {
            for ipv6 in [false, true] {
                let parts = sample(kind, style, ipv6);
                let mut wire = octets(&parts.message());
                wire.extend([0, 4, 77, 1]);
                seal(&mut wire);
                let error = Message::parse(&wire).expect_err("class 77 is unknown");
                assert_eq!(error.kind, E::UnknownClass);
                let salvage = PartialMessage::scan(&wire);
                assert_eq!(salvage.message_type, kind);
                assert_eq!(salvage.session, Some(parts.session));
                if has_flows(kind) {
                    assert_eq!(salvage.style(), Some(style));
                    let expected = match style {
                        Style::Wildcard => FlowDescriptors::Wildcard(parts.flowspec),
                        Style::FixedFilter => {
                            FlowDescriptors::FixedFilter(List::Items(&parts.fixed[..1]))
                        }
                        Style::SharedExplicit => FlowDescriptors::SharedExplicit(
                            parts.flowspec,
                            List::Items(&parts.filters[..1]),
                        ),
                    };
                    assert_eq!(salvage.flows, Some(expected));
                } else if kind == MessageType::Path {
                    assert_eq!(salvage.hop, Some(parts.hop));
                    assert_eq!(salvage.sender_template, parts.template);
                    assert_eq!(salvage.sender_tspec, parts.tspec);
                }
            }
        }
    }
}

/// Error texts have field or object, offset, and reason.
#[test]
fn errors_display_field_and_offset() {
    let text = |wire: &[u8]| Message::parse(wire).expect_err("it is wrong").to_string();
    let mut wire = path();
    wire[4] ^= 1;
    assert_eq!(text(&wire), "RSVP Checksum at octet 2: wrong checksum");
    let mut wire = path();
    wire[1] = 250;
    seal(&mut wire);
    assert_eq!(text(&wire), "Msg Type at octet 1: unknown message type");
    let mut wire = path();
    wire[HOP + 3] = 9;
    seal(&mut wire);
    assert_eq!(text(&wire), "RSVP_HOP object (C-Type 9) at octet 20: unknown C-Type");
    let mut wire = path();
    wire[HOP + 2] = 77;
    seal(&mut wire);
    assert_eq!(text(&wire), "object of class 77 (C-Type 1) at octet 20: unknown class");
    let wire = without(&path(), ObjectClass::TimeValues);
    let end = wire.len();
    assert_eq!(text(&wire), format!("TIME_VALUES object at octet {end}: required, but missing"));
}
