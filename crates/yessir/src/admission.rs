//! Admission: adjusts the claim of a leg in its link's ledger, and traffic control, to the requested demand.
//!
//! A request that the ledger refuses waits in its queue for released bandwidth (resource grabbing): each time that a
//! leg enters the queue its counter c grows by one, and past the threshold T it may not enter any more. Refreshes are
//! not counted.

use earmark_core::admission::{ClaimId, Demand, Owner, QueuedRequest, Reason, Refusal};
use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Flow, Installation, InterfaceId, Rate};
use earmark_wire::yessir::{FailureReason, Style};

use crate::api::{Change, Event, Stream};
use crate::instance::{HandlerContext, Yessir};
use crate::reserve::Failure;
use crate::state::{Holder, Index, Leg, NOTHING, Session};

impl Yessir {
    /// Adjusts the claim of a leg to a demand. Returns the failure to note in the message, if any.
    pub(crate) fn adjust_claim<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        want: Demand,
        change: Change,
    ) -> Option<Failure> {
        let leg = *self.store.leg(index);
        if leg.failed {
            // The first message after the failure reports it; the next one tries again.
            self.store.leg_mut(index).failed = false;
            return Some(Failure { reason: FailureReason::TrafficControl, available: Rate::ZERO });
        }
        let held = leg.claim.and_then(|claim| cx.context.ledger.demand(claim));
        if want.rate == Rate::ZERO {
            self.release_claim(cx, index, Change::Released);
        }
        if want.rate == Rate::ZERO || held == Some(want) {
            self.leave_queue(cx, index);
            let leg = self.store.leg_mut(index);
            (leg.full, leg.refusal_reported) = (true, false);
            return None;
        }
        let stream = self.stream_of(leg.holder);
        let flow = flow(&stream, leg.holder);
        let owner = Owner { protocol: crate::ID, block: index };
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
            Err(refusal) => return Some(self.handle_refusal(cx, index, want, &refusal)),
        };
        let place = self.store.leg_mut(index);
        (place.claim, place.full, place.refusal_reported) = (Some(claim), true, false);
        if leg.waiting {
            self.leave_queue(cx, index);
        }
        let interface = leg.interface;
        cx.out.install(Installation { claim, interface, flow, demand: want });
        if leg.claim.is_none()
            && let Some(reports) = self.report_flow(leg.holder)
        {
            cx.out.add_flow(claim, reports);
        }
        if leg.refusal_reported && change != Change::Grabbed {
            self.counters.retried += 1;
        }
        let change = if leg.claim.is_some() { Change::Changed } else { change };
        cx.out.notify(event(stream, leg.holder, interface, change, want));
        None
    }

    /// Handles a refusal by the ledger: the leg is queued if it may be.
    #[cold]
    fn handle_refusal<E: From<Event>>(
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
        let owner = Owner { protocol: crate::ID, block: index };
        if refusal.reason == Reason::Bandwidth && self.fits_empty_link(cx, leg.interface, want) {
            // Only the increase has to wait.
            let held = leg.claim.and_then(|claim| cx.context.ledger.demand(claim));
            let overhead = cx.context.ledger.overhead(leg.interface);
            let want = match held {
                // Smaller packets may need more of the link at the same rate.
                Some(held) => Demand {
                    rate: (want.rate_on_link(overhead)).saturating_sub(held.rate_on_link(overhead)),
                    min_packet: Demand::WITHOUT_OVERHEAD,
                    ..want
                },
                None => want,
            };
            // A leg that is in the queue keeps its position and is not counted again.
            let refusals = leg.waits.saturating_add(u32::from(!leg.waiting));
            let waiting = QueuedRequest { owner, demand: want, refusals };
            leg.waiting = cx.context.ledger.enqueue(leg.interface, waiting).is_ok();
            if leg.waiting {
                leg.waits = refusals;
            }
        } else if leg.waiting {
            cx.context.ledger.withdraw(leg.interface, owner);
            leg.waiting = false;
        }
        let available = refusal.available;
        if !leg.refusal_reported {
            leg.refusal_reported = true;
            let stream = self.stream_of(leg.holder);
            let Leg { interface, waiting: waits, .. } = leg;
            cx.out.notify(Event::Refused { stream, interface, reason, available, waits });
        }
        *self.store.leg_mut(index) = leg;
        Failure { reason, available }
    }

    /// Removes a leg from the queue, if it is there.
    #[inline]
    fn leave_queue<E>(&mut self, cx: &mut HandlerContext<'_, '_, E>, index: Index) {
        let leg = self.store.leg_mut(index);
        if core::mem::take(&mut leg.waiting) {
            let owner = Owner { protocol: crate::ID, block: index };
            cx.context.ledger.withdraw(leg.interface, owner);
        }
    }

    /// Returns whether an empty link could grant the demand. The ledger checks only what is queued, which for an
    /// increase is the difference.
    fn fits_empty_link<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        interface: InterfaceId,
        want: Demand,
    ) -> bool {
        let ledger = &cx.context.ledger;
        let most = ledger.link(interface).map_or(Rate::ZERO, |link| link.reservable);
        want.rate_on_link(ledger.overhead(interface)) <= most
            && self.config.limits.largest.is_none_or(|largest| want.rate <= largest)
    }

    /// Handles released bandwidth that a leg has waited for.
    pub(crate) fn grab<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        interface: InterfaceId,
        owner: Owner,
    ) {
        if owner.protocol != crate::ID {
            return;
        }
        let Some(leg) = self.store.legs.get_mut(owner.block as usize) else { return };
        if leg.interface != interface || !leg.waiting {
            return;
        }
        leg.waiting = false;
        let want = self.wanted_demand(owner.block);
        if self.adjust_claim(cx, owner.block, want, Change::Grabbed).is_none() {
            self.counters.grabbed += 1;
        }
    }

    /// Returns the demand of a leg.
    fn wanted_demand(&self, leg: Index) -> Demand {
        let Leg { holder, interface, .. } = *self.store.leg(leg);
        match holder {
            Holder::Session(session) => self.store.session(session).asked,
            Holder::Pool(pool) => self.merged(pool, interface).unwrap_or(NOTHING),
        }
    }

    /// Handles a failure of traffic control, or the removal of a link, after the ledger's grant.
    pub(crate) fn handle_traffic_control_refusal<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        claim: ClaimId,
        owner: Owner,
    ) {
        let Some(index) = self.leg_of_claim(claim, owner) else { return };
        self.store.leg_mut(index).failed = true;
        self.release_claim(cx, index, Change::Failed);
    }

    /// Handles preemption of a reservation, down to the rate `kept`. The leg requests the rest again when it is
    /// refreshed.
    pub(crate) fn handle_preemption<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        claim: ClaimId,
        owner: Owner,
        kept: Rate,
    ) {
        let Some(index) = self.leg_of_claim(claim, owner) else { return };
        let demand = cx.context.ledger.demand(claim).filter(|_| kept > Rate::ZERO);
        let Some(demand) = demand else {
            return self.release_claim(cx, index, Change::Preempted);
        };
        let leg = self.store.leg_mut(index);
        leg.full = false;
        let (holder, interface) = (leg.holder, leg.interface);
        let flow = flow(&self.stream_of(holder), holder);
        cx.out.install(Installation { claim, interface, flow, demand });
        self.notify_reservation(cx, holder, interface, Change::Preempted, demand);
    }

    /// Returns the leg that holds a claim, if it is ours and still exists.
    pub(crate) fn leg_of_claim(&self, claim: ClaimId, owner: Owner) -> Option<Index> {
        let leg = self.store.legs.get(owner.block as usize)?;
        (owner.protocol == crate::ID && leg.claim == Some(claim)).then_some(owner.block)
    }

    /// Releases the claim of a leg. The leg stays.
    pub(crate) fn release_claim<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        change: Change,
    ) {
        let leg = self.store.leg_mut(index);
        leg.full = false;
        let (holder, interface) = (leg.holder, leg.interface);
        let claim = leg.claim.take();
        self.leave_queue(cx, index);
        let Some(claim) = claim else { return };
        let demand = cx.context.ledger.release(claim).unwrap_or(NOTHING);
        cx.out.remove(claim);
        self.notify_reservation(cx, holder, interface, change, demand);
    }

    /// Returns the flow of a foreign stream's reports, which travel with the data because the engine does not forward
    /// them.
    #[inline]
    fn report_flow(&self, holder: Holder) -> Option<Flow> {
        let Holder::Session(session) = holder else { return None };
        let Session { stream, extra, .. } = self.store.session(session);
        extra.as_ref().filter(|extra| extra.has_own_report_flow)?;
        let source_port = match stream.source_port {
            0 => 0,
            port => port + 1, // both data ports are even
        };
        let destination_port = stream.destination_port + 1;
        Some(Flow { source_port, destination_port, ..stream.flow() })
    }

    /// Returns the stream of a holder; that of a pool has any source.
    #[inline]
    pub(crate) fn stream_of(&self, holder: Holder) -> Stream {
        match holder {
            Holder::Session(session) => self.store.session(session).stream,
            Holder::Pool(pool) => self.store.pool(pool).stream(),
        }
    }

    pub(crate) fn notify_reservation<E: From<Event>>(
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

/// Returns the event for the reservation of a stream's holder.
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

/// Returns the flow that the claim of a holder is for.
#[inline]
fn flow(stream: &Stream, holder: Holder) -> Flow {
    match holder {
        Holder::Session(_) => stream.flow(),
        Holder::Pool(_) => Flow { source: None, ..stream.flow() },
    }
}
