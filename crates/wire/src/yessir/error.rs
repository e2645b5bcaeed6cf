//! Errors of an RTCP compound without a usable YESSIR message, with their offsets.

use core::fmt;

use super::iana::FragmentType;
use crate::rtcp;

error_kinds! {
    /// Faults of a compound or its YESSIR message.
    pub enum ErrorKind {
        /// The compound has two YESSIR packets.
        SecondMessage = "second_message" "a second YESSIR packet in one compound",
        /// The version is unknown.
        Version = "version" "unknown version",
        /// The SSRC differs from that of the report.
        Source = "source" "another source than that of the report",
        /// The length of a fragment is not a multiple of 4, below 4, leads past the end, or does not fit its type.
        FragmentLength = "fragment_length" "invalid fragment length",
        /// A fragment occurs twice whose type may occur once, or there are two flowspecs.
        DuplicateFragment = "duplicate_fragment" "duplicate fragment",
        /// The GENERIC fragment is missing.
        MissingGeneric = "missing_generic" "required, but missing",
        /// The command is unknown.
        Command = "command" "unknown command",
        /// The style is unknown.
        Style = "style" "unknown style",
        /// The service is neither controlled load nor guaranteed.
        Service = "service" "unknown service",
        /// The notes of a FAILURE do not match its count, or have an unknown address family.
        Notes = "notes" "the notes do not fit their count or have no known address family",
        ;
        /// The RTCP compound is malformed.
        Rtcp(rtcp::ErrorKind),
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
