//! RSVP at the edge of a core: flows cross the core in one aggregate for each range of destinations (RFC 3175), which
//! the protocol of its settings reserves ([`core_protocol`]).
//!
//! # Message flow
//!
//! ```text
//!   senders          edge e1             core c1, c2            far edge e2        receivers
//!      | Path ------> | Path, unseen by the core -----------------> | Path ------> |
//!      |              | <------------------------------------- Resv | <----- Resv  |
//!      |              | room in the aggregate? admitted at once     |
//!      | <------ Resv |                        |                    |
//!      |              | no room: the Resv waits, and one request    |
//!      |              | crosses ------------> c1 --------> c2 -----> | asks for some steps more
//!      | <------ Resv | <-------------------------------------------| granted: the Resv goes on
//! ```
//!
//! The edge is the initiator of one session across the core for each range. The session claims on the real link; the flows
//! claim on a [lane](earmark_core::admission::Ledger::open_lane) of the ledger, whose bandwidth is the session's
//! granted rate. For any number of flows the core has one reservation, and no state of a flow.
//!
//! An aggregate grows by whole steps when its flows need more than its rate, and shrinks when they have needed a step
//! and a margin less for some time (rules in [`aggregate`]). A Resv without room waits for the aggregate to grow, like
//! in a slower network. If the core refuses, or the wait exceeds the limit, RSVP receives the unchanged message and
//! refuses it. The engines of both protocols are thus independent of the aggregation.
//!
//! # Failures
//!
//! - **The core refuses to grow**: waiting requests are refused, reservations stay. A pause follows before the next
//!   request.
//! - **The core takes the aggregate back**, or is silent for a reservation's lifetime: the edge sets up the aggregate
//!   again. If that takes longer than [`recover`](settings::Across::recover), the flows lose their reservations, which RSVP reports.
//! - **The link goes**: flows and aggregate end like all reservations on the link.
//!
//! # Limits
//!
//! See `docs/interworking.md`.

mod admission;
mod aggregate;
pub(crate) mod core_packets;
pub(crate) mod core_protocol;
mod e2e_ignore;
pub(crate) mod settings;

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::any::Any;

use earmark_core::admission::{ClaimId, Ledger};
use earmark_core::listing::AggregateRow;
use earmark_core::{Datagram, Effect, Effects, Flow, InterfaceId, Rate, Time};
use earmark_rsvp as rsvp;

use crate::edge::{CoreEvent, Edge, EdgeAction};
use crate::interception::{Arrival, Interception};
use crate::protocols::Event;
use crate::protocols::rsvp::core_reservation as rsvp_core;
use aggregate::Aggregate;
pub use e2e_ignore::E2E_IGNORE;
use settings::{Border, Deaggregate};

/// RSVP at the edge of a core: the borders of a node, and their aggregates.
#[derive(Debug)]
pub(super) struct Aggregation {
    borders: BTreeMap<String, Border>,
    /// Interfaces of borders, with whether messages are hidden there.
    core_interfaces: BTreeMap<InterfaceId, bool>,
    /// Aggregates by number, which also identifies lane and session.
    aggregates: Vec<Aggregate>,
    /// Claims of aggregates on this node's own links, which need no class: each flow has its own class here.
    own_claims: BTreeSet<ClaimId>,
    /// Whether the sessions of deaggregating routers are open.
    answers: bool,
}

impl Aggregation {
    /// Creates the aggregation for borders; `None` without borders.
    pub(super) fn new(borders: &BTreeMap<String, Border>) -> Option<Aggregation> {
        (!borders.is_empty()).then(|| Aggregation {
            borders: borders.clone(),
            core_interfaces: BTreeMap::new(),
            aggregates: Vec::new(),
            own_claims: BTreeSet::new(),
            answers: false,
        })
    }

    /// Whether a reservation on a link is that of an aggregate.
    fn is_aggregate_claim(&self, interface: InterfaceId, flow: &Flow) -> bool {
        let is_it = |aggregate: &Aggregate| {
            aggregate.interface == interface && *flow == Flow::to_range(aggregate.across.range)
        };
        flow.is_range() && self.aggregates.iter().any(is_it)
    }

    /// Opens the sessions of this node as deaggregating router, once.
    fn answer_aggregates(&mut self) -> Vec<EdgeAction> {
        if core::mem::replace(&mut self.answers, true) {
            return Vec::new();
        }
        let all = self.borders.values().flat_map(|border| &border.deaggregates);
        let answer = |(number, Deaggregate { at, packets }): (u32, &Deaggregate)| {
            EdgeAction::Command(rsvp_core::answer(number, *at, *packets))
        };
        (0..).zip(all).map(answer).collect()
    }

