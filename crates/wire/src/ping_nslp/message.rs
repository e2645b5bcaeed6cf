//! A message: the list of requested objects, and the records that nodes have appended.

use core::fmt;
use core::net::{IpAddr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use super::error::{ErrorKind, ParseError};
use super::iana::ObjectType;
use crate::serialize::{Sequence, Text};
use crate::writer::{EmitError, Writer};

/// Length of an object's entry in the list, octets.
const OBJECT: usize = 4;

/// Object list that requests addresses and times.
pub const STANDARD: [[u8; OBJECT]; 2] = [[0, 1, 0, 16], [0, 2, 0, 8]];

/// Object list that also requests the available bandwidth; this object is an extension of Earmark.
pub const WITH_BANDWIDTH: [[u8; OBJECT]; 3] = [[0, 1, 0, 16], [0, 2, 0, 8], [0xff, 1, 0, 8]];

/// Bit of an available bandwidth that is set if the node knows the value.
const KNOWN: u64 = 1 << 63;

/// Version, which determines the form of the header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Version {
    /// Version of the draft, with a length of eight bits.
    V1,
    /// Version of Earmark, with a length of sixteen bits.
    V2,
}

impl Version {
    const fn number(self) -> u8 {
        match self {
            Version::V1 => 1,
            Version::V2 => 2,
        }
    }

    /// Length of the header, octets.
    pub(super) const fn header(self) -> usize {
        match self {
            Version::V1 => 8,
            Version::V2 => 12,
        }
    }

    /// Maximum length of a message, octets.
    pub(super) const fn max_len(self) -> usize {
        match self {
            Version::V1 => 0xff,
            Version::V2 => 0xffff,
        }
    }
}

/// A timestamp of a node's clock. Its epoch is known to the node only, so that only timestamps of one node can be
/// compared.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Timestamp {
    /// Seconds.
    pub seconds: u32,
    /// Microseconds of the second.
    pub microseconds: u32,
}

/// Values that a node writes into its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Address of the node.
    pub address: IpAddr,
    /// Time at the node.
    pub time: Timestamp,
    /// Bandwidth that the node could still reserve for packets in the direction of the message, bit/s; at most 2^63 -
    /// 1.
    pub available: Option<u64>,
}

impl NodeRecord {
    /// Writes the octets of one object; zeros for an unknown object.
    pub(super) fn write(
        &self,
        writer: &mut Writer<'_>,
        object: [u8; OBJECT],
    ) -> Result<(), EmitError> {
        let (object_type, len) = split(object);
        match object_type {
            ObjectType::Address => {
                let address = match self.address {
                    IpAddr::V4(address) => address.to_ipv6_mapped(),
                    IpAddr::V6(address) => address,
                };
                writer.put(address.octets())
            }
            ObjectType::Timestamp => {
                writer.put(self.time.seconds.to_be_bytes())?;
                writer.put(self.time.microseconds.to_be_bytes())
            }
            ObjectType::Bandwidth => {
                let value = self.available.map_or(0, |bandwidth| bandwidth | KNOWN);
                writer.put(value.to_be_bytes())
            }
            ObjectType::Unknown(_) => (0..len).try_for_each(|_| writer.put([0])),
        }
    }
}

/// A Ping NSLP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping<'a> {
    /// Version of the header.
    pub version: Version,
    /// Hop count: nodes passed, in both directions; 255 if there are more.
    pub hops: u8,
    /// Sequence number, chosen by the initiator.
    pub sequence: u32,
    /// Objects of each record: type and length, 16 bits each. At most 255.
    pub objects: &'a [[u8; OBJECT]],
    /// Records, oldest first; see [`records`](Ping::records).
    pub data: &'a [u8],
}

impl<'a> Ping<'a> {
    /// Parses the data delivered by GIST. Up to three octets of padding may follow the message.
    ///
    /// # Errors
    /// See [`ErrorKind`].
    pub fn parse(octets: &'a [u8]) -> Result<Ping<'a>, ParseError> {
        let truncated = ParseError::new(ErrorKind::Truncated, octets.len());
        let version = match octets.first() {
            None => return Err(truncated),
            Some(1) => Version::V1,
            Some(2) => Version::V2,
            Some(_) => return Err(ParseError::new(ErrorKind::Version, 0)),
        };
        let header = octets.get(..version.header()).ok_or(truncated)?;
        let (hops, length, count) = match *header {
            [_, hops, length, count, _, _, _, _] => (hops, usize::from(length), count),
            [_, hops, l0, l1, count, ..] => {
                (hops, usize::from(u16::from_be_bytes([l0, l1])), count)
            }
            _ => return Err(truncated),
        };
        let sequence = header.last_chunk().copied().map_or(0, u32::from_be_bytes);
        let length_error = ParseError::new(ErrorKind::Length, 2);
        let body = octets.get(version.header()..length).ok_or(length_error)?;
        if octets.len() - length >= OBJECT {
            return Err(length_error);
        }
        let list = usize::from(count) * OBJECT;
        let (objects, data) = body.split_at_checked(list).ok_or(length_error)?;
        let (objects, _) = objects.as_chunks();
        let ping = Ping { version, hops, sequence, objects, data };
        ping.check()?;
        Ok(ping)
    }

    /// Length of a record, octets.
    pub fn record_len(&self) -> usize {
        self.objects.iter().map(|object| usize::from(split(*object).1)).sum()
    }

    /// Iterates over the records, oldest first.
    pub fn records(&self) -> impl Iterator<Item = Record<'a>> + Clone {
        let objects = self.objects;
        // An empty object list has empty records, and no data.
        self.data.chunks(self.record_len().max(1)).map(move |octets| Record { objects, octets })
    }

