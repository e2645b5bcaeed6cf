//! The grammar of messages: which objects each has, and their order (RFC 5971 section 5.1), as a table.
//!
//! All messages share one order of objects, [`ORDER`]. Message type and mode determine which objects are required and
//! which are optional. Objects that depend on other objects are checked afterwards.

use super::continuation::Continuation;
use super::error::{ErrorKind, LengthMismatch, Origin, ParseError};
use super::header::{self, HEADER, Header};
use super::iana::{MessageType, NSLP_DATA_CONTINUATION, ObjectType};
use super::reader::Reader;
use crate::nsis::{Object, Treatment, WORD, object, objects};

/// Mode in which a message travels (RFC 5971 section 5.5). Q-mode is D-mode with the C-flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// Datagram mode.
    D,
    /// Connection mode: over a messaging association.
    C,
}

/// Number of known object types.
const TYPES: usize = 11;

/// Order of the objects, common to all messages.
const ORDER: [ObjectType; TYPES] = [
    ObjectType::NatTraversal,
    ObjectType::MessageRoutingInformation,
    ObjectType::SessionId,
    ObjectType::NetworkLayerInformation,
    ObjectType::QueryCookie,
    ObjectType::ResponderCookie,
    ObjectType::StackProposal,
    ObjectType::StackConfigurationData,
    ObjectType::NslpData,
    ObjectType::Error,
    ObjectType::HelloId,
];

/// For each object type, the set of types that may follow it. Types are numbered without gaps, so that a type is an
/// index of a table and a bit of a set.
const BEHIND: [u16; TYPES] = {
    let (mut behind, mut set, mut at) = ([0; TYPES], 0, TYPES);
    while at > 0 {
        at -= 1;
        let code = ORDER[at].code() as usize;
        behind[code] = set;
        set |= 1 << code;
    }
    behind
};

/// Required and allowed objects of a message, as sets of object types.
#[derive(Clone, Copy)]
struct Grammar {
    required: u16,
    permitted: u16,
}

impl Grammar {
    const fn new(required: &[ObjectType], optional: &[ObjectType]) -> Grammar {
        let required = set(required);
        Grammar { required, permitted: required | set(optional) }
    }
}

const fn set(object_types: &[ObjectType]) -> u16 {
    let (mut set, mut at) = (0, 0);
    while at < object_types.len() {
        set |= 1 << object_types[at].code();
        at += 1;
    }
    set
}

/// Returns the grammar of a message (RFC 5971 section 5.1).
#[inline]
fn grammar(message_type: MessageType, mode: Mode) -> Grammar {
    use ObjectType::{
        Error, HelloId, MessageRoutingInformation as Mri, NatTraversal,
        NetworkLayerInformation as Nli, NslpData, QueryCookie, ResponderCookie, SessionId,
        StackConfigurationData, StackProposal,
    };
    const QUERY: Grammar = Grammar::new(
        &[Mri, SessionId, Nli, QueryCookie],
        &[NatTraversal, StackProposal, StackConfigurationData, NslpData],
    );
    const RESPONSE: Grammar = Grammar::new(
        &[Mri, SessionId, Nli, QueryCookie],
        &[NatTraversal, ResponderCookie, StackProposal, StackConfigurationData, NslpData],
    );
    const CONFIRM: Grammar = Grammar::new(
        &[Mri, SessionId, Nli],
        &[ResponderCookie, StackProposal, StackConfigurationData, NslpData],
    );
    const DATA_D: Grammar = Grammar::new(&[Mri, SessionId, Nli, NslpData], &[NatTraversal]);
    const DATA_C: Grammar = Grammar::new(&[Mri, SessionId, NslpData], &[NatTraversal]);
    const ERROR_D: Grammar = Grammar::new(&[Nli, Error], &[NatTraversal]);
    const ERROR_C: Grammar = Grammar::new(&[Error], &[NatTraversal, Nli]);
    const HELLO: Grammar = Grammar::new(&[HelloId], &[]);
    match (message_type, mode) {
        (MessageType::Query, _) => QUERY,
        (MessageType::Response, _) => RESPONSE,
        (MessageType::Confirm, _) => CONFIRM,
        (MessageType::Data, Mode::D) => DATA_D,
        (MessageType::Data, Mode::C) => DATA_C,
        (MessageType::Error, Mode::D) => ERROR_D,
        (MessageType::Error, Mode::C) => ERROR_C,
        (MessageType::Hello, _) => HELLO,
        (MessageType::Unknown(_), _) => Grammar::new(&[], &[]),
    }
}

