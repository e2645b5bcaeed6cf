//! Errors of an RTCP compound without a usable YESSIR message, with their offsets.

use core::fmt;

use super::iana::FragmentType;
use crate::rtcp;

/// Faults of a compound or its YESSIR message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The RTCP compound is malformed.
    Rtcp(rtcp::ErrorKind),
    /// The compound has two YESSIR packets.
    SecondMessage,
    /// The version is unknown.
    Version,
    /// The SSRC differs from that of the report.
    Source,
    /// The length of a fragment is not a multiple of 4, below 4, leads past the end, or does not fit its type.
    FragmentLength,
    /// A fragment occurs twice whose type may occur once, or there are two flowspecs.
    DuplicateFragment,
    /// The GENERIC fragment is missing.
    MissingGeneric,
    /// The command is unknown.
    Command,
    /// The style is unknown.
    Style,
    /// The service is neither controlled load nor guaranteed.
    Service,
    /// The notes of a FAILURE do not match its count, or have an unknown address family.
    Notes,
}

impl ErrorKind {
    /// Returns a short fixed name for counters.
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
            ErrorKind::FragmentLength => "invalid fragment length",
            ErrorKind::DuplicateFragment => "duplicate fragment",
            ErrorKind::MissingGeneric => "required, but missing",
            ErrorKind::Command => "unknown command",
            ErrorKind::Style => "unknown style",
            ErrorKind::Service => "unknown service",
            ErrorKind::Notes => "the notes do not fit their count or have no known address family",
        };
        f.write_str(text)
    }
}

/// A compound without a usable message: the fault and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParseError {
    /// Kind of fault.
    pub kind: ErrorKind,
    /// Fragment with the fault, if any.
    pub fragment: Option<FragmentType>,
    /// Offset of the fault, octets from the start of the compound.
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
