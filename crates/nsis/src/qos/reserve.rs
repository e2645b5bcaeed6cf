//! RESERVE: creates, refreshes and changes a reservation (RFC 5974 section 5.4.1).
//!
//! The effect on a known session depends on the sending peer and on the sequence number (section 5.3.1): an older one
//! is ignored, the same one refreshes, a newer one changes. Forwarding is in [`forward`](super::forward).

use alloc::vec::Vec;

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Rate, Time};
use earmark_wire::gist::Direction;
use earmark_wire::nsis::Treatment;
use earmark_wire::nsis::iana::SESSION_AUTH;
use earmark_wire::qos_nslp::iana::{
    MessageType, PermanentFailure, ProtocolError, Success, TransientFailure,
};
use earmark_wire::qos_nslp::{ExtraObject, MessageBinding, Outcome, Reserve};

use super::QosNslp;
use super::admission::{AdmissionRequest, Granted, Refused};
use super::api::Change;
use super::counters::DropReason;
use super::flow::{flow_of, is_foreign, outgoing_interface};
use super::limits::may_forward;
use super::received_reserve::{Order, ReceivedReserve, order};
use super::session_auth::{Authorization, keep_auth};
use super::state::{Extra, Flags, Index, NONE, Ring, Session, SharingFlow};
use super::store::VacantEntry;
use crate::auth_object::keep;
use crate::nslp::{HandlerContext, PeerHandle, Received};

impl QosNslp {
    /// Handles a RESERVE.
    pub(super) fn receive_reserve(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
    ) {
        let found = self.store.look_up(received.message.session);
        mark(Checkpoint::FindSession);
        match found {
            Ok(index) => self.receive_known(cx, received, index),
            Err(_) if received.reserve.tear => self.tear_unknown(cx, received),
            Err(place) => self.create_session(cx, received, place),
        }
    }

    fn receive_known(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
        index: Index,
    ) {
        if self.store.session(index).extra.is_some() && self.receive_sharing(cx, received, index) {
            return;
        }
        let ReceivedReserve { message, reserve, mri, peer } = *received;
        if let Err(reason) = self.check_reserve(cx, received, index) {
            return self.ignore(cx, message, reason);
        }
        let session = self.store.session(index);
        if session.direction() != mri.direction {
            let outcome = Outcome::ProtocolError(ProtocolError::WrongDirection);
            return self.deny(cx, received, &Refused::of(outcome));
        }
        let is_same_peer = session.back == Some(peer);
        if session.is_initiator() || !is_same_peer && self.is_stale(cx.now, index, received) {
            if reserve.tear {
                self.accept_former_peer(index, peer);
            }
            return self.ignore(cx, message, DropReason::OtherPeer);
        }
        if reserve.tear {
            return self.tear(cx, received, index);
        }
        match order(session.rsn, reserve.rsn) {
            Order::Older => self.ignore(cx, message, DropReason::OldRsn),
            Order::Same if is_same_peer && session.mri == mri => {
                self.refresh_session(cx, received, index);
            }
            _ if reserve.qspec.is_none() => {
                let outcome = Outcome::TransientFailure(TransientFailure::FullQspecRequired);
                self.deny(cx, received, &Refused::of(outcome));
            }
            _ => self.change_session(cx, received, index),
        }
    }

    /// Returns whether a RESERVE from a peer other than that of the session is outdated: explicitly routed, a tear
    /// (section 5.4.1), or a refresh of a recently replaced peer (section 5.2.5.4). A RESERVE with an RII is never
    /// outdated for that reason: the old route is in use again.
    fn is_stale(&self, now: Time, index: Index, received: &ReceivedReserve<'_>) -> bool {
        let former = self.store.session(index).extra.as_ref().and_then(|extra| extra.former);
        received.reserve.tear
            || received.message.explicitly_routed
            || received.reserve.rii.is_none()
                && former.is_some_and(|former| former.names(received.peer, now))
    }

    /// Accepts new messages from the former peer, which has torn down its state.
    fn accept_former_peer(&mut self, index: Index, peer: PeerHandle) {
        let session = self.store.session_mut(index);
        if let Some(extra) = &mut session.extra {
            extra.former.take_if(|former| former.peer == peer);
            session.trim();
        }
    }

