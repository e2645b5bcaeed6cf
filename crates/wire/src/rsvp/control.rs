//! Messages beyond the seven of RFC 2205. Messages between neighbors that concern no session: Bundle, Ack and Srefresh
//! (RFC 2961), Hello (RFC 3209), and the integrity handshake (RFC 2747); the diagnostics of RFC 2745; and Notify (RFC
//! 3473).

use super::bundle::Bundle;
use super::error::{ErrorKind, ParseError};
use super::frame::{COMMON_HEADER, CommonHeader, Frames, RawObject, UnknownClass};
use super::hello::{Capability, HelloMessage, RestartCap};
use super::iana::{MessageType, ObjectClass};
use super::leading_objects::{self, LeadingObjects};
use super::list::List;
use super::message::{Body, Message};
use super::refresh_reduction::{RefreshIds, Srefresh};
use super::{diagnostics, hello, integrity, notify, refresh_reduction};

/// Parses such a message; `objects` are the octets behind the common header.
#[cold]
#[inline(never)]
pub(super) fn message<'a>(
    header: CommonHeader,
    message_type: MessageType,
    objects: &'a [u8],
) -> Result<Message<'a>, ParseError> {
    let (leading, body) = match message_type {
        // A Bundle has no objects of its own, hence no leading objects either (RFC 2961 section 3.2).
        MessageType::Bundle => (LeadingObjects::NONE, Body::Bundle(Bundle::new(objects)?)),
        MessageType::Ack => ack(objects)?,
        MessageType::Srefresh => srefresh(objects)?,
        MessageType::Hello => {
            let (leading, hello) = hello_message(objects)?;
            (leading, Body::Hello(hello))
        }
        // The sender has no sequence number to sign the message with, or no key (RFC 2747 section 4.3).
        MessageType::IntegrityChallenge => {
            let (leading, challenge) =
                single(objects, ObjectClass::Challenge, integrity::challenge)?;
            if leading.integrity.is_some() {
                return Err(illegal(ObjectClass::Integrity, objects));
            }
            (leading, Body::IntegrityChallenge(challenge))
        }
        MessageType::IntegrityResponse => {
            let (leading, challenge) =
                single(objects, ObjectClass::Challenge, integrity::challenge)?;
            if leading.integrity.is_none() {
                return Err(missing(ObjectClass::Integrity, objects));
            }
            (leading, Body::IntegrityResponse(challenge))
        }
        MessageType::Dreq => {
            let (leading, diagnosis) = diagnostics::diagnosis(objects)?;
            (leading, Body::Dreq(diagnosis))
        }
        MessageType::Drep => {
            let (leading, diagnosis) = diagnostics::diagnosis(objects)?;
            (leading, Body::Drep(diagnosis))
        }
        MessageType::Notify => {
            let (leading, notify) = notify::notify(objects)?;
            (leading, Body::Notify(notify))
        }
        _ => return Err(ParseError::header(ErrorKind::MessageType, 1)),
    };
    Ok(Message::assemble(header, leading, body))
}

/// Parses an Ack: acknowledgements, which are leading objects, and nothing else (RFC 2961 section 4.4).
fn ack(objects: &[u8]) -> Result<(LeadingObjects<'_>, Body<'_>), ParseError> {
    let mut frames = Frames::new(objects, COMMON_HEADER);
    let leading = LeadingObjects::take(&mut frames, objects)?;
    for object in frames {
        accept(&object?, None)?;
    }
    if leading.message_id.is_some() {
        return Err(illegal(ObjectClass::MessageId, objects));
    }
    if leading.acknowledgements.is_empty() {
        return Err(missing(ObjectClass::MessageIdAck, objects));
    }
    Ok((leading, Body::Ack))
}

