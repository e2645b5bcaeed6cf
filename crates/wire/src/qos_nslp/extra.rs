//! Objects of unknown types that nodes keep (RFC 5974 section 5.1.3), and SESSION_AUTH, which a node without interest in it
//! treats like them (RFC 5981 section 3.1).

use core::fmt;

use super::iana::ObjectType;
use crate::nsis::iana::SESSION_AUTH;
use crate::nsis::object::{Treatment, emit_object, object_len, objects};
use crate::writer::{EmitError, Writer};

/// An unknown object, or SESSION_AUTH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtraObject<'a> {
    /// Treatment: [`Treatment::Forward`] or [`Treatment::Refresh`]. Objects with other treatments are not kept.
    pub treatment: Treatment,
    /// Object type, twelve bits.
    pub object_type: u16,
    /// Value; whole words.
    pub value: &'a [u8],
}

/// The unknown objects of a message, and its SESSION_AUTH.
#[derive(Clone, Copy)]
pub enum Extra<'a> {
    /// All objects of a received message, checked; iteration selects the unknown ones.
    Wire(&'a [u8]),
    /// Objects to be emitted.
    Items(&'a [ExtraObject<'a>]),
}

/// Whether a node keeps the object.
pub(super) fn is_kept(object_type: u16, treatment: Treatment) -> bool {
    match ObjectType::from_code(object_type) {
        ObjectType::SessionAuth => true,
        ObjectType::Unknown(_) => matches!(treatment, Treatment::Forward | Treatment::Refresh),
        _ => false,
    }
}

impl<'a> Extra<'a> {
    /// No unknown objects.
    pub const NONE: Extra<'a> = Extra::Items(&[]);

    /// Whether there are no unknown objects.
    #[inline]
    pub fn is_empty(self) -> bool {
        match self {
            Extra::Wire(_) => self.iter().next().is_none(),
            Extra::Items(items) => items.is_empty(),
        }
    }

    /// Iterates over the unknown objects.
    pub fn iter(self) -> impl Iterator<Item = ExtraObject<'a>> + Clone {
        let (wire, items): (&[u8], &[ExtraObject<'a>]) = match self {
            Extra::Wire(wire) => (wire, &[]),
            Extra::Items(items) => (&[], items),
        };
        objects(wire, 0)
            .map_while(Result::ok)
            .filter(|object| is_kept(object.object_type(), object.treatment()))
            .map(|object| ExtraObject {
                treatment: object.treatment(),
                object_type: object.object_type(),
                value: object.value(),
            })
            .chain(items.iter().copied())
    }

    /// Iterates over the values of the SESSION_AUTH objects, which are not checked.
    pub fn session_auths(self) -> impl Iterator<Item = &'a [u8]> + Clone {
        let is_one = |extra: &ExtraObject<'_>| extra.object_type == SESSION_AUTH;
        self.iter().filter(is_one).map(|extra| extra.value)
    }

    pub(super) fn len(self) -> usize {
        if self.is_empty() {
            return 0;
        }
        self.iter().map(|extra| object_len(extra.value.len())).sum()
    }

    pub(super) fn write(self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        if self.is_empty() {
            return Ok(());
        }
        if let Extra::Wire(wire) = self {
            // The octets stay unchanged, reserved bits included.
            return objects(wire, 0)
                .map_while(Result::ok)
                .filter(|object| is_kept(object.object_type(), object.treatment()))
                .try_for_each(|object| writer.put_slice(object.octets()));
        }
        self.iter().try_for_each(|ExtraObject { treatment, object_type, value }| {
            if !is_kept(object_type, treatment) || !value.len().is_multiple_of(4) {
                return Err(EmitError::Contradiction);
            }
            emit_object(writer, treatment, object_type, |writer| writer.put_slice(value))
        })
    }
}

impl PartialEq for Extra<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Extra<'_> {}

impl fmt::Debug for Extra<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
