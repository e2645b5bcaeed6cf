//! Outcome of a run that ends.

use std::collections::BTreeMap;
use std::time::Duration;

use earmark_core::Time;
use earmark_sim::{Network, NodeId, ProcessorUse, SignallingCount};

use super::ScenarioRun;
use crate::outcome::{Group, Outcome, PathsOutcome, ProcessorOutcome, Signalling};
use crate::pending_reservation::PendingReservation;

impl ScenarioRun<'_> {
    fn signalling(&self) -> Signalling {
        let mut all = SignallingCount::default();
        for &node in &self.nodes {
            all += self.network.signalling_sent(node);
        }
        let sent = self.routers.iter().map(|node| (self.network.signalling_sent(*node), *node));
        // The first of several, in the order of the topology.
        let busiest = sent.rev().max_by_key(|(sent, _)| sent.packets);
        Signalling {
            packets: all.packets,
            octets: all.octets,
            busiest_router: busiest.map(|(_, node)| self.network.name(node).to_owned()),
            busiest_router_packets: busiest.map_or(0, |(sent, _)| sent.packets),
        }
    }

    fn state(&self) -> BTreeMap<String, u64> {
        let mut state = BTreeMap::new();
        for node in self.routers.iter().filter_map(|node| self.network.node(*node)) {
            let counts = node.engines().flat_map(|engine| engine.state_counts());
            for (protocol, kind, entries) in counts.filter(|(.., entries)| *entries > 0) {
                *state.entry(format!("{protocol}_{kind}")).or_default() += entries as u64;
            }
        }
        state
    }

    fn paths(&self) -> Option<PathsOutcome> {
        let mut paths = PathsOutcome::default();
        let mut waits = Vec::new();
        for path in self.path_tracker.since(Time::ZERO + self.scenario.discard) {
            paths.asked += 1;
            waits.extend(path.granted.map(|granted| granted.since(path.asked)));
        }
        paths.granted = waits.len() as u64;
        paths.waits = quartiles(&mut waits);
        Some(paths).filter(|paths| paths.asked > 0)
    }

    fn processor_outcome(&self, node: NodeId) -> Option<ProcessorOutcome> {
        let ProcessorUse { busy, turns, lost, longest_queue } = self.network.processor_use(node)?;
        let busy = share(busy, self.network.now().since(Time::ZERO)).min(1.0);
        Some(ProcessorOutcome { busy, turns, lost, longest_queue })
    }

    /// Ends the run where it is, and returns the outcome so far and the network. Flows that have not ended so far count
    /// as if they ended now.
    pub fn finish(mut self) -> (Outcome, Network) {
        // What the end of the run itself sends is no signalling of the flows.
        self.outcome.signalling = self.signalling();
        self.outcome.state = self.state();
        for number in self.running_flows() {
            self.end_flow(number);
        }
        self.outcome.paths = self.paths();
        let counts = self.tracker.counts;
        self.outcome.events = self.network.event_count();
        self.outcome.attempts = counts.attempts;
        self.outcome.retries = counts.retries;
        self.outcome.refused_retries = counts.refused_retries;
        let name = |node: &NodeId| self.network.name(*node).to_owned();
        let used = |node: &NodeId| Some((name(node), self.processor_outcome(*node)?));
        self.outcome.processors = self.nodes.iter().filter_map(used).collect();
        let retries_at = self.tracker.retries_at.iter();
        self.outcome.retries_at =
            retries_at.map(|(node, retries)| (name(node), *retries)).collect();
        self.outcome.served = share(counts.reserved_time.whole, counts.wanted_for);
        let held = counts.reserved_time.links_whole + counts.reserved_time.links_partial;
        self.outcome.fragmented = share(counts.reserved_time.links_partial, held);
        let groups = self.scenario.flows.iter().zip(&self.groups);
        let groups = groups.filter(|(flows, _)| flows.reserves.is_some());
        self.outcome.groups =
            groups.map(|(flows, totals)| (flows.name.clone(), totals.group())).collect();
        let lengths = self.path_lengths.iter();
        self.outcome.path_lengths = lengths.map(|(links, all)| (*links, all.group())).collect();
        self.outcome.waits = quartiles(&mut self.waits);
        self.outcome.interruptions = self.tracker.interruptions;
        self.outcome.recoveries = self.tracker.recoveries.len() as u64;
        self.outcome.recovery_times = quartiles(&mut self.tracker.recoveries);
        let played = usize::try_from(self.network.now().as_nanos().div_ceil(1_000_000_000));
        for flow in &mut self.outcome.watched {
            flow.received.rates.truncate(played.unwrap_or(usize::MAX));
        }
        (self.outcome, self.network)
    }
}

/// Totals of several reservations.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Totals {
    wanted: u64,
    completed: u64,
    /// Time with a complete reservation.
    served_for: Duration,
    wanted_for: Duration,
}

impl Totals {
    /// Adds a reservation that ends now.
    pub(super) fn add(&mut self, reservation: &PendingReservation, now: Time) {
        self.wanted += 1;
        self.completed += u64::from(reservation.completed.is_some());
        self.served_for += reservation.reserved_time.whole;
        self.wanted_for += now.since(reservation.since);
    }

    fn group(&self) -> Group {
        let served = share(self.served_for, self.wanted_for);
        Group { wanted: self.wanted, completed: self.completed, served }
    }
}

/// Sorts times, and returns their quartiles in seconds.
fn quartiles(times: &mut [Duration]) -> Option<[f64; 3]> {
    times.sort_unstable();
    let last = times.len().checked_sub(1)?;
    Some([1, 2, 3].map(|quarters| times[last * quarters / 4].as_secs_f64()))
}

/// Returns the share of a part, 0 to 1; 0 if the whole is zero.
fn share(part: Duration, whole: Duration) -> f64 {
    if whole.is_zero() { 0.0 } else { part.as_secs_f64() / whole.as_secs_f64() }
}
