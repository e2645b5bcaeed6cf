//! Schedule of flows: start, reservation and end of each, drawn before the run.

use std::time::Duration;

use earmark_core::Time;
use earmark_core::random::{RandomStreams, Stream};
use earmark_sim::distributions::exponential;

use crate::endpoints::Ends;
use crate::scenario::{Arrivals, Flows, Scenario};
use crate::topology::Topology;

/// First port of flows: even ports as for RTP, reused from the first one on.
const FIRST_PORT: u16 = 10_000;
const PORTS: usize = 25_000;
/// Minimum mean interval between arrivals: for almost zero lifetimes the drawing would never end.
const MIN_ARRIVAL_INTERVAL: Duration = Duration::from_micros(1);

/// One scheduled flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScheduledFlow {
    /// Index of its group of flows in the scenario.
    pub flows: usize,
    /// Index of the source node in the topology.
    pub from: usize,
    /// Index of the destination node in the topology.
    pub to: usize,
    /// Source and destination port.
    pub port: u16,
    /// Start time.
    pub starts: Time,
    /// Time of its reservation request, if any.
    pub reserves: Option<Time>,
    /// Time of the request of its source to open its path, if any.
    pub opens: Option<Time>,
    /// Time of the request of its destination to be reachable, if any.
    pub exposes: Option<Time>,
    /// Time at which these requests end.
    pub closes: Time,
    /// End time.
    pub ends: Time,
}

/// Draws all flows of a scenario for this seed, ordered by start time. Nodes must be those of the topology
/// ([`Scenario::check`]).
pub fn draw(scenario: &Scenario, topology: &Topology, seed: u64) -> Vec<ScheduledFlow> {
    let random = RandomStreams::new(seed);
    let end = Time::ZERO + scenario.duration;
    let mut schedule = Vec::new();
    for (number, flows) in scenario.flows.iter().enumerate() {
        let drawing = Drawing { number, flows, ends: flows.between.ends(topology), end };
        for slot in 0..flows.count {
            let stream = |what: &str| random.stream(&format!("{what} {} {slot}", flows.name));
            let mut dice = [stream("lives"), stream("ends")];
            drawing.slot(slot as usize, &mut dice, &mut schedule);
        }
        if flows.arrivals == Arrivals::Poisson {
            let stream = |what: &str| random.stream(&format!("{what} {}", flows.name));
            let mut dice = [stream("arrivals"), stream("ends of arrivals")];
            drawing.arrivals(&mut dice, &mut schedule);
        }
    }
    schedule.sort_by_key(|flow| flow.starts); // stable: in the order of the file
    for (place, flow) in schedule.iter_mut().enumerate() {
        flow.port = FIRST_PORT + 2 * (place % PORTS) as u16; // below 60 000
    }
    schedule
}

/// Parameters of one group of flows.
struct Drawing<'a> {
    number: usize,
    flows: &'a Flows,
    ends: Ends,
    end: Time,
}

impl Drawing<'_> {
    /// Draws one of the initial flows, and if flows are replaced, each of its successors.
    fn slot(&self, slot: usize, dice: &mut [Stream; 2], schedule: &mut Vec<ScheduledFlow>) {
        let spread = dice[0].uniform(Duration::ZERO, self.flows.spread);
        let mut starts = Time::ZERO + self.flows.starts + spread;
        while starts < self.end {
            let Some(flow) = self.flow(slot, starts, dice) else { break };
            schedule.push(flow);
            if flow.ends == starts || self.flows.arrivals == Arrivals::Poisson {
                break; // zero lifetimes would never reach the end
            }
            starts = flow.ends;
        }
    }

    /// Draws the flows that arrive after the initial ones.
    fn arrivals(&self, dice: &mut [Stream; 2], schedule: &mut Vec<ScheduledFlow>) {
        let Some(lifetime) = self.flows.lifetime.mean().filter(|_| self.flows.count > 0) else {
            return; // endless flows are never replaced
        };
        let between = (lifetime / self.flows.count).max(MIN_ARRIVAL_INTERVAL);
        let mut starts = Time::ZERO + self.flows.starts;
        for place in 0.. {
            starts = starts + exponential(&mut dice[0], between);
            if starts >= self.end {
                break;
            }
            schedule.extend(self.flow(place, starts, dice));
        }
    }

    fn flow(&self, place: usize, starts: Time, dice: &mut [Stream; 2]) -> Option<ScheduledFlow> {
        let [dice, dice_of_ends] = dice;
        let [from, to] = self.ends.of(place, dice_of_ends)?;
        let lifetime = self.flows.lifetime.draw(dice);
        let ends = lifetime.map_or(self.end, |lifetime| (starts + lifetime).min(self.end));
        let within =
            |after: Option<Duration>| after.map(|after| starts + after).filter(|at| *at < ends);
        Some(ScheduledFlow {
            flows: self.number,
            from,
            to,
            port: 0,
            starts,
            reserves: within(self.flows.reserves),
            opens: within(self.flows.opens),
            exposes: within(self.flows.exposes),
            closes: within(self.flows.closes).unwrap_or(ends),
            ends,
        })
    }
}
