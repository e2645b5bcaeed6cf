//! The three-level frame of integrated-services data: message header, service fragments, parameters (RFC 2210
//! appendix 1).
//!
//! All three headers have the same form: a number, eight flags and a length in words without the header itself.
//! Reserved flags are ignored when read and zero when written.

use super::iana::{Parameter, Service};
use crate::writer::{EmitError, Writer};

error_kinds! {
    /// Faults of the frame. [`super::ValueError`] has the faults of values.
    pub enum FormatProblem {
        /// The format version is not 0.
        Version = "intserv_version" "unknown format version",
        /// A length leads past the end, or leaves octets over.
        Length = "intserv_length" "length does not fit",
        /// The requested service is unsupported.
        UnknownService = "intserv_unknown_service" "unknown service",
        /// Service 1 is not the first.
        ServiceOrder = "intserv_service_order" "service fragments out of order",
        /// Two fragments have the same service number.
        DuplicateService = "intserv_duplicate_service" "two fragments of one service",
        /// A parameter is not the expected one, or occurs twice.
        UnexpectedParameter = "intserv_unexpected_parameter" "unexpected parameter",
        /// A required parameter is missing.
        MissingParameter = "intserv_missing_parameter" "missing parameter",
    }
}

/// Malformed integrated-services data: the fault and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("{problem} at octet {offset} of the integrated-services data")]
pub struct FormatError {
    /// Kind of fault.
    pub problem: FormatProblem,
    /// Offset of the fault, octets from the start of the data.
    pub offset: usize,
}

/// A header of any of the three levels.
#[derive(Clone, Copy)]
pub(super) struct Header {
    /// Service or parameter number; for the message header the version is its high nibble.
    pub(super) number: u8,
    /// Bit 23 of the word: the break bit of a service.
    pub(super) high_bit: bool,
    /// Length of the contents, octets.
    pub(super) octets: usize,
}

/// Length of each header, octets.
pub(super) const HEADER: usize = 4;

/// Reader of headers and words from front to back, with its offset.
#[derive(Clone, Copy)]
pub(super) struct Reader<'a> {
    octets: &'a [u8],
    offset: usize,
}

impl<'a> Reader<'a> {
    #[inline]
    pub(super) fn new(octets: &'a [u8]) -> Self {
        Reader { octets, offset: 0 }
    }

    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.octets.is_empty()
    }

    /// Returns the unread octets.
    #[inline]
    pub(super) fn rest(&self) -> &'a [u8] {
        self.octets
    }

    #[inline]
    pub(super) fn error(&self, problem: FormatProblem) -> FormatError {
        FormatError { problem, offset: self.offset }
    }

    /// Takes the next `N` octets.
    #[inline]
    pub(super) fn take<const N: usize>(&mut self) -> Result<[u8; N], FormatError> {
        let (head, rest) =
            self.octets.split_first_chunk().ok_or(self.error(FormatProblem::Length))?;
        self.octets = rest;
        self.offset += N;
        Ok(*head)
    }

    /// Takes the next header; returns it with a reader of its contents.
    #[inline]
    pub(super) fn part(&mut self) -> Result<(Header, Reader<'a>), FormatError> {
        let start = *self;
        let [number, flags, high, low] = self.take()?;
        let octets = usize::from(u16::from_be_bytes([high, low])) * 4;
        let (inside, rest) =
            self.octets.split_at_checked(octets).ok_or(start.error(FormatProblem::Length))?;
        let reader = Reader { octets: inside, offset: self.offset };
        self.octets = rest;
        self.offset += octets;
        Ok((Header { number, high_bit: flags & 0x80 != 0, octets }, reader))
    }

    /// Returns a reader of the data behind the message header, whose length must be exact.
    #[inline]
    pub(super) fn message(octets: &'a [u8]) -> Result<Reader<'a>, FormatError> {
        let mut reader = Reader::new(octets);
        if octets.first().is_some_and(|first| first >> 4 != 0) {
            return Err(reader.error(FormatProblem::Version));
        }
        let (_, inside) = reader.part()?;
        if reader.is_empty() { Ok(inside) } else { Err(reader.error(FormatProblem::Length)) }
    }

    /// Takes the value of the parameter that must come next.
    #[inline]
    pub(super) fn parameter<const N: usize>(
        &mut self,
        which: Parameter,
    ) -> Result<[u8; N], FormatError> {
        let start = *self;
        if self.is_empty() {
            return Err(start.error(FormatProblem::MissingParameter));
        }
        let (header, mut inside) = self.part()?;
        if header.number != which.code() {
            return Err(start.error(FormatProblem::UnexpectedParameter));
        }
        if header.octets != N {
            return Err(start.error(FormatProblem::Length));
        }
        inside.take()
    }
}

/// Returns a header word in front of `octets` octets.
fn header(number: u8, high_bit: bool, octets: usize) -> Result<[u8; 4], EmitError> {
    let [high, low] = u16::try_from(octets / 4).map_err(|_| EmitError::TooLong)?.to_be_bytes();
    Ok([number, if high_bit { 0x80 } else { 0 }, high, low])
}

/// Writes the message header in front of `octets` octets.
#[inline]
pub(super) fn put_message(writer: &mut Writer<'_>, octets: usize) -> Result<(), EmitError> {
    writer.put(header(0, false, octets)?)
}

/// Writes a service header in front of `octets` octets.
#[inline]
pub(super) fn put_service(
    writer: &mut Writer<'_>,
    service: Service,
    break_bit: bool,
    octets: usize,
) -> Result<(), EmitError> {
    writer.put(header(service.code(), break_bit, octets)?)
}

/// Writes a parameter, header and value.
#[inline]
pub(super) fn put_parameter<const N: usize>(
    writer: &mut Writer<'_>,
    which: Parameter,
    value: [u8; N],
) -> Result<(), EmitError> {
    writer.put(header(which.code(), false, N)?)?;
    writer.put(value)
}
