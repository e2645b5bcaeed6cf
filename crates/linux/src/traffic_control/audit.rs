//! Enforcement: what of each reservation is in place in the kernel, and what is done where something is not.
//!
//! [`TrafficControl::reconcile`] compares everything and takes time with the number of classes and flows. The audit
//! is called often and takes little each time: whether the classifier is attached, which no announcement tells of, and some
//! of the flows, turn by turn.

use std::collections::BTreeMap;
use std::ops::Bound;

use earmark_core::admission::ClaimId;
use earmark_core::{Flow, InterfaceId};

use super::claims::{FlowClaims, Holder, Standing};
use super::place::Usage;
use super::{TcError, TrafficControl};

/// Claims of which one comparison tells one by one; of more it tells by their link.
const MAX_DEVIATIONS: usize = 256;

/// What was not as it should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum Fault {
    /// Of the link, or below it.
    #[error("the qdisc was missing or another")]
    Qdisc,
    /// Of a reservation, or of all of them together.
    #[error("the class was missing")]
    ClassMissing,
    /// Of a reservation, or of all of them together.
    #[error("the class was altered")]
    ClassAltered,
    /// Of a class.
    #[error("the queue of the class was missing or altered")]
    Queue,
    /// The BPF program, or its settings of the link.
    #[error("the classifier was detached")]
    Classifier,
    /// Of a flow.
    #[error("the flow was missing in the classifier or led elsewhere")]
    Flow,
    /// Of a reservation.
    #[error("the token bucket was missing or altered")]
    Bucket,
}

/// A reservation, or all of a link, that was not in place, and is again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deviation {
    /// Where.
    pub interface: InterfaceId,
    /// Which; `None` for all of the link.
    pub reservation: Option<(ClaimId, Flow)>,
    /// What was wrong.
    pub fault: Fault,
}

/// Whether a reservation is in place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enforcement {
    /// The packets of the reservation get it.
    Enforced,
    /// The packets get more by another claim on the same flow; this one takes over when that ends.
    Standby,
    /// The packets of the reservation do not get it.
    Unenforced(String),
}

/// What is not in place now, and how far the audit has come.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Links that could not be put right, and why.
    links: BTreeMap<InterfaceId, String>,
    /// Reservations of which something could not be put right.
    claims: BTreeMap<ClaimId, String>,
    /// The flow that was compared last.
    cursor: Option<(InterfaceId, Flow)>,
}

impl Faults {
    pub(super) fn forget(&mut self, claim: ClaimId) {
        if !self.claims.is_empty() {
            self.claims.remove(&claim);
        }
    }

    /// Why nothing of a link is enforced now.
    pub(super) fn of_link(&self, interface: InterfaceId) -> Option<&str> {
        self.links.get(&interface).map(String::as_str)
    }

    pub(super) fn forget_link(&mut self, interface: InterfaceId) {
        self.links.remove(&interface);
    }

    /// A link as a comparison has left it.
    pub(super) fn note_link<T>(&mut self, interface: InterfaceId, outcome: &Result<T, TcError>) {
        match outcome {
            Ok(_) => _ = self.links.remove(&interface),
            Err(error) => _ = self.links.insert(interface, error.to_string()),
        }
    }
}

impl TrafficControl {
    /// Whether a reservation is in place, as far as was seen last; `None` if it is not installed.
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
                [claims.own(), claims.shared()].map(Option::<&Standing>::copied)
            };
            let mut best = claims.map(best).into_iter().flatten().flatten();
            best.any(|standing| standing.holder == holder)
        };
        // One flow stands for those that were added to it: there may be many.
        let standby = installed.flows().next().is_some_and(|flow| !is_best(flow));
        Some(if standby { Enforcement::Standby } else { Enforcement::Enforced })
    }

    /// How many claims there are on the flow of an installation, its own among them.
    pub fn claims_beside(&self, claim: ClaimId) -> usize {
        let installed = self.claims.get(&claim);
        let flow = installed.and_then(|installed| Some((installed.interface, installed.flow?)));
        flow.and_then(|key| self.flows.get(&key)).map_or(0, FlowClaims::len)
    }

    /// Looks whether the classifier is attached to each link, and whether the next so many flows are as they should be in
    /// it; puts right what is not.
    ///
    /// # Errors
    /// What the kernel refused first.
    pub fn audit(&mut self, flows: usize) -> Result<Vec<Deviation>, TcError> {
        let mut deviations = Vec::new();
        let mut outcome = Ok(());
        for interface in self.links.keys().copied().collect::<Vec<_>>() {
            let attached = self.audit_classifier(interface, &mut deviations);
            // A classifier in place says nothing of the queues: only a comparison of these ends what is known of a link.
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
            // A link that is gone is the mirror's to tell.
            Err(error) if i32::from(error.errno()) == libc::ENODEV => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// A flow was not as it should be: whose packets went elsewhere.
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

    /// What was wrong with classes, buckets and queues of a link: whose they were.
    pub(super) fn note_places(
        &self,
        interface: InterfaceId,
        faults: &[(Option<Usage>, Fault)],
        deviations: &mut Vec<Deviation>,
    ) {
        let mut noted = std::collections::BTreeSet::new();
        for (usage, fault) in faults {
            let reservation = match usage {
                None => None,
                // Of a class that is parked nobody's packets are.
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
