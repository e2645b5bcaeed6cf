//! The edge of a core: RSVP flows cross the core in one aggregate for each range of destinations.
//!
//! # Message flow
//!
//! ```text
//!   senders          edge e1             core c1, c2            far edge e2        receivers
//!      | Path ------> | Path, unseen by the core -----------------> | Path ------> |
//!      |              | <------------------------------------- Resv | <----- Resv  |
//!      |              | room in the aggregate? admitted at once     |
//!      | <------ Resv |                        |                    |
//!      |              | no room: the Resv waits, and one loop of    |
//!      |              | Boomerang ----------> c1 --------> c2 -----> | asks for some steps more
//!      | <------ Resv | <-------------------------------------------| granted: the Resv goes on
//! ```
//!
//! The edge is the initiator of one Boomerang session for each range. The session claims on the real link; the flows
//! claim on a [lane](earmark_core::admission::Ledger::open_lane) of the ledger, whose bandwidth is the session's
//! granted rate. For any number of flows the core has one reservation, and no RSVP state.
//!
//! An aggregate grows by whole steps when its flows need more than its rate, and shrinks when they have needed a step
//! and a margin less for some time (rules in [`aggregate`]). A Resv without room waits for the aggregate to grow, like
//! in a slower network. If the core refuses, or the wait exceeds the limit, RSVP receives the unchanged message and
//! refuses it. RSVP and Boomerang are thus independent of the aggregation.
//!
//! # Failures
//!
//! - **The core refuses to grow**: waiting requests are refused, reservations stay. A pause follows before the next
//!   request.
//! - **The core takes the aggregate back**, or is silent for a reservation's lifetime: the edge sets up the aggregate
//!   again. If that takes longer than [`Across::recover`], the flows lose their reservations, which RSVP reports.
//! - **The link goes**: flows and aggregate end like all reservations on the link.
//!
//! # Limits
//!
//! See `docs/interworking.md`.

mod admission;
mod aggregate;
mod e2e_ignore;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_boomerang as boomerang;
use earmark_core::admission::{ClaimId, Ledger};
use earmark_core::listing::AggregateRow;
use earmark_core::{Effect, Effects, Flow, InterfaceId, Prefix, Rate, Time};
use earmark_rsvp as rsvp;
use serde::{Deserialize, Serialize};

use crate::api::{Command, Event};
use crate::engine::{Arrival, Interception};
use crate::node::Node;
use aggregate::{Action, Aggregate};
pub use e2e_ignore::PROTOCOL as RSVP_E2E_IGNORE;

/// Settings of an interface towards a core.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Border {
    /// Whether RSVP messages that follow the data leave as IP protocol 134, which the nodes of the core ignore (RFC
    /// 3175 section 2.1). All other edges must then support this protocol.
    pub hide: bool,
    /// Aggregates across the core.
    pub across: Vec<Across>,
}

/// Settings of an aggregate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Across {
    /// Far edge: any host beyond the core, in the direction of the range, that answers pings.
    pub to: IpAddr,
    /// Destinations behind the far edge.
    pub range: Prefix,
    /// Step of growth and shrinking.
    pub step: Rate,
    /// Lowest rate.
    #[serde(default)]
    pub lowest: Rate,
    /// Highest rate.
    pub highest: Rate,
    /// Rate kept free for new flows, so that most of them need not wait.
    #[serde(default)]
    pub margin: Rate,
    /// Time for which a lower rate must have been sufficient before the aggregate shrinks.
    #[serde(default = "half_a_minute")]
    pub shrink_after: Duration,
    /// Maximum time that a request waits for the aggregate to grow.
    #[serde(default = "two_seconds")]
    pub patience: Duration,
    /// Maximum number of requests that wait at the same time.
    #[serde(default = "a_thousand")]
    pub waiting: u32,
    /// Pause between a refusal by the core and the next request.
    #[serde(default = "five_seconds")]
    pub pause: Duration,
    /// Time for which flows keep their reservations while a lost aggregate is set up again.
    #[serde(default = "five_seconds")]
    pub recover: Duration,
}

fn half_a_minute() -> Duration {
    Duration::from_secs(30)
}

fn two_seconds() -> Duration {
    Duration::from_secs(2)
}

fn five_seconds() -> Duration {
    Duration::from_secs(5)
}

fn a_thousand() -> u32 {
    1_000
}

