//! Options, which follow the QoS part of a message.
//!
//! Options have no length field. The end of an unknown option is therefore unknown, and the option takes the rest of
//! the message.

use core::fmt::{self, Write as _};
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use serde::{Serialize, Serializer};

use super::error::{ErrorKind, ParseError};
use super::iana::OptionType;
use super::keys::{Family, Keys, Shape};
use super::participation::{OptionFlags, Participation};
use crate::serialize::hex;
use crate::writer::{EmitError, Writer};

/// Length of an option's header, type and flags, octets.
const HEADER: usize = 4;

/// User identification with a credential.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct UserId {
    /// Flags. Nodes of Earmark take them as a sequence number, which the credential covers.
    #[serde(skip)]
    pub flags: OptionFlags,
    /// User identifier.
    #[serde(serialize_with = "text")]
    pub user: [u8; 8],
    /// Credential: the first octets of a keyed digest over what the message claims.
    #[serde(serialize_with = "hex")]
    pub credential: [u8; 8],
}

impl UserId {
    const LEN: usize = HEADER + 16;
}

/// Serializes the text before the first NUL. Octets that are not UTF-8 become replacement characters.
fn text<S: Serializer>(octets: &[u8; 8], serializer: S) -> Result<S::Ok, S::Error> {
    let text = octets.split(|&octet| octet == 0).next().unwrap_or_default();
    serializer.collect_str(&fmt::from_fn(|f| {
        text.utf8_chunks().try_for_each(|chunk| {
            f.write_str(chunk.valid())?;
            if chunk.invalid().is_empty() { Ok(()) } else { f.write_char('\u{fffd}') }
        })
    }))
}

/// Aggregation option: the aggregator states that this message's flow belongs to an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Aggregation {
    /// Flags; see [`super::iana::aggregation_flag`].
    pub flags: OptionFlags,
    /// Address of the aggregator, of the message's family.
    pub node: IpAddr,
    /// Identifier of the aggregate at the aggregator.
    pub transaction_id: u32,
    /// Classifier of the aggregate: with the mask, the packets of all its flows.
    pub classifier: Keys,
    /// Mask over the classifier as received. It is not validated, because this node does not keep other nodes'
    /// aggregates.
    pub mask: Keys,
    /// Total rate of the flows, bits per second.
    pub rate: u32,
}

impl Aggregation {
    /// Length of the option, octets.
    pub const fn buffer_len(family: Family) -> usize {
        HEADER + family.address_len() + 4 + 2 * family.keys_len() + 4
    }

    /// Returns the mask if it is valid.
    pub fn shape(&self) -> Option<Shape> {
        let mut octets = [0; 40];
        let length = self.mask.family().ok()?.keys_len();
        let octets = octets.get_mut(..length)?;
        self.mask.emit(&mut Writer::new(octets)).ok()?;
        Shape::from_mask(octets, 0).ok()
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

serialize_as!(Aggregation, |it| {
    let mask = it.shape();
    map! {
        "source": it.classifier.source,
        "source_port": it.classifier.source_port,
        "destination": it.classifier.destination,
        "destination_port": it.classifier.destination_port,
        "protocol": it.classifier.protocol,
        "tos": it.classifier.tos,
        "node": it.node,
        "transaction_id": it.transaction_id,
        "rate_bps": it.rate,
        "leaves": it.flags.leaves(),
        "raises": it.flags.raises(),
        "source_bits"?: mask.map(|mask| mask.source),
        "destination_bits"?: mask.map(|mask| mask.destination),
    }
});

/// One option.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(tag = "class", rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OptionItem<'a> {
    /// Type 1.
    UserId(UserId),
    /// Type 2.
    Aggregation(Aggregation),
    /// Type 3.
    Participation(Participation),
    /// Type 4: a token that proves the name of the user, 1 to 65 535 octets. The flags have its length; zeros complete the
    /// last word.
    Token(#[serde(rename = "octets", serialize_with = "length")] &'a [u8]),
    /// An option of unknown type, with the rest of the message.
    Unknown {
        /// Option type.
        #[serde(rename = "option")]
        code: u16,
        /// Flags, body and everything behind it.
        #[serde(rename = "octets", serialize_with = "length")]
        rest: &'a [u8],
    },
}

fn length<S: Serializer>(octets: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
    octets.len().serialize(serializer)
}

impl OptionItem<'_> {
    /// Length of the option in a message of this family, octets.
    pub fn buffer_len(&self, family: Family) -> usize {
        match self {
            OptionItem::UserId(_) => UserId::LEN,
            OptionItem::Aggregation(_) => Aggregation::buffer_len(family),
            OptionItem::Participation(_) => Participation::buffer_len(family),
            OptionItem::Token(token) => token_len(token),
            OptionItem::Unknown { rest, .. } => 2 + rest.len(),
        }
    }

    /// Writes the option to the start of `buffer`; returns its length.
    ///
    /// # Errors
    /// The buffer is too short, or the option's addresses are of another family.
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
            OptionItem::Token(token) => {
                let length = u16::try_from(token.len()).map_err(|_| EmitError::TooLong)?;
                if length == 0 {
                    return Err(EmitError::Contradiction);
                }
                writer.put(length.to_be_bytes())?;
                writer.put_slice(token)?;
                writer.put_slice(&[0; 3][..token_len(token) - HEADER - token.len()])
            }
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
            OptionItem::Token(token) => write!(f, "token of {} octets", token.len()),
            OptionItem::Unknown { code, rest } => {
                write!(f, "option {code} and {} octets", rest.len())
            }
        }
    }
}

/// Length of the option with a token, octets.
fn token_len(token: &[u8]) -> usize {
    HEADER + token.len().next_multiple_of(4)
}

/// The options of a message.
#[derive(Clone, Copy)]
pub enum Options<'a> {
    /// Options as received.
    Wire {
        /// Octets of the options.
        octets: &'a [u8],
        /// Address family of the message.
        family: Family,
        /// Offset of the options in the message, for errors.
        at: usize,
    },
    /// Options to be emitted. An unknown one is valid only as the last.
    Items(&'a [OptionItem<'a>]),
}

impl<'a> Options<'a> {
    /// No options.
    pub const NONE: Options<'a> = Options::Items(&[]);

    /// Iterates over the options up to the end or up to a truncated one.
    pub fn iter(&self) -> OptionsIter<'a> {
        OptionsIter { options: *self }
    }

    /// Checks that the last option is complete.
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

    /// Returns the token. A truncated one is empty, which no token is.
    pub fn token(&self) -> Option<&'a [u8]> {
        let mut iter = self.iter();
        for option in iter.by_ref() {
            if let OptionItem::Token(token) = option {
                return Some(token);
            }
        }
        let Options::Wire { octets: [t0, t1, ..], .. } = iter.options else { return None };
        let truncated = OptionType::from_code(u16::from_be_bytes([*t0, *t1]));
        (truncated == OptionType::Token).then_some(&[])
    }

    /// Returns the participation record and its offset in the message.
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

    /// Length of the options in a message of this family, octets.
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

/// Iterator over [`Options`].
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
                    OptionType::Token => {
                        let token = body.get(..usize::from(flags.0)).filter(|t| !t.is_empty())?;
                        let length = token_len(token);
                        // The padding is part of the option.
                        octets.get(..length)?;
                        (OptionItem::Token(token), length)
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
