//! Work that waits after route changes.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::{InterfaceId, Prefix, Time};
use earmark_wire::intserv::SenderTspec;
use earmark_wire::rsvp::{SenderTemplate, Session};

use super::former_hops::FormerHops;
use crate::state::Index;

/// A change after which senders are examined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RepairCause {
    /// Unicast routes to these destinations.
    Prefix(Prefix),
    /// Multicast routes of this source, or of any source, to a group.
    Group(Option<IpAddr>, IpAddr),
    /// Routes through an interface.
    Interface(InterfaceId),
    /// The settings of receiver proxies.
    ReceiverProxies,
}

/// Changes that wait for the same delay.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) delay: Duration,
    pub(super) due: Time,
    pub(super) causes: Vec<RepairCause>,
    /// Whether there are more changes of routes than are recorded.
    pub(super) is_overfull: bool,
}

/// Pending work after route changes.
#[derive(Debug, Default)]
pub(crate) struct Repairs {
    /// Changes whose delay has not passed; one entry for each delay of an interface.
    pub(super) pending: Vec<Pending>,
    /// Sweep in progress.
    pub(super) sweep: Option<Sweep>,
    /// Interfaces that senders' data has left, the oldest first; the departure timer is armed while there are any.
    pub(super) departures: VecDeque<Departure>,
    /// Routers that the last Paths of senders were sent to, for routes that depend on the flow.
    pub(super) sent_next_hops: BTreeMap<Index, IpAddr>,
    /// Previous hops before the present ones.
    pub(crate) former_hops: FormerHops,
}

/// Examination of all senders, some in each timer event.
#[derive(Debug)]
pub(super) struct Sweep {
    pub(super) of: Vec<Pending>,
    /// Next index in the slab of senders.
    pub(super) next: usize,
}

/// Interface that a sender's data no longer uses. The fields cover all of a PathTear, because the sender may be removed
/// before it is sent.
#[derive(Debug)]
pub(super) struct Departure {
    pub(super) at: Time,
    pub(super) session: Session,
    pub(super) template: SenderTemplate,
    pub(super) tspec: SenderTspec,
    pub(super) interface: InterfaceId,
    pub(super) ttl: u8,
}

impl RepairCause {
    pub(super) fn concerns(self, source: IpAddr, destination: IpAddr) -> bool {
        match self {
            RepairCause::Prefix(prefix) => prefix.contains(destination),
            RepairCause::Group(of, group) => {
                group == destination && of.is_none_or(|of| of == source)
            }
            RepairCause::Interface(_) => true,
            RepairCause::ReceiverProxies => false,
        }
    }
}

impl Pending {
    /// Returns whether the route of a sender may have changed.
    pub(super) fn concerns(&self, source: IpAddr, destination: IpAddr) -> bool {
        self.is_overfull || self.causes.iter().any(|cause| cause.concerns(source, destination))
    }
}

impl Repairs {
    /// Returns whether all senders follow the current routes.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.sweep.is_none()
    }

    /// Forgets a sender that is removed.
    #[inline]
    pub(crate) fn forget(&mut self, sender: Index) {
        self.note_next_hop(sender, None);
        self.former_hops.forget(sender);
    }

    /// Records the router that the Path of a sender is sent to, if the route depends on the flow.
    #[inline]
    pub(crate) fn note_next_hop(&mut self, sender: Index, next_hop: Option<IpAddr>) {
        if let Some(next_hop) = next_hop {
            self.sent_next_hops.insert(sender, next_hop);
        } else if !self.sent_next_hops.is_empty() {
            self.sent_next_hops.remove(&sender);
        }
    }
}
