//! The whole QSPEC: header and objects (RFC 5975 section 5.1.1).

use super::HEADER;
use super::error::{ErrorKind, ParseError};
use super::iana::{ObjectType, QspecType, VERSION};
use super::object::QosObject;
use super::procedure::Procedure;
use crate::nsis::object::{self, WORD, objects};
use crate::writer::{EmitError, Writer};

/// I flag in the first octet.
const LOCAL: u8 = 0x08;

/// A QSPEC of version 0 with at least one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Qspec<'a> {
    /// I: whether the QSPEC is local to a domain on the path, and not for the whole path.
    pub is_local: bool,
    /// QSPEC type, which identifies the QoS model.
    pub qspec_type: QspecType,
    /// Procedure, which determines the objects of each message.
    pub procedure: Procedure,
    /// QoS Desired.
    pub desired: Option<QosObject<'a>>,
    /// QoS Available; nodes on the path overwrite it.
    pub available: Option<QosObject<'a>>,
    /// QoS Reserved.
    pub reserved: Option<QosObject<'a>>,
    /// Minimum QoS.
    pub minimum: Option<QosObject<'a>>,
    /// Initiator QSPEC of the whole path, which a domain carries inside its local one (RFC 5975 section 4.1, figure 3).
    pub initiator: Option<&'a [u8]>,
}

