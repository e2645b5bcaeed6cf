//! Messages between neighbors (RFC 2961, RFC 2747, RFC 3209 section 5): layouts of the RFCs' figures in both
//! directions, and malformed ones.

use earmark_testkit::messages::hex;
use earmark_testkit::messages::rsvp::{octets, sample, seal};
use earmark_wire::EmitError;
use earmark_wire::rsvp::ErrorKind as E;
use earmark_wire::rsvp::*;
use proptest::prelude::*;

/// Returns the message with this type and these objects.
fn wire(message_type: u8, objects: &str) -> Vec<u8> {
    let mut wire = vec![0x10, message_type, 0, 0, 7, 0, 0, 0];
    wire.extend(hex(objects));
    seal(&mut wire);
    wire
}

/// Asserts that the octets parse to the message, and that the message is emitted as the octets.
fn both_ways(message_type: u8, objects: &str, message: &Message<'_>) {
    let wire = wire(message_type, objects);
    assert_eq!(Message::parse(&wire).as_ref(), Ok(message));
    assert_eq!(octets(message), wire);
}

fn verdict(message_type: u8, objects: &str) -> Result<(), (ErrorKind, usize)> {
    verdict_on(&wire(message_type, objects))
}

fn verdict_on(wire: &[u8]) -> Result<(), (ErrorKind, usize)> {
    Message::parse(wire).map(|_| ()).map_err(|error| (error.kind, error.offset))
}

const ACK: &str = "000c 1801 00 00abcd 00000001";
const NACK: &str = "000c 1802 00 00abcd 00000002";
const MESSAGE_ID: &str = "000c 1701 01 00abcd 00000009";
const LIST: &str = "0010 1901 00 00abcd 00000005 00000006";
const SRC_LIST: &str = "0010 1902 00 00abcd 00000005 0a000101";
const INTEGRITY: &str = "0018 0401 80 00 010203040506 0000000000000007 d1d2d3d4";
const CHALLENGE: &str = "0014 4001 0000 010203040506 0102030405060708";
const HELLO: &str = "000c 1601 00000011 00000022";
const RESTART_CAP: &str = "000c 8301 00007530 0000ea60";
const CAPABILITY: &str = "0008 8601 00000006";

fn ack(id: u32) -> Acknowledgement {
    Acknowledgement { kind: AcknowledgementKind::Ack, epoch: 0xabcd, id }
}

fn nack(id: u32) -> Acknowledgement {
    Acknowledgement { kind: AcknowledgementKind::Nack, epoch: 0xabcd, id }
}

const NAME: MessageId = MessageId { flags: MessageId::ACK_DESIRED, epoch: 0xabcd, id: 9 };
const SIGNED: Integrity<'static> = Integrity {
    flags: Integrity::HANDSHAKE,
    key_id: 0x0102_0304_0506,
    sequence: 7,
    digest: &[0xd1, 0xd2, 0xd3, 0xd4],
};

#[test]
fn an_ack_is_acknowledgements_alone() {
    let both = [ack(1), nack(2)];
    let message = Message { acknowledgements: List::Items(&both), ..Message::new(7, Body::Ack) };
    both_ways(13, &format!("{ACK} {NACK}"), &message);
    let message = Message { integrity: Some(SIGNED), ..message };
    both_ways(13, &format!("{INTEGRITY} {ACK} {NACK}"), &message);

    assert_eq!(verdict(13, ""), Err((E::MissingObject, 8)));
    assert_eq!(verdict(13, &format!("{ACK} {MESSAGE_ID}")), Err((E::IllegalObject, 20)));
    assert_eq!(verdict(13, &format!("{ACK} {LIST}")), Err((E::IllegalObject, 20)));
    assert_eq!(verdict(13, "000c 1803 00 00abcd 00000001"), Err((E::UnknownCType, 8)));
    assert_eq!(verdict(13, "0008 1801 00 00abcd"), Err((E::ObjectSize, 8)));
    // Flags, NULL and classes 10bbbbbb and 11bbbbbb have no effect.
    let noisy =
        format!("0004 0000 000c 1801 ff 00abcd 00000001 0008 8001 00000000 {NACK} 0004 ff01");
    assert_eq!(
        Message::parse(&wire(13, &noisy)).map(|m| m.acknowledgements),
        Ok(List::Items(&both))
    );

    let empty = Message::new(7, Body::Ack);
    assert_eq!(empty.emit(&mut [0; 99]), Err(EmitError::Contradiction));
    let named = Message { message_id: Some(NAME), ..message };
    assert_eq!(named.emit(&mut [0; 99]), Err(EmitError::Contradiction));
}

