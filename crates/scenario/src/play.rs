//! One run of a scenario.

mod flow_outcomes;
mod run_outcome;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use earmark_core::Time;
use earmark_core::random::{RandomStreams, Stream as Dice};
use earmark_node::NodeConfig;
use earmark_sim::{Keep, Network, NodeId, Source, TrafficPattern};

use self::run_outcome::Totals;
use crate::build::Built;
use crate::data::Stream;
use crate::error::ScenarioError;
use crate::faults::FaultSchedule;
use crate::flow_schedule::{self, ScheduledFlow};
use crate::lifetime::LifetimeLaw;
use crate::mobility;
use crate::outcome::Outcome;
use crate::path_request::PathTracker;
use crate::pending_reservation::ReservationTracker;
use crate::protocols::{self, ScenarioProtocol};
use crate::reported_outcomes::ReportTracker;
use crate::reservation::ReservationRequest;
use crate::routing::Routing;
use crate::scenario::Scenario;
use crate::scenario_network::build_of;
use crate::topology::{Role, Topology};

/// Reason why a scenario cannot be played.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PlayError {
    /// The scenario is invalid.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// The node of the capture point does not exist.
    #[error("the topology has no node `{0}`")]
    NoSuchNode(String),
    /// No link joins the nodes of the capture point.
    #[error("the topology has no link between `{node}` and `{peer}`")]
    NoSuchLink {
        /// One node.
        node: String,
        /// The other node.
        peer: String,
    },
}

/// Minimum interval of completeness checks; with a shorter one a run would never end.
const MIN_CHECK_INTERVAL: Duration = Duration::from_millis(1);

/// A step of a flow; the order is that of simultaneous steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    End,
    Start,
    Reserve,
    /// The destination makes its port reachable.
    Expose,
    /// The source opens the path.
    Open,
    /// Both end.
    Close,
    /// Checks whether the reservation is complete.
    Check,
}

/// Plays a scenario to its end with one seed.
///
/// # Errors
/// The scenario does not match its topology.
pub fn play(scenario: &Scenario, topology: &Topology, seed: u64) -> Result<Outcome, PlayError> {
    play_prepared(scenario, topology, seed, |_, _| ()).map(|(outcome, ..)| outcome)
}

/// Plays a scenario in a prepared network, whose nodes are those of the topology. Returns the outcome, the network in
/// its final state, and the result of the preparation.
pub(crate) fn play_prepared<P>(
    scenario: &Scenario,
    topology: &Topology,
    seed: u64,
    prepare: impl FnOnce(&mut Network, &[NodeId]) -> P,
) -> Result<(Outcome, Network, P), PlayError> {
    let mut run = ScenarioRun::begin(scenario, topology, seed)?;
    let prepared = prepare(&mut run.network, &run.nodes);
    while !run.advance(run.end(), u64::MAX) {}
    let (outcome, network) = run.finish();
    Ok((outcome, network, prepared))
}

/// Returns the steps of a flow that are known from the beginning.
fn steps_of((number, flow): (usize, &ScheduledFlow)) -> Vec<(Time, Step, usize)> {
    let mut steps = vec![(flow.starts, Step::Start, number), (flow.ends, Step::End, number)];
    steps.extend(flow.reserves.map(|at| (at, Step::Reserve, number)));
    steps.extend(flow.exposes.map(|at| (at, Step::Expose, number)));
    steps.extend(flow.opens.map(|at| (at, Step::Open, number)));
    if flow.closes < flow.ends {
        steps.push((flow.closes, Step::Close, number));
    }
    steps
}

/// Rollback state of a flow.
struct RollbackState {
    dice: Dice,
    /// Number of rollbacks.
    count: u64,
}

/// Maximum interval between reads of the log.
const LOG_INTERVAL: Duration = Duration::from_millis(500);

