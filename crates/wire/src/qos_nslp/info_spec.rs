//! INFO-SPEC: the outcome of a request, its source, and the objects concerned (RFC 5974 section 5.1.3.6).

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use serde::{Deserialize, Serialize};

use super::error::{ErrorKind, ParseError};
use super::iana::{
    ErrorClass, Informational, ObjectType, PermanentFailure, ProtocolError, SourceType, Success,
    TransientFailure,
};
use crate::nsis::object::{Object, WORD, pad};
use crate::serialize::Text;
use crate::writer::{EmitError, Writer};

/// Error class and error code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// Class 1: information, no failure.
    Informational(Informational),
    /// Class 2: success.
    Success(Success),
    /// Class 3: the message is malformed.
    ProtocolError(ProtocolError),
    /// Class 4: the request may succeed later.
    TransientFailure(TransientFailure),
    /// Class 5: the request will not succeed later.
    PermanentFailure(PermanentFailure),
    /// Class 6, with a code of the QoS model.
    QosModelError(u8),
    /// Class 7, with a code of RFC 5973.
    SignalingSessionFailure(u8),
    /// An unknown class.
    Unknown {
        /// Error class, four bits.
        class: u8,
        /// Error code.
        code: u8,
    },
}

impl Outcome {
    /// Returns the outcome for a class, of which the low four bits count, and a code.
    pub const fn from_codes(class: u8, code: u8) -> Outcome {
        match ErrorClass::from_code(class & 0xf) {
            ErrorClass::Informational => Outcome::Informational(Informational::from_code(code)),
            ErrorClass::Success => Outcome::Success(Success::from_code(code)),
            ErrorClass::ProtocolError => Outcome::ProtocolError(ProtocolError::from_code(code)),
            ErrorClass::TransientFailure => {
                Outcome::TransientFailure(TransientFailure::from_code(code))
            }
            ErrorClass::PermanentFailure => {
                Outcome::PermanentFailure(PermanentFailure::from_code(code))
            }
            ErrorClass::QosModelError => Outcome::QosModelError(code),
            ErrorClass::SignalingSessionFailure => Outcome::SignalingSessionFailure(code),
            ErrorClass::Unknown(class) => Outcome::Unknown { class, code },
        }
    }

    /// Returns the severity class.
    pub const fn class(self) -> ErrorClass {
        match self {
            Outcome::Informational(_) => ErrorClass::Informational,
            Outcome::Success(_) => ErrorClass::Success,
            Outcome::ProtocolError(_) => ErrorClass::ProtocolError,
            Outcome::TransientFailure(_) => ErrorClass::TransientFailure,
            Outcome::PermanentFailure(_) => ErrorClass::PermanentFailure,
            Outcome::QosModelError(_) => ErrorClass::QosModelError,
            Outcome::SignalingSessionFailure(_) => ErrorClass::SignalingSessionFailure,
            Outcome::Unknown { class, .. } => ErrorClass::from_code(class),
        }
    }

    /// Returns the code within the class.
    pub const fn code(self) -> u8 {
        match self {
            Outcome::Informational(code) => code.code(),
            Outcome::Success(code) => code.code(),
            Outcome::ProtocolError(code) => code.code(),
            Outcome::TransientFailure(code) => code.code(),
            Outcome::PermanentFailure(code) => code.code(),
            Outcome::QosModelError(code)
            | Outcome::SignalingSessionFailure(code)
            | Outcome::Unknown { code, .. } => code,
        }
    }

    /// Returns the standard's name of the code, or `unknown`.
    pub const fn name(self) -> &'static str {
        match self {
            Outcome::Informational(code) => code.name(),
            Outcome::Success(code) => code.name(),
            Outcome::ProtocolError(code) => code.name(),
            Outcome::TransientFailure(code) => code.name(),
            Outcome::PermanentFailure(code) => code.name(),
            Outcome::QosModelError(_)
            | Outcome::SignalingSessionFailure(_)
            | Outcome::Unknown { .. } => "unknown",
        }
    }
}

