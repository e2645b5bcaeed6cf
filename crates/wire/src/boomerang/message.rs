//! What a reservation message means, and how it is written.

use core::fmt;

use serde::{Deserialize, Serialize};

use super::error::ParseError;
use super::iana::{
    AddressFamily, MAGIC, MessageType, OptionType, QosFormat, VERSION, aggregation_flag, flag,
};
use super::keys::{Family, Keys, Shape};
use super::options::{OptionFlags, OptionItem, Options};
use super::view::{QosView, View};
use crate::writer::{EmitError, Writer};

/// The flags of the container header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Flags(pub u16);

impl Flags {
    /// Whether something was refused.
    #[inline]
    pub fn is_nack(self) -> bool {
        self.0 & flag::NACK != 0
    }

    /// Whether nobody shall answer.
    #[inline]
    pub fn is_no_echo(self) -> bool {
        self.0 & flag::NO_ECHO != 0
    }
}

/// What is asked for, or offered, bits per second.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Rates {
    /// From the initiating node to the far end.
    pub forward: u32,
    /// From the far end to the initiating node.
    pub reverse: u32,
}

impl Rates {
    /// Nothing either way.
    pub const ZERO: Rates = Rates { forward: 0, reverse: 0 };

    /// As they stand in a message.
    #[inline]
    pub fn from_octets([f0, f1, f2, f3, r0, r1, r2, r3]: [u8; 8]) -> Rates {
        Rates {
            forward: u32::from_be_bytes([f0, f1, f2, f3]),
            reverse: u32::from_be_bytes([r0, r1, r2, r3]),
        }
    }

    /// As they are written into one.
    #[inline]
    pub fn to_octets(self) -> [u8; 8] {
        let [f0, f1, f2, f3] = self.forward.to_be_bytes();
        let [r0, r1, r2, r3] = self.reverse.to_be_bytes();
        [f0, f1, f2, f3, r0, r1, r2, r3]
    }
}

/// A list of pairs of rates, the most wanted first; a pair that somebody cannot grant is zero.
#[derive(Clone, Copy)]
pub enum Vector<'a> {
    /// As it came.
    Wire(&'a [[u8; 8]]),
    /// To be written.
    Items(&'a [Rates]),
}

impl<'a> Vector<'a> {
    /// The pairs.
    pub fn iter(self) -> impl Iterator<Item = Rates> + Clone + 'a {
        let (wire, items): (&[[u8; 8]], &[Rates]) = match self {
            Vector::Wire(wire) => (wire, &[]),
            Vector::Items(items) => (&[], items),
        };
        wire.iter().map(|octets| Rates::from_octets(*octets)).chain(items.iter().copied())
    }

    /// How many there are.
    pub fn len(self) -> usize {
        match self {
            Vector::Wire(wire) => wire.len(),
            Vector::Items(items) => items.len(),
        }
    }

    /// Whether there is none, as no message may have it.
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

/// What a message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Qos<'a> {
    /// Two rates.
    Bitrate(Rates),
    /// Several pairs, of which the first that everybody can grant counts.
    Downgrade {
        /// As the draft has it, without meaning.
        policy: u16,
        /// The pairs; 1 to 255.
        vector: Vector<'a>,
    },
}

/// A reservation message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation<'a> {
    /// Names a request of the initiating node.
    pub transaction_id: u32,
    /// NACK and NO_ECHO.
    pub flags: Flags,
    /// Seconds until the next message is promised; any node may lower it.
    pub refresh_interval: u8,
    /// 1 at first; see [`View::key`].
    pub key: u64,
    /// Which packets.
    pub classifier: Keys,
    /// How much of the classifier matters.
    pub mask: Shape,
    /// What they shall get.
    pub qos: Qos<'a>,
    /// Options; all that is behind the first unknown one belongs to it.
    pub options: Options<'a>,
}

impl<'a> Reservation<'a> {
    /// Reads the data of an echo.
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

    /// Octets that [`emit`](Reservation::emit) writes.
    pub fn buffer_len(&self) -> usize {
        let keys = self.classifier.family().map_or(0, Family::keys_len);
        let qos = match self.qos {
            Qos::Bitrate(_) => 8,
            Qos::Downgrade { vector, .. } => 4 + 8 * vector.len(),
        };
        super::at::CLASSIFIER + 2 * keys + qos + self.options.len()
    }

    /// Writes the message to the start of `buffer` and gives its length.
    ///
    /// # Errors
    /// The buffer is too short; the families differ; the mask makes no sense; the list of downgrades is empty or too
    /// long.
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

impl OptionItem<'_> {
    /// Its type.
    pub fn option_type(&self) -> OptionType {
        match self {
            OptionItem::UserId(_) => OptionType::UserId,
            OptionItem::Aggregation(_) => OptionType::Aggregation,
            OptionItem::Participation(_) => OptionType::Participation,
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
