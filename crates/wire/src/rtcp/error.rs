//! Parse errors of compound RTCP packets, with their offsets.

error_kinds! {
    /// Faults of a compound packet (RFC 3550 section 6 and appendix A.2).
    pub enum ErrorKind {
        /// The octets at the end are too few for a header.
        Truncated = "rtcp_truncated" "fewer than four octets are left for a packet header",
        /// The version is not 2.
        Version = "rtcp_version" "the version is not 2",
        /// The length leads past the end.
        Length = "rtcp_length" "the length exceeds the compound packet",
        /// The first packet is neither SR nor RR.
        FirstPacket = "rtcp_first_packet" "the first packet is neither SR nor RR",
        /// Padding is not in the last packet, or has an impossible length.
        Padding = "rtcp_padding" "padding before the last packet, or longer than it",
        /// The count exceeds the contents of the packet.
        Count = "rtcp_count" "the count exceeds the packet",
        /// An item of a source description leads past the end, or a chunk has no end.
        Item = "rtcp_item" "an SDES item or chunk exceeds the packet",
        /// The reason for leaving leads past the end of the packet.
        Reason = "rtcp_reason" "the reason of a BYE exceeds the packet",
        /// An APP packet is too short for its name.
        Application = "rtcp_application" "an APP packet without SSRC and name",
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
