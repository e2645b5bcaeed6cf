//! Errors of a QSPEC's format and values: kind, position, and the outcome in the RESPONSE.

use core::fmt;

use super::iana::{ObjectType, ParameterId};
use crate::intserv;
use crate::qos_nslp::Outcome;
use crate::qos_nslp::iana::ProtocolError;

/// Faults of a QSPEC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The QSPEC ends within its header.
    Truncated,
    /// The version is not 0.
    Version,
    /// The length differs from the number of octets.
    Length,
    /// The QSPEC has no objects.
    Empty,
    /// A local QSPEC contains another local QSPEC.
    Nested,
    /// The octets at the end are too few for an object header.
    ObjectTruncated,
    /// An object leads past the end of the QSPEC.
    ObjectLength,
    /// An object has no parameters.
    EmptyObject,
    /// The object type is unknown.
    UnknownObject,
    /// An object occurs twice.
    DuplicateObject,
    /// The octets at the end of an object are too few for a parameter header.
    ParameterTruncated,
    /// A parameter leads past the end of its object.
    ParameterLength,
    /// The value of a parameter has a wrong length.
    ValueLength,
    /// A parameter occurs twice in an object.
    DuplicateParameter,
    /// Message sequence or object combination is unknown, or the message is not part of that sequence.
    Procedure,
    /// An object that the procedure requires is missing.
    MissingObject,
    /// An object is not part of the procedure.
    UnexpectedObject,
    /// A value is invalid.
    Value(ValueError),
}

/// Values that the format allows and the parameter does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ValueError {
    /// The traffic model is invalid.
    #[error(transparent)]
    Bucket(intserv::ValueError),
    /// A rate or size is below one, that is its exponent is below 127 (RFC 5975 section 5.2.1).
    #[error("r, b and p must not be below 1")]
    Exponent,
    /// A ratio is below 0, above 1/10, or not a number (RFC 5975 section 5.2.5).
    #[error("the ratio must be between 0 and 0.1")]
    Ratio,
    /// The admission priority is unknown.
    #[error("the Y.2171 admission priority is unknown")]
    AdmissionPriority,
    /// The treatment of excess traffic is unknown.
    #[error("the treatment of excess traffic is unknown")]
    ExcessTreatment,
    /// The value is none of the four forms of a per-hop behaviour (RFC 5975 section 5.2.12).
    #[error("the PHB field has reserved bits set")]
    PhbClass,
    /// The class type is above 7.
    #[error("the DSTE class type is above 7")]
    DsteClassType,
    /// The class is above 7.
    #[error("the Y.1541 QoS class is above 7")]
    Y1541QosClass,
}

impl ErrorKind {
    /// Returns a short fixed name for counters.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::Truncated => "qspec_truncated",
            ErrorKind::Version => "qspec_version",
            ErrorKind::Length => "qspec_length",
            ErrorKind::Empty => "qspec_empty",
            ErrorKind::Nested => "qspec_nested",
            ErrorKind::ObjectTruncated => "qspec_object_truncated",
            ErrorKind::ObjectLength => "qspec_object_length",
            ErrorKind::EmptyObject => "qspec_empty_object",
            ErrorKind::UnknownObject => "qspec_unknown_object",
            ErrorKind::DuplicateObject => "qspec_duplicate_object",
            ErrorKind::ParameterTruncated => "qspec_parameter_truncated",
            ErrorKind::ParameterLength => "qspec_parameter_length",
            ErrorKind::ValueLength => "qspec_value_length",
            ErrorKind::DuplicateParameter => "qspec_duplicate_parameter",
            ErrorKind::Procedure => "qspec_procedure",
            ErrorKind::MissingObject => "qspec_missing_object",
            ErrorKind::UnexpectedObject => "qspec_unexpected_object",
            ErrorKind::Value(_) => "qspec_value",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorKind::Truncated => "truncated within the header",
            ErrorKind::Version => "the version is not 0",
            ErrorKind::Length => "the length differs from that of the octets",
            ErrorKind::Empty => "there are no objects",
            ErrorKind::Nested => "a local QSPEC within another QSPEC",
            ErrorKind::ObjectTruncated => "fewer than four octets are left for an object header",
            ErrorKind::ObjectLength => "the object exceeds the QSPEC",
            ErrorKind::EmptyObject => "the object has no parameters",
            ErrorKind::UnknownObject => "the object type is unknown",
            ErrorKind::DuplicateObject => "duplicate object",
            ErrorKind::ParameterTruncated => {
                "fewer than four octets are left for a parameter header"
            }
            ErrorKind::ParameterLength => "the parameter exceeds its object",
            ErrorKind::ValueLength => "invalid length of the value",
            ErrorKind::DuplicateParameter => "duplicate parameter",
            ErrorKind::Procedure => "the procedure is unknown or invalid for the message",
            ErrorKind::MissingObject => "an object of the procedure is missing",
            ErrorKind::UnexpectedObject => "the object is not part of the procedure",
            ErrorKind::Value(error) => return error.fmt(f),
        })
    }
}

/// A malformed or invalid QSPEC: the fault and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParseError {
    /// Kind of fault.
    pub kind: ErrorKind,
    /// Object with the fault, if any; its E flag must be set.
    pub object: Option<ObjectType>,
    /// Parameter with the fault, if any; its E flag must be set.
    pub parameter: Option<ParameterId>,
    /// Offset of the header of parameter, object or QSPEC, octets from the start of the QSPEC; 0 for values that were
    /// not parsed.
    pub offset: usize,
}

impl ParseError {
    pub(super) const fn new(kind: ErrorKind, offset: usize) -> ParseError {
        ParseError { kind, object: None, parameter: None, offset }
    }

    pub(super) const fn of(kind: ErrorKind, object: ObjectType, offset: usize) -> ParseError {
        ParseError { kind, object: Some(object), parameter: None, offset }
    }

    /// Returns the outcome in the INFO-SPEC of the RESPONSE (RFC 5975 section 4.2.3).
    pub const fn outcome(&self) -> Outcome {
        Outcome::ProtocolError(match self.kind {
            ErrorKind::Version => ProtocolError::IncompatibleQspec,
            _ => ProtocolError::MalformedQspec,
        })
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ParseError { kind, object, parameter, offset } = self;
        write!(f, "QSPEC, octet {offset}: ")?;
        if let Some(object) = object {
            write!(f, "{}: ", object.name())?;
        }
        if let Some(parameter) = parameter {
            write!(f, "{}: ", parameter.name())?;
        }
        write!(f, "{kind}")
    }
}

impl core::error::Error for ParseError {}
