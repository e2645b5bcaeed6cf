//! Collection of a message's objects in one pass, in any order.

use super::error::{ErrorKind, ParseError};
use super::extra::{Extra, Kept};
use super::header::HEADER;
use super::iana::ObjectType;
use super::info_spec::InfoSpec;
use super::objects::{
    BoundSessionId, BoundSessions, MessageBinding, MessageId, PacketClassifier, Rsn, RsnList,
    Summary,
};
use crate::nsis::SessionId;
use crate::nsis::extra::KeptObjects;
use crate::nsis::object::{self, Object, Treatment, objects};

/// Identifiers of a request that its response echoes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestIds {
    /// RII of a RESERVE or QUERY that requests a response.
    pub rii: Option<u32>,
    /// RSN of a RESERVE.
    pub rsn: Option<Rsn>,
}

impl RequestIds {
    /// Finds both in a message that may have any fault: the first object of each kind, up to the first truncated
    /// object.
    pub fn find(message: &[u8]) -> RequestIds {
        let mut request = RequestIds::default();
        let body = message.get(HEADER..).unwrap_or_default();
        for object in objects(body, HEADER).map_while(Result::ok) {
            match ObjectType::from_code(object.object_type()) {
                ObjectType::Rii if request.rii.is_none() => request.rii = word(&object).ok(),
                ObjectType::Rsn if request.rsn.is_none() => {
                    request.rsn = Rsn::parse(object.value());
                }
                _ => {}
            }
        }
        request
    }
}

/// Set of the object types that a message may have.
#[derive(Clone, Copy)]
pub(super) struct Allowed(u16);

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
    pub(super) rii: Option<u32>,
    pub(super) rsn: Option<Rsn>,
    pub(super) refresh_period: Option<u32>,
    pub(super) bound: BoundSessions<'a>,
    pub(super) classifier: Option<PacketClassifier>,
    pub(super) info: Option<InfoSpec<'a>>,
    pub(super) summary: Option<Summary<'a>>,
    pub(super) binding: Option<MessageBinding>,
    pub(super) qspec: Option<&'a [u8]>,
    pub(super) second_qspec: Option<&'a [u8]>,
    pub(super) extra: Extra<'a>,
    /// Offset of the end of the message, for errors about missing objects.
    end: usize,
}

