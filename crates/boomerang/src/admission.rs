//! Admission: bandwidth that half a session claims and releases in its link's ledger, and the matching traffic
//! control.

use alloc::boxed::Box;

use earmark_core::admission::{ClaimId, Demand, Displaced, Owner, Reason, Refusal, Service};
use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Context, Installation, InterfaceId, Rate, Time};

use crate::api::{Change, Event};
use crate::context::HandlerContext;
use crate::counters::RefusalReason;
use crate::instance::Boomerang;
use crate::message::{Origin, Refused, TransitMessage};
use crate::selector::{Direction, Selector};
use crate::state::{Extra, Half, Index, Session, flag};
use crate::store::{Grant, InitiatorEntry, Key, VacantEntry};

/// Whether the initiating node may change something: its entry, or the refusal. Decided once per message; `None` before.
pub(crate) type AccessDecision = Option<Result<InitiatorEntry, Refused>>;

impl Boomerang {
    /// Reserves `wanted` bits per second for half a session on a link, in the place of its current rate. If the
    /// change is refused, nothing changes.
    pub(crate) fn admit<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
        (slot, interface): (usize, InterfaceId),
        grant: &mut Grant,
        wanted: u32,
        decision: &mut AccessDecision,
    ) -> Result<(), Refused> {
        let direction = Direction::of_slot(slot);
        let held = match *grant {
            Grant::Known(index) => {
                let session = self.store.session_mut(index);
                if session.flags & direction.fault() != 0 {
                    session.flags &= !direction.fault();
                    if wanted != 0 {
                        return Err(Refused::without_offer(RefusalReason::TrafficControl));
                    }
                }
                session.half_at(slot)
            }
            Grant::New { .. } => Half::NONE,
        };
        let has_other_token = || match *grant {
            Grant::Known(index) => self.has_other_token(transit, index),
            Grant::New { .. } => false,
        };
        if held.rate == wanted && (wanted == 0 || !has_other_token()) {
            self.counters.refreshed += u64::from(held.is_there());
            return Ok(());
        }
        let verdict = decision.get_or_insert_with(|| {
            self.check_change((cx.now, cx.context, &mut *cx.out), transit, (&*grant, wanted))
        });
        let entry = verdict.as_ref().map_err(|refused| *refused)?;
        match *grant {
            Grant::Known(index) if wanted == 0 => {
                self.release_half(cx, index, slot, Change::Released);
                Ok(())
            }
            Grant::Known(index) if held.is_there() => {
                let granted = cx.context.ledger.change(held.claim, self.demand(wanted));
                mark(Checkpoint::Admission);
                granted.map_err(Refused::from_ledger)?;
                self.store.session_mut(index).half_at_mut(slot).rate = wanted;
                if wanted < held.rate {
                    self.end_adopted_class(cx, index, held.claim);
                }
                self.install(cx, index, slot);
                self.notify_reservation(cx, index, slot, Change::Changed);
                Ok(())
            }
            _ => self.claim(cx, transit, (slot, interface), grant, (wanted, entry)),
        }
    }

    /// Claims a rate for a half that holds nothing.
    fn claim<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
        (slot, interface): (usize, InterfaceId),
        grant: &mut Grant,
        (wanted, entry): (u32, &InitiatorEntry),
    ) -> Result<(), Refused> {
        let (key, block) = match grant {
            Grant::Known(index) => (self.store.key(*index), *index),
            Grant::New { key, .. } => (*key, self.store.sessions.vacant_key() as Index),
        };
        let unclear = Refused::without_offer(RefusalReason::Mask);
        let shape = &self.store.masks.mask(key.mask).shape;
        let Some(selector) = key.keys().map(|keys| Selector::of_keys(&keys, shape)) else {
            return Err(unclear);
        };
        let Some(flow) = selector.flow(shape.tos, Direction::of_slot(slot)) else {
            return Err(unclear);
        };
        let owner = Owner { protocol: crate::ID, block };
        let demand = self.demand(wanted);
        let adopted = match self.config.lock {
            true => cx.context.ledger.adopted_rate(interface, &flow),
            false => None,
        };
        let granted = cx.context.ledger.claim(interface, owner, &flow, demand);
        mark(Checkpoint::Admission);
        let claim = granted.map_err(Refused::from_ledger)?;
        // The claim has replaced it, unless it may be another protocol's.
        let adopted =
            adopted.filter(|_| cx.context.ledger.adopted_rate(interface, &flow).is_none());
        let index = match *grant {
            Grant::Known(index) => index,
            Grant::New { key, place, prime } => {
                if self.config.offload && transit.origin != Origin::Settled {
                    cx.out.notify(Event::Withhold { selector });
                }
                let index = self.create(cx.context, transit, key, place, prime, entry);
                if let Some(token) = self.pending_token.take() {
                    self.set_token(index, Some(token));
                }
                index
            }
        };
        *grant = Grant::Known(index);
        let session = self.store.session_mut(index);
        // The caller sets the lifetime from the message; see `extend_lifetime`.
        let half = Half { claim, expires_at: Time::MAX, rate: wanted, interface };
        *session.half_at_mut(slot) = half;
        if slot == Direction::Reverse as usize {
            session.flags &= !flag::REPLY_EXPECTED;
        }
        self.counters.created += 1;
        if session.flags & flag::LOCKED == 0 {
            cx.out.install(Installation { claim, interface, flow, demand });
        } else if let Some(adopted) = adopted {
            // What an earlier daemon has put in force stays so, and ends with this claim.
            session.flags |= flag::ADOPTED;
            let rate = u32::try_from(adopted.as_bps()).unwrap_or(u32::MAX);
            let demand = self.demand(rate.min(wanted));
            cx.out.install(Installation { claim, interface, flow, demand });
        }
        cx.out.notify(event(selector, slot, &half, Change::Created));
        mark(Checkpoint::ReservationManagement);
        Ok(())
    }

    /// Creates a session that holds nothing.
    #[inline(always)]
    pub(crate) fn create(
        &mut self,
        context: &Context<'_>,
        transit: &TransitMessage<'_>,
        key: Key,
        place: VacantEntry,
        prime: u32,
        entry: &InitiatorEntry,
    ) -> Index {
        let [w0, w1, rest @ ..] = key.words;
        let extra = (rest != [0; 3]).then(|| Box::new(Extra { rest, ..Extra::default() }));
        let flags = match (prime, transit.direction) {
            (0, _) => 0,
            (_, Direction::Forward) => flag::LOCKED,
            (_, Direction::Reverse) => flag::LOCKED | flag::LOCKED_ON_RETURN,
        };
        let unproven = match transit.origin {
            Origin::Own => 0,
            Origin::Others | Origin::Settled => transit.direction.unproven(),
        };
        let mut session = Session {
            words: [w0, w1],
            halves: [Half::NONE; 2],
            extra,
            timer: None,
            source: self.store.join(entry, transit.initiator),
            far: 0,
            reply_arrival: crate::arrival::NONE,
            epoch: self.epoch,
            prime,
            mask: key.mask,
            flags: flags | unproven,
        };
        session.record_origin(transit);
        let index = self.store.insert(place, session);
        self.record_credential(context, transit, index);
        mark(Checkpoint::CreateSession);
        index
    }

    /// Returns what a rate demands of a link.
    #[inline]
    pub(crate) fn demand(&self, rate: u32) -> Demand {
        let burst = u64::try_from(self.config.burst.as_micros()).unwrap_or(u64::MAX);
        let octets = u64::from(rate).saturating_mul(burst) / 8_000_000;
        Demand {
            service: Service::ControlledLoad,
            rate: Rate::from_bps(rate.into()),
            burst: u32::try_from(octets).unwrap_or(u32::MAX).max(self.config.min_burst),
            max_packet: 0,
            min_packet: 0,
        }
    }

    /// Installs half a session in traffic control, unless the session is locked.
    pub(crate) fn install<E>(&self, cx: &mut HandlerContext<'_, '_, E>, index: Index, slot: usize) {
        let session = self.store.session(index);
        let half = session.half_at(slot);
        if session.flags & flag::LOCKED != 0 || !half.is_there() {
            return;
        }
        let Some(flow) = self.store.flow(index, Direction::of_slot(slot)) else { return };
        let Half { claim, interface, rate, .. } = half;
        cx.out.install(Installation { claim, interface, flow, demand: self.demand(rate) });
    }

    /// Removes the class that an earlier daemon made for a locked session whose claim is less now: the class may have more
    /// than the ledger, and what the session changes to is not in force before it is unlocked.
    fn end_adopted_class<E>(
        &self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        claim: ClaimId,
    ) {
        const LOCKED: u16 = flag::LOCKED | flag::ADOPTED;
        if self.store.session(index).flags & LOCKED == LOCKED {
            cx.out.remove(claim);
        }
    }

    /// Releases half a session. The session stays, even if it is empty now.
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
        let selector = self.store.selector(index);
        self.release_slot(cx, index, slot, selector.as_ref(), change);
    }

    /// Releases a slot of the session with these packets, if the slot holds anything.
    fn release_slot<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        slot: usize,
        selector: Option<&Selector>,
        change: Change,
    ) {
        let session = self.store.session_mut(index);
        let installed = session.flags & (flag::LOCKED | flag::ADOPTED) != flag::LOCKED;
        // A half without a claim keeps the time at which its fault, or the wait for a reply, ends.
        if !session.half_at(slot).is_there() {
            return;
        }
        let Some(half) = session.take_half(slot) else { return };
        if let Some(selector) = selector {
            cx.out.notify(event(*selector, slot, &half, change));
        }
        cx.context.ledger.release(half.claim);
        if installed {
            cx.out.remove(half.claim);
        }
    }

    /// Removes a session and releases all that it holds.
    pub(crate) fn release_session<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        change: Change,
    ) {
        // The offload is sent the recall only, nothing before.
        self.store.session_mut(index).flags &= !flag::OFFLOAD;
        let selector = self.store.selector(index);
        for slot in 0..self.store.session(index).slots() {
            self.release_slot(cx, index, slot, selector.as_ref(), change);
        }
        mark(Checkpoint::ReservationManagement);
        self.remove(cx, index);
    }

    /// Removes a session that is empty; see [`Session::is_empty`].
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
        self.set_token(index, None);
        let extra = self.store.session_mut(index).extra.as_mut();
        if let Some(member) = extra.and_then(|extra| extra.member.take()) {
            self.aggregates.leave(&member);
        }
        self.store.remove(index);
        mark(Checkpoint::TearSession);
    }

    /// Extends the lifetime of half a session by so many refresh intervals from now, or by less while its initiating
    /// node is unproven.
    #[inline(always)]
    pub(crate) fn extend_lifetime(&mut self, now: Time, index: Index, slot: usize, interval: u8) {
        let mut expires_at = self.config.expiry_time(now, interval);
        let session = self.store.session_mut(index);
        if session.flags & Direction::of_slot(slot).unproven() != 0 {
            expires_at = expires_at.min(now + self.config.unproven_lifetime);
        }
        let Some(half) = session.known_half_mut(slot).filter(|half| half.is_there()) else {
            return;
        };
        let before = core::mem::replace(&mut half.expires_at, expires_at);
        if expires_at < before {
            self.store.rearm(index);
        }
    }

    /// Handles the timer of a session: halves that were not refreshed expire.
    pub(crate) fn handle_expiry_timer<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        self.store.session_mut(index).timer = None;
        if self.ask_before_expiry(cx, index) {
            return;
        }
        for slot in 0..self.store.session(index).slots() {
            let half = self.store.session(index).half_at(slot);
            if half.expires_at > cx.now {
                continue;
            }
            self.counters.expired += u64::from(half.is_there());
            self.release_half(cx, index, slot, Change::Expired);
            let pending = match Direction::of_slot(slot) {
                Direction::Forward => flag::FORWARD_FAULT,
                Direction::Reverse => flag::REVERSE_FAULT | flag::REPLY_EXPECTED,
            };
            let session = self.store.session_mut(index);
            session.take_half(slot);
            session.flags &= !pending;
        }
        if self.store.session(index).is_empty() {
            self.remove(cx, index);
        } else {
            self.store.rearm(index);
        }
    }

    /// Checks half a session against its route: its packets now leave through `interface`. A claim on another link is
    /// released.
    #[inline(always)]
    pub(crate) fn check_route<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        slot: usize,
        interface: InterfaceId,
    ) {
        let half = self.store.session(index).half_at(slot);
        // The claims of a removed link are gone with it.
        let gone = half.is_there() && cx.context.ledger.owner(half.claim).is_none();
        if half.is_there() && (half.interface != interface || gone) {
            self.release_half(cx, index, slot, Change::Moved);
        }
        self.store.session_mut(index).flags &= !Direction::of_slot(slot).stale();
    }

    /// Handles a refusal by traffic control of what the ledger had granted. The next message of the session reports
    /// it to the initiating node.
    pub(crate) fn handle_traffic_control_refusal<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        claim: ClaimId,
        owner: Owner,
    ) {
        let Some((index, slot)) = self.store.half_of(claim, owner) else { return };
        let expires_at = self.store.session(index).half_at(slot).expires_at;
        self.release_half(cx, index, slot, Change::Orphaned);
        let session = self.store.session_mut(index);
        session.flags |= Direction::of_slot(slot).fault();
        session.half_at_mut(slot).expires_at = expires_at;
    }

    /// Handles preemption of a claim, in whole or in part. The next refresh asks for the rest and is refused.
    pub(crate) fn handle_preemption<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        displaced: &Displaced,
    ) {
        let Some((index, slot)) = self.store.half_of(displaced.claim, displaced.owner) else {
            return;
        };
        self.counters.preempted += 1;
        match u32::try_from(displaced.kept.as_bps()) {
            Ok(kept @ 1..) => {
                self.withhold(cx, index);
                self.store.session_mut(index).half_at_mut(slot).rate = kept;
                self.end_adopted_class(cx, index, displaced.claim);
                self.install(cx, index, slot);
                self.notify_reservation(cx, index, slot, Change::Preempted);
            }
            _ => {
                self.release_half(cx, index, slot, Change::Preempted);
                self.remove_if_empty(cx, index);
            }
        }
    }

    /// Notifies watchers of a change of half a session.
    pub(crate) fn notify_reservation<E: From<Event>>(
        &self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        slot: usize,
        change: Change,
    ) {
        let Some(selector) = self.store.selector(index) else { return };
        let half = self.store.session(index).half_at(slot);
        cx.out.notify(event(selector, slot, &half, change));
    }
}

/// Returns the event for half a session.
fn event(selector: Selector, slot: usize, half: &Half, change: Change) -> Event {
    let (direction, interface) = (Direction::of_slot(slot), half.interface);
    let rate = Rate::from_bps(half.rate.into());
    Event::Reservation { change, selector, direction, interface, rate }
}

impl Refused {
    fn from_ledger(refusal: Refusal) -> Refused {
        let offer = u32::try_from(refusal.available.as_bps()).unwrap_or(u32::MAX);
        match refusal.reason {
            Reason::Bandwidth => Refused { reason: RefusalReason::Bandwidth, offer },
            Reason::MaxPacket | Reason::NoSuchLink => {
                Refused::without_offer(RefusalReason::NoSuchLink)
            }
        }
    }
}
