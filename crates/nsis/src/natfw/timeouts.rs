//! Timers: the ends of sessions, and the requests that are due.

use super::api::Change;
use super::instance::NatfwNslp;
use super::state::Index;
use super::store::Wait;
use crate::nslp::HandlerContext;

/// Limit of timers for one call.
const MAX_TIMERS_PER_CALL: usize = 64;

impl NatfwNslp {
    /// Handles due timers, a bounded number of them.
    pub(super) fn expire_timers(&mut self, cx: &mut HandlerContext<'_, '_>) {
        for _ in 0..MAX_TIMERS_PER_CALL {
            match self.store.timers.pop_due(cx.now) {
                None => break,
                Some((_, Wait::Session(index))) => self.session_due(cx, index),
                Some((_, Wait::Token)) => self.end_with_token(cx),
                // The work of these is that of a whole call, and the timer may be due again at once.
                Some((_, Wait::Dependents)) => return self.end_more_dependents(cx),
                Some((_, Wait::Deletions)) => return self.delete_more(cx),
            }
        }
    }

    fn session_due(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = self.store.session_mut(index);
        session.timer = None;
        if session.expires_at <= cx.now {
            self.counters.expired += 1;
            return self.end(cx, index, Change::Expired);
        }
        if session.next_at <= cx.now {
            return self.request_due(cx, index);
        }
        self.store.rearm(index);
    }
}