    /// Handles a refresh.
    fn refresh_session(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
        index: Index,
    ) {
        let ReceivedReserve { message, reserve, .. } = *received;
        let breaks = self.has_break(cx, message, reserve);
        let lifetime_ms = self.lifetime_for(reserve.refresh_period);
        let session = self.store.session_mut(index);
        if session.flags.has(Flags::REMOVED) {
            return self.refresh_removed(cx, received, index);
        }
        if session.extra.is_some() {
            session.refresh_sharing(cx.now, received.peer);
        }
        session.record_channel(message.origin.channel);
        session.lifetime_ms = lifetime_ms;
        session.expires_at = cx.now.after_millis(session.lifetime_ms.into());
        if breaks {
            session.flags.set(Flags::BREAK, true);
        }
        self.note_refresh(cx.now, index);
        mark(Checkpoint::Refresh);
        if let Some(summary) = reserve.summary {
            self.refresh_summary(cx, received, &summary);
        }
        if reserve.rii.is_some() {
            self.forward_reserve(cx, received, index, Success::Refresh);
        } else if reserve.flags.ack_req {
            self.acknowledge(cx, received);
        }
        if let Some(MessageBinding::Id(id)) = reserve.binding {
            self.resume_bound(cx, index, id);
        }
    }

    /// Notes that the previous node has refreshed a session, by itself or in a summary.
    #[inline]
    pub(super) fn note_refresh(&mut self, now: Time, index: Index) {
        self.counters.refreshed += 1;
        if self.store.session(index).flags.has(Flags::LEFT) {
            self.return_to_path(now, index);
        }
    }

    /// Refreshes the next node again, because this node is still on the path.
    #[cold]
    fn return_to_path(&mut self, now: Time, index: Index) {
        let session = self.store.session_mut(index);
        session.flags.set(Flags::LEFT, false);
        session.refresh_at = now;
        self.rearm(index);
    }

    /// Handles a refresh of a session without reservation. If it has expired here while the previous node was unreachable, it
    /// is reserved again.
    #[cold]
    fn refresh_removed(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
        index: Index,
    ) {
        if !self.store.session(index).has_begun_tear() {
            return self.ignore(cx, received.message, DropReason::NoReservation);
        }
        if received.reserve.qspec.is_some() {
            return self.change_session(cx, received, index);
        }
        let outcome = Outcome::TransientFailure(TransientFailure::FullQspecRequired);
        self.deny(cx, received, &Refused::of(outcome));
    }

    /// Creates a session.
    #[inline(never)] // a refresh needs fewer registers without it
    fn create_session(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
        place: VacantEntry,
    ) {
        let ReceivedReserve { message, reserve, mri, peer } = *received;
        let block = self.store.next_index();
        let checked = self.check_wanted(received).and_then(|()| self.check_new(cx, received));
        let asked =
            match checked.and_then(|qspec| self.admission_request(cx, received, block, qspec)) {
                Ok(asked) => asked,
                Err(refused) => return self.deny(cx, received, &refused),
            };
        if self.waits_for_growth(cx, received, &asked) {
            return;
        }
        let Granted { claim, rule, qspec } = match self.admit(cx, &asked) {
            Ok(granted) => granted,
            Err(refused) => return self.deny(cx, received, &refused),
        };
        let AdmissionRequest { interface, aggregate, flow, verified, .. } = asked;
        let lifetime_ms = self.lifetime_for(reserve.refresh_period);
        let ends_here = self.ends_here(cx, received);
        let session = Session {
            id: message.session,
            mri,
            back: Some(peer),
            on: None,
            arrival: message.interface,
            rsn: reserve.rsn,
            own_rsn: 0,
            lifetime_ms,
            expires_at: cx.now.after_millis(lifetime_ms.into()),
            refresh_at: Time::MAX,
            timer: None,
            claim,
            interface,
            qspec: qspec.into(),
            ring: Ring { previous: NONE, next: NONE },
            classifier: reserve.classifier,
            rule,
            attributes: self.attributes_of(message),
            flags: Flags::default()
                .with(Flags::ENDS_HERE, ends_here)
                .with(Flags::PROXY, reserve.flags.proxy)
                .with(Flags::REPLACE, reserve.replace)
                .with(Flags::BREAK, self.has_break(cx, message, reserve))
                .with(Flags::IN_AGGREGATE, aggregate.is_some())
                .with(Flags::FROM_AGGREGATE, cx.nslpid == self.nslpid_of_level(true))
                .with(Flags::SECURED, message.origin.channel.is_secured())
                .with(Flags::OVER_ASSOCIATION, message.origin.channel.is_association()),
            extra: None,
        };
        let index = self.store.insert(session, place);
        self.counters.created += 1;
        mark(Checkpoint::CreateSession);
        self.store_objects(index, reserve, aggregate);
        self.set_verified(index, verified);
        self.install_flow(cx, index, flow, false);
        if let Some(demand) = claim.and_then(|claim| cx.context.ledger.demand(claim)) {
            self.report_flow_change(cx, index, Change::Created, demand, flow);
        }
        self.forward_reserve(cx, received, index, Success::Reservation);
        if mri.direction == Direction::Upstream && !ends_here {
            self.learn_upstream_peer(cx, index);
        }
        if let Some(MessageBinding::Id(id)) = reserve.binding {
            self.resume_bound(cx, index, id);
        }
        self.rearm(index);
    }

