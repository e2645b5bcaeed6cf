//! One story, from its seed to what did not hold in it.

use std::collections::BTreeMap;
use std::time::Duration;

use earmark_boomerang as boomerang;
use earmark_core::random::{RandomStreams, Stream};
use earmark_core::{InterfaceId, Time};
use earmark_node::NodeConfig;
use earmark_sim::dice::happens;
use earmark_sim::{Keep, Network, NodeId, Reserved, Source, StreamId};
use serde::Serialize;

use super::churn::{self, Flow};
use super::drawn::one_of;
use super::invariants::{self, Breach, Invariant};
use super::network;
use super::random_faults;
use super::standing::Standing;
use crate::build::{Built, build};
use crate::faults::Timetable;
use crate::routing::Routing;
use crate::topology::Topology;

/// Time from one look at all nodes to the next.
const LOOK: Duration = Duration::from_millis(500);
/// How long after the end nothing soft is left: GIST keeps routing state for 120 s without use, then a peer for 300 s.
const SILENCE: Duration = Duration::from_secs(600);
/// Packets that may still be on their way when a reservation goes are those of the last two seconds.
const ON_THE_WAY: Duration = Duration::from_secs(2);
/// Breaches that one story tells of, at most, and one of each kind of each node; one often brings others.
const MOST_BREACHES: usize = 10;

/// What came of a story.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Exploration {
    /// Its seed.
    pub seed: u64,
    /// Routers and hosts.
    pub nodes: usize,
    /// Links.
    pub links: usize,
    /// Flows that wanted a reservation.
    pub flows: usize,
    /// Those of them that had it on their whole way at some time, of those that sent.
    pub stood: usize,
    /// Rules by which something went wrong.
    pub faults: usize,
    /// Packets that had to arrive.
    pub reserved_packets: u64,
    /// Events that the simulator worked off.
    pub events: u64,
    /// What did not hold.
    pub breaches: Vec<Breach>,
}

/// Plays the story of a seed.
pub fn explore(seed: u64) -> Exploration {
    Story::new(seed).play()
}

/// Settings of all nodes: short times, so that much happens, and some ways to do things drawn.
fn settings(dice: &mut Stream) -> NodeConfig {
    let mut settings = NodeConfig::default();
    let refresh = one_of(dice, &[1, 2, 4]);
    settings.rsvp.timing.refresh = Duration::from_secs(refresh);
    settings.rsvp.reduction.enabled = happens(dice, 0.5);
    settings.boomerang =
        boomerang::Config { refresh_interval: refresh as u8, ..boomerang::Config::default() };
    settings.boomerang.lock = happens(dice, 0.25);
    settings.yessir.interval = refresh as u16;
    settings.nsis.qos.refresh = Duration::from_secs(refresh);
    settings.nsis.qos.acknowledge = happens(dice, 0.25);
    settings.nsis.qos.summary = one_of(dice, &[0, 0, 8]);
    settings.retry.threshold = one_of(dice, &[0, 3, u32::MAX]);
    settings
}

/// What may be reserved of each direction of each link.
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

/// What happens to a flow, besides the looks at all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Leave(usize),
    Start(usize),
    Ask(usize),
    Look,
}

struct Story {
    topology: Topology,
    network: Network,
    nodes: Vec<NodeId>,
    ways: Routing,
    timetable: Timetable,
    flows: Vec<Flow>,
    streams: Vec<Option<StreamId>>,
    standing: Standing,
    outcome: Exploration,
}

impl Story {
    /// The story of a seed, before it begins.
    fn new(seed: u64) -> Story {
        let random = RandomStreams::new(seed).part("explore");
        let topology = network::draw(&mut random.stream("network"));
        let faults = random_faults::draw(&topology, &mut random.stream("faults"));
        let settings = settings(&mut random.stream("settings"));
        let Built { network, nodes, ways } = build(&topology, seed, &settings);
        let flows = churn::draw(&topology, &nodes, &mut random.stream("flows"));
        let outcome = Exploration {
            seed,
            nodes: topology.nodes.len(),
            links: topology.links.len(),
            flows: flows.iter().filter(|flow| flow.by.is_some()).count(),
            stood: 0,
            faults: faults.len(),
            reserved_packets: 0,
            events: 0,
            breaches: Vec::new(),
        };
        Story {
            timetable: Timetable::new(&faults, &topology),
            standing: Standing::new(reservable(&topology, &network, &nodes)),
            streams: vec![None; flows.len()],
            outcome,
            topology,
            network,
            nodes,
            ways,
            flows,
        }
    }

