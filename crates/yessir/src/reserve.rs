//! Reservations: a request is stored, admitted and installed in traffic control, or waits.
//!
//! A link without room is noted in the message, which is forwarded, so that a stream may be reserved on some links
//! and not on others (partial reservation). Such a leg tries again with each refresh, and waits for released
//! bandwidth; see [`crate::admission`].

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
use crate::origin::limited_port;
use crate::state::{Extra, Holder, Index, Leg, NONE, NOTHING, Session, Timer, TimerKind};
use crate::store::VacantEntry;

/// Request of a message.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    pub(crate) stream: &'a Stream,
    /// Result of the lookup of the stream, if there was one.
    pub(crate) found: Option<Result<Index, VacantEntry>>,
    pub(crate) ssrc: u32,
    /// Interface that the message arrived through; [`crate::origin::OWN`] for this host's own.
    pub(crate) arrival: InterfaceId,
    pub(crate) asked: &'a RequestedRate,
    pub(crate) shared: bool,
    /// Lifetime without another message, milliseconds.
    pub(crate) lifetime_ms: u32,
    /// Fingerprint of the message, by which a refresh is recognised; 0 for none.
    pub(crate) fingerprint: u64,
    /// Counts in the sender report.
    pub(crate) sender: SenderInfo,
    /// Sequence number of a signed message.
    pub(crate) sequence: Option<u64>,
    /// Whether the reports carry no YESSIR and have ports of their own.
    pub(crate) has_own_report_flow: bool,
    /// Token of the message.
    pub(crate) token: Option<&'a [u8]>,
}

/// Reason why a link has not reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) reason: FailureReason,
    /// Available rate.
    pub(crate) available: Rate,
}

