//! Message boundaries: behind the magic number in a datagram, one message after another in a stream.

use super::error::ParseError;
use super::header::{HEADER, Header};
use super::iana::MAGIC;
use crate::writer::EmitError;

/// Length of the magic number, octets.
pub const MAGIC_LEN: usize = 4;

/// Returns the message in the payload of a UDP datagram. `None` if the magic number is missing: the datagram must then
/// be dropped silently, or forwarded if it is addressed to another node (RFC 5971 sections 5.3.1 and 5.3.2.3).
#[inline]
pub fn datagram(payload: &[u8]) -> Option<&[u8]> {
    payload.strip_prefix(&MAGIC.to_be_bytes())
}

/// Writes the magic number; returns the rest of the buffer, for the message.
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

/// Length of the next message of a stream, octets; `None` if too little of it has arrived (RFC 5971 section 5.4).
///
/// The length is at most 262 148: a buffer of that size holds every message.
///
/// # Errors
/// The version is not 1. The start of the next message is then unknown, so that the stream cannot be used any more.
#[inline]
pub fn message_len(stream: &[u8]) -> Result<Option<usize>, ParseError> {
    match Header::parse(stream) {
        Ok(header) => Ok(Some(header.message_len())),
        Err(error) if stream.len() >= HEADER => Err(error),
        Err(_) => Ok(None),
    }
}
