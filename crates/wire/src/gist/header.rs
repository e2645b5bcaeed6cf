//! The common header of every message (RFC 5971 A.1).

use super::error::{ErrorKind, ParseError};
use super::iana::{MessageType, VERSION};
use crate::nsis::WORD;
use crate::writer::EmitError;

/// Length of the common header, octets.
pub const HEADER: usize = 8;

/// C-flag, in the octet of the type.
const C: u8 = 0x80;
/// Flags in the last octet.
const S: u8 = 0x80;
const R: u8 = 0x40;
const E: u8 = 0x20;

/// Offsets of the fields.
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
    /// C: receivers must be able to process the message without routing state.
    pub context_free: bool,
    /// S: the IP source address is that of the signalling peer.
    pub source_is_peer: bool,
    /// R: the sender requests a reply.
    pub reply_requested: bool,
    /// E: the message was explicitly routed.
    pub explicitly_routed: bool,
}

/// The common header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Header {
    /// GIST hop count: how many more nodes may process the message, destination included.
    pub hops: u8,
    /// Message length: 32-bit words behind the header.
    pub words: u16,
    /// NSLPID of the signalling application; 0 for none.
    pub nslpid: u16,
    /// Message type, below 128.
    pub message_type: MessageType,
    /// Flags of the message.
    pub flags: Flags,
}

impl Header {
    /// Parses the header at the start of `octets`. Type and flags are not checked.
    ///
    /// # Errors
    /// Fewer than [`HEADER`] octets; a version other than 1.
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

    /// Length of the message, header included; octets.
    #[inline]
    pub fn message_len(&self) -> usize {
        HEADER + usize::from(self.words) * WORD
    }

    /// Returns the octets of the header.
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
