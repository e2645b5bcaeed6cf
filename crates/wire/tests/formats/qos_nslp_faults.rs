//! Malformed QoS NSLP messages: fault, offset, and the INFO-SPEC of the RESPONSE.

use earmark_wire::qos_nslp::ErrorKind::*;
use earmark_wire::qos_nslp::iana::{ObjectType, ProtocolError};
use earmark_wire::qos_nslp::*;

const SESSION: [u8; 16] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16];
const RSN: Rsn = Rsn { number: 0x0102_0304, epoch: 0x0506_0708 };

/// RSN as an object.
const RSN_OBJECT: [u8; 12] = [0, 2, 0, 2, 1, 2, 3, 4, 5, 6, 7, 8];
/// RII 0x0a0b0c0d.
const RII_OBJECT: [u8; 8] = [0, 1, 0, 1, 10, 11, 12, 13];
const QSPEC_OBJECT: [u8; 8] = [0, 11, 0, 1, 0, 0, 0, 0];
/// INFO-SPEC: success, reservation successful, without a source.
const INFO_OBJECT: [u8; 8] = [0, 6, 0, 1, 0, 1, 0x20, 0];

fn joined(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}

/// Headers of a RESERVE, of a QUERY without and with RESERVE-INIT, of a RESPONSE and of a NOTIFY.
const RESERVE: [u8; 4] = [1, 0, 0, 0];
const QUERY: [u8; 4] = [2, 0, 0, 0];
const INIT: [u8; 4] = [2, 1, 0, 0];
const RESPONSE: [u8; 4] = [3, 0, 0, 0];
const NOTIFY: [u8; 4] = [4, 0, 0, 0];

/// Faults without an object.
const NONE: ObjectType = ObjectType::Unknown(0);

