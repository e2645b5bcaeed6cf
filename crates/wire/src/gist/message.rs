//! What messages mean, and how they are written (RFC 5971 section 5.1).

use core::fmt;

use serde::{Deserialize, Serialize};

use super::error::{ErrorKind, ParseError};
use super::grammar::{Known, Mode};
use super::header::{Flags, HEADER, Header, at};
use super::iana::{MessageType, ObjectType};
use super::mri::{Direction, Mri};
use super::nat::NatTraversal;
use super::nli::NetworkLayerInformation;
use super::reader::Reader;
use super::report::ErrorObject;
use super::stack::{Profiles, Stack, StackConfiguration};
use crate::nsis::object::{emit_object, object_len};
use crate::nsis::{Object, Treatment, WORD, objects};
use crate::writer::{EmitError, Writer};

/// Names a session: 128 random bits (RFC 5971 section 3.7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SessionId(pub [u8; 16]);

impl SessionId {
    /// Octets of it.
    pub const LEN: usize = 16;

    pub(super) fn parse(mut reader: Reader<'_>) -> Result<SessionId, ParseError> {
        let id = reader.take()?;
        reader.finish()?;
        Ok(SessionId(id))
    }
}

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SessionId({self})")
    }
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    /// By how many nodes it may still be handled, its destination included.
    pub hops: u8,
    /// Which signalling application it is for; 0 in Error and MA-Hello.
    pub nslpid: u16,
    /// The IP source address is that of the signalling peer: the S-flag.
    pub source_is_peer: bool,
    /// What it says.
    pub body: Body<'a>,
    /// Objects that are not known here and are to be passed on.
    pub extensions: Extensions<'a>,
}

/// What a message says. Flags that a type leaves no choice of are not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body<'a> {
    /// Who is next on this path?
    Query(Query<'a>),
    /// I am.
    Response(Response<'a>),
    /// So be it.
    Confirm(Confirm<'a>),
    /// A message of a signalling application.
    Data(Data<'a>),
    /// What was wrong with a message.
    Error(Error<'a>),
    /// An association is still wanted.
    Hello(Hello),
}

/// Query: always in Q-mode, always answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// What translators have changed.
    pub nat_traversal: Option<NatTraversal<'a>>,
    /// Which way.
    pub mri: Mri,
    /// Which session.
    pub session: SessionId,
    /// Who asks.
    pub nli: NetworkLayerInformation<'a>,
    /// What the Response must repeat; whole words.
    pub query_cookie: &'a [u8],
    /// Wish for an association.
    pub stack: Option<Stack<'a>>,
    /// For the signalling application; whole words.
    pub nslp_data: Option<&'a [u8]>,
}

/// Response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// That of the Query.
    pub nat_traversal: Option<NatTraversal<'a>>,
    /// That of the Query the other way.
    pub mri: Mri,
    /// That of the Query.
    pub session: SessionId,
    /// Who answers.
    pub nli: NetworkLayerInformation<'a>,
    /// That of the Query.
    pub query_cookie: &'a [u8],
    /// What the Confirm must repeat.
    pub responder: Option<ResponderPart<'a>>,
    /// A Confirm is asked for: the R-flag. Always where there is a responder's part.
    pub confirm_requested: bool,
    /// For the signalling application; whole words.
    pub nslp_data: Option<&'a [u8]>,
}

/// What a Confirm must repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponderPart<'a> {
    /// Responder-Cookie; whole words.
    pub cookie: &'a [u8],
    /// How an association may be set up.
    pub stack: Option<Stack<'a>>,
}

/// Confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirm<'a> {
    /// That of the Response the other way.
    pub mri: Mri,
    /// That of the Response.
    pub session: SessionId,
    /// Who confirms.
    pub nli: NetworkLayerInformation<'a>,
    /// What the Response wanted to see again.
    pub returned: Option<Returned<'a>>,
    /// For the signalling application; whole words.
    pub nslp_data: Option<&'a [u8]>,
}

/// What a Response wanted to see again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned<'a> {
    /// Responder-Cookie; whole words.
    pub cookie: &'a [u8],
    /// The responder's proposal, so that it can see whether somebody changed it.
    pub proposal: Option<Profiles<'a>>,
    /// How long the association is held, as the first Confirm on it says; only beside a proposal.
    pub configuration: Option<StackConfiguration<'a>>,
}