/// Changes of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AggregateChange {
    /// The rate has increased.
    Grown,
    /// The rate has decreased, because less is sufficient.
    Shrunk,
    /// The aggregate was released, because no flow needs it.
    Released,
    /// The core refused a higher rate.
    Refused,
    /// The core has withdrawn the reservation, or is silent.
    Failing,
    /// The aggregate was not restored in time; its flows have lost their reservations.
    Lost,
}

/// Edge of a node: its borders, and their aggregates.
#[derive(Debug, Default)]
pub(crate) struct Edge {
    borders: BTreeMap<String, Border>,
    /// Interfaces of borders, with whether messages are hidden there.
    core_interfaces: BTreeMap<InterfaceId, bool>,
    /// Aggregates by number, which also identifies link and session.
    aggregates: Vec<Aggregate>,
    /// Claims of aggregates on this node's own links, which need no class: each flow has its own class here.
    own_claims: BTreeSet<ClaimId>,
}

impl Edge {
    pub(crate) fn new(borders: BTreeMap<String, Border>) -> Edge {
        Edge { borders, ..Edge::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.borders.is_empty()
    }

    /// Opens the aggregates of an interface whose link is in the ledger.
    pub(crate) fn add_interface(&mut self, name: &str, id: InterfaceId, ledger: &mut Ledger) {
        let Some(border) = self.borders.get(name) else { return };
        self.core_interfaces.insert(id, border.hide);
        let mut known = false;
        for aggregate in self.aggregates.iter_mut().filter(|aggregate| aggregate.border == name) {
            known = true;
            // The interface may have returned with another index.
            let has_moved = core::mem::replace(&mut aggregate.interface, id) != id;
            if has_moved || ledger.link(aggregate.link).is_none() {
                ledger.open_lane(
                    id,
                    aggregate.across.range,
                    rsvp::ID,
                    aggregate.link,
                    aggregate.across.highest,
                );
                aggregate.granted = Rate::ZERO;
            }
        }
        if known {
            return;
        }
        for across in &border.across {
            let aggregate = Aggregate::new(self.aggregates.len() as u32, name, id, across.clone());
            ledger.open_lane(id, across.range, rsvp::ID, aggregate.link, across.highest);
            self.aggregates.push(aggregate);
        }
    }

    /// Marks that an interface no longer takes part. Its aggregates wait until the interface returns.
    pub(crate) fn remove_interface(&mut self, id: InterfaceId) {
        self.core_interfaces.remove(&id);
    }

    /// Returns the links of the aggregates behind an interface.
    pub(crate) fn links_behind(&self, id: InterfaceId) -> Vec<InterfaceId> {
        self.aggregates
            .iter()
            .filter(|aggregate| aggregate.interface == id)
            .map(|aggregate| aggregate.link)
            .collect()
    }

    /// Returns what the host does with a message of RSVP-E2E-IGNORE.
    pub(crate) fn interception(&self, arrival: &Arrival<'_>) -> Interception {
        match arrival.router_alert && self.borders.values().any(|border| border.hide) {
            true => Interception::Taken,
            false => Interception::Left,
        }
    }

    /// Iterates over the aggregates.
    pub(crate) fn aggregate_rows(&self, ledger: &Ledger) -> impl Iterator<Item = AggregateRow> {
        self.aggregates.iter().map(move |aggregate| {
            let status = ledger.link(aggregate.link);
            AggregateRow {
                protocol: "boomerang".into(),
                interface: Some(aggregate.border.clone()),
                to: Some(aggregate.across.to),
                range: aggregate.across.range,
                members: status.map_or(0, |status| status.claims),
                need_bps: status.map_or(Rate::ZERO, |status| status.held),
                granted_bps: aggregate.granted,
                waiting: aggregate.waiting() as u32,
                failing: aggregate.is_failing(),
            }
        })
    }

    /// Returns the earliest deadline of an aggregate.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.aggregates.iter().filter_map(Aggregate::deadline).min()
    }

    /// Returns the aggregate that is a Boomerang application.
    fn by_application(&mut self, application: boomerang::Application) -> Option<&mut Aggregate> {
        let number = usize::try_from(u64::MAX - application.0).ok()?;
        self.aggregates.get_mut(number)
    }

    /// Whether a reservation on a link is that of an aggregate.
    fn is_aggregate_claim(&self, interface: InterfaceId, flow: &Flow) -> bool {
        let is_it = |aggregate: &Aggregate| {
            aggregate.interface == interface && *flow == Flow::to_range(aggregate.across.range)
        };
        flow.is_range() && self.aggregates.iter().any(is_it)
    }
}

/// Maximum number of rounds for one input: each may admit requests that make the aggregate grow again.
const MAX_ROUNDS: usize = 8;