#[test]
fn srefresh_lists_message_identifiers() {
    let [v4, v6, group4, group6] =
        ["10.0.1.1", "2001:db8::1", "224.1.2.3", "ff0e::1"].map(|a| a.parse().expect("address"));
    let messages = |lists: &[RefreshList<'_>], expected: &str| {
        let body = Body::Srefresh(Srefresh { lists: List::Items(lists) });
        both_ways(15, expected, &Message::new(7, body));
    };
    let list = |names| RefreshList { epoch: 0xabcd, ids: names };
    let v6_hex = "20010db8 00000000 00000000 00000001";
    let group6_hex = "ff0e0000 00000000 00000000 00000001";
    let plain = list(RefreshIds::Messages(List::Items(&[5, 6])));
    messages(&[plain], LIST);
    let sources = [SourceRefresh { id: 5, source: v4 }];
    messages(&[list(RefreshIds::Sources(List::Items(&sources)))], SRC_LIST);
    let sources = [SourceRefresh { id: 5, source: v6 }; 2];
    let expected = format!("0030 1903 00 00abcd 00000005 {v6_hex} 00000005 {v6_hex}");
    messages(&[list(RefreshIds::Sources(List::Items(&sources)))], &expected);
    let multicast = [MulticastRefresh { id: 8, source: v4, destination: group4 }];
    let multicast = list(RefreshIds::Multicast(List::Items(&multicast)));
    let multicast_hex = "0014 1904 00 00abcd 00000008 0a000101 e0010203";
    messages(&[multicast, plain], &format!("{multicast_hex} {LIST}"));
    let multicast = [MulticastRefresh { id: 8, source: v6, destination: group6 }];
    let expected = format!("002c 1905 00 00abcd 00000008 {v6_hex} {group6_hex}");
    messages(&[list(RefreshIds::Multicast(List::Items(&multicast)))], &expected);
}

#[test]
fn srefresh_may_have_message_id_and_acknowledgements() {
    let ids = [5, 6];
    let lists = [RefreshList { epoch: 0xabcd, ids: RefreshIds::Messages(List::Items(&ids)) }];
    let message = Message {
        flags: Message::REFRESH_REDUCTION,
        integrity: Some(SIGNED),
        acknowledgements: List::Items(&[ack(1)]),
        message_id: Some(NAME),
        ..Message::new(7, Body::Srefresh(Srefresh { lists: List::Items(&lists) }))
    };
    let mut expected = wire(15, &format!("{INTEGRITY} {ACK} {MESSAGE_ID} {LIST}"));
    expected[0] = 0x11;
    seal(&mut expected);
    assert_eq!(Message::parse(&expected), Ok(message));
    assert_eq!(octets(&message), expected);
}

