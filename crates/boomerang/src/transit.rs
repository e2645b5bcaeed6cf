//! What a Boomerang node does with a message that passes by: it reserves on the link through which the message leaves, or
//! says in the message that it cannot, and sends it on.
//!
//! The outward and the return pass are treated alike, and never brought together: each is about one half of the session.
//! Two things are of one pass only. A release ends both halves, whichever pass comes by. And a session that is locked is
//! opened on the pass on which it was locked.

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Datagram, InterfaceId, Outgoing};
use earmark_wire::boomerang::{CommonForm, Editor, QosView, Rates, View};
use earmark_wire::icmp::{Kind, PROTOCOL_V4};

use core::net::Ipv4Addr;

use crate::admission::{AccessDecision, Grant};
use crate::api::{Change, Direction, Event};
use crate::counters::{DropReason, RefusalReason};
use crate::instance::{Boomerang, HandlerContext};
use crate::lookup::Looked;
use crate::message::{Edits, Origin, Outcome, Passing, Refused};
use crate::participation::counted;
use crate::route::{follow, route};
use crate::state::{Half, Index, flag};
use crate::store::{Key, Place};

impl Boomerang {
    /// A message of others, on its way through this node.
    pub(crate) fn pass_by<E: From<Event>>(
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
        let passing = Passing {
            view: *view,
            direction,
            initiator,
            toward: datagram.destination,
            incoming: Some(datagram.interface),
            origin: Origin::Others,
        };
        if !self.aggregates.is_empty() || (self.config.aggregate_only && view.has_options()) {
            return self.pass_by_with_aggregates(cx, datagram, &passing);
        }
        let looked = self.look(cx.now, view, direction, initiator);
        self.pass_on(cx, datagram, &passing, looked);
    }

