//! Captures of GIST with application data, well-formed and malformed.

use earmark_wire::gist::{
    self, Body, Continuation, Data, Direction, Extensions, MAGIC_LEN, Mri, NetworkLayerInformation,
    PathCoupled, Profile, Profiles, ProtocolOptions, ProtocolOptionsList, Query, SessionId, Stack,
    StackConfiguration, emit_magic, iana,
};
use earmark_wire::intserv::TokenBucket;
use earmark_wire::ping_nslp::{self, NodeRecord, Ping, STANDARD, Timestamp};
use earmark_wire::qos_nslp::{self, BoundSessions, Extra, GenericFlags, Reserve, Rsn};
use earmark_wire::qspec::iana::MessageSequence;
use earmark_wire::qspec::{Parameter, Procedure, QosObject, Qspec, Value as ParameterValue};

use earmark_wire::udp;

use super::*;

const SESSION: SessionId = SessionId([0x5a; 16]);

fn flow() -> Mri {
    Mri::PathCoupled(PathCoupled {
        source: [10, 0, 1, 1].into(),
        destination: [10, 0, 9, 9].into(),
        source_prefix: 32,
        destination_prefix: 32,
        protocol: Some(17),
        ds_field: None,
        flow_label: None,
        spi: None,
        source_port: None,
        destination_port: Some(5_004),
        direction: Direction::Downstream,
    })
}

fn nli() -> NetworkLayerInformation<'static> {
    NetworkLayerInformation {
        peer_identity: b"edge",
        ip_ttl: 64,
        interface_address: [10, 0, 1, 1].into(),
        routing_state_validity: 30_000,
    }
}

/// Builds a message in UDP over IPv4.
fn packet(nslpid: u16, body: Body<'_>) -> Vec<u8> {
    let extensions = Extensions::NONE;
    let message = gist::Message { hops: 64, nslpid, source_is_peer: true, body, extensions };
    let mut datagram = vec![0; udp::HEADER + MAGIC_LEN + message.buffer_len()];
    let room = emit_magic(&mut datagram[udp::HEADER..]).expect("there is room");
    message.emit(room).expect("it is right");
    let header = udp::Repr {
        source: [10, 0, 1, 1].into(),
        destination: [10, 0, 9, 9].into(),
        source_port: iana::PORT,
        destination_port: iana::PORT,
    };
    header.emit(&mut datagram).expect("it is short");
    ipv4_packet(udp::PROTOCOL, &datagram)
}

pub(super) fn data(nslpid: u16, nslp_data: &[u8]) -> Vec<u8> {
    let (context_free, explicitly_routed) = (false, false);
    let (mri, session, nli, nat_traversal) = (flow(), SESSION, Some(nli()), None);
    let continuation = Continuation::NONE;
    let data = Data {
        nat_traversal,
        mri,
        session,
        nli,
        nslp_data,
        continuation,
        context_free,
        explicitly_routed,
    };
    packet(nslpid, Body::Data(data))
}

fn reserve() -> Vec<u8> {
    let bucket = TokenBucket {
        rate: 250_000.0,
        depth: 3_000.0,
        peak: 250_000.0,
        min_policed_unit: 64,
        max_packet_size: 1_500,
    };
    let latency = Parameter::optional(ParameterValue::PathLatency(9));
    let desired = [
        Parameter::mandatory(ParameterValue::Tmod1(bucket)),
        Parameter { is_not_supported: true, ..latency },
    ];
    let procedure = Procedure { sequence: MessageSequence::TwoWay, combination: 0 };
    let qspec = Qspec { desired: Some(QosObject::new(&desired)), ..Qspec::new(procedure) };
    let mut octets = vec![0; qspec.buffer_len()];
    qspec.emit(&mut octets).expect("it is right");
    let message = qos_nslp::Message::Reserve(Reserve {
        flags: GenericFlags { scoping: true, ..GenericFlags::default() },
        tear: false,
        replace: true,
        rsn: Rsn { number: 7, epoch: 8 },
        rii: Some(9),
        refresh_period: Some(30_000),
        bound: BoundSessions::NONE,
        summary: None,
        binding: None,
        info: None,
        classifier: None,
        qspec: Some(&octets),
        extra: Extra::NONE,
    });
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("it is right");
    octets
}

/// The three objects at the start of all messages here.
fn common() -> [Value; 3] {
    [
        json!({"class": "Message-Routing-Information", "method": "path-coupled",
               "direction": "Downstream", "source": "10.0.1.1/32", "destination": "10.0.9.9/32",
               "protocol": 17, "destination_port": 5_004}),
        json!({"class": "Session-Identifier", "session": "5a".repeat(16)}),
        json!({"class": "Network-Layer-Information", "peer_identity": "65646765",
               "interface_address": "10.0.1.1", "ip_ttl": 64, "routing_state_validity_ms": 30_000}),
    ]
}

