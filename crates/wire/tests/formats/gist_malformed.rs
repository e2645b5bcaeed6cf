//! GIST messages with one fault each: kind and offset of the fault, and the Error that answers it (RFC 5971 A.4).

use std::net::IpAddr;

use earmark_testkit::messages::gist::udp_flow;
use earmark_wire::EmitError;
use earmark_wire::gist::ErrorKind as E;
use earmark_wire::gist::iana::subcode;
use earmark_wire::gist::*;

fn ip(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

const SESSION: SessionId = SessionId([7; 16]);

fn mri() -> Mri {
    let flow = udp_flow((ip("10.0.1.1"), 0), (ip("10.0.9.9"), 9));
    Mri::PathCoupled(PathCoupled { source_port: None, ..flow })
}

fn nli() -> NetworkLayerInformation<'static> {
    NetworkLayerInformation {
        peer_identity: b"node",
        ip_ttl: 64,
        interface_address: ip("10.0.1.254"),
        routing_state_validity: 30_000,
    }
}

const PROFILES: [Profile<'static>; 2] = [Profile(&[2, 1]), Profile(&[1])];
const OPTIONS: [ProtocolOptions<'static>; 1] = [ProtocolOptions::tcp_response(0, &[0x12, 0x34])];

fn stack() -> Stack<'static> {
    Stack {
        proposal: Profiles::new(&PROFILES),
        configuration: StackConfiguration {
            hold_time: 30_000,
            options: ProtocolOptionsList::new(&OPTIONS),
        },
    }
}

fn message(body: Body<'_>) -> Message<'_> {
    let extensions = Extensions::NONE;
    Message { hops: 8, nslpid: 1, source_is_peer: true, body, extensions }
}

fn octets(body: Body<'_>) -> Vec<u8> {
    let message = message(body);
    let mut octets = vec![0; message.buffer_len()];
    assert_eq!(message.emit(&mut octets), Ok(octets.len()));
    octets
}

/// Returns a Query. Offsets of its objects: 8 (MRI), 32 (session), 52 (NLI), 72 (cookie), 80 (proposal), 96
/// (configuration), 116 (data).
fn query() -> Vec<u8> {
    octets(Body::Query(Query {
        nat_traversal: None,
        mri: mri(),
        session: SESSION,
        nli: nli(),
        query_cookie: b"qqqq",
        stack: Some(stack()),
        nslp_data: Some(b"data"),
    }))
}

/// Returns a Response. Offsets of its objects: 8 (MRI), 32 (session), 52 (NLI), 72 and 80 (cookies), 88 (proposal), 104
/// (configuration).
fn response() -> Vec<u8> {
    octets(Body::Response(Response {
        nat_traversal: None,
        mri: mri().inverted(),
        session: SESSION,
        nli: nli(),
        query_cookie: b"qqqq",
        responder: Some(ResponderPart { cookie: b"rrrr", stack: Some(stack()) }),
        confirm_requested: true,
        nslp_data: None,
    }))
}

/// Returns a Data message. Offsets of its objects: 8 (MRI), 32 (session), 52 (NLI), 72 (data).
fn data() -> Vec<u8> {
    octets(Body::Data(Data {
        nat_traversal: None,
        mri: mri(),
        session: SESSION,
        nli: Some(nli()),
        nslp_data: b"data",
        continuation: Continuation::NONE,
        context_free: false,
        explicitly_routed: false,
    }))
}

fn hello() -> Vec<u8> {
    octets(Body::Hello(Hello { id: 5, reply_requested: true }))
}

fn verdict(wire: &[u8], mode: Mode) -> Result<(), (ErrorKind, usize)> {
    Message::parse(wire, mode).map(drop).map_err(|error| (error.kind, error.offset))
}

/// Returns `wire` with one octet changed.
fn with(mut wire: Vec<u8>, at: usize, octet: u8) -> Vec<u8> {
    wire[at] = octet;
    wire
}

/// Returns `wire` with the octets in `range` replaced, and an updated message length.
fn splice(mut wire: Vec<u8>, range: std::ops::Range<usize>, octets: &[u8]) -> Vec<u8> {
    wire.splice(range, octets.iter().copied());
    let words = u16::try_from((wire.len() - HEADER) / 4).expect("a length");
    wire[2..4].copy_from_slice(&words.to_be_bytes());
    wire
}

/// Returns the answer to a message, which must be a message that can be emitted.
fn answer(wire: &[u8], mode: Mode) -> Option<(ErrorCode, u8, Vec<Info<'_>>)> {
    let error = Message::parse(wire, mode).expect_err("it is not well formed");
    let object = error.error_data(wire, mode)?;
    assert_eq!(object.original, wire[..HEADER]);
    assert_eq!((object.class, object.d_mode), (object.code.class(), mode == Mode::D));
    assert_eq!(object.q_mode, mode == Mode::D && wire[0] == 1 && wire[6] & 0x80 != 0);
    let sent = octets(Body::Error(Error { nat_traversal: None, nli: Some(nli()), error: object }));
    assert!(sent.len() <= 1280 - 52, "{} octets", sent.len());
    match Message::parse(&sent, mode).expect("well formed").body {
        Body::Error(Error { error, .. }) => assert_eq!(error, object),
        other => panic!("{other:?}"),
    }
    Some((object.code, object.subcode, object.infos.iter().collect()))
}

#[test]
fn base_messages_are_well_formed() {
    assert_eq!(verdict(&query(), Mode::D), Ok(()));
    assert_eq!(verdict(&response(), Mode::D), Ok(()));
    assert_eq!(verdict(&data(), Mode::D), Ok(()));
    assert_eq!(verdict(&hello(), Mode::C), Ok(()));
}

#[test]
fn lists_tell_whether_they_are_empty() {
    assert!(Profiles::new(&[]).is_empty() && !Profiles::new(&PROFILES).is_empty());
    assert!(ProtocolOptionsList::NONE.is_empty() && !ProtocolOptionsList::new(&OPTIONS).is_empty());
}

/// Common Header Parse Error and Incorrect Encapsulation (A.4.4.1, A.4.4.3).
#[test]
fn headers_are_checked_field_by_field() {
    use subcode::header as h;
    let header = ErrorCode::CommonHeaderParse;
    let cases = [
        (with(query(), 0, 2), Mode::D, E::Version, 0, header, h::UNKNOWN_VERSION),
        (with(query(), 6, 0x86), Mode::D, E::Type, 6, header, h::UNKNOWN_TYPE),
        (with(query(), 7, 0x80), Mode::D, E::ReplyFlag, 7, header, h::INVALID_R_FLAG),
        (with(data(), 7, 0xc0), Mode::D, E::ReplyFlag, 7, header, h::INVALID_R_FLAG),
        (with(response(), 7, 0x80), Mode::D, E::ReplyFlag, 7, header, h::INVALID_R_FLAG),
        (with(query(), 7, 0xe0), Mode::D, E::ExplicitFlag, 7, header, h::INVALID_E_FLAG),
        (with(hello(), 7, 0xe0), Mode::C, E::ExplicitFlag, 7, header, h::INVALID_E_FLAG),
        (with(query(), 6, 0), Mode::D, E::ContextFlag, 6, header, h::INVALID_C_FLAG),
        (with(response(), 6, 0x81), Mode::D, E::ContextFlag, 6, header, h::INVALID_C_FLAG),
        (with(data(), 6, 0x83), Mode::C, E::ContextFlag, 6, header, h::INVALID_C_FLAG),
        (query(), Mode::C, E::Encapsulation, 6, ErrorCode::IncorrectEncapsulation, 0),
        (hello(), Mode::D, E::Encapsulation, 6, ErrorCode::IncorrectEncapsulation, 0),
    ];
    for (wire, mode, kind, offset, code, sub) in cases {
        assert_eq!(verdict(&wire, mode), Err((kind, offset)));
        assert_eq!(answer(&wire, mode), Some((code, sub, vec![])), "{kind:?}");
    }
    assert_eq!(verdict(&query()[..7], Mode::D), Err((E::Truncated, 7)));
    assert_eq!(answer(&query()[..7], Mode::D), None);
}

/// Incorrect Message Length, with the length that the objects add up to.
#[test]
fn message_length_other_than_that_of_objects_is_refused() {
    let words = u16::try_from(query().len() / 4 - 2).expect("a length");
    let longer = [&query()[..], &[0, 0]].concat();
    let cases = [
        (with(query(), 3, 7), words),
        (longer, words),
        (query()[..query().len() - 4].to_vec(), words), // the length still includes NSLP-Data
        (query()[..query().len() - 8].to_vec(), words - 2),
        (splice(query(), 116..124, &[0, 8, 0x0f, 0xff]), words - 2 + 4096),
        (splice(query(), 116..124, &[0, 8, 0xff, 0xff]), words - 2 + 4096),
    ];
    for (wire, calculated) in cases {
        assert_eq!(
            verdict(&wire, Mode::D),
            Err((E::MessageLength(LengthMismatch { words: calculated }), 2))
        );
        let sub = subcode::header::INCORRECT_MESSAGE_LENGTH;
        let expected = (ErrorCode::CommonHeaderParse, sub, vec![Info::MessageLength(calculated)]);
        assert_eq!(answer(&wire, Mode::D), Some(expected));
        let error = Message::parse(&wire, Mode::D).expect_err("of another length");
        let object = error.error_data(&wire, Mode::D).expect("an answer");
        assert_eq!((object.session, object.mri), (None, None)); // A.4.4.1 forbids them
    }
}

/// Object Type Error, with the type at fault (A.4.4.9).
#[test]
fn objects_outside_the_grammar_are_refused() {
    use subcode::object_type as t;
    let session = query()[32..52].to_vec();
    let cookie = query()[72..80].to_vec();
    let twice = [&session[..], &session[..]].concat();
    let cases = [
        (splice(query(), 32..52, &twice), E::Duplicate, 52, 1, t::DUPLICATE),
        (splice(query(), 72..72, &[0x07, 0xd0, 0, 0]), E::Unrecognised, 72, 2000, t::UNRECOGNISED),
        (splice(query(), 8..32, &[]), E::Missing, 100, 0, t::MISSING),
        (splice(query(), 32..52, &[]), E::Missing, 104, 1, t::MISSING),
        (splice(query(), 52..72, &[]), E::Missing, 104, 2, t::MISSING),
        (splice(query(), 72..80, &[]), E::Missing, 116, 5, t::MISSING),
        (splice(query(), 80..96, &[]), E::Missing, 108, 3, t::MISSING),
        (splice(query(), 96..116, &[]), E::Missing, 104, 4, t::MISSING),
        (splice(response(), 80..88, &[]), E::Missing, 116, 6, t::MISSING),
        (splice(data(), 72..80, &[]), E::Missing, 72, 8, t::MISSING),
        (splice(data(), 52..72, &[]), E::Missing, 60, 2, t::MISSING),
        (splice(data(), 72..72, &cookie), E::InvalidObject, 72, 5, t::INVALID),
        (splice(query(), 72..80, &[0, 6, 0, 0]), E::InvalidObject, 72, 6, t::INVALID),
        (splice(data(), 80..80, &[0, 10, 0, 1, 0, 0, 0, 1]), E::InvalidObject, 80, 10, t::INVALID),
        (splice(query(), 8..8, &session), E::Order, 28, 0, t::INVALID),
        (with(query(), 32, 0xc0), E::ExtensibilityFlags, 32, 1, t::INVALID_EXTENSIBILITY_FLAGS),
        (
            splice(query(), 72..72, &[0xc7, 0xd0, 0, 0]),
            E::ExtensibilityFlags,
            72,
            2000,
            t::INVALID_EXTENSIBILITY_FLAGS,
        ),
    ];
    for (wire, kind, offset, object_type, sub) in cases {
        assert_eq!(verdict(&wire, Mode::D), Err((kind, offset)));
        let expected = (ErrorCode::ObjectType, sub, vec![Info::ObjectType(object_type)]);
        assert_eq!(answer(&wire, Mode::D), Some(expected), "{kind:?}");
    }
    let in_c_mode = verdict(&data(), Mode::C);
    assert_eq!(in_c_mode, Err((E::InvalidObject, 52))); // no NLI there
    let ignored = splice(query(), 124..124, &[0x47, 0xd0, 0, 0]);
    assert_eq!(verdict(&ignored, Mode::D), Ok(()));
}

/// Object Value Error, with the object and where in it (A.4.4.10).
#[test]
fn invalid_values_are_refused_object_by_object() {
    use subcode::object_value as v;
    let cases = [
        // Message-Routing-Information: first word at 12, addresses, prefixes at 24, ports at 28.
        (with(query(), 12, 2), E::NotSupported, 12, v::NOT_SUPPORTED, 8),
        (with(query(), 14, 0x58), E::NotSupported, 14, v::NOT_SUPPORTED, 8),
        (with(with(query(), 12, 1), 14, 0x58), E::NotSupported, 14, v::NOT_SUPPORTED, 8),
        (with(query(), 13, 0x80), E::Combination, 13, v::INVALID_COMBINATION, 8),
        (with(query(), 14, 0x40), E::Combination, 14, v::INVALID_COMBINATION, 8), // B without P
        (with(query(), 14, 0x4a), E::Combination, 14, v::INVALID_COMBINATION, 8), // F in IPv4
        (with(query(), 14, 0x49), E::Combination, 14, v::INVALID_COMBINATION, 8), // S and B
        (with(query(), 24, 33), E::Combination, 24, v::INVALID_COMBINATION, 8),
        (with(query(), 25, 33), E::Combination, 25, v::INVALID_COMBINATION, 8),
        (with(query(), 15, 0x00), E::Length, 28, v::INCORRECT_LENGTH, 8), // ports without B
        (with(query(), 14, 0x68), E::Length, 32, v::INCORRECT_LENGTH, 8), // IPv6 in 20 octets
        (with(query(), 12, 1), E::Length, 24, v::INCORRECT_LENGTH, 8),    // loose end, and more
        (splice(query(), 8..32, &[0, 0, 0, 0]), E::Length, 12, v::INCORRECT_LENGTH, 8),
        (
            splice(query(), 8..32, &[0, 0, 0, 3, 1, 0, 0x48, 0, 10, 0, 0, 1, 10, 0, 0, 2]),
            E::Combination, // an upstream loose end
            14,
            v::INVALID_COMBINATION,
            8,
        ),
        (
            splice(query(), 32..52, &[0, 1, 0, 1, 0, 0, 0, 0]),
            E::Length,
            36,
            v::INCORRECT_LENGTH,
            32,
        ),
        // Network-Layer-Information: first word at 56, validity, identity at 64, address at 68.
        (with(query(), 56, 5), E::Length, 72, v::INCORRECT_LENGTH, 52),
        (with(query(), 56, 0), E::Length, 68, v::INCORRECT_LENGTH, 52),
        (with(query(), 58, 0x50), E::NotSupported, 58, v::NOT_SUPPORTED, 52),
        (with(with(query(), 62, 0), 63, 0), E::NotSupported, 60, v::NOT_SUPPORTED, 52),
        // Stack-Proposal: count at 84, profiles at 88 and 92.
        (with(query(), 84, 0), E::NotSupported, 84, v::NOT_SUPPORTED, 80),
        (with(query(), 84, 3), E::Length, 96, v::INCORRECT_LENGTH, 80),
        (with(query(), 92, 0), E::EmptyList, 92, v::EMPTY_LIST, 80),
        // Stack-Configuration-Data: count at 100, hold time, options at 108, their data at 112.
        (with(query(), 100, 2), E::Length, 116, v::INCORRECT_LENGTH, 96),
        (with(query(), 110, 5), E::Length, 112, v::INCORRECT_LENGTH, 96),
        (with(with(query(), 106, 0), 107, 0), E::NotSupported, 104, v::NOT_SUPPORTED, 96),
        (with(response(), 118, 1), E::Length, 108, v::INCORRECT_LENGTH, 104), // half a port
    ];
    for (wire, kind, offset, sub, object) in cases {
        assert_eq!(verdict(&wire, Mode::D), Err((kind, offset)), "{kind:?}");
        let (code, subcode, infos) = answer(&wire, Mode::D).expect("an answer");
        assert_eq!((code, subcode), (ErrorCode::ObjectValue, sub));
        let len = 4 + 4 * usize::from(wire[object + 3]);
        let shown = Info::object_value(&wire[object..object + len], offset - object);
        assert_eq!(infos, [shown], "{kind:?}");
    }
    let zero = with(hello(), 15, 0);
    assert_eq!(verdict(&zero, Mode::C), Err((E::NotSupported, 12)));
    let shown = vec![Info::object_value(&zero[8..], 4)];
    let expected = (ErrorCode::ObjectValue, v::NOT_SUPPORTED, shown);
    assert_eq!(answer(&zero, Mode::C), Some(expected));
}

/// Stack-Proposal and Stack-Configuration-Data that do not go together are both shown (section 5.7.1).
#[test]
fn inconsistent_stacks_are_refused_with_both_objects() {
    let cases = [
        with(query(), 108, 2), // options of TLS, none of TCP
        with(query(), 108, 9), // a protocol that is not proposed
        with(query(), 109, 1), // none for TCP in the second profile
        with(query(), 109, 3), // a missing profile
    ];
    for wire in cases {
        assert_eq!(verdict(&wire, Mode::D), Err((E::StackMismatch, 100)));
        let shown =
            vec![Info::object_value(&wire[80..96], 0), Info::object_value(&wire[96..116], 4)];
        let expected = (ErrorCode::ObjectValue, subcode::object_value::STACK_MISMATCH, shown);
        assert_eq!(answer(&wire, Mode::D), Some(expected));
    }
    // A protocol that must not be used needs no port.
    let unusable = with(with(with(response(), 118, 0), 119, 0x80), 107, 3);
    assert_eq!(verdict(&splice(unusable, 120..124, &[]), Mode::D), Ok(()));
}

/// Error data have session and MRI if these are readable.
#[test]
fn error_data_has_readable_session_and_mri() {
    let answered = |wire: &[u8]| {
        let error = Message::parse(wire, Mode::D).expect_err("not well formed");
        let object = error.error_data(wire, Mode::D).expect("an answer");
        (object.session, object.mri)
    };
    assert_eq!(answered(&with(query(), 84, 0)), (Some(SESSION), Some(mri())));
    assert_eq!(answered(&with(query(), 12, 9)), (Some(SESSION), None));
    assert_eq!(answered(&splice(query(), 32..52, &[])), (None, Some(mri())));
}

/// Error messages are never answered by errors (section 5.6).
#[test]
fn errors_are_not_answered() {
    let wire = with(query(), 84, 0);
    let error = Message::parse(&wire, Mode::D).expect_err("no profiles");
    let object = error.error_data(&wire, Mode::D).expect("an answer");
    let sent = octets(Body::Error(Error { nat_traversal: None, nli: Some(nli()), error: object }));
    for bad in [with(sent.clone(), 7, 0xc0), with(sent.clone(), 3, 1), with(sent.clone(), 36, 0x08)]
    {
        assert!(Message::parse(&bad, Mode::D).is_err());
        assert_eq!(answer(&bad, Mode::D), None);
    }
    // Q without D, an MRI length without MRI, a comment without end.
    assert_eq!(verdict(&with(sent.clone(), 36, 0xc8), Mode::D), Err((E::Combination, 36)));
    assert_eq!(verdict(&with(sent.clone(), 36, 0x90), Mode::D), Err((E::Length, 38)));
    let endless = splice(with(sent.clone(), 36, 0xf0), sent.len()..sent.len(), b"abcd");
    let words = endless[31] + 1;
    let endless = with(endless, 31, words);
    assert_eq!(verdict(&endless, Mode::D), Err((E::Length, sent.len())));
    let ended = with(endless.clone(), sent.len() + 3, 0);
    assert_eq!(verdict(&ended, Mode::D), Ok(()));
    let foreign = with(ended, sent.len(), 0xff);
    assert_eq!(verdict(&foreign, Mode::D), Err((E::NotSupported, sent.len())));
}

/// Faults that only an engine detects, in a well-formed message: the answer has the same form.
#[test]
fn error_about_well_formed_message_has_the_same_form() {
    let wire = query();
    let object =
        ErrorData::error_data_about(&wire, Mode::D, ErrorCode::HopLimitExceeded, 0).expect("one");
    assert_eq!((object.class, object.q_mode), (ErrorClass::PermanentFailure, true));
    assert_eq!((object.session, object.mri), (Some(SESSION), Some(mri())));
    assert_eq!(object.original_header().map(|header| header.hops), Some(8));
    let object = ErrorData::error_data_about(&data(), Mode::C, ErrorCode::NoRoutingState, 0)
        .map(|object| (object.class, object.d_mode, object.q_mode));
    assert_eq!(object, Some((ErrorClass::ProtocolError, false, false)));
}

/// A long object is truncated, so that the answer fits every link.
#[test]
fn long_objects_are_truncated_in_errors() {
    let mut object = vec![0, 2, 0x02, 0x00];
    object.resize(4 + 0x200 * 4, 0x11);
    let wire = splice(query(), 52..72, &object);
    let (code, sub, infos) = answer(&wire, Mode::D).expect("an answer");
    let version = subcode::object_value::NOT_SUPPORTED; // 1, as the octets have it
    assert_eq!((code, sub, infos.len()), (ErrorCode::ObjectValue, version, 1));
    match infos[0] {
        Info::ObjectValue { object, .. } => assert_eq!(object.len(), MAX_OBJECT_SHOWN),
        other => panic!("{other:?}"),
    }
}

/// Unreadable messages are not emitted.
#[test]
fn contradictions_are_not_written() {
    #[track_caller]
    fn refused(body: Body<'_>, why: EmitError) {
        let mut buffer = vec![0; 0x10000];
        assert_eq!(message(body).emit(&mut buffer), Err(why));
    }
    let data = |mri, nslp_data: &'static [u8]| {
        Body::Data(Data {
            nat_traversal: None,
            mri,
            session: SESSION,
            nli: None,
            nslp_data,
            continuation: Continuation::NONE,
            context_free: false,
            explicitly_routed: false,
        })
    };
    let Mri::PathCoupled(flow) = mri() else { unreachable!("it is one") };
    for mri in [
        PathCoupled { destination: ip("::1"), ..flow },
        PathCoupled { source_prefix: 33, ..flow },
        PathCoupled { ds_field: Some(64), ..flow },
        PathCoupled { flow_label: Some(1), ..flow },
        PathCoupled { protocol: None, ..flow },
        PathCoupled { spi: Some(1), ..flow },
    ] {
        refused(data(Mri::PathCoupled(mri), b"data"), EmitError::Contradiction);
    }
    let mri = Mri::PathCoupled(flow);
    refused(data(mri, b"odd"), EmitError::Contradiction);
    refused(data(mri, &[0; 16_384]), EmitError::TooLong);
    refused(Body::Hello(Hello { id: 0, reply_requested: true }), EmitError::Contradiction);
    let short = message(Body::Hello(Hello { id: 1, reply_requested: true }));
    assert_eq!(short.emit(&mut [0; 15]), Err(EmitError::BufferTooShort));
}
