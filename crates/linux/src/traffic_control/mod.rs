//! Traffic control: one class of guaranteed rate per reservation, and a classifier that finds it.
//!
//! Every planned link has an HTB qdisc with our major number (drawn in the module `plan`). A reservation is one class
//! of a pool created in advance (or a token bucket alone, see [`Queues`]), and entries in the classifier that lead its
//! flows there; packets without an entry are best effort. Installing, changing and removing take constant time for any
//! number of reservations.
//!
//! A flow can be claimed several times, by several protocols, by several requesters, and by ranges that contain it. All
//! claims stay, and its packets are served by the best of them (the modules `claims` and `bpf/classifier.c`): no claim
//! takes anything from another, and when one ends the next best applies.
//!
//! This state is in the kernel and outlives the daemon. The next [`TrafficControl::open`] finds classes and entries
//! again: every entry is *adopted*, keeps its rate, and waits. An installation of the same flow by the same protocol,
//! or of at least its rate, takes it over in place; what no installation has continued when its soft state should have
//! been refreshed, [`TrafficControl::reap_adopted`] removes.
//!
//! Other programs may change traffic control at any time: [`TrafficControl::reconcile`] and [`TrafficControl::audit`]
//! find such changes, repair them, and report the affected reservations.

mod adoption;
mod audit;
mod bpf_links;
mod bpf_ranges;
mod bpf_table;
mod bucket;
mod bucket_pool;
mod claim_resources;
mod claims;
mod clear;
mod entry;
mod error;
mod fault;
mod flow_maps;
mod flow_table;
mod guarantee;
mod install;
mod kernel;
mod kinds;
mod link;
mod link_repair;
mod load;
mod lookup;
mod monitor;
mod plan;
mod reconcile;
mod statistics;
mod table_choice;
mod u32_selector;
mod u32_table;

use std::collections::{BTreeMap, BTreeSet};

use earmark_core::admission::{ClaimId, Protocol};
use earmark_core::{Flow, InterfaceId, Time};

use crate::netlink::Connection;
pub use adoption::Adopted;
use adoption::AdoptedFlow;
use audit::Faults;
use claim_resources::ClaimResources;
use claims::{FlowClaims, Holder, RegisteredClaim};
use flow_table::{FlowTable, Tools};
use guarantee::Guarantee;
use kinds::Kinds;
use link::Link;

pub use audit::Enforcement;
pub use clear::clear;
pub use error::TcError;
pub use fault::{Deviation, Fault};
pub use lookup::{ClassOrPriority, FlowClaim, FlowOnLink, KernelEntry, Precedence};
pub use monitor::{Changed, Monitor};
pub use plan::{ClassifierChoice, LinkPlan, MAX_SERVICES, Queues, ServicePlan};
pub use statistics::Statistics;

/// The class of our own signalling on every planned link, as a packet's priority.
pub const SIGNALLING_CLASS: u32 = plan::handle(plan::SIGNALLING);

/// Findings and repairs of [`TrafficControl::reconcile`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciliation {
    /// Number of removed objects without an owner: classes, flow entries.
    pub removed: u32,
    /// Number of missing or altered objects that were restored.
    pub restored: u32,
    /// Interfaces where another program has installed a queueing discipline, with its kind; nothing was changed there.
    pub foreign: Vec<(InterfaceId, String)>,
    /// Interfaces that were deleted; their plans and installations are removed as well.
    pub gone: Vec<InterfaceId>,
    /// Reservations that were not in place, and the faults.
    pub deviations: Vec<Deviation>,
}

/// Traffic control on the planned links of one network namespace.
///
/// The netlink socket belongs to the namespace in which it was opened; the BPF classifier is attached in the namespace
/// of the calling thread. So all calls come from threads of one namespace.
#[derive(Debug)]
pub struct TrafficControl {
    netlink: Connection,
    table: Box<dyn FlowTable>,
    links: BTreeMap<InterfaceId, Link>,
    /// By ID. Ordered: the maps here are walked, and no peer may influence the distribution of the keys.
    claims: BTreeMap<ClaimId, Installed>,
    /// Every flow that the classifier should hold, and the claims on it.
    flows: BTreeMap<(InterfaceId, Flow), FlowClaims>,
    /// Flows of the table that an earlier daemon has left.
    adopted: BTreeMap<(InterfaceId, Flow), AdoptedFlow>,
    /// Kinds of the flows on each link.
    kinds: Kinds,
    /// Links with released classes to park.
    unparked: BTreeSet<InterfaceId>,
    /// Known faults, and the progress of the audit.
    faults: Faults,
}

/// An installed claim.
#[derive(Clone, Debug)]
struct Installed {
    interface: InterfaceId,
    /// Class and bucket that it holds.
    resources: ClaimResources,
    /// Guarantee of its packets.
    guarantee: Guarantee,
    /// Protocol of the claim.
    protocol: Option<Protocol>,
    /// The flow of the installation itself, unless it was removed.
    flow: Option<Flow>,
    /// Added flows. A set, because peers choose their number and a list would take too long to search.
    added: BTreeSet<Flow>,
    /// Counters of its class at the time of installation.
    baseline: Statistics,
    /// Counts of its flows' entries at the time when it ceased to be the best claim.
    earlier_counts: Statistics,
    /// Time of its installation.
    since: Time,
}

