//! Parse errors of Ping NSLP messages, with their offsets.

error_kinds! {
    /// Faults of a Ping NSLP message.
    pub enum ErrorKind {
        /// The message ends within its header.
        Truncated = "ping_truncated" "the message is shorter than its header",
        /// The version is neither 1 nor 2.
        Version = "ping_version" "the version is neither 1 nor 2",
        /// The length is below that of the headers, or differs from the number of octets.
        Length = "ping_length" "the length differs from that of the message",
        /// An address does not have 16 octets, or a timestamp does not have 8.
        ObjectLength = "ping_object_length" "invalid object length",
        /// The last record is incomplete.
        Records = "ping_records" "the last record is truncated",
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
