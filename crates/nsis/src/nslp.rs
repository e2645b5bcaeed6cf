//! What GIST and the signalling applications have of each other: the interface of RFC 5971 appendix B.
//!
//! | appendix B | here |
//! |---|---|
//! | SendMessage | [`Turn::send`] |
//! | RecvMessage | [`Nslp::receive`]; with Routing-State-Check [`Nslp::may_peer`] |
//! | MessageStatus | [`Nslp::status`], [`Nslp::undelivered`] |
//! | NetworkNotification | [`Nslp::notify`] |
//! | SetStateLifetime | [`Turn::set_state_lifetime`]; [`Turn::forget`] for both ways at once |
//! | InvalidateRoutingState | [`Turn::invalidate_routing_state`] |
//!
//! An application is a value that implements [`Nslp`]. It is called with whatever concerns it and acts through the
//! [`Turn`] that it is handed: what it asks of GIST is done as soon as it returns, and all consequences are there before
//! the node's turn ends.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;
use core::time::Duration;

use earmark_core::admission::ClaimId;
use earmark_core::outcome::Translation;
use earmark_core::{Context, Flow, HostEvent, Installation, InterfaceId, Time};
use earmark_wire::gist::{Mri, SessionId};
use serde::{Deserialize, Serialize};

use crate::api::Event;

/// A signalling application.
pub trait Nslp: fmt::Debug {
    /// Its NSLPID (IANA: NSLP Identifiers).
    fn id(&self) -> u16;

    /// Whether messages with this NSLPID are for it. One that has several says so here, as QoS NSLP does with a number for
    /// each level of aggregation; [`Turn::nslpid`] tells which of them a call is about.
    fn serves(&self, nslpid: u16) -> bool {
        nslpid == self.id()
    }

    /// A Query has come: shall there be routing state with whoever sent it, or is it none of this node's? `answer` is
    /// empty; what is written there goes into the Response, or instead of the Query's own data into what is passed on.
    /// Nothing may be kept of the Query: its sender has not proved yet that it is there.
    fn may_peer(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        query: &Received<'_>,
        answer: &mut Vec<u8>,
    ) -> Peering;

    /// A message has come, in its order where it was sent reliably.
    fn receive(&mut self, cx: &mut HandlerContext<'_, '_>, message: &Received<'_>);

    /// A message that had a [`MessageHandle`] could not be sent, or not be delivered.
    fn status(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: MessageHandle,
        failure: SendFailure,
    );

    /// Likewise where GIST still has the message, `data` as they were handed to [`Turn::send`]: so an application that keeps
    /// no state can do something else with it. This is what GIST calls then, also for messages without a handle.
    fn undelivered(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &SendMessage,
        _data: &[u8],
        failure: SendFailure,
    ) {
        if let Some(handle) = message.handle {
            self.status(cx, handle, failure);
        }
    }

    /// Something has happened to routing state of this application.
    fn notify(&mut self, cx: &mut HandlerContext<'_, '_>, notification: &NetworkNotification);

    /// The addresses of a flow, or of the node that signals for it, are translated on the way (RFC 5971 section 7.2.1), so
    /// that no routing state can be made.
    fn translated(
        &mut self,
        _turn: &mut HandlerContext<'_, '_>,
        _flow: (SessionId, Mri),
        _translation: Translation,
    ) {
    }

    /// The host has changed.
    fn host_changes(&mut self, _turn: &mut HandlerContext<'_, '_>, _event: &HostEvent) {}

    /// The time of [`Nslp::next_deadline`] has come; bounded work, the rest is due at once again.
    fn expire(&mut self, _turn: &mut HandlerContext<'_, '_>) {}

    /// When [`Nslp::expire`] is due. O(1).
    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

/// What an application wants to be to whoever has sent a Query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peering {
    /// Its peer: a Response is sent.
    Accept,
    /// Nothing: the Query is passed on along the path.
    Pass,
}

/// The surroundings of one call: when it is, what may be looked at, where consequences go.
pub struct HandlerContext<'t, 'c> {
    /// When it is.
    pub now: Time,
    /// The node: routes, interfaces, ledger.
    pub context: &'t mut Context<'c>,
    /// Where consequences go that are none of GIST's.
    pub out: &'t mut dyn Sink,
    /// Under which NSLPID the application is called, and what it asks for is done; it may set another one of its own.
    pub nslpid: u16,
    pub(crate) requests: &'t mut Requests,
}

impl<'t, 'c> HandlerContext<'t, 'c> {
    /// The surroundings of a call without GIST, as tests and measurements make them; what is asked for is in `requests`.
    pub fn new(
        now: Time,
        context: &'t mut Context<'c>,
        out: &'t mut dyn Sink,
        nslpid: u16,
        requests: &'t mut Requests,
    ) -> HandlerContext<'t, 'c> {
        HandlerContext { now, context, out, nslpid, requests }
    }
}

impl HandlerContext<'_, '_> {
    /// Has GIST send a message of `length` octets, whole words; the caller fills the room, which may hold old octets.
    pub fn send(&mut self, message: SendMessage, length: usize) -> &mut [u8] {
        let octets = &mut self.requests.octets;
        let start = octets.len();
        octets.resize(start + length, 0);
        self.requests.list.push_back((self.nslpid, Request::Send(message, start..start + length)));
        &mut octets[start..]
    }

