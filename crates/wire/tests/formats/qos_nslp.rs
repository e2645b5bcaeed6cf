//! QoS NSLP: layouts of RFC 5974, treatment of unknown objects, and refusal to emit unreadable messages.

use earmark_testkit::messages::qos_nslp;
use earmark_wire::EmitError;
use earmark_wire::nsis::Treatment;
use earmark_wire::qos_nslp::iana::{
    BindingCode, ErrorClass, Informational, PermanentFailure, ProtocolError, Success,
    TransientFailure,
};
use earmark_wire::qos_nslp::*;

const NAME: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
const SESSION: SessionId = SessionId(NAME);
const RSN: Rsn = Rsn { number: 0x0102_0304, epoch: 0x0506_0708 };
/// An empty default QSPEC, which only the QSPEC parser refuses.
const QSPEC: &[u8] = &[0, 0, 0, 0];

const RESERVE: Reserve<'static> = Reserve { rsn: RSN, ..qos_nslp::RESERVE };

const QUERY: Query<'static> = Query {
    flags: RESERVE.flags,
    reserve_init: true,
    rii: None,
    bound: BoundSessions::NONE,
    classifier: None,
    info: None,
    qspec: QSPEC,
    second_qspec: None,
    extra: Extra::NONE,
};

/// RSN 0x01020304 of epoch 0x05060708, as an object.
const RSN_OBJECT: [u8; 12] = [0, 2, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8];
/// RII 0x0a0b0c0d.
const RII_OBJECT: [u8; 8] = [0, 1, 0, 1, 10, 11, 12, 13];
const QSPEC_OBJECT: [u8; 8] = [0, 11, 0, 1, 0, 0, 0, 0];
/// INFO-SPEC: success, reservation successful, without a source.
const INFO_OBJECT: [u8; 8] = [0, 6, 0, 1, 0, 1, 0x20, 0];

fn emit(message: &Message<'_>) -> Vec<u8> {
    let mut buffer = vec![0xa5; message.buffer_len()];
    assert_eq!(message.emit(&mut buffer), Ok(buffer.len()), "{message:?}");
    buffer
}

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

#[track_caller]
fn same(message: &Message<'_>, parts: &[&[u8]]) {
    let octets = joined(parts);
    assert_eq!(emit(message), octets);
    assert_eq!(Message::parse(&octets).as_ref(), Ok(message));
}

#[test]
fn a_reduced_refresh_is_sixteen_octets() {
    same(&Message::Reserve(RESERVE), &[&[1, 0, 0, 0], &RSN_OBJECT]);
}

#[test]
fn flags_are_the_low_bits() {
    let cases = [
        (GenericFlags { scoping: true, ..RESERVE.flags }, 1),
        (GenericFlags { proxy: true, ..RESERVE.flags }, 2),
        (GenericFlags { ack_req: true, ..RESERVE.flags }, 4),
        (GenericFlags { breaks: true, ..RESERVE.flags }, 8),
    ];
    for (flags, bit) in cases {
        same(&Message::Reserve(Reserve { flags, ..RESERVE }), &[&[1, 0, 0, bit], &RSN_OBJECT]);
    }
    same(&Message::Reserve(Reserve { replace: true, ..RESERVE }), &[&[1, 1, 0, 0], &RSN_OBJECT]);
    same(&Message::Reserve(Reserve { tear: true, ..RESERVE }), &[&[1, 2, 0, 0], &RSN_OBJECT]);
    same(&Message::Query(QUERY), &[&[2, 1, 0, 0], &QSPEC_OBJECT]);
}

#[test]
fn undefined_flag_bits_are_ignored() {
    let reserve = joined(&[&[1, 0xfc, 0xff, 0xf0], &RSN_OBJECT]);
    assert_eq!(Message::parse(&reserve), Ok(Message::Reserve(RESERVE)));
    let notify = joined(&[&[4, 0xff, 0xff, 0xf4], &INFO_OBJECT]);
    let Ok(Message::Notify(notify)) = Message::parse(&notify) else { panic!() };
    assert_eq!(notify.flags, RESERVE.flags, "ACK-REQ means nothing in a NOTIFY");
}

