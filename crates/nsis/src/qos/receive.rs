//! Where messages and news of GIST come in.

use alloc::vec::Vec;

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::outcome::Translation;
use earmark_core::{HostEvent, Interface, Time};
use earmark_wire::gist::{Mri, SessionId};
use earmark_wire::qos_nslp::iana::{MessageType, ProtocolError, Success, TransientFailure};
use earmark_wire::qos_nslp::{
    Answers, Extra as Objects, GenericFlags, InfoSpec, Message, Outcome, ParseError, RequestIds,
    Reserve, Response,
};

use super::QosNslp;
use super::admission::way_out;
use super::api::Event;
use super::counters::DropReason;
use super::path_extent::ends_near;
use super::reserve::Arrival;
use super::rmf;
use super::send::{Addressing, Saying, said_here};
use super::state::Flags;
use crate::nslp::{
    HandlerContext, MessageHandle, NetworkNotification, Nslp, PeerHandle, Peering, Received,
    SendFailure, SendMessage,
};

impl Nslp for QosNslp {
    fn id(&self) -> u16 {
        self.number_of(false)
    }

    fn serves(&self, nslpid: u16) -> bool {
        nslpid == self.id() || !self.config.inner.is_empty() && nslpid == self.number_of(true)
    }

    fn may_peer(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        query: &Received<'_>,
        _answer: &mut Vec<u8>,
    ) -> Peering {
        let takes_part = match query.mri {
            // Loose ends are none of QoS NSLP's, but whoever tries is told so.
            Mri::LooseEnd(_) => true,
            // Of the next level is what leaves a domain here.
            Mri::PathCoupled(mri) if cx.nslpid != self.id() || self.is_deaggregator(cx, query) => {
                self.ends_the_domain(cx, query.interface, &mri)
            }
            Mri::PathCoupled(mri) => match way_out(cx, &mri) {
                Ok(None) => true,
                Ok(Some(interface)) => {
                    let link = cx.context.interfaces.by_id(interface);
                    link.is_some_and(Interface::takes_part)
                }
                Err(_) => false,
            },
        };
        if takes_part { Peering::Accept } else { Peering::Pass }
    }

    fn receive(&mut self, cx: &mut HandlerContext<'_, '_>, message: &Received<'_>) {
        if message.data.is_empty() {
            return;
        }
        // What was read is large, and is looked at where it is.
        let parsed = Message::parse(message.data);
        mark(Checkpoint::Parse);
        match &parsed {
            Ok(Message::Reserve(reserve)) => {
                self.counters.reserves += 1;
                self.hold_or_treat(cx, message, reserve);
            }
            Ok(Message::Query(query)) => {
                self.counters.queries += 1;
                self.query(cx, message, query);
            }
            Ok(Message::Response(response)) => {
                self.counters.responses += 1;
                self.response(cx, message, response);
            }
            Ok(Message::Notify(notify)) => {
                self.counters.notifies += 1;
                self.notified(cx, message, notify);
            }
            Err(error) => return self.malformed(cx, message, error),
        }
        self.turn_ends(cx);
    }

    fn status(
        &mut self,
        _turn: &mut HandlerContext<'_, '_>,
        _message: MessageHandle,
        _failure: SendFailure,
    ) {
    }

    fn undelivered(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &SendMessage,
        data: &[u8],
        failure: SendFailure,
    ) {
        match Message::parse(data) {
            Ok(Message::Reserve(reserve)) if message.to.is_none() => {
                self.reserve_undelivered(cx, message, &reserve, failure);
            }
            Ok(Message::Query(query)) if failure == SendFailure::NoNextNode => {
                self.query_ends(cx, message, &query);
            }
            Ok(Message::Query(query)) => {
                let way = back(message);
                let info = said_here(cx, None, &way.mri, outcome_of(failure));
                self.turn_down(cx, way, query.rii, info, None);
            }
            // Whoever waits asks again.
            _ => {}
        }
    }

