//! Parse errors of GIST messages: kind and position.

use core::fmt;

use super::iana::{ErrorCode, ObjectType, subcode};
use crate::nsis::{Object, WORD};

error_kinds! {
    /// Faults of a GIST message.
    pub enum ErrorKind {
        /// The octets end within the common header.
        Truncated = "gist_truncated" "truncated within the common header",
        /// The version is not 1.
        Version = "gist_version" "version is not 1",
        /// The message type is unknown.
        Type = "gist_type" "unknown message type",
        /// The R-flag is invalid for this message.
        ReplyFlag = "gist_reply_flag" "invalid R-flag for the message",
        /// The E-flag is set in a message other than Data.
        ExplicitFlag = "gist_explicit_flag" "the E-flag is set outside of Data",
        /// The C-flag is set in a message other than Query and Q-mode Data, or is clear in a Query.
        ContextFlag = "gist_context_flag" "invalid C-flag for the message",
        /// A Query came in C-mode, or an MA-Hello in D-mode.
        Encapsulation = "gist_encapsulation" "wrong encapsulation for the message",
        /// An object occurs twice.
        Duplicate = "gist_duplicate_object" "duplicate",
        /// An object is unknown and must not be ignored.
        Unrecognised = "gist_unrecognised_object" "unknown and mandatory",
        /// A required object is missing.
        Missing = "gist_missing_object" "missing",
        /// An object is not allowed in this message.
        InvalidObject = "gist_invalid_object" "not allowed in this message",
        /// An object follows one that it must precede.
        Order = "gist_object_order" "out of order",
        /// The extensibility flags are AB=11.
        ExtensibilityFlags = "gist_extensibility_flags" "both extensibility flags are set",
        /// The length of an object does not fit its contents.
        Length = "gist_object_length" "length does not match the contents",
        /// A value is unknown or not allowed.
        NotSupported = "gist_not_supported" "unsupported value",
        /// Flags and fields contradict each other.
        Combination = "gist_combination" "flags and fields contradict each other",
        /// A profile has no protocols.
        EmptyList = "gist_empty_list" "profile without protocols",
        /// Stack-Proposal and Stack-Configuration-Data contradict each other.
        StackMismatch = "gist_stack_mismatch" "contradicts the Stack-Proposal",
        ;
        /// The message length differs from the length of the objects.
        MessageLength(LengthMismatch),
    }
}

/// The length of the objects, which differs from that of the message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("the message length is not {words}, that of the objects")]
pub struct LengthMismatch {
    /// Length of the objects, words.
    pub words: u16,
}

impl LengthMismatch {
    const fn name(self) -> &'static str {
        "gist_message_length"
    }
}

impl ErrorKind {
    /// Returns code and subcode (RFC 5971 A.4.4); `None` for faults that cannot be answered.
    pub const fn code(self) -> Option<(ErrorCode, u8)> {
        use ErrorCode::{CommonHeaderParse, IncorrectEncapsulation, ObjectType, ObjectValue};
        use subcode::{header, object_type, object_value};
        Some(match self {
            ErrorKind::Truncated => return None,
            ErrorKind::Version => (CommonHeaderParse, header::UNKNOWN_VERSION),
            ErrorKind::Type => (CommonHeaderParse, header::UNKNOWN_TYPE),
            ErrorKind::ReplyFlag => (CommonHeaderParse, header::INVALID_R_FLAG),
            ErrorKind::MessageLength(_) => (CommonHeaderParse, header::INCORRECT_MESSAGE_LENGTH),
            ErrorKind::ExplicitFlag => (CommonHeaderParse, header::INVALID_E_FLAG),
            ErrorKind::ContextFlag => (CommonHeaderParse, header::INVALID_C_FLAG),
            ErrorKind::Encapsulation => (IncorrectEncapsulation, 0),
            ErrorKind::Duplicate => (ObjectType, object_type::DUPLICATE),
            ErrorKind::Unrecognised => (ObjectType, object_type::UNRECOGNISED),
            ErrorKind::Missing => (ObjectType, object_type::MISSING),
            ErrorKind::InvalidObject | ErrorKind::Order => (ObjectType, object_type::INVALID),
            ErrorKind::ExtensibilityFlags => (ObjectType, object_type::INVALID_EXTENSIBILITY_FLAGS),
            ErrorKind::Length => (ObjectValue, object_value::INCORRECT_LENGTH),
            ErrorKind::NotSupported => (ObjectValue, object_value::NOT_SUPPORTED),
            ErrorKind::Combination => (ObjectValue, object_value::INVALID_COMBINATION),
            ErrorKind::EmptyList => (ObjectValue, object_value::EMPTY_LIST),
            ErrorKind::StackMismatch => (ObjectValue, object_value::STACK_MISMATCH),
        })
    }
}

/// The object with a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Object type.
    pub object_type: u16,
    /// Offset of the object's header, octets from the common header; the end of the message for a missing object.
    pub offset: usize,
}

impl Origin {
    pub(super) fn of(object: &Object<'_>) -> Origin {
        Origin { object_type: object.object_type(), offset: object.offset() }
    }
}

/// A malformed message: the fault and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParseError {
    /// Kind of fault.
    pub kind: ErrorKind,
    /// Offset of the field at fault, octets from the common header.
    pub offset: usize,
    /// The object with the fault; `None` for the common header.
    pub object: Option<Origin>,
}

impl ParseError {
    pub(super) const fn header(kind: ErrorKind, offset: usize) -> ParseError {
        ParseError { kind, offset, object: None }
    }

    pub(super) const fn in_object(kind: ErrorKind, offset: usize, origin: Origin) -> ParseError {
        ParseError { kind, offset, object: Some(origin) }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ParseError { kind, offset, object } = self;
        match object {
            None => write!(f, "GIST, octet {offset}: {kind}"),
            Some(origin) => {
                let name = ObjectType::from_code(origin.object_type).name();
                write!(f, "GIST, octet {offset}, object {} ({name}): {kind}", origin.object_type)
            }
        }
    }
}

impl core::error::Error for ParseError {}

/// Converts octets to words, limited to sixteen bits.
pub(super) fn words(octets: usize) -> u16 {
    u16::try_from(octets.div_ceil(WORD)).unwrap_or(u16::MAX)
}
