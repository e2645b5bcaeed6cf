//! What may follow the QoS part of a message.
//!
//! Options have no length field. So behind one that is not known here nothing can be read any more: the unknown option is
//! all the rest.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use super::error::{ErrorKind, ParseError};
use super::iana::OptionType;
use super::keys::{Family, Keys, Shape};
use super::participation::Participation;
use crate::writer::{EmitError, Writer};

/// Octets in front of an option: its type and its flags.
const HEADER: usize = 4;

/// The flags of an option.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OptionFlags(pub u16);

/// Who asks, and the proof of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UserId {
    /// Without meaning; kept as they came.
    pub flags: OptionFlags,
    /// Who.
    pub user: [u8; 8],
    /// The first octets of a keyed digest over what no node may edit.
    pub credential: [u8; 8],
}

impl UserId {
    const LEN: usize = HEADER + 16;
}

/// An aggregating node's note that this message's flow belongs to an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Aggregation {
    /// See [`super::iana::aggregation_flag`].
    pub flags: OptionFlags,
    /// The aggregating node, of the message's family.
    pub node: IpAddr,
    /// Its name for the aggregate.
    pub transaction_id: u32,
    /// Which packets: with the mask, those of all its flows.
    pub classifier: Keys,
    /// How much of the classifier matters, as it came: aggregates of others are not ours to judge before we keep one.
    pub mask: Keys,
    /// What they need together, bits per second.
    pub rate: u32,
}

impl Aggregation {
    /// Octets of the option.
    pub const fn buffer_len(family: Family) -> usize {
        HEADER + family.address_len() + 4 + 2 * family.keys_len() + 4
    }

    /// What the mask means, if it makes sense.
    pub fn shape(&self) -> Option<Shape> {
        let mut octets = [0; 40];
        let length = self.mask.family().ok()?.keys_len();
        let octets = octets.get_mut(..length)?;
        self.mask.emit(&mut Writer::new(octets)).ok()?;
        Shape::judge(octets, 0).ok()
    }

    fn parse(body: &[u8], flags: OptionFlags, family: Family) -> Option<Aggregation> {
        let (node, rest) = body.split_at_checked(family.address_len())?;
        let (transaction, rest) = rest.split_first_chunk::<4>()?;
        let (classifier, rest) = rest.split_at_checked(family.keys_len())?;
        let (mask, rest) = rest.split_at_checked(family.keys_len())?;
        let node: IpAddr = match family {
            Family::V4 => Ipv4Addr::from(*node.first_chunk::<4>()?).into(),
            Family::V6 => Ipv6Addr::from(*node.first_chunk::<16>()?).into(),
        };
        Some(Aggregation {
            flags,
            node,
            transaction_id: u32::from_be_bytes(*transaction),
            classifier: Keys::from_octets(classifier)?,
            mask: Keys::from_octets(mask)?,
            rate: u32::from_be_bytes(*rest.first_chunk::<4>()?),
        })
    }
}

/// One option.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum OptionItem<'a> {
    /// Type 1.
    UserId(UserId),
    /// Type 2.
    Aggregation(Aggregation),
    /// Type 3.
    Participation(Participation),
    /// A type that nobody here knows, with all that follows.
    Unknown {
        /// Its type.
        code: u16,
        /// Its flags, its body, and whatever stands behind.
        rest: &'a [u8],
    },
}

impl OptionItem<'_> {
    /// Octets that it takes in a message of this family.
    pub fn buffer_len(&self, family: Family) -> usize {
        match self {
            OptionItem::UserId(_) => UserId::LEN,
            OptionItem::Aggregation(_) => Aggregation::buffer_len(family),
            OptionItem::Participation(_) => Participation::buffer_len(family),
            OptionItem::Unknown { rest, .. } => 2 + rest.len(),
        }
    }

    /// Writes it to the start of `buffer`.
    ///
    /// # Errors
    /// The buffer is too short, or its addresses are of another family.
    pub fn emit(&self, family: Family, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let mut writer = Writer::new(buffer);
        self.write(family, &mut writer)?;
        Ok(writer.written().len())
    }

    fn write(&self, family: Family, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        writer.put(self.option_type().code().to_be_bytes())?;
        match self {
            OptionItem::UserId(id) => {
                writer.put(id.flags.0.to_be_bytes())?;
                writer.put(id.user)?;
                writer.put(id.credential)
            }
            OptionItem::Aggregation(option) => {
                let families = [option.classifier.family()?, option.mask.family()?];
                if families != [family; 2] || Family::of(option.node) != family {
                    return Err(EmitError::Contradiction);
                }
                writer.put(option.flags.0.to_be_bytes())?;
                match option.node {
                    IpAddr::V4(node) => writer.put(node.octets())?,
                    IpAddr::V6(node) => writer.put(node.octets())?,
                }
                writer.put(option.transaction_id.to_be_bytes())?;
                option.classifier.emit(writer)?;
                option.mask.emit(writer)?;
                writer.put(option.rate.to_be_bytes())
            }
            OptionItem::Participation(record) => record.write(family, writer),
            OptionItem::Unknown { code, rest } => match OptionType::from_code(*code) {
                OptionType::Unknown(_) => writer.put_slice(rest),
                _ => Err(EmitError::Contradiction),
            },
        }
    }
}

