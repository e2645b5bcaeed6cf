//! The end of a stream: by BYE, by command, or by timeout.

use earmark_core::checkpoint::{Checkpoint, mark};

use crate::api::{Change, Event};
use crate::instance::{HandlerContext, Yessir};
use crate::state::{Holder, Index, NONE, Timer, TimerKind};

impl Yessir {
    /// Releases a stream if the message is of its sender (by SSRC).
    pub(crate) fn release<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        found: Option<Index>,
        ssrc: u32,
        change: Change,
    ) {
        mark(Checkpoint::FindSession);
        let Some(index) = found else { return };
        if self.store.session(index).ssrc == ssrc {
            self.counters.released += 1;
            self.remove_session(cx, index, change);
        }
    }

    /// Handles the timer of a session: it has expired, or was refreshed meanwhile.
    pub(crate) fn handle_session_timer<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        let expires_at = self.store.session(index).expires_at;
        if cx.now < expires_at {
            let timer = Timer { kind: TimerKind::Session, block: index };
            let timer = self.store.timers.arm(expires_at, timer);
            self.store.session_mut(index).timer = Some(timer);
            return;
        }
        self.store.session_mut(index).timer = None;
        self.counters.expired += 1;
        self.remove_session(cx, index, Change::Expired);
    }

    /// Removes a session and releases all that it holds.
    pub(crate) fn remove_session<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        change: Change,
    ) {
        self.drop_legs(cx, index, change);
        self.set_token(index, None);
        mark(Checkpoint::ReservationManagement);
        let session = self.store.session(index);
        let (source, port, arrival) = (session.stream.source, session.port, session.arrival);
        if let Some(sequence) = session.extra.as_ref().and_then(|extra| extra.sequence) {
            self.auth.end_stream(source, sequence);
        }
        self.store.remove(index);
        self.sources.remove_stream(source, port);
        self.sources.shares.remove(arrival);
        mark(Checkpoint::TearSession);
    }

    /// Removes all legs of a session, and its membership in a pool.
    pub(crate) fn drop_legs<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        change: Change,
    ) {
        loop {
            let leg = self.store.session(index).legs;
            if leg == NONE {
                break;
            }
            self.drop_leg(cx, leg, change);
        }
        self.leave_pool(index);
    }

    /// Removes a leg of a session.
    pub(crate) fn drop_leg<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        leg: Index,
        change: Change,
    ) {
        self.release_claim(cx, leg, change);
        let gone = self.store.remove_leg(leg);
        if let Holder::Session(session) = gone.holder {
            let pool = self.store.session(session).pool;
            if pool != NONE {
                self.adjust_pool(cx, pool, gone.interface, change);
            }
        }
    }
}