#[test]
fn reserve_with_all_objects_round_trips() {
    let source = ErrorSource::Ipv4([192, 0, 2, 1].into());
    let outcome = Outcome::Informational(Informational::RouteChange);
    let message = Message::Reserve(Reserve {
        flags: GenericFlags { breaks: true, ..RESERVE.flags },
        replace: true,
        rii: Some(0x0a0b_0c0d),
        refresh_period: Some(30_000),
        bound: BoundSessions::Items(&[
            BoundSessionId { binding: BindingCode::Aggregate, session: SESSION },
            BoundSessionId { binding: BindingCode::Bidirectional, session: SessionId([0; 16]) },
        ]),
        summary: Some(Summary {
            sessions: &[NAME],
            rsns: Some(RsnList { epoch: 9, wire: &[[0, 0, 0, 7]] }),
        }),
        binding: Some(MessageBinding::Id(MessageId { bidirectional: true, id: NAME })),
        info: Some(InfoSpec { source: Some(source), ..InfoSpec::new(outcome) }),
        classifier: Some(PacketClassifier(
            PacketClassifier::SOURCE_ADDRESS | PacketClassifier::DESTINATION_PORT,
        )),
        qspec: Some(QSPEC),
        extra: Extra::Items(&[ExtraObject {
            treatment: Treatment::Refresh,
            object_type: 0x7d0,
            value: &[1, 2, 3, 4],
        }]),
        ..RESERVE
    });
    same(
        &message,
        &[
            &[1, 1, 0, 8],
            &RSN_OBJECT,
            &RII_OBJECT,
            &[0, 3, 0, 1, 0, 0, 0x75, 0x30],
            &[0, 4, 0, 5, 0, 0, 0, 3],
            &NAME,
            &[0, 4, 0, 5, 0, 0, 0, 2],
            &[0; 16],
            &[0, 7, 0, 4],
            &NAME,
            &[0, 8, 0, 2, 0, 0, 0, 9, 0, 0, 0, 7],
            &[0, 9, 0, 5, 0, 0, 0, 1],
            &NAME,
            &[0, 6, 0, 2, 0, 2, 0x11, 1, 192, 0, 2, 1],
            &[0, 5, 0, 1, 0x81, 0, 0, 0],
            &QSPEC_OBJECT,
            &[0xc7, 0xd0, 0, 1, 1, 2, 3, 4],
        ],
    );
}

#[test]
fn a_query_with_two_qspecs_keeps_their_order() {
    let message = Message::Query(Query {
        reserve_init: false,
        rii: Some(0x0a0b_0c0d),
        second_qspec: Some(&[8, 0, 0, 0]),
        ..QUERY
    });
    let second = [0, 11, 0, 1, 8, 0, 0, 0];
    same(&message, &[&[2, 0, 0, 0], &RII_OBJECT, &QSPEC_OBJECT, &second]);
}

#[test]
fn a_response_answers_an_rii_or_an_rsn() {
    let response = |answers| {
        Message::Response(Response {
            flags: RESERVE.flags,
            answers,
            info: InfoSpec::new(Outcome::Success(Success::Reservation)),
            summary: None,
            qspec: Some(QSPEC),
            extra: Extra::NONE,
        })
    };
    let rest = joined(&[&INFO_OBJECT, &QSPEC_OBJECT]);
    same(&response(None), &[&[3, 0, 0, 0], &rest]);
    same(&response(Some(Answers::Rii(0x0a0b_0c0d))), &[&[3, 0, 0, 0], &RII_OBJECT, &rest]);
    same(&response(Some(Answers::Rsn(RSN))), &[&[3, 0, 0, 0], &RSN_OBJECT, &rest]);
}

#[test]
fn objects_are_accepted_in_any_order() {
    let octets = joined(&[&[1, 0, 0, 0], &QSPEC_OBJECT, &RII_OBJECT, &RSN_OBJECT]);
    let expected = Reserve { rii: Some(0x0a0b_0c0d), qspec: Some(QSPEC), ..RESERVE };
    assert_eq!(Message::parse(&octets), Ok(Message::Reserve(expected)));
}

