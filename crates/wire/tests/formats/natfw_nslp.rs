//! NATFW NSLP: messages and objects octet by octet, every code, and properties of all messages.

use earmark_testkit::messages::natfw_nslp::owned;
use earmark_wire::EmitError;
use earmark_wire::natfw_nslp::iana::*;
use earmark_wire::natfw_nslp::*;
use earmark_wire::nsis::Treatment;
use proptest::prelude::*;

const CREATE: Create<'static> = Create {
    proxy: ProxyMode::Off,
    lifetime: 300,
    extended_flow: ExtendedFlow { action: RuleAction::Allow, next_port: false },
    msn: 0x0102_0304,
    nonce: None,
    icmp_types: None,
    extra: Extra::NONE,
};

const EXTERNAL: External<'static> = External {
    proxy: ProxyMode::Off,
    lifetime: 300,
    msn: 0x0102_0304,
    extended_flow: CREATE.extended_flow,
    data_terminal: DataTerminal {
        sender: std::net::Ipv4Addr::UNSPECIFIED,
        sender_prefix: 0,
        transport: TransportSelector::Ports { protocol: 17, destination: 5_004, source: 0 },
    },
    nonce: None,
    icmp_types: None,
    external_binding: None,
    extra: Extra::NONE,
};

const RESPONSE: Response<'static> = Response {
    lifetime: Some(300),
    msn: 0x0102_0304,
    info: Info::new(Outcome::Success(Success::Processed)),
    external_address: None,
    external_binding: None,
    extra: Extra::NONE,
};

const NOTIFY: Notify<'static> = Notify {
    msn: None,
    info: Info::new(Outcome::Informational(Informational::RouteChange)),
    extra: Extra::NONE,
};

/// Objects with the values of the messages above.
const LT: [u8; 8] = [0, 0x0c, 0, 1, 0, 0, 1, 44];
const EFI: [u8; 8] = [0, 0x0f, 0, 1, 0, 1, 0, 0];
const MSN: [u8; 8] = [0, 0x12, 0, 1, 1, 2, 3, 4];
const DTINFO: [u8; 16] = [0, 0x13, 0, 3, 0xc0, 0, 0, 17, 0x13, 0x8c, 0, 0, 0, 0, 0, 0];
const NONCE: [u8; 8] = [0, 0x11, 0, 1, 5, 6, 7, 8];
const SUCCESS: [u8; 8] = [0, 0x10, 0, 1, 2, 1, 0, 0];
const ROUTE_CHANGE: [u8; 8] = [0, 0x10, 0, 1, 1, 1, 0, 0];

fn emit(message: &Message<'_>) -> Vec<u8> {
    let mut buffer = vec![0xa5; message.buffer_len()];
    assert_eq!(message.emit(&mut buffer), Ok(buffer.len()), "{message:?}");
    buffer
}

/// Asserts that a message has these octets, and the octets this message.
#[track_caller]
fn same(message: Message<'_>, parts: &[&[u8]]) {
    let octets = parts.concat();
    assert_eq!(emit(&message), octets, "{message:?}");
    assert_eq!(Message::parse(&octets), Ok(message));
}

#[track_caller]
fn is_not_written(message: Message<'_>, error: EmitError) {
    let mut buffer = vec![0; message.buffer_len() + 4];
    assert_eq!(message.emit(&mut buffer), Err(error), "{message:?}");
}

#[test]
fn numbers_are_those_of_the_registries() {
    assert_eq!((NSLPID, ROUTER_ALERT_V4, ROUTER_ALERT_V6), (33, 65, 68));
    let types: Vec<_> = (1..=5).map(|code| MessageType::from_code(code).name()).collect();
    assert_eq!(types, ["CREATE", "EXTERNAL", "RESPONSE", "NOTIFY", "unknown"]);
    let objects: Vec<_> = (0x00c..=0x014).map(|code| ObjectType::from_code(code).name()).collect();
    assert_eq!(
        objects,
        [
            "NATFW_LT",
            "NATFW_EXTERNAL_IP",
            "NATFW_EXTERNAL_BINDING",
            "NATFW_EFI",
            "NATFW_INFO",
            "NATFW_NONCE",
            "NATFW_MSN",
            "NATFW_DTINFO",
            "NATFW_ICMP_TYPES",
        ]
    );
}

