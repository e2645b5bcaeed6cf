//! Errors of a QSPEC's format and values: kind, position, and the outcome in the RESPONSE.

use core::fmt;

use super::iana::{ObjectType, ParameterId};
use crate::intserv;
use crate::qos_nslp::Outcome;
use crate::qos_nslp::iana::ProtocolError;

error_kinds! {
    /// Faults of a QSPEC.
    pub enum ErrorKind {
        /// The QSPEC ends within its header.
        Truncated = "qspec_truncated" "truncated within the header",
        /// The version is not 0.
        Version = "qspec_version" "the version is not 0",
        /// The length differs from the number of octets.
        Length = "qspec_length" "the length differs from that of the octets",
        /// The QSPEC has no objects.
        Empty = "qspec_empty" "there are no objects",
        /// A local QSPEC contains another local QSPEC.
        Nested = "qspec_nested" "a local QSPEC within another QSPEC",
        /// The octets at the end are too few for an object header.
        ObjectTruncated = "qspec_object_truncated" "fewer than four octets are left for an object header",
        /// An object leads past the end of the QSPEC.
        ObjectLength = "qspec_object_length" "the object exceeds the QSPEC",
        /// An object has no parameters.
        EmptyObject = "qspec_empty_object" "the object has no parameters",
        /// The object type is unknown.
        UnknownObject = "qspec_unknown_object" "the object type is unknown",
        /// An object occurs twice.
        DuplicateObject = "qspec_duplicate_object" "duplicate object",
        /// The octets at the end of an object are too few for a parameter header.
        ParameterTruncated = "qspec_parameter_truncated" "fewer than four octets are left for a parameter header",
        /// A parameter leads past the end of its object.
        ParameterLength = "qspec_parameter_length" "the parameter exceeds its object",
        /// The value of a parameter has a wrong length.
        ValueLength = "qspec_value_length" "invalid length of the value",
        /// A parameter occurs twice in an object.
        DuplicateParameter = "qspec_duplicate_parameter" "duplicate parameter",
        /// Message sequence or object combination is unknown, or the message is not part of that sequence.
        Procedure = "qspec_procedure" "the procedure is unknown or invalid for the message",
        /// An object that the procedure requires is missing.
        MissingObject = "qspec_missing_object" "an object of the procedure is missing",
        /// An object is not part of the procedure.
        UnexpectedObject = "qspec_unexpected_object" "the object is not part of the procedure",
        ;
        /// A value is invalid.
        Value(ValueError),
    }
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

impl ValueError {
    const fn name(self) -> &'static str {
        "qspec_value"
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