/// Identifier of the node that sent the INFO-SPEC. It is informative: nothing is sent to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorSource<'a> {
    /// Type 1: an IPv4 address.
    Ipv4(Ipv4Addr),
    /// Type 2: an IPv6 address.
    Ipv6(Ipv6Addr),
    /// Type 3: a name of 1 to 1 020 octets, none of them zero.
    Fqdn(&'a str),
    /// An unknown type.
    Unknown {
        /// Type of the identifier, 4 to 15.
        code: u8,
        /// Identifier, whole words.
        octets: &'a [u8],
    },
}

impl<'a> ErrorSource<'a> {
    /// Parses the identifier of a type; `None` if its form is wrong.
    fn parse(code: u8, octets: &'a [u8]) -> Option<ErrorSource<'a>> {
        Some(match SourceType::from_code(code) {
            SourceType::Ipv4 => ErrorSource::Ipv4(<[u8; 4]>::try_from(octets).ok()?.into()),
            SourceType::Ipv6 => ErrorSource::Ipv6(<[u8; 16]>::try_from(octets).ok()?.into()),
            SourceType::Fqdn => {
                let end = octets.iter().position(|octet| *octet == 0).unwrap_or(octets.len());
                let (name, padding) = octets.split_at_checked(end)?;
                if end == 0 || padding.len() >= WORD || padding.iter().any(|octet| *octet != 0) {
                    return None;
                }
                ErrorSource::Fqdn(core::str::from_utf8(name).ok()?)
            }
            SourceType::Unknown(code) => ErrorSource::Unknown { code, octets },
        })
    }

    const fn code(&self) -> u8 {
        match self {
            ErrorSource::Ipv4(_) => SourceType::Ipv4.code(),
            ErrorSource::Ipv6(_) => SourceType::Ipv6.code(),
            ErrorSource::Fqdn(_) => SourceType::Fqdn.code(),
            ErrorSource::Unknown { code, .. } => *code,
        }
    }

    /// Length of the identifier without padding, octets.
    const fn len(&self) -> usize {
        match self {
            ErrorSource::Ipv4(_) => 4,
            ErrorSource::Ipv6(_) => 16,
            ErrorSource::Fqdn(name) => name.len(),
            ErrorSource::Unknown { octets, .. } => octets.len(),
        }
    }

    fn is_writable(&self) -> bool {
        match self {
            ErrorSource::Ipv4(_) | ErrorSource::Ipv6(_) => true,
            ErrorSource::Fqdn(name) => !name.is_empty() && !name.contains('\0'),
            ErrorSource::Unknown { code, octets } => {
                (4..16).contains(code) && octets.len().is_multiple_of(WORD)
            }
        }
    }

    fn write(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        match self {
            ErrorSource::Ipv4(address) => writer.put(address.octets()),
            ErrorSource::Ipv6(address) => writer.put(address.octets()),
            ErrorSource::Fqdn(name) => {
                writer.put_slice(name.as_bytes())?;
                pad(writer, name.len())
            }
            ErrorSource::Unknown { octets, .. } => writer.put_slice(octets),
        }
    }
}

/// INFO-SPEC object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InfoSpec<'a> {
    /// Error class and error code.
    pub outcome: Outcome,
    /// Error source identifier, if present.
    pub source: Option<ErrorSource<'a>>,
    /// Error-specific information, whole words: see [`object_type`](InfoSpec::object_type) and
    /// [`object_values`](InfoSpec::object_values). Informative, and not checked.
    pub details: &'a [u8],
}

