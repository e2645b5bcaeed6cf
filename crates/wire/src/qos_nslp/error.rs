//! Parse errors of QoS NSLP messages: kind, position, and the INFO-SPEC of the RESPONSE.

use core::fmt;

use super::iana::{ObjectType, ProtocolError};

error_kinds! {
    /// Faults of a QoS NSLP message.
    pub enum ErrorKind {
        /// The message ends within its common header.
        Truncated = "qos_truncated" "the message is shorter than its common header",
        /// The message type is unknown.
        MessageType = "qos_message_type" "the message type is unknown",
        /// An acknowledgement and a response are both requested (RFC 5974 section 5.1.1).
        Acknowledgement = "qos_acknowledgement" "acknowledgement and response are both requested",
        /// The octets at the end are too few for an object header.
        ObjectTruncated = "qos_object_truncated" "fewer than four octets are left for an object header",
        /// An object leads past the end of the message.
        ObjectLength = "qos_object_length" "exceeds the message",
        /// The value of an object has a wrong length.
        ValueLength = "qos_value_length" "has an invalid length",
        /// An unknown object must be understood.
        UnknownObject = "qos_unknown_object" "is unknown and mandatory",
        /// An object is not allowed in messages of this type, or beside other objects of this message.
        IllegalObject = "qos_illegal_object" "is not allowed in this message",
        /// An object occurs twice that may occur once.
        DuplicateObject = "qos_duplicate_object" "is duplicate",
        /// A required object is missing.
        MissingObject = "qos_missing_object" "is missing",
        /// The error source identifier does not fit its type.
        Source = "qos_error_source" "has a malformed error source",
        /// The numbers of sequence numbers and sessions differ.
        ListMismatch = "qos_list_mismatch" "differs from the sessions in the number of entries",
        /// The QSPEC is empty.
        EmptyQspec = "qos_empty_qspec" "is empty",
    }
}

impl ErrorKind {
    /// Returns the code of the protocol-error class for the RESPONSE.
    pub const fn code(self) -> ProtocolError {
        match self {
            ErrorKind::Truncated | ErrorKind::ObjectTruncated => ProtocolError::WrongMessageLength,
            ErrorKind::MessageType => ProtocolError::IllegalMessageType,
            ErrorKind::Acknowledgement => ProtocolError::BadGenericFlags,
            ErrorKind::ObjectLength | ErrorKind::ValueLength => ProtocolError::WrongObjectLength,
            ErrorKind::UnknownObject => ProtocolError::UnknownObjectPresent,
            ErrorKind::IllegalObject => ProtocolError::IllegalObjectPresent,
            ErrorKind::DuplicateObject => ProtocolError::DuplicateObjectPresent,
            ErrorKind::MissingObject => ProtocolError::MandatoryObjectMissing,
            ErrorKind::Source | ErrorKind::ListMismatch => ProtocolError::ErroneousValue,
            ErrorKind::EmptyQspec => ProtocolError::MalformedQspec,
        }
    }
}

/// A malformed message: the fault and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParseError {
    /// Kind of fault.
    pub kind: ErrorKind,
    /// Type of the object at fault, if it is an object.
    pub object: Option<ObjectType>,
    /// Offset of the object, octets from the start of the message; the end of the message if something is missing.
    pub offset: usize,
}

impl ParseError {
    pub(super) const fn new(kind: ErrorKind, offset: usize) -> ParseError {
        ParseError { kind, object: None, offset }
    }

    pub(super) const fn of(kind: ErrorKind, object: ObjectType, offset: usize) -> ParseError {
        ParseError { kind, object: Some(object), offset }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ParseError { kind, object, offset } = self;
        write!(f, "QoS NSLP, octet {offset}: ")?;
        match object {
            Some(ObjectType::Unknown(code)) => write!(f, "object {code:#05x} {kind}"),
            Some(object) => write!(f, "{} {kind}", object.name()),
            None => write!(f, "{kind}"),
        }
    }
}

impl core::error::Error for ParseError {}
