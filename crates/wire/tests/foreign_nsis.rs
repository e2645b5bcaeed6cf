//! Our Wireshark dissector in tshark, with GIST and its applications: values are shown, and faults are marked.
//!
//! Without tshark the tests are listed as ignored.

mod tshark;

use std::net::IpAddr;
use std::process::ExitCode;

use earmark_testkit::messages::natfw_nslp;
use earmark_testkit::messages::qos_nslp::RESERVE;
use earmark_wire::gist::*;
use earmark_wire::intserv::TokenBucket;
use earmark_wire::ping_nslp::{self, NodeRecord, Ping, Timestamp, WITH_BANDWIDTH};
use earmark_wire::qos_nslp::iana::{BindingCode, Success};
use earmark_wire::qos_nslp::{
    BoundSessionId, BoundSessions, ErrorSource, Extra, GenericFlags, InfoSpec,
    Message as QosMessage, Outcome, PacketClassifier, Reserve, Response as QosResponse, Rsn,
};
use earmark_wire::qspec::iana::MessageSequence;
use earmark_wire::qspec::{Parameter, PreemptionPriority, Procedure, QosObject, Qspec, Value};
use earmark_wire::udp;
use libtest_mimic::Failed;
use tshark::{DESTINATION, SOURCE};

fn main() -> ExitCode {
    tshark::run(&[
        ("tshark_reads_query", tshark_reads_query),
        ("tshark_reads_flow_of_ipv6", tshark_reads_flow_of_ipv6),
        ("tshark_reads_error", tshark_reads_error),
        ("tshark_reads_reserve", tshark_reads_reserve),
        ("tshark_reads_response", tshark_reads_response),
        ("tshark_reads_natfw", tshark_reads_natfw),
        ("tshark_reads_ping", tshark_reads_ping),
        ("tshark_reads_streams_message_by_message", tshark_reads_streams_message_by_message),
        ("tshark_marks_malformed_messages", tshark_marks_malformed_messages),
    ])
}

/// Protocol number of TCP.
const TCP: u8 = 6;

/// Returns a TCP segment whose octets begin at sequence number `sequence`.
fn segment(sequence: u32, payload: &[u8]) -> Vec<u8> {
    let mut octets = Vec::new();
    octets.extend(50_000_u16.to_be_bytes());
    octets.extend(iana::PORT.to_be_bytes());
    octets.extend(sequence.to_be_bytes());
    octets.extend([0, 0, 0, 1, 5 << 4, 0x18, 0xff, 0xff, 0, 0, 0, 0]);
    octets.extend(payload);
    octets
}

/// Returns the values of these fields, one line for each packet.
fn tshark(name: &str, protocol: u8, payloads: &[Vec<u8>], fields: &[&str]) -> Vec<String> {
    tshark::values("nsis", name, protocol, payloads, fields)
}

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn flow() -> PathCoupled {
    PathCoupled {
        source: SOURCE.into(),
        destination: DESTINATION.into(),
        source_prefix: 32,
        destination_prefix: 24,
        protocol: Some(17),
        ds_field: Some(46),
        flow_label: None,
        spi: None,
        source_port: Some(4_000),
        destination_port: Some(5_004),
        direction: Direction::Upstream,
    }
}

fn nli() -> NetworkLayerInformation<'static> {
    NetworkLayerInformation {
        peer_identity: b"edge1",
        ip_ttl: 63,
        interface_address: ip("10.0.0.254"),
        routing_state_validity: 180_000,
    }
}

const SESSION: SessionId = SessionId([0x5a; 16]);

fn message(nslpid: u16, body: Body<'_>) -> Vec<u8> {
    let extensions = Extensions::NONE;
    let message = Message { hops: 31, nslpid, source_is_peer: true, body, extensions };
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("it is right");
    octets
}

fn data(nslpid: u16, nslp_data: &[u8]) -> Vec<u8> {
    let body = Body::Data(Data {
        nat_traversal: None,
        mri: Mri::PathCoupled(flow()),
        session: SESSION,
        nli: Some(nli()),
        nslp_data,
        continuation: Continuation::NONE,
        context_free: false,
        explicitly_routed: true,
    });
    message(nslpid, body)
}

/// Returns a message in a UDP datagram.
fn datagram(message: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; udp::HEADER + MAGIC_LEN];
    emit_magic(&mut packet[udp::HEADER..]).expect("there is room");
    packet.extend(message);
    let header = udp::Repr {
        source: SOURCE.into(),
        destination: DESTINATION.into(),
        source_port: iana::PORT,
        destination_port: iana::PORT,
    };
    header.emit(&mut packet).expect("it is short");
    packet
}

