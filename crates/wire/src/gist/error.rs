//! Why octets are not a GIST message, where, and what the sender is told of it.

use core::fmt;

use super::grammar::Mode;
use super::header::{HEADER, Header};
use super::iana::{ErrorCode, MessageType, ObjectType, subcode};
use super::mri::Mri;
use super::nli::NetworkLayerInformation;
use super::reader::Reader;
use super::report::{ErrorObject, Info, Infos};
use crate::nsis::{Object, SessionId, WORD, objects};

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// It ends before the common header does.
    Truncated,
    /// Another version than 1.
    Version,
    /// A message type that nobody knows.
    Type,
    /// The R-flag does not go with the message.
    ReplyFlag,
    /// The message length is not that of the objects.
    MessageLength {
        /// The words that they add up to.
        calculated: u16,
    },
    /// The E-flag on something else than Data.
    ExplicitFlag,
    /// The C-flag on something else than Query and Q-mode Data, or not on a Query.
    ContextFlag,
    /// A Query in C-mode or an MA-Hello in D-mode.
    Encapsulation,
    /// An object for the second time.
    Duplicate,
    /// An object that is not known here and may not be ignored.
    Unrecognised,
    /// An object that must be there is not.
    Missing,
    /// An object that this message does not have.
    InvalidObject,
    /// An object behind another one that it belongs in front of.
    Order,
    /// The extensibility flags AB=11.
    ExtensibilityFlags,
    /// An object's length is not that of what is in it.
    Length,
    /// A value that is not known here or may not be.
    NotSupported,
    /// Flags and fields that do not go together.
    Combination,
    /// A profile without protocols.
    EmptyList,
    /// Stack-Proposal and Stack-Configuration-Data do not go together.
    StackMismatch,
}

impl ErrorKind {
    /// A short fixed name for counters.
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

    /// The code and subcode that RFC 5971 A.4.4 has for it; none for what nobody can answer.
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
            ErrorKind::Truncated => "ends before the common header does",
            ErrorKind::Version => "another version than 1",
            ErrorKind::Type => "an unknown message type",
            ErrorKind::ReplyFlag => "the R-flag does not go with the message",
            ErrorKind::MessageLength { calculated } => {
                return write!(f, "the message length is not {calculated}, that of the objects");
            }
            ErrorKind::ExplicitFlag => "the E-flag is set outside of Data",
            ErrorKind::ContextFlag => "the C-flag does not go with the message",
            ErrorKind::Encapsulation => "a message that is not sent this way",
            ErrorKind::Duplicate => "a second time",
            ErrorKind::Unrecognised => "unknown, and not to be ignored",
            ErrorKind::Missing => "missing",
            ErrorKind::InvalidObject => "does not belong into this message",
            ErrorKind::Order => "behind what it belongs in front of",
            ErrorKind::ExtensibilityFlags => "has both extensibility flags",
            ErrorKind::Length => "has another length than what is in it",
            ErrorKind::NotSupported => "has a value that is not supported",
            ErrorKind::Combination => "has flags and fields that do not go together",
            ErrorKind::EmptyList => "has a profile without protocols",
            ErrorKind::StackMismatch => "does not go with the Stack-Proposal",
        })
    }
}

/// The object that an error is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Its type.
    pub object_type: u16,
    /// Where its header begins, octets from the common header; for one that is missing, the end of the message.
    pub offset: usize,
}

impl Origin {
    pub(super) fn of(object: &Object<'_>) -> Origin {
        Origin { object_type: object.object_type(), offset: object.offset() }
    }
}

/// Octets are not a well-formed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParseError {
    /// What is wrong.
    pub kind: ErrorKind,
    /// Where the field begins, octets from the common header.
    pub offset: usize,
    /// The object it is in; none for the common header.
    pub object: Option<Origin>,
}

impl ParseError {
    pub(super) const fn header(kind: ErrorKind, offset: usize) -> ParseError {
        ParseError { kind, offset, object: None }
    }

    pub(super) const fn in_object(kind: ErrorKind, offset: usize, origin: Origin) -> ParseError {
        ParseError { kind, offset, object: Some(origin) }
    }

