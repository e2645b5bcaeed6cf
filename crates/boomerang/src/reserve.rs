//! Reservation: what a message asks of this node on one of its passes, and what the node writes into the message.
//!
//! The outward and the return pass are processed alike, and never related to each other: each concerns one half of
//! the session. Two rules concern one pass only. A release ends both halves, whichever pass comes by. A locked
//! session is unlocked on the pass on which it was locked.

use earmark_core::InterfaceId;
use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_wire::boomerang::{QosView, Rates};

use crate::api::{Change, Event};
use crate::context::HandlerContext;
use crate::counters::RefusalReason;
use crate::instance::Boomerang;
use crate::lookup::Lookup;
use crate::message::{Edits, Origin, Outcome, Refused, TransitMessage};
use crate::route::route;
use crate::selector::Direction;
use crate::state::{Half, Index, flag};
use crate::store::{Grant, Key, VacantEntry};

impl Boomerang {
    /// Applies the rules for one pass of a message through this node.
    pub(crate) fn process<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
    ) -> Outcome {
        let found = self.look_up_message(cx.now, transit);
        self.process_found(cx, transit, found)
    }

    /// Applies the rules to a message whose session was looked up.
    #[inline(always)]
    pub(crate) fn process_found<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
        found: Lookup,
    ) -> Outcome {
        match found {
            Lookup::Refreshed(interface) => Outcome { interface, edits: Edits::NONE },
            Lookup::Found(index) => self.process_known(cx, transit, index),
            Lookup::Missing(ref key, place) => self.process_new(cx, transit, key, place),
            Lookup::NewMask => self.process_new_mask(cx, transit),
        }
    }

    /// Processes a message with a mask that no session has.
    #[cold]
    fn process_new_mask<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
    ) -> Outcome {
        match self.find_or_vacant(transit) {
            Ok(Grant::Known(index)) => self.process_known(cx, transit, index),
            Ok(Grant::New { key, place, .. }) => self.process_new(cx, transit, &key, place),
            // A release has nothing to release and is not refused.
            Err(_) if transit.is_release() => Outcome { interface: None, edits: Edits::NONE },
            Err(refused) => Outcome { interface: None, edits: self.refuse(transit, refused) },
        }
    }

    /// Processes a message about a flow that has no session yet.
    #[inline(always)]
    fn process_new<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
        key: &Key,
        place: VacantEntry,
    ) -> Outcome {
        if transit.is_release() {
            return Outcome { interface: None, edits: Edits::NONE };
        }
        let interface = route(cx, transit).map(|hop| hop.interface);
        mark(Checkpoint::Route);
        let mut grant = Grant::New { key: *key, place, prime: 0 };
        let edits = match interface {
            Some(interface) if cx.context.interfaces.takes_part(interface) => {
                let slot = transit.direction as usize;
                self.apply_request(cx, transit, slot, interface, &mut grant)
            }
            // As a node without Boomerang; without a route the driver decides.
            _ => Edits::NONE,
        };
        let outcome = Outcome { interface, edits };
        match grant {
            Grant::Known(_) => outcome,
            Grant::New { .. } => self.expect_reply(cx, transit, grant, outcome),
        }
    }

    /// Processes a message about a known session that is more than a refresh.
    #[inline(always)]
    fn process_known<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
        index: Index,
    ) -> Outcome {
        if let Err(refused) = self.check_initiator(transit, index) {
            let interface = self.store.session(index).half(transit.direction);
            let interface = interface.is_there().then_some(interface.interface);
            return Outcome { interface, edits: self.refuse(transit, refused) };
        }
        if transit.is_release() {
            if let Err(refused) =
                self.check_credential(cx.now, cx.context, cx.out, transit, Some(index))
            {
                return Outcome { interface: None, edits: self.refuse(transit, refused) };
            }
            self.release_session(cx, index, Change::Released);
            return Outcome { interface: None, edits: Edits::NONE };
        }
        if !self.is_recorded_origin(transit, index) {
            self.store.record_origin(transit, index);
        }
        let slot = transit.direction as usize;
        let half = *self.store.session(index).half(transit.direction);
        let interface = if half.is_there() && self.is_fresh(index, transit.direction) {
            half.interface
        } else {
            let hop = route(cx, transit);
            mark(Checkpoint::Route);
            let interface = hop.map(|hop| hop.interface);
            let Some(outgoing) =
                interface.filter(|&interface| cx.context.interfaces.takes_part(interface))
            else {
                // The packets leave where nothing is reserved, if they leave at all.
                self.release_half(cx, index, slot, Change::Moved);
                self.remove_if_empty(cx, index);
                return Outcome { interface, edits: Edits::NONE };
            };
            self.check_route(cx, index, slot, outgoing);
            outgoing
        };
        let edits = self.apply_request(cx, transit, slot, interface, &mut Grant::Known(index));
        if transit.direction == Direction::Forward {
            self.await_reply(cx.now, index);
        }
        self.remove_if_empty(cx, index);
        Outcome { interface: Some(interface), edits }
    }

    /// Checks whether a message may address an existing session: its initiating node may, and for a locked session a
    /// node that knows the key.
    #[inline(always)]
    pub(crate) fn check_initiator(
        &self,
        transit: &TransitMessage<'_>,
        index: Index,
    ) -> Result<(), Refused> {
        let session = self.store.session(index);
        if self.store.initiator(index) != transit.initiator {
            return Err(Refused::without_offer(RefusalReason::Foreign));
        }
        // A message refused upstream may have lost its key. It changes nothing.
        let (key, prime) = (transit.view.key(), u64::from(session.prime));
        let opens = prime == 0 || (key != 0 && key.is_multiple_of(prime));
        let waits = session.flags & flag::LOCKED != 0 && key != 0;
        if !opens && !waits && !transit.view.flags().is_nack() {
            return Err(Refused::without_offer(RefusalReason::Key));
        }
        Ok(())
    }

    /// Returns whether a half was checked against the routes since they last changed.
    pub(crate) fn is_fresh(&mut self, index: Index, direction: Direction) -> bool {
        let epoch = self.epoch;
        let session = self.store.session_mut(index);
        if session.epoch != epoch {
            session.epoch = epoch;
            session.flags |= flag::FORWARD_STALE | flag::REVERSE_STALE;
        }
        session.flags & direction.stale() == 0
    }

    /// Brings a session in line with the request of a message, or writes a refusal. `slot` is that of the half in
    /// question.
    #[inline(always)]
    pub(crate) fn apply_request<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
        slot: usize,
        interface: InterfaceId,
        grant: &mut Grant,
    ) -> Edits {
        let interval = transit.view.refresh_interval().min(self.config.max_refresh_interval);
        let before = match *grant {
            Grant::Known(index) if self.config.offload => self.store.session(index).half_at(slot),
            _ => Half::NONE,
        };
        let repeated = matches!(*grant, Grant::Known(index) if self.is_unproven(index, slot));
        let mut edits = if transit.view.flags().is_nack() {
            self.answer_query(cx, transit, slot, interface, grant)
        } else {
            match self.reserve(cx, transit, slot, interface, grant) {
                Ok(edits) => edits,
                Err(refused) => self.refuse(transit, refused),
            }
        };
        // An existing half is refreshed while its initiating node asks, even if the new request is refused.
        if let Grant::Known(index) = *grant {
            self.prove(transit, index, (slot, interval), repeated, cx.now);
            self.extend_lifetime(cx.now, index, slot, interval);
        }
        if interval < transit.view.refresh_interval() {
            edits.interval = Some(interval);
        }
        if let Grant::Known(index) = *grant
            && self.config.offload
            && transit.origin == Origin::Others
        {
            self.offload(cx, transit, &edits, index, before);
        }
        edits
    }

    /// Reserves what a message requests. Returns the changes to the message.
    fn reserve<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
        slot: usize,
        interface: InterfaceId,
        grant: &mut Grant,
    ) -> Result<Edits, Refused> {
        let mut edits = Edits { key: self.multiply_key(transit, grant)?, ..Edits::NONE };
        let mut decision = None;
        match transit.view.qos() {
            QosView::Bitrate(rates) => {
                let wanted = transit.part_of(rates);
                self.admit(cx, transit, (slot, interface), grant, wanted, &mut decision)?;
            }
            // The first pair that can be granted counts; those before it are set to zero.
            QosView::Downgrade(vector) => {
                let mut last = Refused::without_offer(RefusalReason::Bandwidth);
                let mut granted = None;
                for (number, octets) in vector.iter().enumerate().filter(|(_, o)| **o != [0; 8]) {
                    let wanted = transit.part_of(Rates::from_octets(*octets));
                    match self.admit(cx, transit, (slot, interface), grant, wanted, &mut decision) {
                        Ok(()) => {
                            granted = Some(number);
                            break;
                        }
                        Err(refused) => last = refused,
                    }
                }
                let number = granted.ok_or(last)?;
                let any = vector.iter().take(number).any(|octets| *octets != [0; 8]);
                edits.zeroed = if any { number } else { 0 };
            }
        }
        if let Grant::Known(index) = *grant
            && edits.key.is_none()
        {
            self.unlock(cx, transit, index);
        }
        Ok(edits)
    }

    /// Lowers a message that was refused upstream to the rates available here.
    fn answer_query<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        transit: &TransitMessage<'_>,
        slot: usize,
        interface: InterfaceId,
        grant: &Grant,
    ) -> Edits {
        let held = match *grant {
            Grant::Known(index) => self.store.session(index).half_at(slot),
            Grant::New { .. } => Half::NONE,
        };
        let held = if held.is_there() && held.interface == interface { held.rate } else { 0 };
        let free = cx.context.ledger.available(interface).as_bps();
        let offer = u32::try_from(free.saturating_add(held.into())).unwrap_or(u32::MAX);
        self.lowered(transit, offer)
    }

    /// Returns the changes of a refusal: NACK, no key, the longest interval of this node, and the available rate.
    pub(crate) fn refuse(&mut self, transit: &TransitMessage<'_>, refused: Refused) -> Edits {
        self.counters.refuse(refused.reason);
        let interval = Some(self.config.max_refresh_interval);
        Edits { nack: true, key: Some(0), interval, ..self.lowered(transit, refused.offer) }
    }

    /// Lowers the rate of this direction to `offer`. Larger pairs of a list of downgrades become zero.
    fn lowered(&self, transit: &TransitMessage<'_>, offer: u32) -> Edits {
        match transit.view.qos() {
            QosView::Bitrate(rates) => {
                let mut lowered = rates;
                match transit.direction {
                    Direction::Forward => lowered.forward = rates.forward.min(offer),
                    Direction::Reverse => lowered.reverse = rates.reverse.min(offer),
                }
                Edits { rates: (lowered != rates).then_some(lowered), ..Edits::NONE }
            }
            QosView::Downgrade(vector) => {
                let fits = |octets: &[u8; 8]| {
                    let pair = Rates::from_octets(*octets);
                    pair != Rates::ZERO && transit.part_of(pair) <= offer
                };
                let zeroed = vector.iter().position(fits).unwrap_or(vector.len());
                Edits { zeroed, ..Edits::NONE }
            }
        }
    }
}
