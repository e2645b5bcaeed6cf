//! Traffic control: one class of guaranteed rate per reservation, and a classifier that finds it.
//!
//! On every planned link stands an HTB qdisc with our mark (the module `plan` draws it). A reservation is one class of
//! a pool made in advance (or a token bucket alone, see [`Queues`]), and entries in the classifier that
//! lead its flows there; what no entry leads away is best
//! effort. Installing, changing and removing cost the same however many reservations there are.
//!
//! A flow can be claimed several times, by several protocols, by whoever asks for it, and by ranges that it lies in. All
//! claims stand, and its packets get the best of them (the modules `claims` and `bpf/classifier.c`): no claim takes anything
//! from another, and when one ends the next best takes over.
//!
//! All of it lives in the kernel and outlives us. The next [`TrafficControl::open`] finds classes and entries again:
//! every entry is *adopted*, keeps its rate, and waits. An installation of the same flow by the same protocol, or of at
//! least its rate, takes it over in place; what
//! nobody has taken over when its soft state should have re-formed, [`TrafficControl::reap_adopted`] gives up.
//!
//! Others may meddle with traffic control at any time: [`TrafficControl::reconcile`] and [`TrafficControl::audit`] find
//! what they did, put it right, and say whose reservation it was.

mod adoption;
mod audit;
mod bpf_links;
mod bpf_ranges;
mod bpf_table;
mod bucket;
mod bucket_pool;
mod claims;
mod clear;
mod entry;
mod error;
mod flow_maps;
mod flow_table;
mod install;
mod kernel;
mod kinds;
mod link;
mod link_repair;
mod lookup;
mod monitor;
mod place;
mod plan;
mod reconcile;
mod u32_selector;
mod u32_table;

use std::collections::{BTreeMap, BTreeSet};

use earmark_core::admission::{ClaimId, Protocol};
use earmark_core::{Flow, InterfaceId, Rate};

use crate::netlink::Connection;
use adoption::AdoptedFlow;
use audit::Faults;
use claims::{FlowClaims, Holder, Standing};
use entry::Guarantee;
use flow_table::FlowTable;
use kinds::Kinds;
use link::Link;
use place::{Place, Tools};

pub use audit::{Deviation, Enforcement, Fault};
pub use clear::clear;
pub use error::TcError;
pub use lookup::{FlowClaim, FlowOnLink, KernelEntry, KernelPlace, Precedence};
pub use monitor::{Changed, Monitor};
pub use plan::{LinkPlan, MAX_SERVICES, Queues, ServicePlan};

/// The class of our own signalling on every planned link, as a packet's priority.
pub const SIGNALLING_CLASS: u32 = plan::handle(plan::SIGNALLING);

/// How packets find their class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClassifierChoice {
    /// BPF where the kernel has it (TCX, Linux 6.6 and later), else u32.
    #[default]
    Auto,
    /// A BPF program with a hash map; an error where it is not to be had. At most 1 048 576 flows in all.
    Bpf,
    /// u32 filters: slower with many flows, at most 4 095 flows of one kind on an interface.
    U32,
}

/// A flow that an earlier daemon left reserved in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// Outgoing interface.
    pub interface: InterfaceId,
    /// Whose packets.
    pub flow: Flow,
    /// What they get. Flows that share one class share its rate: the first of them has it all, the others have zero.
    pub rate: Rate,
    /// The protocol that reserved it, if the kernel has kept that.
    pub protocol: Option<Protocol>,
}

/// What [`TrafficControl::reconcile`] found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reconciliation {
    /// Things without an owner that were removed: classes, flow entries.
    pub removed: u32,
    /// Things that were missing or altered and are right again.
    pub restored: u32,
    /// Interfaces that somebody else's queueing discipline has taken over, with its kind; nothing was done there.
    pub foreign: Vec<(InterfaceId, String)>,
    /// Interfaces that are gone; their plan and installations are forgotten with them.
    pub gone: Vec<InterfaceId>,
    /// Whose reservations were not in place, and why.
    pub deviations: Vec<Deviation>,
}

/// What went through a reservation's class since its installation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Octets sent, from the IP header on.
    pub octets: u64,
    /// Packets sent.
    pub packets: u64,
    /// Packets dropped because the queue was full; with [`Queues::Aggregate`], those that exceeded the reservation and went
    /// with best effort.
    pub drops: u64,
    /// Octets waiting now.
    pub backlog_octets: u32,
    /// Packets waiting now.
    pub backlog_packets: u32,
}

/// Traffic control on the planned links of one network namespace.
///
/// Its netlink socket belongs to the namespace in which it was opened; the BPF classifier is attached in the namespace
/// of the calling thread. So all calls come from threads of one namespace.
#[derive(Debug)]
pub struct TrafficControl {
    netlink: Connection,
    table: Box<dyn FlowTable>,
    links: BTreeMap<InterfaceId, Link>,
    /// By name. Ordered: the maps here are walked, and no peer may choose how far apart their keys lie.
    claims: BTreeMap<ClaimId, Installed>,
    /// Every flow that the classifier should hold, and the claims on it.
    flows: BTreeMap<(InterfaceId, Flow), FlowClaims>,
    /// Flows of the table that an earlier daemon has left.
    adopted: BTreeMap<(InterfaceId, Flow), AdoptedFlow>,
    /// What kinds of flows there are.
    kinds: Kinds,
    /// Links with places that are to be parked.
    untidy: BTreeSet<InterfaceId>,
    /// What is not in place now, and how far the audit has come.
    faults: Faults,
}

