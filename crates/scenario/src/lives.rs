//! The lives of flows: when each starts, reserves and ends, drawn before anything is played.

use earmark_core::Time;
use earmark_core::random::{RandomStreams, Stream};

use crate::ends::Ends;
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
        let ends = flows.between.ends(topology);
        for slot in 0..flows.count {
            let stream = |what: &str| random.stream(&format!("{what} {} {slot}", flows.name));
            let mut dice = [stream("lives"), stream("ends")];
            draw_slot((number, flows), (slot, &ends), end, &mut dice, &mut lives);
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
    (slot, ends): (u32, &Ends),
    end: Time,
    [dice, dice_of_ends]: &mut [Stream; 2],
    lives: &mut Vec<Life>,
) {
    let spread = dice.uniform(std::time::Duration::ZERO, flows.spread);
    let mut starts = Time::ZERO + flows.starts + spread;
    while starts < end {
        let Some([from, to]) = ends.of(slot as usize, dice_of_ends) else { return };
        let lifetime = flows.lifetime.draw(dice);
        let over = lifetime.map_or(end, |lifetime| (starts + lifetime).min(end));
        let reserves = flows.reserves.map(|after| starts + after).filter(|at| *at < over);
        lives.push(Life { flows: number, from, to, port: 0, starts, reserves, ends: over });
        if over == starts {
            break; // of flows that live no time there would be no end
        }
        starts = over;
    }
}
