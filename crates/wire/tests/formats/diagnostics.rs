//! DREQ and DREP (RFC 2745): layouts of the figures in both directions, in IPv4 and IPv6; malformed ones; and their
//! text form.

use std::net::IpAddr;

use earmark_testkit::messages::hex;
use earmark_testkit::messages::intserv::BUCKET;
use earmark_testkit::messages::rsvp::{diagnosis_parts, octets, seal};
use earmark_wire::EmitError;
use earmark_wire::rsvp::ErrorKind as E;
use earmark_wire::rsvp::*;

fn wire(message_type: u8, objects: &str) -> Vec<u8> {
    let mut wire = vec![0x10, message_type, 0, 0, 63, 0, 0, 0];
    wire.extend(hex(objects));
    seal(&mut wire);
    wire
}

fn verdict(objects: &[&str]) -> Result<(), (ErrorKind, usize)> {
    Message::parse(&wire(8, &objects.concat()))
        .map(|_| ())
        .map_err(|error| (error.kind, error.offset))
}

const SESSION: &str = "000c0101 0a000909 11001770";
const HOP: &str = "000c0301 0a000201 00000007";
const DIAGNOSTIC: &str = "002c1e01 10 02 00 00 00000063 05dc 0000 0a000909 \
                          000c0b01 0a000101 00001388 000c0a01 0a000404 00001f90";
const SELECT: &str = "000c2101 0c00 0901 0800 0000";
const ROUTE: &str = "00101f01 00000002 0a000909 0a000301";
const RESPONSE: &str = "00202001 00018000 0a000301 0a000201 0a000101 01 83 001e 00080801 0000000a";

#[test]
fn dreq_matches_its_figure_both_ways() {
    let parts = diagnosis_parts(false);
    let request = Message::new(63, Body::Dreq(parts.diagnosis()));
    let expected = [SESSION, HOP, DIAGNOSTIC, SELECT, ROUTE, RESPONSE, RESPONSE].concat();
    assert_eq!(octets(&request), wire(8, &expected));
    assert_eq!(Message::parse(&wire(8, &expected)), Ok(request));
    let reply = Message::new(63, Body::Drep(parts.diagnosis()));
    assert_eq!(octets(&reply), wire(9, &expected));
    assert_eq!(Message::parse(&wire(9, &expected)), Ok(reply));
}

#[test]
fn both_families_round_trip() {
    for ipv6 in [false, true] {
        let parts = diagnosis_parts(ipv6);
        let whole = parts.diagnosis();
        let least = Diagnosis { select: None, route: None, responses: List::EMPTY, ..whole };
        let empty = Route { pointer: 0, nodes: List::EMPTY };
        let carrying = hex("0008c801 01020304");
        let carrying = Diagnosis { carried: Carried::Objects(&carrying), ..whole };
        let odd = [Selected { class_num: 9, c_type: 0 }; 4];
        let selecting = Diagnosis { select: Some(List::Items(&odd)), ..whole };
        for diagnosis in
            [whole, least, Diagnosis { route: Some(empty), ..whole }, carrying, selecting]
        {
            let message = Message {
                integrity: Some(Integrity::blank(0, 1, 2, 32)),
                ..Message::new(1, Body::Dreq(diagnosis))
            };
            let wire = octets(&message);
            assert_eq!(Message::parse(&wire), Ok(message));
            for object in objects(&wire) {
                let object = object.expect("every object decodes");
                let mut buffer = [0xa5; 256];
                let length = object.object.emit(&mut buffer);
                if matches!(object.object, Object::Route(route) if route.nodes.is_empty()) {
                    continue; // the object alone has no family
                }
                let known = !matches!(object.object, Object::Unknown(_));
                assert_eq!(length.is_ok(), known);
                if let Ok(length) = length {
                    assert_eq!(&buffer[..length], object.raw.bytes);
                }
            }
        }
    }
}

