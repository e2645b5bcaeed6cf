//! Reservations: what a message asks for is noted, admitted and given to traffic control, or waits.
//!
//! What a link has not room for is noted in the message, which goes on all the same, so that a stream may have what it
//! asks for on some links and not on others (partial reservation). Such a leg tries again with each refresh, and waits for
//! others to give back; see [`crate::admission`].

use earmark_core::admission::Demand;
use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{InterfaceId, Rate, Time};
use earmark_wire::rtcp::SenderInfo;
use earmark_wire::yessir::FailureReason;

use crate::api::{Change, Event, Stream};
use crate::config::Measuring;
use crate::counters::DropReason;
use crate::flowspec::RequestedRate;
use crate::instance::{HandlerContext, Yessir};
use crate::measure::Measurement;
use crate::next_hops::NextHops;
use crate::state::{Extra, Holder, Index, Leg, NONE, NOTHING, Session, Timer, TimerKind};
use crate::store::Place;

/// What a message asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) stream: Stream,
    /// What a look-up for it has found, if there was one.
    pub(crate) found: Option<Result<Index, Place>>,
    pub(crate) ssrc: u32,
    pub(crate) asked: RequestedRate,
    pub(crate) shared: bool,
    /// How long it holds without another message, milliseconds.
    pub(crate) lifetime_ms: u32,
    /// What it says, if that is enough to know it again; 0 where it is not.
    pub(crate) said: u64,
    /// What the report says that was sent.
    pub(crate) sender: SenderInfo,
    /// Where it was signed.
    pub(crate) sequence: Option<u64>,
    /// It says nothing of YESSIR.
    pub(crate) plain: bool,
}

/// Why a link has not reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: FailureReason,
    /// What could have been reserved.
    pub(crate) available: Rate,
}

