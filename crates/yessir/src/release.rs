//! The end of a stream: by BYE, by command, or by silence.

use earmark_core::checkpoint::{Checkpoint, mark};

use crate::api::{Change, Event};
use crate::instance::{HandlerContext, Yessir};
use crate::state::{Holder, Index, NONE, Timer, TimerKind};

impl Yessir {
    /// The sender of a stream, if it is known here, gives back what it has; nobody else can.
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
            self.end(cx, index, change);
        }
    }

    /// The timer of a session has fired: it ends, or was refreshed meanwhile.
    pub(crate) fn session_is_due<E: From<Event>>(
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
        self.end(cx, index, Change::Expired);
    }

    /// A session ends, with all that it holds.
    pub(crate) fn end<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        change: Change,
    ) {
        self.drop_legs(cx, index, change);
        mark(Checkpoint::ReservationManagement);
        let source = self.store.session(index).stream.source;
        self.store.remove(index);
        self.sources.leave(source);
        mark(Checkpoint::TearSession);
    }

    /// All legs of a session end, and its part in a pool.
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
        self.part(index);
    }

    /// A leg of a session ends.
    pub(crate) fn drop_leg<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        leg: Index,
        change: Change,
    ) {
        self.give_back(cx, leg, change);
        let gone = self.store.remove_leg(leg);
        if let Holder::Session(session) = gone.holder {
            let pool = self.store.session(session).pool;
            if pool != NONE {
                self.settle_pool(cx, pool, gone.interface, change);
            }
        }
    }
}