#[test]
fn create_octet_by_octet() {
    same(Message::Create(CREATE), &[&[1, 0, 0, 0], &LT, &EFI, &MSN]);
    let deny = ExtendedFlow { action: RuleAction::Deny, next_port: true };
    let full = Create {
        proxy: ProxyMode::Edge,
        lifetime: 0,
        extended_flow: deny,
        nonce: Some(Nonce(0x0506_0708)),
        icmp_types: Some(&[8, 0, 11]),
        ..CREATE
    };
    let objects: [&[u8]; 5] = [
        &[0, 0x0c, 0, 1, 0, 0, 0, 0],
        &[0, 0x0f, 0, 1, 0, 2, 0, 1],
        &MSN,
        &NONCE,
        &[0, 0x14, 0, 1, 3, 8, 0, 11],
    ];
    same(Message::Create(full), &[&[1, 0x80, 0, 0], &objects.concat()]);
    let onward = Create { proxy: ProxyMode::EdgeAndOnward, ..full };
    same(Message::Create(onward), &[&[1, 0xc0, 0, 0], &objects.concat()]);
    // A CREATE that an EXTERNAL in proxy mode triggers has a nonce without the P flag (section 3.7.6.1).
    let triggered = Create { nonce: Some(Nonce(0x0506_0708)), ..CREATE };
    same(Message::Create(triggered), &[&[1, 0, 0, 0], &LT, &EFI, &MSN, &NONCE]);
}

#[test]
fn external_octet_by_octet() {
    same(Message::External(EXTERNAL), &[&[2, 0, 0, 0], &LT, &MSN, &EFI, &DTINFO]);
    let binding = ExternalBinding { port: 4_000, wire: &[[192, 0, 2, 1], [192, 0, 2, 2]] };
    let full = External {
        proxy: ProxyMode::Edge,
        nonce: Some(Nonce(0x0506_0708)),
        icmp_types: Some(&[8, 0, 11, 12]),
        external_binding: Some(binding),
        ..EXTERNAL
    };
    same(
        Message::External(full),
        &[
            &[2, 0x80, 0, 0],
            &LT,
            &MSN,
            &EFI,
            &DTINFO,
            &NONCE,
            &[0, 0x14, 0, 2, 4, 8, 0, 11, 12, 0, 0, 0],
            &[0, 0x0e, 0, 3, 0x0f, 0xa0, 0x40, 0, 192, 0, 2, 1, 192, 0, 2, 2],
        ],
    );
    let addresses: Vec<_> = binding.addresses().map(|address| address.to_string()).collect();
    assert_eq!(addresses, ["192.0.2.1", "192.0.2.2"]);
}

#[test]
fn binding_without_addresses_requests_them() {
    let binding = ExternalBinding { port: 0, wire: &[] };
    same(
        Message::External(External { external_binding: Some(binding), ..EXTERNAL }),
        &[&[2, 0, 0, 0], &LT, &MSN, &EFI, &DTINFO, &[0, 0x0e, 0, 1, 0, 0, 0x40, 0]],
    );
}

#[test]
fn data_terminal_octet_by_octet() {
    use TransportSelector::{Any, Ports, Protocol, Spi};
    let sender = [10, 1, 2, 3].into();
    let cases: [(u8, TransportSelector, &[u8]); 4] = [
        (32, Any, &[0, 0x13, 0, 2, 0, 0, 32, 0, 10, 1, 2, 3]),
        (24, Protocol(1), &[0, 0x13, 0, 2, 0x80, 0, 24, 1, 10, 1, 2, 3]),
        (
            8,
            Ports { protocol: 6, destination: 80, source: 0x1234 },
            &[0, 0x13, 0, 3, 0xc0, 0, 8, 6, 0, 80, 0x12, 0x34, 10, 1, 2, 3],
        ),
        (
            1,
            Spi { protocol: 50, spi: 0xaabb_ccdd },
            &[0, 0x13, 0, 3, 0xa0, 0, 1, 50, 0xaa, 0xbb, 0xcc, 0xdd, 10, 1, 2, 3],
        ),
    ];
    for (sender_prefix, transport, object) in cases {
        let data_terminal = DataTerminal { sender, sender_prefix, transport };
        let external = External { data_terminal, ..EXTERNAL };
        same(Message::External(external), &[&[2, 0, 0, 0], &LT, &MSN, &EFI, object]);
        assert_eq!(transport.protocol(), (transport != Any).then_some(object[7]));
    }
}

