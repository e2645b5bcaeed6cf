//! The reservations of an egress: classes, the flows that lead to them, and the claims of the daemon.
//!
//! A class outlives the daemon that created it. The next daemon takes it over by its flow, or it is removed.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use earmark_core::admission::{ClaimId, Demand, Protocol};
use earmark_core::{Flow, Installation, Rate};

use super::classifier::{Classifier, FlowClaim};

/// Classes, flows and claims.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    /// Demands of the classes, by their numbers.
    classes: BTreeMap<u32, Demand>,
    /// Number of the last new class.
    last_class: u32,
    /// The classifier: the classes of each flow.
    flows: Classifier,
    /// Flows of a dead daemon that were removed with a class that the new daemon had taken over.
    removed: Vec<Flow>,
    /// Classes by the claim IDs of the running daemon.
    claims: BTreeMap<ClaimId, u32>,
    /// Classes with a new demand, or `None` for a removed class, since the scheduler was last informed.
    changed: Vec<(u32, Option<Demand>)>,
}

/// A reservation in traffic control.
#[derive(Clone, Debug, PartialEq)]
pub struct Reserved {
    /// Flows of the reservation, in ascending order.
    pub flows: Vec<Flow>,
    /// Reserved rate and burst.
    pub demand: Demand,
}

impl Reservations {
    /// Returns the classes and their demands.
    pub(super) fn classes(&self) -> impl Iterator<Item = (u32, Demand)> {
        self.classes.iter().map(|(&number, &demand)| (number, demand))
    }

    /// Returns the changes since the last call, oldest first.
    pub(super) fn take_changed(&mut self) -> Vec<(u32, Option<Demand>)> {
        core::mem::take(&mut self.changed)
    }

    /// Returns the classes that a packet of a stream may use, the narrowest claim first, and all demands.
    pub(super) fn classes_of(
        &mut self,
        stream: usize,
        flow: impl FnOnce() -> Flow,
    ) -> (&[u32], &BTreeMap<u32, Demand>) {
        let classes = self.flows.classes_of(stream, flow, &better(&self.classes));
        (classes, &self.classes)
    }

    /// Installs or changes a reservation. A class that a dead daemon created for the flow is taken over with its state,
    /// if it was of the same protocol or is not larger than this reservation.
    pub(crate) fn install(&mut self, protocol: Option<Protocol>, installation: &Installation) {
        let Installation { claim, flow, demand, .. } = *installation;
        let number = match self.claims.get(&claim).copied() {
            Some(number) => number,
            None => match self.adoptable(&flow, protocol, demand.rate) {
                Some(number) if !self.claims.values().any(|&claimed| claimed == number) => number,
                _ => {
                    self.last_class += 1;
                    self.last_class
                }
            },
        };
        self.claims.insert(claim, number);
        self.enter(flow, number, protocol, demand.rate);
        self.classes.insert(number, demand);
        self.changed.push((number, Some(demand)));
    }

    /// Returns the dead daemon's class that a claim on a flow takes over.
    fn adoptable(&self, flow: &Flow, protocol: Option<Protocol>, rate: Rate) -> Option<u32> {
        let left = self.flows.get(flow).iter().find(|known| !known.claimed)?;
        let yields = match left.protocol {
            Some(left) => Some(left) == protocol,
            None => self.classes.get(&left.class).is_none_or(|demand| demand.rate <= rate),
        };
        yields.then_some(left.class)
    }

    /// Enters a claim on a flow. A dead daemon's claim on it ends, if it yields.
    fn enter(&mut self, flow: Flow, class: u32, protocol: Option<Protocol>, rate: Rate) {
        if let Some(left) = self.adoptable(&flow, protocol, rate).filter(|&left| left != class) {
            self.flows.remove(&flow, left);
        }
        self.flows.set(flow, FlowClaim { class, claimed: true, protocol });
    }

    /// Adds a flow to a reservation.
    pub(crate) fn add_flow(&mut self, claim: ClaimId, protocol: Option<Protocol>, flow: Flow) {
        if let Some(&class) = self.claims.get(&claim) {
            let rate = self.classes.get(&class).map_or(Rate::ZERO, |demand| demand.rate);
            self.enter(flow, class, protocol, rate);
        }
    }

    /// Removes a flow from a reservation.
    pub(crate) fn remove_flow(&mut self, claim: ClaimId, flow: &Flow) {
        if let Some(&class) = self.claims.get(&claim) {
            self.flows.remove(flow, class);
        }
    }

    /// Removes a reservation and returns its class; `None` if there is none with this ID. Packets waiting in it move to
    /// best effort.
    pub(crate) fn remove(&mut self, claim: ClaimId) -> Option<u32> {
        let number = self.claims.remove(&claim)?;
        self.remove_class(number);
        Some(number)
    }

