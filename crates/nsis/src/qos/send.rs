//! Transmission of messages: their objects and their addressing.

use core::time::Duration;

use earmark_core::InterfaceId;
use earmark_wire::gist::{Mri, SessionId};
use earmark_wire::qos_nslp::iana::NSLPID;
use earmark_wire::qos_nslp::{
    Answers, BoundSessions, ErrorSource, Extra as Objects, GenericFlags, InfoSpec, Message,
    MessageBinding, Outcome, Query, Reserve, Response, Rsn, Summary,
};

use super::QosNslp;
use super::addressing::Addressing;
use super::counters::{Counters, DropReason};
use super::state::{Flags, Index};
use super::timeouts::DEFAULT_REFRESH_MS;
use crate::nslp::{HandlerContext, PeerHandle, Received, SendMessage};

/// Optional parts of a RESERVE for the next node.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ReserveOptions<'a> {
    /// Includes the QSPEC.
    pub(super) full: bool,
    pub(super) tear: bool,
    pub(super) rii: Option<u32>,
    pub(super) acknowledge: bool,
    pub(super) binding: Option<MessageBinding>,
    pub(super) info: Option<InfoSpec<'a>>,
    pub(super) summary: Option<Summary<'a>>,
    /// Unknown objects that are forwarded.
    pub(super) objects: Option<Objects<'a>>,
    /// GIST hop count of a RESERVE that is forwarded.
    pub(super) hops: Option<u8>,
}

/// The two directions along the path of a session.
impl QosNslp {
    /// Addresses the node towards the QNR; with `to`, explicitly routed.
    pub(super) fn towards_qnr(&self, index: Index, to: Option<PeerHandle>) -> Addressing {
        let session = self.store.session(index);
        let nslpid = Some(self.nslpid_of_level(session.flags.has(Flags::IN_AGGREGATE)));
        let (mri, attributes) = (session.towards_qnr(), session.attributes);
        Addressing { session: session.id, mri, to, attributes, nslpid, hops: None }
    }

    /// Addresses the node towards the QNI; with `to`, explicitly routed.
    pub(super) fn towards_qni(&self, index: Index, to: Option<PeerHandle>) -> Addressing {
        let session = self.store.session(index);
        let nslpid = Some(self.nslpid_of_level(session.flags.has(Flags::FROM_AGGREGATE)));
        let (mri, attributes) = (session.towards_qni(), session.attributes);
        Addressing { session: session.id, mri, to, attributes, nslpid, hops: None }
    }

    /// Returns the NSLPID of the aggregation level of this node, or of the next one (RFC 5974 section 6.6).
    pub(super) const fn nslpid_of_level(&self, next_level: bool) -> u16 {
        NSLPID + self.config.level + next_level as u16
    }
}

impl QosNslp {
    /// Sends a RESERVE to the next node, by routing state.
    pub(super) fn send_reserve(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        options: &ReserveOptions<'_>,
    ) {
        let rsn = Rsn { number: self.store.session(index).own_rsn, epoch: self.epoch };
        let addressing = Addressing { hops: options.hops, ..self.towards_qnr(index, None) };
        self.write_reserve(cx, index, addressing, rsn, options);
    }

    /// Sends a RESERVE to any node.
    pub(super) fn write_reserve(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        addressing: Addressing,
        rsn: Rsn,
        options: &ReserveOptions<'_>,
    ) {
        let session = self.store.session(index);
        let flags = GenericFlags {
            scoping: session.flags.has(Flags::SCOPING),
            proxy: session.flags.has(Flags::PROXY),
            ack_req: options.acknowledge && options.rii.is_none(),
            breaks: session.flags.has(Flags::BREAK),
        };
        let (bound, kept) = match &session.extra {
            Some(extra) => {
                let kept = if options.full { &extra.kept } else { extra.kept_in_refreshes() };
                (BoundSessions::Items(&extra.bound), Objects::wire(kept))
            }
            None => (BoundSessions::NONE, Objects::NONE),
        };
        let refresh_ms = u32::try_from(self.config.refresh.as_millis()).unwrap_or(u32::MAX);
        let message = Message::Reserve(Reserve {
            flags,
            tear: options.tear,
            replace: session.flags.has(Flags::REPLACE),
            rsn,
            rii: options.rii,
            refresh_period: (refresh_ms != DEFAULT_REFRESH_MS).then_some(refresh_ms),
            bound,
            summary: options.summary,
            binding: options.binding,
            info: options.info,
            classifier: session.classifier.filter(|_| options.full),
            qspec: options.full.then_some(&session.qspec),
            extra: options.objects.unwrap_or(kept),
        });
        write(cx, &mut self.counters, addressing, self.config.give_up, &message);
    }

    /// Addresses the sender of a message: the opposite direction, and explicitly routed if routing state may have
    /// another peer.
    pub(super) fn back(&self, message: &Received<'_>) -> Addressing {
        let known = self.store.find(message.session);
        let is_peer =
            known.is_none_or(|index| self.store.session(index).back == message.origin.peer);
        Addressing {
            session: message.session,
            mri: message.mri.inverted(),
            to: message.origin.peer.filter(|_| !is_peer || message.explicitly_routed),
            attributes: message.attributes(),
            nslpid: None,
            hops: None,
        }
    }

    /// Sends a RESPONSE to the sender of a message.
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

    /// Returns the flags of all messages of a session.
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
        addressing: Addressing,
        message: &Message<'_>,
    ) {
        write(cx, &mut self.counters, addressing, self.config.give_up, message);
    }

    /// Sends a QUERY.
    pub(super) fn send_query(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        addressing: Addressing,
        query: Query<'_>,
    ) {
        self.send(cx, addressing, &Message::Query(query));
    }
}

/// Writes a message, and counts it, or the reason why it is not sent.
fn write(
    cx: &mut HandlerContext<'_, '_>,
    counters: &mut Counters,
    addressing: Addressing,
    timeout: Duration,
    message: &Message<'_>,
) {
    let Addressing { session, mri, to, attributes, nslpid, hops } = addressing;
    if hops == Some(0) {
        return counters.drop(DropReason::HopLimit);
    }
    let send = SendMessage { handle: None, session, mri, to, attributes, timeout, hops };
    cx.for_nslpid(nslpid, |cx| {
        let room = cx.send(send, message.buffer_len());
        if message.emit(room).is_ok() {
            counters.sent += 1;
        } else {
            counters.drop(DropReason::TooLong);
            cx.take_back();
        }
    });
}

/// Creates the INFO-SPEC of an outcome at this node, with its address on the interface.
pub(super) fn info_here(
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

/// Releases the GIST routing state of a session. Its two directions may be at different levels of aggregation.
pub(super) fn release_routing_state(
    cx: &mut HandlerContext<'_, '_>,
    session: SessionId,
    mri: Mri,
    (on, back): (u16, u16),
) {
    let previous_nslpid = cx.nslpid;
    cx.nslpid = on;
    if on == back {
        cx.forget(mri, session);
    } else {
        cx.set_state_lifetime(mri, session, Duration::ZERO);
        cx.nslpid = back;
        cx.set_state_lifetime(mri.inverted(), session, Duration::ZERO);
    }
    cx.nslpid = previous_nslpid;
}
