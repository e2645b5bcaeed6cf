//! Multicast groups: members, sources and shared trees.

use alloc::collections::{BTreeMap, BTreeSet};
use core::net::IpAddr;

use crate::ids::NodeId;

/// The groups of a network. All containers are ordered: their order reaches effects.
#[derive(Debug, Default)]
pub(crate) struct Groups {
    pub(crate) members: BTreeMap<IpAddr, BTreeSet<NodeId>>,
    /// Group and source of everything that was ever sent to a group.
    pub(crate) sources: BTreeSet<(IpAddr, IpAddr)>,
    /// Roots of shared trees.
    pub(crate) shared: BTreeMap<IpAddr, NodeId>,
}

impl Groups {
    /// Whether a node is a member of a group.
    pub(crate) fn has(&self, node: NodeId, group: IpAddr) -> bool {
        self.members.get(&group).is_some_and(|members| members.contains(&node))
    }
}
