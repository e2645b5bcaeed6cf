//! The common header that every message begins with (RFC 5971 A.1).

use super::error::{ErrorKind, ParseError};
use super::iana::{MessageType, VERSION};
use crate::nsis::WORD;
use crate::writer::EmitError;

/// Octets of the common header.
pub const HEADER: usize = 8;

/// The bit of the type's octet.
const C: u8 = 0x80;
/// The bits of the last octet.
const S: u8 = 0x80;
const R: u8 = 0x40;
const E: u8 = 0x20;

/// Where fields stand.
pub(super) mod at {
    pub(in crate::gist) const VERSION: usize = 0;
    pub(in crate::gist) const HOPS: usize = 1;
    pub(in crate::gist) const LENGTH: usize = 2;
    pub(in crate::gist) const TYPE: usize = 6;
    pub(in crate::gist) const FLAGS: usize = 7;
}

/// The flags of the common header (RFC 5971 section 5.2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags {
    /// C: whoever receives the message must be able to read it without routing state.
    pub context_free: bool,
    /// S: the IP source address is that of the signalling peer.
    pub source_is_peer: bool,
    /// R: a reply is asked for.
    pub reply_requested: bool,
    /// E: the message was explicitly routed.
    pub explicitly_routed: bool,
}

/// The common header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// By how many nodes that know GIST the message may still be handled, its destination included.
    pub hops: u8,
    /// 32-bit words behind the header.
    pub words: u16,
    /// Which signalling application it is for; 0 for none.
    pub nslpid: u16,
    /// What the message is; below 128.
    pub message_type: MessageType,
    /// Flags.
    pub flags: Flags,
}

impl Header {
    /// Reads the header that `octets` begin with. Neither type nor flags are judged.
    ///
    /// # Errors
    /// Fewer than [`HEADER`] octets; another version than 1.
    #[inline]
    pub fn parse(octets: &[u8]) -> Result<Header, ParseError> {
        let Some(&[version, hops, l0, l1, n0, n1, kind, flags]) = octets.first_chunk::<HEADER>()
        else {
            return Err(ParseError::header(ErrorKind::Truncated, octets.len()));
        };
        if version != VERSION {
            return Err(ParseError::header(ErrorKind::Version, at::VERSION));
        }
        Ok(Header {
            hops,
            words: u16::from_be_bytes([l0, l1]),
            nslpid: u16::from_be_bytes([n0, n1]),
            message_type: MessageType::from_code(kind & !C),
            flags: Flags {
                context_free: kind & C != 0,
                source_is_peer: flags & S != 0,
                reply_requested: flags & R != 0,
                explicitly_routed: flags & E != 0,
            },
        })
    }

    /// Octets of the message, header included.
    #[inline]
    pub fn message_len(&self) -> usize {
        HEADER + usize::from(self.words) * WORD
    }

    /// The header's octets.
    ///
    /// # Errors
    /// The type has more than seven bits.
    #[inline]
    pub fn to_octets(self) -> Result<[u8; HEADER], EmitError> {
        let kind = self.message_type.code();
        if kind & C != 0 {
            return Err(EmitError::Contradiction);
        }
        let bit = |set: bool, bit: u8| if set { bit } else { 0 };
        let [l0, l1] = self.words.to_be_bytes();
        let [n0, n1] = self.nslpid.to_be_bytes();
        let flags = bit(self.flags.source_is_peer, S)
            | bit(self.flags.reply_requested, R)
            | bit(self.flags.explicitly_routed, E);
        Ok([VERSION, self.hops, l0, l1, n0, n1, bit(self.flags.context_free, C) | kind, flags])
    }
}
