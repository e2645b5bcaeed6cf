//! What flows hold and have tried, as the log of the simulator tells it, whatever protocol they speak.

use std::collections::{BTreeMap, BTreeSet};

use earmark_core::admission::ClaimId;
use earmark_core::{Flow, InterfaceId, Time};
use earmark_sim::{Entry, NodeId, What};

/// One flow that wants a reservation.
#[derive(Debug, Default)]
pub(crate) struct Wanting {
    /// How many links it crosses, each of which has to reserve.
    pub(crate) links: usize,
    /// When it asked.
    pub(crate) since: Time,
    /// Where something is reserved for it now.
    held: BTreeSet<(NodeId, InterfaceId)>,
    /// Nodes that were asked.
    asked: BTreeSet<NodeId>,
    /// When it had everything for the first time.
    pub(crate) completed: Option<Time>,
    /// Attempts after the first at a node, until it was complete.
    pub(crate) retries: u64,
    /// Every attempt: when, where, and whether it was granted.
    pub(crate) attempts: Vec<(Time, NodeId, bool)>,
}

/// What is to be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) attempts: u64,
    pub(crate) retries: u64,
    pub(crate) refused_retries: u64,
}

/// All flows that want reservations.
#[derive(Debug, Default)]
pub(crate) struct Watching {
    /// By number.
    flows: BTreeMap<u64, Wanting>,
    /// Their numbers, by what packets of them look like.
    numbers: BTreeMap<Flow, u64>,
    /// Whose reservation a claim of a node is, and on which interface.
    claims: BTreeMap<(NodeId, ClaimId), (u64, InterfaceId)>,
    /// Nodes whose attempts count.
    routers: BTreeSet<NodeId>,
    counted_from: Time,
    pub(crate) counts: Counts,
}

impl Watching {
    /// Attempts at these nodes count, from a time on.
    pub(crate) fn new(routers: BTreeSet<NodeId>, counted_from: Time) -> Watching {
        Watching { routers, counted_from, ..Watching::default() }
    }

    /// From now on a flow wants a reservation of so many links.
    pub(crate) fn begin(&mut self, number: u64, flow: Flow, since: Time, links: usize) {
        self.numbers.insert(flow, number);
        self.flows.insert(number, Wanting { links, since, ..Wanting::default() });
    }

    /// A flow has come to its end; what became of it.
    pub(crate) fn end(&mut self, number: u64, flow: &Flow) -> Option<Wanting> {
        // Another may have its ports by now.
        if self.numbers.get(flow) == Some(&number) {
            self.numbers.remove(flow);
        }
        self.flows.remove(&number)
    }

    /// Takes note of what has happened.
    pub(crate) fn follow(&mut self, log: &[Entry]) {
        for Entry { at, node, what } in log {
            match what {
                What::Attempt(attempt) => {
                    self.attempted(*at, *node, &attempt.flow, attempt.granted);
                }
                What::Installed(installed) => {
                    let Some(&number) = self.numbers.get(&installed.flow) else { continue };
                    let interface = installed.interface;
                    self.claims.insert((*node, installed.claim), (number, interface));
                    let Some(flow) = self.flows.get_mut(&number) else { continue };
                    flow.held.insert((*node, interface));
                    if flow.held.len() >= flow.links {
                        flow.completed.get_or_insert(*at);
                    }
                }
                What::Removed(claim) => {
                    let Some((number, interface)) = self.claims.remove(&(*node, *claim)) else {
                        continue;
                    };
                    if let Some(flow) = self.flows.get_mut(&number) {
                        flow.held.remove(&(*node, interface));
                    }
                }
                _ => {}
            }
        }
    }

    fn attempted(&mut self, at: Time, node: NodeId, flow: &Flow, granted: bool) {
        let number = self.numbers.get(flow);
        let Some(flow) = number.and_then(|number| self.flows.get_mut(number)) else { return };
        let is_first = flow.asked.insert(node);
        flow.attempts.push((at, node, granted));
        if !self.routers.contains(&node) {
            return;
        }
        if !is_first && flow.completed.is_none() {
            flow.retries += 1;
        }
        if at >= self.counted_from {
            self.counts.attempts += 1;
            self.counts.retries += u64::from(!is_first);
            self.counts.refused_retries += u64::from(!is_first && !granted);
        }
    }
}