/// Asserts the fields of a message in one datagram, and that nothing is marked as malformed.
#[track_caller]
fn assert_read(name: &str, message: &[u8], expected: &[(&str, &str)]) {
    let complaints =
        ["gist", "qosnslp", "qspec", "natfwnslp", "pingnslp"].map(|it| format!("{it}.malformed"));
    let mut fields: Vec<&str> = expected.iter().map(|(field, _)| *field).collect();
    fields.extend(complaints.iter().map(String::as_str));
    let lines = tshark(name, udp::PROTOCOL, &[datagram(message)], &fields);
    let line = lines.first().expect("one packet");
    // Versions of tshark differ in how they show a true flag.
    let read: Vec<String> =
        line.split(';').map(|value| value.replace("True", "1").replace("False", "0")).collect();
    for (number, (field, value)) in expected.iter().enumerate() {
        assert_eq!(read.get(number).map_or("", String::as_str), *value, "{field} in {line}");
    }
    assert!(read[expected.len()..].iter().all(String::is_empty), "{line}");
}

fn tshark_reads_query() -> Result<(), Failed> {
    let profiles = [Profile(&[2, 1]), Profile(&[1])];
    let port = 30_001_u16.to_be_bytes();
    let options = [
        ProtocolOptions::tcp_response(1, &port),
        ProtocolOptions { unusable: true, ..ProtocolOptions::tcp_query(2) },
    ];
    let query = Body::Query(Query {
        nat_traversal: None,
        mri: Mri::PathCoupled(flow()),
        session: SESSION,
        nli: nli(),
        query_cookie: b"querycookie!",
        stack: Some(Stack {
            proposal: Profiles::new(&profiles),
            configuration: StackConfiguration {
                hold_time: 60_000,
                options: ProtocolOptionsList::new(&options),
            },
        }),
        nslp_data: Some(b"nobody knows"),
    });
    assert_read(
        "query",
        &message(40, query),
        &[
            ("gist.version", "1"),
            ("gist.hops", "31"),
            ("gist.nslpid", "40"),
            ("gist.type", "0"),
            ("gist.flags.c", "1"),
            ("gist.flags.s", "1"),
            ("gist.flags.r", "1"),
            ("gist.flags.e", "0"),
            ("gist.object", "0,1,2,5,3,4,8"),
            ("gist.mri.method", "0"),
            ("gist.mri.direction", "1"),
            ("gist.mri.source", "10.0.0.1"),
            ("gist.mri.destination", "10.0.1.1"),
            ("gist.mri.source_prefix", "32"),
            ("gist.mri.destination_prefix", "24"),
            ("gist.mri.protocol", "17"),
            ("gist.mri.dscp", "46"),
            ("gist.mri.source_port", "4000"),
            ("gist.mri.destination_port", "5004"),
            ("gist.session", "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"),
            ("gist.nli.ip_ttl", "63"),
            ("gist.nli.validity", "180000"),
            ("gist.nli.peer_identity", "6564676531"),
            ("gist.nli.interface", "10.0.0.254"),
            ("gist.cookie", "7175657279636f6f6b696521"),
            ("gist.stack.profile", "0201,01"),
            ("gist.stack.protocol", "2,1,1"),
            ("gist.stack.hold_time", "60000"),
            ("gist.stack.option", "1,1"),
            ("gist.stack.option.profile", "1,2"),
            ("gist.stack.option.unusable", "0,1"),
            ("gist.stack.port", "30001"),
            ("gist.data", "6e6f626f6479206b6e6f7773"),
        ],
    );
    Ok(())
}

