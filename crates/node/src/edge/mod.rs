//! The edge of a core: RSVP flows cross it in one aggregate for each range of destinations.
//!
//! # The story
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
//! The edge is the initiating node of one Boomerang session for each range. The session claims on the real link; the flows
//! claim on a [lane](earmark_core::admission::Ledger::open_lane) of the ledger, which has what the session was granted. The
//! core has one reservation, and no state of RSVP, whatever the number of flows.
//!
//! An aggregate grows by whole steps when its flows need more than it has, and shrinks when they have needed a step less,
//! and a margin, for a while ([`lane`] has the rules). A Resv that finds no room waits for the aggregate to grow, as if the
//! network were slower; where the core refuses, or it takes too long, RSVP gets the message as it came and refuses
//! it in its own words. So RSVP knows nothing of all this, and Boomerang neither.
//!
//! # What may go wrong
//!
//! - **The core refuses to grow**: who waits is refused, the others stay. For a while nobody asks again.
//! - **The core takes the aggregate back**, or is silent for as long as reservations live: the edge sets the aggregate up anew,
//!   and if that takes longer than [`Across::recover`], the flows lose their reservations, and RSVP tells.
//! - **The link goes**: flows and aggregate are lost like anything else on it.
//!
//! # Limits
//!
//! See `docs/interworking.md`.

mod guard;
mod hide;
mod lane;

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_boomerang as boomerang;
use earmark_core::admission::{ClaimId, Ledger};
use earmark_core::{Effect, Effects, Flow, Input as EngineInput, InterfaceId, Prefix, Rate, Time};
use serde::{Deserialize, Serialize};

use crate::api::Event;
use crate::node::Node;
pub use hide::PROTOCOL as RSVP_E2E_IGNORE;
use lane::{Lane, Step};

/// What of an interface faces a core.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Border {
    /// Whether messages of RSVP along the data's way leave as IP protocol 134, which nobody in the core looks at
    /// (RFC 3175 section 2.1). The other edges must then know it, too.
    pub hide: bool,
    /// The aggregates across the core.
    pub across: Vec<Across>,
}

/// One aggregate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Across {
    /// The far edge: anybody beyond the core, in the direction of the range, who answers pings.
    pub to: IpAddr,
    /// The destinations behind it.
    pub range: Prefix,
    /// What the aggregate grows and shrinks by.
    pub step: Rate,
    /// What it never goes below.
    #[serde(default)]
    pub lowest: Rate,
    /// What it never goes above.
    pub highest: Rate,
    /// What is kept free for flows to come, so that most need not wait.
    #[serde(default)]
    pub margin: Rate,
    /// How long less must have been enough before it shrinks.
    #[serde(default = "half_a_minute")]
    pub shrink_after: Duration,
    /// How long a request waits for it to grow.
    #[serde(default = "two_seconds")]
    pub patience: Duration,
    /// Requests that wait at the same time.
    #[serde(default = "a_thousand")]
    pub waiting: u32,
    /// How long nobody asks for more after the core has refused.
    #[serde(default = "five_seconds")]
    pub pause: Duration,
    /// How long flows keep their reservations while the aggregate, once lost, is set up anew.
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

/// What became of an aggregate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AggregateChange {
    /// It has more than before.
    Grown,
    /// It has less, because less is enough.
    Shrunk,
    /// Nobody needs it any more.
    Released,
    /// The core refused to give it more.
    Refused,
    /// The core has taken it back, or is silent.
    Failing,
    /// It could not be had again in time; its flows have lost their reservations.
    Lost,
}

/// One aggregate, for listings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AggregateRow {
    /// Which protocol the aggregate is of: `boomerang` or `nsis`.
    pub protocol: String,
    /// Name of the interface that faces the core; none while the aggregate has no reservation.
    pub interface: Option<String>,
    /// The far edge, where it is known.
    pub to: Option<IpAddr>,
    /// The destinations behind it.
    pub range: Prefix,
    /// Reservations in it.
    pub members: u32,
    /// What they need together.
    pub need_bps: Rate,
    /// What the core has granted.
    pub granted_bps: Rate,
    /// Requests that wait for it to grow.
    pub waiting: u32,
    /// Whether the core has taken it back, or is silent.
    pub failing: bool,
}