impl Yessir {
    /// Notes what a message asks for: the session. Nothing is reserved yet, but where the stream does not go any more
    /// nothing is held from now on.
    ///
    /// # Errors
    /// What is asked for is refused by this node, whatever the link; an older request stays.
    #[inline]
    pub(crate) fn note_request<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        request: &Request,
        ways: NextHops<'_>,
    ) -> Result<Index, FailureReason> {
        let found = request.found.unwrap_or_else(|| self.store.look_up(&request.stream));
        mark(Checkpoint::FindSession);
        let index = match found {
            Ok(index) => index,
            Err(place) => return self.create(cx, request, place),
        };
        let expires_at = cx.now.after_millis(request.lifetime_ms.into());
        let session = self.store.session_mut(index);
        session.expires_at = expires_at;
        // What is refused may be granted the next time that it is said.
        session.said = 0;
        let timer = session.timer;
        if let Some(timer) = timer
            && self.store.timers.deadline(timer).is_some_and(|due| due > expires_at)
        {
            self.store.timers.rearm(timer, expires_at);
        }
        if request.sequence.is_some() {
            let extra = self.store.session_mut(index).extra.get_or_insert_default();
            extra.sequence = request.sequence;
        }
        let asked = match request.asked {
            RequestedRate::Demand(demand) => demand,
            RequestedRate::Measured(measuring) => self.measure(cx.now, index, request, &measuring),
        };
        let session = self.store.session(index);
        let same = session.asked == asked
            && session.ssrc == request.ssrc
            && request.shared == (session.pool != NONE);
        if !same {
            self.change(cx, index, request, asked)?;
        } else {
            self.counters.refreshed += 1;
        }
        if !self.is_on_its_way(index, ways) {
            self.leave_old_ways(cx, index, ways);
        }
        let version = self.routes_version;
        let session = self.store.session_mut(index);
        (session.said, session.lifetime_ms) = (request.said, request.lifetime_ms);
        session.routes_version = version;
        mark(Checkpoint::Refresh);
        Ok(index)
    }

    /// Reserves on one of the links that a session leaves by what it asks for, if that is not so already.
    #[inline(always)]
    pub(crate) fn reserve_on<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        session: Index,
        interface: InterfaceId,
    ) -> Option<Failure> {
        let holder = Holder::Session(session);
        let Session { asked, legs, pool, .. } = *self.store.session(session);
        let leg = match self.store.leg_among(legs, interface) {
            Ok(leg) => leg,
            Err(branches) => {
                if branches >= self.config.limits.branches as usize {
                    return Some(self.limit_reached());
                }
                if pool != NONE {
                    // What is shared there may have to grow.
                    self.unsettle(session);
                }
                self.store.insert_leg(holder, interface)
            }
        };
        if pool != NONE {
            return self.reserve_shared(cx, pool, interface, asked);
        }
        let Leg { full, failed, .. } = *self.store.leg(leg);
        if full && !failed { None } else { self.settle(cx, leg, asked, Change::Created) }
    }

    /// The first message about a stream.
    fn create<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        request: &Request,
        place: Place,
    ) -> Result<Index, FailureReason> {
        let limits = self.config.limits;
        let source = request.stream.source;
        let hash = self.sources.hash(source);
        if self.store.sessions.len() >= limits.sessions as usize
            || !self.sources.may_ask(cx.now, hash, limits.changes_per_second)
            || !self.sources.enter(hash, source, limits.sessions_per_source)
        {
            return Err(self.limit_reached().reason);
        }
        let (asked, measurement) = match request.asked {
            RequestedRate::Demand(demand) => (demand, None),
            RequestedRate::Measured(_) => (NOTHING, Some(Measurement::new(cx.now, request.sender))),
        };
        let &Request { sequence, plain, .. } = request;
        let extra = (measurement.is_some() || sequence.is_some())
            .then(|| alloc::boxed::Box::new(Extra { measurement, sequence, plain }));
        let expires_at = cx.now.after_millis(request.lifetime_ms.into());
        let timer = Timer { kind: TimerKind::Session, block: self.store.next_session() };
        let session = Session {
            stream: request.stream,
            legs: NONE,
            pool: NONE,
            ssrc: request.ssrc,
            asked,
            said: request.said,
            lifetime_ms: request.lifetime_ms,
            routes_version: self.routes_version,
            expires_at,
            timer: Some(self.store.timers.arm(expires_at, timer)),
            extra,
        };
        let index = self.store.insert(session, place);
        if request.shared && !self.join(index) {
            self.sources.leave(source);
            self.store.remove(index);
            return Err(self.limit_reached().reason);
        }
        self.counters.created += 1;
        mark(Checkpoint::CreateSession);
        Ok(index)
    }

    /// A message asks for something else than the one before. Less is no matter of limits.
    fn change<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        request: &Request,
        asked: Demand,
    ) -> Result<(), FailureReason> {
        let session = self.store.session_mut(index);
        session.ssrc = request.ssrc;
        let shared = session.pool != NONE;
        let more = asked.rate > session.asked.rate || asked.max_packet > session.asked.max_packet;
        let rate = self.config.limits.changes_per_second;
        if (more || request.shared != shared)
            && !self.sources.may_ask(cx.now, self.sources.hash(request.stream.source), rate)
        {
            return Err(self.limit_reached().reason);
        }
        self.store.session_mut(index).asked = asked;
        if request.shared != shared {
            self.change_style(cx, index, request.shared)?;
        }
        self.unsettle(index);
        Ok(())
    }

    /// From now on a stream shares, or does not. What it held in the old style is given back.
    #[cold]
    fn change_style<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        shared: bool,
    ) -> Result<(), FailureReason> {
        self.drop_legs(cx, index, Change::Changed);
        if shared && !self.join(index) {
            return Err(self.limit_reached().reason);
        }
        Ok(())
    }

    /// What a stream asks for has changed, and whether it holds it is to be looked at.
    pub(crate) fn unsettle(&mut self, index: Index) {
        let Session { legs, pool, .. } = *self.store.session(index);
        let first = if pool == NONE { legs } else { self.store.pool(pool).legs };
        let mut next = first;
        while next != NONE {
            let leg = self.store.leg_mut(next);
            leg.full = false;
            next = leg.next;
        }
    }

    /// What the reports of a stream show that it needs.
    fn measure(
        &mut self,
        now: Time,
        index: Index,
        request: &Request,
        measuring: &Measuring,
    ) -> Demand {
        let ipv6 = request.stream.source.is_ipv6();
        let session = self.store.session_mut(index);
        let before = session.asked;
        let same_source = session.ssrc == request.ssrc;
        let known = &mut session.extra.get_or_insert_default().measurement;
        let measurement = match known {
            Some(measurement) if same_source => measurement,
            _ => {
                *known = Some(Measurement::new(now, request.sender));
                return before;
            }
        };
        measurement.report(now, request.sender, measuring.window, ipv6);
        if !measurement.known {
            return before;
        }
        match measurement.rate(measuring) {
            Rate::ZERO => NOTHING,
            rate => self.config.demand_of(rate, 0),
        }
    }

    /// Whether all links that a session has a leg on are ways of its stream.
    #[inline]
    fn is_on_its_way(&self, index: Index, ways: NextHops<'_>) -> bool {
        let mut legs = self.store.legs_of(Holder::Session(index));
        legs.all(|leg| ways.contains(self.store.leg(leg).interface))
    }

    /// The stream takes another way now.
    #[cold]
    fn leave_old_ways<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        ways: NextHops<'_>,
    ) {
        let mut next = self.store.session(index).legs;
        while next != NONE {
            let leg = next;
            next = self.store.leg(leg).next;
            if !ways.contains(self.store.leg(leg).interface) {
                self.drop_leg(cx, leg, Change::Moved);
            }
        }
    }

    /// Past a limit of this node nothing can be had.
    #[cold]
    pub(crate) fn limit_reached(&mut self) -> Failure {
        *self.counters.ignored.entry(DropReason::Limit).or_default() += 1;
        Failure { reason: FailureReason::Limit, available: Rate::ZERO }
    }
}