    fn notify(&mut self, cx: &mut HandlerContext<'_, '_>, notification: &NetworkNotification) {
        self.routing_changes(cx, notification);
    }

    fn translated(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        flow: (SessionId, Mri),
        translation: Translation,
    ) {
        self.tell_of_translation(cx, flow, translation);
    }

    fn host_changes(&mut self, cx: &mut HandlerContext<'_, '_>, event: &HostEvent) {
        match event {
            HostEvent::Displaced(displaced) => self.gives_way(cx, displaced),
            HostEvent::TrafficControlRefused { claim, owner, .. } => {
                self.traffic_control_refuses(cx, *claim, *owner);
            }
            // Routes are looked up with each refresh, and GIST tells of other next nodes.
            _ => {}
        }
        self.turn_ends(cx);
    }

    fn expire(&mut self, cx: &mut HandlerContext<'_, '_>) {
        self.timers_expire(cx);
        self.turn_ends(cx);
    }

    fn next_deadline(&self) -> Option<Time> {
        match (self.store.timers.next_deadline(), self.waits.next_deadline()) {
            (Some(sessions), Some(others)) => Some(sessions.min(others)),
            (sessions, others) => sessions.or(others),
        }
    }
}

impl QosNslp {
    fn hold_or_treat(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        reserve: &Reserve<'_>,
    ) {
        if reserve.binding.is_none() {
            return self.treat(cx, message, reserve);
        }
        let (Mri::PathCoupled(mri), Some(peer)) = (message.mri, message.peer) else {
            return self.treat(cx, message, reserve);
        };
        let arrival = Arrival { message, reserve, mri, peer };
        if !self.is_held(cx, &arrival) {
            self.reserve(cx, &arrival);
        }
    }

    /// A RESERVE that waits for no other.
    pub(super) fn treat(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        reserve: &Reserve<'_>,
    ) {
        let Some(peer) = message.peer else {
            return self.ignore(cx, message, DropReason::NoPeer);
        };
        let Mri::PathCoupled(mri) = message.mri else {
            let outcome = Outcome::ProtocolError(ProtocolError::UnknownMri);
            let info = said_here(cx, Some(message.interface), &message.mri, outcome);
            let answers = reserve.rii.map_or(Answers::Rsn(reserve.rsn), Answers::Rii);
            self.counters.refused += 1;
            return self.respond(cx, message, Some(answers), info, None);
        };
        self.reserve(cx, &Arrival { message, reserve, mri, peer });
    }

    /// A message that cannot be read. A request is answered in the words of the protocol (RFC 5974 section 5.2.3).
    #[cold]
    fn malformed(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        error: &ParseError,
    ) {
        self.counters.malform(error.kind.name());
        let (session, interface) = (message.session, message.interface);
        let reason = DropReason::Malformed;
        cx.out.notify(crate::Event::Qos(Event::Dropped { reason, session, interface }));
        let message_type = message.data.first().map(|code| MessageType::from_code(*code));
        let is_answer = matches!(message_type, Some(MessageType::Response | MessageType::Notify));
        if is_answer || message.peer.is_none() {
            return;
        }
        let RequestIds { rii, rsn } = RequestIds::find(message.data);
        let answers = rii.map(Answers::Rii).or(rsn.map(Answers::Rsn));
        let mut room = [0; 4];
        let told = error.info_spec(&mut room);
        let source = said_here(cx, Some(message.interface), &message.mri, told.outcome).source;
        self.respond(cx, message, answers, InfoSpec { source, ..told }, None);
    }

    /// Counts a message that is not acted on, and tells.
    #[cold]
    pub(super) fn ignore(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        reason: DropReason,
    ) {
        self.counters.drop(reason);
        let (session, interface) = (message.session, message.interface);
        cx.out.notify(crate::Event::Qos(Event::Dropped { reason, session, interface }));
    }

