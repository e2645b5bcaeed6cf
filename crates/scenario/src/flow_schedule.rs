//! The schedule of flows: when each starts, reserves and ends, drawn before anything is played.

use std::time::Duration;

use earmark_core::Time;
use earmark_core::random::{RandomStreams, Stream};
use earmark_sim::dice::exponential;

use crate::endpoints::Ends;
use crate::scenario::{Arrivals, Flows, Scenario};
use crate::topology::Topology;

/// Ports of flows: even ones, as those of RTP are, from here on and again.
const FIRST_PORT: u16 = 10_000;
const PORTS: usize = 25_000;
/// Flows that live next to no time come no faster than this, or the drawing would have no end.
const LEAST_BETWEEN: Duration = Duration::from_micros(1);

/// One flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Life {
    /// Which flows of the scenario it is one of.
    pub flows: usize,
    /// Index of the node that it comes from in the topology,
    pub from: usize,
    /// and of that which it goes to.
    pub to: usize,
    /// Its ports, both.
    pub port: u16,
    /// When it starts.
    pub starts: Time,
    /// When it asks for its reservation, if it ever does.
    pub reserves: Option<Time>,
    /// When it ends.
    pub ends: Time,
}

/// All flows of a scenario that is played with this seed, by when they start. Nodes must be those of the topology
/// ([`Scenario::check`]).
pub fn draw(scenario: &Scenario, topology: &Topology, seed: u64) -> Vec<Life> {
    let random = RandomStreams::new(seed);
    let end = Time::ZERO + scenario.duration;
    let mut lives = Vec::new();
    for (number, flows) in scenario.flows.iter().enumerate() {
        let drawing = Drawing { number, flows, ends: flows.between.ends(topology), end };
        for slot in 0..flows.count {
            let stream = |what: &str| random.stream(&format!("{what} {} {slot}", flows.name));
            let mut dice = [stream("lives"), stream("ends")];
            drawing.slot(slot as usize, &mut dice, &mut lives);
        }
        if flows.arrivals == Arrivals::Poisson {
            let stream = |what: &str| random.stream(&format!("{what} {}", flows.name));
            let mut dice = [stream("arrivals"), stream("ends of arrivals")];
            drawing.arrivals(&mut dice, &mut lives);
        }
    }
    lives.sort_by_key(|life| life.starts); // stable: in the order of the file
    for (place, life) in lives.iter_mut().enumerate() {
        life.port = FIRST_PORT + 2 * (place % PORTS) as u16; // below 60 000
    }
    lives
}

/// Flows that are alike, and what is known of them.
struct Drawing<'a> {
    number: usize,
    flows: &'a Flows,
    ends: Ends,
    end: Time,
}

impl Drawing<'_> {
    /// One of those that are there at first, and where flows are replaced, each after it.
    fn slot(&self, slot: usize, dice: &mut [Stream; 2], lives: &mut Vec<Life>) {
        let spread = dice[0].uniform(Duration::ZERO, self.flows.spread);
        let mut starts = Time::ZERO + self.flows.starts + spread;
        while starts < self.end {
            let Some(life) = self.life(slot, starts, dice) else { break };
            lives.push(life);
            if life.ends == starts || self.flows.arrivals == Arrivals::Poisson {
                break; // of flows that live no time there would be no end
            }
            starts = life.ends;
        }
    }

    /// Those that come after the first.
    fn arrivals(&self, dice: &mut [Stream; 2], lives: &mut Vec<Life>) {
        let Some(lifetime) = self.flows.lifetime.mean().filter(|_| self.flows.count > 0) else {
            return; // who lives for ever leaves no room for others
        };
        let between = (lifetime / self.flows.count).max(LEAST_BETWEEN);
        let mut starts = Time::ZERO + self.flows.starts;
        for place in 0.. {
            starts = starts + exponential(&mut dice[0], between);
            if starts >= self.end {
                break;
            }
            lives.extend(self.life(place, starts, dice));
        }
    }

    fn life(&self, place: usize, starts: Time, dice: &mut [Stream; 2]) -> Option<Life> {
        let [dice, dice_of_ends] = dice;
        let [from, to] = self.ends.of(place, dice_of_ends)?;
        let lifetime = self.flows.lifetime.draw(dice);
        let ends = lifetime.map_or(self.end, |lifetime| (starts + lifetime).min(self.end));
        let reserves = self.flows.reserves.map(|after| starts + after).filter(|at| *at < ends);
        Some(Life { flows: self.number, from, to, port: 0, starts, reserves, ends })
    }
}
