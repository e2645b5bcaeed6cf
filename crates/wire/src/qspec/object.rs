//! Objects of a QSPEC and their parameters (RFC 5975 section 5.1.2).

use core::fmt;

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::error::{ErrorKind, ParseError};
use super::iana::{ObjectType, ParameterId, flag};
use super::value::Value;
use crate::nsis::object::{self, HEADER, Object, Treatment, emit_object, object_len, objects};
use crate::writer::{EmitError, Writer};

/// A parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameter<'a> {
    /// M: nodes that do not know the parameter refuse the reservation. Always set for TMOD-1.
    pub is_mandatory: bool,
    /// E: the parameter cannot be satisfied, or is invalid.
    pub is_failed: bool,
    /// N: a node on the path does not know the parameter. Never set for TMOD-1.
    pub is_not_supported: bool,
    /// Value of the parameter.
    pub value: Value<'a>,
}

impl<'a> Parameter<'a> {
    /// Creates a parameter as initially sent that must be understood.
    pub const fn mandatory(value: Value<'a>) -> Parameter<'a> {
        Parameter { is_mandatory: true, is_failed: false, is_not_supported: false, value }
    }

    /// Creates a parameter as initially sent that may be ignored.
    pub const fn optional(value: Value<'a>) -> Parameter<'a> {
        Parameter { is_mandatory: false, is_failed: false, is_not_supported: false, value }
    }

    /// Whether the parameter is unknown here and must be understood, so that the reservation fails (RFC 5975 section
    /// 4.2.3).
    pub const fn is_refused(&self) -> bool {
        self.is_mandatory && matches!(self.value, Value::Unknown { .. })
    }

    fn from_frame(frame: &Object<'a>) -> Option<Parameter<'a>> {
        let value = Value::parse(frame.object_type(), frame.value())?;
        let flags = flags_octet(frame);
        let constant = matches!(value, Value::Tmod1(_));
        Some(Parameter {
            is_mandatory: flags & flag::MANDATORY != 0 || constant,
            is_failed: flags & flag::ERROR != 0,
            is_not_supported: flags & flag::NOT_SUPPORTED != 0 && !constant,
            value,
        })
    }

    /// Length of header and value, octets.
    pub(super) const fn len(&self) -> usize {
        object_len(self.value.len())
    }

    /// Whether the parameter would be misread by receivers.
    pub(super) const fn is_contradiction(&self) -> bool {
        let constant = matches!(self.value, Value::Tmod1(_));
        constant && (!self.is_mandatory || self.is_not_supported) || self.value.is_contradiction()
    }

    pub(super) fn write(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        if self.is_contradiction() {
            return Err(EmitError::Contradiction);
        }
        let (at, id) = (writer.written().len(), self.value.id().code());
        let treatment = Treatment::from_bits(self.is_mandatory, self.is_failed);
        emit_object(writer, treatment, id, |writer| self.value.write(writer))?;
        if !self.is_not_supported {
            return Ok(());
        }
        let octet = writer.written().get(at).copied().unwrap_or_default();
        writer.patch(at, [octet | flag::NOT_SUPPORTED])
    }
}

/// Serialized as the value, in a list with its flags if any are set.
impl Serialize for Parameter<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.is_failed, self.is_not_supported) {
            (false, false) => self.value.serialize(serializer),
            (true, false) => (&self.value, "failed").serialize(serializer),
            (false, true) => (&self.value, "not supported").serialize(serializer),
            (true, true) => (&self.value, "failed", "not supported").serialize(serializer),
        }
    }
}

/// Returns the octet of a header with the flags.
fn flags_octet(frame: &Object<'_>) -> u8 {
    frame.octets().first().copied().unwrap_or_default()
}

/// The parameters of an object: at least one, without duplicates.
#[derive(Clone, Copy)]
pub enum Parameters<'a> {
    /// Parameters as received, checked.
    Wire {
        /// Octets of the parameters.
        octets: &'a [u8],
        /// Offset of the parameters, octets from the start of the QSPEC.
        offset: usize,
    },
    /// Parameters to be emitted.
    Items(&'a [Parameter<'a>]),
}