/// All aggregates of a node.
#[derive(Debug, Default)]
pub(crate) struct Edges {
    borders: BTreeMap<String, Border>,
    /// The interfaces of borders, and whether messages are hidden there.
    facing: BTreeMap<InterfaceId, bool>,
    /// By number, which names the lane and the session as well.
    lanes: Vec<Lane>,
    /// Claims of aggregates on this node's own links. Their flows have classes of their own here.
    own: BTreeSet<ClaimId>,
}

impl Edges {
    pub(crate) fn new(borders: BTreeMap<String, Border>) -> Edges {
        Edges { borders, ..Edges::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.borders.is_empty()
    }

    /// An interface is there, and its link is in the ledger: its lanes open.
    pub(crate) fn enter(&mut self, name: &str, id: InterfaceId, ledger: &mut Ledger) {
        let Some(border) = self.borders.get(name) else { return };
        self.facing.insert(id, border.hide);
        let mut known = false;
        for lane in self.lanes.iter_mut().filter(|lane| lane.border == name) {
            known = true;
            // The interface may have come back with another index.
            let has_moved = core::mem::replace(&mut lane.interface, id) != id;
            if has_moved || ledger.link(lane.link).is_none() {
                ledger.open_lane(id, lane.across.range, lane.link, lane.across.highest);
                lane.granted = Rate::ZERO;
            }
        }
        if known {
            return;
        }
        for across in &border.across {
            let lane = Lane::new(self.lanes.len() as u32, name, id, across.clone());
            ledger.open_lane(id, across.range, lane.link, across.highest);
            self.lanes.push(lane);
        }
    }

    /// An interface takes part no more. Its lanes wait until it comes back.
    pub(crate) fn leave(&mut self, id: InterfaceId) {
        self.facing.remove(&id);
    }

    /// The lanes of an interface.
    pub(crate) fn lanes_of(&self, id: InterfaceId) -> Vec<InterfaceId> {
        self.lanes.iter().filter(|lane| lane.interface == id).map(|lane| lane.link).collect()
    }

    /// The interface behind which a lane is; `None` for what is no lane.
    pub(crate) fn interface_of(&self, link: InterfaceId) -> Option<InterfaceId> {
        let number = usize::try_from(u32::MAX - link.0).ok()?;
        self.lanes.get(number).map(|lane| lane.interface)
    }

    /// When something is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.lanes.iter().filter_map(Lane::deadline).min()
    }

    /// The aggregate that an application of Boomerang is behind.
    fn of_application(&mut self, application: boomerang::Application) -> Option<&mut Lane> {
        let number = usize::try_from(u64::MAX - application.0).ok()?;
        self.lanes.get_mut(number)
    }

    /// Whether a reservation on a link is that of an aggregate.
    fn is_own(&self, interface: InterfaceId, flow: &Flow) -> bool {
        let is_it =
            |lane: &Lane| lane.interface == interface && *flow == Flow::to_range(lane.across.range);
        flow.is_range() && self.lanes.iter().any(is_it)
    }
}

/// Rounds of replies to one input: each may let requests in that make the aggregate grow again.
const MOST_ROUNDS: usize = 8;

impl Node {
    /// The aggregates across cores.
    pub fn aggregate_rows(&self) -> impl Iterator<Item = AggregateRow> {
        let of_rsvp = self.edges.lanes.iter().map(|lane| {
            let status = self.ledger.link(lane.link);
            AggregateRow {
                protocol: "boomerang".into(),
                interface: Some(lane.border.clone()),
                to: Some(lane.across.to),
                range: lane.across.range,
                members: status.map_or(0, |status| status.claims),
                need_bps: status.map_or(Rate::ZERO, |status| status.held),
                granted_bps: lane.granted,
                waiting: lane.waiting() as u32,
                failing: lane.is_failing(),
            }
        });
        of_rsvp.chain(self.nsis_aggregates())
    }

