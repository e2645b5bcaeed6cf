//! Path and reservation state over a restart: of a neighbour (RFC 3473 sections 9.3 to 9.5.3, RFC 5063 section 4.5.1), and of
//! this node (RFC 3473 section 9.5.2, RFC 5063 section 4.5.2).

use core::time::Duration;

use earmark_core::{Datagram, InterfaceId, Time};
use earmark_wire::rsvp::{ErrorCode, Path};

use crate::api::Event;
use crate::config::RestartTimes;
use crate::context::HandlerContext;
use crate::counters::DropReason;
use crate::filters::flow;
use crate::instance::Rsvp;
use crate::neighbors::address::is_neighbor;
use crate::neighbors::graceful_restart::{MAX_SENDERS_PER_STEP, NeighborKey, Phase};
use crate::neighbors::refresh_reduction::SendReason;
use crate::rules::fault::ResvFault;
use crate::rules::upstream::SendOptions;
use crate::state::{Holder, Index, NONE, Peer, SentResv, first_end};

impl Rsvp {
    /// Begins the Recovery Period of this node, which has preserved its reservations in traffic control.
    pub(crate) fn recover(&mut self, now: Time) {
        let RestartTimes { restart_time, recovery_time, .. } = self.config.hello.restart;
        if restart_time.is_some() {
            self.graceful_restart.recover_until(now + recovery_time);
        }
    }

    /// Applies new settings. State that was kept longer than it lives ends when that was to end.
    pub(crate) fn set_restart_times(&mut self, times: RestartTimes) {
        self.config.hello.restart = times;
        if times.restart_time.is_none() {
            self.graceful_restart.clear();
        }
    }

    /// Returns whether a Resv without matching path state is dropped without error, because the Path is expected (RFC 3473
    /// section 9.5.2).
    pub(crate) fn awaits_path(&self, now: Time, fault: &ResvFault) -> bool {
        self.graceful_restart.is_recovering(now)
            && matches!(fault.code, ErrorCode::NoPathInformation | ErrorCode::NoSenderInformation)
    }

    /// Returns until when state of a peer is kept that would expire now.
    pub(crate) fn held_until(&self, now: Time, peer: Peer) -> Option<Time> {
        if self.graceful_restart.is_idle() {
            return None;
        }
        self.graceful_restart.held_until(now, self.key_of(peer)?)
    }

    /// Returns interface and address of a peer that is a neighbour.
    fn key_of(&self, peer: Peer) -> Option<NeighborKey> {
        self.store.neighbor_of(peer).map(|(interface, hop)| (interface, hop.address))
    }

    /// Keeps a request that has expired, or those of its filters that have.
    #[cold]
    pub(crate) fn keep_expired_request(&mut self, index: Index, now: Time, until: Time) {
        let rsb = self.store.rsb_mut(index);
        rsb.expires_at = until;
        if let Some(extra) = rsb.extra.as_deref_mut() {
            for filter in extra.filters.iter_mut().filter(|filter| filter.expires_at <= now) {
                filter.expires_at = until;
            }
            rsb.expires_at = first_end(&extra.filters).unwrap_or(until);
        }
        self.arm_reservation(index);
    }

    /// Returns whether the Resv for a sender is not refreshed: its previous hop is expected back, or has restarted and not sent
    /// the Path yet (RFC 3473 sections 9.3 and 9.5.3).
    #[inline]
    pub(crate) fn withholds_resv(&self, now: Time, sender: Index) -> bool {
        !self.graceful_restart.is_idle()
            && self.lacks_path(now, self.store.psb(sender).hop, |senders| senders(sender))
    }

    /// Returns whether the Resv of a pool to one previous hop is not refreshed: the hop has sent the Path of none of the senders
    /// that the Resv names.
    #[inline]
    pub(crate) fn withholds_shared_resv(&self, now: Time, pool: Index, sent: &SentResv) -> bool {
        if self.graceful_restart.is_idle() {
            return false;
        }
        let session = self.store.session_key(Holder::Pool(pool));
        self.lacks_path(now, sent.hop, |has_path| {
            let mut senders = sent.filters.iter();
            senders.any(|sender| self.store.find_sender(&session, sender).is_some_and(has_path))
        })
    }

    /// Returns whether a previous hop restarts and lacks the path state that a Resv needs. `has_any` asks which of its senders
    /// the hop has sent since its return.
    #[cold]
    fn lacks_path(
        &self,
        now: Time,
        hop: Peer,
        has_any: impl FnOnce(&dyn Fn(Index) -> bool) -> bool,
    ) -> bool {
        let restart = self.key_of(hop).and_then(|key| self.graceful_restart.get(key));
        let Some(restart) = restart.filter(|restart| now < restart.held.until) else {
            return false;
        };
        match restart.phase {
            Phase::Restarting { .. } => true,
            Phase::Recovering => !has_any(&|sender| restart.synchronized.contains(&sender)),
            Phase::Restored => false,
        }
    }