/// Reserved bits, the protocol without its flag, the address behind a prefix of 0, and padding do not count.
#[test]
fn unused_fields_are_ignored() {
    let parse = |octets: &[u8]| format!("{:?}", Message::parse(octets));
    let plain = |message: Message<'_>| format!("Ok({message:?})");
    let create = [&[1, 0, 0, 0][..], &LT, &EFI, &MSN].concat();
    let mut reserved = create.clone();
    reserved[1..4].copy_from_slice(&[0x7f, 0xff, 0xff]); // P=0, so E is ignored, too
    reserved[4] = 0x30;
    reserved[6] = 0xf0;
    assert_eq!(parse(&reserved), plain(Message::Create(CREATE)));
    let mut proxy = [&create[..], &NONCE].concat();
    proxy[1] = 0xbf;
    let edge = Create { proxy: ProxyMode::Edge, nonce: Some(Nonce(0x0506_0708)), ..CREATE };
    assert_eq!(parse(&proxy), plain(Message::Create(edge)));

    let any = [0, 0x13, 0, 2, 0x1f, 0xff, 0, 99, 9, 9, 9, 9];
    let external = [&[2, 0, 0, 0][..], &LT, &MSN, &EFI, &any].concat();
    let transport = TransportSelector::Any;
    let data_terminal = DataTerminal { transport, ..EXTERNAL.data_terminal };
    assert_eq!(parse(&external), plain(Message::External(External { data_terminal, ..EXTERNAL })));

    let icmp = [&create[..], &[0, 0x14, 0, 1, 2, 8, 0, 0xff]].concat();
    let with_types = Create { icmp_types: Some(&[8, 0]), ..CREATE };
    assert_eq!(parse(&icmp), plain(Message::Create(with_types)));

    // P and E mean nothing in RESPONSE and NOTIFY (section 4.1).
    let response = [&[3, 0xff, 0xff, 0xff][..], &LT, &MSN, &[0, 0x10, 0, 1, 0xf2, 1, 0xf0, 0]];
    assert_eq!(parse(&response.concat()), plain(Message::Response(RESPONSE)));
    assert_eq!(
        parse(&[&[4, 0xff, 0, 0][..], &ROUTE_CHANGE].concat()),
        plain(Message::Notify(NOTIFY))
    );
}

#[test]
fn response_octet_by_octet() {
    same(Message::Response(RESPONSE), &[&[3, 0, 0, 0], &LT, &MSN, &SUCCESS]);
    let address = ExternalAddress { address: [198, 51, 100, 7].into(), port: 0 };
    let binding = ExternalBinding { port: 0, wire: &[[192, 0, 2, 1]] };
    let full =
        Response { external_address: Some(address), external_binding: Some(binding), ..RESPONSE };
    same(
        Message::Response(full),
        &[
            &[3, 0, 0, 0],
            &LT,
            &MSN,
            &SUCCESS,
            &[0, 0x0d, 0, 2, 0, 0, 0x40, 0, 198, 51, 100, 7],
            &[0, 0x0e, 0, 2, 0, 0, 0x40, 0, 192, 0, 2, 1],
        ],
    );
    let info = Info {
        outcome: Outcome::ProtocolError(ProtocolError::DuplicateObjectPresent),
        object: Some(ObjectType::Nonce),
    };
    let refused = Response { lifetime: None, info, ..RESPONSE };
    let info_object = [0, 0x10, 0, 1, 3, 10, 0, 0x11];
    same(Message::Response(refused), &[&[3, 0, 0, 0], &MSN, &info_object]);
    // The acceptable lifetime (section 3.4).
    let offered = Response { lifetime: Some(300), ..refused };
    same(Message::Response(offered), &[&[3, 0, 0, 0], &LT, &MSN, &info_object]);
}

#[test]
fn notify_octet_by_octet() {
    same(Message::Notify(NOTIFY), &[&[4, 0, 0, 0], &ROUTE_CHANGE]);
    let numbered = Notify { msn: Some(0x0102_0304), ..NOTIFY };
    same(Message::Notify(numbered), &[&[4, 0, 0, 0], &MSN, &ROUTE_CHANGE]);
}

/// Classes with the codes that RFC 5973 section 4.2.5 defines in each.
const CODES: [(u8, &str, &[u8]); 6] = [
    (1, "informational", &[1, 2, 3, 4, 5]),
    (2, "success", &[1]),
    (3, "protocol error", &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]),
    (4, "transient failure", &[1]),
    (5, "permanent failure", &[1, 2, 4, 6, 7]),
    (
        7,
        "signaling session failure",
        &[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18],
    ),
];

