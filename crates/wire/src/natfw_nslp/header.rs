//! The header: message type and flags (RFC 5973 section 4.1).

use serde::{Deserialize, Serialize};

use super::error::{ErrorKind, ParseError};
use super::iana::{MessageType, flag};

/// Length of the header, octets.
pub const HEADER: usize = 4;

/// Proxy mode of a CREATE or EXTERNAL: the flags P and E (RFC 5973 sections 3.7.6, 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ProxyMode {
    /// P=0: the message travels to the responder. E is ignored.
    #[default]
    Off,
    /// P=1, E=0: the edge NAT or edge firewall acts for the other end, and the message ends there.
    Edge,
    /// P=1, E=1: the edge acts for the other end and continues to send the message towards the responder.
    EdgeAndOnward,
}

impl ProxyMode {
    /// Whether the P flag is set.
    #[inline]
    pub const fn is_proxy(self) -> bool {
        !matches!(self, ProxyMode::Off)
    }

    #[inline]
    pub(super) const fn from_bits(bits: u8) -> ProxyMode {
        match (bits & flag::PROXY != 0, bits & flag::END_TO_END != 0) {
            (false, _) => ProxyMode::Off,
            (true, false) => ProxyMode::Edge,
            (true, true) => ProxyMode::EdgeAndOnward,
        }
    }

    #[inline]
    pub(super) const fn bits(self) -> u8 {
        match self {
            ProxyMode::Off => 0,
            ProxyMode::Edge => flag::PROXY,
            ProxyMode::EdgeAndOnward => flag::PROXY | flag::END_TO_END,
        }
    }

    /// Returns the names of the flags that are set.
    pub(super) fn names(self) -> impl Iterator<Item = &'static str> + Clone {
        let bits = self.bits();
        [("proxy", flag::PROXY), ("end_to_end", flag::END_TO_END)]
            .into_iter()
            .filter_map(move |(name, flag)| (bits & flag != 0).then_some(name))
    }
}

/// The header as received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) message_type: MessageType,
    /// Proxy mode, which counts in CREATE and EXTERNAL only.
    pub(super) proxy: ProxyMode,
}

impl Header {
    /// Parses the header; returns it with the octets behind it.
    #[inline]
    pub(super) fn parse(octets: &[u8]) -> Result<(Header, &[u8]), ParseError> {
        let Some((&[message_type, flags, _, _], body)) = octets.split_first_chunk::<HEADER>()
        else {
            return Err(ParseError::new(ErrorKind::Truncated, octets.len()));
        };
        let message_type = MessageType::from_code(message_type);
        Ok((Header { message_type, proxy: ProxyMode::from_bits(flags) }, body))
    }
}
