//! Settings of the node, from those of the daemon.

use std::hash::{BuildHasher, RandomState};

use earmark_core::SecretSeed;
use earmark_node::NodeConfig;
use jiff::Timestamp;

use crate::config::Config;
use crate::protocols;

/// Draws a seed: the keys of the standard library's hasher come from the system's source of randomness.
fn draw() -> u64 {
    RandomState::new().hash_one(0)
}

/// Returns the settings of a node whose clock starts at `origin`, without the keys of key files.
pub(crate) fn node_config(config: &Config, origin: Timestamp) -> NodeConfig {
    let interfaces = || config.interfaces.iter();
    let mut node = NodeConfig {
        engines: protocols::engines(),
        others: config.others.clone(),
        name: config.name.clone(),
        seed: config.seed.unwrap_or_else(draw),
        // A seed of the configuration is known to all who may read the file.
        secret_seed: SecretSeed::Known(draw()),
        borders: interfaces().filter_map(|i| Some((i.name.clone(), i.border.clone()?))).collect(),
        link_admission: interfaces().map(|i| (i.name.clone(), i.admission)).collect(),
        ..NodeConfig::default()
    };
    for protocol in protocols::all() {
        protocol.configure(config, origin, &mut node);
    }
    node
}