#[test]
fn an_srefresh_that_contradicts_itself_is_refused() {
    assert_eq!(verdict(15, ""), Err((E::MissingObject, 8)));
    assert_eq!(verdict(15, &format!("{LIST} {SRC_LIST}")), Err((E::IllegalObject, 24)));
    assert_eq!(verdict(15, &format!("{SRC_LIST} {LIST}")), Err((E::IllegalObject, 24)));
    assert_eq!(verdict(15, &format!("{LIST} {MESSAGE_ID}")), Err((E::ObjectOrder, 24)));
    assert_eq!(verdict(15, "0008 1901 00 00abcd"), Err((E::ObjectSize, 8)));
    assert_eq!(verdict(15, "000c 1902 00 00abcd 00000005"), Err((E::ObjectSize, 8)));
    assert_eq!(
        verdict(15, "0018 1903 00 00abcd 0000000000000000 0000000000000000"),
        Err((E::ObjectSize, 8))
    );
    assert_eq!(verdict(15, "000c 1906 00 00abcd 00000005"), Err((E::UnknownCType, 8)));
    assert_eq!(verdict(15, &format!("{LIST} 0004 2701")), Err((E::UnknownClass, 24)));
    assert_eq!(verdict(15, &format!("{LIST} 0004 e201 0004 8301")), Ok(()));

    let mixed = ["10.0.1.1", "2001:db8::1"]
        .map(|a| SourceRefresh { id: 1, source: a.parse().expect("address") });
    let refused = |lists: &[RefreshList<'_>]| {
        let body = Body::Srefresh(Srefresh { lists: List::Items(lists) });
        assert_eq!(Message::new(7, body).emit(&mut [0; 99]), Err(EmitError::Contradiction));
    };
    let list = |names| RefreshList { epoch: 1, ids: names };
    refused(&[]);
    refused(&[list(RefreshIds::Messages(List::EMPTY))]);
    refused(&[list(RefreshIds::Sources(List::Items(&mixed)))]);
    let sources = list(RefreshIds::Sources(List::Items(&mixed[..1])));
    refused(&[sources, list(RefreshIds::Messages(List::Items(&[1])))]);
}

#[test]
fn hello_is_request_or_acknowledgement() {
    let hello =
        Hello { kind: HelloKind::Request, source_instance: 0x11, destination_instance: 0x22 };
    both_ways(20, HELLO, &Message::new(7, Body::Hello(hello.into())));
    let answer = Hello { kind: HelloKind::Ack, ..hello };
    both_ways(20, "000c 1602 00000011 00000022", &Message::new(7, Body::Hello(answer.into())));
    assert_eq!(verdict(20, ""), Err((E::MissingObject, 8)));
    assert_eq!(verdict(20, &format!("{HELLO} {HELLO}")), Err((E::DuplicateObject, 20)));
    assert_eq!(verdict(20, &format!("{HELLO} {INTEGRITY}")), Err((E::ObjectOrder, 20)));
    assert_eq!(verdict(20, "0008 1601 00000011"), Err((E::ObjectSize, 8)));
    assert_eq!(verdict(20, "000c 1603 00000011 00000022"), Err((E::UnknownCType, 8)));
}

/// RFC 3473 section 9.1, RFC 5063 section 4.2.
#[test]
fn hello_has_restart_times_and_capability() {
    let hello = Hello { kind: HelloKind::Ack, source_instance: 0x11, destination_instance: 0x22 };
    let restart_cap = Some(RestartCap { restart_ms: 30_000, recovery_ms: 60_000 });
    let both = Capability::RECOVERY_PATH_TRANSMIT | Capability::RECOVERY_PATH_DESIRED;
    let capability = Some(Capability { flags: both });
    let without = HelloMessage { restart_cap, ..hello.into() };
    let whole = HelloMessage { capability, ..without };
    let objects = format!("000c 1602 00000011 00000022 {RESTART_CAP}");
    both_ways(20, &objects, &Message::new(7, Body::Hello(without)));
    both_ways(20, &format!("{objects} {CAPABILITY}"), &Message::new(7, Body::Hello(whole)));
    // In any order.
    let objects = format!("{CAPABILITY} {RESTART_CAP} 000c 1602 00000011 00000022");
    let octets = wire(20, &objects);
    assert_eq!(Message::parse(&octets).map(|message| message.body), Ok(Body::Hello(whole)));
}

#[test]
fn malformed_restart_times_and_capability_are_refused() {
    assert_eq!(verdict(20, RESTART_CAP), Err((E::MissingObject, 20)));
    for (object, offset) in [(RESTART_CAP, 32), (CAPABILITY, 28)] {
        let twice = format!("{HELLO} {object} {object}");
        assert_eq!(verdict(20, &twice), Err((E::DuplicateObject, offset)), "{object}");
    }
    let refused = |object: &str| verdict(20, &format!("{HELLO} {object}"));
    assert_eq!(refused("0008 8301 00000000"), Err((E::ObjectSize, 20)));
    assert_eq!(refused("000c 8302 00000000 00000000"), Err((E::UnknownCType, 20)));
    assert_eq!(refused("000c 8601 00000000 00000000"), Err((E::ObjectSize, 20)));
    assert_eq!(refused("0008 8602 00000004"), Err((E::UnknownCType, 20)));
}

