//! NAT-Traversal: changes made by network address translators on the path (RFC 5971 sections 7.2.2 and A.3.9).

use core::fmt;

use super::error::ParseError;
use super::mri::Mri;
use super::reader::Reader;
use crate::nsis::{WORD, object::pad};
use crate::writer::{EmitError, Writer};

/// NAT-Traversal object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatTraversal<'a> {
    /// MRI of the message as originally sent.
    pub original: Mri,
    /// Types of the objects that every translator on the path has translated; at most 255.
    pub translated: Translated<'a>,
    /// Opaque data of each translator, in the order of the path; at most 255.
    pub opaque: Opaque<'a>,
}

/// First half words of object headers: extensibility flags and type.
#[derive(Clone, Copy)]
pub enum Translated<'a> {
    /// Half words as received.
    Wire(&'a [[u8; 2]]),
    /// Half words to be emitted.
    Items(&'a [u16]),
}

impl<'a> Translated<'a> {
    /// Iterates over the half words in order.
    pub fn iter(self) -> impl Iterator<Item = u16> + Clone + 'a {
        let (wire, items): (&'a [[u8; 2]], &'a [u16]) = match self {
            Translated::Wire(wire) => (wire, &[]),
            Translated::Items(items) => (&[], items),
        };
        wire.iter().map(|octets| u16::from_be_bytes(*octets)).chain(items.iter().copied())
    }

    /// Whether objects of this type have been translated, regardless of their flags.
    pub fn contains(self, object_type: u16) -> bool {
        self.iter().any(|half| half & 0x0fff == object_type)
    }

    /// Number of half words.
    pub fn len(self) -> usize {
        match self {
            Translated::Wire(wire) => wire.len(),
            Translated::Items(items) => items.len(),
        }
    }

    /// Whether the list is empty.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl PartialEq for Translated<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Translated<'_> {}

impl fmt::Debug for Translated<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// Opaque data that translators need again, one string of octets each.
#[derive(Clone, Copy)]
pub struct Opaque<'a>(OpaqueList<'a>);

#[derive(Clone, Copy)]
enum OpaqueList<'a> {
    /// Strings as received: lengths, octets, padding.
    Wire { count: u8, octets: &'a [u8] },
    /// Strings to be emitted.
    Items(&'a [&'a [u8]]),
}

impl<'a> Opaque<'a> {
    /// Creates a list to be emitted. Each string has at most 65 535 octets.
    pub const fn new(items: &'a [&'a [u8]]) -> Opaque<'a> {
        Opaque(OpaqueList::Items(items))
    }

    /// Iterates over the strings in order.
    pub fn iter(self) -> impl Iterator<Item = &'a [u8]> + Clone + 'a {
        let (mut wire, items): (&'a [u8], &'a [&'a [u8]]) = match self.0 {
            OpaqueList::Wire { octets, .. } => (octets, &[]),
            OpaqueList::Items(items) => (&[], items),
        };
        core::iter::from_fn(move || {
            let (len, rest) = wire.split_first_chunk::<2>()?;
            let octets = rest.get(..usize::from(u16::from_be_bytes(*len)))?;
            let whole = (2 + octets.len()).next_multiple_of(WORD);
            wire = wire.get(whole..).unwrap_or_default();
            Some(octets)
        })
        .chain(items.iter().copied())
    }

    /// Number of strings.
    pub fn len(self) -> usize {
        match self.0 {
            OpaqueList::Wire { count, .. } => usize::from(count),
            OpaqueList::Items(items) => items.len(),
        }
    }

    /// Whether the list is empty.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

impl PartialEq for Opaque<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Opaque<'_> {}

impl fmt::Debug for Opaque<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> NatTraversal<'a> {
    /// Length of the value, octets.
    pub fn value_len(&self) -> usize {
        let opaque = match self.opaque.0 {
            OpaqueList::Wire { octets, .. } => octets.len(),
            OpaqueList::Items(items) => {
                items.iter().map(|item| (2 + item.len()).next_multiple_of(WORD)).sum()
            }
        };
        let translated = (2 * self.translated.len()).next_multiple_of(WORD);
        WORD + self.original.value_len() + translated + opaque
    }

    pub(super) fn parse(mut reader: Reader<'a>) -> Result<NatTraversal<'a>, ParseError> {
        let [mri_words, types, translators, _] = reader.take()?;
        let original = Mri::parse(reader.part(usize::from(mri_words) * WORD)?)?;
        let types = reader.take_padded(0, 2 * usize::from(types))?;
        let octets = reader.rest();
        for _ in 0..translators {
            let len = u16::from_be_bytes(reader.take()?);
            reader.take_padded(2, usize::from(len))?;
        }
        reader.finish()?;
        Ok(NatTraversal {
            original,
            translated: Translated::Wire(types.as_chunks().0),
            opaque: Opaque(OpaqueList::Wire { count: translators, octets }),
        })
    }

    pub(super) fn emit(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        let byte = |number: usize| u8::try_from(number).map_err(|_| EmitError::TooLong);
        let mri_words = byte(self.original.value_len() / WORD)?;
        let translated = self.translated.len();
        writer.put([mri_words, byte(translated)?, byte(self.opaque.len())?, 0])?;
        self.original.emit(writer)?;
        self.translated.iter().try_for_each(|half| writer.put(half.to_be_bytes()))?;
        pad(writer, 2 * translated)?;
        for octets in self.opaque.iter() {
            let len = u16::try_from(octets.len()).map_err(|_| EmitError::TooLong)?;
            writer.put(len.to_be_bytes())?;
            writer.put_slice(octets)?;
            pad(writer, 2 + octets.len())?;
        }
        Ok(())
    }
}