/// An installation in place.
#[derive(Clone, Debug)]
struct Installed {
    interface: InterfaceId,
    /// What it holds.
    place: Place,
    /// What its packets get.
    guarantee: Guarantee,
    /// Whose it is.
    protocol: Option<Protocol>,
    /// The flow of the installation itself, unless it was removed.
    flow: Option<Flow>,
    /// The flows that were added: as many as peers like, so that a list would be walked too long.
    added: BTreeSet<Flow>,
    /// Counters of its class at the time of installation.
    baseline: Statistics,
    /// What its flows' entries had counted for it when it ceased to be the best claim.
    carried: Statistics,
}

impl Installed {
    /// The claim as its flows have it.
    fn standing(&self, claim: ClaimId) -> Standing {
        Standing {
            holder: Holder::Claim(claim),
            guarantee: self.guarantee,
            shared: self.place.bucket,
            protocol: self.protocol,
        }
    }

    fn flows(&self) -> impl Iterator<Item = &Flow> {
        self.flow.iter().chain(&self.added)
    }
}

impl Statistics {
    /// What was counted up to now and before.
    fn plus(self, before: Statistics) -> Statistics {
        Statistics {
            octets: self.octets + before.octets,
            packets: self.packets + before.packets,
            drops: self.drops + before.drops,
            ..self
        }
    }
}

impl TrafficControl {
    /// Takes the links over, building what is missing and adopting what an earlier daemon left. What an earlier one left
    /// on links that are not planned any more is removed.
    ///
    /// Needs CAP_BPF (or CAP_SYS_ADMIN) besides CAP_NET_ADMIN for the BPF classifier; the calls after it do not.
    ///
    /// # Errors
    /// [`TcError::NoSuchInterface`], [`TcError::ForeignQdisc`], or what the kernel refused.
    pub fn open(
        links: &[LinkPlan],
        classifier: ClassifierChoice,
    ) -> Result<(TrafficControl, Vec<Adopted>), TcError> {
        let mut netlink = Connection::open()?;
        let qdiscs = kernel::qdiscs(&mut netlink)?;
        // Before anything is changed, so that a plan that cannot be carried out leaves no half of it behind.
        for plan in links {
            link::has_our_root(&qdiscs, plan.interface)?;
            reconcile::nature(&mut netlink, plan.interface)?;
        }
        let interfaces: Vec<InterfaceId> = links.iter().map(|plan| plan.interface).collect();
        let mut abandoned: Vec<InterfaceId> =
            qdiscs.iter().filter(|q| q.is_ours()).map(|q| q.interface).collect();
        abandoned.retain(|interface| !interfaces.contains(interface));
        let table = flow_table::open(classifier, &interfaces, &abandoned)?;
        links.iter().try_for_each(|plan| flow_table::can_keep_apart(table.as_ref(), plan))?;
        let (links_by_id, claims, flows, adopted) = Default::default();
        let (kinds, untidy, faults) = Default::default();
        let mut control = TrafficControl {
            netlink,
            table,
            links: links_by_id,
            claims,
            flows,
            adopted,
            kinds,
            untidy,
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

    /// Which classifier is at work: never [`ClassifierChoice::Auto`].
    pub fn classifier(&self) -> ClassifierChoice {
        self.table.choice()
    }

    /// What went through a reservation since its installation.
    pub fn statistics(&mut self, claim: ClaimId) -> Result<Statistics, TcError> {
        let installed = self.claims.get(&claim).ok_or(TcError::UnknownClaim { claim })?;
        let interface = installed.interface;
        let link = self.links.get(&interface).ok_or(TcError::UnknownLink { interface })?;
        let tools = &mut Tools { netlink: &mut self.netlink, table: self.table.as_mut() };
        if let Some(now) = link.statistics(tools, installed.place)? {
            let base = installed.baseline;
            return Ok(Statistics {
                // A class that was lost and made again counts from zero.
                octets: now.octets.saturating_sub(base.octets),
                packets: now.packets.saturating_sub(base.packets),
                drops: now.drops.saturating_sub(base.drops),
                ..now
            });
        }
        let holder = Holder::Claim(claim);
        let counted = match installed.flow {
            Some(flow) if self.governs(interface, &flow, holder) => {
                self.table.counters(interface, &flow)?
            }
            _ => Statistics::default(),
        };
        Ok(counted.plus(installed.carried))
    }

    /// Whether it is the best of the claims that a flow has for itself.
    fn governs(&self, interface: InterfaceId, flow: &Flow, holder: Holder) -> bool {
        let own = self.flows.get(&(interface, *flow)).and_then(FlowClaims::own);
        own.is_some_and(|own| own.holder == holder)
    }
}
