//! Lists of NSIS objects, the common form of GIST, its applications and QSPEC, as far as their lengths lead.

use earmark_wire::nsis::{HEADER, WORD, objects};
use serde_json::Value;

use crate::fields::Fields;
use crate::objects;

/// An object of a list, or the octets at the end that are no whole object.
pub(super) struct Element<'a> {
    /// Type, 12 bits; `None` if the octets end within it.
    pub(super) object_type: Option<u16>,
    /// Octets that are there, header included.
    pub(super) octets: &'a [u8],
    /// Offset of the header.
    pub(super) offset: usize,
    /// Length according to the header, octets.
    claimed: usize,
}

/// Iterates over the objects of a list whose first octet has this offset. An object that leads past the end is the last one.
pub(super) fn elements(octets: &[u8], offset: usize) -> impl Iterator<Item = Element<'_>> {
    objects(octets, offset).map(move |object| match object {
        Ok(object) => Element {
            object_type: Some(object.object_type()),
            octets: object.octets(),
            offset: object.offset(),
            claimed: object.octets().len(),
        },
        Err(error) => {
            let octets = octets.get(error.offset - offset..).unwrap_or_default();
            let half = |at: usize| {
                let half = octets.get(at..).and_then(|octets| octets.first_chunk());
                half.map(|half| u16::from_be_bytes(*half) & 0x0fff)
            };
            let claimed = HEADER + usize::from(half(2).unwrap_or(0)) * WORD;
            Element { object_type: half(0), octets, offset: error.offset, claimed }
        }
    })
}

impl<'a> Element<'a> {
    /// Returns a reader of the value.
    pub(super) fn fields(&self, name: &str) -> Fields<'a> {
        let mut fields = Fields::new(name, self.octets, self.offset, self.claimed);
        fields.skip(HEADER);
        fields
    }

    /// Octets of the value that are there.
    pub(super) fn value(&self) -> &'a [u8] {
        self.octets.get(HEADER..).unwrap_or_default()
    }

    /// Returns the object with the fields that `read` finds. `name` is that of a known type.
    pub(super) fn show(&self, name: Option<&str>, read: impl FnOnce(&mut Fields<'a>)) -> Value {
        match (name, self.object_type) {
            (Some(name), _) => objects::read(name, self.fields(name), read),
            (None, Some(number)) => {
                objects::read("UNKNOWN", self.fields(&format!("object {number}")), |fields| {
                    fields.put("type", number);
                    fields.hex("octets", fields.left());
                })
            }
            (None, None) => {
                let fields = Fields::new("object header", self.octets, self.offset, self.claimed);
                objects::read("UNKNOWN", fields, |_| {})
            }
        }
    }

    /// Whether the object leads past the end of the list.
    pub(super) fn is_truncated(&self) -> bool {
        self.claimed > self.octets.len()
    }
}
