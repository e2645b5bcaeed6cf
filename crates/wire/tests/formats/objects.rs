//! Every object of RFC 2205 appendix A, with octets written by hand from its figure.

use std::net::IpAddr;

use earmark_wire::EmitError;
use earmark_wire::rsvp::*;

fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u32> = digits.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| u8::try_from(pair[0] << 4 | pair[1]).expect("two digits")).collect()
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Returns the JSON form of an object that is alone behind a common header.
fn shown(digits: &str) -> String {
    let wire = [vec![0; 8], hex(digits)].concat();
    let object = objects(&wire).next().expect("there is one").expect("it decodes");
    serde_json::to_string(&object).expect("it serializes")
}

/// Asserts that an object alone behind a common header parses to `expected`.
fn reads(digits: &str, expected: Object<'_>) {
    let wire = [vec![0; 8], hex(digits)].concat();
    let object = objects(&wire).next().expect("there is one").expect("it decodes");
    assert_eq!(object.object, expected, "{digits}");
}

/// Asserts that the octets parse to `expected`, and that `expected` is emitted as the octets into any buffer that is
/// long enough.
fn both_ways(digits: &str, expected: Object<'_>) {
    reads(digits, expected);
    let octets = hex(digits);
    let mut buffer = vec![0xa5; octets.len()];
    for length in 0..octets.len() {
        let refused = expected.emit(&mut buffer[..length]);
        assert_eq!(refused, Err(EmitError::BufferTooShort), "{digits}");
    }
    assert_eq!(expected.emit(&mut buffer), Ok(octets.len()));
    assert_eq!(buffer, octets);
}

const V6: &str = "20010db8 00000000 00000000 00000001";

#[test]
fn every_object_matches_its_figure_both_ways() {
    let v4 = address("10.1.2.3");
    let v6 = address("2001:db8::1");
    let session = |destination| Session { destination, protocol: 17, flags: 1, port: 6000 };
    both_ways("000c0101 0a010203 11011770", Object::Session(session(v4)));
    both_ways(&format!("00180102 {V6} 11011770"), Object::Session(session(v6)));
    let hop = |address| RsvpHop { address, lih: 0x0102_0304 };
    both_ways("000c0301 0a010203 01020304", Object::RsvpHop(hop(v4)));
    both_ways(&format!("00180302 {V6} 01020304"), Object::RsvpHop(hop(v6)));
    both_ways("00080501 00007530", Object::TimeValues(30_000));
    let error = |node| ErrorSpec {
        node,
        flags: ErrorSpec::IN_PLACE,
        code: ErrorCode::AdmissionControlFailure,
        value: 2,
    };
    both_ways("000c0601 0a010203 01010002", Object::ErrorSpec(error(v4)));
    both_ways(&format!("00180602 {V6} 01010002"), Object::ErrorSpec(error(v6)));
    both_ways("000c0701 0a010203 0a010204", Object::Scope(List::Items(&[v4, address("10.1.2.4")])));
    both_ways(&format!("00140702 {V6}"), Object::Scope(List::Items(&[v6])));
    both_ways("00040701", Object::Scope(List::Items(&[])));
    both_ways("00080801 00000011", Object::Style(Style::Wildcard));
    both_ways("00080801 0000000a", Object::Style(Style::FixedFilter));
    both_ways("00080801 00000012", Object::Style(Style::SharedExplicit));
    let filter = |source, selector| FilterSpec { source, selector };
    let port = SourceSelector::Port(5000);
    both_ways("000c0a01 0a010203 00001388", Object::FilterSpec(filter(v4, port)));
    both_ways(&format!("00180a02 {V6} 00001388"), Object::FilterSpec(filter(v6, port)));
    let label = SourceSelector::FlowLabel(0x000a_bcde);
    both_ways(&format!("00180b03 {V6} 000abcde"), Object::SenderTemplate(filter(v6, label)));
    // RFC 2207 section 3.
    let session = |destination| Session { destination, protocol: 50, flags: 0, port: 9000 };
    both_ways("000c0103 0a010203 32002328", Object::Session(session(v4)));
    both_ways(&format!("00180104 {V6} 32002328"), Object::Session(session(v6)));
    let spi = SourceSelector::Spi(0xc0ff_ee01);
    both_ways("000c0a04 0a010203 c0ffee01", Object::FilterSpec(filter(v4, spi)));
    both_ways(&format!("00180a05 {V6} c0ffee01"), Object::FilterSpec(filter(v6, spi)));
    both_ways("000c0b04 0a010203 c0ffee01", Object::SenderTemplate(filter(v4, spi)));
    both_ways(&format!("00180b05 {V6} c0ffee01"), Object::SenderTemplate(filter(v6, spi)));
    // RFC 3175 sections 3.3 to 3.5.
    let session = |destination| Session { flags: 1, ..Session::aggregate(destination, Dscp(46)) };
    both_ways("000c0109 0a010203 0001002e", Object::Session(session(v4)));
    both_ways(&format!("0018010a {V6} 0001002e"), Object::Session(session(v6)));
    let aggregator = SourceSelector::Aggregator;
    both_ways("00080a09 0a010203", Object::FilterSpec(filter(v4, aggregator)));
    both_ways(&format!("00140a0a {V6}"), Object::FilterSpec(filter(v6, aggregator)));
    both_ways("00080b09 0a010203", Object::SenderTemplate(filter(v4, aggregator)));
    both_ways(&format!("00140b0a {V6}"), Object::SenderTemplate(filter(v6, aggregator)));
    // RFC 4860 sections 2.1 and 2.2. PHB-ID of EF: DSCP 46 in the highest bits (RFC 3140 section 2).
    let generic = |destination, extended_port| {
        let (flags, phb_id, port) = (1, 0xb800, 9_000);
        GenericAggregate { destination, flags, phb_id, port, extended_port }
    };
    let (four, six) = (generic(v4, address("10.1.2.4")), generic(v6, v6));
    both_ways("00140111 0a010203 0001b800 00002328 0a010204", Object::GenericSession(four));
    let octets = format!("{V6} 0001b800 00002328 {V6}");
    both_ways(&format!("002c0112 {octets}"), Object::GenericSession(six));
    both_ways("00148401 0a010203 0001b800 00002328 0a010204", Object::SessionOfInterest(four));
    both_ways(&format!("002c8402 {octets}"), Object::SessionOfInterest(six));
    both_ways("00080f01 0a010203", Object::ResvConfirm(v4));
    both_ways(&format!("00140f02 {V6}"), Object::ResvConfirm(v6));
    both_ways(
        "00180401 8000 000000000102 0000000000000103 01020304",
        Object::Integrity(Integrity {
            flags: Integrity::HANDSHAKE,
            key_id: 0x102,
            sequence: 0x103,
            digest: &[1, 2, 3, 4],
        }),
    );
    reads("00080e02 01020304", Object::UnknownPolicyData(&[1, 2, 3, 4]));
    let code_points = [Dscp(0b00_1010), Dscp(0b10_1110)];
    both_ways("000ce101 00000028 000000b8", Object::DClass(List::Items(&code_points)));
    reads("0008c807 01020304", Object::Unknown(&[1, 2, 3, 4]));
    reads("00040063", Object::Null);
}

