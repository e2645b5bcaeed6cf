//! Reservations: what a message asks for is noted, admitted and given to traffic control, or waits.
//!
//! What a link has not room for is noted in the message, which goes on all the same, so that a stream may have what it
//! asks for on some links and not on others (partial reservation). Such a leg tries again with each refresh. And it waits
//! in the ledger's line for others to give back (resource grabbing): each time it enters the line its counter c grows by
//! one, and past the threshold T it may not enter any more. Refreshes are not counted.

use core::time::Duration;

use earmark_core::admission::{ClaimId, Demand, Owner, Protocol, Reason, Refusal, Waiting};
use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Flow, Installation, InterfaceId, Rate, Time};
use earmark_wire::rtcp::SenderInfo;
use earmark_wire::yessir::{FailureReason, Style};

use crate::api::{Change, Event, Stream};
use crate::config::Measuring;
use crate::counters::DropReason;
use crate::flowspec::Asked;
use crate::instance::{Turn, Yessir};
use crate::measure::Measurement;
use crate::state::{Extra, Holder, Index, Leg, NONE, NOTHING, Session, Timer, TimerKind};
use crate::store::Place;
use crate::way::Ways;

/// What a message asks for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) stream: Stream,
    /// What a look-up for it has found, if there was one.
    pub(crate) found: Option<Result<Index, Place>>,
    pub(crate) ssrc: u32,
    pub(crate) asked: Asked,
    pub(crate) shared: bool,
    /// How long it holds without another message, milliseconds.
    pub(crate) lifetime_ms: u32,
    /// What it says, if that is enough to know it again; 0 where it is not.
    pub(crate) said: u64,
    /// What the report says that was sent.
    pub(crate) sender: SenderInfo,
    /// Where it was signed.
    pub(crate) sequence: Option<u64>,
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
        turn: &mut Turn<'_, '_, E>,
        request: &Request,
        ways: Ways<'_>,
    ) -> Result<Index, FailureReason> {
        let found = match request.found {
            Some(found) => found,
            None => self.store.look_up(&request.stream),
        };
        mark(Checkpoint::FindSession);
        let index = match found {
            Ok(index) => index,
            Err(place) => return self.create(turn, request, place),
        };
        let expires_at = turn.now + Duration::from_millis(u64::from(request.lifetime_ms));
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
            Asked::Demand(demand) => demand,
            Asked::Measured(measuring) => self.measure(turn.now, index, request, &measuring),
        };
        let session = self.store.session(index);
        let same = session.asked == asked
            && session.ssrc == request.ssrc
            && request.shared == (session.pool != NONE);
        if !same {
            self.change(turn, index, request, asked)?;
        } else {
            self.counters.refreshed += 1;
        }
        if !self.is_on_its_way(index, ways) {
            self.leave_old_ways(turn, index, ways);
        }
        let version = self.routes_version;
        let session = self.store.session_mut(index);
        (session.said, session.lifetime_ms) = (request.said, request.lifetime_ms);
        session.routes_version = version;
        mark(Checkpoint::Refresh);
        Ok(index)
    }

    /// Reserves on one of the links that a session leaves by what it asks for, if that is not so already.
    #[inline]
    pub(crate) fn reserve_on<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        session: Index,
        interface: InterfaceId,
    ) -> Option<Failure> {
        let holder = Holder::Session(session);
        let leg = match self.store.leg_on(holder, interface) {
            Some(leg) => leg,
            None => {
                let branches = self.store.legs_of(holder).count();
                if branches >= self.config.limits.branches as usize {
                    return Some(self.limit_reached());
                }
                // Where it shares, what is shared there may have to grow.
                self.unsettle(session);
                self.store.insert_leg(holder, interface)
            }
        };
        let Session { asked, pool, .. } = *self.store.session(session);
        if pool != NONE {
            return self.reserve_shared(turn, pool, interface, asked);
        }
        let Leg { full, failed, .. } = *self.store.leg(leg);
        if full && !failed { None } else { self.settle(turn, leg, asked, Change::Created) }
    }

    /// The first message about a stream.
    fn create<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        request: &Request,
        place: Place,
    ) -> Result<Index, FailureReason> {
        let limits = self.config.limits;
        let source = request.stream.source;
        if self.store.sessions.len() >= limits.sessions as usize
            || !self.sources.may_ask(turn.now, source, limits.changes_per_second)
            || !self.sources.enter(source, limits.sessions_per_source)
        {
            return Err(self.limit_reached().reason);
        }
        let (asked, measurement) = match request.asked {
            Asked::Demand(demand) => (demand, None),
            Asked::Measured(_) => (NOTHING, Some(Measurement::new(turn.now, request.sender))),
        };
        let sequence = request.sequence;
        let extra = (measurement.is_some() || sequence.is_some())
            .then(|| alloc::boxed::Box::new(Extra { measurement, sequence }));
        let expires_at = turn.now + Duration::from_millis(u64::from(request.lifetime_ms));
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
            timer: None,
            extra,
        };
        let index = self.store.insert(session, place);
        let timer = Timer { kind: TimerKind::Session, block: index };
        let timer = self.store.timers.arm(expires_at, timer);
        self.store.session_mut(index).timer = Some(timer);
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
        turn: &mut Turn<'_, '_, E>,
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
            && !self.sources.may_ask(turn.now, request.stream.source, rate)
        {
            return Err(self.limit_reached().reason);
        }
        self.store.session_mut(index).asked = asked;
        if request.shared != shared {
            self.change_style(turn, index, request.shared)?;
        }
        self.unsettle(index);
        Ok(())
    }

    /// From now on a stream shares, or does not. What it held in the old style is given back.
    #[cold]
    fn change_style<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        index: Index,
        shared: bool,
    ) -> Result<(), FailureReason> {
        self.drop_legs(turn, index, Change::Changed);
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
    fn is_on_its_way(&self, index: Index, ways: Ways<'_>) -> bool {
        let mut legs = self.store.legs_of(Holder::Session(index));
        legs.all(|leg| ways.contains(self.store.leg(leg).interface))
    }

    /// The stream takes another way now.
    #[cold]
    fn leave_old_ways<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        index: Index,
        ways: Ways<'_>,
    ) {
        let mut next = self.store.session(index).legs;
        while next != NONE {
            let leg = next;
            next = self.store.leg(leg).next;
            if !ways.contains(self.store.leg(leg).interface) {
                self.drop_leg(turn, leg, Change::Moved);
            }
        }
    }

    /// Brings what a leg holds in line with what is wanted.
    pub(crate) fn settle<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        index: Index,
        want: Demand,
        change: Change,
    ) -> Option<Failure> {
        let leg = *self.store.leg(index);
        if leg.failed {
            // The message that comes first says so; the next one tries again.
            self.store.leg_mut(index).failed = false;
            return Some(Failure { reason: FailureReason::TrafficControl, available: Rate::ZERO });
        }
        let held = leg.claim.and_then(|claim| turn.context.ledger.demand(claim));
        if want.rate == Rate::ZERO {
            self.give_back(turn, index, Change::Released);
        }
        if want.rate == Rate::ZERO || held == Some(want) {
            self.wait_no_more(turn, index);
            let leg = self.store.leg_mut(index);
            (leg.full, leg.told) = (true, false);
            return None;
        }
        let flow = self.flow(leg.holder);
        let owner = Owner { protocol: Protocol::Yessir, block: index };
        let ledger = &mut turn.context.ledger;
        let granted = match (self.config.limits.largest, leg.claim) {
            (Some(largest), _) if want.rate > largest => {
                Err(Refusal { reason: Reason::Bandwidth, available: largest })
            }
            (_, Some(claim)) => ledger.change(claim, want).map(|()| claim),
            (_, None) => ledger.claim(leg.interface, owner, &flow, want),
        };
        mark(Checkpoint::Admission);
        let claim = match granted {
            Ok(claim) => claim,
            Err(refusal) => return Some(self.refused(turn, index, want, &refusal)),
        };
        self.wait_no_more(turn, index);
        let interface = leg.interface;
        turn.out.install(Installation { claim, interface, flow, demand: want });
        if leg.told && change != Change::Grabbed {
            self.counters.retried += 1;
        }
        let place = self.store.leg_mut(index);
        (place.claim, place.full, place.told) = (Some(claim), true, false);
        let change = if leg.claim.is_some() { Change::Changed } else { change };
        self.tell(turn, leg.holder, interface, change, want);
        None
    }

    /// The link has not room for what is wanted: it waits, if it may.
    fn refused<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        index: Index,
        want: Demand,
        refusal: &Refusal,
    ) -> Failure {
        self.counters.refused += 1;
        let reason = match refusal.reason {
            Reason::Bandwidth => FailureReason::Bandwidth,
            Reason::MaxPacket => FailureReason::PacketSize,
            Reason::NoSuchLink => FailureReason::NotReservable,
        };
        let mut leg = *self.store.leg(index);
        leg.full = false;
        let owner = Owner { protocol: Protocol::Yessir, block: index };
        if refusal.reason == Reason::Bandwidth && self.is_worth_waiting(turn, leg.interface, want) {
            // What it holds already it need not wait for.
            let held = leg.claim.and_then(|claim| turn.context.ledger.demand(claim));
            let rate = want.rate.saturating_sub(held.map_or(Rate::ZERO, |held| held.rate));
            // Who stands in the line already keeps the place, and is not counted again.
            let refusals = leg.waits.saturating_add(u32::from(!leg.waiting));
            let waiting = Waiting { owner, demand: Demand { rate, ..want }, refusals };
            leg.waiting = turn.context.ledger.enqueue(leg.interface, waiting).is_ok();
            if leg.waiting {
                leg.waits = refusals;
            }
        } else if leg.waiting {
            turn.context.ledger.withdraw(leg.interface, owner);
            leg.waiting = false;
        }
        let available = refusal.available;
        if !leg.told {
            leg.told = true;
            let stream = self.stream_of(leg.holder);
            let Leg { interface, waiting: waits, .. } = leg;
            turn.out.notify(Event::Refused { stream, interface, reason, available, waits });
        }
        *self.store.leg_mut(index) = leg;
        Failure { reason, available }
    }

    /// A leg leaves the line, if it stands there.
    fn wait_no_more<E>(&mut self, turn: &mut Turn<'_, '_, E>, index: Index) {
        let leg = self.store.leg_mut(index);
        if core::mem::take(&mut leg.waiting) {
            let owner = Owner { protocol: Protocol::Yessir, block: index };
            turn.context.ledger.withdraw(leg.interface, owner);
        }
    }

    /// Whether a link could grant it if nobody else held anything. The ledger judges what is waited for, which for an
    /// increase is only the difference.
    fn is_worth_waiting<E>(
        &self,
        turn: &Turn<'_, '_, E>,
        interface: InterfaceId,
        want: Demand,
    ) -> bool {
        let most = turn.context.ledger.link(interface).map_or(Rate::ZERO, |link| link.reservable);
        want.rate <= most.min(self.config.limits.largest.unwrap_or(Rate::MAX))
    }

    /// Others have given back what a leg waited for.
    pub(crate) fn grab<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        interface: InterfaceId,
        owner: Owner,
    ) {
        if owner.protocol != Protocol::Yessir {
            return;
        }
        let Some(leg) = self.store.legs.get_mut(owner.block as usize) else { return };
        if leg.interface != interface || !leg.waiting {
            return;
        }
        leg.waiting = false;
        let want = self.wanted(owner.block);
        if self.settle(turn, owner.block, want, Change::Grabbed).is_none() {
            self.counters.grabbed += 1;
        }
    }

    /// What a leg is to hold.
    fn wanted(&self, leg: Index) -> Demand {
        let Leg { holder, interface, .. } = *self.store.leg(leg);
        match holder {
            Holder::Session(session) => self.store.session(session).asked,
            Holder::Pool(pool) => self.merged(pool, interface).unwrap_or(NOTHING),
        }
    }

    /// Traffic control could not do what the ledger has granted, or the link has gone.
    pub(crate) fn traffic_control_refuses<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        claim: ClaimId,
        owner: Owner,
    ) {
        let Some(index) = self.leg_behind(claim, owner) else { return };
        self.store.leg_mut(index).failed = true;
        self.give_back(turn, index, Change::Failed);
    }

    /// A reservation had to give way to a more important one, but for `kept` of it. It asks again when it is refreshed.
    pub(crate) fn give_way<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        claim: ClaimId,
        owner: Owner,
        kept: Rate,
    ) {
        let Some(index) = self.leg_behind(claim, owner) else { return };
        let demand = turn.context.ledger.demand(claim).filter(|_| kept > Rate::ZERO);
        let Some(demand) = demand else {
            return self.give_back(turn, index, Change::Preempted);
        };
        let leg = self.store.leg_mut(index);
        leg.full = false;
        let (holder, interface) = (leg.holder, leg.interface);
        let flow = self.flow(holder);
        turn.out.install(Installation { claim, interface, flow, demand });
        self.tell(turn, holder, interface, Change::Preempted, demand);
    }

    /// The leg that holds a claim, if it is one of ours and still there.
    fn leg_behind(&self, claim: ClaimId, owner: Owner) -> Option<Index> {
        let leg = self.store.legs.get(owner.block as usize)?;
        (owner.protocol == Protocol::Yessir && leg.claim == Some(claim)).then_some(owner.block)
    }

    /// A leg holds nothing any more; it stays.
    pub(crate) fn give_back<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        index: Index,
        change: Change,
    ) {
        let leg = self.store.leg_mut(index);
        leg.full = false;
        let (holder, interface) = (leg.holder, leg.interface);
        let claim = leg.claim.take();
        self.wait_no_more(turn, index);
        let Some(claim) = claim else { return };
        let demand = turn.context.ledger.demand(claim).unwrap_or(NOTHING);
        turn.context.ledger.release(claim);
        turn.out.remove(claim);
        self.tell(turn, holder, interface, change, demand);
    }

    /// Past a limit of this node nothing can be had.
    #[cold]
    pub(crate) fn limit_reached(&mut self) -> Failure {
        *self.counters.ignored.entry(DropReason::Limit).or_default() += 1;
        Failure { reason: FailureReason::Limit, available: Rate::ZERO }
    }

    /// Whose packets a claim is for.
    fn flow(&self, holder: Holder) -> Flow {
        let stream = self.stream_of(holder);
        match holder {
            Holder::Session(_) => stream.flow(),
            Holder::Pool(_) => Flow { source: None, ..stream.flow() },
        }
    }

    /// The stream of a holder; that of a pool comes from anywhere.
    pub(crate) fn stream_of(&self, holder: Holder) -> Stream {
        match holder {
            Holder::Session(session) => self.store.session(session).stream,
            Holder::Pool(pool) => self.store.pool(pool).stream(),
        }
    }

    pub(crate) fn tell<E: From<Event>>(
        &self,
        turn: &mut Turn<'_, '_, E>,
        holder: Holder,
        interface: InterfaceId,
        change: Change,
        demand: Demand,
    ) {
        let style = match holder {
            Holder::Session(_) => Style::Individual,
            Holder::Pool(_) => Style::Shared,
        };
        let stream = self.stream_of(holder);
        turn.out.notify(Event::Reservation { change, stream, style, interface, demand });
    }
}
