//! One run of a scenario.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use earmark_core::Time;
use earmark_core::admission::PreemptionPolicy;
use earmark_core::random::{RandomStreams, Stream as Dice};
use earmark_node::NodeConfig;
use earmark_rsvp as rsvp;
use earmark_sim::{Keep, Network, NodeId, Shape, Source};
use earmark_yessir as yessir;

use crate::build::{Built, build};
use crate::data::Stream;
use crate::faults::Timetable;
use crate::flow_schedule::{self, Life};
use crate::outcome::{Attempted, FlowOutcome, Group, Outcome, Received};
use crate::pending_reservation::{Wanting, Watching};
use crate::reservation::ReservationRequest;
use crate::routing::Routing;
use crate::scenario::{Scenario, ScenarioError};
use crate::topology::{Paths, Role, Topology};

/// Why a scenario cannot be played.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlayError {
    /// It makes no sense.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Somebody is to listen at a node that is not there,
    #[error("there is no node `{0}` in the topology")]
    NoSuchNode(String),
    /// or between two that no link joins.
    #[error("there is no link between `{node}` and `{peer}` in the topology")]
    NoSuchLink {
        /// One,
        node: String,
        /// and the other.
        peer: String,
    },
}

/// Who looks more often would never come to an end.
const LEAST_PATIENCE: Duration = Duration::from_millis(1);

/// What happens to a flow; what comes first here is first where several happen at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    End,
    Start,
    Reserve,
    /// It looks whether it has all that it asked for.
    Look,
}

/// Plays a scenario to its end with one seed.
///
/// # Errors
/// It does not fit its topology.
pub fn play(scenario: &Scenario, topology: &Topology, seed: u64) -> Result<Outcome, PlayError> {
    played(scenario, topology, seed, |_, _| ()).map(|(outcome, ..)| outcome)
}

/// Plays a scenario in a network that was prepared, whose nodes are those of the topology; the outcome, the network as it was
/// left, and what the preparation gave.
pub(crate) fn played<P>(
    scenario: &Scenario,
    topology: &Topology,
    seed: u64,
    prepare: impl FnOnce(&mut Network, &[NodeId]) -> P,
) -> Result<(Outcome, Network, P), PlayError> {
    scenario.check(topology)?;
    let mut stage = Stage::new(scenario, topology, seed);
    let prepared = prepare(&mut stage.network, &stage.nodes);
    let mut steps: BTreeSet<(Time, Step, usize)> = BTreeSet::new();
    for (number, life) in stage.lives.iter().enumerate() {
        steps.insert((life.starts, Step::Start, number));
        steps.insert((life.ends, Step::End, number));
        steps.extend(life.reserves.map(|at| (at, Step::Reserve, number)));
    }
    while let Some((at, step, number)) = steps.pop_first() {
        stage.run_until(at);
        let next = match step {
            Step::Start => stage.start(number),
            Step::Reserve => stage.reserve(number),
            Step::Look => stage.look(number),
            Step::End => stage.end(number),
        };
        // What would be after its end is not any more.
        steps.extend(next.filter(|(at, ..)| *at < stage.lives[number].ends));
    }
    stage.run_until(Time::ZERO + scenario.duration);
    let (outcome, network) = stage.finish();
    Ok((outcome, network, prepared))
}

/// A flow that may lose its patience.
struct Patience {
    dice: Dice,
    /// How often it did.
    lost: u64,
}

/// The log is read after so long at the latest.
const LOG: Duration = Duration::from_millis(500);

struct Stage<'a> {
    scenario: &'a Scenario,
    topology: &'a Topology,
    paths: Paths<'a>,
    /// By node, the one to reach it by.
    addresses: Vec<IpAddr>,
    network: Network,
    nodes: Vec<NodeId>,
    lives: Vec<Life>,
    /// Streams of flows, by number.
    streams: Vec<Option<Stream>>,
    watching: Watching,
    /// Dice of flows that may lose their patience, by number, since they asked first.
    patience: BTreeMap<usize, Patience>,
    /// How long those waited that got their reservation.
    waits: Vec<Duration>,
    /// What flows of each name came to, how long they had their reservations, and wanted them.
    groups: Vec<(Group, Duration, Duration)>,
    faults: Timetable,
    ways: Routing,
    outcome: Outcome,
}

