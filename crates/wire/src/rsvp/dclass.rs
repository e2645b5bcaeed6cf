//! DCLASS (RFC 2996): code points with which a sender marks its packets for a differentiated-services network.
//!
//! Nodes that do not know the class forward it, so that the object is part of [`Carried`].

use serde::{Deserialize, Serialize};

use super::error::{ErrorKind, ParseError};
use super::frame::{Carried, RawObject};
use super::iana::{ObjectClass, c_type};
use super::list::{Item, List, sealed::Sealed};
use super::object_writer::put_header;
use crate::writer::{EmitError, Writer};

/// Differentiated-services code point, 6 bits; higher bits are not written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Dscp(pub u8);

impl Dscp {
    /// Largest code point.
    pub const MAX: u16 = 63;
}

impl<'a> Carried<'a> {
    /// Returns the code points of the first readable DCLASS.
    pub fn dclass(&self) -> Option<List<'a, Dscp>> {
        self.iter()
            .filter(|object| object.class_num() == ObjectClass::DClass.code())
            .find_map(|object| dclass(&object).ok())
    }
}

/// Parses a DCLASS object: one code point or several.
pub(super) fn dclass<'a>(object: &RawObject<'a>) -> Result<List<'a, Dscp>, ParseError> {
    if object.c_type() != c_type::DCLASS {
        return Err(object.error(ErrorKind::UnknownCType));
    }
    // Every object has whole words.
    match object.body() {
        [] => Err(object.error(ErrorKind::ObjectSize)),
        words => Ok(List::Wire(words)),
    }
}

pub(super) fn put_dclass(w: &mut Writer<'_>, code_points: List<'_, Dscp>) -> Result<(), EmitError> {
    put_header(w, ObjectClass::DClass, c_type::DCLASS, code_points.len() * 4)?;
    code_points.iter().try_for_each(|Dscp(code_point)| w.put([0, 0, 0, code_point << 2]))
}

impl Sealed for Dscp {}

/// Wire format: words, each with the code point in the six high bits of its last octet.
impl<'a> Item<'a> for Dscp {
    type State = ();

    fn next(rest: &mut &'a [u8], (): &mut ()) -> Option<Dscp> {
        let ([_, _, _, octet], behind) = rest.split_first_chunk()?;
        *rest = behind;
        Some(Dscp(octet >> 2))
    }
}