impl<'a> Collected<'a> {
    /// Creates the collection of a message whose objects have not been [walked](Collected::walk) yet.
    pub(super) fn new(body: &'a [u8]) -> Collected<'a> {
        Collected {
            rii: None,
            rsn: None,
            refresh_period: None,
            bound: BoundSessions::NONE,
            classifier: None,
            info: None,
            summary: None,
            binding: None,
            qspec: None,
            second_qspec: None,
            extra: Extra::NONE,
            end: HEADER + body.len(),
        }
    }

    /// Walks the objects behind the common header.
    pub(super) fn walk(
        &mut self,
        body: &'a [u8],
        allowed: Allowed,
        two_qspecs: bool,
    ) -> Result<(), ParseError> {
        let mut lists = Lists::default();
        let mut seen = 0_u16;
        for object in objects(body, HEADER) {
            let object = object.map_err(|error| truncation_error(body, error))?;
            let object_type = ObjectType::from_code(object.object_type());
            if let ObjectType::Unknown(_) | ObjectType::SessionAuth = object_type {
                let is_unknown = object_type != ObjectType::SessionAuth;
                if is_unknown && object.treatment() == Treatment::Mandatory {
                    return Err(error(ErrorKind::UnknownObject, &object));
                }
                if Kept::is_kept(object_type.code(), object.treatment()) {
                    self.extra = Extra::wire(body);
                }
                continue;
            }
            let bit = 1 << object_type.code();
            if allowed.0 & bit == 0 {
                return Err(error(ErrorKind::IllegalObject, &object));
            }
            if seen & bit != 0 {
                match object_type {
                    ObjectType::BoundSessionId => {}
                    ObjectType::Qspec if two_qspecs && self.second_qspec.is_none() => {}
                    _ => return Err(error(ErrorKind::DuplicateObject, &object)),
                }
            }
            seen |= bit;
            self.take(object_type, &object, body, &mut lists)?;
        }
        self.summary = lists.summary(self.end)?;
        Ok(())
    }

    fn take(
        &mut self,
        object_type: ObjectType,
        object: &Object<'a>,
        body: &'a [u8],
        lists: &mut Lists<'a>,
    ) -> Result<(), ParseError> {
        let length = error(ErrorKind::ValueLength, object);
        match object_type {
            ObjectType::Rii => self.rii = Some(word(object)?),
            ObjectType::Rsn => self.rsn = Some(Rsn::parse(object.value()).ok_or(length)?),
            ObjectType::RefreshPeriod => self.refresh_period = Some(word(object)?),
            ObjectType::BoundSessionId => {
                BoundSessionId::parse(object.value()).ok_or(length)?;
                self.bound = BoundSessions::Wire(body);
            }
            ObjectType::PacketClassifier => {
                self.classifier = Some(PacketClassifier::parse(object.value()).ok_or(length)?);
            }
            ObjectType::InfoSpec => self.info = Some(InfoSpec::parse(object)?),
            ObjectType::SessionIdList => {
                let (sessions, []) = object.value().as_chunks() else { return Err(length) };
                lists.sessions = Some(sessions);
            }
            ObjectType::RsnList => {
                let rsns = RsnList::parse(object.value()).ok_or(length)?;
                lists.rsns = Some((rsns, object.offset()));
            }
            ObjectType::MessageId | ObjectType::BoundMessageId => {
                let id = MessageId::parse(object.value()).ok_or(length)?;
                if self.binding.is_some() {
                    return Err(error(ErrorKind::IllegalObject, object));
                }
                self.binding = Some(match object_type {
                    ObjectType::MessageId => MessageBinding::Id(id),
                    _ => MessageBinding::Bound(id),
                });
            }
            ObjectType::Qspec => {
                if object.value().is_empty() {
                    return Err(error(ErrorKind::EmptyQspec, object));
                }
                let place = match self.qspec {
                    None => &mut self.qspec,
                    Some(_) => &mut self.second_qspec,
                };
                *place = Some(object.value());
            }
            ObjectType::SessionAuth | ObjectType::Unknown(_) => {}
        }
        Ok(())
    }

    /// Creates an error about a missing object, or an object that requires another one.
    pub(super) fn error(&self, kind: ErrorKind, object: ObjectType) -> ParseError {
        ParseError::of(kind, object, self.end)
    }
}

/// SESSION-ID-LIST and RSN-LIST of a summary until both have been found.
#[derive(Default)]
struct Lists<'a> {
    sessions: Option<&'a [[u8; SessionId::LEN]]>,
    /// RSN list with the offset of its object.
    rsns: Option<(RsnList<'a>, usize)>,
}

impl<'a> Lists<'a> {
    fn summary(self, end: usize) -> Result<Option<Summary<'a>>, ParseError> {
        let Some(sessions) = self.sessions else {
            return match self.rsns {
                Some(_) => {
                    Err(ParseError::of(ErrorKind::MissingObject, ObjectType::SessionIdList, end))
                }
                None => Ok(None),
            };
        };
        let Some((rsns, offset)) = self.rsns else {
            return Ok(Some(Summary { sessions, rsns: None }));
        };
        if rsns.wire.len() != sessions.len() {
            // RFC 5974 section 5.3.7
            return Err(ParseError::of(ErrorKind::ListMismatch, ObjectType::RsnList, offset));
        }
        Ok(Some(Summary { sessions, rsns: Some(rsns) }))
    }
}

/// Reads a value of one word.
fn word(object: &Object<'_>) -> Result<u32, ParseError> {
    match object.value() {
        &[a, b, c, d] => Ok(u32::from_be_bytes([a, b, c, d])),
        _ => Err(error(ErrorKind::ValueLength, object)),
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
