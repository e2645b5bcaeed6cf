//! A cursor over the value of an object; what is not there is an error with its place.

use super::error::{ErrorKind, Origin, ParseError};
use crate::nsis::object::HEADER;
use crate::nsis::{Object, SessionId, WORD};

/// Reads front to back.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
    /// Where the rest begins, octets from the common header.
    offset: usize,
    origin: Origin,
}

impl<'a> Reader<'a> {
    #[inline]
    pub(super) fn of(object: &Object<'a>) -> Reader<'a> {
        Reader::new(object.value(), Origin::of(object))
    }

    /// One of the value of an object.
    #[inline]
    pub(super) fn new(value: &'a [u8], origin: Origin) -> Reader<'a> {
        Reader { rest: value, offset: origin.offset + HEADER, origin }
    }

    /// The next `N` octets.
    #[inline]
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], ParseError> {
        let Some((octets, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(self.error(ErrorKind::Length));
        };
        self.rest = rest;
        self.offset += N;
        Ok(*octets)
    }

    /// The next `len` octets.
    #[inline]
    pub(super) fn take_slice(&mut self, len: usize) -> Result<&'a [u8], ParseError> {
        let Some((octets, rest)) = self.rest.split_at_checked(len) else {
            return Err(self.error(ErrorKind::Length));
        };
        self.rest = rest;
        self.offset += len;
        Ok(octets)
    }

    /// The next `len` octets, and what pads `in_front + len` octets to whole words, which is passed over.
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

    /// A reader of the next `len` octets alone.
    pub(super) fn part(&mut self, len: usize) -> Result<Reader<'a>, ParseError> {
        let mut part = *self;
        part.rest = self.take_slice(len)?;
        Ok(part)
    }

    /// All that is left.
    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Where it begins.
    #[inline]
    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    /// Makes sure that nothing is left.
    #[inline]
    pub(super) fn finish(&self) -> Result<(), ParseError> {
        if self.rest.is_empty() { Ok(()) } else { Err(self.error(ErrorKind::Length)) }
    }

    /// The whole value, a session's name.
    #[inline]
    pub(super) fn session(mut self) -> Result<SessionId, ParseError> {
        let id = self.take()?;
        self.finish()?;
        Ok(SessionId(id))
    }

    /// An error here.
    #[cold]
    pub(super) fn error(&self, kind: ErrorKind) -> ParseError {
        self.error_at(kind, self.offset)
    }

    /// An error in what was read `at`.
    #[cold]
    pub(super) fn error_at(&self, kind: ErrorKind, at: usize) -> ParseError {
        ParseError::in_object(kind, at, self.origin)
    }
}