impl<'a> Parameters<'a> {
    /// Iterates over the parameters.
    #[inline]
    pub fn iter(self) -> impl Iterator<Item = Parameter<'a>> + Clone {
        self.with_offsets().map(|(_, parameter)| parameter)
    }

    /// Returns the parameter with an identifier.
    pub fn find(self, id: ParameterId) -> Option<Parameter<'a>> {
        self.iter().find(|parameter| parameter.value.id() == id)
    }

    /// Iterates over the parameters with the offsets of their headers in the QSPEC; 0 if they were not parsed.
    pub(super) fn with_offsets(self) -> impl Iterator<Item = (usize, Parameter<'a>)> + Clone {
        let (octets, offset, items): (&[u8], usize, &[Parameter<'a>]) = match self {
            Parameters::Wire { octets, offset } => (octets, offset, &[]),
            Parameters::Items(items) => (&[], 0, items),
        };
        objects(octets, offset)
            .map_while(Result::ok)
            .filter_map(|frame| Some((frame.offset(), Parameter::from_frame(&frame)?)))
            .chain(items.iter().map(|parameter| (0, *parameter)))
    }

    /// Checks the parameters of an object.
    fn parse(frame: &Object<'a>, object: ObjectType) -> Result<Parameters<'a>, ParseError> {
        let (octets, offset) = (frame.value(), frame.value_offset());
        if octets.is_empty() {
            return Err(ParseError::of(ErrorKind::EmptyObject, object, frame.offset()));
        }
        let (mut seen, mut unknown) = (0_u16, false);
        for frame in objects(octets, offset) {
            let frame = frame.map_err(|error| {
                let kind = match error.kind {
                    object::ErrorKind::Truncated => ErrorKind::ParameterTruncated,
                    object::ErrorKind::Length => ErrorKind::ParameterLength,
                };
                ParseError::of(kind, object, error.offset)
            })?;
            let id = ParameterId::from_code(frame.object_type());
            let error = |kind| ParseError {
                parameter: Some(id),
                ..ParseError::of(kind, object, frame.offset())
            };
            if Parameter::from_frame(&frame).is_none() {
                return Err(error(ErrorKind::ValueLength));
            }
            if matches!(id, ParameterId::Unknown(_)) {
                unknown = true;
                continue;
            }
            let bit = 1 << id.code();
            if seen & bit != 0 {
                return Err(error(ErrorKind::DuplicateParameter));
            }
            seen |= bit;
        }
        if unknown {
            check_unknown_duplicates(octets, offset, object)?;
        }
        Ok(Parameters::Wire { octets, offset })
    }

    /// Length of the parameters, octets.
    fn len(self) -> usize {
        self.iter().map(|parameter| parameter.len()).sum()
    }
}

/// Checks that no unknown parameter occurs twice, in one pass for any number of parameters.
#[cold]
fn check_unknown_duplicates(
    octets: &[u8],
    offset: usize,
    object: ObjectType,
) -> Result<(), ParseError> {
    let mut seen = [0_u64; 64]; // a bit for each identifier of twelve bits
    for frame in objects(octets, offset).map_while(Result::ok) {
        let id = frame.object_type();
        let Some(word) = seen.get_mut(usize::from(id >> 6)) else { continue };
        let bit = 1 << (id & 0x3f);
        if *word & bit != 0 {
            let error = ParseError::of(ErrorKind::DuplicateParameter, object, frame.offset());
            return Err(ParseError { parameter: Some(ParameterId::from_code(id)), ..error });
        }
        *word |= bit;
    }
    Ok(())
}

impl PartialEq for Parameters<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Parameters<'_> {}

impl fmt::Debug for Parameters<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A QSPEC object: QoS Desired, QoS Available, QoS Reserved or Minimum QoS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QosObject<'a> {
    /// E: one of the parameters cannot be satisfied or is invalid, or another fault.
    pub is_failed: bool,
    /// Parameters of the object.
    pub parameters: Parameters<'a>,
}

impl<'a> QosObject<'a> {
    /// Creates an object as initially sent. The parameters are at least one, without duplicates.
    pub const fn new(parameters: &'a [Parameter<'a>]) -> QosObject<'a> {
        QosObject { is_failed: false, parameters: Parameters::Items(parameters) }
    }

    pub(super) fn parse(
        frame: &Object<'a>,
        object: ObjectType,
    ) -> Result<QosObject<'a>, ParseError> {
        let parameters = Parameters::parse(frame, object)?;
        Ok(QosObject { is_failed: flags_octet(frame) & flag::OBJECT_ERROR != 0, parameters })
    }

    /// Length with the header, octets.
    pub(super) fn len(&self) -> usize {
        HEADER + self.parameters.len()
    }

    pub(super) fn write(
        &self,
        object: ObjectType,
        writer: &mut Writer<'_>,
    ) -> Result<(), EmitError> {
        let at = writer.written().len();
        let treatment = Treatment::from_bits(self.is_failed, false);
        emit_object(writer, treatment, object.code(), |writer| {
            self.parameters.iter().try_for_each(|parameter| parameter.write(writer))
        })?;
        // Receivers refuse objects without parameters, or with duplicates.
        let octets = writer.written().get(at..).unwrap_or_default();
        match objects(octets, 0).next() {
            Some(Ok(frame)) if Parameters::parse(&frame, object).is_ok() => Ok(()),
            _ => Err(EmitError::Contradiction),
        }
    }
}

/// Serialized as a map of the parameters by name.
impl Serialize for QosObject<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        if self.is_failed {
            map.serialize_entry("failed", &true)?;
        }
        for parameter in self.parameters.iter() {
            match parameter.value.id() {
                ParameterId::Unknown(id) => {
                    map.serialize_entry(&format_args!("parameter {id}"), &parameter)?;
                }
                id => map.serialize_entry(id.name(), &parameter)?,
            }
        }
        map.end()
    }
}