#[test]
fn query_is_decoded() {
    let profiles = [Profile(&[2, 1])];
    let options = [ProtocolOptions::tcp_query(1)];
    let query = Body::Query(Query {
        nat_traversal: None,
        mri: flow(),
        session: SESSION,
        nli: nli(),
        query_cookie: &[0xab; 4],
        stack: Some(Stack {
            proposal: Profiles::new(&profiles),
            configuration: StackConfiguration {
                hold_time: 60_000,
                options: ProtocolOptionsList::new(&options),
            },
        }),
        nslp_data: None,
    });
    let (lines, summary) = json_lines(&pcap(101, &[packet(1, query)]));
    assert_eq!(summary, Summary { frames: 1, messages: 1, ..Summary::default() });
    let [mri, session, nli] = common();
    assert_eq!(
        lines,
        [json!({
            "frame": 1, "protocol": "gist", "source": "10.0.1.1", "destination": "10.0.9.9",
            "source_port": 270, "destination_port": 270, "message": "Query", "hops": 64,
            "nslpid": 1, "source_is_peer": true,
            "objects": [
                mri, session, nli,
                {"class": "Query-Cookie", "octets": "abababab"},
                {"class": "Stack-Proposal", "profiles": [["TLS", "Forwards-TCP"]]},
                {"class": "Stack-Configuration-Data", "hold_time_ms": 60_000, "options": [
                    {"protocol": "Forwards-TCP", "profile": 1, "port": null, "unusable": false},
                ]},
            ],
        })]
    );
}

#[test]
fn reserve_is_decoded() {
    let (lines, _) = json_lines(&pcap(101, &[data(1, &reserve())]));
    let objects = lines[0]["objects"].as_array().expect("a list");
    assert_eq!(
        objects[3..],
        [
            json!({"class": "RESERVE", "flags": ["scoping"], "tear": false, "replace": true}),
            json!({"class": "RSN", "number": 7, "epoch": 8}),
            json!({"class": "RII", "number": 9}),
            json!({"class": "REFRESH-PERIOD", "ms": 30_000}),
            json!({"class": "QSPEC", "model": "default", "local": false,
                   "procedure": "sender-initiated reservation", "combination": 0}),
            json!({"class": "QoS Desired",
                   "TMOD-1": {"rate": 250_000.0, "depth": 3_000.0, "peak": 250_000.0,
                              "min_policed_unit": 64, "max_packet_size": 1_500},
                   "Path Latency": [9, "not supported"]}),
        ]
    );
    let text = text_of(&data(1, &reserve()));
    assert!(text.starts_with("frame 1: GIST Data 10.0.1.1 -> 10.0.9.9  "), "{text}");
    assert!(text.contains("\n    RSN  number 7  epoch 8\n"), "{text}");
}

#[test]
fn ping_is_decoded_and_unknown_nslp_is_shown_as_octets() {
    let version = ping_nslp::Version::V2;
    let ping = Ping { version, hops: 1, sequence: 5, objects: &STANDARD, data: &[] };
    let mut octets = vec![0; 100];
    let length = ping.emit(&mut octets).expect("there is room");
    let time = Timestamp { seconds: 3, microseconds: 42 };
    let visit = NodeRecord { address: [10, 0, 1, 1].into(), time, available: None };
    let length = ping_nslp::append(&mut octets, length, &visit).expect("it is a ping");
    let frames = [data(ping_nslp::iana::NSLPID, &octets[..length]), data(99, &[1, 2, 3, 4])];
    let (lines, _) = json_lines(&pcap(101, &frames));
    assert_eq!(
        lines[0]["objects"][3],
        json!({"class": "Ping NSLP", "version": 2, "hops": 1, "sequence": 5, "records": [
            {"address": "10.0.1.1", "time": "3.000042", "available_bps": null},
        ]})
    );
    assert_eq!(lines[1]["objects"][3], json!({"class": "NSLP-Data", "octets": "01020304"}));
}

