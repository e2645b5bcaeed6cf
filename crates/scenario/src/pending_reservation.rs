//! Reservations that flows hold or try to get, as the log of the simulator shows them, for all protocols.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use earmark_core::admission::{Attempt, ClaimId, Owner};
use earmark_core::{Flow, InterfaceId, Time};
use earmark_sim::{Entry, NodeId, What};

/// One flow that wants a reservation.
#[derive(Debug, Default)]
pub(crate) struct Wanting {
    /// How many links it crosses, each of which has to reserve.
    pub(crate) links: usize,
    /// When it asked.
    pub(crate) since: Time,
    /// Where something is reserved for it now,
    held: BTreeSet<(NodeId, InterfaceId)>,
    /// since when it is so much,
    changed: Time,
    /// and what came of all that so far.
    pub(crate) had: Had,
    /// Nodes that were asked.
    asked: BTreeSet<NodeId>,
    /// When it had everything for the first time.
    pub(crate) completed: Option<Time>,
    /// Attempts after the first at a node, until it was complete.
    pub(crate) retries: u64,
    /// Every attempt: when, where, and whether it was granted.
    pub(crate) attempts: Vec<(Time, NodeId, bool)>,
}

/// How long a flow had what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Had {
    /// Everything.
    pub(crate) whole: Duration,
    /// Links, each for itself, while everything was reserved,
    pub(crate) links_whole: Duration,
    /// and while something lacked.
    pub(crate) links_partial: Duration,
}

impl Wanting {
    /// Whether it has all of its reservation.
    fn is_whole(&self) -> bool {
        self.held.len() >= self.links
    }

    /// Enters what it had until now; what was before `counted_from` is left out.
    fn account(&mut self, now: Time, counted_from: Time) {
        let from = std::mem::replace(&mut self.changed, now).max(counted_from);
        if from >= now {
            return;
        }
        let (time, links) = (now.since(from), self.held.len() as u32); // a path has fewer
        if self.is_whole() {
            self.had.whole += time;
            self.had.links_whole += time * links;
        } else {
            self.had.links_partial += time * links;
        }
    }
}

/// What is to be counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) attempts: u64,
    pub(crate) retries: u64,
    pub(crate) refused_retries: u64,
    /// How long reservations were wanted.
    pub(crate) wanted_for: Duration,
    pub(crate) had: Had,
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
    /// Who asked last under the name that an engine of a node has for it.
    asking: BTreeMap<(NodeId, InterfaceId, Owner), u64>,
    /// Nodes whose attempts count.
    routers: BTreeSet<NodeId>,
    counted_from: Time,
    pub(crate) counts: Counts,
    /// Retries of each node.
    pub(crate) retries_at: BTreeMap<NodeId, u64>,
}

impl Watching {
    /// Attempts at these nodes count, from a time on.
    pub(crate) fn new(routers: BTreeSet<NodeId>, counted_from: Time) -> Watching {
        Watching { routers, counted_from, ..Watching::default() }
    }

    /// From now on a flow wants a reservation of so many links.
    pub(crate) fn begin(&mut self, number: u64, flow: Flow, since: Time, links: usize) {
        self.numbers.insert(flow, number);
        self.flows.insert(number, Wanting { links, since, changed: since, ..Wanting::default() });
    }

    /// Whether a flow has all of its reservation.
    pub(crate) fn is_whole(&self, number: u64) -> bool {
        self.flows.get(&number).is_some_and(Wanting::is_whole)
    }

    /// A flow has come to its end; what became of it.
    pub(crate) fn end(&mut self, number: u64, flow: &Flow, now: Time) -> Option<Wanting> {
        // Another may have its ports by now.
        if self.numbers.get(flow) == Some(&number) {
            self.numbers.remove(flow);
        }
        let mut wanting = self.flows.remove(&number)?;
        wanting.account(now, self.counted_from);
        let since = wanting.since.max(self.counted_from);
        if now > since {
            self.counts.wanted_for += now.since(since);
        }
        let (had, all) = (wanting.had, &mut self.counts.had);
        all.whole += had.whole;
        all.links_whole += had.links_whole;
        all.links_partial += had.links_partial;
        Some(wanting)
    }

    /// Takes note of what has happened.
    pub(crate) fn follow(&mut self, log: &[Entry]) {
        for Entry { at, node, what } in log {
            match what {
                What::Attempt(attempt) => {
                    self.attempted(*at, *node, attempt);
                }
                What::Installed(installed) => {
                    let Some(&number) = self.numbers.get(&installed.flow) else { continue };
                    let interface = installed.interface;
                    self.claims.insert((*node, installed.claim), (number, interface));
                    let Some(flow) = self.flows.get_mut(&number) else { continue };
                    flow.account(*at, self.counted_from);
                    flow.held.insert((*node, interface));
                    if flow.is_whole() {
                        flow.completed.get_or_insert(*at);
                    }
                }
                What::Removed(claim) => {
                    let Some((number, interface)) = self.claims.remove(&(*node, *claim)) else {
                        continue;
                    };
                    if let Some(flow) = self.flows.get_mut(&number) {
                        flow.account(*at, self.counted_from);
                        flow.held.remove(&(*node, interface));
                    }
                }
                _ => {}
            }
        }
    }

    fn attempted(&mut self, at: Time, node: NodeId, attempt: &Attempt) {
        let Attempt { link, owner, granted, .. } = *attempt;
        let number = match &attempt.flow {
            Some(flow) => {
                let Some(&number) = self.numbers.get(flow) else { return };
                self.asking.insert((node, link, owner), number);
                number
            }
            // One that has asked before and waits.
            None => match self.asking.get(&(node, link, owner)) {
                Some(&number) => number,
                None => return,
            },
        };
        let Some(flow) = self.flows.get_mut(&number) else { return };
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
            *self.retries_at.entry(node).or_default() += u64::from(!is_first);
            self.counts.refused_retries += u64::from(!is_first && !granted);
        }
    }
}
