//! The messages as values that borrow from the bytes they were parsed from: the seven of RFC 2205, and those between
//! neighbours that came later.

use core::net::IpAddr;

use super::bundle::Bundle;
use super::diagnostics::Diagnosis;
use super::hello::Hello;
use super::iana::MessageType;
use super::integrity::{Challenge, Integrity};
use super::objects::*;
use super::reduction::{Acknowledgement, MessageId, Srefresh};
use crate::intserv::{FlowSpec, SenderTspec};

/// A whole RSVP message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message<'a> {
    /// Flags of the common header, 4 bits, kept as received; [`Message::REFRESH_REDUCTION`] is the only one defined.
    pub flags: u8,
    /// IP TTL with which the sender sent it (RFC 2205 section 3.8).
    pub send_ttl: u8,
    /// INTEGRITY, read but not verified, if there is one.
    pub integrity: Option<Integrity<'a>>,
    /// MESSAGE_ID_ACK and MESSAGE_ID_NACK objects, which speak of other messages.
    pub acknowledgements: List<'a, Acknowledgement>,
    /// The name of this message, if it has one.
    pub message_id: Option<MessageId>,
    /// What it says.
    pub body: Body<'a>,
}

/// The kinds of message.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Body<'a> {
    Path(Path<'a>),
    Resv(Resv<'a>),
    PathErr(PathErr<'a>),
    ResvErr(ResvErr<'a>),
    PathTear(PathTear<'a>),
    ResvTear(ResvTear<'a>),
    ResvConf(ResvConf<'a>),
    /// Several messages in one (RFC 2961 section 3). Has none of the objects that may stand in front of others.
    Bundle(Bundle<'a>),
    /// Nothing but [`Message::acknowledgements`], at least one, and no MESSAGE_ID (RFC 2961 section 4.4).
    Ack,
    Srefresh(Srefresh<'a>),
    Hello(Hello),
    /// Asks for a signed message (RFC 2747 section 4.3); is not signed itself.
    IntegrityChallenge(Challenge),
    /// Answers a challenge; is signed.
    IntegrityResponse(Challenge),
    /// A question about a session's state (RFC 2745).
    Dreq(Diagnosis<'a>),
    /// The answer, or a part of it.
    Drep(Diagnosis<'a>),
}

/// One object, whole: header and body, a multiple of four octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawObject<'a> {
    /// Offset of the object's header from the start of the RSVP message, octets.
    pub offset: usize,
    /// The octets, header included.
    pub bytes: &'a [u8],
}

/// Objects that a node carries on without understanding them: POLICY_DATA and classes 11bbbbbb
/// (RFC 2205 section 3.10). Two are equal when they yield the same octets in the same order.
#[derive(Clone, Copy, Debug)]
pub enum Carried<'a> {
    /// All objects of a received message; iteration picks the carried ones.
    Wire(&'a [u8]),
    /// Carried objects one after the other, nothing else.
    Objects(&'a [u8]),
}

/// What a Path says of its sender.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderDescriptor<'a> {
    /// Which packets.
    pub template: SenderTemplate,
    /// How many.
    pub tspec: SenderTspec,
    /// What the path offers: the body of the ADSPEC object, checked; see `Adspec::parse`.
    pub adspec: Option<&'a [u8]>,
}

/// Path: announces a sender downstream.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Path<'a> {
    pub session: Session,
    pub hop: RsvpHop,
    /// Refresh period R, milliseconds.
    pub refresh_ms: u32,
    pub carried: Carried<'a>,
    pub sender: SenderDescriptor<'a>,
}

/// PathTear: takes a sender back.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct PathTear<'a> {
    pub session: Session,
    pub hop: RsvpHop,
    pub carried: Carried<'a>,
    pub template: SenderTemplate,
    /// May be there, must be ignored.
    pub tspec: Option<SenderTspec>,
}

/// PathErr: an error in a Path, on its way to the sender.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct PathErr<'a> {
    pub session: Session,
    pub error: ErrorSpec,
    pub carried: Carried<'a>,
    /// The template, and the Tspec where it was in the message.
    pub sender: Option<(SenderTemplate, Option<SenderTspec>)>,
}

/// Resv: asks for a reservation, upstream.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Resv<'a> {
    pub session: Session,
    pub hop: RsvpHop,
    /// Refresh period R, milliseconds.
    pub refresh_ms: u32,
    /// Receiver that wants a ResvConf.
    pub confirm: Option<IpAddr>,
    /// Senders that a wildcard reservation is meant for.
    pub scope: Option<List<'a, IpAddr>>,
    pub carried: Carried<'a>,
    pub flows: FlowDescriptors<'a>,
}

/// ResvTear: gives a reservation back.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct ResvTear<'a> {
    pub session: Session,
    pub hop: RsvpHop,
    pub scope: Option<List<'a, IpAddr>>,
    pub carried: Carried<'a>,
    pub flows: FlowDescriptors<'a>,
}

/// ResvErr: an error in a Resv, on its way to the receivers.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct ResvErr<'a> {
    pub session: Session,
    pub hop: RsvpHop,
    pub error: ErrorSpec,
    pub scope: Option<List<'a, IpAddr>>,
    pub carried: Carried<'a>,
    /// At most one flow descriptor.
    pub flows: FlowDescriptors<'a>,
}

/// ResvConf: tells a receiver that its reservation stands.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct ResvConf<'a> {
    pub session: Session,
    pub error: ErrorSpec,
    /// The receiver that asked.
    pub confirm: IpAddr,
    pub carried: Carried<'a>,
    pub flows: FlowDescriptors<'a>,
}

/// STYLE and the flow descriptor list, which only make sense together (RFC 2205 section 3.1.4).
///
/// In Resv and ResvConf every flow has its flowspec. In ResvTear, where they mean nothing, and in ResvErr they may be
/// missing, and a ResvErr may have no flow descriptor at all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FlowDescriptors<'a> {
    /// WF: one shared pipe for all senders.
    Wildcard(Option<FlowSpec>),
    /// FF: one pipe a sender.
    FixedFilter(List<'a, FixedFilterFlow>),
    /// SE: one shared pipe for the senders listed.
    SharedExplicit(Option<FlowSpec>, List<'a, FilterSpec>),
}

/// One flow descriptor of the fixed-filter style.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FixedFilterFlow {
    /// Always there in a Resv (one omitted on the wire repeats its predecessor); may be missing in a ResvTear. For the
    /// same reason `None` can be emitted only before the first flow that has one.
    pub flowspec: Option<FlowSpec>,
    /// Which sender.
    pub filter: FilterSpec,
}

/// A list inside a message: still on the wire (checked when the message was parsed), or a slice to be emitted.
///
/// Two are equal when they yield the same values in the same order.
#[derive(Clone, Copy)]
pub enum List<'a, T> {
    /// Objects as received, headers included.
    Wire(&'a [u8]),
    /// Values.
    Items(&'a [T]),
}

impl<'a> Message<'a> {
    /// Flag Refresh-Reduction-Capable: the sender understands all of RFC 2961 (section 2).
    pub const REFRESH_REDUCTION: u8 = 0x01;

    /// A plain message: no flags, and nothing in front of its body.
    #[inline]
    pub const fn new(send_ttl: u8, body: Body<'a>) -> Message<'a> {
        let acknowledgements = List::EMPTY;
        Message { flags: 0, send_ttl, integrity: None, acknowledgements, message_id: None, body }
    }
}

impl Body<'_> {
    /// Which of them it is.
    #[inline]
    pub const fn message_type(&self) -> MessageType {
        match self {
            Body::Path(_) => MessageType::Path,
            Body::Resv(_) => MessageType::Resv,
            Body::PathErr(_) => MessageType::PathErr,
            Body::ResvErr(_) => MessageType::ResvErr,
            Body::PathTear(_) => MessageType::PathTear,
            Body::ResvTear(_) => MessageType::ResvTear,
            Body::ResvConf(_) => MessageType::ResvConf,
            Body::Bundle(_) => MessageType::Bundle,
            Body::Ack => MessageType::Ack,
            Body::Srefresh(_) => MessageType::Srefresh,
            Body::Hello(_) => MessageType::Hello,
            Body::IntegrityChallenge(_) => MessageType::IntegrityChallenge,
            Body::IntegrityResponse(_) => MessageType::IntegrityResponse,
            Body::Dreq(_) => MessageType::Dreq,
            Body::Drep(_) => MessageType::Drep,
        }
    }

    /// What it is about; `None` for messages between neighbours that are about no session.
    #[inline]
    pub const fn session(&self) -> Option<&Session> {
        Some(match self {
            Body::Path(m) => &m.session,
            Body::Resv(m) => &m.session,
            Body::PathErr(m) => &m.session,
            Body::ResvErr(m) => &m.session,
            Body::PathTear(m) => &m.session,
            Body::ResvTear(m) => &m.session,
            Body::ResvConf(m) => &m.session,
            Body::Dreq(m) | Body::Drep(m) => &m.session,
            Body::Bundle(_)
            | Body::Ack
            | Body::Srefresh(_)
            | Body::Hello(_)
            | Body::IntegrityChallenge(_)
            | Body::IntegrityResponse(_) => return None,
        })
    }
}

impl FlowDescriptors<'_> {
    /// Its style.
    #[inline]
    pub const fn style(&self) -> Style {
        match self {
            FlowDescriptors::Wildcard(_) => Style::Wildcard,
            FlowDescriptors::FixedFilter(_) => Style::FixedFilter,
            FlowDescriptors::SharedExplicit(..) => Style::SharedExplicit,
        }
    }
}
