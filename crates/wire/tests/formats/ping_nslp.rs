//! Ping NSLP: layouts, records within the available room, and no panic on any input.

use std::net::IpAddr;

use earmark_testkit::damage::flip;
use earmark_testkit::messages::ping_nslp::owned;
use earmark_wire::EmitError;
use earmark_wire::ping_nslp::iana::ObjectType;
use earmark_wire::ping_nslp::*;
use proptest::collection::vec;
use proptest::prelude::*;

const EMPTY: Ping<'static> =
    Ping { version: Version::V2, hops: 0, sequence: 0x0102_0304, objects: &STANDARD, data: &[] };

/// Object list of an address and a time.
const LIST: [u8; 8] = [0, 1, 0, 16, 0, 2, 0, 8];
/// Record of 192.0.2.1 at 5.000006.
const RECORD: [u8; 24] =
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 192, 0, 2, 1, 0, 0, 0, 5, 0, 0, 0, 6];

fn visit() -> NodeRecord {
    NodeRecord {
        address: [192, 0, 2, 1].into(),
        time: Timestamp { seconds: 5, microseconds: 6 },
        available: None,
    }
}

fn emit(ping: &Ping<'_>) -> Vec<u8> {
    let mut buffer = vec![0xa5; ping.buffer_len()];
    assert_eq!(ping.emit(&mut buffer), Ok(buffer.len()), "{ping:?}");
    buffer
}

#[track_caller]
fn same(ping: &Ping<'_>, parts: &[&[u8]]) {
    let octets = parts.concat();
    assert_eq!(emit(ping), octets);
    assert_eq!(Ping::parse(&octets).as_ref(), Ok(ping));
}

#[test]
fn both_versions_octet_by_octet() {
    let one = Ping { version: Version::V1, hops: 3, data: &RECORD, ..EMPTY };
    same(&one, &[&[1, 3, 40, 2, 1, 2, 3, 4], &LIST, &RECORD]);
    let two = Ping { version: Version::V2, ..one };
    same(&two, &[&[2, 3, 0, 44, 2, 0, 0, 0, 1, 2, 3, 4], &LIST, &RECORD]);
    same(&Ping { objects: &[], ..EMPTY }, &[&[2, 0, 0, 12, 0, 0, 0, 0, 1, 2, 3, 4]]);
}

#[test]
fn records_have_address_and_time() {
    let v6: IpAddr = "2001:db8::1".parse().unwrap();
    let mut buffer = emit(&EMPTY);
    let mut length = buffer.len();
    buffer.resize(200, 0xa5);
    length = append(&mut buffer, length, &visit()).unwrap();
    let other = NodeRecord {
        address: v6,
        time: Timestamp { seconds: 7, microseconds: 999_999 },
        available: None,
    };
    length = append(&mut buffer, length, &other).unwrap();
    let ping = Ping::parse(&buffer[..length]).expect("it was appended to");
    assert_eq!(ping.data[..24], RECORD);
    let visits: Vec<NodeRecord> = ping
        .records()
        .map(|record| NodeRecord {
            address: record.address().expect("asked for"),
            time: record.time().expect("asked for"),
            available: record.available(),
        })
        .collect();
    assert_eq!(visits, [visit(), other]);
}

#[test]
fn unknown_object_is_appended_as_zeros() {
    let objects = [[0, 2, 0, 8], [0, 9, 0, 3], [0, 9, 0, 0]];
    let mut buffer = emit(&Ping { objects: &objects, ..EMPTY });
    let length = buffer.len();
    buffer.resize(length + 11, 0xa5);
    assert_eq!(append(&mut buffer, length, &visit()), Ok(length + 11));
    assert_eq!(buffer[length..], [0, 0, 0, 5, 0, 0, 0, 6, 0, 0, 0]);
    buffer.push(0);
    let ping = Ping::parse(&buffer).expect("padding of less than a word is none of it");
    let record = ping.records().next().expect("one");
    assert_eq!(record.address(), None, "not asked for");
    assert_eq!(record.find(ObjectType::Unknown(9)), Some(&[0; 3][..]));
}

/// A node that knows the object but no value appends zeros like one that does not know the object.
#[test]
fn zero_bandwidth_differs_from_unknown_bandwidth() {
    let objects = WITH_BANDWIDTH;
    let mut buffer = emit(&Ping { objects: &objects, ..EMPTY });
    let mut length = buffer.len();
    buffer.resize(length + 96, 0xa5);
    for (available, octets) in [
        (None, [0; 8]),
        (Some(0), [0x80, 0, 0, 0, 0, 0, 0, 0]),
        (Some(10_000_000), [0x80, 0, 0, 0, 0, 0x98, 0x96, 0x80]),
    ] {
        length = append(&mut buffer, length, &NodeRecord { available, ..visit() }).unwrap();
        let ping = Ping::parse(&buffer[..length]).expect("it was appended to");
        assert_eq!(ping.data[ping.data.len() - 8..], octets);
        assert_eq!(ping.records().last().and_then(|record| record.available()), available);
    }
}

/// Nine records of five nodes fit the length field of version 1; a tenth does not.
#[test]
fn version_1_appends_nothing_beyond_five_nodes_and_counts_hops() {
    let mut buffer = emit(&Ping { version: Version::V1, ..EMPTY });
    let mut length = buffer.len();
    buffer.resize(300, 0);
    for records in 1..=12 {
        count_hop(&mut buffer[..length]).unwrap();
        length = append(&mut buffer, length, &visit()).unwrap();
        let ping = Ping::parse(&buffer[..length]).unwrap();
        assert_eq!(ping.records().count(), records.min(9));
        assert_eq!(usize::from(ping.hops), records);
    }
    assert_eq!(length, 16 + 9 * 24);
}