fn tshark_reads_flow_of_ipv6() -> Result<(), Failed> {
    let mri = Mri::PathCoupled(PathCoupled {
        source: ip("2001:db8::1"),
        destination: ip("2001:db8::2"),
        source_prefix: 128,
        destination_prefix: 64,
        protocol: Some(50),
        ds_field: None,
        flow_label: Some(0x12345),
        spi: Some(0xabcd_ef01),
        source_port: None,
        destination_port: None,
        direction: Direction::Downstream,
    });
    let interface_address = ip("2001:db8::3");
    let confirm = Body::Confirm(Confirm {
        mri,
        session: SESSION,
        nli: NetworkLayerInformation { interface_address, ..nli() },
        returned: Some(Returned { cookie: b"rrrr", proposal: None, configuration: None }),
        nslp_data: None,
    });
    assert_read(
        "ipv6",
        &message(40, confirm),
        &[
            ("gist.type", "2"),
            ("gist.mri.source6", "2001:db8::1"),
            ("gist.mri.destination6", "2001:db8::2"),
            ("gist.mri.protocol", "50"),
            ("gist.mri.dscp", ""),
            ("gist.mri.flow_label", "0x00012345"),
            ("gist.mri.spi", "0xabcdef01"),
            ("gist.mri.source_port", ""),
            ("gist.mri.direction", "0"),
            ("gist.nli.interface6", "2001:db8::3"),
            ("gist.cookie", "72727272"),
        ],
    );
    Ok(())
}

fn tshark_reads_error() -> Result<(), Failed> {
    let error = Body::Error(Error {
        nat_traversal: None,
        nli: Some(nli()),
        error: ErrorData {
            class: ErrorClass::PermanentFailure,
            code: ErrorCode::MessageTooLarge,
            subcode: 0,
            d_mode: true,
            q_mode: false,
            original: [1, 31, 0, 31, 0, 1, 0x80, 0x40],
            session: Some(SESSION),
            mri: Some(Mri::LooseEnd(LooseEnd {
                source: SOURCE.into(),
                destination: DESTINATION.into(),
                direction: Direction::Upstream,
            })),
            infos: Infos::Items(&[Info::Mtu(1_280)]),
            comment: Some("too much"),
        },
    });
    assert_read(
        "error",
        &message(0, error),
        &[
            ("gist.type", "4"),
            ("gist.error.class", "4"),
            ("gist.error.code", "8"),
            ("gist.error.subcode", "0"),
            ("gist.error.original", "011f001f00018040"),
            ("gist.session", "5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a5a"),
            ("gist.mri.method", "1"),
            ("gist.mri.direction", "1"),
            ("gist.mri.destination", "10.0.1.1"),
            ("gist.error.info", "2"),
            ("gist.error.info.value", "1280"),
            ("gist.error.comment", "too much"),
        ],
    );
    Ok(())
}

fn qspec() -> Vec<u8> {
    let bucket = TokenBucket {
        rate: 1_000.0,
        depth: 2_000.0,
        peak: 4_000.0,
        min_policed_unit: 64,
        max_packet_size: 1_500,
    };
    let priority = PreemptionPriority { preemption: 7, defending: 9 };
    let desired = [
        Parameter::mandatory(Value::Tmod1(bucket)),
        Parameter { is_failed: true, ..Parameter::optional(Value::PathLatency(5_000)) },
        Parameter {
            is_not_supported: true,
            ..Parameter::mandatory(Value::PreemptionPriority(priority))
        },
        Parameter::optional(Value::Unknown { id: 77, octets: &[1, 2, 3, 4] }),
    ];
    let qspec = Qspec {
        desired: Some(QosObject { is_failed: true, ..QosObject::new(&desired) }),
        reserved: Some(QosObject::new(&desired[..1])),
        ..Qspec::new(Procedure { sequence: MessageSequence::ThreeWay, combination: 2 })
    };
    let mut octets = vec![0; qspec.buffer_len()];
    qspec.emit(&mut octets).expect("it is right");
    octets
}

fn written(message: &QosMessage<'_>) -> Vec<u8> {
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("it is right");
    octets
}

