//! Flows that share the reservation of a session: RESERVEs without REPLACE (RFC 5974 sections 3.2.12, 5.1.1 and 5.4.1).
//!
//! A RESERVE of a known session with another flow, or of another peer, adds a flow if REPLACE is not set. A [`Session`]
//! has the flow of the last such RESERVE in its own fields, and the others as [`SharingFlow`]s. Each is known by its MRI
//! and its peer, and has the sequence number under which it was last requested, so that refreshes without QSPEC are
//! accepted for each flow. This node refreshes each flow at its next node. A refresh counts for all flows of its peer. A
//! tear ends the flow of its MRI; the session ends with its last flow.

use core::mem;

use earmark_core::Time;
use earmark_wire::gist::{Mri, PathCoupled};
use earmark_wire::qos_nslp::iana::{Success, TransientFailure};
use earmark_wire::qos_nslp::{Answers, InfoSpec, Outcome, Response, Rsn};

use super::QosNslp;
use super::addressing::Addressing;
use super::admission::Refused;
use super::counters::DropReason;
use super::received_reserve::{Order, ReceivedReserve, order};
use super::send::{ReserveOptions, release_routing_state};
use super::state::{Flags, Index, Session, SharingFlow};
use crate::nslp::{HandlerContext, PeerHandle, Received};

/// Limit of further flows of a session.
const MAX_SHARING_FLOWS: usize = 8;

impl SharingFlow {
    /// Returns the flow that is now in the fields of a session of another node.
    pub(super) fn of(session: &Session) -> Option<SharingFlow> {
        Some(SharingFlow {
            mri: session.mri,
            back: session.back?,
            arrival: session.arrival,
            rsn: session.rsn,
            own_rsn: session.own_rsn,
            lifetime_ms: session.lifetime_ms,
            expires_at: session.expires_at,
        })
    }
}

impl SharingFlow {
    /// Returns whether a peer has requested the flow.
    pub(super) fn is_from(&self, peer: PeerHandle) -> bool {
        self.back == peer
    }
}

impl Session {
    /// Returns the further flows, oldest first.
    pub(super) fn sharing(&self) -> &[SharingFlow] {
        self.extra.as_ref().map_or(&[], |extra| &extra.sharing)
    }

    /// Returns the place of the further flow of a peer.
    fn sharing_place(&self, mri: &PathCoupled, peer: PeerHandle) -> Option<usize> {
        let extra = self.extra.as_ref()?;
        extra.sharing.iter().position(|flow| flow.back == peer && flow.mri == *mri)
    }

    /// Extends the lifetime of all further flows of a peer.
    #[cold]
    pub(super) fn refresh_sharing(&mut self, now: Time, peer: PeerHandle) {
        let Some(extra) = &mut self.extra else { return };
        for flow in extra.sharing.iter_mut().filter(|flow| flow.back == peer) {
            flow.expires_at = now.after_millis(flow.lifetime_ms.into());
        }
    }

    /// Returns whether a peer has a further flow under this sequence number.
    pub(super) fn shares_under(&self, peer: PeerHandle, rsn: Rsn) -> bool {
        self.sharing().iter().any(|flow| flow.back == peer && flow.rsn == rsn)
    }

    /// Returns whether messages with this MRI come from the next node of a further flow.
    pub(super) fn is_towards_qni_of_sharing(&self, mri: &Mri) -> bool {
        self.sharing().iter().any(|flow| Mri::PathCoupled(flow.mri).inverted() == *mri)
    }
}

impl QosNslp {
    /// Handles a RESERVE of a further flow. Returns whether it is done; if not, the RESERVE is about the flow in the fields of
    /// the session, where a further flow may be now.
    #[cold]
    pub(super) fn receive_sharing(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
        index: Index,
    ) -> bool {
        let ReceivedReserve { message, reserve, peer, .. } = *received;
        let session = self.store.session(index);
        let Some(place) = session.sharing_place(&received.mri, peer) else { return false };
        let Some(&flow) = session.sharing().get(place) else { return false };
        if let Err(reason) = session.check_channel(message) {
            self.ignore(cx, message, reason);
            return true;
        }
        // The sequence numbers of a peer count for all its flows.
        let is_current = session.back == Some(peer) && session.rsn == reserve.rsn;
        match order(flow.rsn, reserve.rsn) {
            Order::Older => {
                self.ignore(cx, message, DropReason::OldRsn);
                return true;
            }
            _ if reserve.tear => {
                self.promote(index, place);
                return false;
            }
            Order::Newer if !is_current && reserve.qspec.is_none() => {
                let outcome = Outcome::TransientFailure(TransientFailure::FullQspecRequired);
                self.deny(cx, received, &Refused::of(outcome));
                return true;
            }
            Order::Newer if !is_current => {
                self.promote(index, place);
                return false;
            }
            Order::Same | Order::Newer => {}
        }
        if reserve.rii.is_some() {
            // The response comes from the end of the path of this flow.
            self.promote(index, place);
            self.store.session_mut(index).rsn = reserve.rsn;
            return false;
        }
        if session.flags.has(Flags::REMOVED) {
            self.ignore(cx, message, DropReason::NoReservation);
            return true;
        }
        let lifetime_ms = self.lifetime_for(reserve.refresh_period);
        let session = self.store.session_mut(index);
        session.record_channel(message.origin.channel);
        if let Some(flow) = session.extra().sharing.get_mut(place) {
            flow.lifetime_ms = lifetime_ms;
        }
        self.refresh_flows(cx.now, index, peer);
        self.note_refresh(cx.now, index);
        if let Some(summary) = reserve.summary {
            self.refresh_summary(cx, received, &summary);
        }
        if reserve.flags.ack_req {
            self.acknowledge(cx, received);
        }
        true
    }