/// Parses an Srefresh: at least one list of message identifiers (RFC 2961 section 5.2).
fn srefresh(objects: &[u8]) -> Result<(LeadingObjects<'_>, Body<'_>), ParseError> {
    let mut frames = Frames::new(objects, COMMON_HEADER);
    let leading = LeadingObjects::take(&mut frames, objects)?;
    let mut sources_only = None;
    for object in frames {
        let object = object?;
        if accept(&object, Some(ObjectClass::MessageIdList))? {
            let names = refresh_reduction::refresh_list(&object)?.ids;
            let sources = matches!(names, RefreshIds::Sources(_));
            if *sources_only.get_or_insert(sources) != sources {
                return Err(object.error(ErrorKind::IllegalObject));
            }
        }
    }
    if sources_only.is_none() {
        return Err(missing(ObjectClass::MessageIdList, objects));
    }
    Ok((leading, Body::Srefresh(Srefresh { lists: List::Wire(objects) })))
}

/// Parses a Hello: HELLO, and RESTART_CAP and CAPABILITY if the sender has them (RFC 5063 section 4.2).
fn hello_message(objects: &[u8]) -> Result<(LeadingObjects<'_>, HelloMessage), ParseError> {
    let mut frames = Frames::new(objects, COMMON_HEADER);
    let leading = LeadingObjects::take(&mut frames, objects)?;
    let (mut hello, mut restart_cap, mut capability) = (None, None, None);
    for object in frames {
        let object = object?;
        let is_second = match ObjectClass::from_code(object.class_num()) {
            ObjectClass::Hello => hello.replace(hello::hello(&object)?).is_some(),
            ObjectClass::RestartCap => restart_cap.replace(RestartCap::parse(&object)?).is_some(),
            ObjectClass::Capability => capability.replace(Capability::parse(&object)?).is_some(),
            _ => accept(&object, None)?,
        };
        if is_second {
            return Err(object.error(ErrorKind::DuplicateObject));
        }
    }
    let hello = hello.ok_or_else(|| missing(ObjectClass::Hello, objects))?;
    Ok((leading, HelloMessage { hello, restart_cap, capability }))
}

/// Parses a message that has one object behind its leading objects.
fn single<'a, T>(
    objects: &'a [u8],
    class: ObjectClass,
    decode: impl Fn(&RawObject<'a>) -> Result<T, ParseError>,
) -> Result<(LeadingObjects<'a>, T), ParseError> {
    let mut frames = Frames::new(objects, COMMON_HEADER);
    let leading = LeadingObjects::take(&mut frames, objects)?;
    let mut body = None;
    for object in frames {
        let object = object?;
        if accept(&object, Some(class))? {
            if body.is_some() {
                return Err(object.error(ErrorKind::DuplicateObject));
            }
            body = Some(decode(&object)?);
        }
    }
    let body = body.ok_or_else(|| missing(class, objects))?;
    Ok((leading, body))
}

/// Returns whether an object is of the message's own class; any other object must be one to ignore. Nothing is carried
/// on, because these messages go to the neighbor only.
fn accept(object: &RawObject<'_>, class: Option<ObjectClass>) -> Result<bool, ParseError> {
    match ObjectClass::from_code(object.class_num()) {
        own if Some(own) == class => Ok(true),
        ObjectClass::Null | ObjectClass::RestartCap | ObjectClass::Capability => Ok(false),
        ObjectClass::Unknown(number) => match UnknownClass::of(number) {
            UnknownClass::Reject => Err(object.error(ErrorKind::UnknownClass)),
            UnknownClass::Ignore | UnknownClass::Forward => Ok(false),
        },
        ObjectClass::Integrity | ObjectClass::MessageIdAck | ObjectClass::MessageId => {
            Err(leading_objects::out_of_order(object))
        }
        _ => Err(object.error(ErrorKind::IllegalObject)),
    }
}

fn missing(class: ObjectClass, objects: &[u8]) -> ParseError {
    let offset = COMMON_HEADER + objects.len();
    ParseError { kind: ErrorKind::MissingObject, offset, class_num: class.code(), c_type: 0 }
}

/// Returns the error about the single object of a class, which is not allowed.
fn illegal(class: ObjectClass, objects: &[u8]) -> ParseError {
    Frames::new(objects, COMMON_HEADER)
        .map_while(Result::ok)
        .find(|object| object.class_num() == class.code())
        .map_or(missing(class, objects), |object| object.error(ErrorKind::IllegalObject))
}
