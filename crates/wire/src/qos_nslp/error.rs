//! Why octets are not a well-formed QoS NSLP message, where, and what a RESPONSE would say of it.

use core::fmt;

use super::iana::{ObjectType, ProtocolError};
use super::info_spec::{InfoSpec, Outcome};

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// It ends before its common header does.
    Truncated,
    /// A message type that nobody here knows.
    MessageType,
    /// An acknowledgement is asked for beside a response (RFC 5974 section 5.1.1).
    Acknowledgement,
    /// Octets are left at the end that are no object header.
    ObjectTruncated,
    /// An object ends behind the end of the message.
    ObjectLength,
    /// The value of an object is too long or too short for what it is.
    ValueLength,
    /// An object of an unknown type that must be understood.
    UnknownObject,
    /// An object that messages of this type, or with these other objects, do not have.
    IllegalObject,
    /// An object that may be there once is there again.
    DuplicateObject,
    /// An object that must be there is not.
    MissingObject,
    /// The error source identifier is not what its type says.
    Source,
    /// There are more or fewer sequence numbers than sessions.
    ListMismatch,
    /// The QSPEC is empty.
    EmptyQspec,
}

impl ErrorKind {
    /// A short fixed name for counters.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::Truncated => "qos_truncated",
            ErrorKind::MessageType => "qos_message_type",
            ErrorKind::Acknowledgement => "qos_acknowledgement",
            ErrorKind::ObjectTruncated => "qos_object_truncated",
            ErrorKind::ObjectLength => "qos_object_length",
            ErrorKind::ValueLength => "qos_value_length",
            ErrorKind::UnknownObject => "qos_unknown_object",
            ErrorKind::IllegalObject => "qos_illegal_object",
            ErrorKind::DuplicateObject => "qos_duplicate_object",
            ErrorKind::MissingObject => "qos_missing_object",
            ErrorKind::Source => "qos_error_source",
            ErrorKind::ListMismatch => "qos_list_mismatch",
            ErrorKind::EmptyQspec => "qos_empty_qspec",
        }
    }

    /// The code of the protocol-error class that says it to the sender.
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

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorKind::Truncated => "the message is shorter than its common header",
            ErrorKind::MessageType => "the message type is unknown",
            ErrorKind::Acknowledgement => "an acknowledgement is requested beside a response",
            ErrorKind::ObjectTruncated => "fewer than four octets are left for an object header",
            ErrorKind::ObjectLength => "leads past the end of the message",
            ErrorKind::ValueLength => "is of a length that it cannot have",
            ErrorKind::UnknownObject => "is unknown and must not be",
            ErrorKind::IllegalObject => "must not be here",
            ErrorKind::DuplicateObject => "is here twice",
            ErrorKind::MissingObject => "is missing",
            ErrorKind::Source => "names its source in a form that it does not have",
            ErrorKind::ListMismatch => "has not as many entries as there are sessions",
            ErrorKind::EmptyQspec => "is empty",
        })
    }
}

/// Octets are not a well-formed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParseError {
    /// What is wrong.
    pub kind: ErrorKind,
    /// The object that is wrong, where it is one.
    pub object: Option<ObjectType>,
    /// Where it begins, octets from the start of the message; where something is missing, the end of the message.
    pub offset: usize,
}

impl ParseError {
    pub(super) const fn new(kind: ErrorKind, offset: usize) -> ParseError {
        ParseError { kind, object: None, offset }
    }

    pub(super) const fn of(kind: ErrorKind, object: ObjectType, offset: usize) -> ParseError {
        ParseError { kind, object: Some(object), offset }
    }

    /// What a RESPONSE would say: the code of the protocol error, and, written into `room`, which object is meant
    /// (Object Type Info, RFC 5974 section 5.1.3.6).
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
