//! Messages that leave again: because nobody acknowledged them, because they were asked for, or because the neighbour
//! has forgotten all that it was told. They leave in bursts with a little time in between, so that neither a neighbour
//! nor a queue on the way is overrun by what they could not take in the first place.

use core::net::IpAddr;
use core::time::Duration;

use earmark_core::{InterfaceId, Time};

use super::peer::LinkEnd;
use super::retransmission::Stage;
use super::send::Sending;
use super::sent_message_ids::Subject;
use super::{Copy, RefreshReduction};
use crate::api::Event;
use crate::instance::{HandlerContext, Rsvp};
use crate::state::Index;

/// Waiting messages that one turn looks at, at most; most of them wait no longer.
const LOOKS_PER_TURN: u32 = 4_096;
/// Bursts that were missed and are made up for in one turn, at most.
const MOST_MISSED: u32 = 15;

impl Rsvp {
    /// A neighbour does not know what it was told under this entry.
    pub(super) fn retransmit_exhausted(&mut self, now: Time, entry: Index) {
        self.refresh_reduction.open(entry);
        self.refresh_reduction.retries.send_now(now, self.refresh_reduction.sent.id(entry));
        self.refresh_reduction.arm_retries(&mut self.store.timers);
        self.refresh_by_itself(now, self.refresh_reduction.sent.subject(entry));
    }

    /// A neighbour has forgotten all that it was told, or can no longer be told in short.
    pub(super) fn resend_all(&mut self, now: Time, peer: Index) {
        self.refresh_reduction.mark_to_resend(peer);
        self.refresh_reduction.next_burst = self.refresh_reduction.next_burst.max(now);
        if !self.refresh_reduction.peers_to_resend.is_empty() {
            self.refresh_reduction.arm_retries(&mut self.store.timers);
        }
    }

    /// Messages say something else from now on, R perhaps: everybody is told, and rounds of summaries begin anew.
    pub(crate) fn resend_all_to_all_peers(&mut self, now: Time) {
        for index in self.refresh_reduction.peers.all() {
            let summary =
                self.refresh_reduction.peers.get_mut(index).and_then(|p| p.summary.take());
            if let Some(timer) = summary {
                self.store.timers.cancel(timer);
            }
            self.resend_all(now, index);
        }
    }