#[test]
fn error_source_identifiers_round_trip() {
    let v6 = "2001:db8::1".parse().unwrap();
    let cases: [(ErrorSource<'_>, &[u8]); 5] = [
        (ErrorSource::Ipv4([192, 0, 2, 1].into()), &[0x21, 1, 192, 0, 2, 1]),
        (
            ErrorSource::Ipv6(v6),
            &[0x22, 4, 0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1],
        ),
        (ErrorSource::Fqdn("a.net"), &[0x23, 2, b'a', b'.', b'n', b'e', b't', 0, 0, 0]),
        (ErrorSource::Fqdn("four"), &[0x23, 1, b'f', b'o', b'u', b'r']),
        (ErrorSource::Unknown { code: 14, octets: &[] }, &[0x2e, 0]),
    ];
    for (source, octets) in cases {
        let info =
            InfoSpec { source: Some(source), ..InfoSpec::new(Outcome::Success(Success::Refresh)) };
        let words = (octets.len() + 2) / 4;
        let header = [4, 0, 0, 0, 0, 6, 0, u8::try_from(words).unwrap(), 0, 4];
        let notify = Notify { flags: RESERVE.flags, info, qspec: None, extra: Extra::NONE };
        same(&Message::Notify(notify), &[&header, octets]);
    }
}

/// Every class with every code, and the numbers of named codes.
#[test]
fn outcomes_round_trip_as_class_and_code() {
    for class in 0..16 {
        for code in 0..=255 {
            let outcome = Outcome::from_codes(class, code);
            assert_eq!((outcome.class().code(), outcome.code()), (class, code));
        }
    }
    let named = |class: ErrorClass| {
        let names = (0..=255).map(|code| Outcome::from_codes(class.code(), code).name());
        names.filter(|name| *name != "unknown").count()
    };
    let classes = [
        (ErrorClass::Informational, 6),
        (ErrorClass::Success, 4),
        (ErrorClass::ProtocolError, 15),
        (ErrorClass::TransientFailure, 8),
        (ErrorClass::PermanentFailure, 2),
    ];
    for (class, count) in classes {
        assert_eq!(named(class), count, "{class:?}");
    }
    assert_eq!(Outcome::from_codes(4, 6), Outcome::TransientFailure(TransientFailure::Preempted));
    assert_eq!(
        Outcome::from_codes(5, 2),
        Outcome::PermanentFailure(PermanentFailure::Authorization)
    );
    assert_eq!(Outcome::from_codes(6, 64), Outcome::QosModelError(64));
}

#[test]
fn unknown_objects_are_dropped_or_kept_by_their_flags() {
    let ignore = [0x47, 0xd0, 0, 0];
    // A reserved bit is set, and must be kept.
    let forward = [0xa7, 0xd1, 0, 1, 9, 9, 9, 9];
    let octets = joined(&[&[1, 0, 0, 0], &ignore, &forward, &RSN_OBJECT]);
    let message = Message::parse(&octets).expect("nothing is mandatory");
    let Message::Reserve(reserve) = message else { panic!("{message:?}") };
    let kept: Vec<_> = reserve.extra.iter().collect();
    let expected =
        ExtraObject { treatment: Treatment::Forward, object_type: 0x7d1, value: &[9; 4] };
    assert_eq!(kept, [expected]);
    assert_eq!(emit(&message), joined(&[&[1, 0, 0, 0], &RSN_OBJECT, &forward]));
}

#[test]
fn object_values_of_an_error_round_trip() {
    let details = [0, 3, 0, 4, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 0, 0, 0, 2, 0, 2, 0, 9, 0, 0];
    let outcome = Outcome::ProtocolError(ProtocolError::ErroneousValue);
    let info = InfoSpec { details: &details, ..InfoSpec::new(outcome) };
    let values: Vec<_> = info.object_values().collect();
    let expected = [
        ObjectValue { words: 3, offset: 4, octets: &details[4..12] },
        ObjectValue { words: 1, offset: 0, octets: &details[16..20] },
    ];
    assert_eq!(values, expected, "what is cut off behind them is left out");
    assert_eq!(info.object_type(), None);
}

#[test]
fn unreadable_messages_are_not_emitted() {
    let mut buffer = [0; 256];
    let mut refuse = |message: Message<'_>, error| {
        assert_eq!(message.emit(&mut buffer), Err(error), "{message:?}");
    };
    let ack = GenericFlags { ack_req: true, ..RESERVE.flags };
    let info = InfoSpec::new(Outcome::Success(Success::Refresh));
    let notify = |info| {
        Message::Notify(Notify { flags: RESERVE.flags, info, qspec: None, extra: Extra::NONE })
    };
    refuse(
        Message::Reserve(Reserve { flags: ack, rii: Some(1), ..RESERVE }),
        EmitError::Contradiction,
    );
    let classifier = Some(PacketClassifier(0));
    refuse(Message::Reserve(Reserve { classifier, ..RESERVE }), EmitError::Contradiction);
    refuse(Message::Reserve(Reserve { qspec: Some(&[1]), ..RESERVE }), EmitError::Contradiction);
    refuse(Message::Reserve(Reserve { qspec: Some(&[]), ..RESERVE }), EmitError::Contradiction);
    let summary =
        Some(Summary { sessions: &[], rsns: Some(RsnList { epoch: 0, wire: &[[0; 4]] }) });
    refuse(Message::Reserve(Reserve { summary, ..RESERVE }), EmitError::Contradiction);
    refuse(Message::Query(Query { reserve_init: false, ..QUERY }), EmitError::Contradiction);
    refuse(
        Message::Notify(Notify { flags: ack, info, qspec: None, extra: Extra::NONE }),
        EmitError::Contradiction,
    );
    for source in [
        ErrorSource::Fqdn(""),
        ErrorSource::Fqdn("a\0b"),
        ErrorSource::Unknown { code: 3, octets: &[] },
        ErrorSource::Unknown { code: 4, octets: &[1] },
    ] {
        refuse(notify(InfoSpec { source: Some(source), ..info }), EmitError::Contradiction);
    }
    refuse(notify(InfoSpec { details: &[1], ..info }), EmitError::Contradiction);
    let long = "x".repeat(1_021);
    let source = Some(ErrorSource::Fqdn(&long));
    refuse(notify(InfoSpec { source, ..info }), EmitError::TooLong);
    for (treatment, object_type) in [(Treatment::Forward, 1), (Treatment::Ignore, 2_000)] {
        let items = [ExtraObject { treatment, object_type, value: &[] }];
        let extra = Extra::Items(&items);
        refuse(Message::Reserve(Reserve { extra, ..RESERVE }), EmitError::Contradiction);
    }
    let long = vec![0; 4 * 4_096];
    let mut room = vec![0; 5 * 4_096];
    let message = Message::Reserve(Reserve { qspec: Some(&long), ..RESERVE });
    assert_eq!(message.emit(&mut room), Err(EmitError::TooLong));
    assert_eq!(Message::Reserve(RESERVE).emit(&mut room[..15]), Err(EmitError::BufferTooShort));
}
