//! Objects of unknown types that nodes keep, as their flags A and B demand, and SESSION_AUTH, which a node without interest in
//! it treats like them (RFC 5981 section 3.1).

use core::fmt;
use core::marker::PhantomData;

use serde::Serialize;

use super::iana::SESSION_AUTH;
use super::object::{Treatment, WORD, emit_object, object_len, objects};
use super::session_auth::SessionAuth;
use crate::serialize::Sequence;
use crate::writer::{EmitError, Writer};

/// Rule of an application that tells which objects of a message its nodes keep without understanding them.
pub trait KeptObjects {
    /// Whether a node keeps the object.
    fn is_kept(object_type: u16, treatment: Treatment) -> bool;
}

/// An unknown object, or SESSION_AUTH.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExtraObject<'a> {
    /// Treatment. Unknown objects are kept with [`Treatment::Forward`] and, where the application defines it,
    /// [`Treatment::Refresh`]; those with other treatments are not kept.
    pub treatment: Treatment,
    /// Object type, twelve bits.
    pub object_type: u16,
    /// Value; whole words.
    pub value: &'a [u8],
}

/// The unknown objects of a message, and its SESSION_AUTH, as the rule `K` of the application selects them.
pub enum Extra<'a, K> {
    /// All objects of a received message, checked; iteration selects the unknown ones.
    Wire(&'a [u8], PhantomData<K>),
    /// Objects to be emitted.
    Items(&'a [ExtraObject<'a>]),
}

impl<K> Clone for Extra<'_, K> {
    #[inline]
    fn clone(&self) -> Self {
        *self
    }
}

impl<K> Copy for Extra<'_, K> {}

impl<'a, K: KeptObjects> Extra<'a, K> {
    /// No unknown objects.
    pub const NONE: Extra<'a, K> = Extra::Items(&[]);

    /// Selects from well-formed objects, such as those of a checked message.
    #[inline]
    pub const fn wire(objects: &'a [u8]) -> Extra<'a, K> {
        Extra::Wire(objects, PhantomData)
    }

    /// Whether there are no unknown objects.
    #[inline]
    pub fn is_empty(self) -> bool {
        match self {
            Extra::Wire(..) => self.iter().next().is_none(),
            Extra::Items(items) => items.is_empty(),
        }
    }

    /// Iterates over the unknown objects.
    pub fn iter(self) -> impl Iterator<Item = ExtraObject<'a>> + Clone {
        let (wire, items): (&[u8], &[ExtraObject<'a>]) = match self {
            Extra::Wire(wire, _) => (wire, &[]),
            Extra::Items(items) => (&[], items),
        };
        objects(wire, 0)
            .map_while(Result::ok)
            .filter(|object| K::is_kept(object.object_type(), object.treatment()))
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

    pub(crate) fn len(self) -> usize {
        if self.is_empty() {
            return 0;
        }
        self.iter().map(|extra| object_len(extra.value.len())).sum()
    }

    pub(crate) fn write(self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        if self.is_empty() {
            return Ok(());
        }
        if let Extra::Wire(wire, _) = self {
            // The octets stay unchanged, reserved bits included.
            return objects(wire, 0)
                .map_while(Result::ok)
                .filter(|object| K::is_kept(object.object_type(), object.treatment()))
                .try_for_each(|object| writer.put_slice(object.octets()));
        }
        self.iter().try_for_each(|ExtraObject { treatment, object_type, value }| {
            if !K::is_kept(object_type, treatment) || !value.len().is_multiple_of(WORD) {
                return Err(EmitError::Contradiction);
            }
            emit_object(writer, treatment, object_type, |writer| writer.put_slice(value))
        })
    }

    /// Returns the attributes of the well-formed SESSION_AUTH objects, to be serialized; `None` if there are none.
    pub(crate) fn session_auth_views(self) -> Option<impl Serialize> {
        let parsed = self.session_auths().filter_map(|value| SessionAuth::parse(value).ok());
        crate::serialize::objects(parsed.map(|auth| Sequence(auth.attributes())))
    }
}

impl<K: KeptObjects> PartialEq for Extra<'_, K> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl<K: KeptObjects> Eq for Extra<'_, K> {}

impl<K: KeptObjects> fmt::Debug for Extra<'_, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}