fn tshark_reads_reserve() -> Result<(), Failed> {
    let bound =
        [BoundSessionId { binding: BindingCode::Bidirectional, session: SessionId([9; 16]) }];
    let qspec = qspec();
    let reserve = QosMessage::Reserve(Reserve {
        flags: GenericFlags { breaks: true, scoping: true, ..GenericFlags::default() },
        tear: false,
        replace: true,
        rsn: Rsn { number: 77, epoch: 0xdead_beef },
        rii: Some(0x1234_5678),
        refresh_period: Some(30_000),
        bound: BoundSessions::Items(&bound),
        summary: None,
        binding: None,
        info: None,
        classifier: Some(PacketClassifier(0xe3)),
        qspec: Some(&qspec),
        extra: Extra::NONE,
    });
    assert_read(
        "reserve",
        &data(1, &written(&reserve)),
        &[
            ("gist.flags.e", "1"),
            ("qosnslp.type", "1"),
            ("qosnslp.flags.tear", "0"),
            ("qosnslp.flags.replace", "1"),
            ("qosnslp.flags.break", "1"),
            ("qosnslp.flags.ack_req", "0"),
            ("qosnslp.flags.scoping", "1"),
            ("qosnslp.rsn", "77"),
            ("qosnslp.epoch", "0xdeadbeef"),
            ("qosnslp.rii", "0x12345678"),
            ("qosnslp.refresh_period", "30000"),
            ("qosnslp.binding", "2"),
            ("qosnslp.session", "09090909090909090909090909090909"),
            ("qosnslp.classifier", "0xe3"),
            ("qspec.version", "0"),
            ("qspec.local", "0"),
            ("qspec.type", "0"),
            ("qspec.message_sequence", "1"),
            ("qspec.object_combination", "2"),
            ("qspec.object", "0,2"),
            ("qspec.object.error", "1,0"),
            ("qspec.parameter", "1,3,8,77,1"),
            ("qspec.parameter.mandatory", "1,0,1,0,1"),
            ("qspec.parameter.error", "0,1,0,0,0"),
            ("qspec.parameter.not_supported", "0,0,1,0,0"),
            ("qspec.tmod.rate", "1000,1000"),
            ("qspec.tmod.depth", "2000,2000"),
            ("qspec.tmod.peak", "4000,4000"),
            ("qspec.tmod.min_policed_unit", "64,64"),
            ("qspec.tmod.max_packet_size", "1500,1500"),
            ("qspec.microseconds", "5000"),
            ("qspec.priority.preemption", "7"),
            ("qspec.priority.defending", "9"),
            ("qspec.data", "01020304"),
        ],
    );
    Ok(())
}

fn tshark_reads_response() -> Result<(), Failed> {
    let response = QosMessage::Response(QosResponse {
        flags: GenericFlags::default(),
        answers: None,
        info: InfoSpec {
            source: Some(ErrorSource::Ipv4(DESTINATION)),
            ..InfoSpec::new(Outcome::Success(Success::Reservation))
        },
        summary: None,
        qspec: None,
        extra: Extra::NONE,
    });
    assert_read(
        "response",
        &data(32, &written(&response)),
        &[
            ("qosnslp.type", "3"),
            ("qosnslp.info.class", "2"),
            ("qosnslp.info.code", "1"),
            ("qosnslp.info.source", "10.0.1.1"),
            ("qspec.version", ""),
        ],
    );
    Ok(())
}

fn tshark_reads_natfw() -> Result<(), Failed> {
    let [create, external, response, notify] = natfw_nslp::valid();
    assert_read(
        "create",
        &data(33, &create),
        &[
            ("natfwnslp.type", "1"),
            ("natfwnslp.flags.proxy", "1"),
            ("natfwnslp.flags.end_to_end", "1"),
            ("natfwnslp.object", "12,15,18,17,20"),
            ("natfwnslp.lifetime", "300"),
            ("natfwnslp.action", "1"),
            ("natfwnslp.sub_ports", "0"),
            ("natfwnslp.msn", "1"),
            ("natfwnslp.nonce", "0x00000007"),
            ("natfwnslp.icmp_type", "8,0,11,12"),
        ],
    );
    assert_read(
        "external",
        &data(33, &external),
        &[
            ("natfwnslp.type", "2"),
            ("natfwnslp.object", "12,18,15,19,17,20,14"),
            ("natfwnslp.dtinfo.i", "1"),
            ("natfwnslp.dtinfo.p", "1"),
            ("natfwnslp.dtinfo.s", "0"),
            ("natfwnslp.dtinfo.sender_prefix", "32"),
            ("natfwnslp.dtinfo.protocol", "17"),
            ("natfwnslp.dtinfo.destination_port", "5004"),
            ("natfwnslp.dtinfo.source_port", "0"),
            ("natfwnslp.dtinfo.spi", ""),
            ("natfwnslp.dtinfo.sender", "10.0.1.254"),
            ("natfwnslp.port", "4000"),
            ("natfwnslp.ip_version", "4"),
            ("natfwnslp.address", "192.0.2.1,192.0.2.2"),
        ],
    );
    assert_read(
        "natfw response",
        &data(33, &response),
        &[
            ("natfwnslp.type", "3"),
            ("natfwnslp.flags.proxy", ""),
            ("natfwnslp.object", "12,18,16,13,14"),
            ("natfwnslp.info.class", "2"),
            ("natfwnslp.info.code", "1"),
            ("natfwnslp.info.object", "0"),
            ("natfwnslp.address", "198.51.100.7,192.0.2.1,192.0.2.2"),
        ],
    );
    let event =
        [("natfwnslp.type", "4"), ("natfwnslp.info.class", "1"), ("natfwnslp.info.code", "1")];
    assert_read("natfw notify", &data(33, &notify), &event);
    Ok(())
}