/// SENDER_TEMPLATE and FILTER_SPEC have different lengths: RFC 3175 sections 3.4 and 3.5 leave the port out.
#[test]
fn every_kind_of_sender_round_trips() {
    for (ipv6, destination) in [(false, "10.0.9.9"), (true, "2001:db8::9")] {
        let whole = diagnosis_parts(ipv6);
        let whole = whole.diagnosis();
        let source = whole.diagnostic.sender.source;
        let label = SourceSelector::FlowLabel(0x000a_bcde);
        let common =
            [SourceSelector::Port(5000), SourceSelector::Spi(77), SourceSelector::Aggregator];
        let selectors = common.into_iter().chain(ipv6.then_some(label));
        for (selector, of_requester) in
            selectors.clone().flat_map(|s| selectors.clone().map(move |r| (s, r)))
        {
            let diagnostic = Diagnostic {
                last_hop: destination.parse().expect("an address"),
                sender: FilterSpec { source, selector },
                requester: FilterSpec { source, selector: of_requester },
                ..whole.diagnostic
            };
            let message = Message::new(1, Body::Dreq(Diagnosis { diagnostic, ..whole }));
            assert_eq!(
                Message::parse(&octets(&message)),
                Ok(message),
                "{selector:?}, {of_requester:?}"
            );
        }
    }
}

#[test]
fn objects_out_of_order_are_refused() {
    assert_eq!(verdict(&[SESSION, HOP, DIAGNOSTIC]), Ok(()));
    assert_eq!(verdict(&[HOP, SESSION, DIAGNOSTIC]), Err((E::ObjectOrder, 20)));
    assert_eq!(verdict(&[SESSION, DIAGNOSTIC, HOP]), Err((E::ObjectOrder, 64)));
    assert_eq!(verdict(&[SESSION, HOP, DIAGNOSTIC, ROUTE, SELECT]), Err((E::ObjectOrder, 92)));
    assert_eq!(verdict(&[SESSION, HOP, DIAGNOSTIC, ROUTE, ROUTE]), Err((E::DuplicateObject, 92)));
    assert_eq!(verdict(&[SESSION, SESSION, HOP, DIAGNOSTIC]), Err((E::DuplicateObject, 20)));
    assert_eq!(verdict(&[HOP, DIAGNOSTIC]), Err((E::MissingObject, 64)));
    assert_eq!(verdict(&[SESSION, DIAGNOSTIC]), Err((E::MissingObject, 64)));
    assert_eq!(verdict(&[SESSION, HOP]), Err((E::MissingObject, 32)));
    let style = "00080801 0000000a";
    assert_eq!(verdict(&[SESSION, HOP, DIAGNOSTIC, style]), Err((E::IllegalObject, 76)));
    assert_eq!(verdict(&[SESSION, HOP, DIAGNOSTIC, "00047001"]), Err((E::UnknownClass, 76)));
    assert_eq!(verdict(&[SESSION, HOP, "00048001", DIAGNOSTIC, "0004f001"]), Ok(()));
    let name = "000c1701 00000001 00000001";
    assert_eq!(verdict(&[SESSION, name, HOP, DIAGNOSTIC]), Err((E::ObjectOrder, 20)));
}

#[test]
fn faults_are_reported_with_offset() {
    let diagnostic = |digits: &str| verdict(&[SESSION, HOP, digits]);
    let swapped = DIAGNOSTIC.replace("000c0b01", "000c0a01");
    assert_eq!(diagnostic(&swapped), Err((E::ObjectSize, 32)), "no SENDER_TEMPLATE within");
    assert_eq!(diagnostic("00081e01 10020000"), Err((E::ObjectSize, 32)));
    let longer = format!("{DIAGNOSTIC} 00000000").replace("002c", "0030");
    assert_eq!(diagnostic(&longer), Err((E::ObjectSize, 32)));
    assert_eq!(diagnostic(&DIAGNOSTIC.replace("1e01", "1e03")), Err((E::UnknownCType, 32)));

    // Appendix A.1 of RFC 2205 holds for each SESSION.
    let session = |digits: &str| verdict(&[digits, HOP, DIAGNOSTIC]);
    assert_eq!(session("000c0101 0a000909 00001770"), Err((E::ZeroProtocol, 8)));
    assert_eq!(session("000c0101 00000000 11001770"), Err((E::ZeroAddress, 8)));

    let behind = |digits: &str| verdict(&[SESSION, HOP, DIAGNOSTIC, digits]);
    assert_eq!(behind("00082102 0c000901"), Err((E::UnknownCType, 76)));
    assert_eq!(behind("00041f01"), Err((E::ObjectSize, 76)));
    assert_eq!(behind("000c1f02 00000001 0a000909"), Err((E::ObjectSize, 76)));
    assert_eq!(behind("00081f02 00000000"), Err((E::AddressFamily, 76)));
    assert_eq!(behind("00142001 00000001 0a000301 0a000201 0a000101"), Err((E::ObjectSize, 76)));
    let broken = RESPONSE.replace("00080801", "00060801");
    assert_eq!(behind(&broken), Err((E::ObjectLength, 100)), "an object within");
}

