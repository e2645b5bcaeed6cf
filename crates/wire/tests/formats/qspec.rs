//! QSPEC: layouts of RFC 5975, and invalid values.

use earmark_wire::EmitError;
use earmark_wire::intserv::{TokenBucket, ValueError as BucketError};
use earmark_wire::qos_nslp::Outcome;
use earmark_wire::qos_nslp::iana::{MessageType, ProtocolError};
use earmark_wire::qspec::iana::{
    Excess, MessageSequence, ObjectType, ParameterId, QspecType, Y2171Priority,
};
use earmark_wire::qspec::*;

const BUCKET: TokenBucket = TokenBucket {
    rate: 1_000.0,
    depth: 1_500.0,
    peak: f32::INFINITY,
    min_policed_unit: 64,
    max_packet_size: 1_500,
};

/// Wire format of [`BUCKET`].
const BUCKET_OCTETS: [u8; 20] =
    [0x44, 0x7a, 0, 0, 0x44, 0xbb, 0x80, 0, 0x7f, 0x80, 0, 0, 0, 0, 0, 64, 0, 0, 0x05, 0xdc];

const TMOD: Parameter<'static> = Parameter::mandatory(Value::Tmod1(BUCKET));

const fn procedure(sequence: MessageSequence, combination: u8) -> Procedure {
    Procedure { sequence, combination }
}

const EMPTY: Qspec<'static> = Qspec::new(procedure(MessageSequence::TwoWay, 0));

fn emit(qspec: &Qspec<'_>) -> Vec<u8> {
    let mut buffer = vec![0xa5; qspec.buffer_len()];
    assert_eq!(qspec.emit(&mut buffer), Ok(buffer.len()), "{qspec:?}");
    buffer
}

#[track_caller]
fn same(qspec: &Qspec<'_>, parts: &[&[u8]]) {
    let octets = parts.concat();
    assert_eq!(emit(qspec), octets);
    assert_eq!(Qspec::parse(&octets).as_ref(), Ok(qspec));
}

#[test]
fn controlled_load_request_has_thirty_two_octets() {
    let qspec = Qspec { desired: Some(QosObject::new(&[TMOD])), ..EMPTY };
    same(&qspec, &[&[0, 0, 0, 7], &[0, 0, 0, 6], &[0x80, 1, 0, 5], &BUCKET_OCTETS]);
    assert_eq!(qspec.validate(), Ok(()));
}

#[test]
fn the_header_bit_by_bit() {
    let parameters = [Parameter::optional(Value::SlackTerm(7))];
    let object = Some(QosObject::new(&parameters));
    let body = [0, 0, 0, 2, 0, 7, 0, 1, 0, 0, 0, 7];
    let cases = [
        (Qspec { desired: object, is_local: true, ..EMPTY }, [0x08, 0, 0, 3]),
        (Qspec { desired: object, qspec_type: QspecType::Y1541, ..EMPTY }, [0, 0x40, 0, 3]),
        (Qspec { desired: object, qspec_type: QspecType::Rmd, ..EMPTY }, [0, 0x80, 0, 3]),
        (Qspec { desired: object, qspec_type: QspecType::Unknown(0x1f), ..EMPTY }, [7, 0xc0, 0, 3]),
        (
            Qspec {
                desired: object,
                procedure: procedure(MessageSequence::ResourceQuery, 1),
                ..EMPTY
            },
            [0, 2, 0x10, 3],
        ),
        (
            Qspec {
                desired: object,
                procedure: procedure(MessageSequence::Unknown(15), 15),
                ..EMPTY
            },
            [0, 0x0f, 0xf0, 3],
        ),
    ];
    for (qspec, header) in cases {
        same(&qspec, &[&header, &body]);
    }
    let reserved = [&[0, 0x30, 0, 3][..], &[0x70, 0, 0xf0, 2], &[0x10, 7, 0xf0, 1], &[0, 0, 0, 7]];
    let expected = Qspec { desired: object, ..EMPTY };
    assert_eq!(Qspec::parse(&reserved.concat()), Ok(expected), "reserved bits are ignored");
}

