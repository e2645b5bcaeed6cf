//! Transit: a Boomerang node reserves on the link through which a message leaves, or writes a refusal into the
//! message, and forwards it.
//!
//! The outward and the return pass are processed alike, and never related to each other: each concerns one half of
//! the session. Two rules concern one pass only. A release ends both halves, whichever pass comes by. A locked
//! session is unlocked on the pass on which it was locked.

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Datagram, InterfaceId, Outgoing};
use earmark_wire::boomerang::{CommonForm, Editor, QosView, Rates, View};
use earmark_wire::icmp::{Kind, PROTOCOL_V4};

use core::net::Ipv4Addr;

use crate::admission::{AccessDecision, Grant};
use crate::api::{Change, Event};
use crate::counters::{DropReason, RefusalReason};
use crate::instance::{Boomerang, HandlerContext};
use crate::lookup::Lookup;
use crate::message::{Edits, MessagePass, Origin, Outcome, Refused};
use crate::participation::counted_record;
use crate::route::{follow_flow_route, route};
use crate::selector::Direction;
use crate::state::{Half, Index, flag};
use crate::store::{Key, VacantEntry};

impl Boomerang {
    /// Processes a message in transit.
    pub(crate) fn transit<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        kind: Kind,
        view: &View<'_>,
    ) {
        if datagram.ttl <= 1 {
            return self.drop(cx, datagram, DropReason::TtlExpired);
        }
        let (direction, initiator) = self.count_pass(kind, datagram.source, datagram.destination);
        let pass = MessagePass {
            view: *view,
            direction,
            initiator,
            toward: datagram.destination,
            incoming: Some(datagram.interface),
            origin: Origin::Others,
        };
        if !self.aggregates.is_empty() || (self.config.aggregate_only && view.has_options()) {
            return self.transit_with_aggregates(cx, datagram, &pass);
        }
        let found = self.look_up_message(cx.now, view, direction, initiator);
        self.complete_transit(cx, datagram, &pass, found);
    }

    /// Processes a plain message in transit. Nearly all messages are plain refreshes.
    pub(crate) fn transit_plain<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        (source, destination): (Ipv4Addr, Ipv4Addr),
        plain: &CommonForm<'_>,
    ) {
        if datagram.ttl <= 1 || !self.aggregates.is_empty() {
            return self.transit(cx, datagram, plain.kind, &plain.view());
        }
        let (direction, initiator) = self.count_pass(plain.kind, source, destination);
        let found = self.look_up_plain(cx.now, plain, direction, initiator);
        let pass = || MessagePass {
            view: plain.view(),
            direction,
            initiator: initiator.into(),
            toward: datagram.destination,
            incoming: Some(datagram.interface),
            origin: Origin::Others,
        };
        let Lookup::Refreshed(interface) = found else {
            return self.complete_transit(cx, datagram, &pass(), found);
        };
        if cx.context.routes.differs_by_flow(datagram.destination) {
            return self.complete_transit(cx, datagram, &pass(), found);
        }
        let how = Outgoing {
            protocol: PROTOCOL_V4,
            interface,
            source: source.into(),
            destination: destination.into(),
            ttl: datagram.ttl - 1,
            router_alert: datagram.router_alert,
            encapsulated: false,
            neighbor: None,
            next_hop: None,
        };
        cx.out.send_copy(how, datagram.payload);
        mark(Checkpoint::Forward);
    }

    /// Processes a message that is more than a refresh, and forwards it.
    fn complete_transit<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        pass: &MessagePass<'_>,
        found: Lookup,
    ) {
        let outcome = self.process_found(cx, pass, found);
        let Outcome { interface, edits } = outcome;
        let Some(mut how) = self.transit_outgoing(cx, datagram, interface) else { return };
        follow_flow_route(cx, pass, &mut how);
        let record = counted_record(cx.context, datagram, &pass.view, pass.direction, &outcome);
        let message = cx.out.send_copy(how, datagram.payload);
        if edits != Edits::NONE {
            edits.apply(message, &pass.view);
        }
        if let Some((at, record)) = record {
            Editor::new(message, &pass.view).set_participation(at, &record);
        }
        mark(Checkpoint::Forward);
    }

    /// Counts a message in transit. Returns its pass and its initiating node.
    #[inline]
    pub(crate) fn count_pass<A>(
        &mut self,
        kind: Kind,
        source: A,
        destination: A,
    ) -> (Direction, A) {
        match kind {
            Kind::Request => {
                self.counters.requests += 1;
                (Direction::Forward, source)
            }
            Kind::Reply => {
                self.counters.replies += 1;
                (Direction::Reverse, destination)
            }
        }
    }

    /// Applies the rules for one pass of a message through this node.
    pub(crate) fn process<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pass: &MessagePass<'_>,
    ) -> Outcome {
        let found = self.look_up_message(cx.now, &pass.view, pass.direction, pass.initiator);
        self.process_found(cx, pass, found)
    }

    fn process_found<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pass: &MessagePass<'_>,
        found: Lookup,
    ) -> Outcome {
        match found {
            Lookup::Refreshed(interface) => Outcome { interface, edits: Edits::NONE },
            Lookup::Found(index) => self.process_known(cx, pass, index),
            Lookup::Missing(key, place) => self.process_new(cx, pass, key, place),
            Lookup::NewMask => self.process_new_mask(cx, pass),
        }
    }

    /// Processes a message with a mask that no session has.
    #[cold]
    fn process_new_mask<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pass: &MessagePass<'_>,
    ) -> Outcome {
        let view = &pass.view;
        let shape = match view.shape() {
            Ok(shape) => shape,
            Err(error) => {
                self.counters.malform(error.kind.name());
                return self.refuse_unless_release(pass, RefusalReason::Mask);
            }
        };
        let most = self.config.limits.masks;
        let Some(number) = self.store.masks.insert(view.family(), shape, most) else {
            return self.refuse_unless_release(pass, RefusalReason::Limit);
        };
        let key = Key::new(number, self.store.masks.mask(number), view.classifier_octets());
        match self.store.look_up(&key) {
            Ok(index) => self.process_known(cx, pass, index),
            Err(place) => self.process_new(cx, pass, key, place),
        }
    }

    /// Refuses a message without a session. A release has nothing to release and is not refused.
    fn refuse_unless_release(&mut self, pass: &MessagePass<'_>, reason: RefusalReason) -> Outcome {
        if pass.is_release() {
            return Outcome { interface: None, edits: Edits::NONE };
        }
        let edits = self.refuse(pass, Refused::without_offer(reason));
        Outcome { interface: None, edits }
    }

    /// Processes a message about a flow that has no session yet.
    fn process_new<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pass: &MessagePass<'_>,
        key: Key,
        place: VacantEntry,
    ) -> Outcome {
        if pass.is_release() {
            return Outcome { interface: None, edits: Edits::NONE };
        }
        let interface = route(cx, pass).map(|hop| hop.interface);
        mark(Checkpoint::Route);
        let edits = match interface {
            Some(interface) if takes_part(cx, interface) => {
                let slot = pass.direction as usize;
                self.apply_request(
                    cx,
                    pass,
                    slot,
                    interface,
                    &mut Grant::New { key, place, prime: 0 },
                )
            }
            // As a node without Boomerang; without a route the driver decides.
            _ => Edits::NONE,
        };
        Outcome { interface, edits }
    }

    /// Processes a message about a known session that is more than a refresh.
    fn process_known<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pass: &MessagePass<'_>,
        index: Index,
    ) -> Outcome {
        if let Err(refused) = self.check_initiator(pass, index) {
            let interface = self.store.session(index).half(pass.direction);
            let interface = interface.is_there().then_some(interface.interface);
            return Outcome { interface, edits: self.refuse(pass, refused) };
        }
        if pass.is_release() {
            if let Err(refused) = self.check_credential(pass) {
                return Outcome { interface: None, edits: self.refuse(pass, refused) };
            }
            self.release_session(cx, index, Change::Released);
            return Outcome { interface: None, edits: Edits::NONE };
        }
        let slot = pass.direction as usize;
        let half = *self.store.session(index).half(pass.direction);
        let interface = if half.is_there() && self.is_fresh(index, pass.direction) {
            half.interface
        } else {
            let hop = route(cx, pass);
            mark(Checkpoint::Route);
            let interface = hop.map(|hop| hop.interface);
            let Some(outgoing) = interface.filter(|&interface| takes_part(cx, interface)) else {
                // The packets leave where nothing is reserved, if they leave at all.
                self.release_half(cx, index, slot, Change::Moved);
                self.remove_if_empty(cx, index);
                return Outcome { interface, edits: Edits::NONE };
            };
            self.check_route(cx, index, slot, outgoing);
            outgoing
        };
        let edits = self.apply_request(cx, pass, slot, interface, &mut Grant::Known(index));
        self.remove_if_empty(cx, index);
        Outcome { interface: Some(interface), edits }
    }

    /// Checks whether a message may address an existing session: its initiating node may, and for a locked session a
    /// node that knows the key.
    pub(crate) fn check_initiator(
        &self,
        pass: &MessagePass<'_>,
        index: Index,
    ) -> Result<(), Refused> {
        let session = self.store.session(index);
        if self.store.initiator(index) != pass.initiator {
            return Err(Refused::without_offer(RefusalReason::Foreign));
        }
        // A message refused upstream may have lost its key. It changes nothing.
        let (key, prime) = (pass.view.key(), u64::from(session.prime));
        let opens = prime == 0 || (key != 0 && key.is_multiple_of(prime));
        let waits = session.flags & flag::LOCKED != 0 && key != 0;
        if !opens && !waits && !pass.view.flags().is_nack() {
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
    pub(crate) fn apply_request<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pass: &MessagePass<'_>,
        slot: usize,
        interface: InterfaceId,
        grant: &mut Grant,
    ) -> Edits {
        let interval = pass.view.refresh_interval().min(self.config.max_refresh_interval);
        let before = match *grant {
            Grant::Known(index) if self.config.offload => self.store.session(index).half_at(slot),
            _ => Half::NONE,
        };
        let mut edits = if pass.view.flags().is_nack() {
            self.answer_query(cx, pass, slot, interface, grant)
        } else {
            match self.reserve(cx, pass, slot, interface, grant) {
                Ok(edits) => edits,
                Err(refused) => self.refuse(pass, refused),
            }
        };
        // An existing half is refreshed while its initiating node asks, even if the new request is refused.
        if let Grant::Known(index) = *grant {
            self.extend_lifetime(cx.now, index, slot, interval);
        }
        if interval < pass.view.refresh_interval() {
            edits.interval = Some(interval);
        }
        if let Grant::Known(index) = *grant
            && self.config.offload
            && pass.origin == Origin::Others
        {
            self.offload(cx, pass, &edits, index, before);
        }
        edits
    }

    /// Reserves what a message requests. Returns the changes to the message.
    fn reserve<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        pass: &MessagePass<'_>,
        slot: usize,
        interface: InterfaceId,
        grant: &mut Grant,
    ) -> Result<Edits, Refused> {
        let mut edits = Edits { key: self.multiply_key(pass, grant)?, ..Edits::NONE };
        let mut decision = AccessDecision::Pending;
        match pass.view.qos() {
            QosView::Bitrate(rates) => {
                let wanted = pass.part_of(rates);
                self.admit(cx, pass, (slot, interface), grant, wanted, &mut decision)?;
            }
            // The first pair that can be granted counts; those before it are set to zero.
            QosView::Downgrade(vector) => {
                let mut last = Refused::without_offer(RefusalReason::Bandwidth);
                let mut granted = None;
                for (number, octets) in vector.iter().enumerate().filter(|(_, o)| **o != [0; 8]) {
                    let wanted = pass.part_of(Rates::from_octets(*octets));
                    match self.admit(cx, pass, (slot, interface), grant, wanted, &mut decision) {
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
            self.unlock(cx, pass, index);
        }
        Ok(edits)
    }

    /// Lowers a message that was refused upstream to the rates available here.
    fn answer_query<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        pass: &MessagePass<'_>,
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
        self.lowered(pass, offer)
    }

    /// Returns the changes of a refusal: NACK, no key, the longest interval of this node, and the available rate.
    pub(crate) fn refuse(&mut self, pass: &MessagePass<'_>, refused: Refused) -> Edits {
        self.counters.refuse(refused.reason);
        let interval = Some(self.config.max_refresh_interval);
        Edits { nack: true, key: Some(0), interval, ..self.lowered(pass, refused.offer) }
    }

    /// Lowers the rate of this direction to `offer`. Larger pairs of a list of downgrades become zero.
    fn lowered(&self, pass: &MessagePass<'_>, offer: u32) -> Edits {
        match pass.view.qos() {
            QosView::Bitrate(rates) => {
                let mut lowered = rates;
                match pass.direction {
                    Direction::Forward => lowered.forward = rates.forward.min(offer),
                    Direction::Reverse => lowered.reverse = rates.reverse.min(offer),
                }
                Edits { rates: (lowered != rates).then_some(lowered), ..Edits::NONE }
            }
            QosView::Downgrade(vector) => {
                let fits = |octets: &[u8; 8]| {
                    let pair = Rates::from_octets(*octets);
                    pair != Rates::ZERO && pass.part_of(pair) <= offer
                };
                let zeroed = vector.iter().position(fits).unwrap_or(vector.len());
                Edits { zeroed, ..Edits::NONE }
            }
        }
    }
}

/// Returns whether this node runs its protocols on an interface.
pub(crate) fn takes_part<E>(cx: &HandlerContext<'_, '_, E>, interface: InterfaceId) -> bool {
    cx.context.interfaces.by_id(interface).is_some_and(earmark_core::Interface::takes_part)
}
