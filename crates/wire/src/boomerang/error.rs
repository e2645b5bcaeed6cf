//! Parse errors of Boomerang messages, with their offsets.

use core::fmt;

/// Faults of a Boomerang message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// The message ends before its last field.
    Truncated,
    /// The message does not begin with MAGIC.
    Magic,
    /// The message type is unsupported: DS marker set-up, or an unknown one.
    Type,
    /// The address family is unknown.
    Family,
    /// The QoS format is unsupported: IntServ, or an unknown one.
    Qos,
    /// The version is not 1.
    Version,
    /// The downgrade vector is empty.
    EmptyVector,
    /// The mask of the source address is no prefix.
    SourceMask,
    /// The mask of the destination address is no prefix.
    DestinationMask,
    /// The mask of the source port is neither all ones nor all zeros.
    SourcePortMask,
    /// The mask of the destination port is neither all ones nor all zeros.
    DestinationPortMask,
    /// The mask of the protocol is neither all ones nor all zeros.
    ProtocolMask,
    /// The mask of the type of service is neither all ones nor all zeros.
    TosMask,
    /// The mask has bits set in the flags field, which has no meaning.
    FlagsMask,
    /// The mask covers ports but not the protocol, so that their position in a packet is unknown.
    PortsWithoutProtocol,
    /// An option leads past the end of the message.
    OptionLength,
}

impl ErrorKind {
    /// Returns a short fixed name for counters.
    pub const fn name(self) -> &'static str {
        match self {
            ErrorKind::Truncated => "truncated",
            ErrorKind::Magic => "magic",
            ErrorKind::Type => "type",
            ErrorKind::Family => "family",
            ErrorKind::Qos => "qos",
            ErrorKind::Version => "version",
            ErrorKind::EmptyVector => "empty_vector",
            ErrorKind::SourceMask => "source_mask",
            ErrorKind::DestinationMask => "destination_mask",
            ErrorKind::SourcePortMask => "source_port_mask",
            ErrorKind::DestinationPortMask => "destination_port_mask",
            ErrorKind::ProtocolMask => "protocol_mask",
            ErrorKind::TosMask => "tos_mask",
            ErrorKind::FlagsMask => "flags_mask",
            ErrorKind::PortsWithoutProtocol => "ports_without_protocol",
            ErrorKind::OptionLength => "option_length",
        }
    }

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

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ErrorKind::Truncated => "is truncated",
            ErrorKind::Magic => "is not 0x47114711",
            ErrorKind::Type => "is not that of a reservation",
            ErrorKind::Family => "is neither IPv4 nor IPv6",
            ErrorKind::Qos => "is neither bitrates nor downgrades",
            ErrorKind::Version => "is not 1",
            ErrorKind::EmptyVector => "is zero",
            ErrorKind::SourceMask | ErrorKind::DestinationMask => "is not a prefix",
            ErrorKind::SourcePortMask
            | ErrorKind::DestinationPortMask
            | ErrorKind::ProtocolMask
            | ErrorKind::TosMask => "is neither all ones nor all zeros",
            ErrorKind::FlagsMask => "is not zero",
            ErrorKind::PortsWithoutProtocol => "is zero although ports are significant",
            ErrorKind::OptionLength => "exceeds the message",
        })
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
