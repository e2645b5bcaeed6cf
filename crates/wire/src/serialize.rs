//! Serialization of messages and their objects.
//!
//! A message serializes to a map. Its flags and numbers are entries; each object is an entry with the name of the object
//! in the standard and a map of its fields, or a list of maps if the object occurs several times. Absent objects are null.

use core::fmt;

use serde::ser::{Serialize, SerializeMap, Serializer};

/// A map with the listed entries, by name. An entry with `?` is left out if its value is `None`.
macro_rules! map {
    (@) => { $crate::serialize::End };
    (@ $name:literal?: $value:expr $(, $($rest:tt)*)?) => {
        $crate::serialize::Optional($name, $value, map!(@ $($($rest)*)?))
    };
    (@ $name:literal: $value:expr $(, $($rest:tt)*)?) => {
        $crate::serialize::Entry($name, $value, map!(@ $($($rest)*)?))
    };
    ($($entries:tt)*) => { $crate::serialize::Map(map!(@ $($entries)*)) };
}

/// Implements `Serialize` for a type by the serialization of another value.
macro_rules! serialize_as {
    ($type:ty, |$it:ident| $value:expr) => {
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let $it = self;
                serde::Serialize::serialize(&$value, serializer)
            }
        }
    };
}

/// Entries of a [`Map`].
pub(crate) trait Entries {
    fn add_to<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// Name and value of an entry, and the entries after it.
pub(crate) struct Entry<V, R>(pub(crate) &'static str, pub(crate) V, pub(crate) R);

/// An [`Entry`] that is left out without a value.
pub(crate) struct Optional<V, R>(pub(crate) &'static str, pub(crate) Option<V>, pub(crate) R);

pub(crate) struct End;

impl<V: Serialize, R: Entries> Entries for Entry<V, R> {
    fn add_to<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        map.serialize_entry(self.0, &self.1)?;
        self.2.add_to(map)
    }
}

impl<V: Serialize, R: Entries> Entries for Optional<V, R> {
    fn add_to<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        if let Some(value) = &self.1 {
            map.serialize_entry(self.0, value)?;
        }
        self.2.add_to(map)
    }
}

impl Entries for End {
    fn add_to<M: SerializeMap>(&self, _: &mut M) -> Result<(), M::Error> {
        Ok(())
    }
}

pub(crate) struct Map<E>(pub(crate) E);

impl<E: Entries> Serialize for Map<E> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.0.add_to(&mut map)?;
        map.end()
    }
}

/// A value that serializes to its displayed form.
pub(crate) struct Text<T>(pub(crate) T);

impl<T: fmt::Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// Octets as hexadecimal digits.
pub(crate) struct Hex<'a>(pub(crate) &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|octet| write!(f, "{octet:02x}"))
    }
}

serialize_as!(Hex<'_>, |it| Text(it));

/// Serializes octets as hexadecimal digits: for `#[serde(serialize_with = "...")]`.
pub(crate) fn hex<S: Serializer>(
    octets: &impl AsRef<[u8]>,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    Hex(octets.as_ref()).serialize(serializer)
}

/// An iterator that serializes to a list.
pub(crate) struct Sequence<I>(pub(crate) I);

impl<I: Iterator<Item: Serialize> + Clone> Serialize for Sequence<I> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.clone())
    }
}

/// Returns a list of objects; `None` if it is empty.
pub(crate) fn objects<I: Iterator + Clone>(objects: I) -> Option<Sequence<I>> {
    objects.clone().next().map(|_| Sequence(objects))
}
