//! Schedule of flows: start, reservation and end of each, drawn before the run.

use std::time::Duration;

use earmark_core::Time;
use earmark_core::random::{RandomStreams, Stream};
use earmark_sim::distributions::poisson;

use crate::arrivals::{ArrivalLaw, Arrivals};
use crate::endpoints::Ends;
use crate::error::ScenarioError;
use crate::scenario::{Flows, Initial, Scenario};
use crate::topology::Topology;

/// First port of flows: even ports as for RTP, reused from the first one on.
const FIRST_PORT: u16 = 10_000;
const PORTS: usize = 25_000;
/// Minimum mean interval between arrivals: for almost zero lifetimes the drawing would never end.
const MIN_ARRIVAL_INTERVAL: Duration = Duration::from_micros(1);
/// Maximum number of drawn flows: twice the expected number that a scenario may have. Times of some laws, or of those of
/// programs, may be almost zero again and again.
const MAX_FLOWS: usize = 20_000_000;

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

/// Draws all flows of a scenario for this seed, ordered by start time. The scenario must be valid, and its nodes those of
/// the topology ([`Scenario::check`]).
///
/// # Errors
/// There are too many flows.
pub fn draw(
    scenario: &Scenario,
    topology: &Topology,
    seed: u64,
) -> Result<Vec<ScheduledFlow>, ScenarioError> {
    draw_at_most(MAX_FLOWS, scenario, topology, seed)
}

fn draw_at_most(
    most: usize,
    scenario: &Scenario,
    topology: &Topology,
    seed: u64,
) -> Result<Vec<ScheduledFlow>, ScenarioError> {
    let random = RandomStreams::new(seed);
    let end = Time::ZERO + scenario.duration;
    let mut schedule = Vec::new();
    for (number, flows) in scenario.flows.iter().enumerate() {
        let drawing = Drawing { number, flows, ends: flows.between.ends(topology), end, most };
        for slot in 0..initial(flows, &random) {
            let stream = |what: &str| random.stream(&format!("{what} {} {slot}", flows.name));
            let mut dice = [stream("lives"), stream("ends")];
            drawing.slot(slot as usize, &mut dice, &mut schedule)?;
        }
        let stream = |what: &str| random.stream(&format!("{what} {}", flows.name));
        let mut dice = [stream("arrivals"), stream("ends of arrivals")];
        match &flows.arrivals {
            Arrivals::Trace(times) => drawing.trace(times, &mut dice, &mut schedule),
            law => drawing.arrivals(law, &mut dice, &mut schedule)?,
        }
    }
    schedule.sort_by_key(|flow| flow.starts); // stable: in the order of the file
    for (place, flow) in schedule.iter_mut().enumerate() {
        flow.port = FIRST_PORT + 2 * (place % PORTS) as u16; // below 60 000
    }
    Ok(schedule)
}

/// Returns the number of flows at the start.
fn initial(flows: &Flows, random: &RandomStreams) -> u64 {
    let count = u64::from(flows.count());
    match flows.initial() {
        Initial::None => 0,
        Initial::Stationary if is_random(flows) => {
            let mut dice = random.stream(&format!("initial {}", flows.name));
            poisson(&mut dice, count as f64)
        }
        Initial::Stationary | Initial::New => count,
    }
}

/// Whether the number of flows at the start is random: they arrive whatever becomes of the others, and not at equal
/// intervals.
fn is_random(flows: &Flows) -> bool {
    !matches!(flows.arrivals, Arrivals::Replaced | Arrivals::Periodic)
        && flows.lifetime.mean().is_some()
}

/// Parameters of one group of flows.
struct Drawing<'a> {
    number: usize,
    flows: &'a Flows,
    ends: Ends,
    end: Time,
    /// Maximum number of flows.
    most: usize,
}

impl Drawing<'_> {
    /// Draws one of the initial flows, and if flows are replaced, each of its successors.
    fn slot(
        &self,
        slot: usize,
        dice: &mut [Stream; 2],
        schedule: &mut Vec<ScheduledFlow>,
    ) -> Result<(), ScenarioError> {
        let begins = Time::ZERO + self.flows.starts;
        let first = begins + dice[0].uniform(Duration::ZERO, self.flows.spread);
        // An initial flow of the steady state is there from the beginning on, and starts late only for the network.
        let remaining = match self.flows.initial() {
            Initial::Stationary => self.flows.lifetime.draw_remaining(&mut dice[0]),
            Initial::New | Initial::None => None,
        };
        let mut next = match remaining {
            Some(remaining) => self.flow_until(slot, first, Some(begins + remaining), dice),
            None => self.flow(slot, first, dice),
        };
        let mut drawn = schedule.len(); // flows that end at once are drawn only
        while let Some(flow) = next.filter(|flow| flow.starts < self.end) {
            drawn += 1;
            self.check_number(drawn)?;
            if flow.ends > flow.starts {
                schedule.push(flow);
            }
            let is_replaced = self.flows.arrivals == Arrivals::Replaced;
            next = if is_replaced { self.flow(slot, flow.ends, dice) } else { None };
        }
        Ok(())
    }

    /// Draws the flows that arrive after the initial ones.
    fn arrivals(
        &self,
        law: &Arrivals,
        dice: &mut [Stream; 2],
        schedule: &mut Vec<ScheduledFlow>,
    ) -> Result<(), ScenarioError> {
        let Some(lifetime) = self.flows.lifetime.mean().filter(|_| self.flows.count() > 0) else {
            return Ok(()); // endless flows are never replaced
        };
        let between = (lifetime / self.flows.count()).max(MIN_ARRIVAL_INTERVAL);
        let mut starts = Time::ZERO + self.flows.starts;
        let mut interval = law.first(between, &mut dice[0]);
        for place in 0.. {
            let Some(next) = interval else { break };
            starts = starts + next;
            if starts >= self.end {
                break;
            }
            self.check_number(schedule.len() + 1)?;
            schedule.extend(self.flow(place, starts, dice));
            interval = law.next(between, &mut dice[0]);
        }
        Ok(())
    }

    /// Adds the flows of a trace, except those that would start after the run.
    fn trace(&self, times: &[Duration], dice: &mut [Stream; 2], schedule: &mut Vec<ScheduledFlow>) {
        let begins = Time::ZERO + self.flows.starts;
        let starts = times.iter().map(|time| begins + *time).take_while(|at| *at < self.end);
        for (place, starts) in starts.enumerate() {
            schedule.extend(self.flow(place, starts, dice));
        }
    }

    fn check_number(&self, flows: usize) -> Result<(), ScenarioError> {
        if flows <= self.most {
            return Ok(());
        }
        let key = format!("flows.{}", self.flows.name);
        let why = "its laws give too many flows; choose others, or fewer and longer flows";
        Err(ScenarioError::Value { key, why })
    }

    fn flow(&self, place: usize, starts: Time, dice: &mut [Stream; 2]) -> Option<ScheduledFlow> {
        let lifetime = self.flows.lifetime.draw(place, &mut dice[0]);
        self.flow_until(place, starts, lifetime.map(|lifetime| starts + lifetime), dice)
    }

    /// Returns a flow that ends at a time, or with the run.
    fn flow_until(
        &self,
        place: usize,
        starts: Time,
        ends: Option<Time>,
        dice: &mut [Stream; 2],
    ) -> Option<ScheduledFlow> {
        let [from, to] = self.ends.of(place, &mut dice[1])?;
        let ends = ends.map_or(self.end, |ends| ends.min(self.end));
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

#[cfg(test)]
mod tests;