    fn play(mut self) -> Exploration {
        let mut steps: Vec<(Time, Step)> = Vec::new();
        for (number, flow) in self.flows.iter().enumerate() {
            steps.push((flow.starts, Step::Start(number)));
            steps.push((flow.leaves, Step::Leave(number)));
            steps.extend(flow.by.map(|_| (flow.asks, Step::Ask(number))));
        }
        let looks = (1..).map(|number| Time::ZERO + LOOK * number);
        steps.extend(
            looks.take_while(|at| *at <= Time::ZERO + churn::END).map(|at| (at, Step::Look)),
        );
        steps.sort_unstable();
        let end = Time::ZERO + churn::END + SILENCE;
        for (at, step) in steps.into_iter().take_while(|(at, _)| *at <= end) {
            self.run_until(at);
            match step {
                Step::Start(number) => self.start(number),
                Step::Ask(number) => {
                    let Flow { wish, by: Some(by), .. } = &self.flows[number] else { continue };
                    wish.ask(&mut self.network, *by);
                }
                Step::Leave(number) => self.leave(number),
                Step::Look => self.look(),
            }
            self.take_note();
        }
        self.run_until(end);
        self.look_at_the_end();
        self.outcome.events = self.network.happened();
        self.outcome
    }

    fn run_until(&mut self, at: Time) {
        while let Some(due) = self.timetable.next().filter(|due| *due <= at) {
            self.network.run_until(due);
            self.take_note();
            let Story { timetable, network, nodes, topology, ways, .. } = self;
            timetable.apply(network, nodes, topology, ways);
            self.take_note();
            for number in 0..self.flows.len() {
                if self.streams[number].is_some() {
                    self.lead(number);
                }
            }
        }
        self.network.run_until(at);
        self.take_note();
    }

    fn take_note(&mut self) {
        self.standing.follow(&self.network.take_log());
        for (at, (node, interface), rate) in std::mem::take(&mut self.standing.overdrawn) {
            let what =
                format!("interface {}: traffic control has {} bit/s", interface.0, rate.as_bps());
            self.breach(Invariant::NothingPromisedTwice, at, node, what);
        }
    }

    fn start(&mut self, number: usize) {
        let Flow { wish, shape: Some(shape), leaves, .. } = &self.flows[number] else { return };
        let source = Source {
            node: wish.nodes[0],
            port: wish.port,
            destination: wish.addresses[1],
            destination_port: wish.port,
            shape: shape.clone(),
            packet_octets: wish.packet_octets,
            from: self.network.now(),
            until: *leaves,
            keep: Keep::Packets,
        };
        let stream = self.network.add_source(source);
        if self.flows[number].by.is_some() {
            self.streams[number] = Some(stream);
            self.lead(number);
        }
    }

    /// Tells of the way that a flow takes now.
    fn lead(&mut self, number: usize) {
        let Flow { ends: [from, to], wish, .. } = &self.flows[number];
        let path = self.ways.path(&self.topology, self.timetable.down(), *from, *to);
        let place = |(node, interface): (usize, InterfaceId)| (self.nodes[node], interface);
        let path = path.unwrap_or_default().into_iter().map(place).collect();
        self.standing.lead(wish.flow(), wish.rate, path, self.network.now());
    }

    fn leave(&mut self, number: usize) {
        let Flow { wish, by: Some(by), .. } = self.flows[number].clone() else { return };
        let now = self.network.now();
        if let Some(stream) = self.streams[number].take() {
            self.outcome.stood += usize::from(self.judge(number, stream, now) > 0);
        }
        wish.release(&mut self.network, by);
    }