    /// Changes the reservation, the flow or the peer of a session.
    #[inline(never)] // a refresh needs fewer registers without it
    fn change_session(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
        index: Index,
    ) {
        let ReceivedReserve { message, reserve, mri, peer } = *received;
        if !self.may_change(cx.now, &message.origin) || !may_forward(cx, message) {
            return self.ignore(cx, message, DropReason::TooOften);
        }
        let qspec = reserve.qspec.unwrap_or_default();
        let session = self.store.session(index);
        let (claim, rule, old_interface) = (session.claim, session.rule, session.interface);
        let was_in_aggregate = session.flags.has(Flags::IN_AGGREGATE);
        let asked = self.admission_request(cx, received, index, qspec).map(|asked| {
            let stays =
                asked.interface == old_interface && asked.aggregate.is_some() == was_in_aggregate;
            AdmissionRequest { held: claim.filter(|_| stays), rule, ..asked }
        });
        if asked.as_ref().is_ok_and(|asked| self.waits_for_growth(cx, received, asked)) {
            return;
        }
        let granted = asked.and_then(|asked| {
            let granted = self.admit(cx, &asked)?;
            Ok((asked.interface, asked.aggregate, asked.verified, granted))
        });
        let (interface, aggregate, verified, granted) = match granted {
            Ok(granted) => granted,
            Err(refused) => return self.deny(cx, received, &refused),
        };
        let (breaks, from_aggregate) =
            (self.has_break(cx, message, reserve), cx.nslpid == self.nslpid_of_level(true));
        let lifetime_ms = self.lifetime_for(reserve.refresh_period);
        let has_other_auth = self.differs_in_auth(index, reserve.extra);
        let session = self.store.session_mut(index);
        let moved = claim.filter(|_| granted.claim != claim);
        // The next nodes have released, too, if this one has: they need a number that is new to them.
        let was_torn = session.flags.has(Flags::TORN);
        let has_released = was_torn || session.flags.has(Flags::REMOVED);
        let is_news = has_other_auth
            || has_released
            || *session.qspec != *granted.qspec
            || session.mri != mri;
        let (old_mri, old_peer) = (session.mri, session.back);
        let former = SharingFlow::of(session);
        session.rsn = reserve.rsn;
        session.mri = mri;
        session.classifier = reserve.classifier;
        (session.claim, session.interface, session.rule) = (granted.claim, interface, granted.rule);
        session.qspec = granted.qspec.into();
        session.record_channel(message.origin.channel);
        session.require(message.attributes());
        session.lifetime_ms = lifetime_ms;
        session.expires_at = cx.now.after_millis(session.lifetime_ms.into());
        if was_torn && let Some(extra) = &mut session.extra {
            extra.request = None;
        }
        session.flags.set(Flags::REMOVED | Flags::TORN | Flags::LEFT, false);
        session.flags.set(Flags::REPLACE, reserve.replace);
        session.flags.set(Flags::BREAK, breaks);
        session.flags.set(Flags::IN_AGGREGATE, aggregate.is_some());
        session.flags.set(Flags::FROM_AGGREGATE, from_aggregate);
        if is_news {
            session.own_rsn = session.own_rsn.wrapping_add(1);
            session.flags.set(Flags::CONFIRMED, false);
        }
        if let Some(claim) = moved {
            let held = cx.context.ledger.demand(claim).map_or(Rate::ZERO, |held| held.rate);
            self.policy.account(rule, held, Rate::ZERO);
            cx.context.ledger.release(claim);
            cx.out.remove(claim);
        }
        self.store_objects(index, reserve, aggregate);
        self.set_verified(index, verified);
        if old_mri != mri {
            let ends_here = self.ends_here(cx, received);
            self.store.session_mut(index).flags.set(Flags::ENDS_HERE, ends_here);
            if reserve.replace {
                self.flow_replaced(index, old_mri);
            }
        }
        if old_peer != Some(peer) {
            match reserve.replace {
                true => self.change_previous_peer(cx, index, peer, message.interface),
                // Both peers stay, each with its flow.
                false => self.store.set_back(index, peer, message.interface),
            }
        }
        let others_end = self.keep_or_drop_flows(index, former, reserve.replace);
        let has_other_packets = old_mri != mri || others_end;
        self.install(cx, index, has_other_packets && moved.is_none());
        let change = if moved.is_some() { Change::Moved } else { Change::Changed };
        self.report_claim(cx, index, change);
        if is_news || reserve.rii.is_some() {
            let success = if is_news { Success::Reservation } else { Success::Refresh };
            self.forward_reserve(cx, received, index, success);
        } else if reserve.flags.ack_req {
            self.acknowledge(cx, received);
        }
        if was_torn && mri.direction == Direction::Upstream {
            // Notifications about a session that is torn down are ignored.
            self.learn_upstream_peer(cx, index);
        }
        if let Some(MessageBinding::Id(id)) = reserve.binding {
            self.resume_bound(cx, index, id);
        }
        self.rearm(index);
    }

