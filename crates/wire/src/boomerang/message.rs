//! The reservation message as a value, parsed and emitted.

use core::fmt;

use serde::{Deserialize, Serialize};

use super::error::ParseError;
use super::iana::{
    AddressFamily, MAGIC, MessageType, OptionType, QosFormat, VERSION, aggregation_flag, flag,
};
use super::keys::{Family, Keys, Shape};
use super::options::{OptionItem, Options};
use super::participation::OptionFlags;
use super::view::{QosView, View};
use crate::serialize::{Sequence, objects};
use crate::writer::{EmitError, Writer};

/// Flags of the container header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u16);

impl Flags {
    /// Whether a node refused the request.
    #[inline]
    pub fn is_nack(self) -> bool {
        self.0 & flag::NACK != 0
    }

    /// Whether the message is not answered.
    #[inline]
    pub fn is_no_echo(self) -> bool {
        self.0 & flag::NO_ECHO != 0
    }
}

/// Requested or available rates, bits per second.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Rates {
    /// Rate from the initiator to the far end.
    pub forward: u32,
    /// Rate from the far end to the initiator.
    pub reverse: u32,
}

impl Rates {
    /// Zero in both directions.
    pub const ZERO: Rates = Rates { forward: 0, reverse: 0 };

    /// Reads the rates from their wire format.
    #[inline]
    pub fn from_octets([f0, f1, f2, f3, r0, r1, r2, r3]: [u8; 8]) -> Rates {
        Rates {
            forward: u32::from_be_bytes([f0, f1, f2, f3]),
            reverse: u32::from_be_bytes([r0, r1, r2, r3]),
        }
    }

    /// Returns the rates in their wire format.
    #[inline]
    pub fn to_octets(self) -> [u8; 8] {
        let [f0, f1, f2, f3] = self.forward.to_be_bytes();
        let [r0, r1, r2, r3] = self.reverse.to_be_bytes();
        [f0, f1, f2, f3, r0, r1, r2, r3]
    }
}

/// A downgrade vector: pairs of rates in order of preference. A node sets pairs that it cannot grant to zero.
#[derive(Clone, Copy)]
pub enum Vector<'a> {
    /// Pairs as received.
    Wire(&'a [[u8; 8]]),
    /// Pairs to be emitted.
    Items(&'a [Rates]),
}

impl<'a> Vector<'a> {
    /// Iterates over the pairs.
    pub fn iter(self) -> impl Iterator<Item = Rates> + Clone + 'a {
        let (wire, items): (&[[u8; 8]], &[Rates]) = match self {
            Vector::Wire(wire) => (wire, &[]),
            Vector::Items(items) => (&[], items),
        };
        wire.iter().map(|octets| Rates::from_octets(*octets)).chain(items.iter().copied())
    }

    /// Number of pairs.
    pub fn len(self) -> usize {
        match self {
            Vector::Wire(wire) => wire.len(),
            Vector::Items(items) => items.len(),
        }
    }

    /// Whether the vector is empty, which is invalid in a message.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl PartialEq for Vector<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Vector<'_> {}

impl fmt::Debug for Vector<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The QoS part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qos<'a> {
    /// Two rates.
    Bitrate(Rates),
    /// Several pairs of rates. The first one that every node can grant is reserved.
    Downgrade {
        /// Policy field of the draft, without meaning.
        policy: u16,
        /// The pairs, 1 to 255.
        vector: Vector<'a>,
    },
}

/// A reservation message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation<'a> {
    /// Identifier of the request at the initiator.
    pub transaction_id: u32,
    /// Flags NACK and NO_ECHO.
    pub flags: Flags,
    /// Refresh interval, seconds; any node may lower it.
    pub refresh_interval: u8,
    /// Key, initially 1; see [`View::key`].
    pub key: u64,
    /// Flow classifier.
    pub classifier: Keys,
    /// Mask over the classifier.
    pub mask: Shape,
    /// Requested QoS.
    pub qos: Qos<'a>,
    /// Options. Everything from the first unknown option on belongs to that option.
    pub options: Options<'a>,
}