impl Yessir {
    /// Stores the request of a message in the session. Reserves nothing yet, but releases links that the stream no
    /// longer takes.
    ///
    /// # Errors
    /// The reason why this node refuses the request on any link; an older request stays.
    #[inline]
    pub(crate) fn note_request<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        request: &Request<'_>,
        next_hops: NextHops<'_>,
    ) -> Result<Index, FailureReason> {
        let found = request.found.unwrap_or_else(|| self.store.look_up(request.stream));
        mark(Checkpoint::FindSession);
        let index = match found {
            Ok(index) => index,
            Err(place) => return self.create(cx, request, place),
        };
        let expires_at = cx.now.after_millis(request.lifetime_ms.into());
        let session = self.store.session_mut(index);
        session.expires_at = expires_at;
        let before = core::mem::replace(&mut session.arrival, request.arrival);
        if before != request.arrival {
            self.sources.shares.remove(before);
            self.sources.shares.add(request.arrival);
        }
        let session = self.store.session_mut(index);
        // A refused message may be granted when it is repeated.
        session.fingerprint = 0;
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
        let asked = match *request.asked {
            RequestedRate::Demand(demand) => demand,
            RequestedRate::Measured(measuring) => self.measure(cx.now, index, request, &measuring),
        };
        let session = self.store.session(index);
        let same = session.asked == asked
            && session.ssrc == request.ssrc
            && request.shared == (session.pool != NONE)
            && !session.has_other_token(request.token);
        if !same {
            self.change(cx, index, request, asked)?;
        } else {
            self.counters.refreshed += 1;
        }
        if !self.is_on_next_hops(index, next_hops) {
            self.drop_stale_legs(cx, index, next_hops);
        }
        let version = self.routes_version;
        let session = self.store.session_mut(index);
        (session.fingerprint, session.lifetime_ms) = (request.fingerprint, request.lifetime_ms);
        session.routes_version = version;
        mark(Checkpoint::Refresh);
        Ok(index)
    }

    /// Reserves on one of the outgoing links of a session, unless that is done already.
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
                    // The shared reservation may have to grow.
                    self.mark_for_admission(session);
                }
                self.store.insert_leg(holder, interface)
            }
        };
        if pool != NONE {
            return self.reserve_shared(cx, pool, interface, asked);
        }
        let Leg { full, failed, .. } = *self.store.leg(leg);
        if full && !failed { None } else { self.adjust_claim(cx, leg, asked, Change::Created) }
    }

    /// Creates the session for the first message of a stream.
    fn create<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        request: &Request<'_>,
        place: VacantEntry,
    ) -> Result<Index, FailureReason> {
        let limits = self.config.limits;
        let source = request.stream.source;
        let port = limited_port(cx.context, request.arrival);
        let hash = self.sources.hash(source, port);
        let interfaces = cx.context.interfaces.count();
        if !self.sources.shares.has_room(request.arrival, limits.sessions, interfaces)
            || !self.sources.admits_change(cx.now, hash, limits.changes_per_second)
            || !self.sources.add_stream(hash, (source, port), limits.sessions_per_source)
        {
            return Err(self.limit_reached().reason);
        }
        let (asked, measurement) = match *request.asked {
            RequestedRate::Demand(demand) => (demand, None),
            RequestedRate::Measured(_) => (NOTHING, Some(Measurement::new(cx.now, request.sender))),
        };
        let token = match self.check_token(cx.now, cx.context, request, asked.rate) {
            Ok(token) => token,
            Err(reason) => {
                self.sources.remove_stream(source, port);
                return Err(reason);
            }
        };
        let &Request { sequence, has_own_report_flow, .. } = request;
        let extra = (measurement.is_some() || sequence.is_some()).then(|| {
            alloc::boxed::Box::new(Extra {
                measurement,
                sequence,
                has_own_report_flow,
                token: None,
            })
        });
        let expires_at = cx.now.after_millis(request.lifetime_ms.into());
        let timer = Timer { kind: TimerKind::Session, block: self.store.next_session() };
        let session = Session {
            stream: *request.stream,
            legs: NONE,
            pool: NONE,
            ssrc: request.ssrc,
            arrival: request.arrival,
            port,
            asked,
            fingerprint: request.fingerprint,
            lifetime_ms: request.lifetime_ms,
            routes_version: self.routes_version,
            expires_at,
            timer: Some(self.store.timers.arm(expires_at, timer)),
            extra,
        };
        self.sources.shares.add(request.arrival);
        let index = self.store.insert(session, place);
        if request.shared {
            self.join_pool_or_remove(index)?;
        }
        self.set_token(index, token);
        self.counters.created += 1;
        mark(Checkpoint::CreateSession);
        Ok(index)
    }

    /// Adds a new session to the pool of its group, or removes it again.
    #[inline(never)]
    fn join_pool_or_remove(&mut self, index: Index) -> Result<(), FailureReason> {
        if self.join_pool(index) {
            return Ok(());
        }
        let Session { stream, arrival, port, .. } = *self.store.session(index);
        self.sources.remove_stream(stream.source, port);
        self.sources.shares.remove(arrival);
        self.store.remove(index);
        Err(self.limit_reached().reason)
    }

    /// Changes the request of a session. A decrease is not subject to limits.
    fn change<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        request: &Request<'_>,
        asked: Demand,
    ) -> Result<(), FailureReason> {
        let session = self.store.session_mut(index);
        session.ssrc = request.ssrc;
        let (shared, port) = (session.pool != NONE, session.port);
        let more = asked.rate > session.asked.rate
            || asked.max_packet > session.asked.max_packet
            || asked.min_packet < session.asked.min_packet;
        let rate = self.config.limits.changes_per_second;
        if (more || request.shared != shared)
            && !self.sources.admits_change(
                cx.now,
                self.sources.hash(request.stream.source, port),
                rate,
            )
        {
            return Err(self.limit_reached().reason);
        }
        let token = self.check_token(cx.now, cx.context, request, asked.rate)?;
        self.set_token(index, token);
        self.store.session_mut(index).asked = asked;
        if request.shared != shared {
            self.change_style(cx, index, request.shared)?;
        }
        self.mark_for_admission(index);
        Ok(())
    }

    /// Changes the style of a stream. Reservations in the old style are released.
    #[cold]
    fn change_style<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        shared: bool,
    ) -> Result<(), FailureReason> {
        self.drop_legs(cx, index, Change::Changed);
        if shared && !self.join_pool(index) {
            return Err(self.limit_reached().reason);
        }
        Ok(())
    }

    /// Marks the legs of a stream for admission after a change of its request.
    pub(crate) fn mark_for_admission(&mut self, index: Index) {
        let Session { legs, pool, .. } = *self.store.session(index);
        let first = if pool == NONE { legs } else { self.store.pool(pool).legs };
        let mut next = first;
        while next != NONE {
            let leg = self.store.leg_mut(next);
            leg.full = false;
            next = leg.next;
        }
    }

    /// Returns the demand measured from the reports of a stream.
    fn measure(
        &mut self,
        now: Time,
        index: Index,
        request: &Request<'_>,
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

    /// Returns whether all legs of a session are on its current next hops.
    #[inline]
    fn is_on_next_hops(&self, index: Index, next_hops: NextHops<'_>) -> bool {
        let mut legs = self.store.legs_of(Holder::Session(index));
        legs.all(|leg| next_hops.contains(self.store.leg(leg).interface))
    }

    /// Removes the legs of a stream on links that it no longer takes.
    #[cold]
    fn drop_stale_legs<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        next_hops: NextHops<'_>,
    ) {
        let mut next = self.store.session(index).legs;
        while next != NONE {
            let leg = next;
            next = self.store.leg(leg).next;
            if !next_hops.contains(self.store.leg(leg).interface) {
                self.drop_leg(cx, leg, Change::Moved);
            }
        }
    }

    /// Counts a request over a limit of this node and returns the failure.
    #[cold]
    pub(crate) fn limit_reached(&mut self) -> Failure {
        *self.counters.ignored.entry(DropReason::Limit).or_default() += 1;
        Failure { reason: FailureReason::Limit, available: Rate::ZERO }
    }
}
