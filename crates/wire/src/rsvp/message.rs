//! Messages as values that borrow from the parsed octets: the seven of RFC 2205, and later ones.

use core::net::IpAddr;

use super::bundle::Bundle;
use super::diagnostics::Diagnosis;
use super::frame::{Carried, CommonHeader};
use super::hello::HelloMessage;
use super::iana::MessageType;
use super::integrity::{Challenge, Integrity};
use super::leading_objects::LeadingObjects;
use super::list::List;
use super::notify::Notify;
use super::objects::*;
use super::refresh_reduction::{Acknowledgement, MessageId, Srefresh};
use crate::intserv::{FlowSpec, SenderTspec};

/// A whole RSVP message.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Message<'a> {
    /// Flags of the common header, 4 bits, kept as received; [`Message::REFRESH_REDUCTION`] is the only one defined.
    pub flags: u8,
    /// Send_TTL: IP TTL with which the sender sent the message (RFC 2205 section 3.8).
    pub send_ttl: u8,
    /// INTEGRITY, parsed but not verified, if present.
    pub integrity: Option<Integrity<'a>>,
    /// MESSAGE_ID_ACK and MESSAGE_ID_NACK objects, which refer to other messages.
    pub acknowledgements: List<'a, Acknowledgement>,
    /// MESSAGE_ID of this message, if present.
    pub message_id: Option<MessageId>,
    /// Body, by message type.
    pub body: Body<'a>,
}

/// Message bodies by type.
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
    /// Several messages in one (RFC 2961 section 3), without leading objects.
    Bundle(Bundle<'a>),
    /// Only [`Message::acknowledgements`], at least one, and no MESSAGE_ID (RFC 2961 section 4.4).
    Ack,
    Srefresh(Srefresh<'a>),
    Hello(HelloMessage),
    /// Requests a signed message (RFC 2747 section 4.3); unsigned itself.
    IntegrityChallenge(Challenge),
    /// Answers a challenge; signed.
    IntegrityResponse(Challenge),
    /// Query about a session's state (RFC 2745).
    Dreq(Diagnosis<'a>),
    /// Answer to a DREQ, or a part of it.
    Drep(Diagnosis<'a>),
    Notify(Notify<'a>),
    /// The last Path of a restarted neighbor, which it gets back from downstream (RFC 5063 section 4.1).
    RecoveryPath(Path<'a>),
}

/// Sender descriptor of a Path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SenderDescriptor<'a> {
    /// SENDER_TEMPLATE: the packets of the sender.
    pub template: SenderTemplate,
    /// SENDER_TSPEC: their traffic.
    pub tspec: SenderTspec,
    /// Body of the ADSPEC object, checked; see `Adspec::parse`.
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

/// PathTear: removes a sender.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct PathTear<'a> {
    pub session: Session,
    pub hop: RsvpHop,
    pub carried: Carried<'a>,
    pub template: SenderTemplate,
    /// SENDER_TSPEC, which is optional and ignored.
    pub tspec: Option<SenderTspec>,
}

/// PathErr: an error in a Path, on its way to the sender.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct PathErr<'a> {
    pub session: Session,
    pub error: ErrorSpec,
    pub carried: Carried<'a>,
    /// SENDER_TEMPLATE, with SENDER_TSPEC if present.
    pub sender: Option<(SenderTemplate, Option<SenderTspec>)>,
}

/// Resv: requests a reservation, upstream.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct Resv<'a> {
    pub session: Session,
    pub hop: RsvpHop,
    /// Refresh period R, milliseconds.
    pub refresh_ms: u32,
    /// RESV_CONFIRM: receiver that requests a ResvConf.
    pub confirm: Option<IpAddr>,
    /// SCOPE: senders to which a wildcard reservation applies.
    pub scope: Option<List<'a, IpAddr>>,
    pub carried: Carried<'a>,
    pub flows: FlowDescriptors<'a>,
}

/// ResvTear: removes a reservation.
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
    /// Flow descriptors, at most one.
    pub flows: FlowDescriptors<'a>,
}

/// ResvConf: confirms a reservation to the receiver.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub struct ResvConf<'a> {
    pub session: Session,
    pub error: ErrorSpec,
    /// RESV_CONFIRM: receiver that requested the confirmation.
    pub confirm: IpAddr,
    pub carried: Carried<'a>,
    pub flows: FlowDescriptors<'a>,
}

/// STYLE and the flow descriptor list, which depend on each other (RFC 2205 section 3.1.4).
///
/// In Resv and ResvConf every flow has a flowspec. In ResvTear, where flowspecs have no meaning, and in ResvErr they
/// are optional, and a ResvErr may have no flow descriptor at all.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FlowDescriptors<'a> {
    /// WF: one reservation shared by all senders.
    Wildcard(Option<FlowSpec>),
    /// FF: one reservation for each sender.
    FixedFilter(List<'a, FixedFilterFlow>),
    /// SE: one reservation shared by the listed senders.
    SharedExplicit(Option<FlowSpec>, List<'a, FilterSpec>),
}

/// One flow descriptor of the fixed-filter style.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FixedFilterFlow {
    /// FLOWSPEC, always present in a Resv (one omitted on the wire repeats its predecessor) and optional in a ResvTear.
    /// `None` can therefore be emitted only before the first flow with a flowspec.
    pub flowspec: Option<FlowSpec>,
    /// FILTER_SPEC of the sender.
    pub filter: FilterSpec,
}

impl<'a> Message<'a> {
    /// Creates a message of its leading objects and its body.
    #[inline]
    pub(super) fn assemble(
        header: CommonHeader,
        leading: LeadingObjects<'a>,
        body: Body<'a>,
    ) -> Message<'a> {
        let CommonHeader { flags, send_ttl, .. } = header;
        let LeadingObjects { integrity, acknowledgements, message_id } = leading;
        Message { flags, send_ttl, integrity, acknowledgements, message_id, body }
    }

    /// Flag Refresh-Reduction-Capable: the sender supports all of RFC 2961 (section 2).
    pub const REFRESH_REDUCTION: u8 = 0x01;

    /// Creates a message without flags and leading objects.
    #[inline]
    pub const fn new(send_ttl: u8, body: Body<'a>) -> Message<'a> {
        let acknowledgements = List::EMPTY;
        Message { flags: 0, send_ttl, integrity: None, acknowledgements, message_id: None, body }
    }
}

impl Body<'_> {
    /// Returns the message type.
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
            Body::Notify(_) => MessageType::Notify,
            Body::RecoveryPath(_) => MessageType::RecoveryPath,
        }
    }

    /// Returns the SESSION; `None` for messages that concern none, or several.
    #[inline]
    pub const fn session(&self) -> Option<&Session> {
        Some(match self {
            Body::Path(m) | Body::RecoveryPath(m) => &m.session,
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
            | Body::Notify(_)
            | Body::IntegrityChallenge(_)
            | Body::IntegrityResponse(_) => return None,
        })
    }
}

impl FlowDescriptors<'_> {
    /// Returns the style.
    #[inline]
    pub const fn style(&self) -> Style {
        match self {
            FlowDescriptors::Wildcard(_) => Style::Wildcard,
            FlowDescriptors::FixedFilter(_) => Style::FixedFilter,
            FlowDescriptors::SharedExplicit(..) => Style::SharedExplicit,
        }
    }
}
