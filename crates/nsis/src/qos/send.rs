//! How messages leave: what each of them is made of, and to whom it goes.

use core::time::Duration;

use earmark_core::InterfaceId;
use earmark_wire::gist::{Mri, SessionId};
use earmark_wire::qos_nslp::iana::NSLPID;
use earmark_wire::qos_nslp::{
    Answers, BoundSessions, ErrorSource, Extra as Objects, GenericFlags, InfoSpec, Message,
    MessageBinding, Outcome, Query, Reserve, Response, Rsn, Summary,
};

use super::QosNslp;
use super::counters::DropReason;
use super::state::{Flags, Index};
use crate::nslp::{Attributes, HandlerContext, PeerHandle, Received, SendMessage};

/// What a RESERVE for the next node has besides what the session says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Saying<'a> {
    /// With the QSPEC.
    pub(super) full: bool,
    pub(super) tear: bool,
    pub(super) rii: Option<u32>,
    pub(super) acknowledge: bool,
    pub(super) binding: Option<MessageBinding>,
    pub(super) info: Option<InfoSpec<'a>>,
    pub(super) summary: Option<Summary<'a>>,
    /// Unknown objects that travel on.
    pub(super) objects: Option<Objects<'a>>,
}

/// How a message is addressed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Addressing {
    pub(super) session: SessionId,
    pub(super) mri: Mri,
    pub(super) to: Option<PeerHandle>,
    pub(super) attributes: Attributes,
    /// Under which number; the one that the node is called under where it is none.
    pub(super) nslpid: Option<u16>,
}

impl Addressing {
    /// On along the path, as a message has come.
    pub(super) fn on(message: &Received<'_>) -> Addressing {
        let Received { session, mri, attributes, .. } = *message;
        Addressing { session, mri, to: None, attributes, nslpid: None }
    }
}

/// The two ways from a node along the path of a session.
impl QosNslp {
    /// Towards the QNR; by name, where a peer is given.
    pub(super) fn towards_qnr(&self, index: Index, to: Option<PeerHandle>) -> Addressing {
        let session = self.store.session(index);
        let nslpid = Some(self.number_of(session.flags.has(Flags::IN_AGGREGATE)));
        let (mri, attributes) = (session.towards_qnr(), session.attributes);
        Addressing { session: session.id, mri, to, attributes, nslpid }
    }

    /// Towards the QNI; by name, where a peer is given.
    pub(super) fn towards_qni(&self, index: Index, to: Option<PeerHandle>) -> Addressing {
        let session = self.store.session(index);
        let nslpid = Some(self.number_of(session.flags.has(Flags::FROM_AGGREGATE)));
        let (mri, attributes) = (session.towards_qni(), session.attributes);
        Addressing { session: session.id, mri, to, attributes, nslpid }
    }

    /// The NSLPID of this node's level of aggregation, or of the next one (RFC 5974 section 6.6).
    pub(super) const fn number_of(&self, next_level: bool) -> u16 {
        NSLPID + self.config.level + next_level as u16
    }
}

impl QosNslp {
    /// Tells the next node of a session, in the way of the routing state.
    pub(super) fn send_reserve(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        saying: &Saying<'_>,
    ) {
        let rsn = Rsn { number: self.store.session(index).own_rsn, epoch: self.epoch };
        self.write_reserve(cx, index, self.towards_qnr(index, None), rsn, saying);
    }

    /// Tells a node of a session, wherever it is.
    pub(super) fn write_reserve(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        way: Addressing,
        rsn: Rsn,
        saying: &Saying<'_>,
    ) {
        let session = self.store.session(index);
        let flags = GenericFlags {
            scoping: session.flags.has(Flags::SCOPING),
            proxy: session.flags.has(Flags::PROXY),
            ack_req: saying.acknowledge && saying.rii.is_none(),
            breaks: session.flags.has(Flags::BREAK),
        };
        let (bound, kept) = match &session.extra {
            Some(extra) => (BoundSessions::Items(&extra.bound), Objects::Wire(&extra.kept)),
            None => (BoundSessions::NONE, Objects::NONE),
        };
        let refresh_ms = u32::try_from(self.config.refresh.as_millis()).unwrap_or(u32::MAX);
        let message = Message::Reserve(Reserve {
            flags,
            tear: saying.tear,
            replace: session.flags.has(Flags::REPLACE),
            rsn,
            rii: saying.rii,
            refresh_period: (refresh_ms != DEFAULT_REFRESH_MS).then_some(refresh_ms),
            bound,
            summary: saying.summary,
            binding: saying.binding,
            info: saying.info,
            classifier: session.classifier.filter(|_| saying.full),
            qspec: saying.full.then_some(&session.qspec),
            extra: saying.objects.unwrap_or(kept),
        });
        if write(cx, way, self.config.give_up, &message) {
            self.counters.sent += 1;
        } else {
            self.counters.drop(DropReason::TooLong);
        }
    }

