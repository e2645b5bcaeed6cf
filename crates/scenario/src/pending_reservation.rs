//! Reservations that flows have or request, from the log of the simulator, for all protocols.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use earmark_core::admission::{Attempt, ClaimId, Owner};
use earmark_core::{Flow, InterfaceId, Time};
use earmark_sim::{LogEntry, LogEvent, NodeId};

/// Requested reservation of one flow.
#[derive(Debug, Default)]
pub(crate) struct PendingReservation {
    /// Link ends on its path, each of which has to reserve; `None` if there is no path.
    path: Option<Vec<(NodeId, InterfaceId)>>,
    /// Time of the request.
    pub(crate) since: Time,
    /// Link ends with a reservation now.
    held: BTreeSet<(NodeId, InterfaceId)>,
    /// Time of the last change of `held`.
    changed: Time,
    /// Times with a complete or partial reservation so far.
    pub(crate) reserved_time: ReservedTime,
    /// Nodes with an attempt.
    attempted_at: BTreeSet<NodeId>,
    /// Time at which the reservation was first complete.
    pub(crate) completed: Option<Time>,
    /// Time since which it is not complete any more, if it was complete before.
    interrupted: Option<Time>,
    /// Number of attempts after the first at a node, until it was complete.
    pub(crate) retries: u64,
    /// All attempts, with their times and nodes.
    pub(crate) attempts: Vec<(Time, NodeId, Attempt)>,
}

/// Times with a reservation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReservedTime {
    /// Time with a complete reservation.
    pub(crate) whole: Duration,
    /// Link time (sum over links) of complete reservations on their paths.
    pub(crate) links_whole: Duration,
    /// Link time of incomplete reservations, and of all reservations beside their paths.
    pub(crate) links_partial: Duration,
}

impl PendingReservation {
    /// Returns whether the reservation is complete.
    fn is_whole(&self) -> bool {
        self.path.as_ref().is_some_and(|path| path.iter().all(|end| self.held.contains(end)))
    }

    /// Returns the number of links on its path.
    pub(crate) fn links(&self) -> Option<usize> {
        self.path.as_ref().map(Vec::len)
    }

    /// Adds the time until now; the time before `counted_from` is ignored.
    fn add_time(&mut self, now: Time, counted_from: Time) {
        let from = std::mem::replace(&mut self.changed, now).max(counted_from);
        if from >= now {
            return;
        }
        let time = now.since(from);
        let held = self.held.len() as u32; // the links of at most a few paths
        let useful = match &self.path {
            Some(path) if self.is_whole() => {
                self.reserved_time.whole += time;
                path.len() as u32
            }
            _ => 0,
        };
        self.reserved_time.links_whole += time * useful;
        self.reserved_time.links_partial += time * held.saturating_sub(useful);
    }

    /// Returns how long the reservation was interrupted, if it is complete again, after a change at this time.
    fn settle(&mut self, now: Time) -> Option<(Time, Duration)> {
        if !self.is_whole() {
            if self.completed.is_some() {
                self.interrupted.get_or_insert(now);
            }
            return None;
        }
        self.completed.get_or_insert(now);
        // What is replaced in one step is not interrupted.
        self.interrupted.take().map(|since| (since, now.since(since))).filter(|it| !it.1.is_zero())
    }
}

/// Totals of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) attempts: u64,
    pub(crate) retries: u64,
    pub(crate) refused_retries: u64,
    /// Total time of requested reservations.
    pub(crate) wanted_for: Duration,
    pub(crate) reserved_time: ReservedTime,
}

/// Tracker of all requested reservations.
#[derive(Debug, Default)]
pub(crate) struct ReservationTracker {
    /// Reservations by flow number.
    flows: BTreeMap<u64, PendingReservation>,
    /// Flow numbers by flow.
    numbers: BTreeMap<Flow, u64>,
    /// Flow number and interface of each claim.
    claims: BTreeMap<(NodeId, ClaimId), (u64, InterfaceId)>,
    /// Flow number of the last attempt of an owner on a link of a node.
    last_attempts: BTreeMap<(NodeId, InterfaceId, Owner), u64>,
    /// Nodes whose attempts count.
    routers: BTreeSet<NodeId>,
    counted_from: Time,
    pub(crate) counts: Counts,
    /// Number of retries by node.
    pub(crate) retries_at: BTreeMap<NodeId, u64>,
    /// Number of interruptions of complete reservations.
    pub(crate) interruptions: u64,
    /// Times after which interrupted reservations were complete again.
    pub(crate) recoveries: Vec<Duration>,
}