impl Node {
    /// Evaluates the effects of an input, from effect `from` on, and performs the actions of the aggregates.
    pub(crate) fn update_aggregates(
        &mut self,
        now: Time,
        mut from: usize,
        out: &mut Effects<Event>,
    ) {
        for _ in 0..MAX_ROUNDS {
            let mut events = Vec::new();
            self.filter_effects(from, out, &mut events);
            from = out.len();
            for event in &events {
                self.handle_aggregate_event(now, event, out);
            }
            let mut actions = Vec::new();
            for aggregate in &mut self.edge.aggregates {
                let held =
                    self.ledger.link(aggregate.link).map_or(Rate::ZERO, |status| status.held);
                aggregate.next_actions(now, held, &mut actions);
            }
            if actions.is_empty() {
                // Effects of the last events remain in the list.
                self.filter_effects(from, out, &mut Vec::new());
                return;
            }
            for action in actions {
                self.perform(now, action, out);
            }
            self.settle(now, out);
        }
        self.filter_effects(from, out, &mut Vec::new());
    }

    fn perform(&mut self, now: Time, action: Action, out: &mut Effects<Event>) {
        match action {
            Action::Command(command) => self.command(now, Command::Boomerang(command), out),
            Action::SetRate(aggregate, rate) => self.ledger.set_lane_rate(aggregate, rate),
            Action::Deliver(message) => {
                self.receive(now, rsvp::PROTOCOL, message.datagram(), out);
            }
            Action::Notify(number, change) => self.notify_aggregate_change(number, change, out),
            Action::LoseReservations(number) => {
                let Some(aggregate) = self.edge.aggregates.get(number as usize) else {
                    return;
                };
                let (link, interface) = (aggregate.link, aggregate.interface);
                let (range, most) = (aggregate.across.range, aggregate.across.highest);
                self.lose_link(now, link, ENETDOWN, out);
                self.ledger.open_lane(interface, range, rsvp::ID, link, most);
                self.notify_aggregate_change(number, AggregateChange::Lost, out);
            }
        }
    }

    /// Processes an event of Boomerang for an aggregate.
    fn handle_aggregate_event(
        &mut self,
        now: Time,
        event: &boomerang::Event,
        out: &mut Effects<Event>,
    ) {
        let Some(application) = application_of(event) else { return };
        let Some(aggregate) = self.edge.by_application(application) else { return };
        let (number, link) = (aggregate.number, aggregate.link);
        let change = aggregate.handle_event(now, event);
        let granted = aggregate.granted;
        self.ledger.set_lane_rate(link, granted);
        if let Some(change) = change {
            self.notify_aggregate_change(number, change, out);
        }
    }

    fn notify_aggregate_change(
        &self,
        number: u32,
        change: AggregateChange,
        out: &mut Effects<Event>,
    ) {
        let Some(aggregate) = self.edge.aggregates.get(number as usize) else { return };
        let (to, range, granted) = (aggregate.across.to, aggregate.across.range, aggregate.granted);
        let need = self.ledger.link(aggregate.link).map_or(Rate::ZERO, |status| status.held);
        out.notify(Event::Aggregate { change, to, range, granted, need });
    }

    /// Removes effects that are internal to the edge and its Boomerang engine, and hides messages from the core.
    fn filter_effects(
        &mut self,
        from: usize,
        out: &mut Effects<Event>,
        events: &mut Vec<boomerang::Event>,
    ) {
        let edges = &mut self.edge;
        out.retain_from(from, |effect| match effect {
            Effect::Notify(Event::Boomerang(event)) => {
                let ours = application_of(event)
                    .is_some_and(|application| edges.by_application(application).is_some());
                if ours {
                    events.push(event.clone());
                }
                !ours
            }
            Effect::Install(installation) => {
                let own = edges.is_aggregate_claim(installation.interface, &installation.flow);
                if own {
                    edges.own_claims.insert(installation.claim);
                }
                !own
            }
            Effect::Remove(claim) => !edges.own_claims.remove(claim),
            _ => true,
        });
        self.hide_from_core(from, out);
    }
}

/// Returns the application of a Boomerang event.
fn application_of(event: &boomerang::Event) -> Option<boomerang::Application> {
    use boomerang::Event::*;
    match event {
        Established { application, .. }
        | Refused { application, .. }
        | Changed { application, .. }
        | Offered { application, .. }
        | Lost { application }
        | Released { application }
        | Rejected { application, .. } => Some(*application),
        _ => None,
    }
}

/// Error number "network is down" of Unix.
const ENETDOWN: u16 = 100;