impl<'a> Stage<'a> {
    fn new(scenario: &'a Scenario, topology: &'a Topology, seed: u64) -> Stage<'a> {
        let paths = topology.paths();
        let Built { mut network, nodes, ways } = build(topology, seed, &settings(scenario));
        network.watch_attempts();
        let is_router = |(place, _): &(usize, &NodeId)| topology.nodes[*place].role == Role::Router;
        let routers: BTreeSet<NodeId> =
            nodes.iter().enumerate().filter(is_router).map(|(_, node)| *node).collect();
        let lives = flow_schedule::draw(scenario, topology, seed);
        let outcome = Outcome { scenario: scenario.name.clone(), seed, ..Outcome::default() };
        Stage {
            watching: Watching::new(routers, Time::ZERO + scenario.discard),
            streams: vec![None; lives.len()],
            patience: BTreeMap::new(),
            waits: Vec::new(),
            groups: vec![Default::default(); scenario.flows.len()],
            faults: Timetable::new(&scenario.faults, topology),
            ways,
            scenario,
            addresses: paths.addresses(),
            topology,
            paths,
            network,
            nodes,
            lives,
            outcome,
        }
    }

    fn run_until(&mut self, at: Time) {
        while let Some(due) = self.faults.next().filter(|due| *due <= at) {
            self.network.run_until(due);
            let Stage { faults, network, nodes, topology, ways, .. } = self;
            faults.apply(network, nodes, topology, ways);
        }
        // Not all at once: the log of minutes of a large network would take more memory than the network.
        loop {
            let next = self.network.now() + LOG;
            self.network.run_until(next.min(at));
            self.watching.follow(&self.network.take_log());
            if self.network.now() >= at {
                return;
            }
        }
    }

    fn start(&mut self, number: usize) -> Option<(Time, Step, usize)> {
        let life = self.lives[number];
        let flows = &self.scenario.flows[life.flows];
        let shape = match flows.bursts {
            None => Shape::Constant(flows.rate),
            Some(bursts) => Shape::OnOff { rate: flows.rate, on: bursts.on, off: bursts.off },
        };
        let source = Source {
            node: self.nodes[life.from],
            port: life.port,
            destination: self.addresses[life.to],
            destination_port: life.port,
            shape,
            packet_octets: flows.packet_octets,
            from: life.starts,
            until: life.ends,
            keep: if flows.watch { Keep::Packets } else { Keep::Counts },
        };
        self.streams[number] = self.scenario.data.send(&mut self.network, source);
        None
    }

    /// It asks for its reservation, for the first time or after it gave up.
    fn reserve(&mut self, number: usize) -> Option<(Time, Step, usize)> {
        let wish = self.wish(number);
        let life = &self.lives[number];
        let links = self.paths.distance(life.from, life.to).unwrap_or(usize::MAX);
        let now = self.network.now();
        if !self.patience.contains_key(&number) {
            self.watching.begin(wish.number, wish.flow(), now, links);
        }
        wish.ask(&mut self.network, self.scenario.protocol);
        self.watching.follow(&self.network.take_log());
        let rollback = self.scenario.rollback.as_ref()?;
        let begin = || Patience {
            dice: RandomStreams::new(self.outcome.seed).stream(&format!("rollback {number}")),
            lost: 0,
        };
        self.patience.entry(number).or_insert_with(begin);
        Some((now + rollback.after.max(LEAST_PATIENCE), Step::Look, number))
    }

    /// Who lacks some part after so long gives back the rest, and asks for all of it some time later.
    fn look(&mut self, number: usize) -> Option<(Time, Step, usize)> {
        let rollback = self.scenario.rollback.as_ref()?;
        let now = self.network.now();
        let wish = self.wish(number);
        if self.watching.is_whole(wish.number) {
            // It may be lost yet.
            return Some((now + rollback.after.max(LEAST_PATIENCE), Step::Look, number));
        }
        wish.release(&mut self.network, self.scenario.protocol);
        self.watching.follow(&self.network.take_log());
        let patience = self.patience.get_mut(&number)?;
        patience.lost += 1;
        let pause = rollback.again.draw(&mut patience.dice)?;
        Some((now + pause, Step::Reserve, number))
    }

    fn end(&mut self, number: usize) -> Option<(Time, Step, usize)> {
        let life = self.lives[number];
        let wanting = life.reserves.and_then(|_| {
            let wish = self.wish(number);
            let wanting = self.watching.end(wish.number, &wish.flow(), self.network.now());
            wish.release(&mut self.network, self.scenario.protocol);
            wanting
        });
        if let Some(wanting) = &wanting
            && wanting.since >= Time::ZERO + self.scenario.discard
        {
            self.outcome.wanted += 1;
            if let Some(completed) = wanting.completed {
                self.outcome.completed += 1;
                self.waits.push(completed.since(wanting.since));
            }
            let group = &mut self.groups[life.flows];
            group.0.wanted += 1;
            group.0.completed += u64::from(wanting.completed.is_some());
            group.1 += wanting.had.whole;
            group.2 += self.network.now().since(wanting.since);
        }
        if self.scenario.flows[life.flows].watch {
            let flow = self.tell(number, wanting);
            self.outcome.watched.push(flow);
        }
        None
    }

    fn tell(&self, number: usize, wanting: Option<Wanting>) -> FlowOutcome {
        let life = &self.lives[number];
        let wanting = wanting.unwrap_or_default();
        let name = |place: usize| self.topology.nodes[place].name.clone();
        let attempt = |(at, node, granted): &(Time, NodeId, bool)| Attempted {
            at: at.as_secs_f64(),
            node: self.network.name(*node).to_owned(),
            granted: *granted,
        };
        FlowOutcome {
            flows: self.scenario.flows[life.flows].name.clone(),
            from: name(life.from),
            to: name(life.to),
            reserves: life.reserves.map(Time::as_secs_f64),
            completed_after: wanting
                .completed
                .map(|completed| completed.since(wanting.since).as_secs_f64()),
            retries: wanting.retries,
            attempts: wanting.attempts.iter().map(attempt).collect(),
            received: self.received(number),
        }
    }

    fn received(&self, number: usize) -> Received {
        let end = Time::ZERO + self.scenario.duration;
        let stream = self.streams[number];
        stream.map_or_else(Received::default, |stream| stream.received(&self.network, end))
    }

    fn wish(&self, number: usize) -> ReservationRequest {
        let life = &self.lives[number];
        let flows = &self.scenario.flows[life.flows];
        let ends = [life.from, life.to];
        ReservationRequest {
            number: number as u64 + 1,
            time: self.patience.get(&number).map_or(0, |patience| patience.lost),
            nodes: ends.map(|place| self.nodes[place]),
            addresses: ends.map(|place| self.addresses[place]),
            port: life.port,
            rate: flows.rate,
            bucket_octets: flows.bucket_octets,
            packet_octets: flows.packet_octets,
            priority: flows.priority,
        }
    }

    fn finish(mut self) -> (Outcome, Network) {
        let counts = self.watching.counts;
        self.outcome.events = self.network.happened();
        self.outcome.attempts = counts.attempts;
        self.outcome.retries = counts.retries;
        self.outcome.refused_retries = counts.refused_retries;
        let name = |node: &NodeId| self.network.name(*node).to_owned();
        let retries_at = self.watching.retries_at.iter();
        self.outcome.retries_at =
            retries_at.map(|(node, retries)| (name(node), *retries)).collect();
        self.outcome.served = share(counts.had.whole, counts.wanted_for);
        let held = counts.had.links_whole + counts.had.links_partial;
        self.outcome.fragmented = share(counts.had.links_partial, held);
        let groups = self.scenario.flows.iter().zip(&self.groups);
        let groups = groups.filter(|(flows, _)| flows.reserves.is_some());
        self.outcome.groups = groups
            .map(|(flows, (group, whole, wanted))| {
                (flows.name.clone(), Group { served: share(*whole, *wanted), ..*group })
            })
            .collect();
        self.waits.sort_unstable();
        let quarter = |quarters: usize| {
            self.waits
                .get((self.waits.len().checked_sub(1)?) * quarters / 4)
                .map(Duration::as_secs_f64)
        };
        self.outcome.waits = (|| Some([quarter(1)?, quarter(2)?, quarter(3)?]))();
        (self.outcome, self.network)
    }
}

/// A part of a whole, 0 to 1; nothing of nothing is nothing.
fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 0.0 } else { part.as_secs_f64() / whole.as_secs_f64() }
}

/// Settings of every node.
fn settings(scenario: &Scenario) -> NodeConfig {
    let timing = rsvp::Timing { refresh: scenario.refresh, ..rsvp::Timing::default() };
    let important = scenario.flows.iter().any(|flows| flows.priority.is_some());
    let preemption = important.then(PreemptionPolicy::default);
    let policy = rsvp::policy::Settings { preemption, ..rsvp::policy::Settings::default() };
    let mut settings = NodeConfig {
        rsvp: rsvp::Config { timing, policy, ..rsvp::Config::default() },
        retry: scenario.retry.policy(),
        ..NodeConfig::default()
    };
    let seconds = u16::try_from(scenario.refresh.as_secs()).unwrap_or(u16::MAX).max(1);
    settings.yessir = yessir::Config { interval: seconds, ..yessir::Config::default() };
    settings.boomerang.refresh_interval = u8::try_from(seconds).unwrap_or(u8::MAX);
    settings.nsis.qos.refresh = scenario.refresh;
    settings
}
