//! Type-length-value objects, the parts of GIST messages (RFC 5971 A.2) and of the messages of its applications (RFC
//! 5974 section 5.1.3).
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! |A|B|r|r|         Type          |r|r|r|r|        Length         |
//! //                             Value                           //
//! ```
//!
//! Length counts the 32-bit words of the value, without the header. Reserved bits are ignored when read and zero when
//! written; a forwarded object keeps [its octets](Object::octets), reserved bits included.
//!
//! [`objects`] walks a list of objects and reads their headers only; each protocol parses the values.

use core::fmt;

use serde::{Deserialize, Serialize};

use crate::writer::{EmitError, Writer};

/// Length of an object's header, octets.
pub const HEADER: usize = 4;

/// Length of a word, the unit of all lengths; octets.
pub const WORD: usize = 4;

/// Longest value, octets: the length field has twelve bits and counts words.
pub const MAXIMUM_VALUE: usize = 0xfff * WORD;

/// Length in the second half word, and type in the first one.
const TWELVE_BITS: u16 = 0x0fff;

/// Treatment of an object of unknown type: the flags A and B (RFC 5971 A.2.1, RFC 5974 section 5.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Treatment {
    /// AB=00: refuse the message.
    Mandatory,
    /// AB=01: ignore the object.
    Ignore,
    /// AB=10: forward the object, and do not store it.
    Forward,
    /// AB=11: store the object, forward it and include it in refreshes. GIST does not define this and refuses the
    /// message.
    Refresh,
}

impl Treatment {
    /// Returns the treatment for the bits A and B of a header.
    #[inline]
    pub const fn from_bits(a: bool, b: bool) -> Treatment {
        match (a, b) {
            (false, false) => Treatment::Mandatory,
            (false, true) => Treatment::Ignore,
            (true, false) => Treatment::Forward,
            (true, true) => Treatment::Refresh,
        }
    }

    /// Returns the bits A and B at their place in the first half word of the header.
    #[inline]
    const fn code(self) -> u16 {
        match self {
            Treatment::Mandatory => 0x0000,
            Treatment::Ignore => 0x4000,
            Treatment::Forward => 0x8000,
            Treatment::Refresh => 0xc000,
        }
    }
}

/// One object of a message. Header and value are complete; nothing else has been checked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Object<'a> {
    /// Halves of the header: flags and type, then the length.
    header: [u16; 2],
    octets: &'a [u8],
    offset: usize,
}

impl<'a> Object<'a> {
    /// Object type, 12 bits.
    #[inline]
    pub fn object_type(&self) -> u16 {
        self.header[0] & TWELVE_BITS
    }

    /// Treatment by nodes that do not know the type, as the sender demands.
    #[inline]
    pub fn treatment(&self) -> Treatment {
        Treatment::from_bits(self.header[0] & 0x8000 != 0, self.header[0] & 0x4000 != 0)
    }

    /// The value, a whole number of words.
    #[inline]
    pub fn value(&self) -> &'a [u8] {
        self.octets.get(HEADER..).unwrap_or_default()
    }

    /// Header and value as received.
    #[inline]
    pub fn octets(&self) -> &'a [u8] {
        self.octets
    }

    /// Offset of the header, octets, counted from the start given to [`objects`].
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Offset of the value, octets, counted from the start given to [`objects`].
    #[inline]
    pub fn value_offset(&self) -> usize {
        self.offset + HEADER
    }
}

impl fmt::Debug for Object<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object")
            .field("object_type", &self.object_type())
            .field("treatment", &self.treatment())
            .field("value", &self.value())
            .field("offset", &self.offset)
            .finish()
    }
}

/// Iterates over the objects in `octets`. Offsets in results and errors start from `offset`, such as the length of the
/// header in front of the objects.
///
/// Iteration ends with the octets or with the first error. An empty list is valid here.
#[inline]
pub fn objects(octets: &[u8], offset: usize) -> Objects<'_> {
    Objects { rest: octets, offset }
}