    /// Returns the request for admission of a RESERVE.
    fn admission_request<'a>(
        &mut self,
        cx: &HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
        block: Index,
        qspec: &'a [u8],
    ) -> Result<AdmissionRequest<'a>, Refused> {
        let ReceivedReserve { message, reserve, mri, .. } = received;
        if qspec.len() > usize::from(self.config.limits.qspec) {
            return Err(Refused::of(Outcome::PermanentFailure(PermanentFailure::System)));
        }
        if reserve.classifier.is_some_and(|classifier| is_foreign(mri, classifier)) {
            return Err(Refused::of(Outcome::ProtocolError(ProtocolError::ErroneousValue)));
        }
        let failure = Outcome::TransientFailure(TransientFailure::ReservationFailure);
        let Some(flow) = flow_of(mri, reserve.classifier) else {
            return Err(Refused::of(failure));
        };
        Self::check_packets(cx, received, &flow)?;
        let interface = match outgoing_interface(cx, mri) {
            // The flows of an aggregate have their own claims beyond the egress.
            Ok(_) if self.is_deaggregator(cx, message) => None,
            Ok(interface) => interface,
            Err(_) => return Err(Refused::of(failure)),
        };
        let aggregate = self.aggregate_of(cx, mri, interface);
        let authorization = Authorization {
            objects: reserve.extra,
            flow: &flow,
            qspec,
            message: MessageType::Reserve,
            arrival: Some(message.interface),
        };
        Ok(AdmissionRequest {
            block,
            flow,
            interface,
            aggregate,
            secure: message.attributes().secure,
            verified: self.authorize(cx, &authorization)?,
            held: None,
            rule: None,
            qspec,
        })
    }

    /// Returns whether a session ends at this node, by its flow or by its scope.
    fn ends_here(&self, cx: &HandlerContext<'_, '_>, received: &ReceivedReserve<'_>) -> bool {
        let ReceivedReserve { message, reserve, .. } = received;
        reserve.flags.scoping
            || self.is_deaggregator(cx, message)
            || reserve.flags.proxy && self.config.proxy
            || self.is_own_end(cx, message)
    }

    /// Stores the bindings of a RESERVE, unknown objects that belong into refreshes, and its SESSION_AUTH.
    fn store_objects(&mut self, index: Index, reserve: &Reserve<'_>, aggregate: Option<usize>) {
        let is_plain = reserve.bound.is_empty() && reserve.extra.is_empty();
        if !is_plain || self.store.session(index).extra.is_some() {
            let bound: Vec<_> = reserve.bound.iter().collect();
            let mut kept = Vec::new();
            let refreshed = |object: &ExtraObject<'_>| {
                object.treatment == Treatment::Refresh && object.object_type != SESSION_AUTH
            };
            for object in reserve.extra.iter().filter(refreshed) {
                keep(&mut kept, Treatment::Refresh, object.object_type, object.value);
            }
            let auth_at = kept.len();
            keep_auth(&mut kept, reserve.extra);
            self.store.unbind(index);
            let extra: &mut Extra = self.store.session_mut(index).extra();
            (extra.bound, extra.kept, extra.auth_at) = (bound, kept, auth_at);
            self.store.bind(index);
            self.store.session_mut(index).trim();
        }
        if let Some(number) = aggregate {
            self.bind_to_aggregate(index, number);
        }
    }

    fn report_claim(&self, cx: &mut HandlerContext<'_, '_>, index: Index, change: Change) {
        let claim = self.store.session(index).claim;
        if let Some(demand) = claim.and_then(|claim| cx.context.ledger.demand(claim)) {
            self.report_change(cx, index, change, demand);
        }
    }

    /// Returns whether routers before this node provide no QoS (section 3.3.5). Messages of the next level have crossed
    /// a domain in an aggregate.
    #[inline]
    fn has_break(
        &self,
        cx: &HandlerContext<'_, '_>,
        message: &Received<'_>,
        reserve: &Reserve<'_>,
    ) -> bool {
        reserve.flags.breaks
            || message.ip_distance.is_some_and(|hops| hops > 1)
                && cx.nslpid == self.nslpid_of_level(false)
    }
}
