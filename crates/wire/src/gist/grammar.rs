//! Which objects a message has, and in which order (RFC 5971 section 5.1), as a table.
//!
//! All messages keep to one order of objects, [`ORDER`]; a message's type and the way it came say which of them must and
//! which may be there. Objects that are there only beside others are looked at afterwards.

use super::continuation::Continuation;
use super::error::{ErrorKind, Origin, ParseError};
use super::header::{self, HEADER, Header};
use super::iana::{MessageType, NSLP_DATA_CONTINUATION, ObjectType};
use super::reader::Reader;
use crate::nsis::{Object, Treatment, WORD, objects};

/// How a message travels (RFC 5971 section 5.5). Q-mode is D-mode with the C-flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// In a datagram.
    D,
    /// Over a messaging association.
    C,
}

/// Number of object types that are known.
const TYPES: usize = 11;

/// The order that objects have in all messages.
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

/// The place in [`ORDER`] of each object type; the types are numbered without gaps.
const PLACES: [u8; TYPES] = {
    let (mut places, mut at) = ([0; TYPES], 0);
    while at < TYPES {
        places[ORDER[at].code() as usize] = at as u8;
        at += 1;
    }
    places
};

/// Place of an object in [`ORDER`]; none for types that are not known.
const fn place(object_type: u16) -> Option<usize> {
    if (object_type as usize) < TYPES { Some(PLACES[object_type as usize] as usize) } else { None }
}

/// What must and what may be in a message, as sets of places in [`ORDER`].
#[derive(Clone, Copy)]
struct Grammar {
    required: u16,
    permitted: u16,
}

impl Grammar {
    const fn new(required: &[ObjectType], optional: &[ObjectType]) -> Grammar {
        let required = places(required);
        Grammar { required, permitted: required | places(optional) }
    }
}

const fn places(object_types: &[ObjectType]) -> u16 {
    let (mut set, mut at) = (0, 0);
    while at < object_types.len() {
        if let Some(place) = place(object_types[at].code()) {
            set |= 1 << place;
        }
        at += 1;
    }
    set
}

/// The grammars of RFC 5971 section 5.1.
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

/// The objects of a message that are known, each at most once and all that must be there.
pub(super) struct Known<'a> {
    /// The message.
    octets: &'a [u8],
    /// Where each object begins, and how long it is, header included; 0 where it is not there.
    objects: [(u32, u32); TYPES],
    /// The objects that go on behind NSLP-Data.
    continuation: &'a [u8],
    /// Whether there are objects that are to be passed on though unknown.
    pub(super) extended: bool,
}

impl<'a> Known<'a> {
    /// Checks the header and walks the objects of a whole message.
    pub(super) fn parse(octets: &'a [u8], mode: Mode) -> Result<(Header, Known<'a>), ParseError> {
        let header = Header::parse(octets)?;
        check_header(&header, mode)?;
        if header.message_len() != octets.len() {
            return Err(length_error(octets));
        }
        let grammar = grammar(header.message_type, mode);
        let mut known =
            Known { octets, objects: [(0, 0); TYPES], continuation: &[], extended: false };
        let (mut last, mut found) = (None, 0_u16);
        for object in objects(octets.get(HEADER..).unwrap_or_default(), HEADER) {
            let Ok(object) = object else { return Err(length_error(octets)) };
            let fail =
                |kind| Err(ParseError::in_object(kind, object.offset(), Origin::of(&object)));
            if object.treatment() == Treatment::Refresh {
                return fail(ErrorKind::ExtensibilityFlags);
            }
            let Some(place) = place(object.object_type()) else {
                if object.object_type() == NSLP_DATA_CONTINUATION
                    && (header.message_type, mode) == (MessageType::Data, Mode::C)
                {
                    if !known.go_on(octets, &object) {
                        return fail(ErrorKind::Order);
                    }
                    continue;
                }
                match object.treatment() {
                    Treatment::Mandatory => return fail(ErrorKind::Unrecognised),
                    Treatment::Forward => known.extended = true,
                    Treatment::Ignore | Treatment::Refresh => {}
                }
                continue;
            };
            if grammar.permitted >> place & 1 == 0 {
                return fail(ErrorKind::InvalidObject);
            }
            let Some(slot) = known.objects.get_mut(place) else { continue };
            if found >> place & 1 != 0 {
                return fail(ErrorKind::Duplicate);
            }
            if last > Some(place) {
                return fail(ErrorKind::Order);
            }
            last = Some(place);
            found |= 1 << place;
            // A message has at most 262 148 octets.
            *slot = (object.offset() as u32, object.octets().len() as u32);
        }
        let missing = (grammar.required & !found).trailing_zeros();
        if let Some(object_type) = ORDER.get(missing as usize) {
            known.need(*object_type)?;
        }
        Ok((header, known))
    }

    /// Takes up an object that goes on behind NSLP-Data; `false` where it does not stand there.
    fn go_on(&mut self, octets: &'a [u8], object: &Object<'a>) -> bool {
        let Some(data) = self.object(ObjectType::NslpData) else { return false };
        let start = data.offset() + data.octets().len();
        let follows = start + self.continuation.len() == object.offset();
        let end = object.offset() + object.octets().len();
        self.continuation = octets.get(start..end).unwrap_or_default();
        follows
    }

    /// What goes on behind NSLP-Data.
    pub(super) fn continuation(&self) -> Continuation<'a> {
        Continuation::wire(self.continuation)
    }

    /// A reader of an object, if it is there.
    #[inline]
    pub(super) fn get(&self, object_type: ObjectType) -> Option<Reader<'a>> {
        self.object(object_type).map(|object| Reader::of(&object))
    }

    /// A reader of an object.
    #[inline]
    pub(super) fn need(&self, object_type: ObjectType) -> Result<Reader<'a>, ParseError> {
        self.get(object_type).ok_or_else(|| {
            let end = self.octets.len();
            let origin = Origin { object_type: object_type.code(), offset: end };
            ParseError::in_object(ErrorKind::Missing, end, origin)
        })
    }

    #[inline]
    fn object(&self, object_type: ObjectType) -> Option<Object<'a>> {
        let &(start, len) = self.objects.get(place(object_type.code())?)?;
        let octets = self.octets.get(start as usize..)?.get(..len as usize)?;
        Object::at(octets, start as usize)
    }

    /// Whether an object is there.
    #[inline]
    fn has(&self, object_type: ObjectType) -> bool {
        place(object_type.code())
            .and_then(|place| self.objects.get(place))
            .is_some_and(|(_, len)| *len != 0)
    }

    /// Objects that are there only with others (RFC 5971 section 5.1): a Stack-Proposal has its configuration beside it,
    /// except in a Confirm, the configuration always has its proposal, and in Response and Confirm both have the
    /// Responder-Cookie in front of them.
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

/// Type, flags and encapsulation (RFC 5971 A.1, A.4.4.1 and section 5.5).
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

/// The message has another length than its header says, or than its objects have: says what they add up to, the one that
/// leads past the end taken to be as long as it says.
#[cold]
fn length_error(octets: &[u8]) -> ParseError {
    let mut words = 0;
    let mut rest = octets.get(HEADER..).unwrap_or_default();
    while let Some(&[_, _, l0, l1]) = rest.first_chunk() {
        let object = 1 + usize::from(u16::from_be_bytes([l0, l1]) & 0x0fff);
        words += object;
        rest = rest.get(object * WORD..).unwrap_or_default();
    }
    let calculated = u16::try_from(words).unwrap_or(u16::MAX);
    ParseError::header(ErrorKind::MessageLength { calculated }, header::at::LENGTH)
}