    /// Extends the lifetime of all flows of a peer.
    pub(super) fn refresh_flows(&mut self, now: Time, index: Index, peer: PeerHandle) {
        let session = self.store.session_mut(index);
        session.refresh_sharing(now, peer);
        if session.back == Some(peer) {
            session.expires_at = now.after_millis(session.lifetime_ms.into());
        }
    }

    /// Exchanges the flow in the fields of a session and the further flow at `place`.
    fn promote(&mut self, index: Index, place: usize) {
        let session = self.store.session_mut(index);
        let Some(before) = SharingFlow::of(session) else { return };
        let Some(flow) = session.extra().sharing.get_mut(place) else { return };
        let now = mem::replace(flow, before);
        self.set_flow(index, &now);
    }

    /// Moves a further flow into the fields of a session. The sequence number of this node stays: it never falls.
    fn set_flow(&mut self, index: Index, flow: &SharingFlow) {
        let session = self.store.session_mut(index);
        session.mri = flow.mri;
        session.rsn = flow.rsn;
        (session.lifetime_ms, session.expires_at) = (flow.lifetime_ms, flow.expires_at);
        if session.back != Some(flow.back) {
            self.store.set_back(index, flow.back, flow.arrival);
        }
        self.rearm(index);
    }

    /// Adds the former flow of a session, or, with REPLACE, drops all further ones. Returns whether traffic control must
    /// learn of it.
    pub(super) fn keep_or_drop_flows(
        &mut self,
        index: Index,
        former: Option<SharingFlow>,
        replace: bool,
    ) -> bool {
        let session = self.store.session_mut(index);
        let (mri, back) = (session.mri, session.back);
        if replace {
            let had_some = !session.sharing().is_empty();
            if let Some(extra) = &mut session.extra {
                extra.sharing.clear();
                session.trim();
            }
            return had_some;
        }
        if let Some(extra) = &mut session.extra {
            extra.sharing.retain(|flow| flow.mri != mri || Some(flow.back) != back);
            session.trim();
        }
        let Some(former) = former.filter(|flow| flow.mri != mri || Some(flow.back) != back) else {
            return false;
        };
        let sharing = &mut session.extra().sharing;
        let is_full = sharing.len() >= MAX_SHARING_FLOWS;
        if is_full {
            sharing.remove(0);
        }
        sharing.push(former);
        is_full
    }

    /// Handles a tear of the flow in the fields of a session that has others: it ends alone.
    #[cold]
    pub(super) fn tear_flow(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
        index: Index,
    ) {
        self.counters.released += 1;
        if let Some(rii) = received.reserve.rii {
            // The next node has other flows of the session, so the response is not that of its end.
            let info = InfoSpec::new(Outcome::Success(Success::Teardown));
            self.respond(cx, received.message, Some(Answers::Rii(rii)), info, None);
        }
        self.end_flow(cx, index);
    }

    /// Ends the flow in the fields of a session that has others, here and further along its path. The newest of the others
    /// takes its place.
    fn end_flow(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = self.store.session_mut(index);
        let ended = SharingFlow::of(session);
        let next = session.extra.as_mut().and_then(|extra| extra.sharing.pop());
        session.trim();
        let (Some(ended), Some(next)) = (ended, next) else { return };
        self.set_flow(index, &next);
        let session = self.store.session(index);
        let is_kept =
            session.mri == ended.mri || session.sharing().iter().any(|flow| flow.mri == ended.mri);
        if is_kept {
            return;
        }
        self.tear_further(cx, index, &ended);
        self.install(cx, index, true);
        self.follow_route(cx, index);
    }