#[test]
fn natfw_messages_are_decoded() {
    let create = [
        &[1, 0xc0, 0, 0][..],
        &[0, 0x0c, 0, 1, 0, 0, 1, 44],
        &[0, 0x0f, 0, 1, 0, 1, 0, 0],
        &[0, 0x12, 0, 1, 0, 0, 0, 1],
        &[0, 0x11, 0, 1, 0, 0, 0, 7],
        &[0, 0x14, 0, 2, 4, 8, 0, 11, 12, 0, 0, 0],
    ];
    let [_, lifetime, rule, msn, nonce, types] = create;
    let dtinfo = [0, 0x13, 0, 3, 0xc0, 0, 32, 17, 0x13, 0x8c, 0, 0, 10, 0, 1, 254];
    let binding = [0, 0x0e, 0, 3, 0x0f, 0xa0, 0x40, 0, 192, 0, 2, 1, 192, 0, 2, 2];
    let external =
        [&[2, 0xc0, 0, 0], lifetime, msn, rule, &dtinfo, nonce, types, &binding].concat();
    let response = [
        &[3, 0, 0, 0],
        lifetime,
        msn,
        &[0, 0x10, 0, 1, 2, 1, 0, 0],
        &[0, 0x0d, 0, 2, 0x0f, 0xa0, 0x40, 0, 198, 51, 100, 7],
        &binding,
    ];
    let notify = [4, 0, 0, 0, 0, 0x10, 0, 1, 1, 1, 0, 0x0c];
    let frames = [create.concat(), external, response.concat(), notify.to_vec()]
        .map(|message| data(33, &message));
    let (lines, summary) = json_lines(&pcap(101, &frames));
    assert_eq!(summary, Summary { frames: 4, messages: 4, ..Summary::default() });
    let own = |line: usize| lines[line]["objects"].as_array().expect("a list")[3..].to_vec();
    let lifetime = json!({"class": "NATFW_LT", "seconds": 300});
    let msn = json!({"class": "NATFW_MSN", "number": 1});
    let rule = json!({"class": "NATFW_EFI", "action": "allow", "sub_ports": 0});
    let nonce = json!({"class": "NATFW_NONCE", "number": 7});
    let types = json!({"class": "NATFW_ICMP_TYPES", "types": [8, 0, 11, 12]});
    let binding = json!({"class": "NATFW_EXTERNAL_BINDING", "port": 4_000,
                         "addresses": ["192.0.2.1", "192.0.2.2"]});
    assert_eq!(
        own(0),
        [
            json!({"class": "CREATE", "flags": ["proxy", "end_to_end"]}),
            lifetime.clone(),
            rule.clone(),
            msn.clone(),
            nonce.clone(),
            types.clone(),
        ]
    );
    assert_eq!(
        own(1),
        [
            json!({"class": "EXTERNAL", "flags": ["proxy", "end_to_end"]}),
            lifetime.clone(),
            msn.clone(),
            rule,
            json!({"class": "NATFW_DTINFO", "sender": "10.0.1.254/32", "protocol": 17,
                   "source_port": 0, "destination_port": 5_004}),
            nonce,
            types,
            binding.clone(),
        ]
    );
    assert_eq!(
        own(2),
        [
            json!({"class": "RESPONSE"}),
            lifetime,
            msn,
            json!({"class": "NATFW_INFO", "severity": "success",
                   "outcome": "all successfully processed", "code": 1}),
            json!({"class": "NATFW_EXTERNAL_IP", "address": "198.51.100.7", "port": 4_000}),
            binding,
        ]
    );
    assert_eq!(
        own(3),
        [
            json!({"class": "NOTIFY"}),
            json!({"class": "NATFW_INFO", "severity": "informational",
                   "outcome": "possible route change on the outbound path", "code": 1,
                   "object": "NATFW_LT"}),
        ]
    );
    let text = text_of(&frames[1]);
    assert!(
        text.contains("\n    NATFW_DTINFO  sender 10.0.1.254/32  protocol 17  source_port 0  "),
        "{text}"
    );
}

#[test]
fn malformed_natfw_message_is_reported() {
    let octets = [
        [1, 0, 0, 0].as_slice(),
        &[0, 0x0c, 0, 1, 0, 0, 1, 44],
        &[0, 0x0f, 0, 1, 0, 9, 0, 0], // the rule action
    ]
    .concat();
    let (lines, summary) = json_lines(&pcap(101, &[data(33, &octets)]));
    assert_eq!(summary.malformed, 1);
    assert_eq!(
        lines[0]["objects"][3],
        json!({"class": "CREATE", "flags": [], "error": {
            "kind": "natfw_rule_action", "offset": 12,
            "text": "NATFW NSLP, octet 12: NATFW_EFI has an unknown rule action",
        }})
    );
}

/// Errors in GIST, in QoS NSLP and in its QSPEC are reported; a datagram without the magic number is ignored.
#[test]
fn malformed_objects_are_reported() {
    let good = data(1, &reserve());
    let end = good.len();
    let changed = |at: usize, octet: u8| {
        let mut octets = good.clone();
        octets[at] = octet;
        octets
    };
    let frames = [
        changed(24 + 8 + 4 + 3, 3),        // GIST's length
        changed(end - reserve().len(), 9), // the message type of QoS NSLP
        changed(end - 40 + 3, 200),        // the length of the QSPEC
        changed(24 + 8, 0),                // the magic number
    ];
    let (lines, summary) = json_lines(&pcap(101, &frames));
    assert_eq!(summary, Summary { frames: 4, messages: 3, malformed: 3, unknown_link_type: 0 });
    assert_eq!((&lines[0]["message"], &lines[0]["hops"]), (&json!("Data"), &json!(64)));
    assert_eq!(lines[0]["error"]["offset"], 2);
    for (line, class, offset) in [(&lines[1], "QoS NSLP", 0), (&lines[2], "QSPEC", 2)] {
        let objects = line["objects"].as_array().expect("a list");
        let object = objects.iter().find(|it| it["class"] == class).expect("it is shown");
        assert_eq!(object["error"]["offset"], offset);
        // Everything behind the fault is shown as well.
        let last = objects.last().expect("it is not empty");
        assert_eq!(last["TMOD-1"]["max_packet_size"], 1_500, "{last}");
    }
}
