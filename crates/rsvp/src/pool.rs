//! Shared reservations upstream: the request of a pool to each previous hop (RFC 2209, RESV REFRESH).
//!
//! After each change the requests are computed anew and compared with the last ones; only differences are sent. No rule
//! has to know which change causes which message.

mod demands;

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::{InterfaceId, Time};
use earmark_wire::intserv::FlowSpec;
use earmark_wire::rsvp::{
    Body, Carried, FilterSpec, FlowDescriptors, List, Resv, ResvTear, RsvpHop, Style,
};

use crate::api::{Change, Event};
use crate::confirm::ConfirmRequest;
use crate::instance::{HandlerContext, Rsvp};
use crate::marking::{code_points, mark_upstream};
use crate::merge::is_greater;
use crate::refresh::merge_carried;
use crate::refresh_reduction::message_id_key::{MessageIdKey, NamedBlock};
use crate::refresh_reduction::{OutgoingMessage, SendReason};
use crate::state::{
    Block, Dropped, Filter, Holder, Index, Kept, NONE, Peer, SentResv, Timer, TimerKind,
};

/// Limit of filter specs in one message. Requests of one next hop for more senders add up, so the others follow in
/// further messages.
pub(crate) const FILTERS_PER_MESSAGE: usize = 1_024;

/// Options for sending the requests of a pool.
#[derive(Clone, Copy, Debug)]
struct SendOptions<'c> {
    /// Send unchanged requests as well.
    include_unchanged: bool,
    /// Send no ResvTear yet.
    without_tears: bool,
    /// Flowspec that has just failed upstream; requests as large are not repeated at once.
    failed: Option<FlowSpec>,
    /// RESV_CONFIRM of a receiver, to be forwarded.
    confirm: Option<ConfirmRequest>,
    /// Unknown objects that a ResvTear forwards.
    carried: Carried<'c>,
}

impl Default for SendOptions<'_> {
    fn default() -> Self {
        SendOptions {
            include_unchanged: false,
            without_tears: false,
            failed: None,
            confirm: None,
            carried: Carried::NONE,
        }
    }
}