/// Nodes ignore the two classes in other messages (RFC 2205 section 3.10: 10bbbbbb).
#[test]
fn restart_times_and_capability_are_ignored_elsewhere() {
    for (kind, objects) in [(13, ACK), (15, LIST)] {
        let objects = format!("{objects} {RESTART_CAP} {CAPABILITY}");
        assert_eq!(verdict(kind, &objects), Ok(()), "{kind}");
    }
    let path = sample(MessageType::Path, Style::FixedFilter, false);
    let mut octets = octets(&path.message());
    octets.extend(hex(RESTART_CAP));
    seal(&mut octets);
    assert_eq!(verdict_on(&octets), Ok(()));
}

/// RFC 5063 section 4.1: the format of a Path, with another type.
#[test]
fn recovery_path_has_the_objects_of_a_path() {
    for ipv6 in [false, true] {
        let parts = sample(MessageType::Path, Style::FixedFilter, ipv6);
        let Body::Path(path) = parts.message().body else { panic!("a Path") };
        let message = Message { body: Body::RecoveryPath(path), ..parts.message() };
        let wire = octets(&message);
        assert_eq!(wire[1], 30);
        let Ok(Message { body: Body::RecoveryPath(read), .. }) = Message::parse(&wire) else {
            panic!("a RecoveryPath")
        };
        assert_eq!(
            (read.hop, read.sender, read.refresh_ms),
            (path.hop, path.sender, path.refresh_ms)
        );
    }
    assert_eq!(verdict(30, ""), Err((E::MissingObject, 8)));
}

#[test]
fn integrity_challenge_is_unsigned_and_response_signed() {
    let challenge = Challenge { key_id: 0x0102_0304_0506, cookie: 0x0102_0304_0506_0708 };
    both_ways(25, CHALLENGE, &Message::new(7, Body::IntegrityChallenge(challenge)));
    let response =
        Message { integrity: Some(SIGNED), ..Message::new(7, Body::IntegrityResponse(challenge)) };
    both_ways(26, &format!("{INTEGRITY} {CHALLENGE}"), &response);

    assert_eq!(verdict(25, &format!("{INTEGRITY} {CHALLENGE}")), Err((E::IllegalObject, 8)));
    assert_eq!(verdict(26, CHALLENGE), Err((E::MissingObject, 28)));
    assert_eq!(verdict(25, "0010 4001 0000 010203040506 01020304"), Err((E::ObjectSize, 8)));
    assert_eq!(
        verdict(25, "0014 4002 0000 010203040506 0102030405060708"),
        Err((E::UnknownCType, 8))
    );
    // Before RFC 3097 the types were 11 and 12; 12 would now be a Bundle with a message of version 0.
    assert_eq!(verdict(11, CHALLENGE), Err((E::MessageType, 1)));
    assert_eq!(verdict(12, &format!("{INTEGRITY} {CHALLENGE}")), Err((E::Version, 8)));

    let unsigned = Message { integrity: None, ..response };
    assert_eq!(unsigned.emit(&mut [0; 99]), Err(EmitError::Contradiction));
}