    /// Removes effects that are internal to the edge and the engine that reserves its aggregates, and hides messages
    /// from the core. Returns the events of aggregates by number.
    fn take_events(&mut self, from: usize, out: &mut Effects<Event>) -> Vec<(usize, CoreEvent)> {
        let mut events = Vec::new();
        out.retain_from(from, |effect| match effect {
            Effect::Notify(event) => {
                let ours = core_protocol::event_of_aggregate(event)
                    .filter(|(number, _)| *number < self.aggregates.len());
                events.extend(ours);
                ours.is_none() && !rsvp_core::is_of_deaggregator(event)
            }
            Effect::Install(installation) => {
                let own = self.is_aggregate_claim(installation.interface, &installation.flow);
                if own {
                    self.own_claims.insert(installation.claim);
                }
                !own
            }
            Effect::Remove(claim, _) => !self.own_claims.remove(claim),
            _ => true,
        });
        self.hide_from_core(from, out);
        events
    }
}

impl Edge for Aggregation {
    fn examines(&self, ip_protocol: u8) -> bool {
        matches!(ip_protocol, rsvp::PROTOCOL | E2E_IGNORE)
    }

    /// Takes messages of RSVP-E2E-IGNORE.
    fn interception(&self, arrival: &Arrival<'_>) -> Interception {
        let is_hidden = arrival.ip_protocol == E2E_IGNORE && arrival.router_alert;
        match is_hidden && self.borders.values().any(|border| border.hide) {
            true => Interception::Taken,
            false => Interception::Left,
        }
    }

    fn receive<'a>(
        &mut self,
        now: Time,
        ip_protocol: u8,
        datagram: Datagram<'a>,
        engine: &dyn Any,
        ledger: &Ledger,
    ) -> Option<(u8, Datagram<'a>)> {
        let datagram = self.restore(ip_protocol, datagram)?;
        let waits = self.hold_back(now, &datagram, engine.downcast_ref(), ledger);
        (!waits).then_some((rsvp::PROTOCOL, datagram))
    }

    fn add_interface(&mut self, name: &str, id: InterfaceId, ledger: &mut Ledger) {
        let Some(border) = self.borders.get(name) else { return };
        self.core_interfaces.insert(id, border.hide);
        let mut known = false;
        for aggregate in self.aggregates.iter_mut().filter(|aggregate| aggregate.border == name) {
            known = true;
            // The interface may have returned with another index.
            let has_moved = core::mem::replace(&mut aggregate.interface, id) != id;
            if has_moved || ledger.link(aggregate.link).is_none() {
                aggregate.lane().open(ledger);
                aggregate.granted = Rate::ZERO;
            }
            aggregate.adjust_to_interface(ledger);
        }
        if known {
            return;
        }
        for across in &border.across {
            let number = self.aggregates.len() as u32;
            let mut aggregate = Aggregate::new(number, name, id, across.clone());
            aggregate.lane().open(ledger);
            aggregate.adjust_to_interface(ledger);
            self.aggregates.push(aggregate);
        }
    }

    fn remove_interface(&mut self, id: InterfaceId) {
        self.core_interfaces.remove(&id);
    }

    fn lanes_behind(&self, id: InterfaceId) -> Vec<InterfaceId> {
        let behind = self.aggregates.iter().filter(|aggregate| aggregate.interface == id);
        behind.map(|aggregate| aggregate.link).collect()
    }

    fn aggregate_rows<'a>(
        &'a self,
        ledger: &'a Ledger,
    ) -> Box<dyn Iterator<Item = AggregateRow> + 'a> {
        Box::new(self.aggregates.iter().map(move |aggregate| {
            let status = ledger.link(aggregate.link);
            AggregateRow {
                protocol: aggregate.across.by.name().into(),
                interface: Some(aggregate.border.clone()),
                to: Some(aggregate.across.to),
                range: aggregate.across.range,
                members: status.map_or(0, |status| status.claims),
                need_bps: status.map_or(Rate::ZERO, |status| status.held),
                granted_bps: aggregate.granted,
                waiting: aggregate.waiting() as u32,
                failing: aggregate.is_failing(),
            }
        }))
    }

    fn next_deadline(&self) -> Option<Time> {
        self.aggregates.iter().filter_map(Aggregate::deadline).min()
    }

    fn actions(
        &mut self,
        now: Time,
        from: usize,
        ledger: &mut Ledger,
        out: &mut Effects<Event>,
    ) -> Vec<EdgeAction> {
        for (number, event) in self.take_events(from, out) {
            let Some(aggregate) = self.aggregates.get_mut(number) else { continue };
            let change = aggregate.handle_event(now, event);
            ledger.set_lane_rate(aggregate.link, aggregate.available());
            if let Some(change) = change {
                out.notify(aggregate.notice(change).event(ledger));
            }
        }
        let mut actions = self.answer_aggregates();
        for aggregate in &mut self.aggregates {
            let held = ledger.link(aggregate.link).map_or(Rate::ZERO, |status| status.held);
            aggregate.next_actions(now, held, &mut actions);
        }
        actions
    }

    fn filter_effects(&mut self, from: usize, out: &mut Effects<Event>) {
        self.take_events(from, out);
    }
}
