//! Parse errors of NATFW NSLP messages: kind, position, and the outcome in the RESPONSE.

use core::fmt;

use super::iana::{ObjectType, ProtocolError, SignalingSessionFailure};
use super::info::{Info, Outcome};

error_kinds! {
    /// Faults of a NATFW NSLP message.
    pub enum ErrorKind {
        /// The message ends within its header.
        Truncated = "natfw_truncated" "the message is shorter than its header",
        /// The message type is unknown.
        MessageType = "natfw_message_type" "the message type is unknown",
        /// The octets at the end are too few for an object header.
        ObjectTruncated = "natfw_object_truncated" "fewer than four octets are left for an object header",
        /// An object leads past the end of the message.
        ObjectLength = "natfw_object_length" "exceeds the message",
        /// The flags A and B of an object are both set.
        ObjectFlags = "natfw_object_flags" "has both flags A and B set",
        /// The value of an object has a wrong length.
        ValueLength = "natfw_value_length" "has an invalid length",
        /// An unknown object must be understood.
        UnknownObject = "natfw_unknown_object" "is unknown and mandatory",
        /// An object is not allowed in messages of this type, or in a RESPONSE of this class.
        IllegalObject = "natfw_illegal_object" "is not allowed in this message",
        /// An object occurs twice.
        DuplicateObject = "natfw_duplicate_object" "is duplicate",
        /// A required object is missing.
        MissingObject = "natfw_missing_object" "is missing",
        /// An address has another IP version than 4, the only one with a defined form.
        IpVersion = "natfw_ip_version" "has an IP version other than 4",
        /// A prefix is longer than an IPv4 address.
        SenderPrefix = "natfw_sender_prefix" "has a sender prefix of more than 32 bits",
        /// The flags of NATFW_DTINFO contradict each other: P and S are both set, or one of them without I.
        Combination = "natfw_combination" "has an invalid combination of the flags I, P and S",
        /// The rule action is neither allow nor deny.
        RuleAction = "natfw_rule_action" "has an unknown rule action",
        /// The number of additional ports is neither 0 nor 1.
        SubPorts = "natfw_sub_ports" "has a value of sub_ports other than 0 and 1",
        /// A RESPONSE has the class of notifications, or a NOTIFY another one.
        Class = "natfw_class" "has a class that does not fit the message type",
    }
}

impl ErrorKind {
    /// Returns the class and code for the RESPONSE (RFC 5973 sections 4.2, 4.3).
    pub const fn outcome(self) -> Outcome {
        let failure = match self {
            ErrorKind::RuleAction => SignalingSessionFailure::UnknownRuleAction,
            ErrorKind::SubPorts => SignalingSessionFailure::SubPortsNotPermitted,
            _ => return Outcome::ProtocolError(self.protocol_error()),
        };
        Outcome::SignalingSessionFailure(failure)
    }

    const fn protocol_error(self) -> ProtocolError {
        match self {
            ErrorKind::Truncated | ErrorKind::ObjectTruncated => ProtocolError::WrongMessageLength,
            ErrorKind::MessageType => ProtocolError::IllegalMessageType,
            ErrorKind::ObjectLength | ErrorKind::ValueLength => ProtocolError::WrongObjectLength,
            ErrorKind::UnknownObject => ProtocolError::UnknownObjectPresent,
            ErrorKind::IllegalObject => ProtocolError::IllegalObjectPresent,
            ErrorKind::DuplicateObject => ProtocolError::DuplicateObjectPresent,
            ErrorKind::MissingObject => ProtocolError::MandatoryObjectMissing,
            ErrorKind::ObjectFlags | ErrorKind::Combination => ProtocolError::InvalidCombination,
            ErrorKind::IpVersion
            | ErrorKind::SenderPrefix
            | ErrorKind::RuleAction
            | ErrorKind::SubPorts
            | ErrorKind::Class => ProtocolError::UnknownFieldValue,
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

    /// Returns the NATFW_INFO of the RESPONSE: class, code, and the type of the object at fault.
    pub fn info(&self) -> Info {
        let object = self.object.filter(|object| object.code() != 0);
        Info { outcome: self.kind.outcome(), object }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ParseError { kind, object, offset } = self;
        write!(f, "NATFW NSLP, octet {offset}: ")?;
        match object {
            Some(ObjectType::Unknown(code)) => write!(f, "object {code:#05x} {kind}"),
            Some(object) => write!(f, "{} {kind}", object.name()),
            None => write!(f, "{kind}"),
        }
    }
}

impl core::error::Error for ParseError {}