impl<'a> Qspec<'a> {
    /// Creates a QSPEC of the default model for the whole path, without objects yet.
    pub const fn new(procedure: Procedure) -> Qspec<'a> {
        Qspec {
            is_local: false,
            qspec_type: QspecType::Default,
            procedure,
            desired: None,
            available: None,
            reserved: None,
            minimum: None,
            initiator: None,
        }
    }

    /// Parses the value of a QSPEC object of QoS NSLP.
    ///
    /// # Errors
    /// Another version, or a broken frame: lengths, emptiness, duplicates, unknown objects.
    /// [`validate`](Qspec::validate) checks the values.
    #[inline]
    pub fn parse(octets: &'a [u8]) -> Result<Qspec<'a>, ParseError> {
        let Some((&[h0, h1, h2, h3], body)) = octets.split_first_chunk::<HEADER>() else {
            return Err(ParseError::new(ErrorKind::Truncated, octets.len()));
        };
        if h0 >> 4 != VERSION {
            return Err(ParseError::new(ErrorKind::Version, 0));
        }
        let is_local = h0 & LOCAL != 0;
        let length = usize::from(u16::from_be_bytes([h2, h3]) & 0x0fff) * WORD;
        let (body, rest) = match body.split_at_checked(length) {
            Some((body, rest)) if is_local || rest.is_empty() => (body, rest),
            _ => return Err(ParseError::new(ErrorKind::Length, 2)),
        };
        if body.is_empty() {
            return Err(ParseError::new(ErrorKind::Empty, 0));
        }
        let mut qspec = Qspec {
            is_local,
            initiator: initiator(rest, HEADER + length)?,
            qspec_type: QspecType::from_code((h0 & 0x07) << 2 | h1 >> 6),
            ..Qspec::new(Procedure::from_octet(h1 << 4 | h2 >> 4))
        };
        for frame in objects(body, HEADER) {
            let frame = frame.map_err(|error| {
                let kind = match error.kind {
                    object::ErrorKind::Truncated => ErrorKind::ObjectTruncated,
                    object::ErrorKind::Length => ErrorKind::ObjectLength,
                };
                ParseError::new(kind, error.offset)
            })?;
            let object_type = ObjectType::from_code(frame.object_type());
            let error = |kind| ParseError::of(kind, object_type, frame.offset());
            let place = match object_type {
                ObjectType::QosDesired => &mut qspec.desired,
                ObjectType::QosAvailable => &mut qspec.available,
                ObjectType::QosReserved => &mut qspec.reserved,
                ObjectType::MinimumQos => &mut qspec.minimum,
                ObjectType::Unknown(_) => return Err(error(ErrorKind::UnknownObject)),
            };
            if place.is_some() {
                return Err(error(ErrorKind::DuplicateObject));
            }
            *place = Some(QosObject::parse(&frame, object_type)?);
        }
        Ok(qspec)
    }

    /// Checks the values of all parameters.
    ///
    /// # Errors
    /// The first invalid value.
    pub fn validate(&self) -> Result<(), ParseError> {
        self.invalid_values().next().map_or(Ok(()), Err)
    }

    /// Returns an error for each parameter with an invalid value.
    pub fn invalid_values(&self) -> impl Iterator<Item = ParseError> + use<'a> {
        let objects = self.objects().into_iter();
        let objects = objects.filter_map(|(object_type, object)| Some((object_type, object?)));
        objects.flat_map(|(object_type, object)| {
            object.parameters.with_offsets().filter_map(move |(offset, parameter)| {
                let error = parameter.value.validate(object_type).err()?;
                Some(ParseError {
                    kind: ErrorKind::Value(error),
                    object: Some(object_type),
                    parameter: Some(parameter.value.id()),
                    offset,
                })
            })
        })
    }

    /// Length of the emitted QSPEC, octets; see [`emit`](Qspec::emit).
    pub fn buffer_len(&self) -> usize {
        let objects = self.objects().into_iter().filter_map(|(_, object)| object);
        let initiator = self.initiator.map_or(0, <[u8]>::len);
        HEADER + objects.map(|object| object.len()).sum::<usize>() + initiator
    }

    /// Writes the QSPEC to the start of `buffer`; returns its length.
    ///
    /// # Errors
    /// The buffer is too short; the QSPEC is too long for its length field; numbers have too many bits; there are no
    /// objects; a parameter occurs twice in an object.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let qspec_type = self.qspec_type.code();
        let canonical = QspecType::from_code(qspec_type) == self.qspec_type;
        let procedure = self.procedure.to_octet().ok_or(EmitError::Contradiction)?;
        let is_empty = self.objects().iter().all(|(_, object)| object.is_none());
        if qspec_type > 0x1f || !canonical || is_empty {
            return Err(EmitError::Contradiction);
        }
        let initiator = self.initiator.unwrap_or_default();
        let readable = self.initiator.is_none_or(|octets| {
            self.is_local && matches!(self::initiator(octets, 0), Ok(Some(_)))
        });
        if !readable {
            return Err(EmitError::Contradiction);
        }
        let words = (self.buffer_len() - HEADER - initiator.len()) / WORD;
        let words = u16::try_from(words).map_err(|_| EmitError::TooLong)?;
        if words > 0x0fff {
            return Err(EmitError::TooLong);
        }
        let local = if self.is_local { LOCAL } else { 0 };
        let [l0, l1] = words.to_be_bytes();
        let mut writer = Writer::new(buffer);
        writer.put([
            VERSION << 4 | local | qspec_type >> 2,
            qspec_type << 6 | procedure >> 4,
            procedure << 4 | l0,
            l1,
        ])?;
        for (object_type, object) in self.objects() {
            if let Some(object) = object {
                object.write(object_type, &mut writer)?;
            }
        }
        writer.put_slice(initiator)?;
        Ok(writer.written().len())
    }

    /// Returns all objects with their types, in ascending order.
    pub(super) fn objects(&self) -> [(ObjectType, Option<QosObject<'a>>); 4] {
        [
            (ObjectType::QosDesired, self.desired),
            (ObjectType::QosAvailable, self.available),
            (ObjectType::QosReserved, self.reserved),
            (ObjectType::MinimumQos, self.minimum),
        ]
    }
}

// The Initiator QSPEC is a QSPEC of its own.
serialize_as!(Qspec<'_>, |it| map! {
    "model": it.qspec_type.name(),
    "local": it.is_local,
    "procedure": it.procedure.sequence.name(),
    "combination": it.procedure.combination,
    "QoS Desired": it.desired,
    "QoS Available": it.available,
    "QoS Reserved": it.reserved,
    "Minimum QoS": it.minimum,
});

/// Returns the Initiator QSPEC behind a local QSPEC, or `None` if nothing follows.
///
/// # Errors
/// The octets are not a QSPEC.
fn initiator(octets: &[u8], offset: usize) -> Result<Option<&[u8]>, ParseError> {
    let Some(first) = octets.first() else { return Ok(None) };
    if first & LOCAL != 0 {
        return Err(ParseError::new(ErrorKind::Nested, offset));
    }
    let shifted = |error: ParseError| ParseError { offset: offset + error.offset, ..error };
    Qspec::parse(octets).map_err(shifted)?;
    Ok(Some(octets))
}
