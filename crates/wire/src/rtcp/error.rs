//! Parse errors of compound RTCP packets, with their offsets.

use core::fmt;

/// Faults of a compound packet (RFC 3550 section 6 and appendix A.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The octets at the end are too few for a header.
    Truncated,
    /// The version is not 2.
    Version,
    /// The length leads past the end.
    Length,
    /// The first packet is neither SR nor RR.
    FirstPacket,
    /// Padding is not in the last packet, or has an impossible length.
    Padding,
    /// The count exceeds the contents of the packet.
    Count,
    /// An item of a source description leads past the end, or a chunk has no end.
    Item,
    /// The reason for leaving leads past the end of the packet.
    Reason,
    /// An APP packet is too short for its name.
    Application,
}

impl ErrorKind {
    /// Returns a short fixed name for counters.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::Truncated => "rtcp_truncated",
            ErrorKind::Version => "rtcp_version",
            ErrorKind::Length => "rtcp_length",
            ErrorKind::FirstPacket => "rtcp_first_packet",
            ErrorKind::Padding => "rtcp_padding",
            ErrorKind::Count => "rtcp_count",
            ErrorKind::Item => "rtcp_item",
            ErrorKind::Reason => "rtcp_reason",
            ErrorKind::Application => "rtcp_application",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorKind::Truncated => "fewer than four octets are left for a packet header",
            ErrorKind::Version => "the version is not 2",
            ErrorKind::Length => "the length exceeds the compound packet",
            ErrorKind::FirstPacket => "the first packet is neither SR nor RR",
            ErrorKind::Padding => "padding before the last packet, or longer than it",
            ErrorKind::Count => "the count exceeds the packet",
            ErrorKind::Item => "an SDES item or chunk exceeds the packet",
            ErrorKind::Reason => "the reason of a BYE exceeds the packet",
            ErrorKind::Application => "an APP packet without SSRC and name",
        })
    }
}

/// A malformed compound RTCP packet: the fault and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("RTCP, octet {offset}: {kind}")]
pub struct ParseError {
    /// Kind of fault.
    pub kind: ErrorKind,
    /// Offset of the fault, octets from the start of the compound.
    pub offset: usize,
}

impl ParseError {
    pub(crate) const fn new(kind: ErrorKind, offset: usize) -> ParseError {
        ParseError { kind, offset }
    }
}