fn tshark_reads_ping() -> Result<(), Failed> {
    for (version, length) in [(ping_nslp::Version::V1, "84"), (ping_nslp::Version::V2, "88")] {
        let ping = Ping { version, hops: 1, sequence: 5, objects: &WITH_BANDWIDTH, data: &[] };
        let mut octets = vec![0; 200];
        let mut end = ping.emit(&mut octets).expect("there is room");
        for (address, available) in [(ip("10.0.0.1"), Some(7_500_000)), (ip("2001:db8::1"), None)] {
            let time = Timestamp { seconds: 3, microseconds: 999 };
            let visit = NodeRecord { address, time, available };
            end = ping_nslp::append(&mut octets, end, &visit).expect("it is a ping");
        }
        assert_read(
            "ping",
            &data(ping_nslp::iana::NSLPID, &octets[..end]),
            &[
                ("pingnslp.version", if version == ping_nslp::Version::V1 { "1" } else { "2" }),
                ("pingnslp.hops", "1"),
                ("pingnslp.length", length),
                ("pingnslp.objects", "3"),
                ("pingnslp.sequence", "5"),
                ("pingnslp.object", "1,2,65281"),
                ("pingnslp.object.length", "16,8,8"),
                ("pingnslp.address", "::ffff:10.0.0.1,2001:db8::1"),
                ("pingnslp.seconds", "3,3"),
                ("pingnslp.microseconds", "999,999"),
                ("pingnslp.available", "7500000"),
            ],
        );
    }
    Ok(())
}

/// One segment has two messages and half of a third, another one the rest.
fn tshark_reads_streams_message_by_message() -> Result<(), Failed> {
    let hello = |id| message(0, Body::Hello(Hello { id, reply_requested: id > 1 }));
    let all = [hello(1), hello(2), hello(0x0102_0304)].concat();
    let (first, second) = all.split_at(40);
    let next = 1 + u32::try_from(first.len()).expect("short");
    let segments = [segment(1, first), segment(next, second)];
    let lines = tshark("stream", TCP, &segments, &["gist.type", "gist.hello_id", "gist.malformed"]);
    assert_eq!(lines, ["5,5;1,2;", "5;16909060;"]);
    Ok(())
}

fn tshark_marks_malformed_messages() -> Result<(), Failed> {
    let good = data(1, &written_reserve());
    let end = good.len();
    // Wrong lengths of the MRI, of an object of QoS NSLP, and of the QSPEC's first object.
    let cases = [
        (11, 200, "gist"),
        (end - qspec().len() - 1, 200, "qosnslp"),
        (end - qspec().len() + 7, 200, "qspec"),
    ];
    for (at, value, whose) in cases {
        let mut octets = good.clone();
        octets[at] = value;
        let field = format!("{whose}.malformed");
        let lines = tshark("bad", udp::PROTOCOL, &[datagram(&octets)], &["gist.hops", &field]);
        let (hops, complaint) = lines[0].split_once(';').expect("two fields");
        assert!(hops == "31" && !complaint.is_empty(), "octet {at}: {lines:?}");
    }
    let mut octets = data(33, &natfw_nslp::valid()[2]);
    let version = octets.len() - 10;
    octets[version] = 0x60; // the IP version of the binding
    let fields = ["natfwnslp.type", "natfwnslp.malformed"];
    let lines = tshark("bad natfw", udp::PROTOCOL, &[datagram(&octets)], &fields);
    assert!(lines[0].starts_with("3;") && lines[0].len() > 2, "{lines:?}");
    // A datagram without the magic number is not dissected.
    let mut foreign = datagram(&good);
    foreign[udp::HEADER] ^= 1;
    assert_eq!(tshark("foreign", udp::PROTOCOL, &[foreign], &["gist.hops"]), [""]);
    Ok(())
}

fn written_reserve() -> Vec<u8> {
    let rsn = Rsn { number: 1, epoch: 1 };
    written(&QosMessage::Reserve(Reserve { rsn, qspec: Some(&qspec()), ..RESERVE }))
}