#[test]
fn unreadable_messages_are_not_emitted() {
    let (v4, v6) = (diagnosis_parts(false), diagnosis_parts(true));
    let (good, other) = (v4.diagnosis(), v6.diagnosis());
    let refused = |diagnosis: Diagnosis<'_>| {
        let written = Message::new(1, Body::Dreq(diagnosis)).emit(&mut [0; 999]);
        assert_eq!(written, Err(EmitError::Contradiction));
    };
    refused(Diagnosis { route: other.route, ..good });
    let sender = other.diagnostic.sender;
    refused(Diagnosis { diagnostic: Diagnostic { sender, ..good.diagnostic }, ..good });
    let response = v4.responses()[0];
    let mixed = [DiagResponse { outgoing: IpAddr::from([0; 16]), ..response }];
    refused(Diagnosis { responses: List::Items(&mixed), ..good });
    let torn = [DiagResponse { objects: &[0, 8, 8, 1], ..response }];
    refused(Diagnosis { responses: List::Items(&torn), ..good });
}

/// A node emits its objects one by one; the receiver parses them again.
#[test]
fn diag_response_objects_round_trip() {
    let mut row = [0; 256];
    let mut length = 0;
    for object in [Object::SenderTspec(BUCKET), Object::Style(Style::FixedFilter)] {
        length += object.emit(&mut row[length..]).expect("it fits");
    }
    let read: Vec<_> = objects_in(&row[..length]).map(|o| o.expect("it decodes").object).collect();
    assert_eq!(read, [Object::SenderTspec(BUCKET), Object::Style(Style::FixedFilter)]);
}

#[test]
fn diagnostics_serialize_flat() {
    let wire = wire(8, &[DIAGNOSTIC, SELECT, ROUTE, RESPONSE].concat());
    let json: Vec<_> = objects(&wire)
        .map(|object| serde_json::to_string(&object.expect("it decodes")).expect("it serializes"))
        .collect();
    let expected = [
        concat!(
            r#"{"class_num":30,"c_type":1,"length":44,"offset":8,"class":"DIAGNOSTIC","max_hops":16,"hop_count":2,"#,
            r#""more_fragments":false,"request_id":99,"path_mtu":1500,"fragment_offset":0,"last_hop":"10.0.9.9","#,
            r#""sender":{"source":"10.0.1.1","port":5000},"requester":{"source":"10.0.4.4","port":8080}}"#
        ),
        concat!(
            r#"{"class_num":33,"c_type":1,"length":12,"offset":52,"class":"DIAG_SELECT","selected":"#,
            r#"[{"class_num":12,"c_type":0},{"class_num":9,"c_type":1},{"class_num":8,"c_type":0}]}"#
        ),
        concat!(
            r#"{"class_num":31,"c_type":1,"length":16,"offset":64,"class":"ROUTE","pointer":2,"#,
            r#""nodes":["10.0.9.9","10.0.3.1"]}"#
        ),
        concat!(
            r#"{"class_num":32,"c_type":1,"length":32,"offset":80,"class":"DIAG_RESPONSE","arrival":98304,"#,
            r#""incoming":"10.0.3.1","outgoing":"10.0.2.1","previous_hop":"10.0.1.1","ip_hops":1,"merged":true,"#,
            r#""error":0,"refresh_multiple":3,"refresh_s":30,"objects":[{"class_num":8,"c_type":1,"length":8,"#,
            r#""offset":0,"class":"STYLE","style":"FF"}]}"#
        ),
    ];
    assert_eq!(json, expected);
}