/// Description, octets, fault, object at fault, offset, and code of the RESPONSE.
type Case = (&'static str, Vec<u8>, ErrorKind, ObjectType, usize, u8);

fn with_info(value: &[u8]) -> Vec<u8> {
    let words = u8::try_from(value.len() / 4).expect("short");
    joined(&[&NOTIFY, &[0, 6, 0, words], value])
}

fn assert_named(cases: impl IntoIterator<Item = Case>) {
    for (what, octets, kind, object, offset, code) in cases {
        let error = Message::parse(&octets).expect_err(what);
        let object = (object != NONE || kind == UnknownObject).then_some(object);
        assert_eq!(error, ParseError { kind, object, offset }, "{what}");
        let mut room = [0; 4];
        let info = error.info_spec(&mut room);
        let expected = Outcome::ProtocolError(ProtocolError::from_code(code));
        assert_eq!(info.outcome, expected, "{what}");
        assert!(error.to_string().starts_with(&format!("QoS NSLP, octet {offset}: ")), "{error}");
    }
}

#[test]
fn broken_frames_are_reported_with_offset_and_code() {
    assert_named([
        ("nothing", vec![], Truncated, NONE, 0, 2),
        ("three octets", vec![1, 0, 0], Truncated, NONE, 3, 2),
        ("type 0", vec![0, 0, 0, 0], MessageType, NONE, 0, 1),
        ("type 5", vec![5, 0, 0, 0], MessageType, NONE, 0, 1),
        ("half a header", joined(&[&RESERVE, &[0, 2]]), ObjectTruncated, NONE, 4, 2),
        ("cut off", joined(&[&RESERVE, &RSN_OBJECT[..8]]), ObjectLength, ObjectType::Rsn, 4, 8),
        ("a short RSN", joined(&[&RESERVE, &[0, 2, 0, 0]]), ValueLength, ObjectType::Rsn, 4, 8),
        (
            "a long RII",
            joined(&[&RESERVE, &[0, 1, 0, 2], &[0; 8]]),
            ValueLength,
            ObjectType::Rii,
            4,
            8,
        ),
        (
            "a short binding",
            joined(&[&RESERVE, &[0, 4, 0, 1], &[0; 4]]),
            ValueLength,
            ObjectType::BoundSessionId,
            4,
            8,
        ),
        (
            "a long classifier",
            joined(&[&INIT, &[0, 5, 0, 2], &[0; 8]]),
            ValueLength,
            ObjectType::PacketClassifier,
            4,
            8,
        ),
        (
            "a short MSG-ID",
            joined(&[&RESERVE, &[0, 9, 0, 4], &[0; 16]]),
            ValueLength,
            ObjectType::MessageId,
            4,
            8,
        ),
        (
            "an empty QSPEC",
            joined(&[&RESERVE, &[0, 11, 0, 0]]),
            EmptyQspec,
            ObjectType::Qspec,
            4,
            12,
        ),
    ]);
}

#[test]
fn missing_and_unknown_objects_are_reported_with_offset_and_code() {
    assert_named([
        ("no RSN", RESERVE.to_vec(), MissingObject, ObjectType::Rsn, 4, 5),
        ("no QSPEC", INIT.to_vec(), MissingObject, ObjectType::Qspec, 4, 5),
        ("no RII", joined(&[&QUERY, &QSPEC_OBJECT]), MissingObject, ObjectType::Rii, 12, 5),
        ("no answer", RESPONSE.to_vec(), MissingObject, ObjectType::InfoSpec, 4, 5),
        ("no notice", NOTIFY.to_vec(), MissingObject, ObjectType::InfoSpec, 4, 5),
        (
            "unknown",
            joined(&[&RESERVE, &[0x07, 0xd0, 0, 0]]),
            UnknownObject,
            ObjectType::Unknown(2_000),
            4,
            7,
        ),
        (
            "type 0 of object",
            joined(&[&RESERVE, &[0, 0, 0, 0]]),
            UnknownObject,
            ObjectType::Unknown(0),
            4,
            7,
        ),
    ]);
}

#[test]
fn illegal_objects_are_reported_with_offset_and_code() {
    assert_named([
        ("an RSN in a QUERY", joined(&[&QUERY, &RSN_OBJECT]), IllegalObject, ObjectType::Rsn, 4, 6),
        (
            "an RII in a NOTIFY",
            joined(&[&NOTIFY, &RII_OBJECT]),
            IllegalObject,
            ObjectType::Rii,
            4,
            6,
        ),
        (
            "both in a RESPONSE",
            joined(&[&RESPONSE, &RII_OBJECT, &RSN_OBJECT, &INFO_OBJECT]),
            IllegalObject,
            ObjectType::Rsn,
            32,
            6,
        ),
        (
            "a classifier of nothing",
            joined(&[&RESERVE, &RSN_OBJECT, &[0, 5, 0, 1, 0, 0, 0, 0]]),
            IllegalObject,
            ObjectType::PacketClassifier,
            24,
            6,
        ),
        (
            "MSG-ID and BOUND-MSG-ID",
            joined(&[&RESERVE, &[0, 9, 0, 5], &[0; 20], &[0, 10, 0, 5], &[0; 20]]),
            IllegalObject,
            ObjectType::BoundMessageId,
            28,
            6,
        ),
        (
            "two RSNs",
            joined(&[&RESERVE, &RSN_OBJECT, &RSN_OBJECT]),
            DuplicateObject,
            ObjectType::Rsn,
            16,
            11,
        ),
        (
            "two QSPECs",
            joined(&[&RESERVE, &QSPEC_OBJECT, &QSPEC_OBJECT]),
            DuplicateObject,
            ObjectType::Qspec,
            12,
            11,
        ),
        (
            "three QSPECs",
            joined(&[&INIT, &QSPEC_OBJECT, &QSPEC_OBJECT, &QSPEC_OBJECT]),
            DuplicateObject,
            ObjectType::Qspec,
            20,
            11,
        ),
        (
            "ACK-REQ beside an RII",
            joined(&[&[1, 0, 0, 4], &RSN_OBJECT, &RII_OBJECT]),
            Acknowledgement,
            NONE,
            2,
            3,
        ),
    ]);
}

#[test]
fn inconsistent_lists_are_reported_with_offset_and_code() {
    assert_named([
        (
            "a third of a session",
            joined(&[&RESERVE, &[0, 7, 0, 1], &[0; 4]]),
            ValueLength,
            ObjectType::SessionIdList,
            4,
            8,
        ),
        (
            "a list without epoch",
            joined(&[&RESERVE, &[0, 8, 0, 0]]),
            ValueLength,
            ObjectType::RsnList,
            4,
            8,
        ),
        (
            "sequence numbers of nothing",
            joined(&[&RESERVE, &RSN_OBJECT, &[0, 8, 0, 1, 0, 0, 0, 0]]),
            MissingObject,
            ObjectType::SessionIdList,
            24,
            5,
        ),
        (
            "a sequence number too few",
            joined(&[&RESERVE, &RSN_OBJECT, &[0, 8, 0, 1, 0, 0, 0, 0], &[0, 7, 0, 4], &SESSION]),
            ListMismatch,
            ObjectType::RsnList,
            16,
            14,
        ),
        (
            "a sequence number too many",
            joined(&[&RESERVE, &RSN_OBJECT, &[0, 7, 0, 0], &[0, 8, 0, 2], &[0; 8]]),
            ListMismatch,
            ObjectType::RsnList,
            20,
            14,
        ),
    ]);
}

#[test]
fn malformed_info_specs_are_reported_with_offset_and_code() {
    assert_named([
        ("an INFO-SPEC of nothing", with_info(&[]), ValueLength, ObjectType::InfoSpec, 4, 8),
        (
            "a source past the end",
            with_info(&[0, 1, 0x21, 1]),
            ValueLength,
            ObjectType::InfoSpec,
            4,
            8,
        ),
        (
            "a source of no type",
            with_info(&[0, 1, 0x20, 1, 0, 0, 0, 0]),
            Source,
            ObjectType::InfoSpec,
            4,
            14,
        ),
        ("IPv4 of no words", with_info(&[0, 1, 0x21, 0]), Source, ObjectType::InfoSpec, 4, 14),
        (
            "IPv6 of one word",
            with_info(&[0, 1, 0x22, 1, 0, 0, 0, 0]),
            Source,
            ObjectType::InfoSpec,
            4,
            14,
        ),
        ("no name", with_info(&[0, 1, 0x23, 0]), Source, ObjectType::InfoSpec, 4, 14),
        (
            "a name of zeros",
            with_info(&[0, 1, 0x23, 1, 0, 0, 0, 0]),
            Source,
            ObjectType::InfoSpec,
            4,
            14,
        ),
        (
            "a zero in a name",
            with_info(&[0, 1, 0x23, 1, b'a', 0, b'b', 0]),
            Source,
            ObjectType::InfoSpec,
            4,
            14,
        ),
        (
            "a name of no UTF-8",
            with_info(&[0, 1, 0x23, 1, 0xff, b'a', b'b', b'c']),
            Source,
            ObjectType::InfoSpec,
            4,
            14,
        ),
        (
            "a word of padding",
            with_info(&[0, 1, 0x23, 2, b'a', b'b', b'c', b'd', 0, 0, 0, 0]),
            Source,
            ObjectType::InfoSpec,
            4,
            14,
        ),
    ]);
}

#[test]
fn error_about_an_object_has_object_type_info() {
    let error = Message::parse(&[1, 0, 0, 0]).unwrap_err();
    let mut room = [0; 4];
    let info = error.info_spec(&mut room);
    assert_eq!(info.object_type(), Some(ObjectType::Rsn));
    assert_eq!(info.details, [0, 2, 0, 0]);
    assert_eq!(error.to_string(), "QoS NSLP, octet 4: RSN is missing");
}

#[test]
fn rii_and_rsn_are_found_in_malformed_messages() {
    let broken = joined(&[&[1, 0, 0, 0], &RII_OBJECT, &RSN_OBJECT, &[0, 3, 0, 9]]);
    assert!(Message::parse(&broken).is_err());
    assert_eq!(RequestIds::find(&broken), RequestIds { rii: Some(0x0a0b_0c0d), rsn: Some(RSN) });
    assert_eq!(RequestIds::find(&[1, 0]), RequestIds::default());
}