/// Iterator over [`objects`].
#[derive(Clone, Debug)]
pub struct Objects<'a> {
    rest: &'a [u8],
    offset: usize,
}

impl<'a> Objects<'a> {
    /// Octets that have not been read yet. Empty after an error.
    #[inline]
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// Offset of the rest, octets.
    #[inline]
    pub fn offset(&self) -> usize {
        self.offset
    }

    fn fail(&mut self, kind: ErrorKind) -> ObjectError {
        self.rest = &[];
        ObjectError { kind, offset: self.offset }
    }
}

impl<'a> Iterator for Objects<'a> {
    type Item = Result<Object<'a>, ObjectError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let Some(&[t0, t1, l0, l1]) = self.rest.first_chunk() else {
            return Some(Err(self.fail(ErrorKind::Truncated)));
        };
        let header = [u16::from_be_bytes([t0, t1]), u16::from_be_bytes([l0, l1])];
        let len = HEADER + usize::from(header[1] & TWELVE_BITS) * WORD;
        let Some((octets, rest)) = self.rest.split_at_checked(len) else {
            return Some(Err(self.fail(ErrorKind::Length)));
        };
        let object = Object { header, octets, offset: self.offset };
        self.rest = rest;
        self.offset += len;
        Some(Ok(object))
    }
}

impl core::iter::FusedIterator for Objects<'_> {}

error_kinds! {
    /// Faults of a list of objects.
    pub enum ErrorKind {
        /// The octets end within a header.
        Truncated = "object_truncated" "fewer than four octets are left for an object header",
        /// The length of an object leads past the end of the list.
        Length = "object_length" "the length of the object exceeds the list",
    }
}

/// A malformed list of objects: the fault and its offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[error("octet {offset}: {kind}")]
pub struct ObjectError {
    /// Kind of fault.
    pub kind: ErrorKind,
    /// Offset of the object's header.
    pub offset: usize,
}

/// Length of an object with a value of `value` octets, padding to whole words included; octets.
#[inline]
pub const fn object_len(value: usize) -> usize {
    HEADER + value.next_multiple_of(WORD)
}

/// Writes the header of an object whose value has `len` octets.
///
/// # Errors
/// The type has more than twelve bits; the value is not whole words, or is longer than [`MAXIMUM_VALUE`].
#[inline]
pub(crate) fn put_header(
    writer: &mut Writer<'_>,
    treatment: Treatment,
    object_type: u16,
    len: usize,
) -> Result<(), EmitError> {
    if object_type > TWELVE_BITS || !len.is_multiple_of(WORD) {
        return Err(EmitError::Contradiction);
    }
    if len > MAXIMUM_VALUE {
        return Err(EmitError::TooLong);
    }
    let words = (len / WORD) as u32; // at most twelve bits
    writer.put_numbers([u32::from(treatment.code() | object_type) << 16 | words])
}