/// A run of a scenario that is played in parts: [`advance`](ScenarioRun::advance) any number of times, then
/// [`finish`](ScenarioRun::finish). The outcome does not depend on the parts; [`play`] plays all at once.
pub struct ScenarioRun<'a> {
    scenario: &'a Scenario,
    protocol: &'static dyn ScenarioProtocol,
    topology: &'a Topology,
    /// Address of each node.
    addresses: Vec<IpAddr>,
    network: Network,
    nodes: Vec<NodeId>,
    schedule: Vec<ScheduledFlow>,
    /// Steps of the flows that are still to come.
    steps: BTreeSet<(Time, Step, usize)>,
    /// Data streams of flows, by number.
    streams: Vec<Option<Stream>>,
    tracker: ReservationTracker,
    path_tracker: PathTracker,
    reports: ReportTracker,
    /// Rollback state of flows, by number, since their first request.
    rollbacks: BTreeMap<usize, RollbackState>,
    /// Times until reservations were complete.
    waits: Vec<Duration>,
    /// Totals by group of flows.
    groups: Vec<Totals>,
    /// Totals by number of links.
    path_lengths: BTreeMap<usize, Totals>,
    /// Nodes that are routers, in the order of the topology.
    routers: Vec<NodeId>,
    faults: FaultSchedule,
    routing: Routing,
    outcome: Outcome,
}

