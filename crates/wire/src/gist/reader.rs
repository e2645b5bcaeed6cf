//! A cursor over the value of an object. Missing octets are an error with its position.

use super::error::{ErrorKind, Origin, ParseError};
use crate::nsis::object::HEADER;
use crate::nsis::{Object, SessionId, WORD};

/// Reader of a value from front to back.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    /// Offset of the rest, octets from the common header.
    offset: usize,
    origin: Origin,
}

impl<'a> Reader<'a> {
    #[inline]
    pub(super) fn of(object: &Object<'a>) -> Reader<'a> {
        Reader::new(object.value(), Origin::of(object))
    }

    /// Creates a reader of an object's value.
    #[inline]
    pub(super) fn new(value: &'a [u8], origin: Origin) -> Reader<'a> {
        Reader { rest: value, offset: origin.offset + HEADER, origin }
    }

    /// Takes the next `N` octets.
    #[inline]
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], ParseError> {
        let Some((octets, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.error(ErrorKind::Length));
        };
        self.rest = rest;
        self.offset += N;
        Ok(*octets)
    }

    /// Takes the next `len` octets.
    #[inline]
    pub(super) fn take_slice(&mut self, len: usize) -> Result<&'a [u8], ParseError> {
        let Some((octets, rest)) = self.rest.split_at_checked(len) else {
            return Err(self.error(ErrorKind::Length));
        };
        self.rest = rest;
        self.offset += len;
        Ok(octets)
    }

    /// Takes the next `len` octets, and skips the padding that completes `in_front + len` octets to whole words.
    #[inline]
    pub(super) fn take_padded(
        &mut self,
        in_front: usize,
        len: usize,
    ) -> Result<&'a [u8], ParseError> {
        let octets = self.take_slice(len)?;
        let whole = in_front + len;
        self.take_slice(whole.next_multiple_of(WORD) - whole)?;
        Ok(octets)
    }

    /// Returns a reader of the next `len` octets alone.
    pub(super) fn part(&mut self, len: usize) -> Result<Reader<'a>, ParseError> {
        let mut part = *self;
        part.rest = self.take_slice(len)?;
        Ok(part)
    }

    /// Returns all octets that are left.
    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Offset of the rest, octets from the common header.
    #[inline]
    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    /// Checks that nothing is left.
    #[inline]
    pub(super) fn finish(&self) -> Result<(), ParseError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.error(ErrorKind::Length)) }
    }

    /// Reads the whole value as a session identifier.
    #[inline]
    pub(super) fn session(mut self) -> Result<SessionId, ParseError> {
        let id = self.take()?;
        self.finish()?;
        Ok(SessionId(id))
    }

    /// Creates an error at the current position.
    #[cold]
    pub(super) fn error(&self, kind: ErrorKind) -> ParseError {
        self.error_at(kind, self.offset)
    }

    /// Creates an error at offset `at`.
    #[cold]
    pub(super) fn error_at(&self, kind: ErrorKind, at: usize) -> ParseError {
        ParseError::in_object(kind, at, self.origin)
    }
}
