//! The common header: message type and flags.

use serde::{Deserialize, Serialize};

use super::error::{ErrorKind, ParseError};
use super::iana::{MessageType, flag};

/// Length of the common header, octets.
pub const HEADER: usize = 4;

/// The flags that mean the same in all messages (RFC 5974 section 5.1.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct GenericFlags {
    /// S: the message is for the next node only.
    pub scoping: bool,
    /// P: the message travels as far as the proxy.
    pub proxy: bool,
    /// A: the peer must acknowledge the message. Only in QUERY and in RESERVE without RII.
    pub ack_req: bool,
    /// B: routers on the path cannot provide QoS.
    pub breaks: bool,
}

impl GenericFlags {
    #[inline]
    pub(super) const fn from_bits(bits: u16) -> GenericFlags {
        GenericFlags {
            scoping: bits & flag::SCOPING != 0,
            proxy: bits & flag::PROXY != 0,
            ack_req: bits & flag::ACK_REQ != 0,
            breaks: bits & flag::BREAK != 0,
        }
    }

    #[inline]
    pub(super) const fn bits(self) -> u16 {
        let mut bits = 0;
        if self.scoping {
            bits |= flag::SCOPING;
        }
        if self.proxy {
            bits |= flag::PROXY;
        }
        if self.ack_req {
            bits |= flag::ACK_REQ;
        }
        if self.breaks {
            bits |= flag::BREAK;
        }
        bits
    }

    /// Returns the names of the flags that are set.
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        let GenericFlags { scoping, proxy, ack_req, breaks } = self;
        [("scoping", scoping), ("proxy", proxy), ("ack_req", ack_req), ("break", breaks)]
            .into_iter()
            .filter_map(|(name, set)| set.then_some(name))
    }
}

/// The common header as received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) message_type: MessageType,
    /// Message-specific flags.
    pub(super) flags: u8,
    pub(super) generic: GenericFlags,
}

impl Header {
    /// Parses the header; returns it with the octets behind it.
    #[inline]
    pub(super) fn parse(octets: &[u8]) -> Result<(Header, &[u8]), ParseError> {
        let Some((&[message_type, flags, g0, g1], body)) = octets.split_first_chunk::<HEADER>()
        else {
            return Err(ParseError::new(ErrorKind::Truncated, octets.len()));
        };
        let message_type = MessageType::from_code(message_type);
        let generic = GenericFlags::from_bits(u16::from_be_bytes([g0, g1]));
        Ok((Header { message_type, flags, generic }, body))
    }
}
