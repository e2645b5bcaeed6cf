//! Messages as values (RFC 5971 section 5.1).

use core::fmt;

use serde::Serialize;

use super::continuation::Continuation;
use super::error::{ErrorKind, ParseError};
use super::error_data::ErrorData;
use super::grammar::{KnownObjects, Mode};
use super::header::{HEADER, Header, at};
use super::iana::{MessageType, ObjectType};
use super::mri::{Mri, MriObject};
use super::nat::NatTraversal;
use super::nli::NetworkLayerInformation;
use super::stack::{Profiles, Stack, StackConfiguration};
use crate::nsis::{Object, SessionId, Treatment, objects};
use crate::serialize::{self, Hex};

/// A GIST message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Message<'a> {
    /// GIST hop count: how many more nodes may process the message, destination included.
    pub hops: u8,
    /// NSLPID of the signalling application; 0 in Error and MA-Hello.
    pub nslpid: u16,
    /// S-flag: the IP source address is that of the signalling peer.
    pub source_is_peer: bool,
    /// Body, by message type.
    #[serde(flatten)]
    pub body: Body<'a>,
    /// Unknown objects to be forwarded.
    #[serde(flatten)]
    pub extensions: Extensions<'a>,
}

/// Body of a message. Flags that the message type implies are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Body<'a> {
    /// Discovers the next peer on the path.
    Query(Query<'a>),
    /// Answers a Query.
    Response(Response<'a>),
    /// Confirms a Response.
    Confirm(Confirm<'a>),
    /// Carries a message of a signalling application.
    Data(Data<'a>),
    /// Reports an error in a message.
    Error(Error<'a>),
    /// Keeps an association open.
    Hello(Hello),
}

/// Query: always in Q-mode, and always answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query<'a> {
    /// Changes made by address translators.
    pub nat_traversal: Option<NatTraversal<'a>>,
    /// Message-Routing-Information.
    pub mri: Mri,
    /// Session identifier.
    pub session: SessionId,
    /// Network-Layer-Information of the querying node.
    pub nli: NetworkLayerInformation<'a>,
    /// Query-Cookie, which the Response must return; whole words.
    pub query_cookie: &'a [u8],
    /// Stack proposal and configuration, if an association is requested.
    pub stack: Option<Stack<'a>>,
    /// Data of the signalling application; whole words.
    pub nslp_data: Option<&'a [u8]>,
}

/// Response: answers a Query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response<'a> {
    /// NAT-Traversal of the Query.
    pub nat_traversal: Option<NatTraversal<'a>>,
    /// MRI of the Query in the opposite direction.
    pub mri: Mri,
    /// Session identifier of the Query.
    pub session: SessionId,
    /// Network-Layer-Information of the responding node.
    pub nli: NetworkLayerInformation<'a>,
    /// Query-Cookie of the Query.
    pub query_cookie: &'a [u8],
    /// Responder's part, which the Confirm must return.
    pub responder: Option<ResponderPart<'a>>,
    /// R-flag: a Confirm is requested. Always set if there is a responder's part.
    pub confirm_requested: bool,
    /// Data of the signalling application; whole words.
    pub nslp_data: Option<&'a [u8]>,
}

/// Responder's part of a Response, which the Confirm must return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResponderPart<'a> {
    /// Responder-Cookie; whole words.
    pub cookie: &'a [u8],
    /// Stack proposal and configuration of the responder.
    pub stack: Option<Stack<'a>>,
}

/// Confirm: completes the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Confirm<'a> {
    /// MRI of the Response in the opposite direction.
    pub mri: Mri,
    /// Session identifier of the Response.
    pub session: SessionId,
    /// Network-Layer-Information of the confirming node.
    pub nli: NetworkLayerInformation<'a>,
    /// Returned part of the Response.
    pub returned: Option<Returned<'a>>,
    /// Data of the signalling application; whole words.
    pub nslp_data: Option<&'a [u8]>,
}

/// Part of a Response that the Confirm returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Returned<'a> {
    /// Responder-Cookie; whole words.
    pub cookie: &'a [u8],
    /// Stack-Proposal of the responder, so that the responder can detect modifications.
    pub proposal: Option<Profiles<'a>>,
    /// Stack-Configuration-Data with the hold time of the association, in the first Confirm over it; only beside a
    /// proposal.
    pub configuration: Option<StackConfiguration<'a>>,
}

/// Data: carries a message of a signalling application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// Changes made by address translators.
    pub nat_traversal: Option<NatTraversal<'a>>,
    /// Message-Routing-Information.
    pub mri: Mri,
    /// Session identifier.
    pub session: SessionId,
    /// Network-Layer-Information of the sender: always present in D-mode, never in C-mode.
    pub nli: Option<NetworkLayerInformation<'a>>,
    /// Data of the signalling application; whole words.
    pub nslp_data: &'a [u8],
    /// Continuation of the data; in C-mode only.
    pub continuation: Continuation<'a>,
    /// C-flag: Q-mode; only in D-mode.
    pub context_free: bool,
    /// E-flag: the message was explicitly routed.
    pub explicitly_routed: bool,
}

/// Error: reports an error in a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error<'a> {
    /// NAT-Traversal of the message with the error.
    pub nat_traversal: Option<NatTraversal<'a>>,
    /// Network-Layer-Information of the reporting node; always present in D-mode.
    pub nli: Option<NetworkLayerInformation<'a>>,
    /// GIST-Error-Data.
    pub error: ErrorData<'a>,
}

