//! RSVP as an engine of a node: with its own view of the interfaces, and receivers that answer by a policy.

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::string::String;
use core::any::Any;

use earmark_core::admission::{ClaimId, Owner};
use earmark_core::random::RandomStreams;
use earmark_core::{
    Context, Effect, Effects, Engine, Input, Interface, InterfaceId, Interfaces, Rate, RowFilter,
    Time,
};
use earmark_rsvp::{self as rsvp, Rejection, ReservationView, Rsvp, SenderView};

use super::aggregation::Aggregation;
use super::listen::Listen;
use super::listing;
use super::receivers::Receivers;
use crate::edge::Edge;
use crate::engine::{
    Counter, EngineKind, HeldClaim, NodeEngine, NodeView, ProcessInput, Rows, Slots, StateCount,
};
use crate::protocols::{Command, Event, NodeConfig};
use earmark_core::listing::{NeighborRow, ReservationRow, SessionRow};

/// RSVP as a kind of engine.
pub(crate) const KIND: EngineKind = EngineKind {
    name: "rsvp",
    protocol: rsvp::ID,
    ip_protocol: Some(rsvp::PROTOCOL),
    create: |config, random| Box::new(RsvpEngine::new(config, random)),
};

/// RSVP in a node.
#[derive(Debug)]
pub(crate) struct RsvpEngine {
    rsvp: Rsvp,
    /// Interfaces as RSVP sees them: those without RSVP have no bandwidth.
    interfaces: Interfaces,
    /// Names of interfaces without RSVP.
    without_rsvp: BTreeSet<String>,
    receivers: Receivers,
}

impl RsvpEngine {
    pub(crate) fn new(config: &NodeConfig, random: &RandomStreams) -> RsvpEngine {
        let mut settings = config.rsvp.clone();
        // The far edges of a core are its RSVP neighbours.
        settings.distant_neighbors.extend(config.borders.keys().cloned());
        RsvpEngine {
            rsvp: Rsvp::new(settings, random),
            interfaces: Interfaces::default(),
            without_rsvp: config.without_rsvp.clone(),
            receivers: Receivers::default(),
        }
    }

    fn handle(
        &mut self,
        now: Time,
        input: Input<'_, rsvp::Command>,
        context: &mut Context<'_>,
        out: &mut Effects<Event>,
    ) {
        let Context { routes, ledger, .. } = context;
        let mut context = Context { routes: *routes, interfaces: &self.interfaces, ledger };
        self.rsvp.handle(now, input, &mut context, out);
    }

    /// Returns RSVP's own command, whose consequences for receivers and ledger are applied; `None` for one of another
    /// engine.
    fn own_command(
        &mut self,
        command: Command,
        context: &mut Context<'_>,
    ) -> Option<rsvp::Command> {
        let Command::Rsvp(command) = command else { return None };
        match &command {
            rsvp::Command::Release { application } => self.receivers.remove(*application),
            rsvp::Command::Renew(renewal) => {
                context.ledger.set_preemption(renewal.policy.preemption);
            }
            _ => {}
        }
        Some(command)
    }

    /// Opens a session and answers its senders from now on. Without the session there are no answers.
    fn listen(
        &mut self,
        now: Time,
        listen: Listen,
        context: &mut Context<'_>,
        out: &mut Effects<Event>,
    ) {
        let (application, session) = (listen.application, listen.session);
        let before = self.receivers.listen(listen);
        let effects = out.len();
        let open = rsvp::Command::Session { application, session };
        self.handle(now, Input::Command(open), context, out);
        let rejected = out.iter().skip(effects).any(|effect| {
            matches!(
                effect,
                Effect::Notify(Event::Rsvp(rsvp::Event::Rejected { reason, .. }))
                    if matches!(reason, Rejection::SessionOpen | Rejection::BadSession)
            )
        });
        if rejected {
            self.receivers.restore(application, before);
        }
    }
}

impl ProcessInput for RsvpEngine {
    fn process(
        &mut self,
        now: Time,
        input: Input<'_, Command>,
        context: &mut Context<'_>,
        out: &mut Effects<Event>,
    ) {
        let own = match input {
            Input::Command(Command::Listen(listen)) => {
                return self.listen(now, listen, context, out);
            }
            input => input.filter_map_command(|command| self.own_command(command, context)),
        };
        if let Some(input) = own {
            self.handle(now, input, context, out);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.rsvp.next_deadline().map(|(at, _)| at)
    }

    fn engine(&self) -> &dyn Any {
        &self.rsvp
    }

    fn engine_mut(&mut self) -> &mut dyn Any {
        &mut self.rsvp
    }
}

impl NodeEngine for RsvpEngine {
    fn kind(&self) -> &'static EngineKind {
        &KIND
    }