/// Writes an object whose value the closure `value` writes. The value is padded with zeros to whole words, and the
/// length is filled in.
///
/// # Errors
/// The errors of `value`; the type has more than twelve bits; the value is longer than [`MAXIMUM_VALUE`].
#[inline]
pub(crate) fn emit_object(
    writer: &mut Writer<'_>,
    treatment: Treatment,
    object_type: u16,
    value: impl FnOnce(&mut Writer<'_>) -> Result<(), EmitError>,
) -> Result<(), EmitError> {
    if object_type > TWELVE_BITS {
        return Err(EmitError::Contradiction);
    }
    let start = writer.position();
    let [t0, t1] = (treatment.code() | object_type).to_be_bytes();
    writer.put([t0, t1, 0, 0])?;
    value(writer)?;
    let len = writer.position() - start - HEADER;
    pad(writer, len)?;
    let words = u16::try_from(len.div_ceil(WORD)).map_err(|_| EmitError::TooLong)?;
    if words > TWELVE_BITS {
        return Err(EmitError::TooLong);
    }
    writer.patch(start + 2, words.to_be_bytes())
}

/// Writes the zeros that complete `len` octets to whole words.
#[inline]
pub(crate) fn pad(writer: &mut Writer<'_>, len: usize) -> Result<(), EmitError> {
    if len.is_multiple_of(WORD) {
        return Ok(());
    }
    writer.put_slice(&[0; WORD][..len.next_multiple_of(WORD) - len])
}

#[cfg(test)]
mod tests {
    use alloc::vec;
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    fn emit(treatment: Treatment, object_type: u16, value: &[u8]) -> Result<Vec<u8>, EmitError> {
        let mut buffer = vec![0xaa; object_len(value.len())];
        let mut writer = Writer::new(&mut buffer);
        emit_object(&mut writer, treatment, object_type, |writer| writer.put_slice(value))?;
        assert_eq!(writer.written().len(), object_len(value.len()));
        Ok(buffer)
    }

    #[test]
    fn headers_octet_by_octet() {
        let cases: [(Treatment, u16, &[u8], &[u8]); 4] = [
            (Treatment::Mandatory, 0x001, &[], &[0x00, 0x01, 0x00, 0x00]),
            (Treatment::Ignore, 0x234, &[1, 2, 3, 4], &[0x42, 0x34, 0x00, 0x01, 1, 2, 3, 4]),
            (Treatment::Forward, 0xfff, &[9], &[0x8f, 0xff, 0x00, 0x01, 9, 0, 0, 0]),
            (Treatment::Refresh, 0x800, &[], &[0xc8, 0x00, 0x00, 0x00]),
        ];
        for (treatment, object_type, value, octets) in cases {
            assert_eq!(emit(treatment, object_type, value).unwrap(), octets);
            let object = objects(octets, 8).next().unwrap().unwrap();
            assert_eq!((object.treatment(), object.object_type()), (treatment, object_type));
            assert_eq!((object.octets(), object.offset()), (octets, 8));
            assert_eq!(object.value().get(..value.len()), Some(value));
        }
    }

    #[test]
    fn reserved_bits_are_ignored() {
        let octets = [0x30, 0x05, 0xf0, 0x00];
        let object = objects(&octets, 0).next().unwrap().unwrap();
        assert_eq!((object.treatment(), object.object_type()), (Treatment::Mandatory, 5));
        assert!(object.value().is_empty());
    }

    #[test]
    fn object_past_the_end_is_an_error_and_ends_iteration() {
        let octets = [0, 1, 0, 1, 0, 0, 0, 0, 0, 2, 0, 1, 0, 0, 0];
        let mut walk = objects(&octets, 8);
        assert_eq!(walk.next().unwrap().unwrap().object_type(), 1);
        let error = ObjectError { kind: ErrorKind::Length, offset: 16 };
        assert_eq!(walk.next(), Some(Err(error)));
        assert_eq!(walk.next(), None);
        let error = ObjectError { kind: ErrorKind::Truncated, offset: 0 };
        assert_eq!(objects(&[0, 1, 0], 0).next(), Some(Err(error)));
    }

    #[test]
    fn values_too_long_for_the_header_are_not_emitted() {
        assert_eq!(emit(Treatment::Mandatory, 0x1000, &[]), Err(EmitError::Contradiction));
        assert!(emit(Treatment::Mandatory, 1, &vec![7; MAXIMUM_VALUE]).is_ok());
        let longer = vec![7; MAXIMUM_VALUE + 1];
        assert_eq!(emit(Treatment::Mandatory, 1, &longer), Err(EmitError::TooLong));
    }

    proptest! {
        #[test]
        fn any_octets_give_objects_or_one_error(
            octets in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let mut at = 0;
            for object in objects(&octets, 0) {
                let Ok(object) = object else { break };
                prop_assert_eq!(object.offset(), at);
                at += object.octets().len();
            }
            prop_assert!(at <= octets.len());
        }
    }
}
