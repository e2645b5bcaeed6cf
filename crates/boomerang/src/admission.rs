//! Claims: what half a session takes of its link's ledger and gives back, and what traffic control is told of it.

use earmark_core::admission::{
    ClaimId, Demand, Displaced, Owner, Protocol, Reason, Refusal, Service,
};
use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Flow, Installation, InterfaceId, Rate, Time};
use earmark_wire::boomerang::{Keys, Shape};

use alloc::boxed::Box;

use crate::api::{Change, Direction, Event, Selector};
use crate::counters::RefusalReason;
use crate::instance::{Boomerang, HandlerContext};
use crate::message::{Origin, Passing, Refused};
use crate::state::{Extra, Half, Index, Session, Timer, TimerKind, flag};
use crate::store::{Asker, Key, Place, Store};

/// Whose half is to be granted something.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Grant {
    /// A session's that is there.
    Known(Index),
    /// A session's that is made with its first grant.
    New {
        key: Key,
        place: Place,
        /// The lock to make it with; 0 for none.
        prime: u32,
    },
}

/// Whether it was looked at who asks for a change; once a message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AccessDecision {
    /// Not yet.
    NotYet,
    /// And this came out: what is known of the initiating node, or why it may not.
    Already(Result<Asker, Refused>),
}

impl Boomerang {
    /// Gives half a session a rate on a link, of which it may have another now: all of it, or nothing changes.
    pub(crate) fn admit<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        (slot, interface): (usize, InterfaceId),
        grant: &mut Grant,
        wanted: u32,
        asked: &mut AccessDecision,
    ) -> Result<(), Refused> {
        let direction = Direction::of_slot(slot);
        let held = match *grant {
            Grant::Known(index) => {
                let session = self.store.session_mut(index);
                if session.flags & direction.fault() != 0 {
                    session.flags &= !direction.fault();
                    if wanted != 0 {
                        return Err(Refused::flatly(RefusalReason::TrafficControl));
                    }
                }
                session.half_at(slot)
            }
            Grant::New { .. } => Half::NONE,
        };
        if held.rate == wanted {
            self.counters.refreshed += u64::from(held.is_there());
            return Ok(());
        }
        let verdict = match *asked {
            AccessDecision::Already(verdict) => verdict,
            AccessDecision::NotYet => self.may_change(cx.now, passing, grant),
        };
        *asked = AccessDecision::Already(verdict);
        let asker = verdict?;
        match *grant {
            Grant::Known(index) if wanted == 0 => {
                self.release_half(cx, index, slot, Change::Released);
                Ok(())
            }
            Grant::Known(index) if held.is_there() => {
                let granted = cx.context.ledger.change(held.claim, self.demand(wanted));
                mark(Checkpoint::Admission);
                granted.map_err(Refused::by_ledger)?;
                self.store.session_mut(index).half_at_mut(slot).rate = wanted;
                self.install(cx, index, slot);
                self.tell(cx, index, slot, Change::Changed);
                Ok(())
            }
            _ => self.claim(cx, passing, (slot, interface), grant, (wanted, asker)),
        }
    }

    /// Claims a rate for a half that has nothing.
    fn claim<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        (slot, interface): (usize, InterfaceId),
        grant: &mut Grant,
        (wanted, asker): (u32, Asker),
    ) -> Result<(), Refused> {
        let (key, block) = match grant {
            Grant::Known(index) => (self.store.key(*index), *index),
            Grant::New { key, .. } => (*key, self.store.sessions.vacant_key() as Index),
        };
        let unclear = Refused::flatly(RefusalReason::Mask);
        let shape = &self.store.masks.mask(key.mask).shape;
        let Some(selector) = key.keys().map(|keys| Selector::of_keys(&keys, shape)) else {
            return Err(unclear);
        };
        let Some(flow) = flow(&selector, shape.tos, Direction::of_slot(slot)) else {
            return Err(unclear);
        };
        let owner = Owner { protocol: Protocol::Boomerang, block };
        let demand = self.demand(wanted);
        let granted = cx.context.ledger.claim(interface, owner, &flow, demand);
        mark(Checkpoint::Admission);
        let claim = granted.map_err(Refused::by_ledger)?;
        let index = match *grant {
            Grant::Known(index) => index,
            Grant::New { key, place, prime } => {
                if self.config.offload && passing.origin != Origin::Settled {
                    cx.out.notify(Event::Withhold { selector });
                }
                self.create(passing, key, place, prime, asker)
            }
        };
        *grant = Grant::Known(index);
        let session = self.store.session_mut(index);
        // A message that carries its life comes with it; see `prolong`.
        let half = Half { claim, expires_at: Time::MAX, rate: wanted, interface };
        *session.half_at_mut(slot) = half;
        self.counters.created += 1;
        if session.flags & flag::LOCKED == 0 {
            cx.out.install(Installation { claim, interface, flow, demand });
        }
        cx.out.notify(event(selector, slot, &half, Change::Created));
        mark(Checkpoint::ReservationManagement);
        Ok(())
    }

    /// A session without anything.
    fn create(
        &mut self,
        passing: &Passing<'_>,
        key: Key,
        place: Place,
        prime: u32,
        asker: Asker,
    ) -> Index {
        let [w0, w1, rest @ ..] = key.words;
        let extra = (rest != [0; 3]).then(|| Box::new(Extra { rest, ..Extra::default() }));
        let flags = match (prime, passing.direction) {
            (0, _) => 0,
            (_, Direction::Forward) => flag::LOCKED,
            (_, Direction::Reverse) => flag::LOCKED | flag::LOCKED_ON_RETURN,
        };
        let session = Session {
            words: [w0, w1],
            halves: [Half::NONE; 2],
            extra,
            timer: None,
            source: self.store.join(asker, passing.initiator),
            epoch: self.epoch,
            prime,
            mask: key.mask,
            flags,
        };
        let index = self.store.insert(place, session);
        mark(Checkpoint::CreateSession);
        index
    }

    /// What a rate claims of a link.
    #[inline]
    pub(crate) fn demand(&self, rate: u32) -> Demand {
        let burst = u64::try_from(self.config.burst.as_micros()).unwrap_or(u64::MAX);
        let octets = u64::from(rate).saturating_mul(burst) / 8_000_000;
        Demand {
            service: Service::ControlledLoad,
            rate: Rate::from_bps(rate.into()),
            burst: u32::try_from(octets).unwrap_or(u32::MAX).max(self.config.min_burst),
            max_packet: 0,
        }
    }

    /// Which packets a session is about.
    pub(crate) fn selector(&self, index: Index) -> Option<Selector> {
        let key = self.store.key(index);
        let shape = &self.store.masks.mask(key.mask).shape;
        key.keys().map(|keys| Selector::of_keys(&keys, shape))
    }

    pub(crate) fn keys_of(&self, index: Index) -> Option<(Keys, Shape)> {
        let key = self.store.key(index);
        Some((key.keys()?, self.store.masks.mask(key.mask).shape))
    }

    /// As traffic control can tell its packets apart, if it can.
    pub(crate) fn flow(&self, index: Index, direction: Direction) -> Option<Flow> {
        let tos = self.store.masks.mask(self.store.session(index).mask).shape.tos;
        flow(&self.selector(index)?, tos, direction)
    }

    /// Puts what half a session has into traffic control, unless it is locked.
    pub(crate) fn install<E>(&self, cx: &mut HandlerContext<'_, '_, E>, index: Index, slot: usize) {
        let session = self.store.session(index);
        let half = session.half_at(slot);
        if session.flags & flag::LOCKED != 0 || !half.is_there() {
            return;
        }
        let Some(flow) = self.flow(index, Direction::of_slot(slot)) else { return };
        let Half { claim, interface, rate, .. } = half;
        cx.out.install(Installation { claim, interface, flow, demand: self.demand(rate) });
    }

    /// Gives back what half a session has. The session stays, even if it is empty now.
    pub(crate) fn release_half<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        slot: usize,
        change: Change,
    ) {
        if self.store.session(index).half_at(slot).is_there() {
            self.withhold(cx, index);
        }
        let selector = self.selector(index);
        self.give_back(cx, index, slot, selector.as_ref(), change);
    }

    /// Gives back what a session of these packets has in a slot, if it has anything there.
    fn give_back<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        slot: usize,
        selector: Option<&Selector>,
        change: Change,
    ) {
        let session = self.store.session_mut(index);
        let installed = session.flags & flag::LOCKED == 0;
        let Some(half) = session.take_half(slot).filter(Half::is_there) else { return };
        if let Some(selector) = selector {
            cx.out.notify(event(*selector, slot, &half, change));
        }
        cx.context.ledger.release(half.claim);
        if installed {
            cx.out.remove(half.claim);
        }
    }

    /// Ends a session.
    pub(crate) fn release_session<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        change: Change,
    ) {
        // Others hear of the end, and of nothing before.
        self.store.session_mut(index).flags &= !flag::OFFLOAD;
        let selector = self.selector(index);
        for slot in 0..self.store.session(index).slots() {
            self.give_back(cx, index, slot, selector.as_ref(), change);
        }
        mark(Checkpoint::ReservationManagement);
        self.remove(cx, index);
    }

    /// Takes a session out that has nothing and nothing to say.
    pub(crate) fn remove_if_empty<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        if self.store.session(index).is_empty() {
            self.remove(cx, index);
        }
    }

    fn remove<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>, index: Index) {
        if self.config.offload {
            self.recall(cx, index);
        }
        self.leave_aggregate(index);
        self.store.remove(index);
        mark(Checkpoint::TearSession);
    }

    /// Half a session lives on until so many refresh intervals from now.
    pub(crate) fn prolong(&mut self, now: Time, index: Index, slot: usize, interval: u8) {
        let expires_at = self.config.end_of_life(now, interval);
        let session = self.store.session_mut(index);
        let Some(half) = session.known_half_mut(slot).filter(|half| half.is_there()) else {
            return;
        };
        let before = core::mem::replace(&mut half.expires_at, expires_at);
        if expires_at < before {
            self.rearm(index);
        }
    }

    /// Has the timer of a session go off no later than the first of what it has ends.
    #[inline]
    pub(crate) fn rearm(&mut self, index: Index) {
        let session = &self.store.sessions[index as usize];
        let first = session.first_end();
        let soon = |timer| self.store.timers.deadline(timer).is_some_and(|at| at <= first);
        if !session.timer.is_some_and(soon) {
            self.arm(index, first);
        }
    }

    /// Has the timer of a session go off at a time.
    #[inline]
    pub(crate) fn arm(&mut self, index: Index, at: Time) {
        let Store { sessions, timers, .. } = &mut self.store;
        let timer = &mut sessions[index as usize].timer;
        if !timer.is_some_and(|timer| timers.rearm(timer, at)) {
            *timer = Some(timers.arm(at, Timer::new(TimerKind::Expiry, index)));
        }
    }

    /// The timer of a session has gone off: what was not refreshed ends.
    pub(crate) fn session_is_due<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        self.store.session_mut(index).timer = None;
        if self.ask_before_end(cx, index) {
            return;
        }
        for slot in 0..self.store.session(index).slots() {
            let half = self.store.session(index).half_at(slot);
            if half.expires_at > cx.now {
                continue;
            }
            self.counters.expired += u64::from(half.is_there());
            self.release_half(cx, index, slot, Change::Expired);
            self.store.session_mut(index).flags &= !Direction::of_slot(slot).fault();
        }
        if self.store.session(index).is_empty() {
            self.remove(cx, index);
        } else {
            self.rearm(index);
        }
    }

    /// The packets of half a session leave through `interface` now. What it has elsewhere is given back.
    pub(crate) fn check_route<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        slot: usize,
        interface: InterfaceId,
    ) {
        let half = self.store.session(index).half_at(slot);
        // A link that has gone has taken its claims with it.
        let gone = half.is_there() && cx.context.ledger.owner(half.claim).is_none();
        if half.is_there() && (half.interface != interface || gone) {
            self.release_half(cx, index, slot, Change::Moved);
        }
        self.store.session_mut(index).flags &= !Direction::of_slot(slot).stale();
    }

    /// What the ledger has granted could not be put into traffic control. The initiating node is told with the next
    /// message that comes by.
    pub(crate) fn traffic_control_refuses<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        claim: ClaimId,
        owner: Owner,
    ) {
        let Some((index, slot)) = self.half_of(claim, owner) else { return };
        let expires_at = self.store.session(index).half_at(slot).expires_at;
        self.release_half(cx, index, slot, Change::Orphaned);
        let session = self.store.session_mut(index);
        session.flags |= Direction::of_slot(slot).fault();
        session.half_at_mut(slot).expires_at = expires_at;
    }

    /// More important reservations took the place of one here, wholly or in part. The next refresh asks for the rest, and
    /// is refused.
    pub(crate) fn give_way<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        displaced: &Displaced,
    ) {
        let Some((index, slot)) = self.half_of(displaced.claim, displaced.owner) else { return };
        self.counters.preempted += 1;
        match u32::try_from(displaced.kept.as_bps()) {
            Ok(kept @ 1..) => {
                self.withhold(cx, index);
                self.store.session_mut(index).half_at_mut(slot).rate = kept;
                self.install(cx, index, slot);
                self.tell(cx, index, slot, Change::Preempted);
            }
            _ => {
                self.release_half(cx, index, slot, Change::Preempted);
                self.remove_if_empty(cx, index);
            }
        }
    }

    /// The half session that a claim is behind, if it is one of ours and still there.
    pub(crate) fn half_of(&self, claim: ClaimId, owner: Owner) -> Option<(Index, usize)> {
        let session = self.store.sessions.get(owner.block as usize)?;
        let same = |&slot: &usize| {
            let half = session.half_at(slot);
            half.is_there() && half.claim == claim
        };
        let slot = (0..session.slots()).find(same)?;
        (owner.protocol == Protocol::Boomerang).then_some((owner.block, slot))
    }

    /// Tells watchers of half a session.
    pub(crate) fn tell<E: From<Event>>(
        &self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        slot: usize,
        change: Change,
    ) {
        let Some(selector) = self.selector(index) else { return };
        let half = self.store.session(index).half_at(slot);
        cx.out.notify(event(selector, slot, &half, change));
    }
}

