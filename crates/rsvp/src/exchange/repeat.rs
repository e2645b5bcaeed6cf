//! Messages that leave again: because nobody acknowledged them, because they were asked for, or because the neighbour
//! has forgotten all that it was told. They leave in bursts with a little time in between, so that neither a neighbour
//! nor a queue on the way is overrun by what they could not take in the first place.

use core::net::IpAddr;
use core::time::Duration;

use earmark_core::{InterfaceId, Time};

use super::book::Subject;
use super::partner::LinkEnd;
use super::retries::Stage;
use super::send::Sending;
use super::{Copy, Exchange};
use crate::api::Event;
use crate::instance::{Rsvp, Turn};
use crate::state::Index;

/// Waiting messages that one turn looks at, at most; most of them wait no longer.
const LOOKS_PER_TURN: u32 = 4_096;
/// Bursts that were missed and are made up for in one turn, at most.
const MOST_MISSED: u32 = 15;

impl Rsvp {
    /// A neighbour does not know what it was told under this entry.
    pub(super) fn told_in_vain(&mut self, now: Time, entry: Index) {
        self.exchange.open(entry);
        self.exchange.retries.urge(now, self.exchange.book.id(entry));
        self.exchange.arm_retries(&mut self.store.timers);
        self.refresh_by_itself(now, self.exchange.book.subject(entry));
    }

    /// A neighbour has forgotten all that it was told, or can no longer be told in short.
    pub(super) fn tell_again(&mut self, now: Time, partner: Index) {
        self.exchange.tell_again(partner);
        self.exchange.next_burst = self.exchange.next_burst.max(now);
        if !self.exchange.forgetful.is_empty() {
            self.exchange.arm_retries(&mut self.store.timers);
        }
    }

    /// Messages say something else from now on, R perhaps: everybody is told, and rounds of summaries begin anew.
    pub(crate) fn tell_everybody(&mut self, now: Time) {
        for index in self.exchange.partners.all() {
            let summary = self.exchange.partners.get_mut(index).and_then(|p| p.summary.take());
            if let Some(timer) = summary {
                self.store.timers.cancel(timer);
            }
            self.tell_again(now, index);
        }
    }

    /// Of an interface much goes into messages: address, MTU, bandwidth. What has been told through it is told anew, as a
    /// refresh would, but for partners to whom nothing of it is new: an IPv6 address says nothing to an IPv4 neighbour, and
    /// an interface that is announced to be up says nothing if messages got through before. After it was down it does.
    pub(crate) fn interface_changes<E>(&mut self, turn: &Turn<'_, '_, E>, interface: InterfaceId) {
        let link = turn.context.interfaces.by_id(interface);
        for index in self.exchange.partners.behind(interface) {
            let Some(partner) = self.exchange.partners.get_mut(index) else { continue };
            let seen = link.map(|link| LinkEnd::towards(partner.address, link));
            let is_news = match (partner.end, seen.filter(LinkEnd::is_up)) {
                // Nothing can be told now, and whatever comes back is another link.
                (told, None) => {
                    partner.end = told.filter(|told| seen.is_some() && !told.is_up());
                    continue;
                }
                (Some(told), Some(seen)) => !told.says_as_much_as(&seen),
                (None, Some(_)) => true,
            };
            partner.end = seen;
            if is_news {
                self.tell_again(turn.now, index);
            }
        }
    }

    /// Sends again what was not acknowledged in time, or was asked for.
    pub(crate) fn retries_are_due<E: From<Event>>(&mut self, turn: &mut Turn<'_, '_, E>) {
        let now = turn.now;
        let due = self.exchange.retry_timer.take().map_or(now, |(_, due)| due);
        let mut left = self.bursts(now.since(due));
        self.exchange.next_burst = now + self.config.reduction.burst_interval;
        for _ in 0..LOOKS_PER_TURN {
            if left == 0 {
                break;
            }
            let sent = match self.exchange.retries.pop(now) {
                Some((stage, waiting)) => self.repeat(turn, stage, waiting.id, waiting.confirm),
                None => match self.exchange.next_forgotten() {
                    Some(entry) => self.send_again(turn, entry, None, Sending::News),
                    None => break,
                },
            };
            left -= u32::from(sent);
        }
        self.exchange.arm_retries(&mut self.store.timers);
    }

    /// Messages that may be sent again in a turn that comes so late. A driver that serves timers less often than bursts are
    /// due must not make them fewer, or many sessions take long to come back; what it missed is made up for within limits.
    fn bursts(&self, late: Duration) -> u32 {
        let interval = self.config.reduction.burst_interval.as_nanos().max(1);
        let missed = u32::try_from(late.as_nanos() / interval).unwrap_or(u32::MAX);
        self.config.reduction.burst.max(1).saturating_mul(1 + missed.min(MOST_MISSED))
    }

    /// A message is due again. Gives whether it was sent.
    fn repeat<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        stage: Stage,
        id: u32,
        confirm: Option<IpAddr>,
    ) -> bool {
        let (next, last) = match stage {
            Stage::Urgent => (0, false),
            Stage::Sent(stage) => (stage + 1, self.exchange.retries.is_last(stage)),
        };
        let Some(entry) = self.exchange.book.find(id) else {
            return self.repeat_copy(turn, next, id, last);
        };
        if self.exchange.is_listed(entry) {
            return false; // it was acknowledged
        }
        if last {
            self.counters.reduction.given_up += 1;
            return false;
        }
        self.send_again(turn, entry, confirm, Sending::Again(next))
    }

    /// What stands in the book leaves once more.
    fn send_again<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        entry: Index,
        confirm: Option<IpAddr>,
        sending: Sending,
    ) -> bool {
        self.counters.reduction.repeated += 1;
        match self.exchange.book.subject(entry) {
            Subject::Path(sender) => self.path_messages(turn, sender, sending),
            Subject::Resv(sender) => self.resv_message(turn, sender, confirm, sending),
            Subject::Shared(pool) => self.repeat_shared(turn, pool, entry, confirm, sending),
        }
        true
    }

    fn repeat_copy<E>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        next: u8,
        id: u32,
        last: bool,
    ) -> bool {
        if last {
            let gone = self.exchange.copies.remove(&id).is_some();
            self.counters.reduction.given_up += u64::from(gone);
            return false;
        }
        let Some(Copy { how, octets }) = self.exchange.copies.get(&id) else { return false };
        turn.out.send(*how, octets.len()).copy_from_slice(octets);
        self.counters.reduction.repeated += 1;
        self.exchange.retries.wait(turn.now, next, id, None);
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

impl Exchange {
    /// Everything that a partner has acknowledged is to be told again.
    fn tell_again(&mut self, partner: Index) {
        let Some(block) = self.partners.get_mut(partner) else { return };
        if block.roster.is_empty() {
            return;
        }
        let ids = block.roster.take();
        if block.forgotten.is_empty() {
            block.forgotten = ids;
            self.forgetful.push(partner);
        } else {
            block.forgotten.extend_from_slice(&ids);
        }
    }

    /// The next entry that a partner has to be told again, unless there was news about it since.
    fn next_forgotten(&mut self) -> Option<Index> {
        while let Some(&partner) = self.forgetful.last() {
            match self.partners.get_mut(partner).and_then(|partner| partner.forgotten.pop()) {
                None => drop(self.forgetful.pop()),
                Some(id) => match self.book.find(id) {
                    Some(entry) if self.is_listed(entry) => return Some(entry),
                    _ => {}
                },
            }
        }
        None
    }
}