#[test]
fn append_to_full_buffer_changes_nothing() {
    let before = emit(&EMPTY);
    let mut buffer = before.clone();
    buffer.resize(before.len() + 23, 0);
    assert_eq!(append(&mut buffer, before.len(), &visit()), Ok(before.len()));
    assert_eq!(buffer[..before.len()], before);
    let nothing = Ping { objects: &[], ..EMPTY };
    let mut buffer = emit(&nothing);
    let length = buffer.len();
    assert_eq!(append(&mut buffer, length, &visit()), Ok(length), "nothing is asked for");
}

#[test]
fn hop_count_saturates_at_255() {
    let mut octets = emit(&Ping { hops: 254, ..EMPTY });
    for _ in 0..3 {
        count_hop(&mut octets).unwrap();
    }
    assert_eq!(octets[1], 255);
}

#[test]
fn malformed_messages_are_reported_with_offset() {
    use ErrorKind::*;
    let good = [&[1, 3, 40, 2, 1, 2, 3, 4][..], &LIST, &RECORD].concat();
    let changed = |at: usize, octet: u8| {
        let mut octets = good.clone();
        octets[at] = octet;
        octets
    };
    let cases = [
        ("nothing", vec![], Truncated, 0),
        ("seven octets", good[..7].to_vec(), Truncated, 7),
        ("eleven octets of version 2", changed(0, 2)[..11].to_vec(), Truncated, 11),
        ("version 0", changed(0, 0), Version, 0),
        ("version 3", changed(0, 3), Version, 0),
        ("past the end", changed(2, 41), Length, 2),
        ("a word left", [&good[..], &[0; 4]].concat(), Length, 2),
        ("shorter than the header", changed(2, 7), Length, 2),
        ("shorter than the list", changed(3, 9), Length, 2),
        ("a short address", changed(11, 15), ObjectLength, 10),
        ("a long time", changed(15, 9), ObjectLength, 14),
        ("half a record", changed(2, 38), Records, 38),
        ("records of nothing", vec![1, 0, 9, 0, 0, 0, 0, 0, 0], Records, 9),
    ];
    for (what, octets, kind, offset) in cases {
        let error = Ping::parse(&octets).expect_err(what);
        assert_eq!(error, ParseError { kind, offset }, "{what}");
        assert!(error.to_string().starts_with(&format!("Ping NSLP, octet {offset}: ")), "{error}");
        let mut octets = octets;
        assert_eq!(count_hop(&mut octets), Err(error));
        let length = octets.len();
        assert_eq!(append(&mut octets, length, &visit()), Err(error));
    }
}

#[test]
fn unreadable_messages_are_not_emitted() {
    let mut buffer = vec![0; 1 << 17];
    let mut refuse = |ping: &Ping<'_>, error| {
        assert_eq!(ping.emit(&mut buffer), Err(error), "{} objects", ping.objects.len());
    };
    refuse(&Ping { objects: &[[0, 1, 0, 4]], ..EMPTY }, EmitError::Contradiction);
    refuse(&Ping { data: &[0; 23], ..EMPTY }, EmitError::Contradiction);
    refuse(&Ping { objects: &[], data: &[0], ..EMPTY }, EmitError::Contradiction);
    refuse(&Ping { objects: &[[0, 9, 0, 0]; 256], ..EMPTY }, EmitError::TooLong);
    let data = vec![0; 24 * 2_730];
    refuse(&Ping { data: &data, ..EMPTY }, EmitError::TooLong);
    let ten = &data[..240];
    refuse(&Ping { version: Version::V1, data: ten, ..EMPTY }, EmitError::TooLong);
    assert_eq!(EMPTY.emit(&mut buffer[..19]), Err(EmitError::BufferTooShort));
}

proptest! {
    #[test]
    fn emitted_messages_parse_to_the_same_value(owned in owned()) {
        let ping = owned.ping();
        let octets = emit(&ping);
        prop_assert_eq!(Ping::parse(&octets), Ok(ping));
    }

    #[test]
    fn nodes_append_one_record(owned in owned()) {
        let ping = owned.ping();
        let mut buffer = emit(&ping);
        let length = buffer.len();
        buffer.resize(length + ping.record_len(), 0xa5);
        let longer = append(&mut buffer, length, &visit()).expect("it was emitted");
        prop_assert!(longer == length || longer == length + ping.record_len());
        let read = Ping::parse(&buffer[..longer]).expect("it was appended to");
        prop_assert!(read.data.starts_with(ping.data));
        prop_assert_eq!(Ping { data: ping.data, ..read }, ping);
    }

    #[test]
    fn arbitrary_octets_do_not_panic(
        mut octets in vec(any::<u8>(), 0..200),
        version in proptest::option::of(1_u8..=2),
    ) {
        if let (Some(version), Some(first)) = (version, octets.first_mut()) {
            *first = version;
        }
        round_trips(&octets);
    }

    #[test]
    fn damaged_messages_do_not_panic(owned in owned(), damage in vec(any::<(u16, u8)>(), 1..4)) {
        let mut octets = emit(&owned.ping());
        flip(&mut octets, &damage);
        round_trips(&octets);
    }
}

/// Parsed messages round-trip, and their records are readable.
fn round_trips(octets: &[u8]) {
    match Ping::parse(octets) {
        Ok(ping) => {
            assert_eq!(Ping::parse(&emit(&ping)), Ok(ping));
            assert!(ping.records().count() <= octets.len());
            for record in ping.records() {
                assert!(
                    record.find(ObjectType::Unknown(7)).is_none_or(|o| o.len() <= octets.len())
                );
            }
        }
        Err(error) => assert!(error.offset <= octets.len() && !error.to_string().is_empty()),
    }
}