/// The event of half a session.
fn event(selector: Selector, slot: usize, half: &Half, change: Change) -> Event {
    let (direction, interface) = (Direction::of_slot(slot), half.interface);
    let rate = Rate::from_bps(half.rate.into());
    Event::Reservation { change, selector, direction, interface, rate }
}

impl Refused {
    fn by_ledger(refusal: Refusal) -> Refused {
        let offer = u32::try_from(refusal.available.as_bps()).unwrap_or(u32::MAX);
        match refusal.reason {
            Reason::Bandwidth => Refused { reason: RefusalReason::Bandwidth, offer },
            Reason::MaxPacket | Reason::NoSuchLink => Refused::flatly(RefusalReason::NoSuchLink),
        }
    }
}

/// The packets of one direction, as traffic control can tell them apart: prefixes of addresses, a protocol or none, and ports
/// that are not zero.
#[inline]
pub(crate) fn flow(packets: &Selector, tos: bool, direction: Direction) -> Option<Flow> {
    let &Selector { source, destination, protocol, source_port, destination_port } = packets;
    let zero = |port: Option<u16>| port == Some(0);
    if tos || protocol == Some(0) || zero(source_port) || zero(destination_port) {
        return None;
    }
    let (from, to, source_port, destination_port) = match direction {
        Direction::Forward => (source, destination, source_port, destination_port),
        Direction::Reverse => (destination, source, destination_port, source_port),
    };
    let all = if destination.address().is_ipv4() { 32 } else { 128 };
    let flow = Flow {
        destination: to.address(),
        source: (from.length() != 0).then_some(from.address()),
        protocol: protocol.unwrap_or(0),
        destination_port: destination_port.unwrap_or(0),
        source_port: source_port.unwrap_or(0),
        flow_label: 0,
        destination_open: all - to.length(),
        source_open: if from.length() == 0 { 0 } else { all - from.length() },
    };
    // What traffic control finds out about single flows is its own to say.
    (!flow.is_range() || flow.check().is_ok()).then_some(flow)
}
