//! Why octets are not a well-formed Boomerang message, and where.

use core::fmt;

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// It ends before its fields do.
    Truncated,
    /// It does not begin with MAGIC.
    Magic,
    /// A type that is not read here: DS marker set-up, or an unknown one.
    Type,
    /// An address family that nobody here knows.
    Family,
    /// A way to ask for quality of service that is not read here: IntServ, or an unknown one.
    Qos,
    /// Not version 1.
    Version,
    /// A list of downgrades without any.
    EmptyVector,
    /// The mask of the source address is no prefix.
    SourceMask,
    /// The mask of the destination address is no prefix.
    DestinationMask,
    /// The mask of the source port is neither all ones nor all zeros.
    SourcePortMask,
    /// The mask of the destination port likewise.
    DestinationPortMask,
    /// The mask of the protocol likewise.
    ProtocolMask,
    /// The mask of the type of service likewise.
    TosMask,
    /// The mask has bits of the flags, which have no meaning.
    FlagsMask,
    /// Ports matter although the protocol does not, so that it cannot be said where they are.
    PortsWithoutProtocol,
    /// An option ends behind the end of the message.
    OptionLength,
}

impl ErrorKind {
    /// A short fixed name for counters.
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

    /// The field that is wrong.
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
            ErrorKind::Truncated => "ends too early",
            ErrorKind::Magic => "is not 0x47114711",
            ErrorKind::Type => "is not that of a reservation",
            ErrorKind::Family => "names neither IPv4 nor IPv6",
            ErrorKind::Qos => "names neither bitrates nor downgrades",
            ErrorKind::Version => "is not 1",
            ErrorKind::EmptyVector => "is zero",
            ErrorKind::SourceMask | ErrorKind::DestinationMask => "is no prefix",
            ErrorKind::SourcePortMask
            | ErrorKind::DestinationPortMask
            | ErrorKind::ProtocolMask
            | ErrorKind::TosMask => "is neither all ones nor all zeros",
            ErrorKind::FlagsMask => "is not zero",
            ErrorKind::PortsWithoutProtocol => "is zero although ports matter",
            ErrorKind::OptionLength => "leads past the end of the message",
        })
    }
}

/// Octets are not a well-formed message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ParseError {
    /// What is wrong.
    pub kind: ErrorKind,
    /// Where the field begins, octets from MAGIC; where something is missing, the end of the message.
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