impl<'a> InfoSpec<'a> {
    /// Creates an INFO-SPEC without source and details.
    pub const fn new(outcome: Outcome) -> InfoSpec<'static> {
        InfoSpec { outcome, source: None, details: &[] }
    }

    /// Returns the object type concerned: Object Type Info, which follows codes about types.
    pub fn object_type(&self) -> Option<ObjectType> {
        match self.outcome {
            Outcome::ProtocolError(
                ProtocolError::MandatoryObjectMissing
                | ProtocolError::IllegalObjectPresent
                | ProtocolError::UnknownObjectPresent
                | ProtocolError::DuplicateObjectPresent,
            ) => {
                let [high, low, _, _] = *self.details.first_chunk()?;
                Some(ObjectType::from_code(u16::from_be_bytes([high, low])))
            }
            _ => None,
        }
    }

    /// Iterates over the objects concerned: Object Value Info, which follows codes about values.
    pub fn object_values(&self) -> ObjectValues<'a> {
        let rest = match self.outcome {
            Outcome::ProtocolError(
                ProtocolError::WrongObjectLength
                | ProtocolError::UnknownFieldValue
                | ProtocolError::MalformedQspec
                | ProtocolError::ErroneousValue,
            ) => self.details,
            _ => &[],
        };
        ObjectValues { rest }
    }

    pub(super) fn parse(object: &Object<'a>) -> Result<InfoSpec<'a>, ParseError> {
        let error = |kind| ParseError::of(kind, ObjectType::InfoSpec, object.offset());
        let Some((&[_, code, class_and_type, words], rest)) = object.value().split_first_chunk()
        else {
            return Err(error(ErrorKind::ValueLength));
        };
        let (source, details) = rest
            .split_at_checked(usize::from(words) * WORD)
            .ok_or(error(ErrorKind::ValueLength))?;
        let source = match class_and_type & 0xf {
            0 if source.is_empty() => None,
            0 => return Err(error(ErrorKind::Source)),
            code => Some(ErrorSource::parse(code, source).ok_or(error(ErrorKind::Source))?),
        };
        Ok(InfoSpec { outcome: Outcome::from_codes(class_and_type >> 4, code), source, details })
    }

    /// Length of the value, octets.
    pub(super) fn len(&self) -> usize {
        let source = self.source.map_or(0, |source| source.len().next_multiple_of(WORD));
        WORD + source + self.details.len()
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        let class = self.outcome.class().code();
        let canonical = Outcome::from_codes(class, self.outcome.code()) == self.outcome;
        let source_writable = self.source.is_none_or(|source| source.is_writable());
        if class > 0xf || !canonical || !source_writable || !self.details.len().is_multiple_of(WORD)
        {
            return Err(EmitError::Contradiction);
        }
        let (code, len) = self.source.map_or((0, 0), |source| (source.code(), source.len()));
        let words = u8::try_from(len.div_ceil(WORD)).map_err(|_| EmitError::TooLong)?;
        writer.put([0, self.outcome.code(), class << 4 | code, words])?;
        if let Some(source) = self.source {
            source.write(writer)?;
        }
        writer.put_slice(self.details)
    }
}

impl ParseError {
    /// Returns the INFO-SPEC of the RESPONSE: the code of the protocol error and, written into `room`, the type of the
    /// object at fault (Object Type Info, RFC 5974 section 5.1.3.6).
    pub fn info_spec<'r>(&self, room: &'r mut [u8; 4]) -> InfoSpec<'r> {
        let details: &[u8] = match self.object {
            Some(object) => {
                let [high, low] = object.code().to_be_bytes();
                *room = [high, low, 0, 0];
                room
            }
            None => &[],
        };
        InfoSpec { outcome: Outcome::ProtocolError(self.kind.code()), source: None, details }
    }
}

serialize_as!(InfoSpec<'_>, |it| map! {
    "severity": it.outcome.class().name(),
    "outcome": it.outcome.name(),
    "code": it.outcome.code(),
    "source": it.source.map(|source| Text(fmt::from_fn(move |f| write!(f, "{source:?}")))),
});

/// An object, or its end, copied from the message with the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectValue<'a> {
    /// Actual length of the object in words, header included; twelve bits. RFC 5974 does not give the unit; this is
    /// that of RFC 5971 A.4.2.4.
    pub words: u16,
    /// Offset of the octets within the object.
    pub offset: u16,
    /// Octets of the object from the offset to its end.
    pub octets: &'a [u8],
}

/// Iterator over Object Value Info up to the end or to a truncated entry.
#[derive(Clone, Debug)]
pub struct ObjectValues<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for ObjectValues<'a> {
    type Item = ObjectValue<'a>;

    fn next(&mut self) -> Option<ObjectValue<'a>> {
        let (&[w0, w1, o0, o1], behind) = self.rest.split_first_chunk()?;
        let words = u16::from_be_bytes([w0, w1]) & 0x0fff;
        let offset = u16::from_be_bytes([o0, o1]);
        let length = (usize::from(words) * WORD).checked_sub(usize::from(offset))?;
        let octets = behind.get(..length)?;
        self.rest = behind.get(length.next_multiple_of(WORD)..).unwrap_or_default();
        Some(ObjectValue { words, offset, octets })
    }
}
