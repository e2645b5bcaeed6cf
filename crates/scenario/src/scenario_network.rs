//! The network of a scenario, without its flows.

use earmark_node::NodeConfig;
use earmark_sim::{Network, NodeId};

use crate::build::{Built, build_each};
use crate::error::ScenarioError;
use crate::middlebox;
use crate::protocols::{CommonSettings, ScenarioProtocol};
use crate::scenario::{Flows, Scenario};
use crate::topology::{Family, Topology};

/// Builds the network of a scenario, with its middleboxes and schedulers. `change` changes the settings of every node.
/// Returns it with its nodes, in the order of the topology.
///
/// # Errors
/// The scenario does not match its topology.
pub fn network_of(
    scenario: &Scenario,
    topology: &Topology,
    seed: u64,
    change: impl Fn(&mut NodeConfig),
) -> Result<(Network, Vec<NodeId>), ScenarioError> {
    scenario.check(topology)?;
    let protocol = scenario.reserving_protocol()?;
    let Built { network, nodes, .. } = build_of(scenario, (protocol, topology), seed, &change);
    Ok((network, nodes))
}

/// Builds the network of a checked scenario whose reservations are those of a protocol.
pub(crate) fn build_of(
    scenario: &Scenario,
    (protocol, topology): (&'static dyn ScenarioProtocol, &Topology),
    seed: u64,
    change: &dyn Fn(&mut NodeConfig),
) -> Built {
    let mut common = settings(scenario);
    change(&mut common);
    let middleboxes = &scenario.middleboxes;
    let of_node = |node| middlebox::settings_of(node, middleboxes, protocol, (topology, &common));
    let mut built = build_each(Family::Ipv4, topology, seed, &of_node);
    scenario.scheduler.apply(topology, &built.links, &mut built.network);
    let ends = (&built.nodes[..], &built.interfaces[..]);
    middlebox::set_up(middleboxes, topology, &mut built.network, ends);
    if let Some(processing) = &scenario.processing {
        processing.apply(&scenario.protocols, topology, (&mut built.network, &built.nodes));
    }
    built
}

/// Returns the settings of every node.
fn settings(scenario: &Scenario) -> NodeConfig {
    let retry = scenario.retry.policy();
    let admission = scenario.admission.method();
    let mut settings = NodeConfig { retry, admission, ..scenario.protocols.node_config() };
    let has_priorities = scenario.flows.iter().any(|flows| flows.priority.is_some());
    let opens = |flows: &Flows| flows.opens.is_some() || flows.exposes.is_some();
    let opens_paths = !scenario.middleboxes.is_empty() || scenario.flows.iter().any(opens);
    let Scenario { refresh, refresh_reduction, .. } = *scenario;
    let common = CommonSettings { refresh, refresh_reduction, has_priorities, opens_paths };
    for protocol in scenario.protocols.all() {
        protocol.configure(&common, &mut settings);
    }
    settings
}
