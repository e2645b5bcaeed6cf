//! Parse errors of Boomerang messages, with their offsets.

use core::fmt;

error_kinds! {
    /// Faults of a Boomerang message.
    pub enum ErrorKind {
        /// The message ends before its last field.
        Truncated = "truncated" "is truncated",
        /// The message does not begin with MAGIC.
        Magic = "magic" "is not 0x47114711",
        /// The message type is unsupported: DS marker set-up, or an unknown one.
        Type = "type" "is not that of a reservation",
        /// The address family is unknown.
        Family = "family" "is neither IPv4 nor IPv6",
        /// The QoS format is unsupported: IntServ, or an unknown one.
        Qos = "qos" "is neither bitrates nor downgrades",
        /// The version is not 1.
        Version = "version" "is not 1",
        /// The downgrade vector is empty.
        EmptyVector = "empty_vector" "is zero",
        /// The mask of the source address is no prefix.
        SourceMask = "source_mask" "is not a prefix",
        /// The mask of the destination address is no prefix.
        DestinationMask = "destination_mask" "is not a prefix",
        /// The mask of the source port is neither all ones nor all zeros.
        SourcePortMask = "source_port_mask" "is neither all ones nor all zeros",
        /// The mask of the destination port is neither all ones nor all zeros.
        DestinationPortMask = "destination_port_mask" "is neither all ones nor all zeros",
        /// The mask of the protocol is neither all ones nor all zeros.
        ProtocolMask = "protocol_mask" "is neither all ones nor all zeros",
        /// The mask of the type of service is neither all ones nor all zeros.
        TosMask = "tos_mask" "is neither all ones nor all zeros",
        /// The mask has bits set in the flags field, which has no meaning.
        FlagsMask = "flags_mask" "is not zero",
        /// The mask covers ports but not the protocol, so that their position in a packet is unknown.
        PortsWithoutProtocol = "ports_without_protocol" "is zero although ports are significant",
        /// An option leads past the end of the message.
        OptionLength = "option_length" "exceeds the message",
    }
}

impl ErrorKind {
    /// Returns the name of the field at fault.
    const fn field(self) -> &'static str {
        match self {
            ErrorKind::Truncated => "message",
            ErrorKind::Magic => "MAGIC",
            ErrorKind::Type => "type",
            ErrorKind::Family | ErrorKind::Qos => "format",
            ErrorKind::Version => "version",
            ErrorKind::EmptyVector => "vec_size",
            ErrorKind::SourceMask => "mask of the source address",
            ErrorKind::DestinationMask => "mask of the destination address",
            ErrorKind::SourcePortMask => "mask of the source port",
            ErrorKind::DestinationPortMask => "mask of the destination port",
            ErrorKind::ProtocolMask | ErrorKind::PortsWithoutProtocol => "mask of the protocol",
            ErrorKind::TosMask => "mask of the type of service",
            ErrorKind::FlagsMask => "mask of the flags",
            ErrorKind::OptionLength => "option",
        }
    }
}

/// A malformed message: the fault and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParseError {
    /// Kind of fault.
    pub kind: ErrorKind,
    /// Offset of the field at fault, octets from MAGIC; the end of the message if something is missing.
    pub offset: usize,
}

impl ParseError {
    pub(super) const fn new(kind: ErrorKind, offset: usize) -> ParseError {
        ParseError { kind, offset }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ParseError { kind, offset } = self;
        write!(f, "{} at octet {offset}: {kind}", kind.field())
    }
}

impl core::error::Error for ParseError {}
