//! Retransmission of messages that were not acknowledged, and resending of state after a NACK or a neighbour's restart.
//! Messages are sent in bursts with short intervals, so that neither a neighbour nor a queue on the path overflows
//! again.

use core::net::IpAddr;
use core::time::Duration;

use earmark_core::{InterfaceId, Outgoing, Time};

use super::peer::{LinkEnd, Peer};
use super::retransmission::Stage;
use super::send::SendReason;
use super::sent_message_ids::Subject;
use super::state::{RefreshReduction, StoredMessage};
use crate::api::Event;
use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::state::Index;
use crate::tolerated::Tolerated;

/// Limit of waiting messages examined in one timer event; most of them are acknowledged already.
const MAX_EXAMINED: u32 = 4_096;
/// Limit of missed bursts that one timer event makes up for.
const MAX_MISSED_BURSTS: u32 = 15;

impl Rsvp {
    /// Schedules an entry for transmission because the neighbour does not know its state.
    pub(super) fn resend_unknown(&mut self, now: Time, entry: Index) {
        self.refresh_reduction.unlist(entry);
        self.refresh_reduction
            .retransmissions
            .push_urgent(now, self.refresh_reduction.sent.id(entry));
        self.refresh_reduction.arm_retransmissions(&mut self.store.timers);
        self.refresh_by_message(now, self.refresh_reduction.sent.subject(entry));
    }

    /// Schedules all state of a neighbour that has lost it, or that no longer supports summary refreshes.
    pub(super) fn resend_all(&mut self, now: Time, peer: Index) {
        self.refresh_reduction.mark_to_resend(peer);
        self.refresh_reduction.next_burst = self.refresh_reduction.next_burst.max(now);
        if !self.refresh_reduction.peers_to_resend.is_empty() {
            self.refresh_reduction.arm_retransmissions(&mut self.store.timers);
        }
    }

    /// Resends all state to all peers and starts new rounds of summary refreshes, because the content of messages (for
    /// example R) has changed.
    pub(crate) fn resend_all_to_all_peers(&mut self, now: Time) {
        for index in self.refresh_reduction.peers.all() {
            let summary =
                self.refresh_reduction.peers.get_mut(index).and_then(|p| p.summary_timer.take());
            if let Some(timer) = summary {
                self.store.timers.cancel(timer);
            }
            self.resend_all(now, index);
        }
    }