/// MA-Hello: keeps an association open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Hello-ID; nonzero if a reply is requested.
    pub id: u32,
    /// R-flag: a reply with the same Hello-ID is requested.
    pub reply_requested: bool,
}

/// An unknown object that the sender wants to be forwarded: AB=10 (RFC 5971 A.2.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension<'a> {
    /// Object type, none of the known ones.
    pub object_type: u16,
    /// Value; whole words.
    pub value: &'a [u8],
}

/// Unknown objects of a message that are to be forwarded.
#[derive(Clone, Copy)]
pub enum Extensions<'a> {
    /// All objects of a received message; iteration selects the unknown ones.
    Wire(&'a [u8]),
    /// Objects to be emitted.
    Items(&'a [Extension<'a>]),
}

impl<'a> Extensions<'a> {
    /// No unknown objects.
    pub const NONE: Extensions<'static> = Extensions::Items(&[]);

    /// Iterates over the objects in order.
    #[inline]
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
    /// Parses a whole message, common header included: the rest of a [datagram](super::datagram), or as many octets of
    /// a stream as [`message_len`](super::message_len) returns.
    ///
    /// Unknown objects that may be ignored are skipped.
    ///
    /// # Errors
    /// The first fault found; [`ParseError::error_data`] answers it.
    pub fn parse(octets: &'a [u8], mode: Mode) -> Result<Message<'a>, ParseError> {
        Message::parse_rest(Header::parse(octets)?, octets, mode)
    }

    /// Parses a whole message whose header was parsed before.
    ///
    /// # Errors
    /// The errors of [`parse`](Message::parse).
    pub fn parse_rest(
        header: Header,
        octets: &'a [u8],
        mode: Mode,
    ) -> Result<Message<'a>, ParseError> {
        let mut known = KnownObjects::new(octets);
        known.walk(&header, mode)?;
        let flags = header.flags;
        let extensions = match known.extended {
            true => Extensions::Wire(octets.get(HEADER..).unwrap_or_default()),
            false => Extensions::NONE,
        };
        // Each arm ends in the whole message: a body is large, and is constructed at its final place.
        let message = |body| Message {
            hops: header.hops,
            nslpid: header.nslpid,
            source_is_peer: flags.source_is_peer,
            body,
            extensions,
        };
        match header.message_type {
            MessageType::Query => Ok(message(Body::Query(Query::parse(&known)?))),
            MessageType::Response => Ok(message(Body::Response(Response::parse(&known, flags)?))),
            MessageType::Confirm => Ok(message(Body::Confirm(Confirm::parse(&known)?))),
            MessageType::Data => Ok(message(Body::Data(Data::parse(&known, flags)?))),
            MessageType::Error => Ok(message(Body::Error(Error::parse(&known)?))),
            MessageType::Hello => Ok(message(Body::Hello(Hello::parse(&known, flags)?))),
            MessageType::Unknown(_) => Err(ParseError::header(ErrorKind::Type, at::TYPE)),
        }
    }
}

serialize_as!(Query<'_>, |it| map! {
    "Message-Routing-Information": MriObject(&it.mri),
    "Session-Identifier": map! { "session": it.session },
    "Network-Layer-Information": it.nli,
    "Query-Cookie": map! { "octets": Hex(it.query_cookie) },
    "Stack-Proposal": it.stack.map(|stack| stack.proposal),
    "Stack-Configuration-Data": it.stack.map(|stack| stack.configuration),
});

serialize_as!(Response<'_>, |it| {
    let stack = it.responder.and_then(|part| part.stack);
    map! {
        "confirm_requested": it.confirm_requested,
        "Message-Routing-Information": MriObject(&it.mri),
        "Session-Identifier": map! { "session": it.session },
        "Network-Layer-Information": it.nli,
        "Query-Cookie": map! { "octets": Hex(it.query_cookie) },
        "Responder-Cookie": it.responder.map(|part| map! { "octets": Hex(part.cookie) }),
        "Stack-Proposal": stack.map(|stack| stack.proposal),
        "Stack-Configuration-Data": stack.map(|stack| stack.configuration),
    }
});

serialize_as!(Confirm<'_>, |it| map! {
    "Message-Routing-Information": MriObject(&it.mri),
    "Session-Identifier": map! { "session": it.session },
    "Network-Layer-Information": it.nli,
    "Responder-Cookie": it.returned.map(|part| map! { "octets": Hex(part.cookie) }),
});

serialize_as!(Data<'_>, |it| map! {
    "context_free": it.context_free,
    "explicitly_routed": it.explicitly_routed,
    "Message-Routing-Information": MriObject(&it.mri),
    "Session-Identifier": map! { "session": it.session },
    "Network-Layer-Information": it.nli,
});

serialize_as!(Error<'_>, |it| map! {
    "Network-Layer-Information": it.nli,
    "Error": it.error,
    "Session-Identifier": it.error.session.map(|session| map! { "session": session }),
    "Message-Routing-Information": it.error.mri.as_ref().map(MriObject),
});

serialize_as!(Hello, |it| map! {
    "reply_requested": it.reply_requested,
    "Hello-ID": map! { "id": it.id },
});

serialize_as!(Extensions<'_>, |it| map! {
    "UNKNOWN": serialize::objects(it.iter().map(|object| {
        map! { "type": object.object_type, "octets": Hex(object.value) }
    })),
});