/// Unused fields are ignored on receipt (RFC 2205 appendix A).
#[test]
fn unused_fields_are_ignored() {
    let expected = FilterSpec { source: address("10.1.2.3"), selector: SourceSelector::Port(1) };
    reads("000c0a01 0a010203 ffff0001", Object::FilterSpec(expected));
    let aggregate = Session::aggregate(address("10.1.2.3"), Dscp(46));
    reads("000c0109 0a010203 ff00ff2e", Object::Session(aggregate));
}

/// The form that `earmark decode --json` prints.
#[test]
fn objects_serialize_flat() {
    let cases = [
        (
            "000c0101 0a010203 11011770",
            r#"{"class_num":1,"c_type":1,"length":12,"offset":8,"class":"SESSION","destination":"10.1.2.3","protocol":17,"flags":1,"port":6000}"#,
        ),
        (
            "000c0109 0a010203 0001002e",
            r#"{"class_num":1,"c_type":9,"length":12,"offset":8,"class":"SESSION","destination":"10.1.2.3","flags":1,"dscp":46}"#,
        ),
        (
            "00080a09 0a010203",
            r#"{"class_num":10,"c_type":9,"length":8,"offset":8,"class":"FILTER_SPEC","source":"10.1.2.3"}"#,
        ),
        (
            "00148401 0a010203 0001b800 00002328 00000000",
            r#"{"class_num":132,"c_type":1,"length":20,"offset":8,"class":"SESSION-OF-INTEREST","destination":"10.1.2.3","flags":1,"phb_id":47104,"port":9000,"extended_port":"0.0.0.0"}"#,
        ),
        (
            "00080801 0000000a",
            r#"{"class_num":8,"c_type":1,"length":8,"offset":8,"class":"STYLE","style":"FF"}"#,
        ),
        (
            "000c0601 0a010203 00150002",
            r#"{"class_num":6,"c_type":1,"length":12,"offset":8,"class":"ERROR_SPEC","node":"10.1.2.3","flags":0,"code":21,"value":2,"text":"Traffic Control Error"}"#,
        ),
        (
            "00240902 00000007 05000006 7f000005 48742400 453b8000 7f800000 00000040 000005dc",
            r#"{"class_num":9,"c_type":2,"length":36,"offset":8,"class":"FLOWSPEC","service":"controlled-load","rate":250000.0,"depth":3000.0,"peak":"infinity","min_policed_unit":64,"max_packet_size":1500}"#,
        ),
        (
            "000c8301 00007530 ffffffff",
            r#"{"class_num":131,"c_type":1,"length":12,"offset":8,"class":"RESTART_CAP","restart_ms":30000,"recovery_ms":4294967295}"#,
        ),
        (
            "00088601 00000006",
            r#"{"class_num":134,"c_type":1,"length":8,"offset":8,"class":"CAPABILITY","recovery_path_transmit":true,"recovery_path_desired":true,"recovery_path_srefresh":false}"#,
        ),
        (
            "0008c807 0102fe04",
            r#"{"class_num":200,"c_type":7,"length":8,"offset":8,"class":"unknown","body":"0102fe04"}"#,
        ),
        (
            "00080701 0a010203",
            r#"{"class_num":7,"c_type":1,"length":8,"offset":8,"class":"SCOPE","senders":["10.1.2.3"]}"#,
        ),
    ];
    for (digits, json) in cases {
        assert_eq!(shown(digits), json);
    }
}