    /// Takes the last message back: it could not be written after all.
    pub fn take_back(&mut self) {
        if let Some((_, Request::Send(_, range))) = self.requests.list.back() {
            self.requests.octets.truncate(range.start);
            self.requests.list.pop_back();
        }
    }

    /// Says how long routing state of the application that is called shall be kept; zero: it is not needed any more.
    pub fn set_state_lifetime(&mut self, mri: Mri, session: SessionId, lifetime: Duration) {
        let request = Request::SetStateLifetime { mri, session, lifetime };
        self.requests.list.push_back((self.nslpid, request));
    }

    /// Says that routing state of the application that is called is not needed any more, either way along the flow.
    pub fn forget(&mut self, mri: Mri, session: SessionId) {
        self.requests.list.push_back((self.nslpid, Request::Forget { mri, session }));
    }

    /// Says that the next hop of this flow, in the MRI's direction, may be another one by now.
    pub fn invalidate_routing_state(&mut self, mri: Mri, status: Validity, urgent: bool) {
        self.requests.list.push_back((self.nslpid, Request::Invalidate { mri, status, urgent }));
    }
}

/// What an application wants sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendMessage {
    /// How the application calls it, if it wants to hear of a failure.
    pub handle: Option<MessageHandle>,
    /// Which session.
    pub session: SessionId,
    /// Which flow, and which way along it.
    pub mri: Mri,
    /// To this peer, on the path or not, whatever the routing state says: explicit routing by the SII-Handle.
    pub to: Option<PeerHandle>,
    /// How.
    pub attributes: Attributes,
    /// How long it may wait for a peer to be found or an association to stand.
    pub timeout: Duration,
    /// By how many nodes with GIST it may still be handled; `None` for the setting.
    pub hops: Option<u8>,
}

/// How messages travel (Transfer-Attributes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// Over an association, in order and without loss.
    pub reliable: bool,
    /// Over an association whose peer has proved who it is, and that nobody can read.
    pub secure: bool,
}

/// How an application calls a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageHandle(pub u64);

/// A peer and the interface it is behind, by a name of GIST's (SII-Handle). Two are equal where the peer is the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PeerHandle {
    /// Place in GIST's table.
    pub slot: u32,
    /// How often the place was given to another.
    pub generation: u32,
}

/// A message that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// The message; may be empty in a Query.
    pub data: &'a [u8],
    /// Which session.
    pub session: SessionId,
    /// Which flow, and which way along it the message goes.
    pub mri: Mri,
    /// Who sent it; `None` for a Query, and for a message without routing state.
    pub peer: Option<PeerHandle>,
    /// How it came.
    pub attributes: Attributes,
    /// Its sender says that it did not follow the path.
    pub explicitly_routed: bool,
    /// IP hops from the peer; `None` where they are not known. More than 1: nodes without GIST are between.
    pub ip_distance: Option<u8>,
    /// By how many nodes with GIST it may still be handled.
    pub hops: u8,
    /// Through which interface.
    pub interface: InterfaceId,
}