    /// Returns whether the Path of a sender is not refreshed through an interface, because the next hop there is expected back
    /// (RFC 3473 section 9.3).
    #[inline]
    pub(crate) fn suppresses_path<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        sender: Index,
        outgoing: InterfaceId,
    ) -> bool {
        !self.graceful_restart.is_idle()
            && self
                .next_hop_key(cx, sender, outgoing)
                .is_some_and(|key| self.graceful_restart.is_restarting(key))
    }

    /// Returns interface and address of the next hop of unicast data through an interface.
    #[cold]
    fn next_hop_key<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        sender: Index,
        outgoing: InterfaceId,
    ) -> Option<NeighborKey> {
        let data = self.sender_data(sender);
        let destination = data.session.destination;
        let hop = if destination.is_multicast() { None } else { data.hop(cx.context) }?;
        (hop.interface == outgoing).then(|| (outgoing, hop.gateway.unwrap_or(destination)))
    }

    /// Records that the previous hop of a sender still knows its Path.
    #[cold]
    pub(crate) fn note_path_known(&mut self, sender: Index) {
        if let Some(key) = self.key_of(self.store.psb(sender).hop)
            && let Some(restart) = self.graceful_restart.get_mut(key)
        {
            restart.synchronized.insert(sender);
        }
    }

    /// Handles the Path of a sender while neighbours restart: the previous hop gets the Resv that belongs to it, unless it has got
    /// it already because the Path has changed the hop, which was `before`.
    #[cold]
    pub(crate) fn note_path<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        path: &Path<'_>,
        before: Option<Peer>,
    ) {
        let Some(sender) = self.store.find_sender(&path.session, &path.sender.template) else {
            return;
        };
        let hop = self.store.psb(sender).hop;
        let restart = self.key_of(hop).and_then(|key| self.graceful_restart.get_mut(key));
        let Some(restart) = restart.filter(|restart| restart.phase == Phase::Recovering) else {
            return;
        };
        let is_news = restart.synchronized.insert(sender);
        if is_news && before == Some(hop) {
            self.forget_sent_requests(sender);
            self.store.psb_mut(sender).sent_resv = None;
            self.update_requests_for(cx, sender);
        }
    }

    /// Handles the timer of restarts: continues the walks that are due, and ends what is over.
    pub(crate) fn restarts_due<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        self.graceful_restart.timer_fired();
        let (mut left, mut earliest) = (MAX_SENDERS_PER_STEP, Time::ZERO);
        for key in self.graceful_restart.due(cx.now) {
            if left == 0 {
                // Later, so that other timers are served in between.
                earliest = cx.now + Duration::from_millis(1);
                break;
            }
            let Some(restart) = self.graceful_restart.get(key) else { continue };
            if restart.held.until <= cx.now && restart.phase != Phase::Restored {
                self.end_restart(cx, key);
            } else if restart.sweep.is_none() {
                self.graceful_restart.remove(key);
            } else {
                left = self.continue_sweep(cx, key, left);
            }
        }
        self.graceful_restart.arm(&mut self.store.timers, earliest);
    }

    /// Examines some of the senders for a neighbour that has returned, at most `limit`. Returns what is left of the limit.
    fn continue_sweep<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        key: NeighborKey,
        limit: usize,
    ) -> usize {
        let Some(restart) = self.graceful_restart.get(key) else { return limit };
        let (phase, Some(sweep)) = (restart.phase, restart.sweep) else { return limit };
        let senders = self.store.psbs.capacity();
        let step = sweep.step(cx.now, senders.saturating_sub(sweep.next)).min(limit);
        let end = senders.min(sweep.next + step);
        for index in sweep.next..end {
            if !self.store.psbs.contains(index) {
                continue;
            }
            let index = index as Index;
            match phase {
                Phase::Restored => self.refresh_shared_state(cx, index, key),
                _ => self.synchronize_sender(cx, index, key, sweep.pass),
            }
        }
        if let Some(restart) = self.graceful_restart.get_mut(key) {
            restart.sweep = sweep.after(cx.now, end, senders);
            if phase == Phase::Restored && restart.sweep.is_none() {
                self.graceful_restart.remove(key);
            }
        }
        limit - step
    }

    /// Sends a neighbour that has restarted the Path of a sender, if it is the next hop, and a RecoveryPath if it is the previous
    /// one (RFC 3473 section 9.5.3, RFC 5063 section 4.5.1).
    fn synchronize_sender<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        sender: Index,
        key: NeighborKey,
        pass: u8,
    ) {
        if pass == 0 {
            self.send_path_to(cx, sender, key, SendReason::Trigger);
        }
        let hop = self.store.psb(sender).hop;
        if self.key_of(hop) != Some(key) {
            return;
        }
        if pass == 0 {
            self.take_resv_out_of_summaries(cx.now, sender, hop);
        }
        let restart = self.graceful_restart.get(key);
        let lacks_path = restart.is_some_and(|restart| {
            restart.sends_recovery_paths() && !restart.synchronized.contains(&sender)
        });
        if lacks_path && self.has_sent_resv(sender) {
            self.send_recovery_path(cx, sender);
        }
    }

    /// Refreshes Path and Resv of a sender at a neighbour that could not be reached, unless summaries refresh them (RFC 3473
    /// section 9.4).
    fn refresh_shared_state<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        sender: Index,
        key: NeighborKey,
    ) {
        if !self.refresh_reduction.is_listed(self.store.psb(sender).path_message_id) {
            self.send_path_to(cx, sender, key, SendReason::Refresh);
        }
        if self.key_of(self.store.psb(sender).hop) == Some(key) {
            let options = SendOptions { include_unchanged: true, ..SendOptions::default() };
            self.send_difference(cx, Holder::Sender(sender), &options);
            if let Some(pool) = self.store.pool_of(self.store.psb(sender).session) {
                self.send_difference(cx, Holder::Pool(pool), &options);
            }
        }
    }

    /// Sends the Path of a sender to a neighbour, if it is a next hop. The next hops of multicast data are unknown, so that the
    /// Path goes to all behind the interface.
    fn send_path_to<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        sender: Index,
        key: NeighborKey,
        reason: SendReason,
    ) {
        let psb = self.store.psb(sender);
        let is_multicast = self.store.session(psb.session).session.destination.is_multicast();
        if psb.outgoing.contains(key.0)
            && (is_multicast || self.next_hop_key(cx, sender, key.0) == Some(key))
        {
            self.path_message_through(cx, sender, key.0, reason);
        }
    }

    /// Removes the Resv messages to a previous hop that concern a sender from summary refreshes, because the hop has lost them.
    fn take_resv_out_of_summaries(&mut self, now: Time, sender: Index, hop: Peer) {
        self.refresh_resv_by_message(now, sender);
        let Some(pool) = self.store.pool_of(self.store.psb(sender).session) else { return };
        let sent_resvs = &mut self.store.pools[pool as usize].sent_resvs;
        for sent in sent_resvs.iter_mut().filter(|sent| sent.hop == hop) {
            self.refresh_reduction.forget(core::mem::replace(&mut sent.message_id, NONE));
        }
        self.schedule_pool(now, pool);
    }

    /// Returns whether a Resv for a sender was sent to its previous hop.
    fn has_sent_resv(&self, sender: Index) -> bool {
        let psb = self.store.psb(sender);
        let pool = self.store.pool_of(psb.session).map(|pool| self.store.pool(pool));
        let mut sent_resvs = pool.into_iter().flat_map(|pool| &pool.sent_resvs);
        psb.sent_resv.is_some()
            || sent_resvs.any(|sent| {
                sent.hop == psb.hop && sent.filters.binary_search(&psb.template).is_ok()
            })
    }

    /// Handles a RecoveryPath: what the next hop of a sender has of this node. It creates nothing: what a Path downstream contains
    /// comes from the Path of the previous hop or from the application. The next hop gets the Path of a known sender, which is
    /// the answer; a MESSAGE_ID is acknowledged instead (RFC 5063 sections 4.5.2 and 4.5.2.1).
    pub(crate) fn receive_recovery_path<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        path: &Path<'_>,
    ) {
        // The hop object has the handle that this node had in its earlier run, so that the link is that of arrival.
        let key = (datagram.interface, path.hop.address);
        if let Err(reason) = self.may_send_recovery_path(cx, datagram, key) {
            return self.drop_unacknowledged(cx, datagram, reason);
        }
        let Some(sender) = self.store.find_sender(&path.session, &path.sender.template) else {
            let preserved = flow(&path.session, Some(&path.sender.template));
            // The Path of the previous hop, or the request of the application, is still to come.
            let is_expected = self.graceful_restart.is_recovering(cx.now)
                && cx.context.ledger.adopted_rate(key.0, &preserved).is_some();
            if !is_expected {
                self.drop(cx, datagram, DropReason::NoState);
            }
            return;
        };
        let is_multicast = path.session.destination.is_multicast();
        if !self.store.psb(sender).outgoing.contains(key.0)
            || !is_multicast && self.next_hop_key(cx, sender, key.0) != Some(key)
        {
            return self.drop_unacknowledged(cx, datagram, DropReason::OtherHop);
        }
        if !cx.message_id.is_some() {
            self.path_message_through(cx, sender, key.0, SendReason::Trigger);
        }
    }

    /// Checks that a neighbour may send a RecoveryPath as it may send a Resv.
    fn may_send_recovery_path<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        (interface, address): NeighborKey,
    ) -> Result<(), DropReason> {
        if !is_neighbor(cx.context, address) || !cx.context.may_be_neighbor(address, interface) {
            return Err(DropReason::BadHop);
        }
        self.may_act_at(cx, datagram, interface, address)
    }
}
