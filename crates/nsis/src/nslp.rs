//! The interface between GIST and the signalling applications (RFC 5971 appendix B).
//!
//! | appendix B | here |
//! |---|---|
//! | SendMessage | [`HandlerContext::send`] |
//! | RecvMessage | [`Nslp::receive`]; with Routing-State-Check [`Nslp::may_peer`] |
//! | MessageStatus | [`Nslp::status`], [`Nslp::undelivered`] |
//! | NetworkNotification | [`Nslp::notify`] |
//! | SetStateLifetime | [`HandlerContext::set_state_lifetime`]; [`HandlerContext::forget`] for both directions at once |
//! | InvalidateRoutingState | [`HandlerContext::invalidate_routing_state`] |
//!
//! An application is a value that implements [`Nslp`]. GIST calls it with every event that concerns it, and passes a
//! [`HandlerContext`] for its requests. GIST executes a request as soon as the application returns; all effects exist
//! before the engine has finished the input.

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
    /// Returns the NSLPID of the application (IANA: NSLP Identifiers).
    fn id(&self) -> u16;

    /// Returns whether the application handles messages with this NSLPID. An application with several NSLPIDs overrides
    /// this method, as QoS NSLP does with one NSLPID for each level of aggregation; [`HandlerContext::nslpid`] is the
    /// one that a call is about.
    fn serves(&self, nslpid: u16) -> bool {
        nslpid == self.id()
    }

    /// Decides on a received Query whether this node becomes the peer of its sender, or forwards the Query. `answer` is
    /// empty; octets written there go into the Response, or replace the data of the Query that is forwarded. The
    /// application must keep no state for the Query: its sender has not yet proved its address.
    fn may_peer(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        query: &Received<'_>,
        answer: &mut Vec<u8>,
    ) -> Peering;

    /// Handles a received message. Messages that were sent reliably arrive in order.
    fn receive(&mut self, cx: &mut HandlerContext<'_, '_>, message: &Received<'_>);

    /// Handles the failure to send or to deliver a message that had a [`MessageHandle`].
    fn status(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: MessageHandle,
        failure: SendFailure,
    );

    /// Handles the failure to send or to deliver a message whose data GIST still has; `data` are those passed to
    /// [`HandlerContext::send`]. An application without state can use them to do something else. GIST calls this method
    /// also for messages without a handle.
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

    /// Handles a change of routing state of this application.
    fn notify(&mut self, cx: &mut HandlerContext<'_, '_>, notification: &NetworkNotification);

    /// Handles the translation of addresses of a flow, or of the node that signals for it, on the path (RFC 5971
    /// section 7.2.1), which prevents routing state.
    fn translated(
        &mut self,
        _cx: &mut HandlerContext<'_, '_>,
        _flow: (SessionId, Mri),
        _translation: Translation,
    ) {
    }

    /// Handles a change of the host: routes, interfaces, reservations.
    fn host_changes(&mut self, _cx: &mut HandlerContext<'_, '_>, _event: &HostEvent) {}

    /// Handles the deadline of [`Nslp::next_deadline`]. The work is bounded; the rest is due again at once.
    fn expire(&mut self, _cx: &mut HandlerContext<'_, '_>) {}

    /// Returns when [`Nslp::expire`] is due. O(1).
    fn next_deadline(&self) -> Option<Time> {
        None
    }
}

/// Decision of an application about the sender of a Query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peering {
    /// Become its peer: a Response is sent.
    Accept,
    /// Forward the Query along the path.
    Pass,
}

/// The context of one call of an application: the time, the node, and the receiver of the effects.
pub struct HandlerContext<'t, 'c> {
    /// The time of the call.
    pub now: Time,
    /// The node: routes, interfaces, ledger.
    pub context: &'t mut Context<'c>,
    /// Receiver of all effects except requests to GIST.
    pub out: &'t mut dyn Sink,
    /// NSLPID for which the application is called, and of its requests. An application with several may set another one
    /// of its own.
    pub nslpid: u16,
    pub(crate) requests: &'t mut Requests,
}

impl<'t, 'c> HandlerContext<'t, 'c> {
    /// Creates a context without GIST, for tests and measurements; `requests` receives the requests.
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
    /// Requests to send a message of `length` octets, whole words. The caller fills the returned buffer, which may hold
    /// old octets.
    pub fn send(&mut self, message: SendMessage, length: usize) -> &mut [u8] {
        let octets = &mut self.requests.octets;
        let start = octets.len();
        octets.resize(start + length, 0);
        self.requests.list.push_back((self.nslpid, Request::Send(message, start..start + length)));
        &mut octets[start..]
    }

    /// Removes the last message, because it could not be written.
    pub fn take_back(&mut self) {
        if let Some((_, Request::Send(_, range))) = self.requests.list.back() {
            self.requests.octets.truncate(range.start);
            self.requests.list.pop_back();
        }
    }

    /// Sets how long routing state of the called application is kept; zero releases it.
    pub fn set_state_lifetime(&mut self, mri: Mri, session: SessionId, lifetime: Duration) {
        let request = Request::SetStateLifetime { mri, session, lifetime };
        self.requests.list.push_back((self.nslpid, request));
    }

    /// Releases routing state of the called application, in both directions along the flow.
    pub fn forget(&mut self, mri: Mri, session: SessionId) {
        self.requests.list.push_back((self.nslpid, Request::Forget { mri, session }));
    }

    /// Reports that the next hop of this flow, in the direction of the MRI, may have changed.
    pub fn invalidate_routing_state(&mut self, mri: Mri, status: Validity, urgent: bool) {
        self.requests.list.push_back((self.nslpid, Request::Invalidate { mri, status, urgent }));
    }
}

