//! Where messages begin and end: in a datagram behind the magic number, in a stream one after the other.

use super::error::ParseError;
use super::header::{HEADER, Header};
use super::iana::MAGIC;
use crate::writer::EmitError;

/// Octets of the magic number.
pub const MAGIC_LEN: usize = 4;

/// The message in the payload of a UDP datagram; `None` where the magic number is missing, and the datagram is to be
/// dropped without a word, or passed on if it was on its way to somebody else (RFC 5971 sections 5.3.1 and 5.3.2.3).
#[inline]
pub fn datagram(payload: &[u8]) -> Option<&[u8]> {
    payload.strip_prefix(&MAGIC.to_be_bytes())
}

/// Writes the magic number; gives where the message goes.
///
/// # Errors
/// The buffer is too short.
#[inline]
pub fn emit_magic(buffer: &mut [u8]) -> Result<&mut [u8], EmitError> {
    let (magic, message) =
        buffer.split_first_chunk_mut::<MAGIC_LEN>().ok_or(EmitError::BufferTooShort)?;
    *magic = MAGIC.to_be_bytes();
    Ok(message)
}

/// Octets of the message that a stream goes on with; `None` where that cannot be told yet (RFC 5971 section 5.4).
///
/// At most 262 148: a buffer of that size holds every message.
///
/// # Errors
/// Another version than 1. Where the next message begins can then not be known: the stream is of no more use.
#[inline]
pub fn message_len(stream: &[u8]) -> Result<Option<usize>, ParseError> {
    match Header::parse(stream) {
        Ok(header) => Ok(Some(header.message_len())),
        Err(error) if stream.len() >= HEADER => Err(error),
        Err(_) => Ok(None),
    }
}
