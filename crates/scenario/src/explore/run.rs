//! One exploration run, from its seed to the violated invariants.

use std::collections::BTreeMap;
use std::time::Duration;

use earmark_core::random::{RandomStreams, Stream};
use earmark_core::{InterfaceId, Time};
use earmark_node::NodeConfig;
use earmark_sim::distributions::happens;
use earmark_sim::{Keep, LogEntry, Network, NodeId, Reserved, Source, StreamId};
use serde::Serialize;

use super::attackers::{self, Attackers};
use super::honest_requests::HonestRequests;
use super::invariants::{self, Bounds, Breach, Invariant};
use super::random_faults;
use super::random_flows::{self, Flow};
use super::random_network;
use super::reserved_paths::ReservedPaths;
use crate::build::{Built, build};
use crate::faults::FaultSchedule;
use crate::protocols::{self, Protocols};
use crate::routing::Routing;
use crate::sampling::one_of;
use crate::topology::Topology;

/// Interval of the checks of all nodes.
const CHECK_INTERVAL: Duration = Duration::from_millis(500);
/// Time after the end until all soft state has expired: GIST keeps routing state for 120 s without use, then a peer
/// for 300 s.
const DRAIN_TIME: Duration = Duration::from_secs(600);
/// Drain time with attackers: state from behind an access interface lasts for up to 630 s if its sender asks for that, and
/// at its next nodes for some refreshes more. Then GIST keeps routing state and peers, as above.
const DRAIN_TIME_ATTACKED: Duration = Duration::from_secs(1_100);
/// Time after which a message is no longer repeated if nobody answers it.
const ANSWER_TIME: Duration = Duration::from_secs(10);
/// Maximum time in flight: packets sent so shortly before a reservation ends are ignored. The time is longer behind a queue
/// from before the reservation, which stays as long as it is if the flow uses its whole rate.
const MAX_TIME_IN_FLIGHT: Duration = Duration::from_secs(2);
/// Maximum growth of the delay behind such a queue, after the latest packet that arrived.
const DELAY_GROWTH: Duration = Duration::from_millis(500);
/// Maximum number of violations reported, one of each kind per node; one often causes others.
const MAX_BREACHES: usize = 10;

/// Result of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Exploration {
    /// The seed.
    pub seed: u64,
    /// Number of routers and hosts.
    pub nodes: usize,
    /// Number of links.
    pub links: usize,
    /// Number of flows that requested a reservation.
    pub flows: usize,
    /// Number of sending flows among them that were reserved on their whole path at some time.
    pub stood: usize,
    /// Number of fault rules.
    pub faults: usize,
    /// Number of attackers.
    pub attackers: usize,
    /// Number of packets that they sent.
    pub attack_packets: u64,
    /// Number of packets that had to arrive.
    pub reserved_packets: u64,
    /// Number of events processed by the simulator.
    pub events: u64,
    /// Violated invariants.
    pub breaches: Vec<Breach>,
}

/// Runs the exploration of a seed with the protocols of this project.
pub fn explore(seed: u64) -> Exploration {
    explore_with(seed, &Protocols::default())
}

/// Runs the exploration of a seed with these protocols.
pub fn explore_with(seed: u64, protocols: &Protocols) -> Exploration {
    ExplorationRun::new(seed, protocols, false).play()
}

/// Runs the exploration of a seed with attackers, with these protocols.
pub fn explore_attacked(seed: u64, protocols: &Protocols) -> Exploration {
    ExplorationRun::new(seed, protocols, true).play()
}

/// Runs the exploration of a seed again, with attackers or without, and passes on what happens at each node, by its name.
pub fn explore_logged(
    seed: u64,
    protocols: &Protocols,
    is_attacked: bool,
    log: impl FnMut(&str, &LogEntry),
) -> Exploration {
    let mut run = ExplorationRun::new(seed, protocols, is_attacked);
    run.reader = Some(Box::new(log));
    run.play()
}

/// Draws the settings of all nodes: short times, so that much happens, and random options.
fn settings(protocols: &Protocols, dice: &mut Stream) -> NodeConfig {
    let mut settings = protocols.node_config();
    let refresh_s = one_of(dice, &[1, 2, 4]);
    for protocol in protocols.all() {
        protocol.draw_settings(refresh_s, dice, &mut settings);
    }
    settings.retry.threshold = one_of(dice, &[0, 3, u32::MAX]);
    settings
}