#[test]
fn outcomes_round_trip_as_class_and_code() {
    for class in 0..=15 {
        let defined = CODES.iter().find(|(number, ..)| *number == class);
        for code in 0..=255 {
            let outcome = Outcome::from_codes(class, code);
            assert_eq!((outcome.class().code(), outcome.code()), (class, code));
            assert_eq!(outcome.class().name(), defined.map_or("unknown", |(_, name, _)| *name));
            let is_named = defined.is_some_and(|(.., codes)| codes.contains(&code));
            assert_eq!(outcome.name() != "unknown", is_named, "{outcome:?}");
            let info = Info { outcome, object: Some(ObjectType::Unknown(0xfff)) };
            let object = [0, 0x10, 0, 1, class, code, 0x0f, 0xff];
            match class {
                1 => {
                    let notify = Notify { info, ..NOTIFY };
                    same(Message::Notify(notify), &[&[4, 0, 0, 0], &object]);
                }
                _ => {
                    let response = Response { info, ..RESPONSE };
                    same(Message::Response(response), &[&[3, 0, 0, 0], &LT, &MSN, &object]);
                }
            }
        }
    }
}

#[test]
fn outcomes_are_explained() {
    let info = |class, code, object| Info { outcome: Outcome::from_codes(class, code), object };
    let cases = [
        (info(2, 1, None), "success: all successfully processed"),
        (
            info(7, 8, Some(ObjectType::ExtendedFlow)),
            "signaling session failure: requested value in sub_ports field in NATFW_EFI not \
             permitted (NATFW_EFI)",
        ),
        (
            info(3, 6, Some(ObjectType::Unknown(0x7d0))),
            "protocol error: unknown object present (object 0x7d0)",
        ),
        (info(5, 3, None), "permanent failure: code 0x03"),
        (info(6, 1, None), "class 6: code 0x01"),
    ];
    for (info, text) in cases {
        assert_eq!(info.to_string(), text);
    }
}

#[test]
fn objects_are_accepted_in_any_order() {
    let objects: [&[u8]; 4] = [&LT, &MSN, &EFI, &DTINFO];
    let expected = Ok(Message::External(EXTERNAL));
    for first in 0..4 {
        let mut rotated = objects;
        rotated.rotate_left(first);
        let octets = [&[2, 0, 0, 0][..], &rotated.concat()].concat();
        assert_eq!(Message::parse(&octets), expected);
        rotated.reverse();
        let octets = [&[2, 0, 0, 0][..], &rotated.concat()].concat();
        assert_eq!(Message::parse(&octets), expected);
    }
}

#[test]
fn unknown_objects_are_dropped_or_kept_by_their_flags() {
    let body = [&LT[..], &EFI, &MSN].concat();
    let optional = [0x47, 0xd1, 0, 1, 9, 9, 9, 9];
    let octets = [&[1, 0, 0, 0][..], &optional, &body].concat();
    assert_eq!(Message::parse(&octets), Ok(Message::Create(CREATE)));
    // Reserved bits of a forwarded object stay.
    let forward = [0xb7, 0xd1, 0xf0, 1, 9, 9, 9, 9];
    let octets = [&[1, 0, 0, 0][..], &forward, &body].concat();
    let message = Message::parse(&octets).expect("the object may be unknown");
    let Message::Create(create) = message else { panic!("{message:?}") };
    let kept = ExtraObject { treatment: Treatment::Forward, object_type: 0x7d1, value: &[9; 4] };
    assert_eq!(create.extra.iter().collect::<Vec<_>>(), [kept]);
    assert_eq!(emit(&message), [&[1, 0, 0, 0][..], &body, &forward].concat());
    let mut written = forward;
    (written[0], written[2]) = (0x87, 0);
    let items = [kept];
    same(
        Message::Create(Create { extra: Extra::Items(&items), ..CREATE }),
        &[&[1, 0, 0, 0], &body, &written],
    );
}

#[test]
fn session_auth_is_kept_with_any_permitted_flags() {
    let value = [0, 8, 2, 1, 1, 2, 3, 4];
    for (treatment, flags) in
        [(Treatment::Mandatory, 0), (Treatment::Ignore, 0x40), (Treatment::Forward, 0x80)]
    {
        let items = [ExtraObject { treatment, object_type: 0x016, value: &value }];
        let extra = Extra::Items(&items);
        let octets = [flags, 0x16, 0, 2, 0, 8, 2, 1, 1, 2, 3, 4];
        same(
            Message::Create(Create { extra, ..CREATE }),
            &[&[1, 0, 0, 0], &LT, &EFI, &MSN, &octets],
        );
        assert_eq!(extra.session_auths().collect::<Vec<_>>(), [&value]);
    }
}