    /// Back to where a message has come from: against its way, and by name where routing state may know another peer.
    pub(super) fn back(&self, message: &Received<'_>) -> Addressing {
        let known = self.store.find(message.session);
        let is_peer = known.is_none_or(|index| self.store.session(index).back == message.peer);
        Addressing {
            session: message.session,
            mri: message.mri.inverted(),
            to: message.peer.filter(|_| !is_peer || message.explicitly_routed),
            attributes: message.attributes,
            nslpid: None,
        }
    }

    /// Answers a message where it has come from.
    pub(super) fn respond(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        answers: Option<Answers>,
        info: InfoSpec<'_>,
        qspec: Option<&[u8]>,
    ) {
        let flags = self.flags_of(message.session);
        let response =
            Response { flags, answers, info, summary: None, qspec, extra: Objects::NONE };
        self.send(cx, self.back(message), &Message::Response(response));
    }

    /// The flags that all messages of a session have.
    pub(super) fn flags_of(&self, session: SessionId) -> GenericFlags {
        let Some(index) = self.store.find(session) else { return GenericFlags::default() };
        let flags = self.store.session(index).flags;
        GenericFlags {
            proxy: flags.has(Flags::PROXY),
            breaks: flags.has(Flags::BREAK),
            ..GenericFlags::default()
        }
    }

    /// Sends a message.
    pub(super) fn send(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        way: Addressing,
        message: &Message<'_>,
    ) {
        if write(cx, way, self.config.give_up, message) {
            self.counters.sent += 1;
        } else {
            self.counters.drop(DropReason::TooLong);
        }
    }

    /// Sends a QUERY on its way.
    pub(super) fn send_query(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        way: Addressing,
        query: Query<'_>,
    ) {
        self.send(cx, way, &Message::Query(query));
    }
}

/// The refresh period where none is said (RFC 5974 section 5.1.2.1).
pub(super) const DEFAULT_REFRESH_MS: u32 = 30_000;

/// Whether the message could be written.
fn write(
    cx: &mut HandlerContext<'_, '_>,
    way: Addressing,
    timeout: Duration,
    message: &Message<'_>,
) -> bool {
    let Addressing { session, mri, to, attributes, nslpid } = way;
    let send = SendMessage { handle: None, session, mri, to, attributes, timeout, hops: None };
    let called = cx.nslpid;
    cx.nslpid = nslpid.unwrap_or(called);
    let room = cx.send(send, message.buffer_len());
    let is_written = message.emit(room).is_ok();
    if !is_written {
        cx.take_back();
    }
    cx.nslpid = called;
    is_written
}

/// An outcome that this node says, by its address on the interface.
pub(super) fn said_here(
    cx: &HandlerContext<'_, '_>,
    interface: Option<InterfaceId>,
    mri: &Mri,
    outcome: Outcome,
) -> InfoSpec<'static> {
    let like = mri.addresses().0;
    let interfaces = cx.context.interfaces;
    let address = interface
        .and_then(|id| interfaces.by_id(id))
        .and_then(|interface| interface.address_like(like))
        .or_else(|| interfaces.iter().find_map(|interface| interface.address_like(like)));
    let source = address.map(|address| match address {
        core::net::IpAddr::V4(address) => ErrorSource::Ipv4(address),
        core::net::IpAddr::V6(address) => ErrorSource::Ipv6(address),
    });
    InfoSpec { source, ..InfoSpec::new(outcome) }
}
