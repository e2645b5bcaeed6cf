//! Admission: what a leg holds of its link is brought in line with what is wanted, by the ledger and in traffic control.
//!
//! What the ledger refuses waits in its line for others to give back (resource grabbing): each time that a leg enters the
//! line its counter c grows by one, and past the threshold T it may not enter any more. Refreshes are not counted.

use earmark_core::admission::{ClaimId, Demand, Owner, Protocol, Reason, Refusal, Waiting};
use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Flow, Installation, InterfaceId, Rate};
use earmark_wire::yessir::{FailureReason, Style};

use crate::api::{Change, Event, Stream};
use crate::instance::{HandlerContext, Yessir};
use crate::reserve::Failure;
use crate::state::{Holder, Index, Leg, NOTHING, Session};

impl Yessir {
    /// Brings what a leg holds in line with what is wanted.
    pub(crate) fn settle<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
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
        let held = leg.claim.and_then(|claim| cx.context.ledger.demand(claim));
        if want.rate == Rate::ZERO {
            self.give_back(cx, index, Change::Released);
        }
        if want.rate == Rate::ZERO || held == Some(want) {
            self.wait_no_more(cx, index);
            let leg = self.store.leg_mut(index);
            (leg.full, leg.told) = (true, false);
            return None;
        }
        let stream = self.stream_of(leg.holder);
        let flow = flow(&stream, leg.holder);
        let owner = Owner { protocol: Protocol::Yessir, block: index };
        let ledger = &mut cx.context.ledger;
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
            Err(refusal) => return Some(self.refused(cx, index, want, &refusal)),
        };
        let place = self.store.leg_mut(index);
        (place.claim, place.full, place.told) = (Some(claim), true, false);
        if leg.waiting {
            self.wait_no_more(cx, index);
        }
        let interface = leg.interface;
        cx.out.install(Installation { claim, interface, flow, demand: want });
        if leg.claim.is_none()
            && let Some(reports) = self.reports(leg.holder)
        {
            cx.out.add_flow(claim, reports);
        }
        if leg.told && change != Change::Grabbed {
            self.counters.retried += 1;
        }
        let change = if leg.claim.is_some() { Change::Changed } else { change };
        cx.out.notify(event(stream, leg.holder, interface, change, want));
        None
    }

    /// The link has not room for what is wanted: it waits, if it may.
    fn refused<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
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
        if refusal.reason == Reason::Bandwidth && self.is_worth_waiting(cx, leg.interface, want) {
            // What it holds already it need not wait for.
            let held = leg.claim.and_then(|claim| cx.context.ledger.demand(claim));
            let rate = want.rate.saturating_sub(held.map_or(Rate::ZERO, |held| held.rate));
            // Who stands in the line already keeps the place, and may not be counted again.
            let refusals = leg.waits.saturating_add(u32::from(!leg.waiting));
            let waiting = Waiting { owner, demand: Demand { rate, ..want }, refusals };
            leg.waiting = cx.context.ledger.enqueue(leg.interface, waiting).is_ok();
            if leg.waiting {
                leg.waits = refusals;
            }
        } else if leg.waiting {
            cx.context.ledger.withdraw(leg.interface, owner);
            leg.waiting = false;
        }
        let available = refusal.available;
        if !leg.told {
            leg.told = true;
            let stream = self.stream_of(leg.holder);
            let Leg { interface, waiting: waits, .. } = leg;
            cx.out.notify(Event::Refused { stream, interface, reason, available, waits });
        }
        *self.store.leg_mut(index) = leg;
        Failure { reason, available }
    }

    /// A leg leaves the line, if it stands there.
    #[inline]
    fn wait_no_more<E>(&mut self, cx: &mut HandlerContext<'_, '_, E>, index: Index) {
        let leg = self.store.leg_mut(index);
        if core::mem::take(&mut leg.waiting) {
            let owner = Owner { protocol: Protocol::Yessir, block: index };
            cx.context.ledger.withdraw(leg.interface, owner);
        }
    }

    /// Whether a link could grant it if nobody else held anything. The ledger judges what is waited for, which for an
    /// increase is only the difference.
    fn is_worth_waiting<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        interface: InterfaceId,
        want: Demand,
    ) -> bool {
        let most = cx.context.ledger.link(interface).map_or(Rate::ZERO, |link| link.reservable);
        want.rate <= most.min(self.config.limits.largest.unwrap_or(Rate::MAX))
    }

    /// Others have given back what a leg waited for.
    pub(crate) fn grab<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
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
        if self.settle(cx, owner.block, want, Change::Grabbed).is_none() {
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
        cx: &mut HandlerContext<'_, '_, E>,
        claim: ClaimId,
        owner: Owner,
    ) {
        let Some(index) = self.leg_behind(claim, owner) else { return };
        self.store.leg_mut(index).failed = true;
        self.give_back(cx, index, Change::Failed);
    }

    /// A reservation had to give way to a more important one, but for `kept` of it. It asks again when it is refreshed.
    pub(crate) fn give_way<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        claim: ClaimId,
        owner: Owner,
        kept: Rate,
    ) {
        let Some(index) = self.leg_behind(claim, owner) else { return };
        let demand = cx.context.ledger.demand(claim).filter(|_| kept > Rate::ZERO);
        let Some(demand) = demand else {
            return self.give_back(cx, index, Change::Preempted);
        };
        let leg = self.store.leg_mut(index);
        leg.full = false;
        let (holder, interface) = (leg.holder, leg.interface);
        let flow = flow(&self.stream_of(holder), holder);
        cx.out.install(Installation { claim, interface, flow, demand });
        self.tell(cx, holder, interface, Change::Preempted, demand);
    }

    /// The leg that holds a claim, if it is one of ours and still there.
    pub(crate) fn leg_behind(&self, claim: ClaimId, owner: Owner) -> Option<Index> {
        let leg = self.store.legs.get(owner.block as usize)?;
        (owner.protocol == Protocol::Yessir && leg.claim == Some(claim)).then_some(owner.block)
    }

    /// A leg holds nothing any more; it stays.
    pub(crate) fn give_back<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        change: Change,
    ) {
        let leg = self.store.leg_mut(index);
        leg.full = false;
        let (holder, interface) = (leg.holder, leg.interface);
        let claim = leg.claim.take();
        self.wait_no_more(cx, index);
        let Some(claim) = claim else { return };
        let demand = cx.context.ledger.release(claim).unwrap_or(NOTHING);
        cx.out.remove(claim);
        self.tell(cx, holder, interface, change, demand);
    }

    /// The reports of a stream, where they go with the data because nobody else sees to them.
    #[inline]
    fn reports(&self, holder: Holder) -> Option<Flow> {
        let Holder::Session(session) = holder else { return None };
        let Session { stream, extra, .. } = self.store.session(session);
        extra.as_ref().filter(|extra| extra.plain)?;
        let source_port = match stream.source_port {
            0 => 0,
            port => port + 1, // it is even, and so is the other one
        };
        let destination_port = stream.destination_port + 1;
        Some(Flow { source_port, destination_port, ..stream.flow() })
    }

    /// The stream of a holder; that of a pool comes from anywhere.
    #[inline]
    pub(crate) fn stream_of(&self, holder: Holder) -> Stream {
        match holder {
            Holder::Session(session) => self.store.session(session).stream,
            Holder::Pool(pool) => self.store.pool(pool).stream(),
        }
    }

    pub(crate) fn tell<E: From<Event>>(
        &self,
        cx: &mut HandlerContext<'_, '_, E>,
        holder: Holder,
        interface: InterfaceId,
        change: Change,
        demand: Demand,
    ) {
        cx.out.notify(event(self.stream_of(holder), holder, interface, change, demand));
    }
}

/// The event of the reservation of a holder whose stream this is.
#[inline]
fn event(
    stream: Stream,
    holder: Holder,
    interface: InterfaceId,
    change: Change,
    demand: Demand,
) -> Event {
    let style = match holder {
        Holder::Session(_) => Style::Individual,
        Holder::Pool(_) => Style::Shared,
    };
    Event::Reservation { change, stream, style, interface, demand }
}

/// Whose packets the claim of a holder is for whose stream this is.
#[inline]
fn flow(stream: &Stream, holder: Holder) -> Flow {
    match holder {
        Holder::Session(_) => stream.flow(),
        Holder::Pool(_) => Flow { source: None, ..stream.flow() },
    }
}
