//! What messages mean (RFC 5971 section 5.1).

use core::fmt;

use super::continuation::Continuation;
use super::error::{ErrorKind, ParseError};
use super::grammar::{Known, Mode};
use super::header::{HEADER, Header, at};
use super::iana::{MessageType, ObjectType};
use super::mri::Mri;
use super::nat::NatTraversal;
use super::nli::NetworkLayerInformation;
use super::report::ErrorObject;
use super::stack::{Profiles, Stack, StackConfiguration};
use crate::nsis::{Object, SessionId, Treatment, objects};

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
    /// What goes on behind it. Only in C-mode.
    pub continuation: Continuation<'a>,
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
    /// Reads a whole message, which begins with the common header: the rest of a [datagram](super::datagram), or what a
    /// stream has in as many octets as [`message_len`](super::message_len) says.
    ///
    /// Objects that are unknown and may be ignored are passed over.
    ///
    /// # Errors
    /// The first thing that is wrong; [`ParseError::answer`] is what to say of it.
    pub fn parse(octets: &'a [u8], mode: Mode) -> Result<Message<'a>, ParseError> {
        Message::parse_rest(Header::parse(octets)?, octets, mode)
    }

    /// Likewise, where the header that `octets` begin with was read before.
    ///
    /// # Errors
    /// As [`parse`](Message::parse).
    pub fn parse_rest(
        header: Header,
        octets: &'a [u8],
        mode: Mode,
    ) -> Result<Message<'a>, ParseError> {
        let mut known = Known::new(octets);
        known.walk(&header, mode)?;
        let flags = header.flags;
        let extensions = match known.extended {
            true => Extensions::Wire(octets.get(HEADER..).unwrap_or_default()),
            false => Extensions::NONE,
        };
        // Each arm ends in the whole message: a body is large, and is written where it stays.
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
