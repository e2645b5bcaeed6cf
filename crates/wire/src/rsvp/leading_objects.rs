//! Leading objects, in this order: INTEGRITY, acknowledgements, MESSAGE_ID (RFC 2961 section 4.1). They concern the hop
//! between neighbors, not the subject of the message.

use super::error::{ErrorKind, ParseError};
use super::frame::{COMMON_HEADER, Frames, RawObject, UnknownClass};
use super::iana::ObjectClass;
use super::integrity::Integrity;
use super::list::List;
use super::refresh_reduction::{self, Acknowledgement, MessageId};

/// The leading objects of a message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct LeadingObjects<'a> {
    pub(super) integrity: Option<Integrity<'a>>,
    pub(super) acknowledgements: List<'a, Acknowledgement>,
    pub(super) message_id: Option<MessageId>,
}

impl<'a> LeadingObjects<'a> {
    pub(super) const NONE: LeadingObjects<'a> =
        LeadingObjects { integrity: None, acknowledgements: List::EMPTY, message_id: None };

    /// Takes the leading objects from `frames`, which is at the first object of `objects`, and the ignored objects
    /// among them.
    #[inline]
    pub(super) fn take(
        frames: &mut Frames<'a>,
        objects: &'a [u8],
    ) -> Result<LeadingObjects<'a>, ParseError> {
        const SESSION: u8 = ObjectClass::Session.code();
        // Most messages have no leading objects.
        match objects {
            [_, _, SESSION, ..] => Ok(LeadingObjects::NONE),
            _ => LeadingObjects::take_some(frames, objects),
        }
    }

    fn take_some(
        frames: &mut Frames<'a>,
        objects: &'a [u8],
    ) -> Result<LeadingObjects<'a>, ParseError> {
        let mut leading = LeadingObjects::NONE;
        let mut acknowledgements = None;
        let mut ahead = *frames;
        while let Some(Ok(object)) = ahead.next() {
            match ObjectClass::from_code(object.class_num()) {
                ObjectClass::Integrity => {
                    if leading.integrity.is_some() {
                        return Err(object.error(ErrorKind::DuplicateObject));
                    }
                    if object.offset != COMMON_HEADER {
                        return Err(object.error(ErrorKind::ObjectOrder));
                    }
                    leading.integrity = Some(Integrity::parse(&object)?);
                }
                ObjectClass::MessageIdAck if leading.message_id.is_none() => {
                    refresh_reduction::acknowledgement(&object)?;
                    let first = acknowledgements.get_or_insert(object.offset);
                    let end = object.offset + object.bytes.len();
                    leading.acknowledgements = List::Wire(between(objects, *first, end));
                }
                ObjectClass::MessageId => {
                    if leading.message_id.is_some() {
                        return Err(object.error(ErrorKind::DuplicateObject));
                    }
                    leading.message_id = Some(refresh_reduction::message_id(&object)?);
                }
                ObjectClass::Null | ObjectClass::SessionOfInterest => {}
                ObjectClass::Unknown(class) if UnknownClass::of(class) == UnknownClass::Ignore => {}
                _ => break,
            }
            *frames = ahead;
        }
        Ok(leading)
    }
}

/// Returns the octets between two offsets, which count from the start of the message.
#[inline]
fn between(objects: &[u8], start: usize, end: usize) -> &[u8] {
    objects.get(start - COMMON_HEADER..end - COMMON_HEADER).unwrap_or_default()
}

/// Returns the error about a leading object behind other objects.
#[cold]
pub(super) fn out_of_order(object: &RawObject<'_>) -> ParseError {
    object.error(ErrorKind::ObjectOrder)
}
