//! Malformed NATFW NSLP messages: fault, offset, and the RESPONSE.

use earmark_wire::natfw_nslp::ErrorKind::*;
use earmark_wire::natfw_nslp::iana::{MessageType as Type, ObjectType};
use earmark_wire::natfw_nslp::*;

const LT: [u8; 8] = [0, 0x0c, 0, 1, 0, 0, 1, 44];
const EFI: [u8; 8] = [0, 0x0f, 0, 1, 0, 1, 0, 0];
const MSN: [u8; 8] = [0, 0x12, 0, 1, 1, 2, 3, 4];
const DTINFO: [u8; 16] = [0, 0x13, 0, 3, 0xc0, 0, 0, 17, 0x13, 0x8c, 0, 0, 0, 0, 0, 0];
const NONCE: [u8; 8] = [0, 0x11, 0, 1, 5, 6, 7, 8];
const ICMP: [u8; 8] = [0, 0x14, 0, 1, 1, 8, 0, 0];
const EXTERNAL_IP: [u8; 12] = [0, 0x0d, 0, 2, 0, 0, 0x40, 0, 198, 51, 100, 7];
const BINDING: [u8; 8] = [0, 0x0e, 0, 1, 0, 0, 0x40, 0];
const SUCCESS: [u8; 8] = [0, 0x10, 0, 1, 2, 1, 0, 0];
const FAILURE: [u8; 8] = [0, 0x10, 0, 1, 5, 2, 0, 0];
const EVENT: [u8; 8] = [0, 0x10, 0, 1, 1, 1, 0, 0];

/// Headers of the four messages, and of CREATE and EXTERNAL in proxy mode.
const CREATE: [u8; 4] = [1, 0, 0, 0];
const EXTERNAL: [u8; 4] = [2, 0, 0, 0];
const RESPONSE: [u8; 4] = [3, 0, 0, 0];
const NOTIFY: [u8; 4] = [4, 0, 0, 0];
const CREATE_PROXY: [u8; 4] = [1, 0x80, 0, 0];
const EXTERNAL_PROXY: [u8; 4] = [2, 0xc0, 0, 0];

/// Faults without an object.
const NONE: ObjectType = ObjectType::Unknown(0);

