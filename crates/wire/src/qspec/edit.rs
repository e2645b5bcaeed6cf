//! In-place edits of a QSPEC by the nodes on the path.

use super::HEADER;
use super::error::ParseError;
use super::iana::{ObjectType, ParameterId, flag};
use super::object::Parameter;
use super::template::Qspec;
use crate::nsis::object::objects;
use crate::writer::Writer;

/// Editor of a QSPEC that moves nothing in it.
#[derive(Debug)]
pub struct Editor<'b> {
    octets: &'b mut [u8],
    /// Offset of the end of the objects; an Initiator QSPEC behind them stays unchanged.
    end: usize,
}

impl<'b> Editor<'b> {
    /// Creates the editor of a well-formed QSPEC.
    ///
    /// # Errors
    /// See [`Qspec::parse`].
    pub fn new(octets: &'b mut [u8]) -> Result<Editor<'b>, ParseError> {
        let behind = Qspec::parse(octets)?.initiator.map_or(0, <[u8]>::len);
        let end = octets.len() - behind;
        Ok(Editor { octets, end })
    }

    /// Sets the E flag of a parameter and of the object that contains it (RFC 5975 section 4.2.1); without a parameter,
    /// that of the object only. Returns whether both exist; otherwise nothing changes.
    pub fn fail(&mut self, object: ObjectType, parameter: Option<ParameterId>) -> bool {
        let Some((object_at, len)) = self.object(object) else { return false };
        if let Some(parameter) = parameter {
            let Some((at, _)) = self.parameter(object_at, len, parameter) else { return false };
            self.raise(at, flag::ERROR);
        }
        self.raise(object_at, flag::OBJECT_ERROR);
        true
    }

    /// Sets the N flag of a parameter (RFC 5975 section 4.2.2). TMOD-1 has no such flag and stays unchanged. Returns
    /// whether the flag was set.
    pub fn not_supported(&mut self, object: ObjectType, parameter: ParameterId) -> bool {
        let place = self.object(object).and_then(|(at, len)| self.parameter(at, len, parameter));
        match place {
            Some((at, _)) if parameter != ParameterId::Tmod1 => {
                self.raise(at, flag::NOT_SUPPORTED);
                true
            }
            _ => false,
        }
    }

    /// Replaces the parameter of the same type, flags included. Returns whether that parameter exists with the same
    /// length and the new one can be written.
    pub fn replace(&mut self, object: ObjectType, parameter: &Parameter<'_>) -> bool {
        let id = parameter.value.id();
        let place = self.object(object).and_then(|(at, len)| self.parameter(at, len, id));
        let Some((at, len)) = place else { return false };
        if len != parameter.len() || parameter.is_contradiction() {
            return false;
        }
        let target = self.octets.get_mut(at..at + len).unwrap_or_default();
        parameter.write(&mut Writer::new(target)).is_ok()
    }

    /// Returns offset and length of an object, header included.
    fn object(&self, object: ObjectType) -> Option<(usize, usize)> {
        find(self.octets, HEADER, self.end, object.code())
    }

    fn parameter(&self, at: usize, len: usize, id: ParameterId) -> Option<(usize, usize)> {
        find(self.octets, at + HEADER, at + len, id.code())
    }

    fn raise(&mut self, at: usize, flag: u8) {
        if let Some(octet) = self.octets.get_mut(at) {
            *octet |= flag;
        }
    }
}

/// Returns the first frame with this number between two offsets.
fn find(octets: &[u8], from: usize, to: usize, number: u16) -> Option<(usize, usize)> {
    objects(octets.get(from..to)?, from)
        .map_while(Result::ok)
        .find(|frame| frame.object_type() == number)
        .map(|frame| (frame.offset(), frame.octets().len()))
}
