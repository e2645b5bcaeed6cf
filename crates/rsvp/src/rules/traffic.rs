//! Traffic control: the merged reservation requests of a sender or pool on a link (RFC 2209, UPDATE TRAFFIC CONTROL),
//! limited to what the senders can use.
//!
//! A change is first computed and admitted by the ledger, without storing anything. Only granted changes are stored in
//! the state blocks, so a refusal leaves nothing to undo.

use earmark_core::Time;
use earmark_core::admission::{ClaimId, Owner};
use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::ErrorCode;
use earmark_wire::rsvp::iana::TrafficControlError;

use crate::api::{Change, Event};
use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::rules::fault::ResvFault;
use crate::rules::merge::least_upper_bound;
use crate::rules::request::{ConfirmRequest, Request};
use crate::rules::upstream::SendOptions;
use crate::state::message_id_key::MessageIdKey;
use crate::state::store::ExistingRequest;
use crate::state::{Block, Holder, Index, NONE, Rsb, Timer, TimerKind};

impl Rsvp {
    /// Creates or changes a reservation completely, or returns the error and changes nothing. Returns the block of the
    /// request.
    pub(crate) fn reserve<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        holder: Holder,
        ExistingRequest { tcsb, rsb }: ExistingRequest,
        mut request: Request,
    ) -> Result<Index, ResvFault> {
        if let (Some(tcsb), None) = (tcsb, rsb)
            && self.store.rsbs_of(tcsb).count() >= self.config.max_next_hops as usize
        {
            return Err(ResvFault::limit_reached());
        }
        // A next hop that takes over the request of a proxy has no older one.
        let would_lose = |rsb: Index| {
            self.would_be_displaced(cx.now, holder, rsb, &request.flowspec)
                && self.store.origin(self.store.rsb(rsb).hop) == request.origin
        };
        if rsb.is_some_and(would_lose) {
            return Err(ResvFault { in_place: true, ..ResvFault::bandwidth_unavailable() });
        }
        let is_core = request.outgoing.is_some_and(|id| cx.context.is_core(id));
        let is_from_access = !is_core && request.outgoing.is_some();
        if is_from_access && self.store.session_key(holder).is_aggregate() {
            return Err(ResvFault::policy_rejected());
        }
        let new = rsb.is_none().then_some(Block::Reservation);
        if new.is_some_and(|block| !self.has_room(cx, request.origin, block)) {
            return Err(ResvFault::limit_reached());
        }
        if !self.admits_change(cx, request.origin, is_core, new) {
            return Err(ResvFault::limit_reached());
        }
        let merged = self.merged(tcsb, rsb, Some(&request.flowspec));
        let merged = merged.filter(|merged| self.is_compatible_with_others(holder, tcsb, merged));
        let merged = merged.ok_or_else(|| {
            let value = TrafficControlError::ServiceConflict.code();
            ResvFault::new(ErrorCode::TrafficControlError, value)
        })?;
        if self.policy.is_some() {
            self.check_request(cx, holder, rsb, &mut request)?;
        }
        let priority = self.priority(tcsb, rsb, Some(&request));
        let before = tcsb.map(|tcsb| self.store.tcsb(tcsb).flowspec);
        let tcsb = match tcsb {
            Some(tcsb) => {
                let new = request.extra.as_deref().map_or(&[][..], |extra| &extra.filters);
                self.change_traffic_control(cx, tcsb, merged, new, priority)?;
                tcsb
            }
            None => self.add_traffic_control(cx, holder, &request, merged, priority)?,
        };
        let receiver = request.confirm;
        let request = self.write_request(cx.now, tcsb, rsb, request);
        let confirm_request = receiver.map(|receiver| ConfirmRequest { receiver, request });
        let other_flows = self.update_filters(cx, tcsb, Some(request));
        if before != Some(merged) || other_flows {
            let change = if before.is_some() { Change::Changed } else { Change::Created };
            self.notify_reservation(cx, tcsb, change);
        }
        mark(Checkpoint::ReservationManagement);
        self.report_reservation(cx, holder, confirm_request);
        Ok(request)
    }

    /// Removes one reservation request, and its traffic-control block if it was the last. The caller updates the
    /// request upstream.
    pub(crate) fn withdraw<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        rsb: Index,
        change: Change,
    ) {
        let tcsb = self.store.rsb(rsb).tcsb;
        self.remove_request(self.store.rsb_before(rsb), rsb);
        self.update_after_removal(cx, tcsb, change);
        mark(Checkpoint::TearRsb);
    }

    /// Updates traffic control after requests, or filters of them, were removed.
    pub(crate) fn update_after_removal<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        tcsb: Index,
        change: Change,
    ) {
        if self.store.first_rsb(tcsb).is_none() {
            self.remove_from_traffic_control(cx, tcsb, change);
        } else {
            self.update_traffic_control(cx, tcsb);
        }
    }

    /// Updates traffic control for the remaining requests, filters and senders. If the change is refused, those
    /// requests get an error and the old reservation stays.
    pub(crate) fn update_traffic_control<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        tcsb: Index,
    ) {
        let before = self.store.tcsb(tcsb).flowspec;
        let merged = self.merged(Some(tcsb), None, None).unwrap_or(before);
        let other_flows = self.update_filters(cx, tcsb, None);
        let priority = self.priority(Some(tcsb), None, None);
        if let Err(fault) = self.change_traffic_control(cx, tcsb, merged, &[], priority) {
            // A lower rate is never refused, but larger packets may be: the request with small packets has ended, and
            // the link cannot admit those of the others. They keep the size that was admitted.
            let smaller = with_packets_of(merged, &before);
            if self.change_traffic_control(cx, tcsb, smaller, &[], priority).is_err() {
                self.report_refusal(cx, tcsb, &ResvFault { in_place: true, ..fault }, None);
                self.retry_increase(cx.now, tcsb);
            }
        }
        if self.store.tcsb(tcsb).flowspec != before || other_flows {
            self.notify_reservation(cx, tcsb, Change::Changed);
        }
    }

    /// Updates all traffic control of a sender or pool.
    pub(crate) fn update_all_traffic_control<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        holder: Holder,
    ) {
        let mut next = self.store.first_tcsb(holder);
        while let Some(tcsb) = next {
            next = self.store.next_tcsb(tcsb);
            self.update_traffic_control(cx, tcsb);
        }
    }

    /// Removes a reservation from traffic control at once, with all requests merged into it.
    pub(crate) fn remove_from_traffic_control<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        tcsb: Index,
        change: Change,
    ) {
        self.notify_reservation(cx, tcsb, change);
        while let Some(rsb) = self.store.first_rsb(tcsb) {
            self.remove_request(None, rsb);
        }
        let tcsb = self.store.remove_tcsb(tcsb);
        if let Some(claim) = tcsb.claim {
            cx.context.ledger.release(claim);
            self.uninstall(cx, claim);
        }
    }

    /// Handles a failure of traffic control for a granted claim: the reservation is void.
    pub(crate) fn traffic_control_refused<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        claim: ClaimId,
        owner: Owner,
        errno: u16,
    ) {
        // With its link every claim is lost by itself, and no longer in the ledger.
        let latest = self.latest_of_class(claim);
        let (claim, owner) = match cx.context.ledger.owner(latest) {
            Some(owner) => (latest, owner),
            None => (claim, owner),
        };
        let Some(tcsb) = self.block_of(claim, owner) else { return };
        let fault = ResvFault::new(ErrorCode::TrafficControlSystemError, errno);
        self.report_refusal(cx, tcsb, &fault, None);
        self.lose_reservation(cx, tcsb, Change::Orphaned);
    }

    /// Returns the block of a claim, if it still exists.
    pub(crate) fn block_of(&self, claim: ClaimId, owner: Owner) -> Option<Index> {
        let block = self.store.tcsbs.get(owner.block as usize)?;
        (owner.protocol == crate::ID && block.claim == Some(claim)).then_some(owner.block)
    }

    /// Removes a reservation with all its requests, and updates the request upstream.
    pub(crate) fn lose_reservation<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        tcsb: Index,
        change: Change,
    ) {
        let block = self.store.tcsb(tcsb);
        let (holder, ended) = (block.holder, Some(block.flowspec));
        self.remove_from_traffic_control(cx, tcsb, change);
        self.send_difference(cx, holder, &SendOptions { ended, ..SendOptions::default() });
    }

    /// Reports to all requests merged into a reservation that it was refused or reduced to `left`.
    pub(crate) fn report_refusal<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        tcsb: Index,
        fault: &ResvFault,
        left: Option<FlowSpec>,
    ) {
        let mut next = self.store.first_rsb(tcsb);
        while let Some(rsb) = next {
            next = self.store.next_rsb(rsb);
            self.report_loss(cx, rsb, fault, left);
        }
    }

    /// Returns whether a merged flowspec can be merged with those of the same senders on other interfaces.
    #[inline]
    fn is_compatible_with_others(
        &self,
        holder: Holder,
        tcsb: Option<Index>,
        merged: &FlowSpec,
    ) -> bool {
        self.store.tcsbs_of(holder).all(|other| {
            Some(other) == tcsb
                || least_upper_bound(merged, &self.store.tcsb(other).flowspec).is_some()
        })
    }

    /// Returns the least upper bound of the requests of a block, with `instead` in place of `rsb`. Returns `None`
    /// without requests, or if they request different services.
    #[inline]
    pub(crate) fn merged(
        &self,
        tcsb: Option<Index>,
        rsb: Option<Index>,
        instead: Option<&FlowSpec>,
    ) -> Option<FlowSpec> {
        let mut merged = instead.copied();
        for other in tcsb.into_iter().flat_map(|tcsb| self.store.rsbs_of(tcsb)) {
            if Some(other) == rsb {
                continue;
            }
            let flowspec = &self.store.rsb(other).flowspec;
            merged = Some(match &merged {
                Some(so_far) => least_upper_bound(so_far, flowspec)?,
                None => *flowspec,
            });
        }
        merged
    }

    /// Stores a granted request in its block, or in a new one, and returns the block.
    fn write_request(
        &mut self,
        now: Time,
        tcsb: Index,
        rsb: Option<Index>,
        request: Request,
    ) -> Index {
        if self.policy.is_some() {
            let before = rsb.and_then(|rsb| self.store.rsb_mut(rsb).extra.take());
            self.update_accounts(before.as_deref(), request.extra.as_deref());
            if let Some(rsb) = rsb {
                self.replace_token(rsb, before.as_deref(), request.extra.as_deref());
            }
        }
        if let Some(index) = rsb {
            let rsb = self.store.rsb_mut(index);
            rsb.flowspec = request.flowspec;
            rsb.extra = request.extra;
            rsb.expires_at = request.expires_at;
            let (timer, peer) = (rsb.timer, rsb.hop);
            if let Some(timer) = timer {
                self.store.timers.rearm(timer, request.expires_at);
            }
            self.store.note_refresh(peer, now);
            return index;
        }
        let hop = self.store.find_or_insert_hop(request.origin, Block::Reservation, now);
        let index = self.store.insert_rsb(Rsb {
            tcsb,
            next: NONE,
            hop,
            flowspec: request.flowspec,
            extra: request.extra,
            expires_at: request.expires_at,
            message_id: MessageIdKey::NONE,
            timer: None,
        });
        if request.expires_at < Time::MAX {
            let timer = Timer { kind: TimerKind::Reservation, block: index };
            let armed = self.store.timers.arm(request.expires_at, timer);
            self.store.rsb_mut(index).timer = Some(armed);
        }
        if self.policy.is_some() {
            self.follow_token(index);
        }
        index
    }

    /// Removes a request only; `before` is the request before it.
    pub(crate) fn remove_request(&mut self, before: Option<Index>, rsb: Index) {
        let gone = self.store.remove_rsb(before, rsb);
        self.store.release_neighbor(gone.hop, Block::Reservation);
        if self.policy.is_some() {
            self.update_accounts(gone.extra.as_deref(), None);
            self.replace_token(rsb, gone.extra.as_deref(), None);
        }
    }

    /// Notifies watchers of a change of a reservation.
    pub(crate) fn notify_reservation<E: From<Event>>(
        &self,
        cx: &mut HandlerContext<'_, '_, E>,
        tcsb: Index,
        change: Change,
    ) {
        let block = self.store.tcsb(tcsb);
        if let Some(interface) = block.outgoing {
            cx.out.notify(Event::Reservation {
                change,
                session: self.store.session_key(block.holder),
                style: self.store.style(block.holder),
                filters: self.filters_in(tcsb),
                interface,
                flowspec: block.flowspec,
                user: self.user_of_block(tcsb),
            });
        }
    }
}

/// Returns `flowspec` with packets no larger than those of `other`.
fn with_packets_of(mut flowspec: FlowSpec, other: &FlowSpec) -> FlowSpec {
    let (FlowSpec::ControlledLoad(other) | FlowSpec::Guaranteed(other, _)) = other;
    let (FlowSpec::ControlledLoad(bucket) | FlowSpec::Guaranteed(bucket, _)) = &mut flowspec;
    bucket.max_packet_size = bucket.max_packet_size.min(other.max_packet_size);
    bucket.min_policed_unit = bucket.min_policed_unit.min(bucket.max_packet_size);
    flowspec
}
