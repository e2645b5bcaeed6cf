//! The requests of a pool to each previous hop (WF, SE).

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::{InterfaceId, Time};
use earmark_wire::rsvp::{Carried, FilterSpec, Style};

use super::SendOptions;
use super::message::{RequestObjects, merge_carried, shared_flows};
use crate::api::Event;
use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::neighbors::refresh_reduction::SendReason;
use crate::rules::marking::code_points;
use crate::rules::request::ConfirmRequest;
use crate::state::{
    FILTERS_PER_MESSAGE, Holder, Index, Kept, NONE, Peer, SentResv, Timer, TimerKind,
};

impl Rsvp {
    /// Sends the requests of a pool that differ from the last ones. Returns whether RESV_CONFIRM was forwarded to any
    /// previous hop.
    pub(super) fn send_shared_difference<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pool: Index,
        options: &SendOptions<'_>,
    ) -> bool {
        let mut wanted = self.demands(cx.now, pool);
        let before = core::mem::take(&mut self.store.pool_mut(pool).sent_resvs);
        let mut is_confirm_forwarded = false;
        for new in &mut wanted {
            let old = before.iter().find(|old| old.hop == new.hop);
            new.message_id = old.map_or(NONE, |old| old.message_id);
            new.carried = self.merged_objects(pool, &new.filters);
            is_confirm_forwarded |= self.send_shared_change(cx, pool, new, old, options);
        }
        for old in &before {
            self.end_shared_request(cx, pool, old, &wanted, options.carried);
        }
        self.store.pool_mut(pool).sent_resvs = wanted;
        self.schedule_pool(cx.now, pool);
        is_confirm_forwarded
    }

    /// Sends a request to one previous hop if it differs from the `old` one, or reports it to a sending application.
    /// Returns whether RESV_CONFIRM was forwarded.
    fn send_shared_change<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pool: Index,
        new: &mut SentResv,
        old: Option<&SentResv>,
        options: &SendOptions<'_>,
    ) -> bool {
        let is_new = !old.is_some_and(|old| old.is_same(new));
        if matches!(new.hop, Peer::Local(_)) {
            if is_new {
                self.notify_sender_of_shared(cx, pool, new);
            }
            return false;
        }
        let confirm = options
            .confirm
            .filter(|confirm| self.is_largest_request_to_hop(cx.now, confirm, new))
            .map(|confirm| confirm.receiver);
        let is_changed = is_new || confirm.is_some();
        let is_due = is_changed
            || options.include_unchanged
                && !self.refresh_reduction.is_listed(new.message_id)
                && !self.withholds_shared_resv(cx.now, pool, new);
        if !is_due || options.would_fail(&new.flowspec) {
            return false;
        }
        let reason = if is_changed { SendReason::Trigger } else { SendReason::Refresh };
        self.send_shared_resv(cx, pool, new, confirm, reason);
        confirm.is_some()
    }

    /// Ends a request that is not wanted any more, in whole or for some senders.
    fn end_shared_request<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pool: Index,
        old: &SentResv,
        wanted: &[SentResv],
        carried: Carried<'_>,
    ) {
        let Some(new) = wanted.iter().find(|new| new.hop == old.hop) else {
            self.refresh_reduction.forget(old.message_id);
            return self.send_shared_resv_tear(cx, pool, old, &old.filters, carried);
        };
        if self.store.pool(pool).style == Style::SharedExplicit {
            let is_gone = |filter: &&FilterSpec| new.filters.binary_search(filter).is_err();
            let gone: Vec<FilterSpec> = old.filters.iter().filter(is_gone).copied().collect();
            if !gone.is_empty() {
                self.send_shared_resv_tear(cx, pool, old, &gone, carried);
            }
        }
    }

    /// Returns whether a request is larger than all others for one of the senders in a message to a previous hop.
    fn is_largest_request_to_hop(
        &self,
        now: Time,
        confirm: &ConfirmRequest,
        sent_resv: &SentResv,
    ) -> bool {
        let request = confirm.request;
        let holder = self.store.tcsb(self.store.rsb(request).tcsb).holder;
        let session = self.store.session_key(holder);
        let failures = self.failures(now, holder, sent_resv.hop);
        sent_resv.filters.iter().any(|template| {
            let sender = self.store.find_sender(&session, template);
            sender.is_some_and(|sender| self.is_largest_request(&failures, request, sender))
        })
    }

    /// Merges the unknown objects of all requests for these senders, which may be those of one of several previous
    /// hops.
    fn merged_objects(&mut self, pool: Index, senders: &[FilterSpec]) -> Kept {
        // Taken out because filling it borrows the engine.
        let mut merged = core::mem::take(&mut self.scratch);
        let limit = self.config.max_kept_octets as usize;
        merge_carried(&mut merged, self.carried_for(pool, senders), limit);
        let kept = Kept::of(Carried::Objects(&merged));
        self.scratch = merged;
        kept
    }

    /// Sends the request of a pool to one previous hop again.
    pub(crate) fn resend_shared_resv<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pool: Index,
        message_id: Index,
        confirm: Option<IpAddr>,
        reason: SendReason,
    ) {
        let sent_resvs = &self.store.pool(pool).sent_resvs;
        let Some(at) = sent_resvs.iter().position(|sent_resv| sent_resv.message_id == message_id)
        else {
            return;
        };
        let mut request = sent_resvs[at].clone();
        self.send_shared_resv(cx, pool, &mut request, confirm, reason);
        self.store.pool_mut(pool).sent_resvs[at].message_id = request.message_id;
        self.schedule_pool(cx.now, pool);
    }

    /// Sends a request to one previous hop.
    fn send_shared_resv<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pool: Index,
        request: &mut SentResv,
        confirm: Option<IpAddr>,
        reason: SendReason,
    ) {
        let Some(previous) = self.previous_hop(cx, request.hop) else { return };
        let peer = previous.message.receiver();
        let message_id =
            self.assign_shared_message_id(cx.now, pool, request, peer, confirm, reason);
        let style = self.store.pool(pool).style;
        let session = self.store.session_key(Holder::Pool(pool));
        self.scratch.clear();
        self.scratch.extend_from_slice(request.carried.octets());
        for filters in chunks(style, &request.filters) {
            let flows = shared_flows(style, Some(request.flowspec), filters);
            let objects = RequestObjects { session, scope: request.scope.as_deref(), flows };
            self.send_resv(cx, &previous, &objects, confirm, message_id);
        }
    }

    /// Sends a ResvTear for these senders to one previous hop, or reports it to a sending application.
    fn send_shared_resv_tear<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pool: Index,
        old: &SentResv,
        filters: &[FilterSpec],
        carried: Carried<'_>,
    ) {
        let style = self.store.pool(pool).style;
        let session = self.store.session_key(Holder::Pool(pool));
        if let Peer::Local(application) = old.hop {
            for &filter in filters {
                cx.out.notify(Event::ResvGone { application, session, filter });
            }
            return;
        }
        let Some(previous) = self.previous_hop(cx, old.hop) else { return };
        for filters in chunks(style, filters) {
            let flows = shared_flows(style, Some(old.flowspec), filters);
            let objects = RequestObjects { session, scope: old.scope.as_deref(), flows };
            self.send_resv_tear(cx, &previous, &objects, carried);
        }
    }

    /// Sends RESV_EVENT to a sending application for each of its senders in a request.
    fn notify_sender_of_shared<E: From<Event>>(
        &self,
        cx: &mut HandlerContext<'_, '_, E>,
        pool: Index,
        request: &SentResv,
    ) {
        let Peer::Local(application) = request.hop else { return };
        let (holder, style) = (Holder::Pool(pool), self.store.pool(pool).style);
        let (session, flowspec) = (self.store.session_key(holder), request.flowspec);
        for &filter in &request.filters {
            let dscp = code_points(self.carried_for(pool, &[filter]));
            let reach = Box::new(self.reach_of_sender(cx, holder, &filter));
            let event = Event::Resv { application, session, filter, style, flowspec, dscp, reach };
            cx.out.notify(event);
        }
    }

    /// Removes the requests of a pool from summary refreshes, because blockade state may reduce them.
    pub(crate) fn forget_shared_message_ids(&mut self, pool: Index) {
        for sent_resv in &mut self.store.pools[pool as usize].sent_resvs {
            self.refresh_reduction.forget(core::mem::replace(&mut sent_resv.message_id, NONE));
        }
    }

    /// Handles the refresh timer of a pool: sends all requests.
    pub(crate) fn pool_due<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pool: Index,
    ) {
        let block = self.store.pool_mut(pool);
        (block.timer, block.refresh_at) = (None, Time::MAX);
        self.refresh_requests(cx, Holder::Pool(pool));
    }

    /// Starts, continues or stops the refresh timer of a pool. Removes a pool without reservations and requests.
    pub(crate) fn schedule_pool(&mut self, now: Time, index: Index) {
        let pool = self.store.pool(index);
        if pool.tcsbs == NONE && pool.sent_resvs.is_empty() {
            return self.store.remove_pool(index);
        }
        let is_unconfirmed = self.unconfirmed_request(Holder::Pool(index)).is_some();
        let is_due = |sent_resv: &&SentResv| {
            is_unconfirmed || !self.refresh_reduction.is_listed(sent_resv.message_id)
        };
        let interfaces = self
            .store
            .pool(index)
            .sent_resvs
            .iter()
            .filter(is_due)
            .filter_map(|sent_resv| Some(self.store.neighbor_of(sent_resv.hop)?.0));
        // The shortest refresh period of all interfaces is used.
        let nearest = interfaces.min_by_key(|&id: &InterfaceId| self.config.timing(id).refresh);
        let at = match nearest {
            None => Time::MAX,
            Some(_) if self.store.pool(index).refresh_at < Time::MAX => return,
            Some(interface) => self.next_refresh(now, interface),
        };
        let pool = &mut self.store.pools[index as usize];
        pool.refresh_at = at;
        match pool.timer {
            Some(timer) => {
                self.store.timers.rearm(timer, at);
            }
            None if at < Time::MAX => {
                let timer = Timer { kind: TimerKind::Pool, block: index };
                pool.timer = Some(self.store.timers.arm(at, timer));
            }
            None => {}
        }
    }

    /// Removes a sender from the recorded requests because it ends or its previous hop changes. The old hop gets no
    /// ResvTear: it has removed the sender, or is no longer concerned.
    pub(crate) fn forget_sent_requests(&mut self, sender: Index) {
        let psb = self.store.psb(sender);
        let (hop, template) = (psb.hop, psb.template);
        let Some(pool) = self.store.pool_of(psb.session) else { return };
        let sent_resvs = &mut self.store.pools[pool as usize].sent_resvs;
        for sent_resv in sent_resvs.iter_mut().filter(|sent_resv| sent_resv.hop == hop) {
            sent_resv.filters.retain(|filter| *filter != template);
            // The hop may keep the sender longer than this node; summary refreshes would keep the reservation alive
            // there.
            self.refresh_reduction.forget(core::mem::replace(&mut sent_resv.message_id, NONE));
        }
        sent_resvs.retain(|sent_resv| !sent_resv.filters.is_empty());
        let gone = !sent_resvs.iter().any(|sent_resv| sent_resv.hop == hop);
        if let (true, Peer::Neighbor { index, .. }) = (gone, hop) {
            self.store.unblock_hop(pool, index);
        }
    }
}

/// Returns the filter specs of a request, message by message; one message without any for WF.
fn chunks(style: Style, filters: &[FilterSpec]) -> impl Iterator<Item = &[FilterSpec]> {
    let messages = if style == Style::Wildcard { 1 } else { usize::MAX };
    filters.chunks(FILTERS_PER_MESSAGE).take(messages)
}
