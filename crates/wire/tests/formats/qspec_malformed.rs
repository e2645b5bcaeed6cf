//! QSPECs with one fault each: kind and offset of the fault, and the outcome in the RESPONSE (RFC 5975 section 4).

use earmark_wire::qos_nslp::Outcome;
use earmark_wire::qos_nslp::iana::ProtocolError;
use earmark_wire::qspec::ErrorKind::*;
use earmark_wire::qspec::iana::{ObjectType, ParameterId};
use earmark_wire::qspec::*;

const DESIRED: Option<ObjectType> = Some(ObjectType::QosDesired);
const SLACK: Option<ParameterId> = Some(ParameterId::SlackTerm);

/// Description, octets, and the expected error: fault, object and parameter at fault, and offset.
type Case =
    (&'static str, &'static [u8], ErrorKind, Option<ObjectType>, Option<ParameterId>, usize);

const CASES: [Case; 19] = [
    ("nothing", &[], Truncated, None, None, 0),
    ("three octets", &[0, 0, 0], Truncated, None, None, 3),
    ("version 1", &[0x10, 0, 0, 0], Version, None, None, 0),
    ("no objects", &[0, 0, 0, 0], Empty, None, None, 0),
    ("too short", &[0, 0, 0, 2, 0, 0, 0, 0], Length, None, None, 2),
    ("too long", &[0, 0, 0, 0, 0, 0, 0, 0], Length, None, None, 2),
    ("no whole words", &[0, 0, 0, 1, 0, 0, 0, 0, 0], Length, None, None, 2),
    ("object past the end", &[0, 0, 0, 1, 0, 0, 0, 1], ObjectLength, None, None, 4),
    ("no parameters", &[0, 0, 0, 1, 0, 0, 0, 0], EmptyObject, DESIRED, None, 4),
    (
        "unknown object",
        &[0, 0, 0, 2, 0, 4, 0, 1, 0, 15, 0, 0],
        UnknownObject,
        Some(ObjectType::Unknown(4)),
        None,
        4,
    ),
    (
        "object twice",
        &[0, 0, 0, 4, 0, 0, 0, 1, 0, 15, 0, 0, 0, 0, 0, 1, 0, 15, 0, 0],
        DuplicateObject,
        DESIRED,
        None,
        12,
    ),
    (
        "parameter past the end",
        &[0, 0, 0, 2, 0, 0, 0, 1, 0, 15, 0, 1],
        ParameterLength,
        DESIRED,
        None,
        8,
    ),
    ("short slack", &[0, 0, 0, 2, 0, 0, 0, 1, 0, 7, 0, 0], ValueLength, DESIRED, SLACK, 8),
    (
        "long slack",
        &[0, 0, 0, 4, 0, 0, 0, 3, 0, 7, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0],
        ValueLength,
        DESIRED,
        SLACK,
        8,
    ),
    (
        "short TMOD",
        &[0, 0, 0, 3, 0, 0, 0, 2, 0, 1, 0, 1, 0, 0, 0, 0],
        ValueLength,
        DESIRED,
        Some(ParameterId::Tmod1),
        8,
    ),
    (
        "short jitter",
        &[0, 0, 0, 3, 0, 0, 0, 2, 0, 4, 0, 1, 0, 0, 0, 0],
        ValueLength,
        DESIRED,
        Some(ParameterId::PathJitter),
        8,
    ),
    (
        "slack twice",
        &[0, 0, 0, 5, 0, 0, 0, 4, 0, 7, 0, 1, 0, 0, 0, 0, 0, 7, 0, 1, 0, 0, 0, 0],
        DuplicateParameter,
        DESIRED,
        SLACK,
        16,
    ),
    (
        "unknown twice",
        &[0, 0, 0, 3, 0, 0, 0, 2, 0, 99, 0, 0, 0, 99, 0, 0],
        DuplicateParameter,
        DESIRED,
        Some(ParameterId::Unknown(99)),
        12,
    ),
    (
        "local in local",
        &[8, 0, 0, 2, 0, 0, 0, 1, 0, 15, 0, 0, 8, 0, 0, 2, 0, 0, 0, 1, 0, 15, 0, 0],
        Nested,
        None,
        None,
        12,
    ),
];

#[test]
fn broken_frames_are_reported_with_offset() {
    for (what, octets, kind, object, parameter, offset) in CASES {
        let error = Qspec::parse(octets).expect_err(what);
        assert_eq!(error, ParseError { kind, object, parameter, offset }, "{what}");
        let code = match kind {
            Version => ProtocolError::IncompatibleQspec,
            _ => ProtocolError::MalformedQspec,
        };
        assert_eq!(error.outcome(), Outcome::ProtocolError(code), "{what}");
        assert!(error.to_string().starts_with(&format!("QSPEC, octet {offset}: ")), "{error}");
    }
}