    /// Handles a changed interface. Messages contain its address, MTU and bandwidth, so the state sent through it is
    /// sent again, except to peers for which the content stays the same: an IPv6 address does not concern an IPv4
    /// neighbour, and an interface announced as up changes nothing if messages were delivered before. After the
    /// interface was down, everything is sent again.
    pub(crate) fn interface_changed<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        interface: InterfaceId,
    ) {
        let link = cx.context.interfaces.by_id(interface);
        for index in self.refresh_reduction.peers.behind(interface) {
            let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { continue };
            let seen = link.map(|link| LinkEnd::towards(peer.address, link));
            let is_news = match (peer.local_end, seen.filter(LinkEnd::is_up)) {
                // Nothing can be sent now; an interface that comes back is a new link.
                (sent, None) => {
                    peer.local_end = sent.filter(|sent| seen.is_some() && !sent.is_up());
                    continue;
                }
                (Some(sent), Some(seen)) => !sent.is_equivalent(&seen),
                (None, Some(_)) => true,
            };
            peer.local_end = seen;
            if is_news {
                self.resend_all(cx.now, index);
            }
        }
    }

    /// Sends messages that were not acknowledged in time, or that a neighbour requested.
    pub(crate) fn retransmissions_due<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
    ) {
        let now = cx.now;
        let due = self.refresh_reduction.retransmission_timer.take().map_or(now, |(_, due)| due);
        let mut left = self.messages_due(now.since(due));
        self.refresh_reduction.next_burst = now + self.config.reduction.burst_interval;
        for _ in 0..MAX_EXAMINED {
            if left == 0 {
                break;
            }
            let sent = match self.refresh_reduction.retransmissions.pop(now) {
                Some((stage, waiting)) => self.retransmit(cx, stage, waiting.id, waiting.confirm),
                None => match self.refresh_reduction.next_to_resend() {
                    Some(entry) => {
                        // What cannot be sent now, because the interface is down again or the path has not ended yet,
                        // is not lost: refresh messages follow.
                        self.refresh_by_message(now, self.refresh_reduction.sent.subject(entry));
                        self.resend_entry(cx, entry, None, SendReason::Trigger)
                    }
                    None => break,
                },
            };
            left -= u32::from(sent);
        }
        self.refresh_reduction.arm_retransmissions(&mut self.store.timers);
    }

    /// Returns the number of messages that may be sent again in a timer event this late. A driver that serves timers
    /// less often than bursts are due must not reduce the rate, or many sessions recover slowly; missed bursts are made
    /// up for, up to a limit.
    fn messages_due(&self, late: Duration) -> u32 {
        let interval = self.config.reduction.burst_interval.as_nanos().max(1);
        let missed = u32::try_from(late.as_nanos() / interval).unwrap_or(u32::MAX);
        self.config.reduction.burst.max(1).saturating_mul(1 + missed.min(MAX_MISSED_BURSTS))
    }

    /// Handles a message that is due again. Returns whether it was sent.
    fn retransmit<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        stage: Stage,
        id: u32,
        confirm: Option<IpAddr>,
    ) -> bool {
        let (next, last) = match stage {
            Stage::Urgent => (0, false),
            Stage::Sent(stage) => {
                (stage + 1, self.refresh_reduction.retransmissions.is_last(stage))
            }
        };
        let Some(entry) = self.refresh_reduction.sent.find(id) else {
            return self.retransmit_copy(cx, next, id, last);
        };
        if self.refresh_reduction.is_listed(entry) {
            return false; // acknowledged meanwhile
        }
        if stage != Stage::Urgent {
            let peer = self.receiver_of(cx, entry);
            self.note_silence(peer, id, last);
        }
        if last {
            self.counters.reduction.given_up += 1;
            return false;
        }
        self.resend_entry(cx, entry, confirm, SendReason::Retransmission(next))
    }

    /// Records that a peer has not acknowledged a message in time; `last` if the message is given up.
    fn note_silence(&mut self, peer: Option<Index>, id: u32, last: bool) {
        let peer = peer.and_then(|index| self.refresh_reduction.peers.get_mut(index));
        let Some(peer) = peer else { return };
        if peer.note_retransmission(id) {
            self.counters.tolerated[Tolerated::UnreadBundles as usize] += 1;
        }
        if last && peer.note_given_up() {
            self.counters.tolerated[Tolerated::NoAcknowledgements as usize] += 1;
        }
    }

    /// Sends the state of an entry again.
    fn resend_entry<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        entry: Index,
        confirm: Option<IpAddr>,
        reason: SendReason,
    ) -> bool {
        if !self.graceful_restart.is_idle() && self.is_withheld(cx, entry) {
            return false;
        }
        self.counters.reduction.repeated += 1;
        match self.refresh_reduction.sent.subject(entry) {
            Subject::Path(sender) => self.path_messages(cx, sender, reason),
            Subject::Resv(sender) => {
                self.resend_distinct_resv(cx, sender, confirm, reason);
            }
            Subject::Shared(pool) => self.resend_shared_resv(cx, pool, entry, confirm, reason),
        }
        true
    }

    /// Returns whether the Resv of an entry is not sent until the neighbour has sent its Path. Its refreshes go on then.
    #[cold]
    fn is_withheld<E>(&self, cx: &HandlerContext<'_, '_, E>, entry: Index) -> bool {
        match self.refresh_reduction.sent.subject(entry) {
            Subject::Path(_) => false,
            Subject::Resv(sender) => self.withholds_resv(cx.now, sender),
            Subject::Shared(pool) => {
                let mut sent_resvs = self.store.pool(pool).sent_resvs.iter();
                let sent_resv = sent_resvs.find(|sent_resv| sent_resv.message_id == entry);
                sent_resv.is_some_and(|sent| self.withholds_shared_resv(cx.now, pool, sent))
            }
        }
    }

    fn retransmit_copy<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        next: u8,
        id: u32,
        last: bool,
    ) -> bool {
        let index = self.refresh_reduction.receiver_of_copy(id);
        self.note_silence(index, id, last);
        let peer = index.and_then(|index| self.refresh_reduction.peers.get(index));
        let may_bundle = self.config.reduction.bundle && peer.is_some_and(Peer::may_bundle);
        if last {
            let gone = self.refresh_reduction.copies.remove(&id).is_some();
            self.counters.reduction.given_up += u64::from(gone);
            return false;
        }
        let Some(StoredMessage { how, octets }) = self.refresh_reduction.copies.get(&id) else {
            return false;
        };
        let neighbor = how.neighbor.filter(|_| may_bundle && !how.encapsulated);
        let how = Outgoing { neighbor, ..*how };
        cx.out.send(how, octets.len()).copy_from_slice(octets);
        self.counters.reduction.repeated += 1;
        self.refresh_reduction.retransmissions.push(cx.now, next, id, None);
        true
    }

    /// Schedules a refresh message for a state that is no longer in summary refreshes.
    pub(super) fn refresh_by_message(&mut self, now: Time, subject: Subject) {
        match subject {
            Subject::Path(sender) => {
                self.schedule_path_refresh(now, sender);
                self.rearm_sender(sender);
            }
            Subject::Resv(sender) => {
                self.schedule_resv_refresh(now, sender);
            }
            Subject::Shared(pool) => self.schedule_pool(now, pool),
        }
    }
}

impl RefreshReduction {
    /// Marks all state that a peer has acknowledged to be sent again.
    fn mark_to_resend(&mut self, peer: Index) {
        let Some(block) = self.peers.get_mut(peer) else { return };
        if block.summary_list.is_empty() {
            return;
        }
        let ids = block.summary_list.take();
        if block.to_resend.is_empty() {
            block.to_resend = ids;
            self.peers_to_resend.push(peer);
        } else {
            block.to_resend.extend_from_slice(&ids);
        }
    }

    /// Returns the next entry to send to a peer again, skipping entries that have changed since. The entry is open: it is
    /// in no summary refresh until the peer acknowledges it anew.
    fn next_to_resend(&mut self) -> Option<Index> {
        while let Some(&peer) = self.peers_to_resend.last() {
            match self.peers.get_mut(peer).and_then(|peer| peer.to_resend.pop()) {
                None => drop(self.peers_to_resend.pop()),
                Some(id) => match self.sent.find(id) {
                    Some(entry) if self.is_listed(entry) => {
                        self.unlist(entry);
                        return Some(entry);
                    }
                    _ => {}
                },
            }
        }
        None
    }
}