#[test]
fn nonce_is_the_first_word_of_the_session_identifier() {
    let session = SessionId([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
    assert_eq!(Nonce::of_session(session), Nonce(0x0102_0304));
}

#[test]
fn messages_that_receivers_would_refuse_are_not_written() {
    let refused = |message: Message<'_>| is_not_written(message, EmitError::Contradiction);
    for proxy in [ProxyMode::Edge, ProxyMode::EdgeAndOnward] {
        refused(Message::Create(Create { proxy, ..CREATE }));
        refused(Message::External(External { proxy, ..EXTERNAL }));
    }
    let sender = [10, 0, 0, 1].into();
    for data_terminal in [
        DataTerminal { sender_prefix: 33, ..EXTERNAL.data_terminal },
        DataTerminal { sender, ..EXTERNAL.data_terminal },
    ] {
        refused(Message::External(External { data_terminal, ..EXTERNAL }));
    }
    refused(Message::Response(Response { lifetime: None, ..RESPONSE }));
    refused(Message::Response(Response { info: NOTIFY.info, ..RESPONSE }));
    refused(Message::Notify(Notify { info: RESPONSE.info, ..NOTIFY }));
    let info = Info::new(Outcome::PermanentFailure(PermanentFailure::System));
    let address = ExternalAddress { address: sender, port: 1 };
    refused(Message::Response(Response { info, external_address: Some(address), ..RESPONSE }));
    let binding = ExternalBinding { port: 1, wire: &[] };
    refused(Message::Response(Response { info, external_binding: Some(binding), ..RESPONSE }));
    for (outcome, object) in [
        (Outcome::Unknown { class: 16, code: 1 }, None),
        (Outcome::Unknown { class: 3, code: 1 }, None),
        (Outcome::ProtocolError(ProtocolError::Unknown(1)), None),
        (info.outcome, Some(ObjectType::Unknown(0))),
        (info.outcome, Some(ObjectType::Unknown(0x1000))),
        (info.outcome, Some(ObjectType::Unknown(0x00c))),
    ] {
        refused(Message::Response(Response { info: Info { outcome, object }, ..RESPONSE }));
    }
    for (treatment, object_type) in [
        (Treatment::Mandatory, 0x7d1),
        (Treatment::Ignore, 0x7d1),
        (Treatment::Refresh, 0x7d1),
        (Treatment::Refresh, 0x016),
        (Treatment::Forward, 0x00c),
    ] {
        let items = [ExtraObject { treatment, object_type, value: &[] }];
        refused(Message::Create(Create { extra: Extra::Items(&items), ..CREATE }));
    }
    let types = [8; 256];
    same(
        Message::Create(Create { icmp_types: Some(&types[1..]), ..CREATE }),
        &[&[1, 0, 0, 0], &LT, &EFI, &MSN, &[0, 0x14, 0, 64, 255], &types[1..]],
    );
    let create = Create { icmp_types: Some(&types), ..CREATE };
    is_not_written(Message::Create(create), EmitError::TooLong);
}

#[test]
fn short_buffer_is_an_error() {
    let binding = ExternalBinding { port: 0, wire: &[[192, 0, 2, 1]] };
    let external = External { external_binding: Some(binding), icmp_types: Some(&[8]), ..EXTERNAL };
    for message in [Message::External(external), Message::Response(RESPONSE)] {
        for length in 0..message.buffer_len() {
            assert_eq!(message.emit(&mut vec![0; length]), Err(EmitError::BufferTooShort));
        }
    }
}

proptest! {
    #[test]
    fn emitted_messages_parse_to_the_same_value(owned in owned()) {
        owned.with(|message| {
            let octets = emit(&message);
            assert_eq!(Message::parse(&octets), Ok(message));
            let found = PartialMessage::parse(&octets);
            assert_eq!(found.message_type, Some(message.message_type()));
        });
    }

    #[test]
    fn parsed_octets_are_written_again(owned in owned(), at in any::<prop::sample::Index>(), octet: u8) {
        owned.with(|message| {
            let mut octets = emit(&message);
            let at = at.index(octets.len());
            octets[at] = octet;
            if let Ok(message) = Message::parse(&octets) {
                let written = emit(&message);
                assert_eq!(Message::parse(&written), Ok(message));
            }
        });
    }
}
