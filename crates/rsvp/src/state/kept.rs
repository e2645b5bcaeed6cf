//! Objects of messages that are stored to be forwarded.

use alloc::boxed::Box;
use alloc::vec::Vec;

use earmark_wire::rsvp::Carried;

/// Objects that are stored to be forwarded. Most blocks have none, so the pointer is thin.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept(#[allow(clippy::box_collection)] Option<Box<Vec<u8>>>);

impl Kept {
    /// Copies the objects that a message carries.
    pub(crate) fn of(carried: Carried<'_>) -> Kept {
        if let Carried::Objects([]) = carried {
            return Kept(None);
        }
        let mut octets = Vec::new();
        for object in carried.iter() {
            octets.extend_from_slice(object.bytes);
        }
        octets.shrink_to_fit();
        if octets.is_empty() { Kept(None) } else { Kept(Some(Box::new(octets))) }
    }

    /// Returns the number of octets to store.
    pub(crate) fn length(carried: Carried<'_>) -> usize {
        carried.octets()
    }

    /// Returns the objects, concatenated.
    #[inline]
    pub(crate) fn octets(&self) -> &[u8] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }

    /// Returns whether the objects equal those that a message carries.
    #[inline]
    pub(crate) fn is(&self, carried: Carried<'_>) -> bool {
        match (&self.0, carried) {
            (None, Carried::Objects([])) => true,
            _ => self.equals(carried),
        }
    }

    #[inline(never)]
    fn equals(&self, carried: Carried<'_>) -> bool {
        let mut rest = self.octets();
        for object in carried.iter() {
            match rest.strip_prefix(object.bytes) {
                Some(after) => rest = after,
                None => return false,
            }
        }
        rest.is_empty()
    }
}
