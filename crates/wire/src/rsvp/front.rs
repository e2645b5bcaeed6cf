//! The objects that come before all others, in this order: INTEGRITY, acknowledgements, MESSAGE_ID (RFC 2961 section
//! 4.1). They speak of the hop from neighbour to neighbour, not of what the message is about.

use super::error::{ErrorKind, ParseError};
use super::frame::{COMMON_HEADER, CommonHeader, Frames, UnknownClass};
use super::iana::ObjectClass;
use super::integrity::Integrity;
use super::message::{Body, List, Message, RawObject};
use super::reduction::{self, Acknowledgement, MessageId};

/// What was found of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Front<'a> {
    pub(super) integrity: Option<Integrity<'a>>,
    pub(super) acknowledgements: List<'a, Acknowledgement>,
    pub(super) message_id: Option<MessageId>,
}

impl<'a> Front<'a> {
    pub(super) const NONE: Front<'a> =
        Front { integrity: None, acknowledgements: List::EMPTY, message_id: None };

    /// Takes them off `frames`, which stand at the first object of `objects`, and what must be ignored with them.
    #[inline]
    pub(super) fn take(
        frames: &mut Frames<'a>,
        objects: &'a [u8],
    ) -> Result<Front<'a>, ParseError> {
        const SESSION: u8 = ObjectClass::Session.code();
        // Most messages have nothing of it.
        match objects {
            [_, _, SESSION, ..] => Ok(Front::NONE),
            _ => Front::take_some(frames, objects),
        }
    }

    fn take_some(frames: &mut Frames<'a>, objects: &'a [u8]) -> Result<Front<'a>, ParseError> {
        let mut front = Front::NONE;
        let mut acknowledgements = None;
        let mut ahead = *frames;
        while let Some(Ok(object)) = ahead.next() {
            match ObjectClass::from_code(object.class_num()) {
                ObjectClass::Integrity => {
                    if front.integrity.is_some() {
                        return Err(object.error(ErrorKind::DuplicateObject));
                    }
                    if object.offset != COMMON_HEADER {
                        return Err(object.error(ErrorKind::ObjectOrder));
                    }
                    front.integrity = Some(Integrity::parse(&object)?);
                }
                ObjectClass::MessageIdAck if front.message_id.is_none() => {
                    reduction::acknowledgement(&object)?;
                    let first = acknowledgements.get_or_insert(object.offset);
                    let end = object.offset + object.bytes.len();
                    front.acknowledgements = List::Wire(between(objects, *first, end));
                }
                ObjectClass::MessageId => {
                    if front.message_id.is_some() {
                        return Err(object.error(ErrorKind::DuplicateObject));
                    }
                    front.message_id = Some(reduction::message_id(&object)?);
                }
                ObjectClass::Null => {}
                ObjectClass::Unknown(class) if UnknownClass::of(class) == UnknownClass::Ignore => {}
                _ => break,
            }
            *frames = ahead;
        }
        Ok(front)
    }

    /// The message of which this is the front.
    #[inline]
    pub(super) fn before(self, header: CommonHeader, body: Body<'a>) -> Message<'a> {
        let CommonHeader { flags, send_ttl, .. } = header;
        let Front { integrity, acknowledgements, message_id } = self;
        Message { flags, send_ttl, integrity, acknowledgements, message_id, body }
    }
}

/// The objects from one offset to another, which count from the start of the message.
#[inline]
fn between(objects: &[u8], start: usize, end: usize) -> &[u8] {
    objects.get(start - COMMON_HEADER..end - COMMON_HEADER).unwrap_or_default()
}

/// What to say of an object that belongs in front, but came later.
#[cold]
pub(super) fn too_late(object: &RawObject<'_>) -> ParseError {
    object.error(ErrorKind::ObjectOrder)
}
