//! Parse errors of GIST messages: kind and position.

use core::fmt;

use super::iana::{ErrorCode, ObjectType, subcode};
use crate::nsis::{Object, WORD};

/// Faults of a GIST message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The octets end within the common header.
    Truncated,
    /// The version is not 1.
    Version,
    /// The message type is unknown.
    Type,
    /// The R-flag is invalid for this message.
    ReplyFlag,
    /// The message length differs from the length of the objects.
    MessageLength {
        /// Length of the objects, words.
        calculated: u16,
    },
    /// The E-flag is set in a message other than Data.
    ExplicitFlag,
    /// The C-flag is set in a message other than Query and Q-mode Data, or is clear in a Query.
    ContextFlag,
    /// A Query came in C-mode, or an MA-Hello in D-mode.
    Encapsulation,
    /// An object occurs twice.
    Duplicate,
    /// An object is unknown and must not be ignored.
    Unrecognised,
    /// A required object is missing.
    Missing,
    /// An object is not allowed in this message.
    InvalidObject,
    /// An object follows one that it must precede.
    Order,
    /// The extensibility flags are AB=11.
    ExtensibilityFlags,
    /// The length of an object does not fit its contents.
    Length,
    /// A value is unknown or not allowed.
    NotSupported,
    /// Flags and fields contradict each other.
    Combination,
    /// A profile has no protocols.
    EmptyList,
    /// Stack-Proposal and Stack-Configuration-Data contradict each other.
    StackMismatch,
}

impl ErrorKind {
    /// Returns a short fixed name for counters.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::Truncated => "gist_truncated",
            ErrorKind::Version => "gist_version",
            ErrorKind::Type => "gist_type",
            ErrorKind::ReplyFlag => "gist_reply_flag",
            ErrorKind::MessageLength { .. } => "gist_message_length",
            ErrorKind::ExplicitFlag => "gist_explicit_flag",
            ErrorKind::ContextFlag => "gist_context_flag",
            ErrorKind::Encapsulation => "gist_encapsulation",
            ErrorKind::Duplicate => "gist_duplicate_object",
            ErrorKind::Unrecognised => "gist_unrecognised_object",
            ErrorKind::Missing => "gist_missing_object",
            ErrorKind::InvalidObject => "gist_invalid_object",
            ErrorKind::Order => "gist_object_order",
            ErrorKind::ExtensibilityFlags => "gist_extensibility_flags",
            ErrorKind::Length => "gist_object_length",
            ErrorKind::NotSupported => "gist_not_supported",
            ErrorKind::Combination => "gist_combination",
            ErrorKind::EmptyList => "gist_empty_list",
            ErrorKind::StackMismatch => "gist_stack_mismatch",
        }
    }

    /// Returns code and subcode (RFC 5971 A.4.4); `None` for faults that cannot be answered.
    pub const fn code(self) -> Option<(ErrorCode, u8)> {
        use ErrorCode::{CommonHeaderParse, IncorrectEncapsulation, ObjectType, ObjectValue};
        use subcode::{header, object_type, object_value};
        Some(match self {
            ErrorKind::Truncated => return None,
            ErrorKind::Version => (CommonHeaderParse, header::UNKNOWN_VERSION),
            ErrorKind::Type => (CommonHeaderParse, header::UNKNOWN_TYPE),
            ErrorKind::ReplyFlag => (CommonHeaderParse, header::INVALID_R_FLAG),
            ErrorKind::MessageLength { .. } => {
                (CommonHeaderParse, header::INCORRECT_MESSAGE_LENGTH)
            }
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

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorKind::Truncated => "truncated within the common header",
            ErrorKind::Version => "version is not 1",
            ErrorKind::Type => "unknown message type",
            ErrorKind::ReplyFlag => "invalid R-flag for the message",
            ErrorKind::MessageLength { calculated } => {
                return write!(f, "the message length is not {calculated}, that of the objects");
            }
            ErrorKind::ExplicitFlag => "the E-flag is set outside of Data",
            ErrorKind::ContextFlag => "invalid C-flag for the message",
            ErrorKind::Encapsulation => "wrong encapsulation for the message",
            ErrorKind::Duplicate => "duplicate",
            ErrorKind::Unrecognised => "unknown and mandatory",
            ErrorKind::Missing => "missing",
            ErrorKind::InvalidObject => "not allowed in this message",
            ErrorKind::Order => "out of order",
            ErrorKind::ExtensibilityFlags => "both extensibility flags are set",
            ErrorKind::Length => "length does not match the contents",
            ErrorKind::NotSupported => "unsupported value",
            ErrorKind::Combination => "flags and fields contradict each other",
            ErrorKind::EmptyList => "profile without protocols",
            ErrorKind::StackMismatch => "contradicts the Stack-Proposal",
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