#[test]
fn leading_objects_out_of_order_are_refused() {
    let path = octets(&sample(MessageType::Path, Style::Wildcard, false).message());
    let verdict = |objects: &str, at: usize| {
        let mut wire = path.clone();
        wire.splice(at..at, hex(objects));
        seal(&mut wire);
        verdict_on(&wire)
    };
    assert_eq!(verdict(&format!("{INTEGRITY} {NACK} {ACK} {MESSAGE_ID}"), 8), Ok(()));
    assert_eq!(verdict(&format!("{ACK} {INTEGRITY}"), 8), Err((E::ObjectOrder, 20)));
    assert_eq!(verdict(&format!("{MESSAGE_ID} {ACK}"), 8), Err((E::ObjectOrder, 20)));
    assert_eq!(verdict(&format!("{MESSAGE_ID} {MESSAGE_ID}"), 8), Err((E::DuplicateObject, 20)));
    assert_eq!(verdict(&format!("{INTEGRITY} {INTEGRITY}"), 8), Err((E::DuplicateObject, 32)));
    assert_eq!(verdict(ACK, 20), Err((E::ObjectOrder, 20)));
    assert_eq!(verdict(MESSAGE_ID, 20), Err((E::ObjectOrder, 20)));
    assert_eq!(verdict("000c 1702 00 00abcd 00000009", 8), Err((E::UnknownCType, 8)));
    assert_eq!(verdict("0010 1701 00 00abcd 00000009 00000000", 8), Err((E::ObjectSize, 8)));
    assert_eq!(
        verdict("0014 0401 00 00 010203040506 0000000000000007", 8),
        Err((E::ObjectSize, 8))
    );
    assert_eq!(
        verdict("0018 0402 00 00 010203040506 0000000000000007 d1d2d3d4", 8),
        Err((E::UnknownCType, 8))
    );
    for other in [HELLO, LIST, CHALLENGE] {
        assert_eq!(verdict(other, 8), Err((E::IllegalObject, 8)));
    }
}

#[test]
fn a_bundle_is_whole_messages() {
    let path = octets(&sample(MessageType::Path, Style::Wildcard, false).message());
    let resv = octets(&sample(MessageType::Resv, Style::SharedExplicit, true).message());
    let both = [&path[..], &resv].concat();
    let bundle = Bundle::new(&both).expect("two messages");
    let message = Message { flags: 1, ..Message::new(7, Body::Bundle(bundle)) };
    let wire = octets(&message);
    assert_eq!(Message::parse(&wire), Ok(message));
    assert_eq!(bundle.iter().collect::<Vec<_>>(), [&path[..], &resv]);
    assert_eq!(bundle.iter().filter(|message| Message::parse(message).is_ok()).count(), 2);

    // Sealed in place, the Bundle is the same.
    let mut sealed = [&[0xa5; Bundle::HEADER_LEN][..], &both].concat();
    assert_eq!(Bundle::seal(&mut sealed, 1, 7), Ok(()));
    assert_eq!(sealed, wire);
    assert_eq!(Bundle::seal(&mut [0; 7], 1, 7), Err(EmitError::BufferTooShort));
    assert_eq!(Bundle::seal(&mut [0; 65_536], 1, 7), Err(EmitError::TooLong));

    let front = Message { message_id: Some(NAME), ..message };
    assert_eq!(front.emit(&mut [0; 999]), Err(EmitError::Contradiction));
}

#[test]
fn bundle_is_split_at_the_lengths_of_its_messages() {
    let hello = wire(20, HELLO);
    let bundled = |messages: &[u8]| {
        let mut wire = [&[0x10, 12, 0, 0, 7, 0, 0, 0], messages].concat();
        seal(&mut wire);
        verdict_on(&wire)
    };
    let two = [&hello[..], &hello].concat();
    assert_eq!(bundled(&two), Ok(()));
    assert_eq!(bundled(&[]), Err((E::Truncated, 8)));
    for length in 1..hello.len() {
        let expected = if length < 8 { (E::Truncated, 28) } else { (E::Length, 34) };
        assert_eq!(bundled(&two[..hello.len() + length]), Err(expected), "cut at {length}");
    }
    let changed = |at: usize, octet: u8| {
        let mut two = two.clone();
        two[at] = octet;
        bundled(&two)
    };
    assert_eq!(changed(20, 0x20), Err((E::Version, 28)));
    assert_eq!(changed(21, 12), Err((E::NestedBundle, 29)));
    for length in [0, 4, 7, 21, 255] {
        assert_eq!(changed(27, length), Err((E::Length, 34)), "{length}");
    }
    // Faults within a message of a Bundle are found when that message is parsed.
    assert_eq!(changed(22, 0xee), Ok(()));
}

