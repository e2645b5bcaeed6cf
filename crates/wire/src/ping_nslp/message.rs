//! A message: what is asked of each node, and what they have said.

use core::net::{IpAddr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use super::error::{ErrorKind, ParseError};
use super::iana::ObjectType;
use crate::writer::{EmitError, Writer};

/// Octets of the header of an object in the list.
const OBJECT: usize = 4;

/// The list that asks for addresses and times.
pub const STANDARD: [[u8; OBJECT]; 2] = [[0, 1, 0, 16], [0, 2, 0, 8]];

/// The list that also asks what could still be reserved, which is ours.
pub const WITH_BANDWIDTH: [[u8; OBJECT]; 3] = [[0, 1, 0, 16], [0, 2, 0, 8], [0xff, 1, 0, 8]];

/// The bit of an available bandwidth that says that the node knows one.
const KNOWN: u64 = 1 << 63;

/// Which form the header has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Version {
    /// Of the draft: a length of eight bits.
    V1,
    /// Ours: a length of sixteen bits.
    V2,
}

impl Version {
    /// Octets of the header.
    pub(super) const fn header(self) -> usize {
        match self {
            Version::V1 => 8,
            Version::V2 => 12,
        }
    }

    /// The longest message.
    pub(super) const fn longest(self) -> usize {
        match self {
            Version::V1 => 0xff,
            Version::V2 => 0xffff,
        }
    }
}

/// A time of a node's clock. From when on it counts only the node knows, so that only its own times can be compared.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Timestamp {
    /// Seconds.
    pub seconds: u32,
    /// Microseconds of the second.
    pub microseconds: u32,
}

/// What a node says when the message comes by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Visit {
    /// Its address.
    pub address: IpAddr,
    /// Its time.
    pub time: Timestamp,
    /// What it could still reserve for packets that go the way the message has come, bit/s; at most 2^63 - 1.
    pub available: Option<u64>,
}

impl Visit {
    /// Writes the octets of one object; of an unknown one, zeros.
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

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ping<'a> {
    /// The form of its header.
    pub version: Version,
    /// Nodes that it has passed, both ways; 255 where there are more.
    pub hops: u8,
    /// Tells the initiator's messages apart.
    pub sequence: u32,
    /// What each node appends: type and length, 16 bits each. At most 255.
    pub objects: &'a [[u8; OBJECT]],
    /// What they have appended, oldest first; see [`records`](Ping::records).
    pub data: &'a [u8],
}

impl<'a> Ping<'a> {
    /// Reads the data that GIST has delivered; up to three octets of padding may follow the message.
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

    /// Octets of a record.
    pub fn record_len(&self) -> usize {
        self.objects.iter().map(|object| usize::from(split(*object).1)).sum()
    }

    /// The records, oldest first.
    pub fn records(&self) -> impl Iterator<Item = Record<'a>> + Clone {
        let objects = self.objects;
        // A list of nothing has records of nothing, and no data.
        self.data.chunks(self.record_len().max(1)).map(move |octets| Record { objects, octets })
    }

    /// Octets that the message has once a record is appended; those that it has where there is no room for one.
    pub fn appended_len(&self) -> usize {
        let longer = self.buffer_len() + self.record_len();
        if longer > self.version.longest() { self.buffer_len() } else { longer }
    }

    /// Octets that [`emit`](Ping::emit) writes.
    pub fn buffer_len(&self) -> usize {
        self.version.header() + self.objects.as_flattened().len() + self.data.len()
    }

    /// Writes the message to the start of `buffer` and gives its length.
    ///
    /// # Errors
    /// The buffer is too short; the message or the list is too long; the lengths of objects and records do not fit.
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

    /// Whether objects are as long as they must be, and records whole.
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

/// What a node has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    objects: &'a [[u8; OBJECT]],
    octets: &'a [u8],
}

impl<'a> Record<'a> {
    /// Its address, where that was asked for; IPv4 as such.
    pub fn address(&self) -> Option<IpAddr> {
        let octets = <[u8; 16]>::try_from(self.find(ObjectType::Address)?).ok()?;
        Some(Ipv6Addr::from(octets).to_canonical())
    }

    /// Its time, where that was asked for.
    pub fn time(&self) -> Option<Timestamp> {
        let (seconds, rest) = self.find(ObjectType::Timestamp)?.split_first_chunk()?;
        Some(Timestamp {
            seconds: u32::from_be_bytes(*seconds),
            microseconds: u32::from_be_bytes(*rest.first_chunk()?),
        })
    }

    /// What it could still reserve, bit/s; `None` where that was not asked for, or the node does not say.
    pub fn available(&self) -> Option<u64> {
        let octets = <[u8; 8]>::try_from(self.find(ObjectType::Bandwidth)?).ok()?;
        let value = u64::from_be_bytes(octets);
        (value & KNOWN != 0).then_some(value & !KNOWN)
    }

    /// The octets of the first object of a type.
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

/// Type and length of an object in the list.
fn split([t0, t1, l0, l1]: [u8; OBJECT]) -> (ObjectType, u16) {
    (ObjectType::from_code(u16::from_be_bytes([t0, t1])), u16::from_be_bytes([l0, l1]))
}