/// Data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// What translators have changed.
    pub nat_traversal: Option<NatTraversal<'a>>,
    /// Which way.
    pub mri: Mri,
    /// Which session.
    pub session: SessionId,
    /// Who sends it: in D-mode always, in C-mode never.
    pub nli: Option<NetworkLayerInformation<'a>>,
    /// For the signalling application; whole words.
    pub nslp_data: &'a [u8],
    /// In Q-mode: the C-flag. Only in D-mode.
    pub context_free: bool,
    /// The message was explicitly routed: the E-flag.
    pub explicitly_routed: bool,
}

/// Error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error<'a> {
    /// That of the message at fault.
    pub nat_traversal: Option<NatTraversal<'a>>,
    /// Who found the error: in D-mode always.
    pub nli: Option<NetworkLayerInformation<'a>>,
    /// What was wrong.
    pub error: ErrorObject<'a>,
}

/// MA-Hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Hello-ID; not 0 where a reply is asked for.
    pub id: u32,
    /// A reply with the same id is asked for: the R-flag.
    pub reply_requested: bool,
}

/// An object that is not known here and that the sender wants to be passed on: AB=10 (RFC 5971 A.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Its type; none that is known here.
    pub object_type: u16,
    /// Its value; whole words.
    pub value: &'a [u8],
}

/// Objects that are not known here and are to be passed on.
#[derive(Clone, Copy)]
pub enum Extensions<'a> {
    /// All objects of a message, among them those.
    Wire(&'a [u8]),
    /// To be written.
    Items(&'a [Extension<'a>]),
}

impl<'a> Extensions<'a> {
    /// None.
    pub const NONE: Extensions<'static> = Extensions::Items(&[]);

    /// The objects in order.
    pub fn iter(self) -> impl Iterator<Item = Extension<'a>> + Clone + 'a {
        let (wire, items): (&'a [u8], &'a [Extension<'a>]) = match self {
            Extensions::Wire(wire) => (wire, &[]),
            Extensions::Items(items) => (&[], items),
        };
        objects(wire, HEADER)
            .map_while(Result::ok)
            .filter(is_extension)
            .map(|object| Extension { object_type: object.object_type(), value: object.value() })
            .chain(items.iter().copied())
    }
}

fn is_extension(object: &Object<'_>) -> bool {
    let known = !matches!(ObjectType::from_code(object.object_type()), ObjectType::Unknown(_));
    !known && object.treatment() == Treatment::Forward
}

impl PartialEq for Extensions<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Extensions<'_> {}

impl fmt::Debug for Extensions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<'a> Message<'a> {
    /// Reads a whole message, which begins with the common header: the rest of a [datagram](super::datagram), or what a
    /// stream has in as many octets as [`message_len`](super::message_len) says.
    ///
    /// Objects that are unknown and may be ignored are passed over.
    ///
    /// # Errors
    /// The first thing that is wrong; [`ParseError::answer`] is what to say of it.
    pub fn parse(octets: &'a [u8], mode: Mode) -> Result<Message<'a>, ParseError> {
        let (header, known) = Known::parse(octets, mode)?;
        let flags = header.flags;
        let body = match header.message_type {
            MessageType::Query => Body::Query(Query::parse(&known)?),
            MessageType::Response => Body::Response(Response::parse(&known, flags)?),
            MessageType::Confirm => Body::Confirm(Confirm::parse(&known)?),
            MessageType::Data => Body::Data(Data::parse(&known, flags)?),
            MessageType::Error => Body::Error(Error::parse(&known)?),
            MessageType::Hello => Body::Hello(Hello::parse(&known, flags)?),
            MessageType::Unknown(_) => {
                return Err(ParseError::header(ErrorKind::Type, at::TYPE));
            }
        };
        Ok(Message {
            hops: header.hops,
            nslpid: header.nslpid,
            source_is_peer: flags.source_is_peer,
            body,
            extensions: match known.extended {
                true => Extensions::Wire(octets.get(HEADER..).unwrap_or_default()),
                false => Extensions::NONE,
            },
        })
    }

    /// Octets that [`emit`](Message::emit) writes.
    pub fn buffer_len(&self) -> usize {
        let extensions = self.extensions.iter().map(|extension| object_len(extension.value.len()));
        HEADER + self.body.len() + extensions.sum::<usize>()
    }

    /// Writes the message to the start of `buffer` and gives its length.
    ///
    /// # Errors
    /// The buffer is too short; an object is longer than 16 380 octets, or the message than 262 148; parts contradict
    /// each other, or are such as [`parse`](Message::parse) refuses.
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, EmitError> {
        let mut writer = Writer::new(buffer);
        let mut header = Header {
            hops: self.hops,
            words: 0,
            nslpid: self.nslpid,
            message_type: self.body.message_type(),
            flags: Flags { source_is_peer: self.source_is_peer, ..self.body.flags() },
        };
        header.emit(&mut writer)?;
        self.body.emit(&mut writer)?;
        for Extension { object_type, value } in self.extensions.iter() {
            if !matches!(ObjectType::from_code(object_type), ObjectType::Unknown(_)) {
                return Err(EmitError::Contradiction);
            }
            put_words(&mut writer, Treatment::Forward, object_type, value)?;
        }
        let len = writer.written().len();
        header.words = u16::try_from((len - HEADER) / WORD).map_err(|_| EmitError::TooLong)?;
        writer.patch(0, header.to_octets()?)?;
        Ok(len)
    }
}

impl Body<'_> {
    /// What kind of message it is.
    pub const fn message_type(&self) -> MessageType {
        match self {
            Body::Query(_) => MessageType::Query,
            Body::Response(_) => MessageType::Response,
            Body::Confirm(_) => MessageType::Confirm,
            Body::Data(_) => MessageType::Data,
            Body::Error(_) => MessageType::Error,
            Body::Hello(_) => MessageType::Hello,
        }
    }