/// Returns the reservable rate of each direction of each link.
fn reservable(
    topology: &Topology,
    network: &Network,
    nodes: &[NodeId],
) -> BTreeMap<(NodeId, InterfaceId), earmark_core::Rate> {
    let mut reservable = BTreeMap::new();
    for (index, &node) in nodes.iter().enumerate() {
        let Some(engines) = network.node(node) else { continue };
        for (end, link) in topology.interfaces(index) {
            if let Some(interface) = engines.interfaces().by_name(&end.interface) {
                reservable.insert((node, interface.id), link.reservable);
            }
        }
    }
    reservable
}

/// A step of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    End(usize),
    Start(usize),
    Request(usize),
    Attack,
    Check,
}

/// Reader of what happens at nodes, by their names.
type LogReader<'a> = Box<dyn FnMut(&str, &LogEntry) + 'a>;

struct ExplorationRun<'a> {
    protocols: Protocols,
    topology: Topology,
    network: Network,
    nodes: Vec<NodeId>,
    routing: Routing,
    fault_schedule: FaultSchedule,
    flows: Vec<Flow>,
    streams: Vec<Option<StreamId>>,
    reserved_paths: ReservedPaths,
    attackers: Attackers,
    /// Requests whose answers are checked: only in an attacked network without faults.
    honest: Option<HonestRequests>,
    outcome: Exploration,
    /// Reader of the log.
    reader: Option<LogReader<'a>>,
}