    /// Of an interface much goes into messages: address, MTU, bandwidth. What has been told through it is told anew, as a
    /// refresh would, but for peers to whom nothing of it is new: an IPv6 address says nothing to an IPv4 neighbour, and
    /// an interface that is announced to be up says nothing if messages got through before. After it was down it does.
    pub(crate) fn interface_changes<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        interface: InterfaceId,
    ) {
        let link = cx.context.interfaces.by_id(interface);
        for index in self.refresh_reduction.peers.behind(interface) {
            let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { continue };
            let seen = link.map(|link| LinkEnd::towards(peer.address, link));
            let is_news = match (peer.end, seen.filter(LinkEnd::is_up)) {
                // Nothing can be told now, and whatever comes back is another link.
                (told, None) => {
                    peer.end = told.filter(|told| seen.is_some() && !told.is_up());
                    continue;
                }
                (Some(told), Some(seen)) => !told.is_equivalent(&seen),
                (None, Some(_)) => true,
            };
            peer.end = seen;
            if is_news {
                self.resend_all(cx.now, index);
            }
        }
    }

    /// Sends again what was not acknowledged in time, or was asked for.
    pub(crate) fn retransmissions_due<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
    ) {
        let now = cx.now;
        let due = self.refresh_reduction.retry_timer.take().map_or(now, |(_, due)| due);
        let mut left = self.bursts(now.since(due));
        self.refresh_reduction.next_burst = now + self.config.reduction.burst_interval;
        for _ in 0..LOOKS_PER_TURN {
            if left == 0 {
                break;
            }
            let sent = match self.refresh_reduction.retries.pop(now) {
                Some((stage, waiting)) => self.retransmit(cx, stage, waiting.id, waiting.confirm),
                None => match self.refresh_reduction.next_to_resend() {
                    Some(entry) => self.send_again(cx, entry, None, Sending::News),
                    None => break,
                },
            };
            left -= u32::from(sent);
        }
        self.refresh_reduction.arm_retries(&mut self.store.timers);
    }

    /// Messages that may be sent again in a turn that comes so late. A driver that serves timers less often than bursts are
    /// due must not make them fewer, or many sessions take long to come back; what it missed is made up for within limits.
    fn bursts(&self, late: Duration) -> u32 {
        let interval = self.config.reduction.burst_interval.as_nanos().max(1);
        let missed = u32::try_from(late.as_nanos() / interval).unwrap_or(u32::MAX);
        self.config.reduction.burst.max(1).saturating_mul(1 + missed.min(MOST_MISSED))
    }

    /// A message is due again. Gives whether it was sent.
    fn retransmit<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        stage: Stage,
        id: u32,
        confirm: Option<IpAddr>,
    ) -> bool {
        let (next, last) = match stage {
            Stage::Urgent => (0, false),
            Stage::Sent(stage) => (stage + 1, self.refresh_reduction.retries.is_last(stage)),
        };
        let Some(entry) = self.refresh_reduction.sent.find(id) else {
            return self.retransmit_copy(cx, next, id, last);
        };
        if self.refresh_reduction.is_listed(entry) {
            return false; // it was acknowledged
        }
        if last {
            self.counters.reduction.given_up += 1;
            return false;
        }
        self.send_again(cx, entry, confirm, Sending::Again(next))
    }

    /// What stands in the book leaves once more.
    fn send_again<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        entry: Index,
        confirm: Option<IpAddr>,
        sending: Sending,
    ) -> bool {
        self.counters.reduction.repeated += 1;
        match self.refresh_reduction.sent.subject(entry) {
            Subject::Path(sender) => self.path_messages(cx, sender, sending),
            Subject::Resv(sender) => self.resv_message(cx, sender, confirm, sending),
            Subject::Shared(pool) => self.repeat_shared(cx, pool, entry, confirm, sending),
        }
        true
    }

    fn retransmit_copy<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        next: u8,
        id: u32,
        last: bool,
    ) -> bool {
        if last {
            let gone = self.refresh_reduction.copies.remove(&id).is_some();
            self.counters.reduction.given_up += u64::from(gone);
            return false;
        }
        let Some(Copy { how, octets }) = self.refresh_reduction.copies.get(&id) else {
            return false;
        };
        cx.out.send(*how, octets.len()).copy_from_slice(octets);
        self.counters.reduction.repeated += 1;
        self.refresh_reduction.retries.wait(cx.now, next, id, None);
        true
    }

    /// A state is no longer part of summary refreshes, so it is refreshed by a message of its own.
    pub(super) fn refresh_by_itself(&mut self, now: Time, subject: Subject) {
        match subject {
            Subject::Path(sender) => {
                self.schedule_path_refresh(now, sender);
                self.rearm_sender(sender);
            }
            Subject::Resv(sender) => {
                self.schedule_resv_refresh(now, sender);
                self.rearm_sender(sender);
            }
            Subject::Shared(pool) => self.schedule_pool(now, pool),
        }
    }
}

impl RefreshReduction {
    /// Everything that a peer has acknowledged is to be told again.
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

    /// The next entry that a peer has to be told again, unless there was news about it since.
    fn next_to_resend(&mut self) -> Option<Index> {
        while let Some(&peer) = self.peers_to_resend.last() {
            match self.peers.get_mut(peer).and_then(|peer| peer.to_resend.pop()) {
                None => drop(self.peers_to_resend.pop()),
                Some(id) => match self.sent.find(id) {
                    Some(entry) if self.is_listed(entry) => return Some(entry),
                    _ => {}
                },
            }
        }
        None
    }
}