/// The digest covers every octet, checksum and digest as zeros (RFC 2747 section 4.1).
#[test]
fn digest_covers_everything_but_digest_and_checksum() {
    for length in [4, 16, 20, 32, 64, 68, 200] {
        let digest = vec![0xdd; length];
        let path = sample(MessageType::Path, Style::Wildcard, true);
        let message =
            Message { integrity: Some(Integrity { digest: &digest, ..SIGNED }), ..path.message() };
        let wire = octets(&message);
        let mut expected = wire.clone();
        expected[2..4].fill(0);
        expected[28..28 + length].fill(0);
        let covered: Vec<u8> =
            Integrity::covered(&wire).expect("signed").flatten().copied().collect();
        assert_eq!(covered, expected, "digest of {length}");
    }
    assert!(Integrity::covered(&wire(20, HELLO)).is_none());
    assert!(Integrity::covered(&[0; 8]).is_none());
}

/// Inserting a digest keeps the covered octets, and leaves a valid checksum.
#[test]
fn seal_keeps_covered_octets() {
    for length in [16, 20, 32] {
        let resv = sample(MessageType::Resv, Style::FixedFilter, false);
        let message = Message {
            integrity: Some(Integrity::blank(Integrity::HANDSHAKE, 3, 4, length)),
            ..resv.message()
        };
        let mut wire = octets(&message);
        let covered = |wire: &[u8]| -> Vec<u8> {
            Integrity::covered(wire).expect("signed").flatten().copied().collect()
        };
        let before = covered(&wire);
        let digest: Vec<u8> = (1..).take(length).collect();
        assert_eq!(Integrity::seal(&mut wire, &digest), Ok(()));
        assert_eq!(covered(&wire), before);
        let parsed = Message::parse(&wire).expect("the checksum is right");
        assert_eq!(parsed.integrity.map(|integrity| integrity.digest), Some(&digest[..]));
        let refused = Integrity::seal(&mut wire, &digest[4..]);
        assert_eq!(refused, Err(EmitError::Contradiction));
    }
    let refused = Integrity::seal(&mut wire(20, HELLO), &[0; 16]);
    assert_eq!(refused, Err(EmitError::Contradiction));
}

/// An inserted INTEGRITY gives the same octets as an emitted one.
#[test]
fn inserted_integrity_equals_emitted_one() {
    let resv = sample(MessageType::Resv, Style::FixedFilter, true);
    let integrity = Integrity::blank(Integrity::HANDSHAKE, 3, 4, 20);
    let plain = octets(&resv.message());
    let mut expected = octets(&Message { integrity: Some(integrity), ..resv.message() });
    let mut wire = vec![0xa5; plain.len() + integrity.object_len()];
    assert_eq!(integrity.insert(&plain, &mut wire), Ok(expected.len()));
    for message in [&mut expected, &mut wire] {
        assert_eq!(Integrity::seal(message, &[7; 20]), Ok(()));
    }
    assert_eq!(wire, expected);

    assert_eq!(integrity.insert(&plain, &mut wire[1..]), Err(EmitError::BufferTooShort));
    assert_eq!(integrity.insert(&plain[..7], &mut wire), Err(EmitError::Contradiction));
    assert_eq!(integrity.insert(&[0; 65_500], &mut wire), Err(EmitError::TooLong));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Arbitrary objects do not panic, and parsed messages round-trip.
    #[test]
    fn arbitrary_objects_do_not_panic(
        message_type in proptest::sample::select(&[1u8, 2, 8, 9, 12, 13, 15, 20, 25, 26, 30][..]),
        objects in proptest::collection::vec(
            (proptest::sample::select(&[0u8, 4, 22, 23, 24, 25, 64, 128, 131, 134, 255][..]), 0u8..6, proptest::collection::vec(any::<u8>(), 0..48)),
            0..5,
        ),
    ) {
        let mut wire = vec![0x10, message_type, 0, 0, 7, 0, 0, 0];
        for (class, c_type, body) in objects {
            let body = &body[..body.len() / 4 * 4];
            wire.extend([0, body.len() as u8 + 4, class, c_type]);
            wire.extend(body);
        }
        seal(&mut wire);
        if let Ok(message) = Message::parse(&wire) {
            let again = octets(&message);
            prop_assert_eq!(Message::parse(&again), Ok(message));
        }
    }
}