    /// The flags that follow from it.
    fn flags(&self) -> Flags {
        let none = Flags::default();
        match self {
            Body::Query(_) => Flags { context_free: true, reply_requested: true, ..none },
            Body::Response(body) => Flags { reply_requested: body.confirm_requested, ..none },
            Body::Confirm(_) | Body::Error(_) => none,
            Body::Data(body) => Flags {
                context_free: body.context_free,
                explicitly_routed: body.explicitly_routed,
                ..none
            },
            Body::Hello(body) => Flags { reply_requested: body.reply_requested, ..none },
        }
    }

    /// Octets of its objects.
    fn len(&self) -> usize {
        self.parts().into_iter().flatten().map(|part| object_len(part.value_len())).sum()
    }

    fn emit(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        self.check()?;
        self.parts().iter().flatten().try_for_each(|part| part.emit(writer))
    }

    /// Whether anybody could read it.
    fn check(&self) -> Result<(), EmitError> {
        let stack_is_sound =
            |stack: Option<Stack<'_>>| stack.is_none_or(|stack| stack.is_consistent());
        let sound = match self {
            Body::Query(body) => stack_is_sound(body.stack) && !is_loose_upstream(&body.mri),
            Body::Response(body) => match body.responder {
                Some(part) => {
                    body.confirm_requested
                        && stack_is_sound(part.stack)
                        && part.stack.is_none_or(|stack| stack.has_ports())
                }
                None => true,
            },
            Body::Confirm(body) => body.returned.is_none_or(|returned| {
                returned.proposal.is_some() || returned.configuration.is_none()
            }),
            Body::Data(body) => {
                !body.context_free || body.nli.is_some() && !is_loose_upstream(&body.mri)
            }
            Body::Error(_) => true,
            Body::Hello(body) => !body.reply_requested || body.id != 0,
        };
        if sound { Ok(()) } else { Err(EmitError::Contradiction) }
    }