    /// Handles the tear of a peer in a list of sessions, for a session with further flows: those of the peer end. Returns
    /// whether the session ends with them.
    #[cold]
    pub(super) fn tear_flows_of(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        peer: PeerHandle,
        rsn: Rsn,
    ) -> bool {
        let is_torn =
            |flow: &SharingFlow| flow.is_from(peer) && order(flow.rsn, rsn) != Order::Older;
        while let Some(place) = self.store.session(index).sharing().iter().position(is_torn) {
            self.promote(index, place);
            self.end_flow(cx, index);
        }
        if !SharingFlow::of(self.store.session(index)).as_ref().is_some_and(is_torn) {
            return false;
        }
        if self.store.session(index).sharing().is_empty() {
            return true;
        }
        self.end_flow(cx, index);
        false
    }

    /// Ends the flows that were not refreshed; returns whether any is left.
    pub(super) fn expire_flows(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) -> bool {
        let now = cx.now;
        let overdue = move |flow: &SharingFlow| flow.expires_at <= now;
        while let Some(place) = self.store.session(index).sharing().iter().position(overdue) {
            if self.store.session(index).expires_at <= cx.now
                && self.store.session(index).sharing().iter().all(overdue)
            {
                return false;
            }
            self.promote(index, place);
            self.end_flow(cx, index);
            // The exchange may have left an overdue flow in the fields; the next round ends it, too.
        }
        if self.store.session(index).expires_at > cx.now {
            return true;
        }
        if self.store.session(index).sharing().is_empty() {
            return false;
        }
        self.end_flow(cx, index);
        true
    }

    /// Refreshes the further flows at their next nodes.
    #[cold]
    pub(super) fn refresh_further(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        full: bool,
    ) {
        let mut place = 0;
        while let Some(&flow) = self.store.session(index).sharing().get(place) {
            let session = self.store.session_mut(index);
            let (mri, number) = (session.mri, session.own_rsn);
            // The next node must see the QSPEC under a number that it does not know.
            let full = full || flow.own_rsn != number;
            if let Some(flow) = session.extra().sharing.get_mut(place) {
                flow.own_rsn = number;
            }
            place += 1;
            if flow.mri != mri {
                let options = ReserveOptions { full, ..ReserveOptions::default() };
                self.send_for(cx, index, &flow, &options);
            }
        }
    }

    /// Releases the GIST routing state of the further flows of a session.
    #[cold]
    pub(super) fn release_further(&self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = self.store.session(index);
        let on = self.nslpid_of_level(session.flags.has(Flags::IN_AGGREGATE));
        let back = self.nslpid_of_level(session.flags.has(Flags::FROM_AGGREGATE));
        for flow in session.sharing().iter().filter(|flow| flow.mri != session.mri) {
            release_routing_state(cx, session.id, Mri::PathCoupled(flow.mri), (on, back));
        }
    }

    /// Tears the further flows of a session down at their next nodes.
    #[cold]
    pub(super) fn tear_all_further(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let mut place = 0;
        while let Some(&flow) = self.store.session(index).sharing().get(place) {
            place += 1;
            if flow.mri != self.store.session(index).mri {
                self.tear_further(cx, index, &flow);
            }
        }
    }

    fn tear_further(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index, flow: &SharingFlow) {
        if self.store.session(index).flags.has(Flags::ENDS_HERE) {
            return;
        }
        let options = ReserveOptions { tear: true, ..ReserveOptions::default() };
        self.send_for(cx, index, flow, &options);
    }

    /// Handles the response of the next node of a further flow to a refresh.
    #[cold]
    pub(super) fn receive_response_for(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        response: &Response<'_>,
        index: Index,
    ) {
        let lacks_qspec = Outcome::TransientFailure(TransientFailure::FullQspecRequired);
        let session = self.store.session(index);
        let of_message = |flow: &&SharingFlow| Mri::PathCoupled(flow.mri).inverted() == message.mri;
        let Some(flow) = session.sharing().iter().find(of_message).copied() else { return };
        let has_all = session.flags.has(Flags::REMOVED) || session.flags.has(Flags::ENDS_HERE);
        if response.info.outcome != lacks_qspec || has_all {
            return;
        }
        let options = ReserveOptions { full: true, ..ReserveOptions::default() };
        self.send_for(cx, index, &flow, &options);
    }

    /// Sends a RESERVE for a further flow. The sequence number is that of the session, so that it never falls.
    fn send_for(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        flow: &SharingFlow,
        options: &ReserveOptions<'_>,
    ) {
        let mri = Mri::PathCoupled(flow.mri);
        let addressing = Addressing { mri, ..self.towards_qnr(index, None) };
        let rsn = Rsn { number: self.store.session(index).own_rsn, epoch: self.epoch };
        self.write_reserve(cx, index, addressing, rsn, options);
    }
}