impl Rsvp {
    /// Sends requests that have changed to previous hops.
    pub(crate) fn update_pool_upstream<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pool: Index,
    ) {
        self.send_shared_resvs(cx, pool, SendOptions::default());
    }

    /// Sends requests that have changed because of a ResvTear, and forwards its unknown objects.
    pub(crate) fn update_pool_upstream_after_tear<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pool: Index,
        carried: Carried<'_>,
    ) {
        self.send_shared_resvs(cx, pool, SendOptions { carried, ..SendOptions::default() });
    }

    /// Sends requests that have changed, but no ResvTear.
    pub(crate) fn update_pool_upstream_without_tears<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pool: Index,
    ) {
        self.send_shared_resvs(
            cx,
            pool,
            SendOptions { without_tears: true, ..SendOptions::default() },
        );
    }

    /// Sends requests that have changed and forwards RESV_CONFIRM of a receiver. Returns whether it was forwarded to
    /// any previous hop; if others request more, this node confirms instead.
    pub(crate) fn update_pool_upstream_with_confirm<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pool: Index,
        confirm_request: Option<ConfirmRequest>,
    ) -> bool {
        self.send_shared_resvs(
            cx,
            pool,
            SendOptions { confirm: confirm_request, ..SendOptions::default() },
        )
    }

    /// Sends requests that have changed after a failure upstream, but only those smaller than what failed: a request as
    /// large would fail again at once.
    pub(crate) fn update_pool_upstream_after_failure<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pool: Index,
        failed: Option<FlowSpec>,
    ) {
        self.send_shared_resvs(cx, pool, SendOptions { failed, ..SendOptions::default() });
    }

    /// Handles the refresh timer of a pool: sends all requests.
    pub(crate) fn pool_due<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pool: Index,
    ) {
        let block = self.store.pool_mut(pool);
        (block.timer, block.refresh_at) = (None, Time::MAX);
        self.send_shared_resvs(
            cx,
            pool,
            SendOptions { include_unchanged: true, ..SendOptions::default() },
        );
    }

    fn send_shared_resvs<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pool: Index,
        options: SendOptions<'_>,
    ) -> bool {
        let mut wanted = self.demands(cx.now, pool);
        let before = core::mem::take(&mut self.store.pool_mut(pool).sent_resvs);
        let mut left = Vec::new();
        let mut confirm_forwarded = false;
        for new in &mut wanted {
            let old = before.iter().find(|old| old.hop == new.hop);
            new.message_id = old.map_or(NONE, |old| old.message_id);
            new.carried = self.merged_objects(pool, &new.filters);
            let confirm_request = options.confirm.filter(|confirm_request| {
                self.is_largest_request_to_hop(cx.now, confirm_request.request, new)
            });
            let would_fail =
                options.failed.is_some_and(|failed| !is_greater(&failed, &new.flowspec));
            // Changed unknown objects wait for the next refresh, but state in summary refreshes has none.
            let others_carried = old.is_some_and(|old| old.carried != new.carried);
            let other_objects = others_carried && new.message_id != NONE;
            let changed = other_objects
                || confirm_request.is_some()
                || !old.is_some_and(|old| old.is_same(new));
            let again =
                options.include_unchanged && !self.refresh_reduction.is_listed(new.message_id);
            if (changed || again) && !would_fail {
                let reason = if changed { SendReason::Trigger } else { SendReason::Refresh };
                let confirm = confirm_request.map(|confirm_request| confirm_request.receiver);
                confirm_forwarded |= self.send_shared_resv(cx, pool, new, old, confirm, reason);
            }
        }
        for old in before {
            let new = wanted.iter().find(|new| new.hop == old.hop);
            match new {
                None if options.without_tears => left.push(old),
                None => {
                    self.refresh_reduction.forget(old.message_id);
                    self.send_shared_resv_tear(cx, pool, &old, &old.filters, options.carried);
                }
                Some(new)
                    if !options.without_tears
                        && self.store.pool(pool).style == Style::SharedExplicit =>
                {
                    let gone = |filter: &&FilterSpec| new.filters.binary_search(filter).is_err();
                    let gone: Vec<FilterSpec> = old.filters.iter().filter(gone).copied().collect();
                    if !gone.is_empty() {
                        self.send_shared_resv_tear(cx, pool, &old, &gone, options.carried);
                    }
                }
                Some(_) => {}
            }
        }
        let sent_resvs = wanted.into_iter().chain(left).collect();
        self.store.pool_mut(pool).sent_resvs = sent_resvs;
        self.schedule_pool(cx.now, pool);
        confirm_forwarded
    }

    /// Returns whether a request is larger than all others for one of the senders in a message to a previous hop.
    fn is_largest_request_to_hop(&self, now: Time, request: Index, sent_resv: &SentResv) -> bool {
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
    pub(crate) fn resend_shared_resv<E: From<Event>>(
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
        let (old, mut new) = (sent_resvs[at].clone(), sent_resvs[at].clone());
        self.send_shared_resv(cx, pool, &mut new, Some(&old), confirm, reason);
        self.store.pool_mut(pool).sent_resvs[at].message_id = new.message_id;
        self.schedule_pool(cx.now, pool);
    }

    /// Removes the requests of a pool from summary refreshes, because blockade state may reduce them.
    pub(crate) fn forget_shared_message_ids(&mut self, pool: Index) {
        for sent_resv in &mut self.store.pools[pool as usize].sent_resvs {
            self.refresh_reduction.forget(core::mem::replace(&mut sent_resv.message_id, NONE));
        }
    }

    /// Sends a request to one previous hop, or notifies a sending application. Returns whether RESV_CONFIRM was
    /// forwarded.
    fn send_shared_resv<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pool: Index,
        new: &mut SentResv,
        old: Option<&SentResv>,
        confirm: Option<IpAddr>,
        reason: SendReason,
    ) -> bool {
        let style = self.store.pool(pool).style;
        let session = self.store.session_key(Holder::Pool(pool));
        if let Peer::Local(application) = new.hop {
            if old.is_none_or(|old| (old.flowspec, &old.filters) != (new.flowspec, &new.filters)) {
                for &filter in &new.filters {
                    let flowspec = new.flowspec;
                    let dscp = code_points(self.carried_for(pool, &[filter]));
                    let reach = Box::new(self.reach_of_sender(cx, Holder::Pool(pool), &filter));
                    cx.out.notify(Event::Resv {
                        application,
                        session,
                        filter,
                        style,
                        flowspec,
                        dscp,
                        reach,
                    });
                }
            }
            return false;
        }
        let Some((incoming, hop)) = self.store.neighbor_of(new.hop) else { return false };
        let Some(interface) = cx.context.interfaces.by_id(incoming) else { return false };
        let Some(address) = interface.address_like(hop.address) else { return false };
        let peer = self.refresh_reduction.peer(incoming, hop.address);
        let message_id = self.assign_shared_message_id(cx.now, pool, new, peer, confirm, reason);
        self.scratch.clear();
        self.scratch.extend_from_slice(new.carried.octets());
        mark_upstream(&mut self.scratch, &self.config, cx.context, incoming);
        let carried = &self.scratch;
        for filters in new.filters.chunks(FILTERS_PER_MESSAGE) {
            let resv = Resv {
                session,
                hop: RsvpHop { address, lih: hop.lih },
                refresh_ms: self.config.timing(incoming).refresh_ms(),
                confirm,
                scope: new.scope.as_deref().map(List::Items),
                carried: Carried::Objects(carried),
                flows: shared_flows(style, Some(new.flowspec), filters),
            };
            let how = self.to_neighbor(incoming, address, hop.address);
            let outgoing_message = OutgoingMessage::new(how).to(peer).with_message_id(message_id);
            self.refresh_reduction.send(
                &mut self.counters,
                cx.out,
                outgoing_message,
                &Body::Resv(resv),
            );
            if style == Style::Wildcard {
                break;
            }
        }
        confirm.is_some()
    }

    /// Sends a ResvTear for these senders to one previous hop.
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
        let Some((incoming, hop)) = self.store.neighbor_of(old.hop) else { return };
        let Some(interface) = cx.context.interfaces.by_id(incoming) else { return };
        let Some(address) = interface.address_like(hop.address) else { return };
        for filters in filters.chunks(FILTERS_PER_MESSAGE) {
            let tear = ResvTear {
                session,
                hop: RsvpHop { address, lih: hop.lih },
                scope: old.scope.as_deref().map(List::Items),
                carried,
                flows: shared_flows(style, Some(old.flowspec), filters),
            };
            let how = self.to_neighbor(incoming, address, hop.address);
            let outgoing_message =
                OutgoingMessage::new(how).to(self.refresh_reduction.peer(incoming, hop.address));
            self.send_once(cx, outgoing_message, &Body::ResvTear(tear));
            if style == Style::Wildcard {
                break;
            }
        }
    }

    /// Starts, continues or stops the refresh timer of a pool. Removes a pool without reservations.
    pub(crate) fn schedule_pool(&mut self, now: Time, index: Index) {
        if self.store.pool(index).tcsbs == NONE {
            for sent_resv in core::mem::take(&mut self.store.pool_mut(index).sent_resvs) {
                self.refresh_reduction.forget(sent_resv.message_id);
            }
            return self.store.remove_pool(index);
        }
        let interfaces = self
            .store
            .pool(index)
            .sent_resvs
            .iter()
            .filter(|sent_resv| !self.refresh_reduction.is_listed(sent_resv.message_id))
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

    /// Removes a sender from a traffic-control block of its pool because its data no longer uses that interface.
    /// Traffic control changes once, whatever the number of next hops.
    pub(crate) fn remove_sender_from_tcsb<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        tcsb: Index,
        template: &FilterSpec,
    ) {
        let Holder::Pool(pool) = self.store.tcsb(tcsb).holder else { return };
        if self.store.pool(pool).style == Style::Wildcard {
            let session = self.store.pool(pool).session;
            let outgoing = self.store.tcsb(tcsb).outgoing;
            if self
                .store
                .senders_of(session)
                .any(|psb| self.store.psb(psb).leaves_through(outgoing))
            {
                self.update_traffic_control(cx, tcsb);
            } else {
                self.remove_from_traffic_control(cx, tcsb, Change::Orphaned);
            }
            return;
        }
        let names_it = |filter: &Filter| filter.spec == *template;
        let mut any = false;
        let (mut before, mut next) = (None, self.store.first_rsb(tcsb));
        while let Some(rsb) = next {
            next = self.store.next_rsb(rsb);
            match self.store.rsb_mut(rsb).drop_filters(names_it) {
                Dropped::All => self.remove_request(before, rsb),
                Dropped::Some => {
                    // The next hop may not know, and may list a request that still includes this sender in summary
                    // refreshes.
                    self.store.set_message_id(
                        NamedBlock::new(Block::Reservation, rsb),
                        MessageIdKey::NONE,
                    );
                    before = Some(rsb);
                }
                Dropped::None => {
                    before = Some(rsb);
                    continue;
                }
            }
            any = true;
        }
        if any {
            self.update_after_removal(cx, tcsb, Change::Orphaned);
        }
    }

    /// Updates all traffic control of a pool for its current senders.
    pub(crate) fn update_pool_traffic_control<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pool: Index,
    ) {
        let mut next = self.store.first_tcsb(Holder::Pool(pool));
        while let Some(tcsb) = next {
            next = self.store.next_tcsb(tcsb);
            self.update_traffic_control(cx, tcsb);
        }
    }
}

/// Returns style and flow descriptor of a shared reservation.
pub(crate) fn shared_flows(
    style: Style,
    flowspec: Option<FlowSpec>,
    filters: &[FilterSpec],
) -> FlowDescriptors<'_> {
    match style {
        Style::Wildcard => FlowDescriptors::Wildcard(flowspec),
        _ => FlowDescriptors::SharedExplicit(flowspec, List::Items(filters)),
    }
}
