//! Firewalls and address translators of a scenario.
//!
//! ```toml
//! [[middleboxes]]
//! node = "fw1"
//! guard = ["r1", "r2"]     # neighbours: what comes from them needs a pinhole, and so do replies to them
//! rules = 1000             # limit of the rules of its packet filter; default 1000000
//!
//! [[middleboxes]]
//! node = "nat"
//! guard = ["r1"]
//! translator = true        # what leaves through a guarded interface gets its address; default false
//! edge = false             # there is another translator before it; default true
//! ```

use std::collections::BTreeSet;

use earmark_core::InterfaceId;
use earmark_node::NodeConfig;
use earmark_sim::{Network, NodeId};
use serde::Deserialize;

use crate::error::ScenarioError;
use crate::faults::links_between;
use crate::protocols::ScenarioProtocol;
use crate::topology::{Role, Topology};

/// A firewall or translator; see the module documentation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Middlebox {
    /// Name of the router.
    pub node: String,
    /// Names of the neighbours behind its guarded interfaces.
    pub guard: Vec<String>,
    /// Whether it translates addresses.
    #[serde(default)]
    pub translator: bool,
    /// Whether nothing that takes part is between its guarded interfaces and the outside.
    #[serde(default = "yes")]
    pub edge: bool,
    /// Limit of the rules of its packet filter.
    pub rules: Option<usize>,
}

fn yes() -> bool {
    true
}

impl Middlebox {
    /// Returns the links of its guarded interfaces, by index.
    fn guarded(&self, topology: &Topology) -> BTreeSet<usize> {
        let Some(own) = topology.node(&self.node) else { return BTreeSet::new() };
        let neighbors = self.guard.iter().filter_map(|name| topology.node(name));
        neighbors.flat_map(|other| links_between(topology, own, other)).collect()
    }

    /// Returns the names of its guarded interfaces.
    fn interfaces(&self, topology: &Topology) -> Vec<String> {
        let own = topology.node(&self.node);
        let ends = self.guarded(topology).into_iter().flat_map(|link| &topology.links[link].ends);
        ends.filter(|end| Some(end.node) == own).map(|end| end.interface.clone()).collect()
    }
}

/// Checks the middleboxes of a scenario whose reservations are those of a protocol.
///
/// # Errors
/// The first error found.
pub(crate) fn check(
    middleboxes: &[Middlebox],
    protocol: &dyn ScenarioProtocol,
    topology: &Topology,
) -> Result<(), ScenarioError> {
    for (number, middlebox) in middleboxes.iter().enumerate() {
        let wrong = |field: &str, why| {
            Err(ScenarioError::Value { key: format!("middleboxes.{number}.{field}"), why })
        };
        if !protocol.opens_paths() {
            return wrong("node", "the protocol of the scenario opens no firewall");
        }
        let Some(node) = topology.node(&middlebox.node) else {
            return wrong("node", "the topology has no such node");
        };
        if topology.nodes[node].role != Role::Router {
            return wrong("node", "a host forwards nothing; give a router");
        }
        let is_neighbor = |name: &String| {
            topology
                .node(name)
                .is_some_and(|other| links_between(topology, node, other).count() > 0)
        };
        if middlebox.guard.is_empty() || !middlebox.guard.iter().all(is_neighbor) {
            return wrong("guard", "give the names of neighbours of the node");
        }
        if middleboxes[..number].iter().any(|other| other.node == middlebox.node) {
            return wrong("node", "the node has a middlebox already");
        }
    }
    Ok(())
}

/// Returns the settings of a node, by its index in the topology, from those of every node.
pub(crate) fn settings_of(
    node: usize,
    middleboxes: &[Middlebox],
    protocol: &dyn ScenarioProtocol,
    (topology, common): (&Topology, &NodeConfig),
) -> NodeConfig {
    let mut settings = common.clone();
    for middlebox in middleboxes.iter().filter(|it| topology.node(&it.node) == Some(node)) {
        protocol.set_middlebox(middlebox, &middlebox.interfaces(topology), &mut settings);
    }
    settings
}

/// Sets up the packet filters of a network. `interfaces` are those of the ends of each link, in the order of the topology.
pub(crate) fn set_up(
    middleboxes: &[Middlebox],
    topology: &Topology,
    network: &mut Network,
    (nodes, interfaces): (&[NodeId], &[[InterfaceId; 2]]),
) {
    for middlebox in middleboxes {
        let Some(own) = topology.node(&middlebox.node) else { continue };
        for link in middlebox.guarded(topology) {
            for (end, interface) in topology.links[link].ends.iter().zip(interfaces[link]) {
                if end.node == own {
                    network.guard(nodes[own], interface);
                }
            }
        }
        if let Some(rules) = middlebox.rules {
            network.limit_filter_rules(nodes[own], rules);
        }
    }
}