impl<'a> Reservation<'a> {
    /// Parses the data of an echo.
    pub fn parse(octets: &'a [u8]) -> Result<Reservation<'a>, ParseError> {
        let view = View::parse(octets)?;
        let mask = view.shape()?;
        view.options().check()?;
        Ok(Reservation {
            transaction_id: view.transaction_id(),
            flags: view.flags(),
            refresh_interval: view.refresh_interval(),
            key: view.key(),
            classifier: view.classifier(),
            mask,
            qos: match view.qos() {
                QosView::Bitrate(rates) => Qos::Bitrate(rates),
                QosView::Downgrade(vector) => {
                    Qos::Downgrade { policy: view.policy(), vector: Vector::Wire(vector) }
                }
            },
            options: view.options(),
        })
    }

    /// Length of the emitted message, octets; see [`emit`](Reservation::emit).
    pub fn buffer_len(&self) -> usize {
        let keys = self.classifier.family().map_or(0, Family::keys_len);
        let qos = match self.qos {
            Qos::Bitrate(_) => 8,
            Qos::Downgrade { vector, .. } => 4 + 8 * vector.len(),
        };
        super::offset::CLASSIFIER + 2 * keys + qos + self.options.len()
    }

    /// Writes the message to the start of `buffer`; returns its length.
    ///
    /// # Errors
    /// The buffer is too short, the families differ, the mask is invalid, or the downgrade vector is empty or too long.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let family = self.classifier.family()?;
        let mask = self.mask.keys(family)?;
        let mut writer = Writer::new(buffer);
        writer.put(MAGIC.to_be_bytes())?;
        writer.put(self.transaction_id.to_be_bytes())?;
        writer.put([MessageType::Reservation.code(), self.format(family)])?;
        writer.put(self.flags.0.to_be_bytes())?;
        writer.put([self.refresh_interval, VERSION, 0, 0])?;
        writer.put(self.key.to_be_bytes())?;
        self.classifier.emit(&mut writer)?;
        mask.emit(&mut writer)?;
        match self.qos {
            Qos::Bitrate(rates) => writer.put(rates.to_octets())?,
            Qos::Downgrade { policy, vector } => {
                let size = u8::try_from(vector.len()).map_err(|_| EmitError::TooLong)?;
                if size == 0 {
                    return Err(EmitError::Contradiction);
                }
                let [p0, p1] = policy.to_be_bytes();
                writer.put([size, p0, p1, 0])?;
                vector.iter().try_for_each(|rates| writer.put(rates.to_octets()))?;
            }
        }
        self.options.emit(family, &mut writer)?;
        Ok(writer.written().len())
    }

    fn format(&self, family: Family) -> u8 {
        let family = match family {
            Family::V4 => AddressFamily::Ipv4,
            Family::V6 => AddressFamily::Ipv6,
        };
        let qos = match self.qos {
            Qos::Bitrate(_) => QosFormat::Bitrate,
            Qos::Downgrade { .. } => QosFormat::Downgrade,
        };
        family.code() | qos.code()
    }
}

serialize_as!(Reservation<'_>, |it| {
    let rates = |rates: Rates| map! { "forward_bps": rates.forward, "reverse_bps": rates.reverse };
    let (bitrate, downgrade) = match it.qos {
        Qos::Bitrate(bitrate) => (Some(rates(bitrate)), None),
        Qos::Downgrade { vector, .. } => (None, Some(Sequence(vector.iter().map(rates)))),
    };
    map! {
        "transaction_id": it.transaction_id,
        "nack": it.flags.is_nack(),
        "no_echo": it.flags.is_no_echo(),
        "refresh_interval_s": it.refresh_interval,
        "key": it.key,
        "CLASSIFIER": it.classifier,
        "MASK": it.mask,
        "BITRATE": bitrate,
        "DOWNGRADE": downgrade,
        "options": objects(it.options.iter()),
    }
});

impl OptionItem<'_> {
    /// Returns the type of the option.
    pub fn option_type(&self) -> OptionType {
        match self {
            OptionItem::UserId(_) => OptionType::UserId,
            OptionItem::Aggregation(_) => OptionType::Aggregation,
            OptionItem::Participation(_) => OptionType::Participation,
            OptionItem::Token(_) => OptionType::Token,
            OptionItem::Unknown { code, .. } => OptionType::from_code(*code),
        }
    }
}

impl OptionFlags {
    /// Whether the flow leaves the aggregate.
    #[inline]
    pub fn leaves(self) -> bool {
        self.0 & aggregation_flag::LEAVES != 0
    }

    /// Whether the message makes the aggregate larger.
    #[inline]
    pub fn raises(self) -> bool {
        self.0 & aggregation_flag::RAISES != 0
    }
}