#[test]
fn objects_are_written_in_the_order_of_their_types() {
    let number = |n| [Parameter::optional(Value::PathLatency(n))];
    let parameters = [number(0), number(1), number(2), number(3)];
    let [desired, available, reserved, minimum] =
        parameters.each_ref().map(|parameter| Some(QosObject::new(parameter)));
    let failed = Some(QosObject { is_failed: true, ..reserved.unwrap() });
    let qspec = Qspec { desired, available, reserved: failed, minimum, ..EMPTY };
    let object = |first, n| [first, n, 0, 2, 0, 3, 0, 1, 0, 0, 0, n];
    let objects = [object(0, 0), object(0, 1), object(0x80, 2), object(0, 3)];
    same(&qspec, &[&[0, 0, 0, 12], objects.as_flattened()]);
    let [a, b, c, d] = objects;
    let shuffled = [&[0, 0, 0, 12][..], &d, &b, &a, &c].concat();
    assert_eq!(Qspec::parse(&shuffled), Ok(qspec));
}

#[test]
fn parameters_octet_by_octet() {
    let jitter = PathJitter { variance: 1, percentile: 2, minimum_latency: 3 };
    let preemption = PreemptionPriority { preemption: 0x0102, defending: 0x0304 };
    let admission = AdmissionPriority { y2171: Y2171Priority::High, local: 2 };
    let emergency = AdmissionPriority { y2171: Y2171Priority::Local, local: 9 };
    let rph = RphPriority { namespace: 0x0102, priority: 3 };
    let remark = ExcessTreatment { excess: Excess::Remark, remark: 0b10_1110 };
    let cases: [(Value<'_>, &[u8]); 17] = [
        (Value::Tmod2(BUCKET), &[&[0, 2, 0, 5], &BUCKET_OCTETS[..]].concat()),
        (Value::PathLatency(u32::MAX), &[0, 3, 0, 1, 255, 255, 255, 255]),
        (Value::PathJitter(jitter), &[0, 4, 0, 4, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0]),
        (Value::PathPlr(Ratio::new(0.0625)), &[0, 5, 0, 1, 0x3d, 0x80, 0, 0]),
        (Value::PathPer(Ratio::new(0.0)), &[0, 6, 0, 1, 0, 0, 0, 0]),
        (Value::SlackTerm(0x0102_0304), &[0, 7, 0, 1, 1, 2, 3, 4]),
        (Value::PreemptionPriority(preemption), &[0, 8, 0, 1, 1, 2, 3, 4]),
        (Value::AdmissionPriority(admission), &[0, 9, 0, 1, 2, 2, 0, 0]),
        (Value::AdmissionPriority(emergency), &[0, 9, 0, 1, 255, 9, 0, 0]),
        (Value::RphPriority(rph), &[0, 10, 0, 1, 1, 2, 3, 0]),
        (Value::ExcessTreatment(remark), &[0, 11, 0, 1, 2, 0b1011_1000, 0, 0]),
        (Value::PhbClass(PhbField(0xb800)), &[0, 12, 0, 1, 0xb8, 0, 0, 0]),
        (Value::DsteClassType(7), &[0, 13, 0, 1, 7, 0, 0, 0]),
        (Value::Y1541QosClass(5), &[0, 14, 0, 1, 5, 0, 0, 0]),
        (Value::Unknown { id: 0, octets: &[] }, &[0, 0, 0, 0]),
        (Value::Unknown { id: 15, octets: &[] }, &[0, 15, 0, 0]),
        (Value::Unknown { id: 0xfff, octets: &[9; 4] }, &[0x0f, 0xff, 0, 1, 9, 9, 9, 9]),
    ];
    for (value, octets) in cases {
        let words = u8::try_from(octets.len() / 4).unwrap();
        let headers = [0, 0, 0, words + 1, 0, 0, 0, words];
        let flags = [(false, false, false), (true, false, false), (false, true, true)];
        for (is_mandatory, is_failed, is_not_supported) in flags {
            let parameters = [Parameter { is_mandatory, is_failed, is_not_supported, value }];
            let qspec = Qspec { desired: Some(QosObject::new(&parameters)), ..EMPTY };
            let mut octets = octets.to_vec();
            octets[0] |= u8::from(is_mandatory) << 7
                | u8::from(is_failed) << 6
                | u8::from(is_not_supported) << 5;
            same(&qspec, &[&headers, &octets]);
            assert_eq!(qspec.validate(), Ok(()), "{value:?}");
            let refused = is_mandatory && matches!(value, Value::Unknown { .. });
            assert_eq!(parameters[0].is_refused(), refused);
        }
    }
}

#[test]
fn flags_of_the_first_tmod_are_constant() {
    let octets = [&[0, 0, 0, 7, 0, 0, 0, 6, 0x20, 1, 0, 5][..], &BUCKET_OCTETS].concat();
    let expected = Qspec { desired: Some(QosObject::new(&[TMOD])), ..EMPTY };
    assert_eq!(Qspec::parse(&octets), Ok(expected), "M is set and N is not, whatever they say");
}

#[test]
fn per_hop_behaviours_have_four_forms() {
    let cases = [
        (0xb800, Some(Phb::Standard { dscp: 46, is_set: false })),
        (0x2802, Some(Phb::Standard { dscp: 10, is_set: true })),
        (0x1231, Some(Phb::Assigned { code: 0x123, is_set: false })),
        (0xfff3, Some(Phb::Assigned { code: 0xfff, is_set: true })),
        (0xb804, None),
        (0xba00, None),
        (0x1235, None),
    ];
    for (field, phb) in cases {
        assert_eq!(PhbField(field).phb(), phb, "{field:#06x}");
        if let Some(phb) = phb {
            assert_eq!(PhbField::from(phb), PhbField(field));
        }
    }
}

#[test]
fn invalid_values_are_reported() {
    let bucket = |change: fn(&mut TokenBucket)| {
        let mut bucket = BUCKET;
        change(&mut bucket);
        Value::Tmod1(bucket)
    };
    let admission =
        Value::AdmissionPriority(AdmissionPriority { y2171: Y2171Priority::Unknown(3), local: 3 });
    let excess = Value::ExcessTreatment(ExcessTreatment { excess: Excess::Unknown(4), remark: 0 });
    let cases = [
        (bucket(|b| b.rate = -1.0), ValueError::Bucket(BucketError::TokenRate)),
        (bucket(|b| b.rate = f32::INFINITY), ValueError::Bucket(BucketError::TokenRate)),
        (bucket(|b| b.depth = f32::NAN), ValueError::Bucket(BucketError::BucketDepth)),
        (bucket(|b| b.peak = 999.0), ValueError::Bucket(BucketError::PeakBelowTokenRate)),
        (bucket(|b| b.rate = 0.5), ValueError::Exponent),
        (bucket(|b| b.depth = 0.99), ValueError::Exponent),
        (Value::PathPlr(Ratio::new(0.11)), ValueError::Ratio),
        (Value::PathPlr(Ratio::new(-0.0)), ValueError::Ratio),
        (Value::PathPer(Ratio::new(f32::NAN)), ValueError::Ratio),
        (admission, ValueError::AdmissionPriority),
        (excess, ValueError::ExcessTreatment),
        (Value::PhbClass(PhbField(4)), ValueError::PhbClass),
        (Value::DsteClassType(8), ValueError::DsteClassType),
        (Value::Y1541QosClass(8), ValueError::Y1541QosClass),
    ];
    for (value, error) in cases {
        let parameters = [Parameter::optional(Value::PathLatency(1)), Parameter::mandatory(value)];
        let qspec = Qspec { available: Some(QosObject::new(&parameters)), ..EMPTY };
        let octets = emit(&qspec);
        let found = Qspec::parse(&octets).expect("the frame is right").validate().unwrap_err();
        let expected = ParseError {
            kind: ErrorKind::Value(error),
            object: Some(ObjectType::QosAvailable),
            parameter: Some(value.id()),
            offset: 16,
        };
        assert_eq!(found, expected);
        let malformed = Outcome::ProtocolError(ProtocolError::MalformedQspec);
        assert_eq!(found.outcome(), malformed);
        assert!(found.to_string().starts_with("QSPEC, octet 16: QoS Available: "), "{found}");
    }
}

/// A zero TMOD is valid as available, and invalid as desired (RFC 5975 section 4.3.2).
#[test]
fn zero_tmod_is_valid_when_available_and_invalid_when_desired() {
    let nothing = TokenBucket { rate: 0.0, depth: 0.0, peak: 0.0, ..BUCKET };
    let value = Value::Tmod1(nothing);
    assert_eq!(value.validate(ObjectType::QosAvailable), Ok(()));
    assert_eq!(value.validate(ObjectType::MinimumQos), Ok(()));
    let refused = Err(ValueError::Bucket(BucketError::TokenRate));
    assert_eq!(value.validate(ObjectType::QosDesired), refused);
    assert_eq!(value.validate(ObjectType::QosReserved), refused);
}

#[test]
fn local_qspec_carries_initiator_qspec() {
    let initiator = emit(&Qspec { desired: Some(QosObject::new(&[TMOD])), ..EMPTY });
    let parameters = [Parameter::optional(Value::SlackTerm(7))];
    let local = Qspec {
        is_local: true,
        qspec_type: QspecType::Rmd,
        desired: Some(QosObject::new(&parameters)),
        initiator: Some(&initiator),
        ..EMPTY
    };
    let own = [8, 0x80, 0, 3, 0, 0, 0, 2, 0, 7, 0, 1, 0, 0, 0, 7];
    same(&local, &[&own, &initiator]);
    let mut broken = emit(&local);
    broken[own.len() + 3] -= 1;
    let error = Qspec::parse(&broken).unwrap_err();
    assert_eq!((error.kind, error.offset), (ErrorKind::Length, own.len() + 2));
}

/// The header of an Initiator QSPEC resembles that of an object.
#[test]
fn editor_of_local_qspec_keeps_initiator_qspec() {
    let object = Some(QosObject::new(&[TMOD]));
    let initiator = emit(&Qspec { desired: object, ..EMPTY });
    let initiator = Some(&initiator[..]);
    let before = emit(&Qspec { is_local: true, available: object, initiator, ..EMPTY });
    let mut octets = before.clone();
    let mut editor = Editor::new(&mut octets).expect("it was emitted");
    assert!(!editor.fail(ObjectType::QosDesired, None), "the local one does not have it");
    assert_eq!(octets, before);
}

#[test]
fn procedures_determine_the_objects() {
    use MessageSequence::*;
    use MessageType::{Notify, Query, Reserve, Response};
    let parameters = [TMOD];
    let object = Some(QosObject::new(&parameters));
    // Letters d, a, r, m: an object of this type is present.
    let check = |sequence, combination, message, objects: &str| {
        let has = |letter| object.filter(|_| objects.contains(letter));
        Qspec {
            desired: has('d'),
            available: has('a'),
            reserved: has('r'),
            minimum: has('m'),
            ..Qspec::new(procedure(sequence, combination))
        }
        .check_objects(message)
        .map_err(|error| (error.kind, error.object))
    };
    let right = [
        (TwoWay, 0, Reserve, "d"),
        (TwoWay, 0, Response, "r"),
        (TwoWay, 1, Reserve, "da"),
        (TwoWay, 1, Response, "ra"),
        (TwoWay, 2, Reserve, "dam"),
        (TwoWay, 2, Response, "ra"),
        (ThreeWay, 0, Query, "d"),
        (ThreeWay, 0, Reserve, "d"),
        (ThreeWay, 0, Response, "r"),
        (ThreeWay, 1, Query, "d"),
        (ThreeWay, 1, Query, "dm"),
        (ThreeWay, 1, Reserve, "da"),
        (ThreeWay, 1, Reserve, "dam"),
        (ThreeWay, 1, Response, "ra"),
        (ThreeWay, 1, Response, "ram"),
        (ThreeWay, 2, Query, "da"),
        (ThreeWay, 2, Reserve, "da"),
        (ThreeWay, 2, Response, "r"),
        (ResourceQuery, 0, Query, "a"),
        (ResourceQuery, 0, Response, "a"),
        (TwoWay, 0, Notify, "m"),
    ];
    for (sequence, combination, message, objects) in right {
        let found = check(sequence, combination, message, objects);
        assert_eq!(found, Ok(()), "{sequence:?} {combination} {message:?} {objects}");
    }
    let missing = |object| Err((ErrorKind::MissingObject, Some(object)));
    let unexpected = |object| Err((ErrorKind::UnexpectedObject, Some(object)));
    let unknown = Err((ErrorKind::Procedure, None));
    let wrong = [
        (TwoWay, 0, Reserve, "a", missing(ObjectType::QosDesired)),
        (TwoWay, 0, Reserve, "da", unexpected(ObjectType::QosAvailable)),
        (TwoWay, 2, Reserve, "da", missing(ObjectType::MinimumQos)),
        (TwoWay, 1, Reserve, "dar", unexpected(ObjectType::QosReserved)),
        (TwoWay, 0, Query, "d", unknown),
        (TwoWay, 3, Reserve, "d", unknown),
        (ResourceQuery, 0, Reserve, "a", unknown),
        (ResourceQuery, 1, Query, "a", unknown),
        (ThreeWay, 3, Query, "d", unknown),
        (Unknown(3), 0, Reserve, "d", unknown),
    ];
    for (sequence, combination, message, objects, error) in wrong {
        let found = check(sequence, combination, message, objects);
        assert_eq!(found, error, "{sequence:?} {combination} {message:?} {objects}");
    }
}

#[test]
fn editor_sets_flags_and_values_in_place() {
    let parameters = [TMOD, Parameter::optional(Value::PathLatency(5))];
    let objects = Some(QosObject::new(&parameters));
    let before = Qspec { desired: objects, available: objects, ..EMPTY };
    let mut octets = emit(&before);
    let mut editor = Editor::new(&mut octets).expect("it was emitted");
    let (available, latency) = (ObjectType::QosAvailable, ParameterId::PathLatency);
    let slower = Parameter::optional(Value::PathLatency(12));
    assert!(editor.replace(available, &slower));
    assert!(editor.not_supported(available, latency));
    assert!(editor.fail(available, Some(ParameterId::Tmod1)));
    assert!(!editor.not_supported(available, ParameterId::Tmod1), "it has no N");
    assert!(!editor.replace(ObjectType::QosReserved, &slower), "no such object");
    assert!(!editor.replace(available, &Parameter::optional(Value::SlackTerm(1))));
    assert!(!editor.fail(available, Some(ParameterId::SlackTerm)), "no such parameter");
    assert!(!editor.fail(ObjectType::MinimumQos, None), "no such object");
    let changed =
        [Parameter { is_failed: true, ..TMOD }, Parameter { is_not_supported: true, ..slower }];
    let failed = QosObject { is_failed: true, ..QosObject::new(&changed) };
    let after = Qspec { available: Some(failed), ..before };
    assert_eq!(Qspec::parse(&octets), Ok(after));
}

#[test]
fn unreadable_qspecs_are_not_emitted() {
    let mut buffer = [0; 256];
    let mut refuse = |qspec: &Qspec<'_>| {
        assert_eq!(qspec.emit(&mut buffer), Err(EmitError::Contradiction), "{qspec:?}");
    };
    refuse(&EMPTY);
    let object = Some(QosObject::new(&[TMOD]));
    refuse(&Qspec { desired: Some(QosObject::new(&[])), ..EMPTY });
    refuse(&Qspec { desired: Some(QosObject::new(&[TMOD, TMOD])), ..EMPTY });
    refuse(&Qspec { desired: object, qspec_type: QspecType::Unknown(32), ..EMPTY });
    refuse(&Qspec { desired: object, qspec_type: QspecType::Unknown(0), ..EMPTY });
    let sequence = MessageSequence::Unknown(16);
    refuse(&Qspec { desired: object, procedure: procedure(sequence, 0), ..EMPTY });
    let sequence = MessageSequence::TwoWay;
    refuse(&Qspec { desired: object, procedure: procedure(sequence, 16), ..EMPTY });
    refuse(&Qspec { desired: object, is_local: true, initiator: Some(&[0; 4]), ..EMPTY });
    let remark = ExcessTreatment { excess: Excess::Remark, remark: 64 };
    let wrong = [
        Parameter::optional(Value::Tmod1(BUCKET)),
        Parameter { is_not_supported: true, ..TMOD },
        Parameter::optional(Value::ExcessTreatment(remark)),
        Parameter::optional(Value::Unknown { id: 3, octets: &[0; 4] }),
        Parameter::optional(Value::Unknown { id: 0x1000, octets: &[0; 4] }),
        Parameter::optional(Value::Unknown { id: 15, octets: &[0; 3] }),
    ];
    for parameter in &wrong {
        let parameters = core::slice::from_ref(parameter);
        refuse(&Qspec { desired: Some(QosObject::new(parameters)), ..EMPTY });
    }
    let qspec = Qspec { desired: object, ..EMPTY };
    assert_eq!(qspec.emit(&mut buffer[..31]), Err(EmitError::BufferTooShort));
    let long = vec![0; 4 * 4_094];
    let parameters = [Parameter::optional(Value::Unknown { id: 15, octets: &long })];
    let qspec = Qspec { desired: Some(QosObject::new(&parameters)), ..EMPTY };
    let mut room = vec![0; 5 * 4_096];
    assert_eq!(qspec.emit(&mut room), Err(EmitError::TooLong));
}