    fn ip_protocols(&self) -> &'static [u8] {
        &[rsvp::PROTOCOL]
    }

    fn has_follow_up(&self) -> bool {
        true
    }

    /// Answers the senders that the effects announce and that have a listener.
    fn follow_up(
        &mut self,
        now: Time,
        from: usize,
        context: &mut Context<'_>,
        out: &mut Effects<Event>,
    ) -> bool {
        if self.receivers.is_empty() {
            return false;
        }
        let answers = self.receivers.answers(out, from);
        let any = !answers.is_empty();
        for answer in answers {
            match answer {
                Ok(reserve) => self.handle(now, Input::Command(reserve), context, out),
                Err(event) => out.notify(*event),
            }
        }
        any
    }

    fn edge(&self, config: &NodeConfig) -> Option<Box<dyn Edge>> {
        Some(Box::new(Aggregation::new(&config.borders)?))
    }

    fn bundle(&mut self, interfaces: &Interfaces, out: &mut Effects<Event>) {
        self.rsvp.bundle(interfaces, out);
    }

    fn set_interface(&mut self, interface: &Interface) {
        let mut interface = interface.clone();
        if self.without_rsvp.contains(&interface.name) {
            (interface.bandwidth, interface.reservable) = (Rate::ZERO, Rate::ZERO);
        }
        self.interfaces.set(interface);
    }

    fn remove_interface(&mut self, interface: InterfaceId) {
        self.interfaces.remove(interface);
    }

    fn sessions<'a>(
        &'a self,
        from: u32,
        filter: &'a RowFilter,
        view: NodeView<'a>,
    ) -> Slots<'a, SessionRow> {
        let row = move |sender: SenderView<'_>| {
            let interfaces = sender.incoming.into_iter().chain(sender.outgoing.iter().copied());
            let is_included = view.admits_link(filter, interfaces);
            is_included.then(|| listing::session_row(&sender, view))
        };
        let slots = from..self.rsvp.sender_slots();
        Box::new(slots.map(move |slot| (slot, self.rsvp.sender_at(slot, filter).and_then(row))))
    }

    fn reservations<'a>(
        &'a self,
        from: u32,
        filter: &'a RowFilter,
        view: NodeView<'a>,
    ) -> Slots<'a, (Option<ClaimId>, ReservationRow)> {
        let row = move |reservation: ReservationView| {
            // Aggregates of one DSCP share a class.
            let claim = reservation.claim.map(|claim| self.rsvp.installed_claim(claim));
            let is_included = view.admits_link(filter, reservation.outgoing);
            is_included.then(|| (claim, listing::reservation_row(&reservation, view)))
        };
        let slots = from..self.rsvp.reservation_slots();
        let at = move |slot| self.rsvp.reservation_at(slot, filter);
        Box::new(slots.map(move |slot| (slot, at(slot).and_then(row))))
    }

    fn reservation_of(
        &self,
        claim: ClaimId,
        owner: Owner,
        view: NodeView<'_>,
    ) -> Option<ReservationRow> {
        let reservation = self.rsvp.reservation_of(claim, owner)?;
        Some(listing::reservation_row(&reservation, view))
    }

    fn neighbors<'a>(&'a self, view: NodeView<'a>) -> Rows<'a, NeighborRow> {
        Box::new(self.rsvp.neighbors().map(move |neighbor| listing::neighbor_row(&neighbor, view)))
    }

    fn counters(&self) -> Rows<'_, Counter> {
        let counters = self.rsvp.counters().iter();
        Box::new(counters.map(|(group, name, count)| ("rsvp", group, name, count)))
    }

    fn table_octets(&self) -> Rows<'_, (&'static str, usize)> {
        Box::new([("rsvp", self.rsvp.table_octets())].into_iter())
    }

    fn claims(&self) -> Rows<'_, HeldClaim> {
        Box::new(self.rsvp.reservations().filter_map(|view| {
            Some(HeldClaim { claim: view.claim?, interface: view.outgoing?, locked: false })
        }))
    }

    fn state_counts(&self) -> Rows<'_, StateCount> {
        let (sessions, senders, reservations) = self.rsvp.population();
        let neighbors = self.rsvp.neighbors();
        let neighbors = neighbors.filter(|known| known.senders > 0 || known.reservations > 0);
        let counts = [
            ("rsvp", "sessions", sessions),
            ("rsvp", "senders", senders),
            ("rsvp", "reservations", reservations),
            ("rsvp", "neighbors", neighbors.count()),
            ("rsvp", "unacknowledged_messages", self.rsvp.reduction().1),
        ];
        Box::new(counts.into_iter())
    }
}
