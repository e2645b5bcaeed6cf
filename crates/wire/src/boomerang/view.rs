//! A view of a received message that reads single fields.

use super::error::{ErrorKind, ParseError};
use super::iana::{AddressFamily, MAGIC, MessageType, QosFormat, VERSION};
use super::keys::{Family, Keys, Shape};
use super::message::{Flags, Rates};
use super::offset;
use super::options::Options;

/// A reservation message with checked lengths and code points, so that reading its fields cannot fail. Mask and options
/// have not been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<'a> {
    pub(super) octets: &'a [u8],
    pub(super) family: Family,
    pub(super) is_vector: bool,
    /// Offset of the options.
    pub(super) options: usize,
}

/// The QoS part of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosView<'a> {
    /// Two rates.
    Bitrate(Rates),
    /// Pairs of rates, eight octets each, in order of preference.
    Downgrade(&'a [[u8; 8]]),
}

impl<'a> View<'a> {
    /// Parses the data of an echo up to the options.
    #[inline]
    pub fn parse(octets: &'a [u8]) -> Result<View<'a>, ParseError> {
        let Some(head) = octets.first_chunk::<{ offset::CLASSIFIER }>() else {
            return Err(Self::too_short(octets));
        };
        let [m0, m1, m2, m3, ..] = *head;
        if u32::from_be_bytes([m0, m1, m2, m3]) != MAGIC {
            return Err(ParseError::new(ErrorKind::Magic, offset::MAGIC));
        }
        if head[offset::TYPE] != MessageType::Reservation.code() {
            return Err(ParseError::new(ErrorKind::Type, offset::TYPE));
        }
        let family = match AddressFamily::from_code(head[offset::FORMAT] & 0x0f) {
            AddressFamily::Ipv4 => Family::V4,
            AddressFamily::Ipv6 => Family::V6,
            AddressFamily::Unknown(_) => {
                return Err(ParseError::new(ErrorKind::Family, offset::FORMAT));
            }
        };
        let is_vector = match QosFormat::from_code(head[offset::FORMAT] & 0xf0) {
            QosFormat::Bitrate => false,
            QosFormat::Downgrade => true,
            _ => return Err(ParseError::new(ErrorKind::Qos, offset::FORMAT)),
        };
        if head[offset::VERSION] != VERSION {
            return Err(ParseError::new(ErrorKind::Version, offset::VERSION));
        }
        let qos = offset::CLASSIFIER + 2 * family.keys_len();
        let options = if is_vector {
            let size =
                *octets.get(qos).ok_or(ParseError::new(ErrorKind::Truncated, octets.len()))?;
            if size == 0 {
                return Err(ParseError::new(ErrorKind::EmptyVector, qos));
            }
            qos + 4 + 8 * usize::from(size)
        } else {
            qos + 8
        };
        if octets.len() < options {
            return Err(ParseError::new(ErrorKind::Truncated, octets.len()));
        }
        Ok(View { octets, family, is_vector, options })
    }

    /// Returns the error of a message that ends within its headers. A missing MAGIC comes first.
    #[cold]
    fn too_short(octets: &[u8]) -> ParseError {
        match octets.first_chunk::<4>() {
            Some(magic) if *magic != MAGIC.to_be_bytes() => {
                ParseError::new(ErrorKind::Magic, offset::MAGIC)
            }
            _ => ParseError::new(ErrorKind::Truncated, octets.len()),
        }
    }

    /// Returns `N` octets at an offset within the checked length; zeros if it were outside.
    #[inline]
    fn chunk<const N: usize>(&self, at: usize) -> [u8; N] {
        self.octets.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }

    /// Identifier of the request at the initiator.
    #[inline]
    pub fn transaction_id(&self) -> u32 {
        u32::from_be_bytes(self.chunk(offset::TRANSACTION))
    }

    /// Flags of the container header.
    #[inline]
    pub fn flags(&self) -> Flags {
        Flags(u16::from_be_bytes(self.chunk(offset::FLAGS)))
    }

    /// Refresh interval, seconds.
    #[inline]
    pub fn refresh_interval(&self) -> u8 {
        let [seconds] = self.chunk(offset::REFRESH);
        seconds
    }

    /// Product of the private primes of the nodes that locked the session; 1 if none has, 0 if a node could not
    /// reserve.
    #[inline]
    pub fn key(&self) -> u64 {
        u64::from_be_bytes(self.chunk(offset::KEY))
    }

    /// Address family of classifier and mask.
    #[inline]
    pub fn family(&self) -> Family {
        self.family
    }

    /// Classifier as received: 16 octets for IPv4, 40 for IPv6.
    #[inline]
    pub fn classifier_octets(&self) -> &'a [u8] {
        self.octets
            .get(offset::CLASSIFIER..)
            .and_then(|r| r.get(..self.family.keys_len()))
            .unwrap_or(&[])
    }

    /// Mask as received: 16 octets for IPv4, 40 for IPv6.
    #[inline]
    pub fn mask_octets(&self) -> &'a [u8] {
        let length = self.family.keys_len();
        self.octets.get(offset::CLASSIFIER + length..).and_then(|r| r.get(..length)).unwrap_or(&[])
    }

    /// Returns the classifier.
    pub fn classifier(&self) -> Keys {
        let nothing = core::net::IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED);
        Keys::from_octets(self.classifier_octets()).unwrap_or(Keys {
            source: nothing,
            destination: nothing,
            source_port: 0,
            destination_port: 0,
            protocol: 0,
            tos: 0,
            flags: 0,
        })
    }

    /// Returns the mask.
    ///
    /// # Errors
    /// The mask is invalid.
    pub fn shape(&self) -> Result<Shape, ParseError> {
        Shape::from_mask(self.mask_octets(), offset::CLASSIFIER + self.family.keys_len())
    }

    /// Offset of the QoS part.
    #[inline]
    pub(super) fn qos_at(&self) -> usize {
        offset::CLASSIFIER + 2 * self.family.keys_len()
    }

    /// Returns the QoS part.
    #[inline]
    pub fn qos(&self) -> QosView<'a> {
        if self.is_vector {
            let elements = self.octets.get(self.qos_at() + 4..self.options).unwrap_or(&[]);
            return QosView::Downgrade(elements.as_chunks().0);
        }
        QosView::Bitrate(Rates::from_octets(self.chunk(self.qos_at())))
    }

    /// Policy field of a downgrade; 0 for bitrates, which have none.
    pub fn policy(&self) -> u16 {
        if self.is_vector { u16::from_be_bytes(self.chunk(self.qos_at() + 1)) } else { 0 }
    }

    /// Whether anything follows the QoS part.
    #[inline]
    pub fn has_options(&self) -> bool {
        self.octets.len() > self.options
    }

    /// Returns the options.
    #[inline]
    pub fn options(&self) -> Options<'a> {
        let octets = self.octets.get(self.options..).unwrap_or(&[]);
        Options::Wire { octets, family: self.family, at: self.options }
    }

    /// Returns what a credential covers: transaction_id, type and format, version, classifier and mask, and the rates, of
    /// a list of downgrades the last pair. A node edits these rates only if it refuses the message.
    pub fn covered(&self) -> [&'a [u8]; 4] {
        let part = |from: usize, to: usize| self.octets.get(from..to).unwrap_or(&[]);
        [
            part(offset::TRANSACTION, offset::FLAGS),
            part(offset::VERSION, offset::VERSION + 1),
            part(offset::CLASSIFIER, self.qos_at()),
            part(self.options.saturating_sub(8), self.options),
        ]
    }
}
