//! Parse errors of Ping NSLP messages, with their offsets.

use core::fmt;

/// Faults of a Ping NSLP message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The message ends within its header.
    Truncated,
    /// The version is neither 1 nor 2.
    Version,
    /// The length is below that of the headers, or differs from the number of octets.
    Length,
    /// An address does not have 16 octets, or a timestamp does not have 8.
    ObjectLength,
    /// The last record is incomplete.
    Records,
}

impl ErrorKind {
    /// All kinds of fault.
    pub const ALL: [ErrorKind; 5] = [
        ErrorKind::Truncated,
        ErrorKind::Version,
        ErrorKind::Length,
        ErrorKind::ObjectLength,
        ErrorKind::Records,
    ];

    /// Returns a short fixed name for counters.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::Truncated => "ping_truncated",
            ErrorKind::Version => "ping_version",
            ErrorKind::Length => "ping_length",
            ErrorKind::ObjectLength => "ping_object_length",
            ErrorKind::Records => "ping_records",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorKind::Truncated => "the message is shorter than its header",
            ErrorKind::Version => "the version is neither 1 nor 2",
            ErrorKind::Length => "the length differs from that of the message",
            ErrorKind::ObjectLength => "invalid object length",
            ErrorKind::Records => "the last record is truncated",
        })
    }
}

/// A malformed message: the fault and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("Ping NSLP, octet {offset}: {kind}")]
pub struct ParseError {
    /// Kind of fault.
    pub kind: ErrorKind,
    /// Offset of the fault, octets from the start of the message.
    pub offset: usize,
}

impl ParseError {
    pub(super) const fn new(kind: ErrorKind, offset: usize) -> ParseError {
        ParseError { kind, offset }
    }
}
