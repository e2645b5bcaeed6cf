//! Data that are longer than one object can be.
//!
//! The length of an object has twelve bits, and NSLP-Data 16 380 octets at most; a message has room for sixteen times as
//! much. What goes on behind NSLP-Data stands in further objects of a type for private use, right behind it and behind each
//! other, in Data over an association alone. They are marked AB=00: a node that does not know them refuses the message in
//! the protocol's words (Object Type Error, Unrecognised Object), and nothing is taken for a whole that is not. All but the
//! last one are full.

use core::fmt;

use super::iana::NSLP_DATA_CONTINUATION;
use crate::nsis::object::{emit_object, object_len};
use crate::nsis::{MAXIMUM_VALUE, Treatment, WORD, objects};
use crate::writer::{EmitError, Writer};

/// What goes on behind NSLP-Data.
#[derive(Clone, Copy)]
pub struct Continuation<'a>(Octets<'a>);

#[derive(Clone, Copy)]
enum Octets<'a> {
    /// The objects, as they came.
    Wire(&'a [u8]),
    /// To be written.
    Data(&'a [u8]),
}

impl<'a> Continuation<'a> {
    /// Nothing.
    pub const NONE: Continuation<'static> = Continuation(Octets::Data(&[]));

    /// Parts data, whole words, into what NSLP-Data has room for and the rest.
    pub fn part(data: &'a [u8]) -> (&'a [u8], Continuation<'a>) {
        let (first, rest) = data.split_at(data.len().min(MAXIMUM_VALUE));
        (first, Continuation(Octets::Data(rest)))
    }

    pub(super) fn wire(objects: &'a [u8]) -> Continuation<'a> {
        Continuation(Octets::Wire(objects))
    }

    /// The data, piece by piece.
    pub fn pieces(self) -> impl Iterator<Item = &'a [u8]> + Clone {
        let (wire, data): (&'a [u8], &'a [u8]) = match self.0 {
            Octets::Wire(wire) => (wire, &[]),
            Octets::Data(data) => (&[], data),
        };
        let came = objects(wire, 0).map_while(Result::ok).map(|object| object.value());
        came.chain(data.chunks(MAXIMUM_VALUE))
    }

    /// Whether there is nothing.
    #[inline]
    pub fn is_empty(self) -> bool {
        match self.0 {
            Octets::Wire(octets) | Octets::Data(octets) => octets.is_empty(),
        }
    }

    /// Octets of the objects.
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