impl Installed {
    /// Returns the claim in the form that its flows register.
    fn registered(&self, claim: ClaimId) -> RegisteredClaim {
        RegisteredClaim {
            holder: Holder::Claim(claim),
            guarantee: self.guarantee,
            shared: self.resources.bucket,
            protocol: self.protocol,
        }
    }

    fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.flow.iter().chain(&self.added)
    }
}

impl TrafficControl {
    /// Takes over the links: creates what is missing and adopts the state of an earlier daemon. Its state on links that
    /// are not planned any more is removed.
    ///
    /// Needs CAP_BPF (or CAP_SYS_ADMIN) besides CAP_NET_ADMIN for the BPF classifier; the calls after it do not.
    ///
    /// # Errors
    /// [`TcError::NoSuchInterface`], [`TcError::ForeignQdisc`], [`TcError::NewerLayout`], or a refusal of the kernel.
    pub fn open(
        links: &[LinkPlan],
        classifier: ClassifierChoice,
    ) -> Result<(TrafficControl, Vec<Adopted>), TcError> {
        let mut netlink = Connection::open()?;
        let qdiscs = kernel::qdiscs(&mut netlink)?;
        // Before any change, so that a plan that cannot be applied leaves nothing half done.
        for plan in links {
            link::has_our_root(&qdiscs, plan.interface)?;
            reconcile::properties(&mut netlink, plan.interface)?;
        }
        let interfaces: Vec<InterfaceId> = links.iter().map(|plan| plan.interface).collect();
        let mut abandoned: Vec<InterfaceId> =
            qdiscs.iter().filter(|q| q.is_ours()).map(|q| q.interface).collect();
        abandoned.retain(|interface| !interfaces.contains(interface));
        for &interface in interfaces.iter().chain(&abandoned) {
            bpf_table::check_layout(interface)?;
        }
        let table = table_choice::open(classifier, &interfaces, &abandoned)?;
        links.iter().try_for_each(|plan| flow_table::supports(table.as_ref(), plan))?;
        let (links_by_id, claims, flows, adopted) = Default::default();
        let (kinds, unparked, faults) = Default::default();
        let mut control = TrafficControl {
            netlink,
            table,
            links: links_by_id,
            claims,
            flows,
            adopted,
            kinds,
            unparked,
            faults,
        };
        for interface in abandoned {
            control.clear(interface)?;
        }
        let mut adopted = Vec::new();
        for plan in links {
            let added = control.add_link(plan).map_err(|error| error.on(plan.interface));
            adopted.extend(added?);
        }
        Ok((control, adopted))
    }

    /// Returns the classifier in use: never [`ClassifierChoice::Auto`].
    pub fn classifier(&self) -> ClassifierChoice {
        self.table.choice()
    }

    /// Returns the counters of a reservation since its installation.
    pub fn statistics(&mut self, claim: ClaimId) -> Result<Statistics, TcError> {
        let installed = self.claims.get(&claim).ok_or(TcError::UnknownClaim { claim })?;
        let interface = installed.interface;
        let link = self.links.get(&interface).ok_or(TcError::UnknownLink { interface })?;
        let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
        if let Some(now) = link.statistics(tools, installed.resources)? {
            let base = installed.baseline;
            return Ok(Statistics {
                // A class that was lost and created again counts from zero.
                octets: now.octets.saturating_sub(base.octets),
                packets: now.packets.saturating_sub(base.packets),
                drops: now.drops.saturating_sub(base.drops),
                ..now
            });
        }
        let holder = Holder::Claim(claim);
        let counted = match installed.flow {
            Some(flow) if self.is_best_claim(interface, &flow, holder) => {
                self.table.counters(interface, &flow)?
            }
            _ => Statistics::default(),
        };
        Ok(counted.plus(installed.earlier_counts))
    }

    /// Returns what the queue of a reservation has counted since the kernel created it, also for earlier reservations.
    ///
    /// # Errors
    /// The claim is unknown, or the kernel cannot be asked.
    pub fn counted(&mut self, claim: ClaimId) -> Result<Statistics, TcError> {
        let counted = self.statistics(claim)?;
        Ok(counted.plus(self.counted_before(claim)))
    }

    /// Returns what the queue of a reservation had counted when it was installed. Asks nobody; zero for an unknown claim.
    pub fn counted_before(&self, claim: ClaimId) -> Statistics {
        self.claims.get(&claim).map(|installed| installed.baseline).unwrap_or_default()
    }

    /// Returns the link and the flow that a reservation was installed with, unless it was removed.
    pub fn installed_flow(&self, claim: ClaimId) -> Option<(InterfaceId, Flow)> {
        let installed = self.claims.get(&claim)?;
        Some((installed.interface, installed.flow?))
    }

    /// Whether the holder's claim is the best of the claims of a flow alone.
    fn is_best_claim(&self, interface: InterfaceId, flow: &Flow, holder: Holder) -> bool {
        let own = self.flows.get(&(interface, *flow)).and_then(FlowClaims::own);
        own.is_some_and(|own| own.holder == holder)
    }
}