impl<'a> ScenarioRun<'a> {
    /// Begins a run at time zero. Nothing is played so far.
    ///
    /// # Errors
    /// The scenario does not match its topology.
    pub fn begin(
        scenario: &'a Scenario,
        topology: &'a Topology,
        seed: u64,
    ) -> Result<ScenarioRun<'a>, PlayError> {
        ScenarioRun::begin_with(scenario, topology, seed, &|_| {})
    }

    /// Begins a run as [`begin`](ScenarioRun::begin), with changed settings of every node.
    ///
    /// # Errors
    /// The scenario does not match its topology.
    pub fn begin_with(
        scenario: &'a Scenario,
        topology: &'a Topology,
        seed: u64,
        change: &dyn Fn(&mut NodeConfig),
    ) -> Result<ScenarioRun<'a>, PlayError> {
        scenario.check(topology)?;
        let protocol = scenario.reserving_protocol()?;
        let Built { mut network, nodes, mut routing, .. } =
            build_of(scenario, (protocol, topology), seed, change);
        let mut faults = scenario.faults.clone();
        faults.extend(mobility::outages(&scenario.mobility, topology, scenario.duration, seed));
        let hosts = mobility::mobile_hosts(&scenario.mobility, topology);
        routing.let_move(hosts, &mut network, &nodes, topology);
        network.watch_attempts();
        network.count_signalling_from(Time::ZERO + scenario.discard);
        let is_router = |(place, _): &(usize, &NodeId)| topology.nodes[*place].role == Role::Router;
        let routers: Vec<NodeId> =
            nodes.iter().enumerate().filter(is_router).map(|(_, node)| *node).collect();
        let counted_from = Time::ZERO + scenario.discard;
        let schedule = flow_schedule::draw(scenario, topology, seed)?;
        let outcome = Outcome { scenario: scenario.name.clone(), seed, ..Outcome::default() };
        Ok(ScenarioRun {
            steps: schedule.iter().enumerate().flat_map(steps_of).collect(),
            path_tracker: PathTracker::default(),
            reports: ReportTracker::default(),
            tracker: ReservationTracker::new(routers.iter().copied().collect(), counted_from),
            streams: vec![None; schedule.len()],
            rollbacks: BTreeMap::new(),
            waits: Vec::new(),
            groups: vec![Default::default(); scenario.flows.len()],
            path_lengths: BTreeMap::new(),
            routers,
            faults: FaultSchedule::new(&faults, topology),
            routing,
            scenario,
            protocol,
            addresses: topology.paths().addresses(),
            topology,
            network,
            nodes,
            schedule,
            outcome,
        })
    }

    /// Plays until a time, which is included, or the end of the scenario if that is earlier, but at most about so many
    /// events. Returns whether that time is reached; otherwise the next call continues.
    pub fn advance(&mut self, until: Time, most_events: u64) -> bool {
        let until = until.min(self.end());
        let last = self.network.event_count().saturating_add(most_events);
        loop {
            let due = self.steps.first().map(|step| step.0).filter(|due| *due <= until);
            if !self.advance_network(due.unwrap_or(until), last) {
                return false;
            }
            let Some((_, step, number)) = due.and_then(|_| self.steps.pop_first()) else {
                return true;
            };
            let next = match step {
                Step::Start => self.start(number),
                Step::Reserve => self.reserve(number),
                Step::Expose => self.expose(number),
                Step::Open => self.open(number),
                Step::Close => self.close(number),
                Step::Check => self.check(number),
                Step::End => self.end_flow(number),
            };
            // Steps after the end of the flow are dropped.
            self.steps.extend(next.filter(|(at, ..)| *at < self.schedule[number].ends));
        }
    }

    /// Advances the network until a time, or until it has processed the event of this number; returns whether the time is
    /// reached.
    fn advance_network(&mut self, at: Time, last_event: u64) -> bool {
        loop {
            // Not all at once: the log of minutes of a large network would take more memory than the network.
            let due = self.faults.next().filter(|due| *due <= at);
            let until = (self.network.now() + LOG_INTERVAL).min(due.unwrap_or(at));
            let most = last_event.saturating_sub(self.network.event_count());
            let is_reached = self.network.run_events(until, most);
            self.read_log();
            if !is_reached {
                return false;
            }
            if due.is_some_and(|due| due <= until) {
                let ScenarioRun { faults, network, nodes, topology, routing, .. } = self;
                faults.apply(network, nodes, topology, routing);
                self.reroute();
            } else if until == at {
                return true;
            }
        }
    }

    /// Returns the time of the end of the scenario.
    pub fn end(&self) -> Time {
        Time::ZERO + self.scenario.duration
    }

    /// Returns the network in its present state. It has the log of its last events only.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Returns the network, to change it.
    pub fn network_mut(&mut self) -> &mut Network {
        &mut self.network
    }

    /// Returns the nodes, in the order of the topology.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// Moves the requested reservations to the paths that their flows have now.
    fn reroute(&mut self) {
        let now = self.network.now();
        let numbers: Vec<u64> = self.tracker.numbers().collect();
        for number in numbers {
            let flow = &self.schedule[number as usize - 1]; // a flow of this run
            let path = self.network.path(self.nodes[flow.from], self.addresses[flow.to]);
            self.tracker.reroute(number, now, path);
        }
    }

    fn read_log(&mut self) {
        let log = self.network.take_log();
        self.path_tracker.process(self.protocol, &log);
        self.tracker.process(&log);
        self.reports.process(&log);
    }

    fn start(&mut self, number: usize) -> Option<(Time, Step, usize)> {
        let flow = self.schedule[number];
        let flows = &self.scenario.flows[flow.flows];
        let pattern = match flows.bursts {
            None => TrafficPattern::Constant(flows.rate),
            Some(bursts) => {
                TrafficPattern::OnOff { rate: flows.rate, on: bursts.on, off: bursts.off }
            }
        };
        let source = Source {
            node: self.nodes[flow.from],
            port: flow.port,
            destination: self.addresses[flow.to],
            destination_port: flow.port,
            dscp: 0,
            pattern,
            packet_octets: flows.packet_octets,
            from: flow.starts,
            until: flow.ends,
            keep: if flows.watch { Keep::Packets } else { Keep::Counts },
        };
        self.streams[number] = self.scenario.data.send(&mut self.network, source);
        None
    }

    /// Requests the reservation, for the first time or after a rollback.
    fn reserve(&mut self, number: usize) -> Option<(Time, Step, usize)> {
        let request = self.request(number);
        let flow = &self.schedule[number];
        let now = self.network.now();
        if !self.rollbacks.contains_key(&number) {
            let path = self.network.path(request.nodes[0], request.addresses[1]);
            self.tracker.begin(request.number, request.flow(), now, path);
            if self.scenario.flows[flow.flows].watch {
                self.reports.begin(request.number, request.nodes);
            }
        }
        protocols::request(self.protocol, &request, &mut self.network);
        self.read_log();
        let rollback = self.scenario.rollback.as_ref()?;
        let begin = || RollbackState {
            dice: RandomStreams::new(self.outcome.seed).stream(&format!("rollback {number}")),
            count: 0,
        };
        self.rollbacks.entry(number).or_insert_with(begin);
        Some((now + rollback.after.max(MIN_CHECK_INTERVAL), Step::Check, number))
    }

    /// Checks whether the reservation is complete. If not, releases it and requests it again later (rollback).
    fn check(&mut self, number: usize) -> Option<(Time, Step, usize)> {
        let rollback = self.scenario.rollback.as_ref()?;
        let now = self.network.now();
        let request = self.request(number);
        if self.tracker.is_whole(request.number) {
            // A complete reservation may still be lost.
            return Some((now + rollback.after.max(MIN_CHECK_INTERVAL), Step::Check, number));
        }
        protocols::release(self.protocol, &request, &mut self.network);
        self.read_log();
        let rollbacks = self.rollbacks.get_mut(&number)?;
        rollbacks.count += 1;
        let pause = rollback.again.draw(&mut rollbacks.dice)?;
        Some((now + pause, Step::Reserve, number))
    }

    fn end_flow(&mut self, number: usize) -> Option<(Time, Step, usize)> {
        let flow = self.schedule[number];
        self.close(number);
        let reservation = flow.reserves.and_then(|_| {
            let request = self.request(number);
            let reservation = self.tracker.end(request.number, &request.flow(), self.network.now());
            protocols::release(self.protocol, &request, &mut self.network);
            reservation
        });
        self.read_log();
        if let Some(reservation) = &reservation
            && reservation.since >= Time::ZERO + self.scenario.discard
        {
            self.outcome.wanted += 1;
            if let Some(completed) = reservation.completed {
                self.outcome.completed += 1;
                self.waits.push(completed.since(reservation.since));
            }
            let now = self.network.now();
            self.groups[flow.flows].add(reservation, now);
            if let Some(links) = reservation.links() {
                self.path_lengths.entry(links).or_default().add(reservation, now);
            }
        }
        if self.scenario.flows[flow.flows].watch {
            let flow = self.flow_outcome(number, reservation);
            self.outcome.watched.push(flow);
        }
        None
    }

    /// Makes the port of the destination reachable.
    fn expose(&mut self, number: usize) -> Option<(Time, Step, usize)> {
        let request = self.path_request(number);
        let command = self.protocol.expose(&request)?;
        let node = self.nodes[self.schedule[number].to];
        self.path_tracker.begin(node, request.application, self.network.now());
        self.network.command(node, command);
        self.read_log();
        None
    }

    /// Opens the path from the source, which sends to the address that the destination has outside.
    fn open(&mut self, number: usize) -> Option<(Time, Step, usize)> {
        let flow = self.schedule[number];
        let mut request = self.path_request(number);
        let exposed = self.path_tracker.get(self.nodes[flow.to], request.application);
        if let Some(external) = exposed.and_then(|exposed| exposed.external) {
            request.destination = external;
            if let Some(Stream::Packets(stream)) = self.streams[number] {
                self.network.redirect_source(stream, external.address, external.port);
            }
        }
        let command = self.protocol.open(&request)?;
        let node = self.nodes[flow.from];
        self.path_tracker.begin(node, request.application, self.network.now());
        self.network.command(node, command);
        self.read_log();
        None
    }

    /// Ends the requests of both ends that have not ended.
    fn close(&mut self, number: usize) -> Option<(Time, Step, usize)> {
        let flow = self.schedule[number];
        let application = self.path_request(number).application;
        for node in [flow.from, flow.to].map(|place| self.nodes[place]) {
            let path = self.path_tracker.get(node, application);
            if path.is_some_and(|path| path.ended.is_none()) {
                self.path_tracker.end(node, application, self.network.now());
                let command = self.protocol.close(application)?;
                self.network.command(node, command);
            }
        }
        self.read_log();
        None
    }

    /// Returns the flows that have started and not ended, by the time of their end.
    fn running_flows(&self) -> Vec<usize> {
        let has_started = |number: &usize| self.schedule[*number].starts <= self.network.now();
        let ends = self.steps.iter().filter(|(_, step, _)| *step == Step::End);
        ends.map(|(.., number)| *number).filter(has_started).collect()
    }

    fn request(&self, number: usize) -> ReservationRequest {
        let flow = &self.schedule[number];
        let flows = &self.scenario.flows[flow.flows];
        let ends = [flow.from, flow.to];
        ReservationRequest {
            number: number as u64 + 1,
            time: self.rollbacks.get(&number).map_or(0, |rollbacks| rollbacks.count),
            nodes: ends.map(|place| self.nodes[place]),
            addresses: ends.map(|place| self.addresses[place]),
            port: flow.port,
            rate: flows.rate,
            bucket_octets: flows.bucket_octets,
            packet_octets: flows.packet_octets,
            priority: flows.priority,
        }
    }
}