/// Parts of the message, fault, object at fault, offset, and class and code of the RESPONSE.
type Case<'a> = (&'a [&'a [u8]], ErrorKind, ObjectType, usize, (u8, u8));

fn assert_faults(cases: &[Case<'_>]) {
    for (parts, kind, object, offset, (class, code)) in cases {
        let octets = parts.concat();
        let error = Message::parse(&octets).expect_err("the message is malformed");
        let named = (*object != NONE).then_some(*object);
        assert_eq!((error.kind, error.offset), (*kind, *offset), "{octets:02x?}");
        assert_eq!(error.object.filter(|object| *object != NONE), named, "{octets:02x?}");
        assert_eq!(
            error.info(),
            Info { outcome: Outcome::from_codes(*class, *code), object: named },
            "{octets:02x?}"
        );
        assert!(error.to_string().starts_with(&format!("NATFW NSLP, octet {offset}: ")), "{error}");
        let found = PartialMessage::parse(&octets);
        let Some(response) = error.response(&found) else {
            assert!(!found.is_answered());
            continue;
        };
        assert_eq!((response.msn, response.info), (found.msn.unwrap_or(0), error.info()));
        let response = Message::Response(response);
        let mut wire = vec![0xa5; response.buffer_len()];
        assert_eq!(response.emit(&mut wire), Ok(wire.len()));
        assert_eq!(Message::parse(&wire), Ok(response));
    }
}

#[test]
fn broken_frames_are_reported_with_offset_and_code() {
    let unknown = ObjectType::Unknown(0x7d0);
    assert_faults(&[
        (&[], Truncated, NONE, 0, (3, 2)),
        (&[&[1, 0, 0]], Truncated, NONE, 3, (3, 2)),
        (&[&[0, 0, 0, 0]], MessageType, NONE, 0, (3, 1)),
        (&[&[5, 0, 0, 0], &LT, &MSN], MessageType, NONE, 0, (3, 1)),
        (&[&CREATE, &[0, 0x0c]], ObjectTruncated, NONE, 4, (3, 2)),
        (&[&CREATE, &LT, &EFI, &MSN[..3]], ObjectTruncated, NONE, 20, (3, 2)),
        (&[&CREATE, &LT, &MSN[..4]], ObjectLength, ObjectType::Msn, 12, (3, 7)),
        (&[&CREATE, &LT, &MSN[..7]], ObjectLength, ObjectType::Msn, 12, (3, 7)),
        (&[&CREATE, &[0xb7, 0xd0, 0, 1]], ObjectLength, unknown, 4, (3, 7)),
    ]);
}

#[test]
fn values_of_wrong_length_are_reported_with_offset_and_code() {
    let long = [0; 8];
    let cases: [(&[u8; 4], ObjectType, &[u8]); 19] = [
        (&CREATE, ObjectType::Lifetime, &[]),
        (&CREATE, ObjectType::Lifetime, &long),
        (&CREATE, ObjectType::Msn, &[]),
        (&CREATE, ObjectType::Msn, &long),
        (&CREATE, ObjectType::ExtendedFlow, &[]),
        (&CREATE, ObjectType::ExtendedFlow, &[0, 1, 0, 0, 0, 0, 0, 0]),
        (&CREATE, ObjectType::Nonce, &[]),
        (&CREATE, ObjectType::Nonce, &long),
        (&CREATE, ObjectType::IcmpTypes, &[]),
        (&CREATE, ObjectType::IcmpTypes, &[4, 8, 0, 3]),
        (&CREATE, ObjectType::IcmpTypes, &[3, 8, 0, 3, 0, 0, 0, 0]),
        (&EXTERNAL, ObjectType::ExternalBinding, &[]),
        (&EXTERNAL, ObjectType::DataTerminal, &[]),
        (&EXTERNAL, ObjectType::DataTerminal, &[0, 0, 0, 0]),
        (&EXTERNAL, ObjectType::DataTerminal, &[0xc0, 0, 0, 17, 0, 0, 0, 0]),
        (&EXTERNAL, ObjectType::DataTerminal, &[0x80, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0, 0]),
        (&RESPONSE, ObjectType::Info, &long),
        (&RESPONSE, ObjectType::ExternalAddress, &[0, 0, 0x40, 0]),
        (&RESPONSE, ObjectType::ExternalAddress, &[0, 0, 0x40, 0, 1, 2, 3, 4, 5, 6, 7, 8]),
    ];
    for (header, object, value) in cases {
        let words = u8::try_from(value.len() / 4).expect("short");
        let low = u8::try_from(object.code()).expect("small");
        let parts: &[&[u8]] = &[header, &[0, low, 0, words], value];
        assert_faults(&[(parts, ValueLength, object, 4, (3, 7))]);
    }
}

#[test]
fn invalid_values_are_reported_with_offset_and_code() {
    let efi = ObjectType::ExtendedFlow;
    let dtinfo = ObjectType::DataTerminal;
    let address = ObjectType::ExternalAddress;
    let binding = ObjectType::ExternalBinding;
    let external = |object: &[u8]| [&EXTERNAL[..], &LT, object].concat();
    assert_faults(&[
        (&[&CREATE, &[0, 0x0f, 0, 1, 0, 0, 0, 0]], RuleAction, efi, 4, (7, 5)),
        (&[&CREATE, &[0, 0x0f, 0, 1, 0, 3, 0, 0]], RuleAction, efi, 4, (7, 5)),
        (&[&CREATE, &[0, 0x0f, 0, 1, 1, 1, 0, 9]], RuleAction, efi, 4, (7, 5)),
        (&[&CREATE, &[0, 0x0f, 0, 1, 0, 1, 0, 2]], SubPorts, efi, 4, (7, 8)),
        (&[&CREATE, &[0, 0x0f, 0, 1, 0, 2, 1, 0]], SubPorts, efi, 4, (7, 8)),
        // IPv6 is reported as such, whatever the length of its address.
        (&[&RESPONSE, &[0, 0x0d, 0, 5, 0, 0, 0x60, 0], &[0; 16]], IpVersion, address, 4, (3, 8)),
        (&[&RESPONSE, &[0, 0x0d, 0, 2, 0, 0, 0x04, 0, 1, 2, 3, 4]], IpVersion, address, 4, (3, 8)),
        (&[&RESPONSE, &LT, &[0, 0x0e, 0, 1, 0, 0, 0, 0]], IpVersion, binding, 12, (3, 8)),
        (&[&external(&[0, 0x0e, 0, 1, 0, 0, 0x60, 0])], IpVersion, binding, 12, (3, 8)),
        (&[&external(&[0, 0x13, 0, 2, 0, 0, 33, 0, 1, 2, 3, 4])], SenderPrefix, dtinfo, 12, (3, 8)),
    ]);
    // P and S exclude each other and require I.
    for flags in [0x40, 0x20, 0x60, 0xe0] {
        let object = [0, 0x13, 0, 3, flags, 0, 0, 17, 0, 0, 0, 0, 0, 0, 0, 0];
        assert_faults(&[(&[&external(&object)], Combination, dtinfo, 12, (3, 9))]);
    }
}

#[test]
fn object_flags_of_both_kinds_are_refused_in_any_object() {
    let unknown = ObjectType::Unknown(0x7d0);
    assert_faults(&[
        (&[&CREATE, &LT, &[0xc7, 0xd0, 0, 0]], ObjectFlags, unknown, 12, (3, 9)),
        (&[&CREATE, &[0xc0, 0x0c, 0, 1, 0, 0, 0, 9]], ObjectFlags, ObjectType::Lifetime, 4, (3, 9)),
        (&[&CREATE, &LT, &[0xc0, 0x16, 0, 0]], ObjectFlags, ObjectType::SessionAuth, 12, (3, 9)),
    ]);
}

#[test]
fn missing_objects_are_reported_at_the_end_of_the_message() {
    let missing = |parts: &[&[u8]], object| {
        let end = parts.concat().len();
        assert_faults(&[(parts, MissingObject, object, end, (3, 4))]);
    };
    missing(&[&CREATE], ObjectType::Lifetime);
    missing(&[&CREATE, &EFI, &MSN], ObjectType::Lifetime);
    missing(&[&CREATE, &LT, &MSN], ObjectType::ExtendedFlow);
    missing(&[&CREATE, &LT, &EFI], ObjectType::Msn);
    missing(&[&CREATE_PROXY, &LT, &EFI, &MSN], ObjectType::Nonce);
    missing(&[&EXTERNAL, &MSN, &EFI, &DTINFO], ObjectType::Lifetime);
    missing(&[&EXTERNAL, &LT, &EFI, &DTINFO], ObjectType::Msn);
    missing(&[&EXTERNAL, &LT, &MSN, &DTINFO], ObjectType::ExtendedFlow);
    missing(&[&EXTERNAL, &LT, &MSN, &EFI], ObjectType::DataTerminal);
    missing(&[&EXTERNAL_PROXY, &LT, &MSN, &EFI, &DTINFO], ObjectType::Nonce);
    missing(&[&RESPONSE, &LT, &SUCCESS], ObjectType::Msn);
    missing(&[&RESPONSE, &FAILURE], ObjectType::Msn);
    missing(&[&RESPONSE, &LT, &MSN], ObjectType::Info);
    missing(&[&RESPONSE, &MSN, &SUCCESS], ObjectType::Lifetime);
    missing(&[&NOTIFY], ObjectType::Info);
    missing(&[&NOTIFY, &MSN], ObjectType::Info);
}

#[test]
fn unknown_mandatory_object_is_refused() {
    assert_faults(&[
        (
            &[&CREATE, &LT, &[0x07, 0xd0, 0, 0]],
            UnknownObject,
            ObjectType::Unknown(0x7d0),
            12,
            (3, 6),
        ),
        // Type 0 stands for no object in NATFW_INFO.
        (&[&CREATE, &[0, 0, 0, 0]], UnknownObject, NONE, 4, (3, 6)),
        // An object of QoS NSLP.
        (&[&NOTIFY, &[0, 0x01, 0, 0]], UnknownObject, ObjectType::Unknown(1), 4, (3, 6)),
    ]);
}

#[test]
fn objects_outside_the_grammar_are_refused() {
    let objects: [(&[u8], ObjectType); 9] = [
        (&LT, ObjectType::Lifetime),
        (&EXTERNAL_IP, ObjectType::ExternalAddress),
        (&BINDING, ObjectType::ExternalBinding),
        (&EFI, ObjectType::ExtendedFlow),
        (&SUCCESS, ObjectType::Info),
        (&NONCE, ObjectType::Nonce),
        (&MSN, ObjectType::Msn),
        (&DTINFO, ObjectType::DataTerminal),
        (&ICMP, ObjectType::IcmpTypes),
    ];
    use ObjectType::*;
    let grammar: [([u8; 4], &[ObjectType]); 4] = [
        (CREATE, &[Lifetime, ExtendedFlow, Msn, Nonce, IcmpTypes]),
        (EXTERNAL, &[Lifetime, Msn, ExtendedFlow, DataTerminal, Nonce, IcmpTypes, ExternalBinding]),
        (RESPONSE, &[Lifetime, Msn, Info, ExternalAddress, ExternalBinding]),
        (NOTIFY, &[Msn, Info]),
    ];
    for (header, allowed) in grammar {
        for (object, object_type) in objects {
            if !allowed.contains(&object_type) {
                assert_faults(&[(&[&header, object], IllegalObject, object_type, 4, (3, 5))]);
                continue;
            }
            let offset = 4 + object.len();
            let parts: &[&[u8]] = &[&header, object, object];
            assert_faults(&[(parts, DuplicateObject, object_type, offset, (3, 10))]);
        }
    }
}

#[test]
fn failed_response_has_no_addresses() {
    let address = ObjectType::ExternalAddress;
    let binding = ObjectType::ExternalBinding;
    assert_faults(&[
        (&[&RESPONSE, &MSN, &FAILURE, &EXTERNAL_IP], IllegalObject, address, 20, (3, 5)),
        (&[&RESPONSE, &EXTERNAL_IP, &FAILURE, &MSN], IllegalObject, address, 4, (3, 5)),
        (&[&RESPONSE, &MSN, &FAILURE, &BINDING], IllegalObject, binding, 20, (3, 5)),
        (
            &[&RESPONSE, &MSN, &BINDING, &[0, 0x10, 0, 1, 6, 1, 0, 0]],
            IllegalObject,
            binding,
            12,
            (3, 5),
        ),
    ]);
}

#[test]
fn class_fits_the_message_type() {
    let info = ObjectType::Info;
    assert_faults(&[
        (&[&RESPONSE, &LT, &MSN, &EVENT], Class, info, 20, (3, 8)),
        (&[&NOTIFY, &SUCCESS], Class, info, 4, (3, 8)),
        (&[&NOTIFY, &MSN, &FAILURE], Class, info, 12, (3, 8)),
    ]);
}

/// Parts of the message, its type, sequence number and lifetime, and whether a fault is answered.
type PartialCase<'a> = (&'a [&'a [u8]], Option<Type>, Option<u32>, Option<u32>, bool);

#[test]
fn partial_message_has_the_numbers_of_a_malformed_request() {
    let cases: [PartialCase<'_>; 10] = [
        (&[], None, None, None, true),
        (&[&[1]], Some(Type::Create), None, None, true),
        (&[&[9, 0, 0, 0], &MSN], Some(Type::Unknown(9)), Some(0x0102_0304), None, true),
        (&[&CREATE, &LT, &MSN], Some(Type::Create), Some(0x0102_0304), Some(300), true),
        // The first of each kind counts, and nothing behind a truncated object.
        (
            &[&CREATE, &MSN, &[0, 0x12, 0, 1, 9, 9, 9, 9], &[0, 0, 0, 9], &LT],
            Some(Type::Create),
            Some(0x0102_0304),
            None,
            true,
        ),
        // An object of a wrong length is none.
        (
            &[&EXTERNAL, &[0, 0x12, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1], &LT],
            Some(Type::External),
            None,
            Some(300),
            true,
        ),
        (
            &[&CREATE, &[0, 0x0c, 0, 1, 0, 0, 0, 0], &MSN],
            Some(Type::Create),
            Some(0x0102_0304),
            Some(0),
            false,
        ),
        (&[&EXTERNAL, &[0, 0x0c, 0, 1, 0, 0, 0, 0]], Some(Type::External), None, Some(0), false),
        (&[&RESPONSE, &MSN], Some(Type::Response), Some(0x0102_0304), None, false),
        (&[&NOTIFY], Some(Type::Notify), None, None, false),
    ];
    for (parts, message_type, msn, lifetime, is_answered) in cases {
        let octets = parts.concat();
        let found = PartialMessage::parse(&octets);
        assert_eq!(found, PartialMessage { message_type, msn, lifetime }, "{octets:02x?}");
        assert_eq!(found.is_answered(), is_answered, "{octets:02x?}");
        let error = Message::parse(&octets).expect_err("objects are missing");
        assert_eq!(error.response(&found).is_some(), is_answered);
    }
}