impl ReservationTracker {
    /// Creates a tracker that counts attempts at these nodes from a time on.
    pub(crate) fn new(routers: BTreeSet<NodeId>, counted_from: Time) -> ReservationTracker {
        ReservationTracker { routers, counted_from, ..ReservationTracker::default() }
    }

    /// Starts tracking the reservation of a flow on its path, if it has one.
    pub(crate) fn begin(
        &mut self,
        number: u64,
        flow: Flow,
        since: Time,
        path: Option<Vec<(NodeId, InterfaceId)>>,
    ) {
        self.numbers.insert(flow, number);
        self.flows.insert(
            number,
            PendingReservation { path, since, changed: since, ..PendingReservation::default() },
        );
    }

    /// Returns the numbers of the flows.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.flows.keys().copied()
    }

    /// Moves a flow to another path, if it has one.
    pub(crate) fn reroute(
        &mut self,
        number: u64,
        now: Time,
        path: Option<Vec<(NodeId, InterfaceId)>>,
    ) {
        self.change(number, now, |flow| flow.path = path);
    }

    /// Changes the path or the reserved links of a flow.
    fn change(&mut self, number: u64, at: Time, change: impl FnOnce(&mut PendingReservation)) {
        let Some(flow) = self.flows.get_mut(&number) else { return };
        flow.add_time(at, self.counted_from);
        change(flow);
        if let Some((since, interruption)) = flow.settle(at)
            && since >= self.counted_from
        {
            self.interruptions += 1;
            self.recoveries.push(interruption);
        }
    }

    /// Returns whether the reservation of a flow is complete.
    pub(crate) fn is_whole(&self, number: u64) -> bool {
        self.flows.get(&number).is_some_and(PendingReservation::is_whole)
    }

    /// Ends the tracking of a flow. Returns its reservation.
    pub(crate) fn end(
        &mut self,
        number: u64,
        flow: &Flow,
        now: Time,
    ) -> Option<PendingReservation> {
        // Another flow may have its ports by now.
        if self.numbers.get(flow) == Some(&number) {
            self.numbers.remove(flow);
        }
        let mut reservation = self.flows.remove(&number)?;
        reservation.add_time(now, self.counted_from);
        let is_lost = |since: Time| since >= self.counted_from && since < now;
        self.interruptions += u64::from(reservation.interrupted.is_some_and(is_lost));
        let since = reservation.since.max(self.counted_from);
        if now > since {
            self.counts.wanted_for += now.since(since);
        }
        let (reserved_time, all) = (reservation.reserved_time, &mut self.counts.reserved_time);
        all.whole += reserved_time.whole;
        all.links_whole += reserved_time.links_whole;
        all.links_partial += reserved_time.links_partial;
        Some(reservation)
    }

    /// Processes entries of the log.
    pub(crate) fn process(&mut self, log: &[LogEntry]) {
        for LogEntry { at, node, what } in log {
            match what {
                LogEvent::Attempt(attempt) => {
                    self.process_attempt(*at, *node, attempt);
                }
                LogEvent::Installed(installed) => {
                    let Some(&number) = self.numbers.get(&installed.flow) else { continue };
                    let interface = installed.interface;
                    self.claims.insert((*node, installed.claim), (number, interface));
                    self.change(number, *at, |flow| {
                        flow.held.insert((*node, interface));
                    });
                }
                LogEvent::Removed(claim) => {
                    let Some((number, interface)) = self.claims.remove(&(*node, *claim)) else {
                        continue;
                    };
                    self.change(number, *at, |flow| {
                        flow.held.remove(&(*node, interface));
                    });
                }
                _ => {}
            }
        }
    }

    fn process_attempt(&mut self, at: Time, node: NodeId, attempt: &Attempt) {
        let Attempt { link, owner, granted, .. } = *attempt;
        let number = match &attempt.flow {
            Some(flow) => {
                let Some(&number) = self.numbers.get(flow) else { return };
                self.last_attempts.insert((node, link, owner), number);
                number
            }
            // A queued request that was attempted before.
            None => match self.last_attempts.get(&(node, link, owner)) {
                Some(&number) => number,
                None => return,
            },
        };
        let Some(flow) = self.flows.get_mut(&number) else { return };
        let is_first = flow.attempted_at.insert(node);
        flow.attempts.push((at, node, *attempt));
        if !self.routers.contains(&node) {
            return;
        }
        if !is_first && flow.completed.is_none() {
            flow.retries += 1;
        }
        if at >= self.counted_from {
            self.counts.attempts += 1;
            self.counts.retries += u64::from(!is_first);
            *self.retries_at.entry(node).or_default() += u64::from(!is_first);
            self.counts.refused_retries += u64::from(!is_first && !granted);
        }
    }
}