    /// Its objects in the order of the grammar.
    fn parts(&self) -> [Option<Part<'_>>; 9] {
        let none = None;
        match self {
            Body::Query(body) => [
                body.nat_traversal.as_ref().map(Part::NatTraversal),
                Some(Part::Mri(&body.mri)),
                Some(Part::Session(&body.session)),
                Some(Part::Nli(&body.nli)),
                Some(Part::Words(ObjectType::QueryCookie, body.query_cookie)),
                body.stack.as_ref().map(|stack| Part::Proposal(&stack.proposal)),
                body.stack.as_ref().map(|stack| Part::Configuration(&stack.configuration)),
                body.nslp_data.map(|data| Part::Words(ObjectType::NslpData, data)),
                none,
            ],
            Body::Response(body) => {
                let stack = body.responder.as_ref().and_then(|part| part.stack.as_ref());
                [
                    body.nat_traversal.as_ref().map(Part::NatTraversal),
                    Some(Part::Mri(&body.mri)),
                    Some(Part::Session(&body.session)),
                    Some(Part::Nli(&body.nli)),
                    Some(Part::Words(ObjectType::QueryCookie, body.query_cookie)),
                    body.responder
                        .map(|part| Part::Words(ObjectType::ResponderCookie, part.cookie)),
                    stack.map(|stack| Part::Proposal(&stack.proposal)),
                    stack.map(|stack| Part::Configuration(&stack.configuration)),
                    body.nslp_data.map(|data| Part::Words(ObjectType::NslpData, data)),
                ]
            }
            Body::Confirm(body) => {
                let returned = body.returned.as_ref();
                [
                    Some(Part::Mri(&body.mri)),
                    Some(Part::Session(&body.session)),
                    Some(Part::Nli(&body.nli)),
                    returned.map(|part| Part::Words(ObjectType::ResponderCookie, part.cookie)),
                    returned.and_then(|part| part.proposal.as_ref()).map(Part::Proposal),
                    returned.and_then(|part| part.configuration.as_ref()).map(Part::Configuration),
                    body.nslp_data.map(|data| Part::Words(ObjectType::NslpData, data)),
                    none,
                    none,
                ]
            }
            Body::Data(body) => [
                body.nat_traversal.as_ref().map(Part::NatTraversal),
                Some(Part::Mri(&body.mri)),
                Some(Part::Session(&body.session)),
                body.nli.as_ref().map(Part::Nli),
                Some(Part::Words(ObjectType::NslpData, body.nslp_data)),
                none,
                none,
                none,
                none,
            ],
            Body::Error(body) => [
                body.nat_traversal.as_ref().map(Part::NatTraversal),
                body.nli.as_ref().map(Part::Nli),
                Some(Part::Error(&body.error)),
                none,
                none,
                none,
                none,
                none,
                none,
            ],
            Body::Hello(body) => {
                [Some(Part::Hello(body.id)), none, none, none, none, none, none, none, none]
            }
        }
    }
}

/// An object to be written.
#[derive(Clone, Copy)]
enum Part<'p> {
    NatTraversal(&'p NatTraversal<'p>),
    Mri(&'p Mri),
    Session(&'p SessionId),
    Nli(&'p NetworkLayerInformation<'p>),
    Proposal(&'p Profiles<'p>),
    Configuration(&'p StackConfiguration<'p>),
    Error(&'p ErrorObject<'p>),
    Hello(u32),
    /// One without inner form: cookies and data.
    Words(ObjectType, &'p [u8]),
}

impl Part<'_> {
    fn object_type(&self) -> ObjectType {
        match self {
            Part::NatTraversal(_) => ObjectType::NatTraversal,
            Part::Mri(_) => ObjectType::MessageRoutingInformation,
            Part::Session(_) => ObjectType::SessionId,
            Part::Nli(_) => ObjectType::NetworkLayerInformation,
            Part::Proposal(_) => ObjectType::StackProposal,
            Part::Configuration(_) => ObjectType::StackConfigurationData,
            Part::Error(_) => ObjectType::Error,
            Part::Hello(_) => ObjectType::HelloId,
            Part::Words(object_type, _) => *object_type,
        }
    }

    fn value_len(&self) -> usize {
        match self {
            Part::NatTraversal(part) => part.value_len(),
            Part::Mri(part) => part.value_len(),
            Part::Session(_) => SessionId::LEN,
            Part::Nli(part) => part.value_len(),
            Part::Proposal(part) => part.value_len(),
            Part::Configuration(part) => part.value_len(),
            Part::Error(part) => part.value_len(),
            Part::Hello(_) => WORD,
            Part::Words(_, value) => value.len(),
        }
    }

    fn emit(&self, writer: &mut Writer<'_>) -> Result<(), EmitError> {
        let object_type = self.object_type().code();
        if let Part::Words(_, value) = self {
            return put_words(writer, Treatment::Mandatory, object_type, value);
        }
        emit_object(writer, Treatment::Mandatory, object_type, |writer| match self {
            Part::NatTraversal(part) => part.emit(writer),
            Part::Mri(part) => part.emit(writer),
            Part::Session(part) => writer.put(part.0),
            Part::Nli(part) => part.emit(writer),
            Part::Proposal(part) => part.emit(writer),
            Part::Configuration(part) => part.emit(writer),
            Part::Error(part) => part.emit(writer),
            Part::Hello(id) => writer.put(id.to_be_bytes()),
            Part::Words(_, value) => writer.put_slice(value),
        })
    }
}

/// An object whose value is taken as it is: whole words, since nothing inside says where it ends.
fn put_words(
    writer: &mut Writer<'_>,
    treatment: Treatment,
    object_type: u16,
    value: &[u8],
) -> Result<(), EmitError> {
    if !value.len().is_multiple_of(WORD) {
        return Err(EmitError::Contradiction);
    }
    emit_object(writer, treatment, object_type, |writer| writer.put_slice(value))
}

/// An MRI that no Q-mode message may have (RFC 5971 A.3.1.2).
pub(super) fn is_loose_upstream(mri: &Mri) -> bool {
    matches!(mri, Mri::LooseEnd(_)) && mri.direction() == Direction::Upstream
}
