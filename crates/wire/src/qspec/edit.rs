//! What a node on the way changes in a QSPEC, where it stands.

use super::HEADER;
use super::error::ParseError;
use super::iana::{ObjectType, ParameterId, flag};
use super::object::Parameter;
use super::template::Qspec;
use crate::nsis::object::objects;
use crate::writer::Writer;

/// Changes a QSPEC without moving anything in it.
#[derive(Debug)]
pub struct Editor<'b> {
    octets: &'b mut [u8],
    /// Where the objects end; an Initiator QSPEC behind them is not touched.
    end: usize,
}

impl<'b> Editor<'b> {
    /// An editor of a well-formed QSPEC.
    ///
    /// # Errors
    /// See [`Qspec::parse`].
    pub fn new(octets: &'b mut [u8]) -> Result<Editor<'b>, ParseError> {
        let behind = Qspec::parse(octets)?.initiator.map_or(0, <[u8]>::len);
        let end = octets.len() - behind;
        Ok(Editor { octets, end })
    }

    /// Raises E of a parameter and of the object that it is in (RFC 5975 section 4.2.1); without a parameter, that of
    /// the object alone. Says whether they are there; nothing is changed if not.
    pub fn fail(&mut self, object: ObjectType, parameter: Option<ParameterId>) -> bool {
        let Some((object_at, len)) = self.object(object) else { return false };
        if let Some(parameter) = parameter {
            let Some((at, _)) = self.parameter(object_at, len, parameter) else { return false };
            self.raise(at, flag::ERROR);
        }
        self.raise(object_at, flag::OBJECT_ERROR);
        true
    }

    /// Raises N of a parameter (RFC 5975 section 4.2.2). TMOD-1 has none, and stays as it is. Says whether it was raised.
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

    /// Puts a parameter in the place of the one of its type; its flags too. Says whether that was there, of the same
    /// length, and the new one can be written.
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

    /// Where an object begins, and how long it is with its header.
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

/// The first frame of this number between two places.
fn find(octets: &[u8], from: usize, to: usize, number: u16) -> Option<(usize, usize)> {
    objects(octets.get(from..to)?, from)
        .map_while(Result::ok)
        .find(|frame| frame.object_type() == number)
        .map(|frame| (frame.offset(), frame.octets().len()))
}
