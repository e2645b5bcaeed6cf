//! Enforcement: checks that each reservation is in place in the kernel, and repairs of what is not.
//!
//! [`TrafficControl::reconcile`] compares everything, in time proportional to the number of classes and flows. The
//! audit is called often and takes little time: it checks whether the classifier is attached, which no announcement
//! reports, and some of the flows, in rotation.

use std::collections::BTreeMap;
use std::ops::Bound;

use earmark_core::admission::ClaimId;
use earmark_core::{Flow, InterfaceId};

use super::claim_resources::Usage;
use super::claims::{FlowClaims, Holder, RegisteredClaim};
use super::fault::{Deviation, Fault};
use super::{TcError, TrafficControl};

/// Maximum number of claims that one comparison reports one by one; further ones are reported by their link.
const MAX_DEVIATIONS: usize = 256;

/// Whether a reservation is enforced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// The packets of the reservation are served by it.
    Enforced,
    /// The packets are served by a larger claim on the same flow; this one takes over when that ends.
    Standby,
    /// The packets are not served by the reservation, for this reason.
    Unenforced(String),
}

/// Known faults, and the progress of the audit.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Links that could not be repaired, with the reason.
    links: BTreeMap<InterfaceId, String>,
    /// Reservations that could not be repaired completely, with the reason.
    claims: BTreeMap<ClaimId, String>,
    /// The last compared flow.
    cursor: Option<(InterfaceId, Flow)>,
}

impl Faults {
    pub(super) fn forget(&mut self, claim: ClaimId) {
        if !self.claims.is_empty() {
            self.claims.remove(&claim);
        }
    }

    /// Returns the reason why nothing of a link is enforced now.
    pub(super) fn of_link(&self, interface: InterfaceId) -> Option<&str> {
        self.links.get(&interface).map(String::as_str)
    }

    pub(super) fn forget_link(&mut self, interface: InterfaceId) {
        self.links.remove(&interface);
    }

    /// Records the outcome of a comparison of a link.
    pub(super) fn note_link<T>(&mut self, interface: InterfaceId, outcome: &Result<T, TcError>) {
        match outcome {
            Ok(_) => _ = self.links.remove(&interface),
            Err(error) => _ = self.links.insert(interface, error.to_string()),
        }
    }
}

impl TrafficControl {
    /// Returns whether a reservation is enforced, as of the last check; `None` if it is not installed.
    pub fn enforcement(&self, claim: ClaimId) -> Option<Enforcement> {
        let installed = self.claims.get(&claim)?;
        let fault = self.faults.links.get(&installed.interface);
        if let Some(reason) = fault.or_else(|| self.faults.claims.get(&claim)) {
            return Some(Enforcement::Unenforced(reason.clone()));
        }
        let holder = Holder::Claim(claim);
        let on = installed.interface;
        let is_best = |flow: &Flow| {
            let claims = self.flows.get(&(on, *flow));
            let best = |claims: &FlowClaims| {
                [claims.own(), claims.shared()].map(Option::<&RegisteredClaim>::copied)
            };
            let mut best = claims.map(best).into_iter().flatten().flatten();
            best.any(|registered| registered.holder == holder)
        };
        // One flow represents those that were added to it: there may be many.
        let standby = installed.flows().next().is_some_and(|flow| !is_best(flow));
        Some(if standby { Enforcement::Standby } else { Enforcement::Enforced })
    }

    /// Returns the number of claims on the flow of an installation, including its own.
    pub fn other_claims(&self, claim: ClaimId) -> usize {
        let installed = self.claims.get(&claim);
        let flow = installed.and_then(|installed| Some((installed.interface, installed.flow?)));
        flow.and_then(|key| self.flows.get(&key)).map_or(0, FlowClaims::len)
    }

    /// Checks the classifier on each link and the entries of the next `flows` flows in it; repairs deviations.
    ///
    /// # Errors
    /// The first refusal of the kernel.
    pub fn audit(&mut self, flows: usize) -> Result<Vec<Deviation>, TcError> {
        let mut deviations = Vec::new();
        let mut outcome = Ok(());
        for interface in self.links.keys().copied().collect::<Vec<_>>() {
            let attached = self.audit_classifier(interface, &mut deviations);
            // An attached classifier proves nothing about the queues: only their comparison clears the fault of a link.
            if attached.is_err() {
                self.faults.note_link(interface, &attached);
            }
            outcome = outcome.and(attached);
        }
        let start = self.faults.cursor.map_or(Bound::Unbounded, Bound::Excluded);
        let next: Vec<_> = self
            .flows
            .range((start, Bound::Unbounded))
            .take(flows)
            .map(|(key, claims)| (*key, claims.entry()))
            .collect();
        self.faults.cursor = next.last().map(|(key, _)| *key).filter(|_| next.len() == flows);
        for ((interface, flow), entry) in next {
            let Some(entry) = entry.filter(|_| self.links.contains_key(&interface)) else {
                continue;
            };
            if !self.table.is_in_place(interface, &flow, &entry)? {
                let restored = self.table.set(interface, &flow, &entry);
                self.note_flow(interface, flow, &restored, &mut deviations);
                outcome = outcome.and(restored);
            }
        }
        outcome.map(|()| deviations)
    }

    fn audit_classifier(
        &mut self,
        interface: InterfaceId,
        deviations: &mut Vec<Deviation>,
    ) -> Result<(), TcError> {
        match self.table.is_attached(interface) {
            Ok(true) => Ok(()),
            Ok(false) => {
                let fault = Fault::Classifier;
                deviations.push(Deviation { interface, reservation: None, fault });
                self.attach(interface).map(drop)
            }
            // The mirror reports a deleted link.
            Err(error) if i32::from(error.errno()) == libc::ENODEV => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Records a wrong entry of a flow, with the best claim on it, and the outcome of its repair.
    pub(super) fn note_flow(
        &mut self,
        interface: InterfaceId,
        flow: Flow,
        restored: &Result<(), TcError>,
        deviations: &mut Vec<Deviation>,
    ) {
        let claims = self.flows.get(&(interface, flow));
        let best = claims.and_then(|claims| claims.own().or(claims.shared()));
        let Some(Holder::Claim(claim)) = best.map(|best| best.holder) else { return };
        match restored {
            Ok(()) => self.faults.forget(claim),
            Err(error) => _ = self.faults.claims.insert(claim, error.to_string()),
        }
        if deviations.len() < MAX_DEVIATIONS {
            let reservation = Some((claim, flow));
            deviations.push(Deviation { interface, reservation, fault: Fault::Flow });
        }
    }

    /// Returns the reservations that own the faulty classes, buckets and queues of a link.
    pub(super) fn note_resources(
        &self,
        interface: InterfaceId,
        faults: &[(Option<Usage>, Fault)],
        deviations: &mut Vec<Deviation>,
    ) {
        let mut noted = std::collections::BTreeSet::new();
        for (usage, fault) in faults {
            let reservation = match usage {
                None => None,
                // A parked class has no packets of any claim.
                Some(usage) => match usage.claim {
                    Some(claim) => self.claims.get(&claim).and_then(|i| Some((claim, i.flow?))),
                    None => continue,
                },
            };
            if noted.insert((reservation, *fault)) && deviations.len() < MAX_DEVIATIONS {
                deviations.push(Deviation { interface, reservation, fault: *fault });
            }
        }
    }
}
