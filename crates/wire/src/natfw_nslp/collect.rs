//! Collection of a message's objects in one pass, in any order.

use super::data_terminal::DataTerminal;
use super::error::{ErrorKind, ParseError};
use super::extra::{Extra, Kept};
use super::header::HEADER;
use super::iana::ObjectType;
use super::info::Info;
use super::objects::{ExtendedFlow, ExternalAddress, ExternalBinding, Nonce, parse_icmp_types};
use crate::nsis::extra::KeptObjects;
use crate::nsis::object::{self, Object, Treatment, objects};

/// Set of the object types that a message may have.
#[derive(Clone, Copy)]
pub(super) struct Allowed(u32);

impl Allowed {
    pub(super) const fn of(types: &[ObjectType]) -> Allowed {
        let mut bits = 0;
        let mut i = 0;
        while i < types.len() {
            bits |= 1 << types[i].code();
            i += 1;
        }
        Allowed(bits)
    }
}

/// Objects found in a message.
pub(super) struct Collected<'a> {
    pub(super) lifetime: Option<u32>,
    /// External address with the offset of its object.
    pub(super) external_address: Option<(ExternalAddress, usize)>,
    /// External binding addresses with the offset of their object.
    pub(super) external_binding: Option<(ExternalBinding<'a>, usize)>,
    pub(super) extended_flow: Option<ExtendedFlow>,
    /// NATFW_INFO with the offset of its object.
    pub(super) info: Option<(Info, usize)>,
    pub(super) nonce: Option<Nonce>,
    pub(super) msn: Option<u32>,
    pub(super) data_terminal: Option<DataTerminal>,
    pub(super) icmp_types: Option<&'a [u8]>,
    pub(super) extra: Extra<'a>,
    /// Offset of the end of the message, for errors about missing objects.
    end: usize,
}

impl<'a> Collected<'a> {
    /// Collects the objects behind the header.
    pub(super) fn parse(body: &'a [u8], allowed: Allowed) -> Result<Collected<'a>, ParseError> {
        let mut found = Collected {
            lifetime: None,
            external_address: None,
            external_binding: None,
            extended_flow: None,
            info: None,
            nonce: None,
            msn: None,
            data_terminal: None,
            icmp_types: None,
            extra: Extra::NONE,
            end: HEADER + body.len(),
        };
        let mut seen = 0_u32;
        for object in objects(body, HEADER) {
            let object = object.map_err(|error| truncation_error(body, error))?;
            let object_type = ObjectType::from_code(object.object_type());
            let treatment = object.treatment();
            if treatment == Treatment::Refresh {
                return Err(error(ErrorKind::ObjectFlags, &object));
            }
            if let ObjectType::Unknown(_) | ObjectType::SessionAuth = object_type {
                let is_unknown = object_type != ObjectType::SessionAuth;
                if is_unknown && treatment == Treatment::Mandatory {
                    return Err(error(ErrorKind::UnknownObject, &object));
                }
                if Kept::is_kept(object_type.code(), treatment) {
                    found.extra = Extra::wire(body);
                }
                continue;
            }
            let bit = 1 << object_type.code();
            if allowed.0 & bit == 0 {
                return Err(error(ErrorKind::IllegalObject, &object));
            }
            if seen & bit != 0 {
                return Err(error(ErrorKind::DuplicateObject, &object));
            }
            seen |= bit;
            found.take(object_type, &object).map_err(|kind| error(kind, &object))?;
        }
        Ok(found)
    }

    fn take(&mut self, object_type: ObjectType, object: &Object<'a>) -> Result<(), ErrorKind> {
        let (value, offset) = (object.value(), object.offset());
        match object_type {
            ObjectType::Lifetime => self.lifetime = Some(word(value)?),
            ObjectType::ExternalAddress => {
                self.external_address = Some((ExternalAddress::parse(value)?, offset));
            }
            ObjectType::ExternalBinding => {
                self.external_binding = Some((ExternalBinding::parse(value)?, offset));
            }
            ObjectType::ExtendedFlow => self.extended_flow = Some(ExtendedFlow::parse(value)?),
            ObjectType::Info => {
                self.info = Some((Info::parse(value).ok_or(ErrorKind::ValueLength)?, offset));
            }
            ObjectType::Nonce => self.nonce = Some(Nonce(word(value)?)),
            ObjectType::Msn => self.msn = Some(word(value)?),
            ObjectType::DataTerminal => self.data_terminal = Some(DataTerminal::parse(value)?),
            ObjectType::IcmpTypes => self.icmp_types = Some(parse_icmp_types(value)?),
            ObjectType::SessionAuth | ObjectType::Unknown(_) => {}
        }
        Ok(())
    }

    /// Returns a required object.
    pub(super) fn required<T>(
        &self,
        value: Option<T>,
        object: ObjectType,
    ) -> Result<T, ParseError> {
        value.ok_or(ParseError::of(ErrorKind::MissingObject, object, self.end))
    }
}

/// Reads a value of one word.
fn word(value: &[u8]) -> Result<u32, ErrorKind> {
    match value {
        &[a, b, c, d] => Ok(u32::from_be_bytes([a, b, c, d])),
        _ => Err(ErrorKind::ValueLength),
    }
}

fn error(kind: ErrorKind, object: &Object<'_>) -> ParseError {
    ParseError::of(kind, ObjectType::from_code(object.object_type()), object.offset())
}

/// Returns the error of a truncated object, with its type.
#[cold]
fn truncation_error(body: &[u8], error: object::ObjectError) -> ParseError {
    let header = body.get(error.offset - HEADER..).and_then(|rest| rest.first_chunk::<2>());
    match (error.kind, header) {
        (object::ErrorKind::Length, Some(half)) => {
            let object_type = ObjectType::from_code(u16::from_be_bytes(*half) & 0x0fff);
            ParseError::of(ErrorKind::ObjectLength, object_type, error.offset)
        }
        _ => ParseError::new(ErrorKind::ObjectTruncated, error.offset),
    }
}
