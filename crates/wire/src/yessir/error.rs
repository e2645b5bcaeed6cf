//! Why an RTCP compound has no YESSIR message that can be acted on, and where.

use core::fmt;

use super::iana::FragmentType;
use crate::rtcp;

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The compound itself.
    Rtcp(rtcp::ErrorKind),
    /// Two YESSIR packets in one compound.
    SecondMessage,
    /// A version that is not known here.
    Version,
    /// Another source's SSRC than that of the report.
    Source,
    /// A fragment's length is no multiple of 4, below 4, leads past the end, or is not that of its type.
    FragmentLength,
    /// A second fragment of a type that may occur once, or a second flowspec.
    DuplicateFragment,
    /// No GENERIC.
    MissingGeneric,
    /// A command that is not known here.
    Command,
    /// A style that is not known here.
    Style,
    /// A service that is neither controlled load nor guaranteed.
    Service,
    /// The notes of a FAILURE are not as many as it says, or of no known address family.
    Notes,
}

impl ErrorKind {
    /// A short fixed name for counters.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::Rtcp(kind) => kind.name(),
            ErrorKind::SecondMessage => "second_message",
            ErrorKind::Version => "version",
            ErrorKind::Source => "source",
            ErrorKind::FragmentLength => "fragment_length",
            ErrorKind::DuplicateFragment => "duplicate_fragment",
            ErrorKind::MissingGeneric => "missing_generic",
            ErrorKind::Command => "command",
            ErrorKind::Style => "style",
            ErrorKind::Service => "service",
            ErrorKind::Notes => "notes",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            ErrorKind::Rtcp(kind) => return kind.fmt(f),
            ErrorKind::SecondMessage => "a second YESSIR packet in one compound",
            ErrorKind::Version => "unknown version",
            ErrorKind::Source => "another source than that of the report",
            ErrorKind::FragmentLength => "the length is not that of the fragment",
            ErrorKind::DuplicateFragment => "may occur once only",
            ErrorKind::MissingGeneric => "required, but missing",
            ErrorKind::Command => "unknown command",
            ErrorKind::Style => "unknown style",
            ErrorKind::Service => "unknown service",
            ErrorKind::Notes => "the notes do not fit their count or have no known address family",
        };
        f.write_str(text)
    }
}

/// Why there is no message that can be acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParseError {
    /// What.
    pub kind: ErrorKind,
    /// Of which fragment, where it is one's.
    pub fragment: Option<FragmentType>,
    /// Where, in octets from the start of the compound.
    pub offset: usize,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "YESSIR, octet {}", self.offset)?;
        if let Some(fragment) = self.fragment {
            write!(f, " ({})", fragment.name())?;
        }
        write!(f, ": {}", self.kind)
    }
}

impl core::error::Error for ParseError {}

impl From<rtcp::ParseError> for ParseError {
    fn from(error: rtcp::ParseError) -> ParseError {
        ParseError { kind: ErrorKind::Rtcp(error.kind), fragment: None, offset: error.offset }
    }
}
