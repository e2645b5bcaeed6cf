//! Ping NSLP: any message.

use earmark_wire::ping_nslp::iana::ObjectType;
use earmark_wire::ping_nslp::*;
use proptest::collection::vec;
use proptest::prelude::*;

use super::packets::SOURCE;

/// Room for a message, octets.
const ROOM: usize = 1_024;

/// A message with owned parts.
#[derive(Clone, Debug)]
pub struct Owned {
    is_v1: bool,
    hops: u8,
    sequence: u32,
    objects: Vec<[u8; 4]>,
    data: Vec<u8>,
}

/// Generates messages of both versions.
pub fn owned() -> impl Strategy<Value = Owned> {
    let object = prop_oneof![
        Just(STANDARD[0]),
        Just(STANDARD[1]),
        (unknown_type(), 0_u8..9).prop_map(|(object_type, length)| {
            let [high, low] = object_type.to_be_bytes();
            [high, low, 0, length]
        }),
    ];
    let header = (any::<bool>(), any::<u8>(), any::<u32>());
    (header, vec(object, 0..5), vec(any::<u8>(), 0..200)).prop_map(|(header, objects, mut data)| {
        let (is_v1, hops, sequence) = header;
        let record: usize = objects.iter().map(|object| usize::from(object[3])).sum();
        data.truncate(data.len() - data.len().checked_rem(record).unwrap_or(data.len()));
        Owned { is_v1, hops, sequence, objects, data }
    })
}

/// Generates types of objects that are not assigned, and have no fixed length.
fn unknown_type() -> impl Strategy<Value = u16> {
    let is_unknown = |code: &u16| matches!(ObjectType::from(*code), ObjectType::Unknown(_));
    any::<u16>().prop_filter("the type is assigned", is_unknown)
}

impl Owned {
    /// Returns the message.
    pub fn ping(&self) -> Ping<'_> {
        Ping {
            version: if self.is_v1 { Version::V1 } else { Version::V2 },
            hops: self.hops,
            sequence: self.sequence,
            objects: &self.objects,
            data: &self.data,
        }
    }
}

/// Returns a message of Ping NSLP with the record of one node.
///
/// # Panics
/// Never: there is room.
pub fn valid(version: Version) -> Vec<u8> {
    let objects = &WITH_BANDWIDTH;
    let ping = Ping { version, hops: 1, sequence: 5, objects, data: &[] };
    let mut octets = vec![0; ROOM];
    let length = ping.emit(&mut octets).expect("it fits");
    let time = Timestamp { seconds: 1, microseconds: 2 };
    let record = NodeRecord { address: SOURCE.into(), time, available: Some(3) };
    let length = append(&mut octets, length, &record).expect("it fits");
    octets.truncate(length);
    octets
}