    /// Looks at what an input has done, from effect `from` on, and does what the aggregates need because of it.
    pub(crate) fn tend_edges(&mut self, now: Time, mut from: usize, out: &mut Effects<Event>) {
        for _ in 0..MOST_ROUNDS {
            let mut news = Vec::new();
            self.sift(from, out, &mut news);
            from = out.len();
            for event in &news {
                self.aggregate_news(now, event, out);
            }
            let mut steps = Vec::new();
            for lane in &mut self.edges.lanes {
                let held = self.ledger.link(lane.link).map_or(Rate::ZERO, |status| status.held);
                lane.plan(now, held, &mut steps);
            }
            if steps.is_empty() {
                // What the news have told of leaves as it is.
                self.sift(from, out, &mut Vec::new());
                return;
            }
            for step in steps {
                self.take_step(now, step, out);
            }
            self.settle(now, out);
        }
        self.sift(from, out, &mut Vec::new());
    }

    fn take_step(&mut self, now: Time, step: Step, out: &mut Effects<Event>) {
        match step {
            Step::Command(command) => self.boomerang(now, EngineInput::Command(command), out),
            Step::Narrow(lane, rate) => self.ledger.set_lane_rate(lane, rate),
            Step::Replay(message) => {
                self.rsvp(now, EngineInput::Datagram(message.datagram()), out);
            }
            Step::Tell(number, change) => self.tell_of_aggregate(number, change, out),
            Step::Lose(number) => {
                let Some(lane) = self.edges.lanes.get(number as usize) else { return };
                let (link, interface) = (lane.link, lane.interface);
                let (range, most) = (lane.across.range, lane.across.highest);
                self.lose_link(now, link, ENETDOWN, out);
                self.ledger.open_lane(interface, range, link, most);
                self.tell_of_aggregate(number, AggregateChange::Lost, out);
            }
        }
    }

    /// Boomerang has told something of an aggregate.
    fn aggregate_news(&mut self, now: Time, event: &boomerang::Event, out: &mut Effects<Event>) {
        let Some(application) = application_of(event) else { return };
        let Some(lane) = self.edges.of_application(application) else { return };
        let (number, link) = (lane.number, lane.link);
        let change = lane.hears(now, event);
        let granted = lane.granted;
        self.ledger.set_lane_rate(link, granted);
        if let Some(change) = change {
            self.tell_of_aggregate(number, change, out);
        }
    }

    fn tell_of_aggregate(&self, number: u32, change: AggregateChange, out: &mut Effects<Event>) {
        let Some(lane) = self.edges.lanes.get(number as usize) else { return };
        let (to, range, granted) = (lane.across.to, lane.across.range, lane.granted);
        let need = self.ledger.link(lane.link).map_or(Rate::ZERO, |status| status.held);
        out.notify(Event::Aggregate { change, to, range, granted, need });
    }

    /// Takes out of the effects what is between the edge and its Boomerang engine, and hides what the core is not to see.
    fn sift(&mut self, from: usize, out: &mut Effects<Event>, news: &mut Vec<boomerang::Event>) {
        let edges = &mut self.edges;
        out.retain_from(from, |effect| match effect {
            Effect::Notify(Event::Boomerang(event)) => {
                let ours = application_of(event)
                    .is_some_and(|application| edges.of_application(application).is_some());
                if ours {
                    news.push(event.clone());
                }
                !ours
            }
            Effect::Install(installation) => {
                let own = edges.is_own(installation.interface, &installation.flow);
                if own {
                    edges.own.insert(installation.claim);
                }
                !own
            }
            Effect::Remove(claim) => !edges.own.remove(claim),
            _ => true,
        });
        self.hide_from_core(from, out);
    }
}

/// Whom an event of Boomerang is for.
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

/// "Network is down", in the numbers of every Unix.
const ENETDOWN: u16 = 100;
