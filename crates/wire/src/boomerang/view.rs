//! A message looked at where it stands.

use super::at;
use super::error::{ErrorKind, ParseError};
use super::iana::{AddressFamily, MAGIC, MessageType, QosFormat, VERSION};
use super::keys::{Family, Keys, Shape};
use super::message::{Flags, Rates};
use super::options::Options;

/// A reservation message whose lengths and code points have been checked, so that its fields can be read without
/// failing. Its mask and its options have not been looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View<'a> {
    pub(super) octets: &'a [u8],
    pub(super) family: Family,
    pub(super) is_vector: bool,
    /// Where the options begin.
    pub(super) options: usize,
}

/// What a message asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosView<'a> {
    /// Two rates.
    Bitrate(Rates),
    /// Pairs of rates, eight octets each, the most wanted first.
    Downgrade(&'a [[u8; 8]]),
}

impl<'a> View<'a> {
    /// Looks at the data of an echo.
    #[inline]
    pub fn parse(octets: &'a [u8]) -> Result<View<'a>, ParseError> {
        let Some(head) = octets.first_chunk::<{ at::CLASSIFIER }>() else {
            return Err(Self::too_short(octets));
        };
        let [m0, m1, m2, m3, ..] = *head;
        if u32::from_be_bytes([m0, m1, m2, m3]) != MAGIC {
            return Err(ParseError::new(ErrorKind::Magic, at::MAGIC));
        }
        if head[at::TYPE] != MessageType::Reservation.code() {
            return Err(ParseError::new(ErrorKind::Type, at::TYPE));
        }
        let family = match AddressFamily::from_code(head[at::FORMAT] & 0x0f) {
            AddressFamily::Ipv4 => Family::V4,
            AddressFamily::Ipv6 => Family::V6,
            AddressFamily::Unknown(_) => {
                return Err(ParseError::new(ErrorKind::Family, at::FORMAT));
            }
        };
        let is_vector = match QosFormat::from_code(head[at::FORMAT] & 0xf0) {
            QosFormat::Bitrate => false,
            QosFormat::Downgrade => true,
            _ => return Err(ParseError::new(ErrorKind::Qos, at::FORMAT)),
        };
        if head[at::VERSION] != VERSION {
            return Err(ParseError::new(ErrorKind::Version, at::VERSION));
        }
        let qos = at::CLASSIFIER + 2 * family.keys_len();
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

    /// What is wrong with a message that ends within its headers: first of all whether it is one.
    #[cold]
    fn too_short(octets: &[u8]) -> ParseError {
        match octets.first_chunk::<4>() {
            Some(magic) if *magic != MAGIC.to_be_bytes() => {
                ParseError::new(ErrorKind::Magic, at::MAGIC)
            }
            _ => ParseError::new(ErrorKind::Truncated, octets.len()),
        }
    }

    /// A number that stands within the checked length; zero if it did not.
    #[inline]
    fn chunk<const N: usize>(&self, at: usize) -> [u8; N] {
        self.octets.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
    }

    /// Names a request of the initiating node.
    #[inline]
    pub fn transaction_id(&self) -> u32 {
        u32::from_be_bytes(self.chunk(at::TRANSACTION))
    }

    /// The container's flags.
    #[inline]
    pub fn flags(&self) -> Flags {
        Flags(u16::from_be_bytes(self.chunk(at::FLAGS)))
    }

    /// Seconds until the next message is promised.
    #[inline]
    pub fn refresh_interval(&self) -> u8 {
        let [seconds] = self.chunk(at::REFRESH);
        seconds
    }

    /// The product of the private primes of those that locked the session; 1 where none has, 0 where somebody could not
    /// reserve.
    #[inline]
    pub fn key(&self) -> u64 {
        u64::from_be_bytes(self.chunk(at::KEY))
    }

    /// Of classifier and mask.
    #[inline]
    pub fn family(&self) -> Family {
        self.family
    }

    /// The classifier as it stands: 16 octets for IPv4, 40 for IPv6.
    #[inline]
    pub fn classifier_octets(&self) -> &'a [u8] {
        self.octets
            .get(at::CLASSIFIER..)
            .and_then(|r| r.get(..self.family.keys_len()))
            .unwrap_or(&[])
    }

    /// The mask as it stands, likewise.
    #[inline]
    pub fn mask_octets(&self) -> &'a [u8] {
        let length = self.family.keys_len();
        self.octets.get(at::CLASSIFIER + length..).and_then(|r| r.get(..length)).unwrap_or(&[])
    }

    /// The classifier.
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

    /// What the mask means, if it makes sense.
    pub fn shape(&self) -> Result<Shape, ParseError> {
        Shape::judge(self.mask_octets(), at::CLASSIFIER + self.family.keys_len())
    }

    /// Where the QoS part begins.
    #[inline]
    pub(super) fn qos_at(&self) -> usize {
        at::CLASSIFIER + 2 * self.family.keys_len()
    }

    /// What is asked for.
    #[inline]
    pub fn qos(&self) -> QosView<'a> {
        if self.is_vector {
            let elements = self.octets.get(self.qos_at() + 4..self.options).unwrap_or(&[]);
            return QosView::Downgrade(elements.as_chunks().0);
        }
        QosView::Bitrate(Rates::from_octets(self.chunk(self.qos_at())))
    }

    /// The policy field of a downgrade; 0 for bitrates, which have none.
    pub fn policy(&self) -> u16 {
        if self.is_vector { u16::from_be_bytes(self.chunk(self.qos_at() + 1)) } else { 0 }
    }

    /// Whether anything follows the QoS part.
    #[inline]
    pub fn has_options(&self) -> bool {
        self.octets.len() > self.options
    }

    /// The options.
    #[inline]
    pub fn options(&self) -> Options<'a> {
        let octets = self.octets.get(self.options..).unwrap_or(&[]);
        Options::Wire { octets, family: self.family, at: self.options }
    }

    /// The fields that no node may edit, and that a credential covers: transaction_id, version, classifier and mask.
    pub fn covered(&self) -> [&'a [u8]; 3] {
        let part = |from: usize, to: usize| self.octets.get(from..to).unwrap_or(&[]);
        [
            part(at::TRANSACTION, at::TYPE),
            part(at::VERSION, at::VERSION + 1),
            part(at::CLASSIFIER, self.qos_at()),
        ]
    }
}
