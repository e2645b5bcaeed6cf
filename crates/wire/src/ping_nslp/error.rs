//! Why octets are not a Ping NSLP message, and where.

use core::fmt;

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// It ends before its header does.
    Truncated,
    /// Neither version 1 nor version 2.
    Version,
    /// The length is less than that of the headers, or not that of the octets.
    Length,
    /// An address is not of 16 octets, or a timestamp not of 8.
    ObjectLength,
    /// Behind the last record there is a part of one.
    Records,
}

impl ErrorKind {
    /// All of them.
    pub const ALL: [ErrorKind; 5] = [
        ErrorKind::Truncated,
        ErrorKind::Version,
        ErrorKind::Length,
        ErrorKind::ObjectLength,
        ErrorKind::Records,
    ];

    /// A short fixed name for counters.
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
            ErrorKind::Length => "the length is not that of the message",
            ErrorKind::ObjectLength => "the object cannot have such a length",
            ErrorKind::Records => "the last record is not whole",
        })
    }
}

/// Octets are not a well-formed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("Ping NSLP, octet {offset}: {kind}")]
pub struct ParseError {
    /// What.
    pub kind: ErrorKind,
    /// Where, in octets from the start of the message.
    pub offset: usize,
}

impl ParseError {
    pub(super) const fn new(kind: ErrorKind, offset: usize) -> ParseError {
        ParseError { kind, offset }
    }
}