    /// Whether a peer may ask for one change more.
    pub(super) fn may_change(&mut self, now: Time, peer: PeerHandle) -> bool {
        // Handles are GIST's, so nobody chooses with whom a peer shares a bucket.
        self.throttle.admits(now, peer.slot.into(), self.config.limits.changes_per_second)
    }

    /// A RESERVE of this node did not get to the next one.
    fn reserve_undelivered(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        sent: &SendMessage,
        reserve: &Reserve<'_>,
        failure: SendFailure,
    ) {
        let Some(index) = self.store.find(sent.session) else { return };
        if failure == SendFailure::TooLarge && !sent.attributes.reliable {
            // Over an association it fits.
            self.store.session_mut(index).attributes.reliable = true;
            let (full, tear, rii) = (reserve.qspec.is_some(), reserve.tear, reserve.rii);
            return self.send_reserve(cx, index, &Saying { full, tear, rii, ..Saying::default() });
        }
        if failure == SendFailure::NoNextNode {
            self.becomes_last(cx, index);
        }
        if self.store.session(index).is_initiator() {
            if failure == SendFailure::NoNextNode {
                self.nobody_is_asked(cx, index);
            }
            // Otherwise it is repeated, or given up in the end.
            return;
        }
        let Some(rii) = reserve.rii else { return };
        let session = self.store.session(index);
        let is_own = session.extra.as_ref().and_then(|extra| extra.request).map(|r| r.rii);
        if failure != SendFailure::NoNextNode {
            if is_own != Some(rii) && !reserve.tear {
                let info = said_here(cx, None, &sent.mri, outcome_of(failure));
                self.turn_down(cx, self.towards_qni(index, None), Some(rii), info, None);
            }
            return;
        }
        if is_own == Some(rii) {
            // The way has changed, and it ends here now.
            let extra = self.store.session_mut(index).extra();
            extra.request = None;
            return self.give_up_old_branch(cx, index);
        }
        let success = match (reserve.tear, session.flags.has(Flags::CONFIRMED)) {
            (true, _) => Success::Teardown,
            (false, true) => Success::Refresh,
            (false, false) => Success::Reservation,
        };
        let qspec = if reserve.tear { None } else { rmf::success(&session.qspec) };
        let way = self.towards_qni(index, None);
        let outcome = Outcome::Success(success);
        let info = said_here(cx, self.store.session(index).interface, &way.mri, outcome);
        let flags = self.flags_of(way.session);
        let flags = GenericFlags { breaks: flags.breaks || !ends_near(cx, &sent.mri), ..flags };
        let (answers, extra) = (Some(Answers::Rii(rii)), Objects::NONE);
        let (summary, qspec) = (None, qspec.as_deref());
        let response = Response { flags, answers, info, summary, qspec, extra };
        self.send(cx, way, &Message::Response(response));
        if reserve.tear {
            self.forget(cx, index);
        }
    }

    /// How messages of a session travel that has come with a message: no worse than that did, so that what its QNI wants
    /// holds for the whole path.
    pub(super) fn attributes_of(&self, message: &Received<'_>) -> crate::nslp::Attributes {
        let (own, theirs) = (self.config.attributes, message.attributes);
        crate::nslp::Attributes {
            reliable: own.reliable || theirs.reliable,
            secure: own.secure || theirs.secure,
        }
    }
}

/// The way back from where a message could not go on.
fn back(sent: &SendMessage) -> Addressing {
    let SendMessage { session, mri, attributes, .. } = *sent;
    Addressing { session, mri: mri.inverted(), to: None, attributes, nslpid: None }
}

/// What a failure of GIST is to a QNI.
fn outcome_of(failure: SendFailure) -> Outcome {
    Outcome::TransientFailure(match failure {
        SendFailure::NoUpstreamState => TransientFailure::NoReversePath,
        SendFailure::NoRoute => TransientFailure::NoPathState,
        _ => TransientFailure::PathTruncated,
    })
}