    /// Returns the class of the largest rate that the packets of a flow may use, and that rate.
    pub(crate) fn class_for(&self, flow: &Flow) -> Option<(u32, Rate)> {
        let classes = self.flows.look_up(flow, &better(&self.classes));
        let rated = classes.iter().filter_map(|n| Some((*n, self.classes.get(n)?.rate)));
        rated.reduce(|best, other| if other.1 > best.1 { other } else { best })
    }

    /// Returns the first flow of a class, and the protocol of its claim.
    pub(super) fn claim_of(&self, class: u32) -> Option<(Option<Protocol>, &Flow)> {
        self.flows.first_of(class).map(|(flow, claim)| (claim.protocol, flow))
    }

    /// Returns all reservations, including those without a running daemon.
    pub(crate) fn reserved(&self) -> impl Iterator<Item = Reserved> {
        self.classes.iter().map(|(&number, &demand)| {
            let flows = self.flows.iter().filter(|(_, known)| known.class == number);
            Reserved { flows: flows.map(|(flow, _)| *flow).collect(), demand }
        })
    }

    /// Handles the death of the daemon: its claim IDs become invalid. Returns every remaining flow with the rate of its
    /// class; of flows that share a class only the first has the rate, since it exists only once.
    pub(crate) fn orphan(&mut self) -> Vec<(Flow, Rate, Option<Protocol>)> {
        self.claims.clear();
        self.removed.clear();
        let mut counted = BTreeSet::new();
        let mut orphans = Vec::new();
        self.forget_standby();
        for (flow, known) in self.flows.iter_mut() {
            known.claimed = false;
            let demand = self.classes.get(&known.class).filter(|_| counted.insert(known.class));
            let rate = demand.map_or(Rate::ZERO, |demand| demand.rate);
            orphans.push((*flow, rate, known.protocol));
        }
        orphans
    }

    /// Removes all but the best of several claims on one flow: the next daemon finds only that one in the kernel.
    fn forget_standby(&mut self) {
        let is_better = better(&self.classes);
        let flows: BTreeSet<Flow> = self.flows.iter().map(|(flow, _)| *flow).collect();
        let kept: BTreeMap<Flow, Option<u32>> = flows
            .iter()
            .map(|flow| (*flow, self.flows.best(flow, &is_better).into_iter().flatten().next()))
            .collect();
        self.flows.extract(|flow, known| kept.get(flow) != Some(&Some(known.class)));
    }

    /// Removes the classes and flows that the running daemon has not claimed; returns the flows.
    pub(crate) fn reap(&mut self) -> Vec<Flow> {
        let unclaimed_flows = self.flows.extract(|_, known| !known.claimed);
        let mut orphans: Vec<Flow> = unclaimed_flows.into_iter().map(|(flow, _)| flow).collect();
        orphans.append(&mut self.removed);
        let claimed: BTreeSet<u32> = self.claims.values().copied().collect();
        let unclaimed = self.classes.keys().filter(|number| !claimed.contains(number));
        for number in unclaimed.copied().collect::<Vec<u32>>() {
            self.remove_class(number);
        }
        orphans
    }

    /// Removes a flow that the running daemon cannot keep, unless it has claimed it meanwhile, and its class with its
    /// last flow; returns whether it did. With a protocol, only flows of this protocol or of an unknown one.
    pub(crate) fn reject(&mut self, flow: &Flow, protocol: Option<Protocol>) -> bool {
        let left = self.flows.get(flow).iter().find(|known| !known.claimed).copied();
        let is_meant = |known: &FlowClaim| {
            protocol.is_none() || known.protocol.is_none_or(|p| Some(p) == protocol)
        };
        let Some(FlowClaim { class, .. }) = left.filter(is_meant) else {
            return false;
        };
        self.flows.remove(flow, class);
        let used =
            self.flows.has_members(class) || self.claims.values().any(|&claimed| claimed == class);
        if !used {
            self.remove_class(class);
        }
        true
    }

    fn remove_class(&mut self, number: u32) {
        for (flow, known) in self.flows.remove_class(number) {
            self.removed.extend((!known.claimed).then_some(flow));
        }
        if self.classes.remove(&number).is_some() {
            self.changed.push((number, None));
        }
    }
}

/// Returns a comparison of two classes: whether the first is the better claim, by rate, then by age.
fn better(classes: &BTreeMap<u32, Demand>) -> impl Fn(u32, u32) -> bool {
    let rank = |number: u32| classes.get(&number).map(|demand| demand.rate);
    move |one, other| (rank(one), other) > (rank(other), one)
}
