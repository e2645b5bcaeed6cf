//! Cases of the comparison, as scenarios.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use earmark_scenario::Scenario;
use earmark_scenario::topology::{Role, Topology};
use serde::{Deserialize, Serialize};

use super::condition::Condition;
use super::network::Network;
use super::variant::Variant;

/// A case: one scenario, played with several seeds.
#[derive(Clone, Debug)]
pub struct Case {
    /// Place in the comparison.
    pub key: Key,
    /// Number of seeds, from 1.
    pub seeds: u64,
    /// Text of the scenario.
    pub text: String,
    /// The network.
    pub network: Network,
    /// File of the cost profile, unless it is built in.
    pub profile: Option<PathBuf>,
}

/// Place of a case in the comparison.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Key {
    /// Name of the network.
    pub network: String,
    /// Name of the condition.
    pub condition: String,
    /// Mean number of flows at a time.
    pub flows: u32,
    /// Name of the protocol's variant.
    pub protocol: String,
}

/// Returns the cases of a network: all conditions and protocols, with these numbers of flows and of seeds.
///
/// `profile` is the name of a built-in cost profile, or a file.
///
/// # Errors
/// The network cannot be built.
pub fn cases(network: Network, sizes: &[(u32, u64)], profile: &str) -> Result<Vec<Case>> {
    let busiest =
        network.busiest_link().with_context(|| format!("the paths of {}", network.name()))?;
    let topology = topology(network)?;
    let mut links: Vec<[String; 2]> = topology
        .links
        .iter()
        .filter(|link| topology.is_between_routers(link))
        .map(|link| link.ends.each_ref().map(|end| topology.nodes[end.node].name.clone()))
        .collect();
    links.sort_unstable();
    links.dedup();
    let file = profile.ends_with(".toml").then(|| PathBuf::from(profile));
    let profile = match file.as_deref().and_then(Path::file_name) {
        Some(name) => name.to_string_lossy().into_owned(),
        None => profile.to_owned(),
    };
    let mut all = Vec::new();
    for &(flows, seeds) in sizes {
        for condition in Condition::ALL.into_iter().filter(|condition| condition.has(flows)) {
            let Some(faults) = condition.faults(&busiest, &links) else { continue };
            for variant in Variant::ALL.into_iter().filter(|variant| variant.has(condition)) {
                let rate = condition.rate_bps(flows, &busiest);
                let [duration, discard] = condition.times();
                let name = variant.name();
                let mut text = format!(
                    "name = \"{}, {}, {flows} flows, {name}\"\n\
                     topology = {}\nprotocol = \"{}\"\n{}duration = \"{duration}s\"\n\
                     discard = \"{discard}s\"\ndata = \"none\"\n\
                     processing = {{ profile = \"{profile}\" }}\n\n\
                     [[flows]]\nname = \"flows\"\nbetween = \"random\"\ncount = {flows}\n{}\
                     rate = \"{rate}bit\"\n{}\n\n{faults}",
                    network.name(),
                    condition.name(),
                    network.topology(),
                    variant.protocol(),
                    variant.settings(),
                    condition.flows(),
                    variant.request(),
                );
                if !variant.reserves() {
                    text.push_str(&packet_filters(&topology));
                }
                let key = Key {
                    network: network.name().to_owned(),
                    condition: condition.name().to_owned(),
                    flows,
                    protocol: name.to_owned(),
                };
                all.push(Case { key, seeds, text, network, profile: file.clone() });
            }
        }
    }
    Ok(all)
}

/// Returns the tables of packet filters in all routers, for all that they forward.
fn packet_filters(topology: &Topology) -> String {
    let routers = (0..topology.nodes.len()).filter(|it| topology.nodes[*it].role == Role::Router);
    let of = |router: usize| {
        let others = topology.interfaces(router).map(|(_, link)| {
            let other = link.ends.iter().find(|end| end.node != router);
            other.map_or("", |end| topology.nodes[end.node].name.as_str())
        });
        let mut others: Vec<&str> = others.collect();
        others.sort_unstable();
        others.dedup();
        format!("\n[[middleboxes]]\nnode = {:?}\nguard = {others:?}\n", topology.nodes[router].name)
    };
    routers.map(of).collect()
}

fn topology(network: Network) -> Result<Topology> {
    let text = format!(
        "name = \"links\"\ntopology = {}\nprotocol = \"rsvp\"\nduration = \"1s\"\n",
        network.topology()
    );
    Ok(Scenario::parse(&text)?.topology.build(|name| network.read(name))?)
}

impl Case {
    /// Returns the scenario with its network.
    ///
    /// # Errors
    /// The scenario is invalid, or its cost profile cannot be used.
    pub fn scenario(&self) -> Result<(Scenario, Topology)> {
        let mut scenario = Scenario::parse(&self.text)?;
        let topology = scenario.topology.build(|name| self.network.read(name))?;
        if let Some(processing) = &mut scenario.processing {
            let file = |name: &str| self.profile.clone().unwrap_or_else(|| name.into());
            processing.load(|name| std::fs::read_to_string(file(name)))?;
        }
        Ok((scenario, topology))
    }
}