/// The known objects of a message: each occurs at most once, and all required ones are present.
pub(super) struct KnownObjects<'a> {
    /// The message.
    octets: &'a [u8],
    /// Start and end of the object of each type, octets; both 0 if it is missing.
    objects: [(u32, u32); TYPES],
    /// Continuation objects behind NSLP-Data.
    continuation: &'a [u8],
    /// Whether the message has unknown objects to be forwarded.
    pub(super) extended: bool,
}

impl<'a> KnownObjects<'a> {
    /// Creates the objects of a message that has not been [walked](KnownObjects::walk) yet.
    pub(super) fn new(octets: &'a [u8]) -> KnownObjects<'a> {
        KnownObjects { octets, objects: [(0, 0); TYPES], continuation: &[], extended: false }
    }

    /// Checks the header and finds the objects of the whole message.
    pub(super) fn walk(&mut self, header: &Header, mode: Mode) -> Result<(), ParseError> {
        check_header(header, mode)?;
        let octets = self.octets;
        if header.message_len() != octets.len() {
            return Err(length_error(octets));
        }
        let Grammar { permitted, mut required } = grammar(header.message_type, mode);
        let mut next = permitted;
        for object in objects(octets.get(HEADER..).unwrap_or_default(), HEADER) {
            let Ok(object) = object else { return Err(length_error(octets)) };
            let code = usize::from(object.object_type());
            let (Some(place), Some(behind)) = (self.objects.get_mut(code), BEHIND.get(code)) else {
                self.take_unknown(object, (header.message_type, mode))?;
                continue;
            };
            if next >> code & 1 == 0 || object.treatment() == Treatment::Refresh {
                return Err(self.misplaced(object, permitted));
            }
            // A message has at most 262 148 octets, so that its offsets fit.
            let start = object.offset();
            *place = (start as u32, (start + object.octets().len()) as u32);
            next &= behind;
            required &= !(1 << code);
        }
        if required != 0 {
            let is_missing = |object_type: &&ObjectType| required >> object_type.code() & 1 != 0;
            ORDER
                .iter()
                .find(is_missing)
                .map_or(Ok(()), |missing| self.need(*missing).map(drop))?;
        }
        Ok(())
    }

    /// Returns the error of a known object at a position that the grammar does not permit.
    #[cold]
    fn misplaced(&self, object: Object<'a>, permitted: u16) -> ParseError {
        let code = usize::from(object.object_type());
        let kind = if object.treatment() == Treatment::Refresh {
            ErrorKind::ExtensibilityFlags
        } else if permitted >> code & 1 == 0 {
            ErrorKind::InvalidObject
        } else if self.objects.get(code).is_some_and(|(_, end)| *end != 0) {
            ErrorKind::Duplicate
        } else {
            ErrorKind::Order
        };
        ParseError::in_object(kind, object.offset(), Origin::of(&object))
    }

    /// Treats an unknown object as its extensibility flags demand.
    #[cold]
    fn take_unknown(
        &mut self,
        object: Object<'a>,
        message: (MessageType, Mode),
    ) -> Result<(), ParseError> {
        let is_data = message == (MessageType::Data, Mode::C);
        let kind = match object.treatment() {
            Treatment::Refresh => ErrorKind::ExtensibilityFlags,
            _ if is_data && object.object_type() == NSLP_DATA_CONTINUATION => {
                if self.take_continuation(&object) {
                    return Ok(());
                }
                ErrorKind::Order
            }
            Treatment::Mandatory => ErrorKind::Unrecognised,
            Treatment::Forward => {
                self.extended = true;
                return Ok(());
            }
            Treatment::Ignore => return Ok(()),
        };
        Err(ParseError::in_object(kind, object.offset(), Origin::of(&object)))
    }

    /// Adds a continuation object; returns `false` if it does not directly follow NSLP-Data.
    fn take_continuation(&mut self, object: &Object<'a>) -> bool {
        let Some((_, start)) = self.range(ObjectType::NslpData) else { return false };
        let follows = start + self.continuation.len() == object.offset();
        let end = object.offset() + object.octets().len();
        self.continuation = self.octets.get(start..end).unwrap_or_default();
        follows
    }

    /// Returns the continuation of NSLP-Data.
    pub(super) fn continuation(&self) -> Continuation<'a> {
        Continuation::wire(self.continuation)
    }