    /// Length of the message after a record is appended, octets; its present length if there is no room for one.
    pub fn appended_len(&self) -> usize {
        let longer = self.buffer_len() + self.record_len();
        if longer > self.version.max_len() { self.buffer_len() } else { longer }
    }

    /// Length of the emitted message, octets; see [`emit`](Ping::emit).
    pub fn buffer_len(&self) -> usize {
        self.version.header() + self.objects.as_flattened().len() + self.data.len()
    }

    /// Writes the message to the start of `buffer`; returns its length.
    ///
    /// # Errors
    /// The buffer is too short; the message or the list is too long; the lengths of objects and records are
    /// inconsistent.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        self.check().map_err(|_| EmitError::Contradiction)?;
        let length = u16::try_from(self.buffer_len()).map_err(|_| EmitError::TooLong)?;
        let count = u8::try_from(self.objects.len()).map_err(|_| EmitError::TooLong)?;
        let mut writer = Writer::new(buffer);
        match self.version {
            Version::V1 => {
                let length = u8::try_from(length).map_err(|_| EmitError::TooLong)?;
                writer.put([1, self.hops, length, count])?;
            }
            Version::V2 => {
                let [l0, l1] = length.to_be_bytes();
                writer.put([2, self.hops, l0, l1, count, 0, 0, 0])?;
            }
        }
        writer.put(self.sequence.to_be_bytes())?;
        writer.put_slice(self.objects.as_flattened())?;
        writer.put_slice(self.data)?;
        Ok(writer.written().len())
    }

    /// Checks the lengths of objects, and that all records are complete.
    fn check(&self) -> Result<(), ParseError> {
        for (i, object) in self.objects.iter().enumerate() {
            let (object_type, len) = split(*object);
            if object_type.fixed_len().is_some_and(|fixed| fixed != len) {
                let offset = self.version.header() + i * OBJECT + 2;
                return Err(ParseError::new(ErrorKind::ObjectLength, offset));
            }
        }
        let whole = match self.record_len() {
            0 => self.data.is_empty(),
            length => self.data.len().is_multiple_of(length),
        };
        if whole { Ok(()) } else { Err(ParseError::new(ErrorKind::Records, self.buffer_len())) }
    }
}

/// The record of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    objects: &'a [[u8; OBJECT]],
    octets: &'a [u8],
}

impl<'a> Record<'a> {
    /// Address of the node, if requested; IPv4-mapped addresses as IPv4.
    pub fn address(&self) -> Option<IpAddr> {
        let octets = <[u8; 16]>::try_from(self.find(ObjectType::Address)?).ok()?;
        Some(Ipv6Addr::from(octets).to_canonical())
    }

    /// Time at the node, if requested.
    pub fn time(&self) -> Option<Timestamp> {
        let (seconds, rest) = self.find(ObjectType::Timestamp)?.split_first_chunk()?;
        Some(Timestamp {
            seconds: u32::from_be_bytes(*seconds),
            microseconds: u32::from_be_bytes(*rest.first_chunk()?),
        })
    }

    /// Available bandwidth, bit/s; `None` if it was not requested, or the node does not know it.
    pub fn available(&self) -> Option<u64> {
        let octets = <[u8; 8]>::try_from(self.find(ObjectType::Bandwidth)?).ok()?;
        let value = u64::from_be_bytes(octets);
        (value & KNOWN != 0).then_some(value & !KNOWN)
    }

    /// Returns the octets of the first object of a type.
    pub fn find(&self, object_type: ObjectType) -> Option<&'a [u8]> {
        let mut at = 0;
        for object in self.objects {
            let (found, len) = split(*object);
            let end = at + usize::from(len);
            if found == object_type {
                return self.octets.get(at..end);
            }
            at = end;
        }
        None
    }
}

/// Splits an entry of the list into type and length.
fn split([t0, t1, l0, l1]: [u8; OBJECT]) -> (ObjectType, u16) {
    (ObjectType::from_code(u16::from_be_bytes([t0, t1])), u16::from_be_bytes([l0, l1]))
}

serialize_as!(Ping<'_>, |it| map! {
    "version": it.version.number(),
    "hops": it.hops,
    "sequence": it.sequence,
    "records": Sequence(it.records()),
});

serialize_as!(Record<'_>, |it| map! {
    "address": it.address(),
    "time": it.time().map(|Timestamp { seconds, microseconds }| {
        Text(fmt::from_fn(move |f| write!(f, "{seconds}.{microseconds:06}")))
    }),
    "available_bps": it.available(),
});