    /// A plain message of others, on its way through this node. Nearly all are that, and nearly all of them refreshes.
    pub(crate) fn plain_passes_by<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        (source, destination): (Ipv4Addr, Ipv4Addr),
        plain: &CommonForm<'_>,
    ) {
        if datagram.ttl <= 1 || !self.aggregates.is_empty() {
            return self.pass_by(cx, datagram, plain.kind, &plain.view());
        }
        let (direction, initiator) = self.count_pass(plain.kind, source, destination);
        let looked = self.look_plain(cx.now, plain, direction, initiator);
        let passing = || Passing {
            view: plain.view(),
            direction,
            initiator: initiator.into(),
            toward: datagram.destination,
            incoming: Some(datagram.interface),
            origin: Origin::Others,
        };
        let Looked::Refreshed(interface) = looked else {
            return self.pass_on(cx, datagram, &passing(), looked);
        };
        if cx.context.routes.differs_by_flow(datagram.destination) {
            return self.pass_on(cx, datagram, &passing(), looked);
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

    /// What a message brings about that is more than a refresh, and on it goes.
    fn pass_on<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        passing: &Passing<'_>,
        looked: Looked,
    ) {
        let outcome = self.treat_looked(cx, passing, looked);
        let Outcome { interface, edits } = outcome;
        let Some(mut how) = self.onward(cx, datagram, interface) else { return };
        follow(cx, passing, &mut how);
        let record = counted(cx.context, datagram, &passing.view, passing.direction, &outcome);
        let message = cx.out.send_copy(how, datagram.payload);
        if edits != Edits::NONE {
            edits.apply(message, &passing.view);
        }
        if let Some((at, record)) = record {
            Editor::new(message, &passing.view).set_participation(at, &record);
        }
        mark(Checkpoint::Forward);
    }

    /// Counts a message of others, and says which pass it is on and who its initiating node is.
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

    /// The rules for one pass of a message through this node.
    pub(crate) fn treat<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
    ) -> Outcome {
        let looked = self.look(cx.now, &passing.view, passing.direction, passing.initiator);
        self.treat_looked(cx, passing, looked)
    }

    fn treat_looked<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        looked: Looked,
    ) -> Outcome {
        match looked {
            Looked::Refreshed(interface) => Outcome { interface, edits: Edits::NONE },
            Looked::Found(index) => self.treat_known(cx, passing, index),
            Looked::Missing(key, place) => self.treat_new(cx, passing, key, place),
            Looked::NewMask => self.treat_new_mask(cx, passing),
        }
    }

    /// A message with a mask that no session has.
    #[cold]
    fn treat_new_mask<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
    ) -> Outcome {
        let view = &passing.view;
        let shape = match view.shape() {
            Ok(shape) => shape,
            Err(error) => {
                self.counters.malform(error.kind.name());
                return self.refuse_unless_released(passing, RefusalReason::Mask);
            }
        };
        let most = self.config.limits.masks;
        let Some(number) = self.store.masks.enter(view.family(), shape, most) else {
            return self.refuse_unless_released(passing, RefusalReason::Limit);
        };
        let key = Key::new(number, self.store.masks.mask(number), view.classifier_octets());
        match self.store.look_up(&key) {
            Ok(index) => self.treat_known(cx, passing, index),
            Err(place) => self.treat_new(cx, passing, key, place),
        }
    }

    /// Where there is no session, there is nothing to be given back.
    fn refuse_unless_released(&mut self, passing: &Passing<'_>, reason: RefusalReason) -> Outcome {
        if passing.is_release() {
            return Outcome { interface: None, edits: Edits::NONE };
        }
        let edits = self.refuse(passing, Refused::flatly(reason));
        Outcome { interface: None, edits }
    }

    /// A message about a flow that has nothing here yet.
    fn treat_new<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        key: Key,
        place: Place,
    ) -> Outcome {
        if passing.is_release() {
            return Outcome { interface: None, edits: Edits::NONE };
        }
        let interface = route(cx, passing).map(|hop| hop.interface);
        mark(Checkpoint::Route);
        let edits = match interface {
            Some(interface) if takes_part(cx, interface) => {
                let slot = passing.direction as usize;
                self.settle(cx, passing, slot, interface, &mut Grant::New { key, place, prime: 0 })
            }
            // As if this node did not speak Boomerang; without a route the driver will know what to do.
            _ => Edits::NONE,
        };
        Outcome { interface, edits }
    }

    /// A message about a flow that has something here, and that is more than a refresh.
    fn treat_known<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        index: Index,
    ) -> Outcome {
        if let Err(refused) = self.may_speak(passing, index) {
            let interface = self.store.session(index).half(passing.direction);
            let interface = interface.is_there().then_some(interface.interface);
            return Outcome { interface, edits: self.refuse(passing, refused) };
        }
        if passing.is_release() {
            if let Err(refused) = self.is_credible(passing) {
                return Outcome { interface: None, edits: self.refuse(passing, refused) };
            }
            self.release_session(cx, index, Change::Released);
            return Outcome { interface: None, edits: Edits::NONE };
        }
        let slot = passing.direction as usize;
        let half = *self.store.session(index).half(passing.direction);
        let interface = if half.is_there() && self.is_fresh(index, passing.direction) {
            half.interface
        } else {
            let hop = route(cx, passing);
            mark(Checkpoint::Route);
            let interface = hop.map(|hop| hop.interface);
            let Some(outgoing) = interface.filter(|&interface| takes_part(cx, interface)) else {
                // The packets go where nothing is reserved, if they go anywhere.
                self.release_half(cx, index, slot, Change::Moved);
                self.remove_if_empty(cx, index);
                return Outcome { interface, edits: Edits::NONE };
            };
            self.check_route(cx, index, slot, outgoing);
            outgoing
        };
        let edits = self.settle(cx, passing, slot, interface, &mut Grant::Known(index));
        self.remove_if_empty(cx, index);
        Outcome { interface: Some(interface), edits }
    }

    /// Whether somebody may say something about a session that is there: its initiating node may, and where it is
    /// locked, who knows the key.
    pub(crate) fn may_speak(&self, passing: &Passing<'_>, index: Index) -> Result<(), Refused> {
        let session = self.store.session(index);
        if self.store.initiator(index) != passing.initiator {
            return Err(Refused::flatly(RefusalReason::Foreign));
        }
        // A message that was refused before it came here may not have its key any more. It changes nothing.
        let (key, prime) = (passing.view.key(), u64::from(session.prime));
        let opens = prime == 0 || (key != 0 && key.is_multiple_of(prime));
        let waits = session.flags & flag::LOCKED != 0 && key != 0;
        if !opens && !waits && !passing.view.flags().is_nack() {
            return Err(Refused::flatly(RefusalReason::Key));
        }
        Ok(())
    }

    /// Whether a half was checked against the routes since they last changed.
    pub(crate) fn is_fresh(&mut self, index: Index, direction: Direction) -> bool {
        let epoch = self.epoch;
        let session = self.store.session_mut(index);
        if session.epoch != epoch {
            session.epoch = epoch;
            session.flags |= flag::FORWARD_STALE | flag::REVERSE_STALE;
        }
        session.flags & direction.stale() == 0
    }

    /// Brings what a session has in line with what a message asks for, or says in the message why not. `slot` is the
    /// place of the half in question.
    pub(crate) fn settle<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        slot: usize,
        interface: InterfaceId,
        grant: &mut Grant,
    ) -> Edits {
        let interval = passing.view.refresh_interval().min(self.config.max_refresh_interval);
        let before = match *grant {
            Grant::Known(index) if self.config.offload => self.store.session(index).half_at(slot),
            _ => Half::NONE,
        };
        let mut edits = if passing.view.flags().is_nack() {
            self.answer_query(cx, passing, slot, interface, grant)
        } else {
            match self.reserve(cx, passing, slot, interface, grant) {
                Ok(edits) => edits,
                Err(refused) => self.refuse(passing, refused),
            }
        };
        // What is there lives on while its initiating node does, even if that does not get what it asks for now.
        if let Grant::Known(index) = *grant {
            self.prolong(cx.now, index, slot, interval);
        }
        if interval < passing.view.refresh_interval() {
            edits.interval = Some(interval);
        }
        if let Grant::Known(index) = *grant
            && self.config.offload
            && passing.origin == Origin::Others
        {
            self.offload(cx, passing, &edits, index, before);
        }
        edits
    }

    /// Reserves what a message asks for, and says how the message changes by that.
    fn reserve<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        slot: usize,
        interface: InterfaceId,
        grant: &mut Grant,
    ) -> Result<Edits, Refused> {
        let mut edits = Edits { key: self.turn_key(passing, grant)?, ..Edits::NONE };
        let mut asked = AccessDecision::NotYet;
        match passing.view.qos() {
            QosView::Bitrate(rates) => {
                let wanted = passing.part_of(rates);
                self.admit(cx, passing, (slot, interface), grant, wanted, &mut asked)?;
            }
            // The first pair that can be granted counts; those before it are taken out.
            QosView::Downgrade(vector) => {
                let mut last = Refused::flatly(RefusalReason::Bandwidth);
                let mut granted = None;
                for (number, octets) in vector.iter().enumerate().filter(|(_, o)| **o != [0; 8]) {
                    let wanted = passing.part_of(Rates::from_octets(*octets));
                    match self.admit(cx, passing, (slot, interface), grant, wanted, &mut asked) {
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
            self.unlock(cx, passing, index);
        }
        Ok(edits)
    }

    /// A message that was refused already finds out what could be had here.
    fn answer_query<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        slot: usize,
        interface: InterfaceId,
        grant: &Grant,
    ) -> Edits {
        let held = match *grant {
            Grant::Known(index) => self.store.session(index).half_at(slot),
            Grant::New { .. } => Half::NONE,
        };
        let held = if held.is_there() && held.interface == interface { held.rate } else { 0 };
        let free = cx.context.ledger.left(interface).as_bps();
        let offer = u32::try_from(free.saturating_add(held.into())).unwrap_or(u32::MAX);
        self.lowered(passing, offer)
    }

    /// The edits of a refusal: NACK, no key, the longest interval that this node has, and what could be had.
    pub(crate) fn refuse(&mut self, passing: &Passing<'_>, refused: Refused) -> Edits {
        self.counters.refuse(refused.reason);
        let interval = Some(self.config.max_refresh_interval);
        Edits { nack: true, key: Some(0), interval, ..self.lowered(passing, refused.offer) }
    }

    /// No more than `offer` in this direction. In a list of downgrades what is more becomes zero.
    fn lowered(&self, passing: &Passing<'_>, offer: u32) -> Edits {
        match passing.view.qos() {
            QosView::Bitrate(rates) => {
                let mut lowered = rates;
                match passing.direction {
                    Direction::Forward => lowered.forward = rates.forward.min(offer),
                    Direction::Reverse => lowered.reverse = rates.reverse.min(offer),
                }
                Edits { rates: (lowered != rates).then_some(lowered), ..Edits::NONE }
            }
            QosView::Downgrade(vector) => {
                let fits = |octets: &[u8; 8]| {
                    let pair = Rates::from_octets(*octets);
                    pair != Rates::ZERO && passing.part_of(pair) <= offer
                };
                let zeroed = vector.iter().position(fits).unwrap_or(vector.len());
                Edits { zeroed, ..Edits::NONE }
            }
        }
    }
}

/// Whether this node speaks its protocols through an interface.
pub(crate) fn takes_part<E>(cx: &HandlerContext<'_, '_, E>, interface: InterfaceId) -> bool {
    cx.context.interfaces.by_id(interface).is_some_and(earmark_core::Interface::takes_part)
}
