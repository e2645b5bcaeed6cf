//! Why octets are not a QSPEC, or its values make no sense; where, and what a RESPONSE would say of it.

use core::fmt;

use super::iana::{ObjectType, ParameterId};
use crate::intserv;
use crate::qos_nslp::Outcome;
use crate::qos_nslp::iana::ProtocolError;

/// What is wrong with a QSPEC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// It ends before its header does.
    Truncated,
    /// Not version 0.
    Version,
    /// Its length is not that of the octets.
    Length,
    /// It has no objects.
    Empty,
    /// A local QSPEC stands inside another.
    Nested,
    /// Octets are left at the end that are no object header.
    ObjectTruncated,
    /// An object ends behind the end of the QSPEC.
    ObjectLength,
    /// An object without parameters.
    EmptyObject,
    /// An object type that nobody here knows.
    UnknownObject,
    /// An object is there twice.
    DuplicateObject,
    /// Octets are left at the end of an object that are no parameter header.
    ParameterTruncated,
    /// A parameter ends behind the end of its object.
    ParameterLength,
    /// The value of a parameter is too long or too short for what it is.
    ValueLength,
    /// A parameter is twice in an object.
    DuplicateParameter,
    /// The message sequence or the combination of objects is unknown, or the message is none of that sequence.
    Procedure,
    /// An object that the procedure demands is not there.
    MissingObject,
    /// An object that the procedure does not have is there.
    UnexpectedObject,
    /// A value makes no sense.
    Value(ValueError),
}

/// A value that the format allows and its parameter does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum ValueError {
    /// A traffic model that is none.
    #[error(transparent)]
    Bucket(intserv::ValueError),
    /// A rate or size below one, as an exponent below 127 says (RFC 5975 section 5.2.1).
    #[error("r, b and p must not be below 1")]
    Exponent,
    /// A ratio below 0, above 1/10, or none (RFC 5975 section 5.2.5).
    #[error("the ratio must be between 0 and 0.1")]
    Ratio,
    /// An admission priority that nobody here knows.
    #[error("the Y.2171 admission priority is unknown")]
    AdmissionPriority,
    /// A treatment of excess traffic that nobody here knows.
    #[error("the treatment of excess traffic is unknown")]
    ExcessTreatment,
    /// None of the four forms of a per-hop behaviour (RFC 5975 section 5.2.12).
    #[error("the PHB field has bits that none of its forms have")]
    PhbClass,
    /// A class type above 7.
    #[error("the DSTE class type is above 7")]
    DsteClassType,
    /// A class above 7.
    #[error("the Y.1541 QoS class is above 7")]
    Y1541QosClass,
}

impl ErrorKind {
    /// A short fixed name for counters.
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
            ErrorKind::Truncated => "it is shorter than its header",
            ErrorKind::Version => "the version is not 0",
            ErrorKind::Length => "the length is not that of the octets",
            ErrorKind::Empty => "there are no objects",
            ErrorKind::Nested => "a local QSPEC stands inside another",
            ErrorKind::ObjectTruncated => "fewer than four octets are left for an object header",
            ErrorKind::ObjectLength => "the object leads past the end",
            ErrorKind::EmptyObject => "the object has no parameters",
            ErrorKind::UnknownObject => "the object type is unknown",
            ErrorKind::DuplicateObject => "the object is here twice",
            ErrorKind::ParameterTruncated => {
                "fewer than four octets are left for a parameter header"
            }
            ErrorKind::ParameterLength => "the parameter leads past the end of its object",
            ErrorKind::ValueLength => "the value is of a length that it cannot have",
            ErrorKind::DuplicateParameter => "the parameter is twice in its object",
            ErrorKind::Procedure => "the procedure is unknown or not for such a message",
            ErrorKind::MissingObject => "the procedure needs an object that is not here",
            ErrorKind::UnexpectedObject => "the procedure does not have the object",
            ErrorKind::Value(error) => return error.fmt(f),
        })
    }
}

/// Octets are not a QSPEC, or its values make no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParseError {
    /// What is wrong.
    pub kind: ErrorKind,
    /// In which object, where it is in one; its E flag is to be raised.
    pub object: Option<ObjectType>,
    /// In which parameter, where it is in one; its E flag likewise.
    pub parameter: Option<ParameterId>,
    /// Where the header of parameter, object or QSPEC begins, octets from the start of the QSPEC; 0 in values that were
    /// not read.
    pub offset: usize,
}

impl ParseError {
    pub(super) const fn new(kind: ErrorKind, offset: usize) -> ParseError {
        ParseError { kind, object: None, parameter: None, offset }
    }

    pub(super) const fn of(kind: ErrorKind, object: ObjectType, offset: usize) -> ParseError {
        ParseError { kind, object: Some(object), parameter: None, offset }
    }

    /// What the INFO-SPEC of a RESPONSE would say (RFC 5975 section 4.2.3).
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