/// A message that an application sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendMessage {
    /// Name that the application gives the message, if it wants reports of failures.
    pub handle: Option<MessageHandle>,
    /// Session of the message.
    pub session: SessionId,
    /// Flow of the message, and the direction along the flow.
    pub mri: Mri,
    /// Destination peer, whatever the routing state: explicit routing by the SII-Handle.
    pub to: Option<PeerHandle>,
    /// Required transport.
    pub attributes: Attributes,
    /// Time that the message may wait for a peer to be found or for an association to be established.
    pub timeout: Duration,
    /// Limit of GIST nodes that may still handle the message; `None` for the setting.
    pub hops: Option<u8>,
}

/// Required transport of messages (Transfer-Attributes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// Use an association: in order and without loss.
    pub reliable: bool,
    /// Use an encrypted association to an authenticated peer.
    pub secure: bool,
}

/// Name that an application gives a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageHandle(pub u64);

/// A peer and the interface that leads to it, as GIST names them (SII-Handle). Two handles are equal if the peer is the
/// same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PeerHandle {
    /// Slot in GIST's table.
    pub slot: u32,
    /// Number of times that the slot was reused.
    pub generation: u32,
}

/// A received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// Data of the message; may be empty in a Query.
    pub data: &'a [u8],
    /// Session of the message.
    pub session: SessionId,
    /// Flow of the message, and the direction in which the message travels along the flow.
    pub mri: Mri,
    /// Sender; `None` for a Query, and for a message without routing state.
    pub peer: Option<PeerHandle>,
    /// Transport that carried the message.
    pub attributes: Attributes,
    /// Whether the sender has marked the message as explicitly routed.
    pub explicitly_routed: bool,
    /// IP hops from the peer; `None` if unknown. A value above 1 means nodes without GIST in between.
    pub ip_distance: Option<u8>,
    /// Limit of GIST nodes that may still handle the message.
    pub hops: u8,
    /// Incoming interface.
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
    /// There is no route in this direction.
    #[error("no route")]
    NoRoute,
    /// No node on the path has answered: this node is the last one in this direction.
    #[error("no next node found")]
    NoNextNode,
    /// The peer of the handle does not exist any more.
    #[error("no such peer")]
    NoSuchPeer,
    /// The upstream peer is unknown, because no message from it was received.
    #[error("no routing state upstream")]
    NoUpstreamState,
    /// The message exceeds one datagram, and no association was requested for larger ones.
    #[error("too large for a datagram")]
    TooLarge,
    /// There is no association with these attributes, and none could be established.
    #[error("no association of the wanted kind")]
    NoAssociation,
    /// The message waited until its timeout.
    #[error("timed out")]
    TimedOut,
    /// A limit of this node is reached.
    #[error("a limit of this node is reached")]
    Limit,
    /// The peer refused the message.
    #[error("refused by the peer")]
    Refused,
}

/// A change of routing state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkNotification {
    /// Flow, and the direction along the flow.
    pub mri: Mri,
    /// Session of the routing state.
    pub session: SessionId,
    /// Kind of change.
    pub what: Notification,
}

/// Kinds of changes of routing state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notification {
    /// This node is the last one in this direction.
    LastNode,
    /// Routing state is new, may be wrong, or is right again.
    RoutingStatusChange {
        /// The new status.
        status: Validity,
        /// The peer, if the status is good.
        peer: Option<PeerHandle>,
    },
    /// The flow no longer passes this peer.
    RouteDeletion(PeerHandle),
    /// The peer is unreachable; messages may have been lost.
    CommunicationFailure(PeerHandle),
}

/// Validity of routing state (RFC 5971 section 7.1.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Validity {
    /// The state is right.
    Good,
    /// The state may be wrong, and is used until it was checked.
    Tentative,
    /// The state is wrong.
    Bad,
}

/// Receives all effects of applications except requests to GIST: [`earmark_core::Effects`] of any type of event.
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

/// Requests of applications that are not yet executed. Reused for each input, so that nothing is allocated in steady
/// state.
#[derive(Debug, Default)]
pub struct Requests {
    /// The requests, each with the NSLPID of its application.
    pub(crate) list: VecDeque<(u16, Request)>,
    pub(crate) octets: Vec<u8>,
}

impl Requests {
    /// Returns all requests with the NSLPIDs of their applications, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &(u16, Request)> {
        self.list.iter()
    }

    /// Returns the data of a [`Request::Send`].
    pub fn octets(&self, range: &Range<usize>) -> &[u8] {
        self.octets.get(range.clone()).unwrap_or_default()
    }

    /// Removes all requests, and keeps the memory.
    pub fn clear(&mut self) {
        self.list.clear();
        self.octets.clear();
    }
}

/// One request of an application to GIST.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// [`HandlerContext::send`]; the data are this range of [`Requests::octets`].
    Send(SendMessage, Range<usize>),
    /// [`HandlerContext::set_state_lifetime`].
    SetStateLifetime {
        /// Flow, and the direction along the flow.
        mri: Mri,
        /// Session of the routing state.
        session: SessionId,
        /// New lifetime; zero releases the state.
        lifetime: Duration,
    },
    /// [`HandlerContext::forget`].
    Forget {
        /// Flow, and the direction that is released first.
        mri: Mri,
        /// Session of the routing state.
        session: SessionId,
    },
    /// [`HandlerContext::invalidate_routing_state`].
    Invalidate {
        /// Flow, and the direction along the flow.
        mri: Mri,
        /// New validity.
        status: Validity,
        /// Whether to check the route at once.
        urgent: bool,
    },
}
