//! Settings of the node under test, from `topology.toml`.

use earmark_core::InterfaceId;
use earmark_core::random::RandomStreams;
use earmark_node::{HostUpdate, NodeConfig};
use earmark_rsvp::{Config, Rsvp};
use earmark_testkit::conformance::topology::Topology;
use earmark_testkit::conformance::words::Fault;
use serde::Deserialize;

use crate::signing::SharedKey;

/// Contents of `topology.toml` besides interfaces and routes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Name of the node under test.
    name: String,
    /// Settings that differ from the defaults.
    #[serde(default)]
    rsvp: toml::Table,
    /// Keys that the node shares with its neighbors.
    #[serde(default, rename = "key")]
    pub(crate) keys: Vec<SharedKey>,
}

impl Settings {
    /// Returns the configuration of RSVP.
    fn rsvp(&self) -> Result<Config, Fault> {
        // Numbers as keys are read from text only.
        let text = self.rsvp.to_string();
        let mut config: Config = toml::from_str(&text).map_err(|error| error.to_string())?;
        // Most stories are about RFC 2205; those about RFC 2961 have the table for it.
        config.reduction.enabled &= self.rsvp.contains_key("reduction");
        config.integrity.keys = self.keys.iter().map(SharedKey::key).collect();
        Ok(config)
    }
}

/// Returns the configuration of a node.
pub(crate) fn config(topology: &Topology<Settings>) -> Result<NodeConfig, Fault> {
    let Settings { name, .. } = &topology.settings;
    let (name, rsvp) = (name.clone(), topology.settings.rsvp()?);
    Ok(NodeConfig { name, seed: topology.seed, rsvp, ..NodeConfig::default() })
}

/// Returns the updates of the node before the story begins.
pub(crate) fn updates(topology: &Topology<Settings>) -> Vec<HostUpdate> {
    let links = &topology.links;
    let interfaces = links.interfaces().cloned().map(HostUpdate::Interface);
    let routes = links.routes.iter().copied().map(HostUpdate::Route);
    let branches = links.branches.iter().cloned().map(HostUpdate::MulticastRoute);
    interfaces.chain(routes).chain(branches).collect()
}

/// Returns the logical interface handles of the node under test, with the names of their interfaces.
pub(crate) fn handles(topology: &Topology<Settings>) -> Result<Vec<(String, u32)>, Fault> {
    let engine = Rsvp::new(topology.settings.rsvp()?, &RandomStreams::new(topology.seed));
    let ids = (1..).map(InterfaceId);
    let links = topology.links.interfaces().zip(ids);
    Ok(links.map(|(link, id)| (link.name.clone(), engine.lih(id))).collect())
}