    /// Returns a reader of an object, if it is present.
    #[inline]
    pub(super) fn get(&self, object_type: ObjectType) -> Option<Reader<'a>> {
        let (start, end) = self.range(object_type)?;
        let origin = Origin { object_type: object_type.code(), offset: start };
        Some(Reader::new(self.octets.get(start + object::HEADER..end)?, origin))
    }

    /// Returns a reader of an object.
    ///
    /// # Errors
    /// The object is missing.
    #[inline]
    pub(super) fn need(&self, object_type: ObjectType) -> Result<Reader<'a>, ParseError> {
        self.get(object_type).ok_or_else(|| {
            let end = self.octets.len();
            let origin = Origin { object_type: object_type.code(), offset: end };
            ParseError::in_object(ErrorKind::Missing, end, origin)
        })
    }

    /// Whether an object is present.
    #[inline]
    pub(super) fn has(&self, object_type: ObjectType) -> bool {
        self.range(object_type).is_some()
    }

    /// Returns start and end of an object, if it is present.
    #[inline]
    fn range(&self, object_type: ObjectType) -> Option<(usize, usize)> {
        let &(start, end) = self.objects.get(usize::from(object_type.code()))?;
        (end != 0).then_some((start as usize, end as usize))
    }

    /// Checks objects that depend on others (RFC 5971 section 5.1). A Stack-Proposal requires its configuration, except
    /// in a Confirm; the configuration always requires its proposal; in Response and Confirm both require the
    /// Responder-Cookie.
    pub(super) fn check_groups(&self, message_type: MessageType) -> Result<(), ParseError> {
        let has = |object_type| self.has(object_type);
        let (proposal, configuration) =
            (has(ObjectType::StackProposal), has(ObjectType::StackConfigurationData));
        if configuration {
            self.need(ObjectType::StackProposal)?;
        }
        if proposal && message_type != MessageType::Confirm {
            self.need(ObjectType::StackConfigurationData)?;
        }
        if proposal && message_type != MessageType::Query {
            self.need(ObjectType::ResponderCookie)?;
        }
        Ok(())
    }
}

/// Checks type, flags and encapsulation (RFC 5971 A.1, A.4.4.1 and section 5.5).
#[inline]
fn check_header(header: &Header, mode: Mode) -> Result<(), ParseError> {
    use header::at;
    let fail = |kind, offset| Err(ParseError::header(kind, offset));
    let (message_type, flags) = (header.message_type, header.flags);
    if let MessageType::Unknown(_) = message_type {
        return fail(ErrorKind::Type, at::TYPE);
    }
    let context_free = match message_type {
        MessageType::Query => flags.context_free,
        MessageType::Data => !flags.context_free || mode == Mode::D,
        _ => !flags.context_free,
    };
    if !context_free {
        return fail(ErrorKind::ContextFlag, at::TYPE);
    }
    let reply = match message_type {
        MessageType::Query => flags.reply_requested,
        MessageType::Response | MessageType::Hello => true,
        _ => !flags.reply_requested,
    };
    if !reply {
        return fail(ErrorKind::ReplyFlag, at::FLAGS);
    }
    if flags.explicitly_routed && message_type != MessageType::Data {
        return fail(ErrorKind::ExplicitFlag, at::FLAGS);
    }
    match (message_type, mode) {
        (MessageType::Query, Mode::C) | (MessageType::Hello, Mode::D) => {
            fail(ErrorKind::Encapsulation, at::TYPE)
        }
        _ => Ok(()),
    }
}

/// Returns the error of a message whose length differs from its header or its objects, with the total length of the
/// objects. An object that leads past the end counts with its full length.
#[cold]
fn length_error(octets: &[u8]) -> ParseError {
    let mut words = 0;
    let mut rest = octets.get(HEADER..).unwrap_or_default();
    while let Some(&[_, _, l0, l1]) = rest.first_chunk() {
        let object = 1 + usize::from(u16::from_be_bytes([l0, l1]) & 0x0fff);
        words += object;
        rest = rest.get(object * WORD..).unwrap_or_default();
    }
    let words = u16::try_from(words).unwrap_or(u16::MAX);
    ParseError::header(ErrorKind::MessageLength(LengthMismatch { words }), header::at::LENGTH)
}
