//! Timers of sessions: refreshes, retransmissions and expiry.
//!
//! Each session has one timer. Deadlines that have moved are checked when it fires, so that a received refresh costs no
//! work on the timing wheel.

use core::time::Duration;

use earmark_core::Time;
use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_wire::qos_nslp::Outcome;
use earmark_wire::qos_nslp::iana::TransientFailure;

use super::QosNslp;
use super::api::Change;
use super::flow::outgoing_interface;
use super::send::ReserveOptions;
use super::state::{Flags, Index};
use super::tear::Confirmation;
use super::timeouts::next_retry;
use crate::nslp::HandlerContext;

/// Limit of timers for one input.
pub(super) const MAX_TIMERS_PER_INPUT: usize = 64;

impl QosNslp {
    /// Handles due timers, up to the limit.
    pub(super) fn expire_timers(&mut self, cx: &mut HandlerContext<'_, '_>) {
        for _ in 0..MAX_TIMERS_PER_INPUT {
            let Some((_, index)) = self.store.timers.pop_due(cx.now) else { break };
            self.store.session_mut(index).timer = None;
            self.handle_timer(cx, index);
        }
        mark(Checkpoint::Timers);
        self.expire_waiting(cx);
    }

    fn handle_timer(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let now = cx.now;
        let session = self.store.session(index);
        if !session.sharing().is_empty() && !session.flags.has(Flags::TORN) {
            if !self.expire_flows(cx, index) {
                return self.handle_expiry(cx, index);
            }
        } else if session.expires_at <= now {
            return self.handle_expiry(cx, index);
        }
        let session = self.store.session(index);
        if let Some(extra) = &session.extra {
            let asks = extra.request.is_some_and(|request| request.at <= now);
            let is_overdue = extra.acknowledged_by.is_some_and(|at| at <= now);
            if asks && !self.retry_request(cx, index) {
                return;
            }
            if is_overdue {
                self.handle_missing_acknowledgement(cx, index);
            }
        }
        if self.store.session(index).refresh_at <= now {
            self.refresh(cx, index);
        }
        self.rearm(index);
    }

    /// Arms the timer for the next deadline, or before.
    #[inline]
    pub(super) fn rearm(&mut self, index: Index) {
        let session = self.store.session(index);
        let due = session.due();
        match session.timer {
            None => {
                let timer = self.store.timers.arm(due, index);
                self.store.session_mut(index).timer = Some(timer);
            }
            Some(timer) => {
                if self.store.timers.deadline(timer).is_some_and(|at| due < at) {
                    self.store.timers.rearm(timer, due);
                }
            }
        }
    }

    /// Ends a session that was not refreshed, or whose tear had no response.
    fn handle_expiry(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        if self.store.session(index).flags.has(Flags::TORN) {
            let is_unanswered = self.store.session(index).has_begun_tear();
            self.counters.unanswered += u64::from(is_unanswered);
            self.finish_release(cx, index);
            return self.forget(cx, index);
        }
        self.counters.expired += 1;
        self.end(cx, index, Change::Expired, Confirmation::IfUnreliable);
    }

    /// Refreshes the next node, with other sessions that are due soon.
    fn refresh(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        self.let_period_rise(cx.now);
        let wait = self.refresh_wait();
        let session = self.store.session_mut(index);
        session.refresh_at = cx.now + wait;
        if session.flags.has(Flags::REMOVED) || session.flags.has(Flags::LEFT) {
            return;
        }
        self.follow_route(cx, index);
        let session = self.store.session_mut(index);
        if session.flags.has(Flags::REMOVED) || session.flags.has(Flags::ENDS_HERE) {
            return;
        }
        let reduced = self.config.reduced_refresh
            && session.flags.has(Flags::CONFIRMED)
            && !session.flags.has(Flags::FULL_ONLY)
            && !session.flags.has(Flags::LAST);
        // Two full RESERVEs without an error count as received (section 4.1).
        session.flags.set(Flags::CONFIRMED, true);
        let (is_shared, has_next) = (!session.sharing().is_empty(), session.on.is_some());
        let acknowledge = self.config.acknowledge && !session.flags.has(Flags::LAST);
        if acknowledge {
            let by = cx.now + self.config.give_up;
            session.extra().acknowledged_by.get_or_insert(by);
        }
        if is_shared {
            self.refresh_further(cx, index, !reduced);
        }
        if reduced && self.config.summary > 0 && has_next {
            return self.summarize(cx, index, acknowledge);
        }
        let options = ReserveOptions { full: !reduced, acknowledge, ..ReserveOptions::default() };
        self.send_reserve(cx, index, &options);
    }

    /// Moves the claim if the outgoing interface of the flow has changed.
    pub(super) fn follow_route(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = self.store.session(index);
        let Ok(now) = outgoing_interface(cx, &session.mri) else { return };
        if now != session.interface && !session.flags.has(Flags::TORN) {
            self.move_claim(cx, index, now);
        }
    }

    /// Retransmits or abandons a request; returns whether the session still exists.
    fn retry_request(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) -> bool {
        let Some(request) = self.store.session(index).extra.as_ref().and_then(|e| e.request) else {
            return true;
        };
        let tear = self.store.session(index).flags.has(Flags::TORN);
        if cx.now >= request.until && !tear {
            return self.handle_request_timeout(cx, index);
        }
        if cx.now >= request.until {
            // The state of a session that is torn down ends later.
            if let Some(request) = &mut self.store.session_mut(index).extra().request {
                request.at = Time::MAX;
            }
            return true;
        }
        let (at, wait_ms) = next_retry(cx.now, request.wait_ms, request.until);
        if let Some(request) = &mut self.store.session_mut(index).extra().request {
            (request.at, request.wait_ms) = (at, wait_ms);
        }
        self.counters.repeated += 1;
        let rii = Some(request.rii);
        let options = ReserveOptions { full: !tear, tear, rii, ..ReserveOptions::default() };
        self.send_reserve(cx, index, &options);
        true
    }

    /// Handles missing acknowledgements of the next node (section 5.4.1).
    fn handle_missing_acknowledgement(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = self.store.session_mut(index);
        session.extra().acknowledged_by = None;
        session.flags.set(Flags::CONFIRMED, false);
        session.trim();
        let outcome = Outcome::TransientFailure(TransientFailure::PathTruncated);
        self.notify_qni(cx, index, outcome);
    }

    /// Returns the time until the next refresh: 0.5 to 1.5 times the period (RFC 2205 section 3.7).
    pub(super) fn refresh_wait(&mut self) -> Duration {
        let period = self.config.refresh;
        self.jitter.uniform(period / 2, period + period / 2)
    }

    /// Returns the first retransmission of a request, the wait before it in milliseconds, and the time when it is
    /// abandoned.
    pub(super) fn first_retry(&self, now: Time) -> (Time, u32, Time) {
        // Zero would stay zero when doubled.
        let wait = self.config.retry.max(Duration::from_millis(1));
        let wait_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
        (now + wait, wait_ms, now + self.config.give_up)
    }
}
