//! Behavior aggregates: all aggregate reservations of one DSCP on a link have one class together, with the sum of their rates
//! (RFC 3175 section 1.4.1, RFC 4860 section 3.1). A packet shows its DSCP, but not which of them it belongs to.
//!
//! Each reservation has its own claim in the ledger. One of the claims stands for all in traffic control; if it ends,
//! another one takes its place.

use alloc::collections::BTreeMap;

use earmark_core::admission::{ClaimId, Demand, Service};
use earmark_core::{Flow, Installation, InterfaceId, Rate};

use crate::api::Event;
use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::state::applications::EDGE;
use crate::state::{Holder, Peer};

/// The claims of aggregate reservations.
#[derive(Debug, Default)]
pub(crate) struct BehaviorAggregates {
    classes: BTreeMap<Key, Class>,
    by_claim: BTreeMap<ClaimId, Key>,
}

/// Outgoing interface and flow of a class.
type Key = (InterfaceId, Flow);

/// Claims on the packets of one DSCP that leave through an interface.
#[derive(Debug)]
struct Class {
    /// The claim in traffic control.
    installed: ClaimId,
    /// The claim that was added or changed last.
    latest: ClaimId,
    claims: BTreeMap<ClaimId, Demand>,
    rate: Rate,
    /// Sum of the bursts, octets.
    burst: u64,
    /// Largest packet of any claim since the class exists, octets.
    max_packet: u32,
    /// Number of claims for guaranteed service.
    guaranteed: usize,
}

impl Class {
    fn new(installed: ClaimId) -> Class {
        let (claims, rate) = (BTreeMap::new(), Rate::ZERO);
        let latest = installed;
        Class { installed, latest, claims, rate, burst: 0, max_packet: 0, guaranteed: 0 }
    }

    fn add(&mut self, claim: ClaimId, demand: Demand) {
        self.subtract(claim);
        self.latest = claim;
        self.claims.insert(claim, demand);
        self.rate = self.rate + demand.rate;
        self.burst += u64::from(demand.burst);
        self.max_packet = self.max_packet.max(demand.max_packet);
        self.guaranteed += usize::from(demand.service == Service::Guaranteed);
    }

    fn subtract(&mut self, claim: ClaimId) {
        let Some(demand) = self.claims.remove(&claim) else { return };
        self.rate = self.rate.saturating_sub(demand.rate);
        self.burst -= u64::from(demand.burst);
        self.guaranteed -= usize::from(demand.service == Service::Guaranteed);
    }

    fn installation(&self, (interface, flow): Key) -> Installation {
        let service = match self.guaranteed {
            0 => Service::ControlledLoad,
            _ => Service::Guaranteed,
        };
        let burst = u32::try_from(self.burst).unwrap_or(u32::MAX);
        // Of several sizes none is known.
        let (rate, max_packet) = (self.rate, self.max_packet);
        let demand = Demand { service, rate, burst, max_packet, min_packet: 0 };
        Installation { claim: self.installed, interface, flow, demand }
    }
}

impl BehaviorAggregates {
    /// Adds or changes a claim; returns the installation of its class.
    fn add(&mut self, installation: &Installation) -> Installation {
        let Installation { claim, interface, flow, demand } = *installation;
        let key = (interface, flow);
        let class = self.classes.entry(key).or_insert_with(|| Class::new(claim));
        class.add(claim, demand);
        self.by_claim.insert(claim, key);
        class.installation(key)
    }

    /// Removes a claim. Returns the installation of the remaining claims of its class, and whether the claim was the installed
    /// one; `None` if the claim is not that of an aggregate.
    fn remove(&mut self, claim: ClaimId) -> Option<(Option<Installation>, bool)> {
        let key = self.by_claim.remove(&claim)?;
        let class = self.classes.get_mut(&key)?;
        let was_installed = class.installed == claim;
        class.subtract(claim);
        let Some((&first, _)) = class.claims.first_key_value() else {
            self.classes.remove(&key);
            return Some((None, was_installed));
        };
        if was_installed {
            class.installed = first;
        }
        if class.latest == claim {
            class.latest = class.installed;
        }
        Some((Some(class.installation(key)), was_installed))
    }
}

impl Rsvp {
    /// Installs the claim of a holder in traffic control, or changes it.
    #[inline]
    pub(crate) fn install<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        holder: Holder,
        installation: Installation,
    ) {
        if installation.flow.dscp == 0 {
            cx.out.install(installation);
        } else if !self.has_classes_of_flows(holder) {
            cx.out.install(self.behavior_aggregates.add(&installation));
        }
    }

    /// Returns whether a reservation is for an aggregate of this node's edge, whose flows have classes of their own.
    #[cold]
    fn has_classes_of_flows(&self, holder: Holder) -> bool {
        let Holder::Sender(psb) = holder else { return false };
        matches!(self.store.psb(psb).hop, Peer::Local(application) if EDGE.contains(&application))
    }

    /// Removes a claim from traffic control.
    #[inline]
    pub(crate) fn uninstall<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        claim: ClaimId,
    ) {
        if self.behavior_aggregates.by_claim.is_empty() {
            return cx.out.remove(claim);
        }
        let (rest, was_installed) = self.behavior_aggregates.remove(claim).unwrap_or((None, true));
        // The others are installed first, so that their packets always have a class.
        rest.into_iter().for_each(|installation| cx.out.install(installation));
        if was_installed {
            cx.out.remove(claim);
        }
    }

    /// Returns the claim that was added or changed last of those that have one class with `claim`. If traffic control refuses the
    /// class, it is the one without a reservation: the others had their class before.
    pub(crate) fn latest_of_class(&self, claim: ClaimId) -> ClaimId {
        self.class_of(claim).map_or(claim, |class| class.latest)
    }

    /// Returns the claim that stands for a claim in traffic control.
    pub fn installed_claim(&self, claim: ClaimId) -> ClaimId {
        self.class_of(claim).map_or(claim, |class| class.installed)
    }

    fn class_of(&self, claim: ClaimId) -> Option<&Class> {
        let key = self.behavior_aggregates.by_claim.get(&claim)?;
        self.behavior_aggregates.classes.get(key)
    }
}
