//! Ports: the ends of links at a node.

use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::random::Stream;
use earmark_core::{Interface, InterfaceId, Route, Time};

use crate::egress::Egress;
use crate::faults::Faults;
use crate::ids::NodeId;
use crate::loss_law::LossLaws;
use crate::signalling::SignallingCount;

/// One end of a link.
pub(crate) struct Port {
    pub(crate) peer: (NodeId, InterfaceId),
    pub(crate) delay: Duration,
    pub(crate) egress: Egress,
    /// Time until which the link is occupied.
    pub(crate) busy_until: Time,
    /// Time of the next service, if a packet waits.
    pub(crate) planned: Option<Time>,
    /// Whether the link has not failed.
    pub(crate) link_up: bool,
    /// The interface while it is removed.
    pub(crate) removed: Option<Interface>,
    /// Routes to its link, while the interface is removed.
    pub(crate) connected: Vec<Route>,
    /// Whether packets pass: the link has not failed, and both ends have their interfaces.
    pub(crate) up: bool,
    pub(crate) faults: Faults,
    /// Losses besides those of the faults.
    pub(crate) loss_laws: LossLaws,
    /// Number of messages that the faults have lost, duplicated, damaged or delayed.
    pub(crate) faulted: u64,
    /// Signalling that was sent over the link.
    pub(crate) signalling: SignallingCount,
    /// Random numbers of the faults.
    pub(crate) random: Stream,
    /// Link number in the fluid plane, if any fluid passes it.
    pub(crate) fluid: Option<u32>,
}

/// The ports of a node, by interface: the first is 1, and there are no gaps.
#[derive(Default)]
pub(crate) struct Ports {
    ports: Vec<Port>,
}

impl Ports {
    /// Returns the interface that the port after `more` others will have.
    pub(crate) fn next(&self, more: u32) -> InterfaceId {
        InterfaceId(self.ports.len() as u32 + 1 + more) // at most the number of links
    }

    /// Adds the port of the next interface.
    pub(crate) fn push(&mut self, port: Port) {
        self.ports.push(port);
    }

    #[inline]
    pub(crate) fn get(&self, interface: InterfaceId) -> Option<&Port> {
        self.ports.get((interface.0 as usize).wrapping_sub(1))
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, interface: InterfaceId) -> Option<&mut Port> {
        self.ports.get_mut((interface.0 as usize).wrapping_sub(1))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (InterfaceId, &Port)> {
        (1..).map(InterfaceId).zip(&self.ports)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (InterfaceId, &mut Port)> {
        (1..).map(InterfaceId).zip(&mut self.ports)
    }
}
