//! Continuation of NSLP-Data that are longer than one object.
//!
//! The length field of an object has twelve bits, so that NSLP-Data have 16 380 octets at most, while a message has
//! room for sixteen times as much. The rest of longer data follows NSLP-Data directly in further objects of a type for
//! private use. Only Data messages over an association have such objects. They are marked AB=00: a node that does not
//! know them refuses the message with the protocol's own error (Object Type Error, Unrecognised Object), so that nobody
//! takes a part for the whole. All of them except the last have the maximum length.

use core::fmt;

use super::iana::NSLP_DATA_CONTINUATION;
use crate::nsis::object::{emit_object, object_len};
use crate::nsis::{MAXIMUM_VALUE, Treatment, WORD, objects};
use crate::writer::{EmitError, Writer};

/// The part of the data that follows NSLP-Data.
#[derive(Clone, Copy)]
pub struct Continuation<'a>(Octets<'a>);

#[derive(Clone, Copy)]
enum Octets<'a> {
    /// Objects as received.
    Wire(&'a [u8]),
    /// Data to be emitted.
    Data(&'a [u8]),
}

impl<'a> Continuation<'a> {
    /// An empty continuation.
    pub const NONE: Continuation<'static> = Continuation(Octets::Data(&[]));

    /// Splits data, which are whole words, into the part that fits NSLP-Data and the rest.
    pub fn split(data: &'a [u8]) -> (&'a [u8], Continuation<'a>) {
        let (first, rest) = data.split_at(data.len().min(MAXIMUM_VALUE));
        (first, Continuation(Octets::Data(rest)))
    }

    pub(super) fn wire(objects: &'a [u8]) -> Continuation<'a> {
        Continuation(Octets::Wire(objects))
    }

    /// Iterates over the data in pieces, one for each object.
    pub fn pieces(self) -> impl Iterator<Item = &'a [u8]> + Clone {
        let (wire, data): (&'a [u8], &'a [u8]) = match self.0 {
            Octets::Wire(wire) => (wire, &[]),
            Octets::Data(data) => (&[], data),
        };
        let came = objects(wire, 0).map_while(Result::ok).map(|object| object.value());
        came.chain(data.chunks(MAXIMUM_VALUE))
    }

    /// Whether there is no continuation.
    #[inline]
    pub fn is_empty(self) -> bool {
        match self.0 {
            Octets::Wire(octets) | Octets::Data(octets) => octets.is_empty(),
        }
    }

    /// Length of the objects, octets.
    pub(super) fn buffer_len(self) -> usize {
        self.pieces().map(|piece| object_len(piece.len())).sum()
    }

    pub(super) fn emit(self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        self.pieces().try_for_each(|piece| {
            if !piece.len().is_multiple_of(WORD) {
                return Err(EmitError::Contradiction);
            }
            let treatment = Treatment::Mandatory;
            emit_object(writer, treatment, NSLP_DATA_CONTINUATION, |w| w.put_slice(piece))
        })
    }
}

impl PartialEq for Continuation<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.pieces().eq(other.pieces())
    }
}

impl Eq for Continuation<'_> {}

impl fmt::Debug for Continuation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.pieces()).finish()
    }
}
