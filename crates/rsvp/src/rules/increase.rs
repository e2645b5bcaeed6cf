//! Increases of existing reservations that the link had no room for: of a sender's Tspec, or by another sender of a shared
//! reservation. The old reservation stays, and the increase is tried again once in a refresh period, because the messages that
//! asked for it say nothing new then.

mod refused;

use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::Time;

use crate::api::{Change, Event};
use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::state::{Index, NONE, Timer, TimerKind};

/// Limit of increases that are tried in one turn.
const TRIES_PER_TURN: usize = 64;
/// Time between two turns of one round.
const BETWEEN_TURNS: Duration = Duration::from_millis(1);

pub(crate) use self::refused::RefusedIncreases;

impl Rsvp {
    /// Lets an increase be tried again that was refused.
    #[cold]
    pub(crate) fn retry_increase(&mut self, now: Time, tcsb: Index) {
        self.refused_increases.blocks.insert(tcsb);
        if self.refused_increases.timer.is_none() {
            self.arm_increases(now, tcsb);
        }
    }

    /// Arms the timer of the next round, by the refresh period of a reservation's interface.
    fn arm_increases(&mut self, now: Time, tcsb: Index) {
        let block = self.store.tcsbs.get(tcsb as usize);
        let interface = block.and_then(|block| block.outgoing);
        let at = match interface {
            Some(interface) => self.next_refresh(now, interface),
            None => now + self.config.timing.refresh,
        };
        self.arm_increases_at(at);
    }

    fn arm_increases_at(&mut self, at: Time) {
        let timer = Timer { kind: TimerKind::Increase, block: NONE };
        self.refused_increases.timer = Some(self.store.timers.arm(at, timer));
    }

    /// Tries refused increases again, some of them in one turn.
    #[cold]
    pub(crate) fn increases_due<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        let RefusedIncreases { blocks, next, timer } = &mut self.refused_increases;
        *timer = None;
        let turn: Vec<Index> = blocks.range(*next..).copied().take(TRIES_PER_TURN).collect();
        for &tcsb in &turn {
            if self.try_increase(cx, tcsb) {
                self.refused_increases.blocks.remove(&tcsb);
            }
        }
        let last = turn.last().filter(|_| turn.len() == TRIES_PER_TURN);
        self.refused_increases.next = last.map_or(0, |last| last + 1);
        match (last, self.refused_increases.blocks.first().copied()) {
            (Some(_), _) => self.arm_increases_at(cx.now + BETWEEN_TURNS),
            (None, Some(first)) => self.arm_increases(cx.now, first),
            (None, None) => {}
        }
    }

    /// Tries to reserve what the requests of a block ask for. Returns whether nothing is left to try. Another refusal is not
    /// reported again.
    fn try_increase<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        tcsb: Index,
    ) -> bool {
        let Some(block) = self.store.tcsbs.get(tcsb as usize) else { return true };
        let held = |claim| cx.context.ledger.demand(claim);
        let before = block.claim.and_then(held);
        let Some(merged) = self.merged(Some(tcsb), None, None) else { return true };
        let priority = self.priority(Some(tcsb), None, None);
        if self.change_traffic_control(cx, tcsb, merged, &[], priority).is_err() {
            return false;
        }
        let claim = self.store.tcsb(tcsb).claim;
        if claim.and_then(|claim| cx.context.ledger.demand(claim)) != before {
            self.notify_reservation(cx, tcsb, Change::Changed);
        }
        self.update_upstream(cx, self.store.tcsb(tcsb).holder);
        true
    }
}
