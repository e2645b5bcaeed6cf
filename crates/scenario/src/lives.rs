//! The lives of flows: when each starts, reserves and ends, drawn before anything is played.

use earmark_core::Time;
use earmark_core::random::RandomStreams;

use crate::scenario::{Flows, Scenario};
use crate::topology::Topology;

/// Ports of flows: even ones, as those of RTP are, from here on and again.
const FIRST_PORT: u16 = 10_000;
const PORTS: usize = 25_000;

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
        for slot in 0..flows.count {
            let name = format!("lives {} {slot}", flows.name);
            draw_slot((number, flows), slot, topology, end, &mut random.stream(&name), &mut lives);
        }
    }
    lives.sort_by_key(|life| life.starts); // stable: in the order of the file
    for (place, life) in lives.iter_mut().enumerate() {
        life.port = FIRST_PORT + 2 * (place % PORTS) as u16; // below 60 000
    }
    lives
}

/// One flow after the other.
fn draw_slot(
    (number, flows): (usize, &Flows),
    slot: u32,
    topology: &Topology,
    end: Time,
    dice: &mut earmark_core::random::Stream,
    lives: &mut Vec<Life>,
) {
    let [from, to] = &flows.between[slot as usize % flows.between.len()];
    let (Some(from), Some(to)) = (topology.node(from), topology.node(to)) else { return };
    let spread = dice.uniform(std::time::Duration::ZERO, flows.spread);
    let mut starts = Time::ZERO + flows.starts + spread;
    while starts < end {
        let lifetime = flows.lifetime.draw(dice);
        let ends = lifetime.map_or(end, |lifetime| (starts + lifetime).min(end));
        let reserves = flows.reserves.map(|after| starts + after).filter(|at| *at < ends);
        lives.push(Life { flows: number, from, to, port: 0, starts, reserves, ends });
        if ends == starts {
            break; // of flows that live no time there would be no end
        }
        starts = ends;
    }
}