impl<'a> ExplorationRun<'a> {
    /// Creates the run of a seed, with attackers or without.
    fn new(seed: u64, protocols: &Protocols, is_attacked: bool) -> ExplorationRun<'a> {
        let random = RandomStreams::new(seed).part("explore");
        let without_attackers = random_network::draw(&mut random.stream("network"));
        let mut faults = random_faults::draw(&without_attackers, &mut random.stream("faults"));
        let mut settings = settings(protocols, &mut random.stream("settings"));
        let (mut topology, mut attackers) = (without_attackers.clone(), 0);
        let mut dice = random.stream("attackers");
        if is_attacked {
            attackers = attackers::join(&mut topology, &mut dice);
            attackers::limit_state(protocols, &mut settings);
            if happens(&mut dice, 0.5) {
                faults.clear();
            }
        }
        let Built { mut network, nodes, routing, .. } = build(&topology, seed, &settings);
        let mut dice_of_flows = random.stream("flows");
        let flows = random_flows::draw(&without_attackers, &nodes, protocols, &mut dice_of_flows);
        let attackers = match is_attacked {
            true => Attackers::new(&topology, &nodes, attackers, &mut network, dice),
            false => Attackers::none(dice),
        };
        let honest = (is_attacked && faults.is_empty()).then(|| {
            network.watch_attempts();
            HonestRequests::default()
        });
        let outcome = Exploration {
            seed,
            nodes: topology.nodes.len(),
            links: topology.links.len(),
            flows: flows.iter().filter(|flow| flow.by.is_some()).count(),
            stood: 0,
            faults: faults.len(),
            attackers: attackers.count(),
            attack_packets: 0,
            reserved_packets: 0,
            events: 0,
            breaches: Vec::new(),
        };
        ExplorationRun {
            fault_schedule: FaultSchedule::new(&faults, &topology),
            reserved_paths: ReservedPaths::new(reservable(&topology, &network, &nodes)),
            streams: vec![None; flows.len()],
            protocols: protocols.clone(),
            attackers,
            honest,
            outcome,
            reader: None,
            topology,
            network,
            nodes,
            routing,
            flows,
        }
    }

    fn play(mut self) -> Exploration {
        let mut steps: Vec<(Time, Step)> = Vec::new();
        for (number, flow) in self.flows.iter().enumerate() {
            steps.push((flow.starts_at, Step::Start(number)));
            steps.push((flow.ends_at, Step::End(number)));
            steps.extend(flow.by.map(|_| (flow.requests_at, Step::Request(number))));
        }
        let end_of_flows = Time::ZERO + random_flows::END;
        let every = |interval: Duration| {
            let times = (1..).map(move |number| Time::ZERO + interval * number);
            times.take_while(move |at| *at <= end_of_flows)
        };
        steps.extend(every(CHECK_INTERVAL).map(|at| (at, Step::Check)));
        let is_attacked = self.attackers.count() > 0;
        if is_attacked {
            steps.extend(every(attackers::INTERVAL).map(|at| (at, Step::Attack)));
        }
        steps.sort_unstable();
        let drain = if is_attacked { DRAIN_TIME_ATTACKED } else { DRAIN_TIME };
        let end = end_of_flows + drain;
        for (at, step) in steps.into_iter().take_while(|(at, _)| *at <= end) {
            self.run_until(at);
            match step {
                Step::Start(number) => self.start(number),
                Step::Request(number) => {
                    let Flow { request, by: Some(by), .. } = &self.flows[number] else { continue };
                    protocols::request(*by, request, &mut self.network);
                    if let Some(honest) = &mut self.honest {
                        honest.request(request, at);
                    }
                }
                Step::Attack => self.attackers.act(&self.protocols, &mut self.network),
                Step::End(number) => self.end(number),
                Step::Check => self.check_nodes(),
            }
            self.process_log();
        }
        self.run_until(end);
        self.check_empty();
        self.outcome.events = self.network.event_count();
        self.outcome.attack_packets = self.attackers.packets;
        self.outcome
    }

    fn run_until(&mut self, at: Time) {
        while let Some(due) = self.fault_schedule.next().filter(|due| *due <= at) {
            self.network.run_until(due);
            self.process_log();
            let ExplorationRun { fault_schedule, network, nodes, topology, routing, .. } = self;
            fault_schedule.apply(network, nodes, topology, routing);
            self.process_log();
            let now = self.network.now();
            for number in 0..self.flows.len() {
                let Flow { by, starts_at, ends_at, .. } = self.flows[number];
                if by.is_some() && starts_at <= now && now < ends_at {
                    self.set_path(number);
                }
            }
        }
        self.network.run_until(at);
        self.process_log();
    }

    fn process_log(&mut self) {
        let log = self.network.take_log();
        if let Some(reader) = &mut self.reader {
            log.iter().for_each(|entry| reader(self.network.name(entry.node), entry));
        }
        self.reserved_paths.process(&log);
        if let Some(honest) = &mut self.honest {
            honest.process(&log);
        }
        for (at, (node, interface), rate) in std::mem::take(&mut self.reserved_paths.exceeded) {
            let what =
                format!("interface {}: traffic control has {} bit/s", interface.0, rate.as_bps());
            self.breach(Invariant::NothingPromisedTwice, at, node, what);
        }
    }

    fn start(&mut self, number: usize) {
        if self.flows[number].by.is_some() {
            self.set_path(number);
        }
        let Flow { request, pattern: Some(pattern), ends_at, .. } = &self.flows[number] else {
            return;
        };
        let source = Source {
            node: request.nodes[0],
            port: request.port,
            destination: request.addresses[1],
            destination_port: request.port,
            dscp: 0,
            pattern: pattern.clone(),
            packet_octets: request.packet_octets,
            from: self.network.now(),
            until: *ends_at,
            keep: Keep::Packets,
        };
        let stream = self.network.add_source(source);
        if self.flows[number].by.is_some() {
            self.streams[number] = Some(stream);
        }
    }

    /// Records the current path of a flow.
    fn set_path(&mut self, number: usize) {
        let Flow { ends: [from, to], request, .. } = &self.flows[number];
        let path = self.routing.path(&self.topology, self.fault_schedule.down(), *from, *to);
        let place = |(node, interface): (usize, InterfaceId)| (self.nodes[node], interface);
        let path = path.unwrap_or_default().into_iter().map(place).collect();
        self.reserved_paths.set_path(request.flow(), request.rate, path, self.network.now());
    }

    fn end(&mut self, number: usize) {
        let Flow { request, by: Some(by), .. } = self.flows[number].clone() else { return };
        let now = self.network.now();
        let spans = self.reserved_paths.untrack(&request.flow(), now);
        self.check_stay(number, &spans, now);
        if let Some(stream) = self.streams[number].take() {
            let due = self.check_arrivals(number, stream, &spans, now);
            self.outcome.stood += usize::from(due > 0);
        }
        protocols::release(by, &request, &mut self.network);
    }

    /// Checks whether a flow that has ended was reserved until then, once it was; only without faults.
    fn check_stay(&mut self, number: usize, spans: &[(Time, Time)], now: Time) {
        let Some(honest) = &mut self.honest else { return };
        let Flow { request, by, .. } = &self.flows[number];
        honest.end(request);
        if let Some((since, until)) = spans.first().filter(|(_, until)| *until < now) {
            let what = format!(
                "a reservation by {} to {} lasted from {:.3} s to {:.3} s of {:.3} s",
                by.map_or("nobody", |by| by.name()),
                self.network.name(request.nodes[1]),
                since.as_secs_f64(),
                until.as_secs_f64(),
                now.as_secs_f64()
            );
            let node = request.nodes[0];
            self.breach(Invariant::ReservationsStay, now, node, what);
        }
    }

    /// Checks whether all requests have been answered in time; only without faults.
    fn check_answers(&mut self) {
        let (now, paths) = (self.network.now(), &self.reserved_paths);
        let Some(honest) = &mut self.honest else { return };
        for number in honest.overdue(now, |flow| paths.is_reserved(flow)) {
            let Some(Flow { request, by, .. }) = self.flows.get(number as usize - 1) else {
                continue;
            };
            let name = by.map_or("nobody", |by| by.name());
            let to = self.network.name(request.nodes[1]);
            let what = format!("a request for {} bit/s by {name} to {to}", request.rate.as_bps());
            let node = request.nodes[0];
            self.breach(Invariant::RequestsAreAnswered, now, node, what);
        }
    }

    /// Checks whether the packets of an ending flow have arrived while it was reserved. Returns how many had to.
    fn check_arrivals(
        &mut self,
        number: usize,
        stream: StreamId,
        spans: &[(Time, Time)],
        now: Time,
    ) -> u64 {
        let mut packets = 0;
        for &(since, until) in spans {
            let trace = self.network.trace(stream);
            let delay = trace.latest_delay(Time::ZERO, until).unwrap_or_default();
            let in_flight = MAX_TIME_IN_FLIGHT.max(delay + DELAY_GROWTH);
            if until.since(since) <= in_flight {
                continue;
            }
            let until = since + (until.since(since) - in_flight);
            let figures = trace.figures(since, until);
            packets += figures.packets;
            let lost: Vec<Time> = trace.lost(since, until).collect();
            if let (Some(first), Some(last)) = (lost.first(), lost.last()) {
                let Flow { request, by, .. } = &self.flows[number];
                let what = format!(
                    "{} of {} packets lost that left from {:.3} s on, between {:.3} s and {:.3} s, with {} bit/s by \
                     {} on the whole way to {}",
                    lost.len(),
                    figures.packets,
                    since.as_secs_f64(),
                    first.as_secs_f64(),
                    last.as_secs_f64(),
                    request.rate.as_bps(),
                    by.map_or("nobody", |by| by.name()),
                    self.network.name(request.nodes[1])
                );
                let node = request.nodes[0];
                self.breach(Invariant::ReservedPacketsArrive, now, node, what);
            }
        }
        self.outcome.reserved_packets += packets;
        packets
    }

    /// Checks all nodes whose daemons run.
    fn check_nodes(&mut self) {
        self.check_answers();
        let now = self.network.now();
        for node in self.nodes.clone() {
            let Some(engines) = self.network.node(node) else { continue };
            let too_much = self.bounds().map(|bounds| invariants::unbounded_state(engines, bounds));
            let wrong = invariants::disagreements(engines, &self.traffic_control(node));
            let most = |(interface, status): (InterfaceId, earmark_core::admission::LinkStatus)| {
                let most = self.reserved_paths.reservable(node, interface)?;
                (status.held > most).then(|| {
                    let (id, held) = (interface.0, status.held.as_bps());
                    format!("interface {id}: the ledger holds {held} bit/s of {}", most.as_bps())
                })
            };
            let exceeded: Vec<String> = engines.ledger().links().filter_map(most).collect();
            for what in wrong {
                self.breach(Invariant::BooksAgree, now, node, what);
            }
            for what in exceeded {
                self.breach(Invariant::NothingPromisedTwice, now, node, what);
            }
            for what in too_much.into_iter().flatten() {
                self.breach(Invariant::StateIsBounded, now, node, what);
            }
        }
    }

    fn check_empty(&mut self) {
        let now = self.network.now();
        for node in self.nodes.clone() {
            let Some(engines) = self.network.node(node) else { continue };
            let classes = self.traffic_control(node).len();
            for what in invariants::remaining_state(engines, classes) {
                self.breach(Invariant::EmptyInTheEnd, now, node, what);
            }
        }
    }

    /// Returns the bounds of the state of an engine: two for each flow, and the limit of each attacker. Each packet of the
    /// attackers may leave a message that waits for its answer for a while. `None` without attackers.
    fn bounds(&self) -> Option<Bounds> {
        let of_attackers = self.attackers.count() * attackers::ACCESS_STATE as usize;
        let state = 2 * self.flows.len() + of_attackers;
        let messages = state + self.attackers.most_packets_in(ANSWER_TIME);
        (of_attackers > 0).then_some(Bounds { state, messages })
    }

    fn traffic_control(&self, node: NodeId) -> Vec<(InterfaceId, Reserved)> {
        self.network.traffic_control(node).collect()
    }

    fn breach(&mut self, invariant: Invariant, at: Time, node: NodeId, what: String) {
        let node = self.network.name(node).to_owned();
        let mut reported = self.outcome.breaches.iter();
        let is_new = reported.all(|other| (other.invariant, &other.node) != (invariant, &node));
        if is_new && self.outcome.breaches.len() < MAX_BREACHES {
            self.outcome.breaches.push(Breach { invariant, at: at.as_secs_f64(), node, what });
        }
    }
}

#[cfg(test)]
mod tests;
