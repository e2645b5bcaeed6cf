//! GIST messages: layouts of RFC 5971 appendix A octet by octet, message boundaries, and forwarding.

use std::net::IpAddr;

use earmark_testkit::messages::gist::udp_flow;
use earmark_wire::EmitError;
use earmark_wire::gist::iana::nslpid;
use earmark_wire::gist::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn flow() -> PathCoupled {
    udp_flow((ip("10.0.1.1"), 0x1234), (ip("10.0.9.9"), 0x5678))
}

const SESSION: SessionId = SessionId(*b"0123456789abcdef");

fn nli() -> NetworkLayerInformation<'static> {
    NetworkLayerInformation {
        peer_identity: b"edge1",
        ip_ttl: 64,
        interface_address: ip("10.0.1.254"),
        routing_state_validity: 30_000,
    }
}

fn message(body: Body<'_>) -> Message<'_> {
    let extensions = Extensions::NONE;
    Message { hops: 32, nslpid: 1, source_is_peer: true, body, extensions }
}

fn octets(message: &Message<'_>) -> Vec<u8> {
    let mut octets = vec![0xa5; message.buffer_len()];
    assert_eq!(message.emit(&mut octets), Ok(octets.len()));
    octets
}

/// Asserts that `message` is emitted as these words and parsed from them.
#[track_caller]
fn assert_octets(message: &Message<'_>, mode: Mode, expected: &[&[u8]]) {
    let wire = octets(message);
    assert_eq!(wire, expected.concat());
    assert_eq!(Message::parse(&wire, mode), Ok(*message));
}

/// MRI of [`flow`] with its header.
const MRI: &[u8] = &[
    0x00, 0x00, 0x00, 0x05, 0x00, 0x00, 0x48, 0xc0, 10, 0, 1, 1, 10, 0, 9, 9, 32, 32, 17,
    0, //
    0x12, 0x34, 0x56, 0x78,
];
const SID: &[u8] = b"\x00\x01\x00\x040123456789abcdef";
const NLI: &[u8] =
    b"\x00\x02\x00\x05\x05\x40\x40\x00\x00\x00\x75\x30edge1\x00\x00\x00\x0a\x00\x01\xfe";

#[test]
fn a_query_octet_by_octet() {
    let profiles = [Profile(&[2, 1]), Profile(&[1])];
    let options = [ProtocolOptions::tcp_query(0)];
    let query = Query {
        nat_traversal: None,
        mri: Mri::PathCoupled(flow()),
        session: SESSION,
        nli: nli(),
        query_cookie: b"querycookie!",
        stack: Some(Stack {
            proposal: Profiles::new(&profiles),
            configuration: StackConfiguration {
                hold_time: 30_000,
                options: ProtocolOptionsList::new(&options),
            },
        }),
        nslp_data: Some(b"nslp"),
    };
    assert_octets(
        &Message { source_is_peer: false, ..message(Body::Query(query)) },
        Mode::D,
        &[
            &[1, 32, 0, 31, 0, 1, 0x80, 0x40], // version, hops, words, NSLPID, C and type, R
            MRI,
            SID,
            NLI,
            b"\x00\x05\x00\x03querycookie!",
            &[0, 3, 0, 3, 2, 0, 0, 0, 2, 2, 1, 0, 1, 1, 0, 0], // TLS over TCP, TCP
            &[0, 4, 0, 3, 1, 0, 0, 0, 0, 0, 0x75, 0x30, 1, 0, 0, 0],
            b"\x00\x08\x00\x01nslp",
        ],
    );
}

#[test]
fn a_response_octet_by_octet() {
    let profiles = [Profile(&[2, 1])];
    let port = 4711_u16.to_be_bytes();
    let options = [ProtocolOptions::tcp_response(1, &port)];
    let response = Response {
        nat_traversal: None,
        mri: Mri::PathCoupled(flow()).inverted(),
        session: SESSION,
        nli: nli(),
        query_cookie: b"qqqq",
        responder: Some(ResponderPart {
            cookie: b"rrrrssss",
            stack: Some(Stack {
                proposal: Profiles::new(&profiles),
                configuration: StackConfiguration {
                    hold_time: 1,
                    options: ProtocolOptionsList::new(&options),
                },
            }),
        }),
        confirm_requested: true,
        nslp_data: None,
    };
    let mut mri = MRI.to_vec();
    mri[7] |= 0x20; // upstream
    assert_octets(
        &message(Body::Response(response)),
        Mode::D,
        &[
            &[1, 32, 0, 30, 0, 1, 0x01, 0xc0],
            &mri,
            SID,
            NLI,
            b"\x00\x05\x00\x01qqqq\x00\x06\x00\x02rrrrssss",
            &[0, 3, 0, 2, 1, 0, 0, 0, 2, 2, 1, 0],
            &[0, 4, 0, 4, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 0, 0x12, 0x67, 0, 0],
        ],
    );
    let stack = response.responder.and_then(|part| part.stack).expect("a stack");
    let ports: Vec<_> = stack.configuration.options.iter().map(|item| item.tcp_port()).collect();
    assert_eq!(ports, [Some(4711)]);
}

#[test]
fn a_confirm_octet_by_octet() {
    let profiles = [Profile(&[1])];
    let confirm = Confirm {
        mri: Mri::PathCoupled(flow()),
        session: SESSION,
        nli: nli(),
        returned: Some(Returned {
            cookie: b"rrrr",
            proposal: Some(Profiles::new(&profiles)),
            configuration: Some(StackConfiguration {
                hold_time: 30_000,
                options: ProtocolOptionsList::NONE,
            }),
        }),
        nslp_data: None,
    };
    assert_octets(
        &message(Body::Confirm(confirm)),
        Mode::C,
        &[
            &[1, 32, 0, 25, 0, 1, 0x02, 0x80],
            MRI,
            SID,
            NLI,
            b"\x00\x06\x00\x01rrrr",
            &[0, 3, 0, 2, 1, 0, 0, 0, 1, 1, 0, 0],
            &[0, 4, 0, 2, 0, 0, 0, 0, 0, 0, 0x75, 0x30],
        ],
    );
}

#[test]
fn data_in_every_mode_octet_by_octet() {
    let data = Data {
        nat_traversal: None,
        mri: Mri::PathCoupled(flow()),
        session: SESSION,
        nli: None,
        nslp_data: b"datadata",
        continuation: Continuation::NONE,
        context_free: false,
        explicitly_routed: false,
    };
    let payload: &[u8] = b"\x00\x08\x00\x02datadata";
    let header = [1, 32, 0, 14, 0, 1, 0x03, 0x80];
    assert_octets(&message(Body::Data(data)), Mode::C, &[&header, MRI, SID, payload]);
    let data = Data { nli: Some(nli()), explicitly_routed: true, ..data };
    let header = [1, 32, 0, 20, 0, 1, 0x03, 0xa0];
    assert_octets(&message(Body::Data(data)), Mode::D, &[&header, MRI, SID, NLI, payload]);
    let data = Data { context_free: true, explicitly_routed: false, ..data };
    let header = [1, 32, 0, 20, 0, 1, 0x83, 0x80];
    assert_octets(&message(Body::Data(data)), Mode::D, &[&header, MRI, SID, NLI, payload]);
}

#[test]
fn hellos_octet_by_octet() {
    let hello = Hello { id: 0xdead_beef, reply_requested: true };
    let hello = Message { nslpid: nslpid::GIST, ..message(Body::Hello(hello)) };
    let wire: &[u8] = &[1, 32, 0, 2, 0, 0, 0x05, 0xc0, 0, 10, 0, 1, 0xde, 0xad, 0xbe, 0xef];
    assert_octets(&hello, Mode::C, &[wire]);
    let hello = Message { body: Body::Hello(Hello { id: 0, reply_requested: false }), ..hello };
    let wire: &[u8] = &[1, 32, 0, 2, 0, 0, 0x05, 0x80, 0, 10, 0, 1, 0, 0, 0, 0];
    assert_octets(&hello, Mode::C, &[wire]);
}

/// An Error with all its fields.
#[test]
fn an_error_octet_by_octet() {
    let infos = [
        Info::MessageLength(9),
        Info::Mtu(1500),
        Info::ObjectType(0x234),
        Info::ObjectValue { offset: 4, object: &[0, 10, 0, 1, 0, 0, 0, 0] },
        Info::Unknown { info_type: 99, value: &[] },
    ];
    let error = Error {
        nat_traversal: None,
        nli: Some(nli()),
        error: ErrorData {
            class: ErrorClass::PermanentFailure,
            code: ErrorCode::MriValidation,
            subcode: 2,
            d_mode: true,
            q_mode: true,
            original: [1, 31, 0, 9, 0, 1, 0x80, 0x40],
            session: Some(SESSION),
            mri: Some(Mri::PathCoupled(flow())),
            infos: Infos::Items(&infos),
            comment: Some("four"),
        },
    };
    assert_octets(
        &Message { nslpid: 0, ..message(Body::Error(error)) },
        Mode::D,
        &[
            &[1, 32, 0, 33, 0, 0, 0x04, 0x80],
            NLI,
            &[0, 9, 0, 26, 4, 0, 12, 2, 0xf8, 0, 5, 5],
            &[1, 31, 0, 9, 0, 1, 0x80, 0x40],
            SID.get(4..).expect("a value"),
            MRI.get(4..).expect("a value"),
            &[0, 1, 0, 1, 0, 9, 0, 0],
            &[0, 2, 0, 1, 0x05, 0xdc, 0, 0],
            &[0, 3, 0, 1, 0x02, 0x34, 0, 0],
            &[0, 4, 0, 3, 0, 2, 0, 4, 0, 10, 0, 1, 0, 0, 0, 0],
            &[0, 99, 0, 0],
            b"four\0\0\0\0",
        ],
    );
}

/// Returns the value of an MRI in a Response, the only message that allows a loose end in either direction.
fn mri_octets(mri: Mri) -> Vec<u8> {
    let response = Response {
        nat_traversal: None,
        mri,
        session: SESSION,
        nli: nli(),
        query_cookie: &[],
        responder: None,
        confirm_requested: false,
        nslp_data: None,
    };
    let message = message(Body::Response(response));
    let wire = octets(&message);
    assert_eq!(Message::parse(&wire, Mode::D), Ok(message));
    wire[12..12 + mri.value_len()].to_vec()
}

#[test]
fn routing_information_octet_by_octet() {
    let (source, destination) = (ip("2001:db8::1"), ip("2001:db8::2"));
    let six = PathCoupled {
        source,
        destination,
        source_prefix: 64,
        destination_prefix: 128,
        protocol: Some(50),
        ds_field: Some(46),
        flow_label: Some(0xa_bcde),
        spi: Some(0x0102_0304),
        source_port: None,
        destination_port: None,
        direction: Direction::Upstream,
    };
    let value = mri_octets(Mri::PathCoupled(six));
    assert_eq!(value[..8], [0, 0, 0x6f, 0x20, 0x20, 0x01, 0x0d, 0xb8]);
    let rest = [64, 128, 50, 46 << 2, 0x00, 0x0a, 0xbc, 0xde, 1, 2, 3, 4];
    assert_eq!(value[36..], rest);

    let one_port = PathCoupled { source_port: None, ..flow() };
    let value = mri_octets(Mri::PathCoupled(one_port));
    assert_eq!((&value[2..4], &value[16..]), (&[0x48, 0x40][..], &[0, 0, 0x56, 0x78][..]));

    let wild = PathCoupled {
        protocol: None,
        source_port: None,
        destination_port: None,
        source_prefix: 0,
        ..flow()
    };
    let value = mri_octets(Mri::PathCoupled(wild));
    assert_eq!(value, [0, 0, 0x40, 0, 10, 0, 1, 1, 10, 0, 9, 9, 0, 32, 0, 0]);

    let loose = |direction| {
        Mri::LooseEnd(LooseEnd {
            source: flow().source,
            destination: flow().destination,
            direction,
        })
    };
    let value = mri_octets(loose(Direction::Downstream));
    assert_eq!(value, [1, 0, 0x40, 0, 10, 0, 1, 1, 10, 0, 9, 9]);
    assert_eq!(mri_octets(loose(Direction::Upstream))[2..4], [0x48, 0]);
    let direction = Direction::Downstream;
    let value = mri_octets(Mri::LooseEnd(LooseEnd { source, destination, direction }));
    assert_eq!((value.len(), &value[..4]), (36, &[1, 0, 0x60, 0][..]));
}

#[test]
fn nat_traversal_octet_by_octet() {
    let original = Mri::LooseEnd(LooseEnd {
        source: ip("192.168.0.1"),
        destination: ip("10.0.9.9"),
        direction: Direction::Downstream,
    });
    let nat_traversal = NatTraversal {
        original,
        translated: Translated::Items(&[0x0002, 0x8004, 0x0123]),
        opaque: Opaque::new(&[b"abc", b"de", b""]),
    };
    let error = ErrorData {
        class: ErrorClass::ProtocolError,
        code: ErrorCode::NoRoutingState,
        subcode: 0,
        d_mode: false,
        q_mode: false,
        original: [9; 8],
        session: None,
        mri: None,
        infos: Infos::NONE,
        comment: None,
    };
    let error = Error { nat_traversal: Some(nat_traversal), nli: None, error };
    assert_octets(
        &message(Body::Error(error)),
        Mode::C,
        &[
            &[1, 32, 0, 16, 0, 1, 0x04, 0x80],
            &[0, 7, 0, 10, 3, 3, 3, 0],
            &[1, 0, 0x40, 0, 192, 168, 0, 1, 10, 0, 9, 9],
            &[0, 2, 0x80, 4, 1, 0x23, 0, 0],
            b"\x00\x03abc\0\0\0\x00\x02de\x00\x00\0\0",
            &[0, 9, 0, 4, 2, 0, 5, 0, 0, 0, 0, 0, 9, 9, 9, 9, 9, 9, 9, 9],
        ],
    );
    assert!(nat_traversal.translated.contains(4) && !nat_traversal.translated.contains(3));
}

#[test]
fn messages_are_found_in_datagrams_and_streams() {
    let hello = octets(&message(Body::Hello(Hello { id: 7, reply_requested: false })));
    let mut payload = vec![0; MAGIC_LEN + hello.len()];
    emit_magic(&mut payload).expect("it fits").copy_from_slice(&hello);
    assert_eq!(payload[..4], [0x4e, 0x04, 0xbd, 0xa5]);
    assert_eq!(datagram(&payload), Some(&hello[..]));
    payload[3] ^= 1;
    assert_eq!(datagram(&payload), None);
    assert_eq!(datagram(&[0x4e, 0x04, 0xbd]), None);
    assert_eq!(emit_magic(&mut [0; 3]), Err(EmitError::BufferTooShort));

    let stream = [&hello[..], &hello[..]].concat();
    assert_eq!(message_len(&stream), Ok(Some(16)));
    assert_eq!(message_len(&stream[16..]), Ok(Some(16)));
    assert_eq!((message_len(&stream[..7]), message_len(&[])), (Ok(None), Ok(None)));
    let long = [1, 1, 0xff, 0xff, 0, 0, 3, 0];
    assert_eq!(message_len(&long), Ok(Some(262_148)));
    let error = message_len(&[2, 1, 0, 0, 0, 0, 3, 0]).expect_err("version 2");
    assert_eq!((error.kind, error.offset), (ErrorKind::Version, 0));
}

/// A forwarded message keeps unknown objects unless they are marked to be dropped (RFC 5971 A.2.1).
#[test]
fn forwarding_keeps_unknown_objects() {
    let extension = Extension { object_type: 0x7d0, value: b"keep" };
    let data = Data {
        nat_traversal: None,
        mri: Mri::PathCoupled(flow()),
        session: SESSION,
        nli: Some(nli()),
        nslp_data: b"data",
        continuation: Continuation::NONE,
        context_free: true,
        explicitly_routed: false,
    };
    let extensions = [extension];
    let sent = Message { extensions: Extensions::Items(&extensions), ..message(Body::Data(data)) };
    let mut wire = octets(&sent);
    assert_eq!(wire[wire.len() - 8..], *b"\x87\xd0\x00\x01keep");
    assert_eq!(Message::parse(&wire, Mode::D), Ok(sent));
    let without = wire.clone();

    wire.extend_from_slice(b"\x47\xd1\x00\x01drop");
    wire[3] += 2;
    wire[8] |= 0x30; // reserved bits of the MRI
    assert_eq!(Message::parse(&wire, Mode::D), Ok(sent));
    let mut buffer = [0; 200];
    let len = forward(&wire, &mut buffer).expect("it may go on");
    let passed = datagram(&buffer[..len]).expect("in D-mode");
    assert_eq!((passed[1], passed[8] & 0x30), (31, 0x30));
    assert_eq!((passed.len(), &passed[12..]), (without.len(), &without[12..]));
    assert_eq!(Message::parse(passed, Mode::D), Ok(Message { hops: 31, ..sent }));

    for hops in [0, 1] {
        wire[1] = hops;
        assert_eq!(forward(&wire, &mut buffer), Err(ForwardError::HopLimit));
    }
    wire[1] = 2;
    let short = forward(&wire, &mut buffer[..50]);
    assert_eq!(short, Err(ForwardError::Emit(EmitError::BufferTooShort)));
}

/// Data longer than one object continue in other objects, over an association only, and no part passes for the whole.
#[test]
fn long_data_continue_in_further_objects() {
    let data: Vec<u8> = (0..100_000_u32).map(|number| number as u8).collect();
    let (nslp_data, continuation) = Continuation::split(&data);
    assert_eq!(nslp_data.len(), 16_380);
    let body = Data {
        nat_traversal: None,
        mri: Mri::PathCoupled(flow()),
        session: SESSION,
        nli: None,
        nslp_data,
        continuation,
        context_free: false,
        explicitly_routed: false,
    };
    let wire = octets(&message(Body::Data(body)));
    let read = Message::parse(&wire, Mode::C).expect("a message");
    let Body::Data(read) = read.body else { panic!("{read:?}") };
    assert_eq!(read, body);
    let whole: Vec<u8> = read
        .continuation
        .pieces()
        .fold(read.nslp_data.to_vec(), |all, piece| [&all[..], piece].concat());
    assert_eq!(whole, data);
    let error = Message::parse(&wire, Mode::D).expect_err("not in a datagram");
    assert_eq!(error.kind, ErrorKind::Unrecognised);
    // A continuation behind another object.
    let first = wire.len() - (100_000 - 16_380) - 6 * 4;
    let mut apart = wire.clone();
    apart.splice(first..first, [0x40, 0x99, 0, 0]);
    let words = (apart.len() - 8) / 4;
    apart[2..4].copy_from_slice(&(words as u16).to_be_bytes());
    let error = Message::parse(&apart, Mode::C).expect_err("apart");
    assert_eq!((error.kind, error.offset), (ErrorKind::Order, first + 4));
}