    /// What an Error message says of `octets`, which this is the error of (RFC 5971 A.4): class, code and subcode, what
    /// the catalogue wants to be said besides, and session and MRI where they can be read and may be shown.
    ///
    /// `None` for what must not be answered: Error messages, and what has no common header.
    pub fn answer<'a>(&self, octets: &'a [u8], mode: Mode) -> Option<ErrorObject<'a>> {
        let (code, subcode) = self.kind.code()?;
        let answer = ErrorObject::about(octets, mode, code, subcode)?;
        Some(ErrorObject { infos: Infos::Few(self.infos(octets)), ..answer })
    }

    /// The fields that the catalogue wants for the error.
    fn infos<'a>(&self, octets: &'a [u8]) -> [Option<Info<'a>>; 2] {
        if let ErrorKind::MessageLength { calculated } = self.kind {
            return [Some(Info::MessageLength(calculated)), None];
        }
        let Some(origin) = self.object else { return [None, None] };
        match self.kind.code() {
            Some((ErrorCode::ObjectType, _)) => [Some(Info::ObjectType(origin.object_type)), None],
            Some((ErrorCode::ObjectValue, _)) if self.kind == ErrorKind::StackMismatch => {
                let proposal = find(octets, ObjectType::StackProposal);
                let configuration = find(octets, ObjectType::StackConfigurationData);
                let offset = self.offset.saturating_sub(origin.offset);
                [
                    proposal.map(|object| Info::object_value(object.octets(), 0)),
                    configuration.map(|object| Info::object_value(object.octets(), offset)),
                ]
            }
            Some((ErrorCode::ObjectValue, _)) => {
                let object = walk(octets).find(|object| object.offset() == origin.offset);
                let offset = self.offset.saturating_sub(origin.offset);
                [object.map(|object| Info::object_value(object.octets(), offset)), None]
            }
            _ => [None, None],
        }
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

impl<'a> ErrorObject<'a> {
    /// What an Error message says of `octets`, a message that came in `mode`: the class that the catalogue gives `code`, the
    /// common header, and session and MRI where they can be read and may be shown. The fields of information that the
    /// catalogue wants (RFC 5971 A.4.4) are left to the caller.
    ///
    /// `None` for what must not be answered: Error messages (RFC 5971 section 5.6), and what has no common header.
    pub fn about(
        octets: &'a [u8],
        mode: Mode,
        code: ErrorCode,
        subcode: u8,
    ) -> Option<ErrorObject<'a>> {
        let original = *octets.first_chunk::<HEADER>()?;
        let header = Header::parse(octets).ok();
        if header.is_some_and(|header| header.message_type == MessageType::Error) {
            return None;
        }
        let (session, mri) = match code {
            ErrorCode::CommonHeaderParse => (None, None), // A.4.4.1 forbids them
            _ => identify(octets),
        };
        Some(ErrorObject {
            class: code.class(),
            code,
            subcode,
            d_mode: mode == Mode::D,
            q_mode: mode == Mode::D && header.is_some_and(|header| header.flags.context_free),
            original,
            session,
            mri,
            infos: Infos::NONE,
            comment: None,
        })
    }
}

/// The objects of a message as far as they can be walked.
fn walk(octets: &[u8]) -> impl Iterator<Item = Object<'_>> {
    objects(octets.get(HEADER..).unwrap_or_default(), HEADER).map_while(Result::ok)
}

fn find(octets: &[u8], object_type: ObjectType) -> Option<Object<'_>> {
    walk(octets).find(|object| object.object_type() == object_type.code())
}

/// The first object of a type in a message, which need not be well formed: to be shown in an answer to it.
pub fn find_object(octets: &[u8], object_type: ObjectType) -> Option<Object<'_>> {
    find(octets, object_type)
}

/// Who sent a message, which need not be well formed: where an Error goes (RFC 5971 section 5.6). `None` where it does not
/// say so, or cannot be read.
pub fn find_sender(octets: &[u8]) -> Option<NetworkLayerInformation<'_>> {
    let object = find(octets, ObjectType::NetworkLayerInformation)?;
    NetworkLayerInformation::parse(Reader::of(&object)).ok()
}

/// The session and the MRI of a message, each where it can be decoded.
fn identify(octets: &[u8]) -> (Option<SessionId>, Option<Mri>) {
    let session =
        find(octets, ObjectType::SessionId).and_then(|object| Reader::of(&object).session().ok());
    let mri = find(octets, ObjectType::MessageRoutingInformation)
        .and_then(|object| Mri::parse(Reader::of(&object)).ok());
    (session, mri)
}

/// Octets as words, as far as sixteen bits can say it.
pub(super) fn words(octets: usize) -> u16 {
    u16::try_from(octets.div_ceil(WORD)).unwrap_or(u16::MAX)
}
