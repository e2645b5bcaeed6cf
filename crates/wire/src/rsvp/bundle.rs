//! Bundle: several messages in one datagram (RFC 2961 section 3).
//!
//! A Bundle is a common header and whole messages, each with its own common header. [`super::Message::parse`] checks
//! each message separately; here only their lengths are checked, so that every octet belongs to one of them.

use super::error::{ErrorKind, ParseError};
use super::frame::{COMMON_HEADER, CommonHeader, VERSION_1, set_checksum};
use super::iana::MessageType;
use crate::writer::EmitError;

/// The messages of a Bundle: at least one, none of them a Bundle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bundle<'a> {
    messages: &'a [u8],
}

impl<'a> Bundle<'a> {
    /// Creates a Bundle of the consecutive messages in `messages`.
    ///
    /// # Errors
    /// There is no message, a length leads past the end, or a message is itself a Bundle or of another version. Offsets
    /// count from the start of the Bundle that [`super::Message::emit`] would write.
    pub fn new(messages: &'a [u8]) -> Result<Bundle<'a>, ParseError> {
        if messages.is_empty() {
            return Err(ParseError::header(ErrorKind::Truncated, COMMON_HEADER));
        }
        let mut rest = messages;
        while !rest.is_empty() {
            let offset = COMMON_HEADER + (messages.len() - rest.len());
            let Some((header, _)) = CommonHeader::split(rest) else {
                return Err(ParseError::header(ErrorKind::Truncated, offset));
            };
            if header.version != VERSION_1 >> 4 {
                return Err(ParseError::header(ErrorKind::Version, offset));
            }
            if header.message_type == MessageType::Bundle.code() {
                return Err(ParseError::header(ErrorKind::NestedBundle, offset + 1));
            }
            let length = usize::from(header.length);
            let behind = rest.get(length..).filter(|_| length >= COMMON_HEADER);
            rest = behind.ok_or(ParseError::header(ErrorKind::Length, offset + 6))?;
        }
        Ok(Bundle { messages })
    }

    /// Iterates over the octets of each message, to be parsed separately.
    ///
    /// Send_TTL of the Bundle's own header counts, not that of the messages (RFC 2961 section 3.4).
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut rest = self.messages;
        core::iter::from_fn(move || {
            let (header, _) = CommonHeader::split(rest)?;
            let (message, behind) = rest.split_at_checked(usize::from(header.length))?;
            rest = behind;
            Some(message)
        })
    }

    /// Returns the octets of all messages.
    #[inline]
    pub fn octets(&self) -> &'a [u8] {
        self.messages
    }

    /// Completes the Bundle in `buffer`: the messages follow [`Bundle::HEADER_LEN`] octets left free for its header.
    /// Writes the header with its checksum. [`super::Message::emit`] does the same with a copy of the messages.
    ///
    /// # Errors
    /// The buffer is shorter than a header, or longer than a Bundle can be.
    pub fn seal(buffer: &mut [u8], flags: u8, send_ttl: u8) -> Result<(), EmitError> {
        let length = u16::try_from(buffer.len()).map_err(|_| EmitError::TooLong)?;
        let [l0, l1] = length.to_be_bytes();
        let header = buffer.first_chunk_mut::<COMMON_HEADER>().ok_or(EmitError::BufferTooShort)?;
        let message_type = MessageType::Bundle.code();
        *header = [VERSION_1 | (flags & 0x0f), message_type, 0, 0, send_ttl, 0, l0, l1];
        set_checksum(buffer)
    }

    /// Length of a Bundle's header, octets.
    pub const HEADER_LEN: usize = COMMON_HEADER;
}