impl fmt::Debug for OptionItem<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionItem::UserId(id) => id.fmt(f),
            OptionItem::Aggregation(option) => option.fmt(f),
            OptionItem::Participation(record) => record.fmt(f),
            OptionItem::Unknown { code, rest } => {
                write!(f, "option {code} and {} octets", rest.len())
            }
        }
    }
}

/// The options of a message.
#[derive(Clone, Copy)]
pub enum Options<'a> {
    /// As they came.
    Wire {
        /// Their octets.
        octets: &'a [u8],
        /// The family of the message.
        family: Family,
        /// Where they begin in the message, for errors.
        at: usize,
    },
    /// To be written. An unknown one can only be the last.
    Items(&'a [OptionItem<'a>]),
}

impl<'a> Options<'a> {
    /// No options.
    pub const NONE: Options<'a> = Options::Items(&[]);

    /// The options, until the end or until one that is cut off.
    pub fn iter(&self) -> OptionsIter<'a> {
        OptionsIter { options: *self }
    }

    /// Whether the last one is whole.
    pub fn check(&self) -> Result<(), ParseError> {
        let mut iter = self.iter();
        while iter.next().is_some() {}
        match iter.options {
            Options::Wire { octets: [_, ..], at, .. } => {
                Err(ParseError::new(ErrorKind::OptionLength, at))
            }
            _ => Ok(()),
        }
    }

    /// The participation record, and where it begins in the message.
    pub fn participation(&self) -> Option<(usize, Participation)> {
        let mut iter = self.iter();
        loop {
            let at = match iter.options {
                Options::Wire { at, .. } => at,
                Options::Items(_) => 0,
            };
            if let OptionItem::Participation(record) = iter.next()? {
                return Some((at, record));
            }
        }
    }

    /// Octets that they take.
    fn family_len(&self, family: Family) -> usize {
        match self {
            Options::Wire { octets, .. } => octets.len(),
            Options::Items(items) => items.iter().map(|item| item.buffer_len(family)).sum(),
        }
    }

    pub(super) fn len(&self) -> usize {
        let family = match self {
            Options::Wire { family, .. } => *family,
            Options::Items(items) => items
                .iter()
                .find_map(|item| match item {
                    OptionItem::Aggregation(option) => Some(Family::of(option.node)),
                    OptionItem::Participation(record) => Some(Family::of(record.initiator)),
                    _ => None,
                })
                .unwrap_or(Family::V4),
        };
        self.family_len(family)
    }

    pub(super) fn emit(&self, family: Family, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        if let Options::Items([items @ .., _]) = self
            && items.iter().any(|item| matches!(item, OptionItem::Unknown { .. }))
        {
            return Err(EmitError::Contradiction);
        }
        self.iter().try_for_each(|item| item.write(family, writer))
    }
}

impl PartialEq for Options<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Options<'_> {}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Iterates over [`Options`].
#[derive(Clone, Debug)]
pub struct OptionsIter<'a> {
    options: Options<'a>,
}

impl<'a> Iterator for OptionsIter<'a> {
    type Item = OptionItem<'a>;

    fn next(&mut self) -> Option<OptionItem<'a>> {
        let (octets, family, at) = match &mut self.options {
            Options::Items(items) => {
                let (first, rest) = items.split_first()?;
                *items = rest;
                return Some(*first);
            }
            Options::Wire { octets, family, at } => (octets, *family, at),
        };
        let (&[t0, t1], rest) = octets.split_first_chunk::<2>()?;
        let code = u16::from_be_bytes([t0, t1]);
        let (item, length) = match OptionType::from_code(code) {
            OptionType::Unknown(code) => (OptionItem::Unknown { code, rest }, octets.len()),
            known => {
                let (&[f0, f1], body) = rest.split_first_chunk::<2>()?;
                let flags = OptionFlags(u16::from_be_bytes([f0, f1]));
                match known {
                    OptionType::UserId => {
                        let (user, more) = body.split_first_chunk::<8>()?;
                        let credential = *more.first_chunk::<8>()?;
                        let id = UserId { flags, user: *user, credential };
                        (OptionItem::UserId(id), UserId::LEN)
                    }
                    OptionType::Participation => {
                        let record = Participation::parse(body, flags, family)?;
                        let length = Participation::buffer_len(family);
                        (OptionItem::Participation(record), length)
                    }
                    _ => {
                        let option = Aggregation::parse(body, flags, family)?;
                        (OptionItem::Aggregation(option), Aggregation::buffer_len(family))
                    }
                }
            }
        };
        *octets = octets.get(length..).unwrap_or(&[]);
        *at += length;
        Some(item)
    }
}