    /// Whether the packets of a flow that leaves have arrived, as far as it had a reservation; how many had to.
    fn judge(&mut self, number: usize, stream: StreamId, now: Time) -> u64 {
        let flow = self.flows[number].wish.flow();
        let mut packets = 0;
        for (since, until) in self.standing.leave(&flow, now) {
            if until.since(since) <= ON_THE_WAY {
                continue;
            }
            let until = since + (until.since(since) - ON_THE_WAY);
            let figures = self.network.trace(stream).figures(since, until);
            packets += figures.packets;
            if figures.loss > 0.0 {
                let Flow { wish, by, .. } = &self.flows[number];
                let lost = (figures.loss * figures.packets as f64).round();
                let what = format!(
                    "{lost} of {} packets lost that left from {:.3} s on, with {} bit/s by {by:?} on the whole way to {}",
                    figures.packets,
                    since.as_secs_f64(),
                    wish.rate.as_bps(),
                    self.network.name(wish.nodes[1])
                );
                let node = wish.nodes[0];
                self.breach(Invariant::ReservedPacketsArrive, now, node, what);
            }
        }
        self.outcome.reserved_packets += packets;
        packets
    }

    /// Looks at all nodes whose daemons live.
    fn look(&mut self) {
        let now = self.network.now();
        for node in self.nodes.clone() {
            let Some(engines) = self.network.node(node) else { continue };
            let wrong = invariants::disagreements(engines, &self.traffic_control(node));
            let most = |(interface, status): (InterfaceId, earmark_core::admission::LinkStatus)| {
                let most = self.standing.reservable(node, interface)?;
                (status.held > most).then(|| {
                    let (id, held) = (interface.0, status.held.as_bps());
                    format!("interface {id}: the ledger holds {held} bit/s of {}", most.as_bps())
                })
            };
            let overdrawn: Vec<String> = engines.ledger().links().filter_map(most).collect();
            for what in wrong {
                self.breach(Invariant::BooksAgree, now, node, what);
            }
            for what in overdrawn {
                self.breach(Invariant::NothingPromisedTwice, now, node, what);
            }
        }
    }

    fn look_at_the_end(&mut self) {
        let now = self.network.now();
        for node in self.nodes.clone() {
            let Some(engines) = self.network.node(node) else { continue };
            let classes = self.traffic_control(node).len();
            for what in invariants::remains(engines, classes) {
                self.breach(Invariant::EmptyInTheEnd, now, node, what);
            }
        }
    }

    fn traffic_control(&self, node: NodeId) -> Vec<(InterfaceId, Reserved)> {
        self.network.traffic_control(node).collect()
    }

    fn breach(&mut self, invariant: Invariant, at: Time, node: NodeId, what: String) {
        let node = self.network.name(node).to_owned();
        let mut told = self.outcome.breaches.iter();
        let is_new = told.all(|other| (other.invariant, &other.node) != (invariant, &node));
        if is_new && self.outcome.breaches.len() < MOST_BREACHES {
            self.outcome.breaches.push(Breach { invariant, at: at.as_secs_f64(), node, what });
        }
    }
}

#[cfg(test)]
mod tests {
    use earmark_sim::Shape;

    use super::*;

    /// A seed whose flows send, and have what they reserve.
    const SEED: u64 = 2;

    fn breaks(outcome: &Exploration, invariant: Invariant) -> bool {
        outcome.breaches.iter().any(|breach| breach.invariant == invariant)
    }

    /// A network that is told of half as much as there is promises too much.
    #[test]
    fn promises_are_counted() {
        let mut story = Story::new(SEED);
        story.standing.halve();
        assert!(breaks(&story.play(), Invariant::NothingPromisedTwice));
    }

    /// Flows that send more than they have reserved lose what they send.
    #[test]
    fn packets_are_missed() {
        let mut story = Story::new(SEED);
        for flow in story.flows.iter_mut().filter(|flow| flow.by.is_some()) {
            let rate = earmark_core::Rate::from_bps(4 * flow.wish.rate.as_bps());
            flow.shape = Some(Shape::Constant(rate));
        }
        assert!(breaks(&story.play(), Invariant::ReservedPacketsArrive));
    }

    /// Of flows that never say goodbye much is left.
    #[test]
    fn what_is_left_is_seen() {
        let mut story = Story::new(SEED);
        let late = Time::ZERO + churn::END + 2 * SILENCE;
        for flow in &mut story.flows {
            (flow.shape, flow.leaves) = (None, late);
        }
        assert!(breaks(&story.play(), Invariant::EmptyInTheEnd));
    }
}