/// Why a message was not sent, or not delivered.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    thiserror::Error,
)]
#[serde(rename_all = "snake_case")]
pub enum SendFailure {
    /// There is no route that way.
    #[error("no route")]
    NoRoute,
    /// Nobody on the path has answered: this node is the last one that takes part, in this direction.
    #[error("no next node found")]
    NoNextNode,
    /// The peer of the handle is no more.
    #[error("no such peer")]
    NoSuchPeer,
    /// The way against the flow is only known from messages that have come along it.
    #[error("no routing state upstream")]
    NoUpstreamState,
    /// Too large for one datagram, and the association that larger ones need was not asked for.
    #[error("too large for a datagram")]
    TooLarge,
    /// There is no association with these attributes, and none could be set up.
    #[error("no association of the wanted kind")]
    NoAssociation,
    /// It waited for too long.
    #[error("timed out")]
    TimedOut,
    /// A limit of this node is reached.
    #[error("a limit of this node is reached")]
    Limit,
    /// The peer refused it.
    #[error("refused by the peer")]
    Refused,
}

/// What has happened to routing state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkNotification {
    /// Which flow, and which way along it.
    pub mri: Mri,
    /// Of which session.
    pub session: SessionId,
    /// What.
    pub what: Notification,
}

/// What can happen to routing state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// This node is the last one that takes part, in this direction.
    LastNode,
    /// There is new routing state, or what there is may be wrong, or is right again.
    RoutingStatusChange {
        /// The new status.
        status: Validity,
        /// Where it is good, the peer.
        peer: Option<PeerHandle>,
    },
    /// Packets do not go by this peer any more.
    RouteDeletion(PeerHandle),
    /// The peer is not to be reached; messages may have been lost.
    CommunicationFailure(PeerHandle),
}

/// How much routing state is worth (RFC 5971 section 7.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Validity {
    /// It is right.
    Good,
    /// It may be wrong, and is used while it is looked into.
    Tentative,
    /// It is wrong.
    Bad,
}

/// Where consequences go that are none of GIST's: [`earmark_core::Effects`], whatever their events are.
pub trait Sink {
    /// [`earmark_core::Effects::install`].
    fn install(&mut self, installation: Installation);
    /// [`earmark_core::Effects::add_flow`].
    fn add_flow(&mut self, claim: ClaimId, flow: Flow);
    /// [`earmark_core::Effects::remove_flow`].
    fn remove_flow(&mut self, claim: ClaimId, flow: Flow);
    /// [`earmark_core::Effects::remove`].
    fn remove(&mut self, claim: ClaimId);
    /// [`earmark_core::Effects::notify`].
    fn notify(&mut self, event: Event);
}

impl<E: From<Event>> Sink for earmark_core::Effects<E> {
    fn install(&mut self, installation: Installation) {
        self.install(installation);
    }

    fn add_flow(&mut self, claim: ClaimId, flow: Flow) {
        self.add_flow(claim, flow);
    }

    fn remove_flow(&mut self, claim: ClaimId, flow: Flow) {
        self.remove_flow(claim, flow);
    }

    fn remove(&mut self, claim: ClaimId) {
        self.remove(claim);
    }

    fn notify(&mut self, event: Event) {
        self.notify(event);
    }
}

/// What an application has asked for, until it is done. Kept from turn to turn, so that in steady state nothing is
/// allocated.
#[derive(Debug, Default)]
pub struct Requests {
    /// What is asked for, each under the NSLPID of who asks.
    pub(crate) list: VecDeque<(u16, Request)>,
    pub(crate) octets: Vec<u8>,
}

impl Requests {
    /// All of them with the NSLPIDs of who asks, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &(u16, Request)> {
        self.list.iter()
    }

    /// The data of a [`Request::Send`].
    pub fn octets(&self, range: &Range<usize>) -> &[u8] {
        self.octets.get(range.clone()).unwrap_or_default()
    }

    /// Forgets them all, keeps the room.
    pub fn clear(&mut self) {
        self.list.clear();
        self.octets.clear();
    }
}

/// One thing that an application asks of GIST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// [`Turn::send`]; the data are at this range of [`Requests::octets`].
    Send(SendMessage, Range<usize>),
    /// [`Turn::set_state_lifetime`].
    SetStateLifetime {
        /// Which flow, and which way along it.
        mri: Mri,
        /// Which session.
        session: SessionId,
        /// For how long; zero for no more.
        lifetime: Duration,
    },
    /// [`Turn::forget`].
    Forget {
        /// Which flow, and which way along it goes first.
        mri: Mri,
        /// Which session.
        session: SessionId,
    },
    /// [`Turn::invalidate_routing_state`].
    Invalidate {
        /// Which flow, and which way along it.
        mri: Mri,
        /// What it is worth.
        status: Validity,
        /// Whether to look at once.
        urgent: bool,
    },
}
