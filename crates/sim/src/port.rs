//! Where links are plugged into a node.

use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::random::Stream;
use earmark_core::{InterfaceId, Time};

use crate::NodeId;
use crate::egress::Egress;
use crate::faults::Faults;

/// One end of a link.
pub(crate) struct Port {
    pub(crate) peer: (NodeId, InterfaceId),
    pub(crate) delay: Duration,
    pub(crate) egress: Egress,
    /// The link is occupied until then.
    pub(crate) busy_until: Time,
    /// When it is looked at next, where something waits.
    pub(crate) planned: Option<Time>,
    /// Whether packets pass.
    pub(crate) up: bool,
    pub(crate) faults: Faults,
    /// What the faults are drawn by.
    pub(crate) dice: Stream,
    /// Its number among the links that fluid passes, if any does.
    pub(crate) fluid: Option<u32>,
}

/// The ports of a node, by interface: the first is 1, and there are no gaps.
#[derive(Default)]
pub(crate) struct Ports {
    ports: Vec<Port>,
}

impl Ports {
    /// The interface that the port after `more` others will have.
    pub(crate) fn next(&self, more: u32) -> InterfaceId {
        InterfaceId(self.ports.len() as u32 + 1 + more) // as many as a topology has links, at most
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
