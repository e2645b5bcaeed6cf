//! Processors of a scenario: the turns of the daemons take the times of a cost profile.
//!
//! ```toml
//! processing = { profile = "pentium-ii-2001" }                     # of every router
//! processing = { profile = "../profiles/mine.toml", nodes = ["r1", "n0"], speed = 2.0 }
//! ```
//!
//! A profile is one of the [built-in ones](BUILT_IN), or a file, whose name ends with `.toml` and is relative to the
//! scenario. Files are written by `earmark-studies profile`.

mod costs;
mod profile;

use std::io;
use std::sync::Arc;

use earmark_sim::{Network, NodeId, ReceiveBuffer};
use serde::Deserialize;

pub use self::profile::{Buffer, CostProfile, Direction, Does, ProfileError, TurnCost, Upkeep};
use crate::error::ScenarioError;
use crate::protocols::Protocols;
use crate::topology::{Role, Topology};

/// Names and texts of the built-in profiles.
pub const BUILT_IN: [(&str, &str); 4] = [
    ("xeon-2026", include_str!("../../data/profiles/xeon-2026.toml")),
    ("pentium-ii-2001", include_str!("../../data/profiles/pentium-ii-2001.toml")),
    ("pentium-2001", include_str!("../../data/profiles/pentium-2001.toml")),
    ("via-eden-2007", include_str!("../../data/profiles/via-eden-2007.toml")),
];

/// Processors of the nodes.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Processing {
    /// Name of a built-in profile, or of a file.
    pub profile: String,
    /// Names of the nodes that have a processor; all routers if it is missing.
    pub nodes: Option<Vec<String>>,
    /// Speed by that of the machine of the profile.
    #[serde(default = "same_speed")]
    pub speed: f64,
    /// The profile, once it is loaded.
    #[serde(skip)]
    pub loaded: Option<Arc<CostProfile>>,
}

/// Range of speeds.
const SPEEDS: std::ops::RangeInclusive<f64> = 1e-3..=1e6;

fn same_speed() -> f64 {
    1.0
}

impl Processing {
    /// Loads the profile. `beside` reads a file beside the scenario.
    ///
    /// # Errors
    /// The profile is unknown, cannot be read, or is invalid.
    pub fn load(
        &mut self,
        beside: impl Fn(&str) -> io::Result<String>,
    ) -> Result<(), ScenarioError> {
        if self.loaded.is_some() {
            return Ok(());
        }
        let wrong = |why| ScenarioError::Profile { profile: self.profile.clone(), why };
        let text = match BUILT_IN.iter().find(|(name, _)| *name == self.profile) {
            Some((_, text)) => (*text).to_owned(),
            None if self.profile.ends_with(".toml") => beside(&self.profile)
                .map_err(|why| wrong(ProfileError::Unreadable(why.to_string())))?,
            None => {
                let known = BUILT_IN.map(|(name, _)| name).join(", ");
                return Err(wrong(ProfileError::Unknown { known }));
            }
        };
        self.loaded = Some(Arc::new(CostProfile::parse(&text).map_err(wrong)?));
        Ok(())
    }

    /// Checks the values, and that the nodes are those of a topology.
    pub(crate) fn check(&self, topology: &Topology) -> Result<(), ScenarioError> {
        if !SPEEDS.contains(&self.speed) {
            let (key, why) = ("processing.speed".to_owned(), "a speed is from 0.001 to 1000000");
            return Err(ScenarioError::Value { key, why });
        }
        if self.loaded.is_none() {
            let why = ProfileError::Unreadable("it was not loaded with the scenario".to_owned());
            return Err(ScenarioError::Profile { profile: self.profile.clone(), why });
        }
        let unknown = |name: &&String| topology.node(name).is_none();
        match self.nodes.iter().flatten().find(unknown) {
            Some(name) => Err(ScenarioError::NoSuchProcessor(name.clone())),
            None => Ok(()),
        }
    }

    /// Gives the nodes of a network, which are those of the topology, their processors.
    pub(crate) fn apply(
        &self,
        protocols: &Protocols,
        topology: &Topology,
        (network, nodes): (&mut Network, &[NodeId]),
    ) {
        let Some(profile) = &self.loaded else { return };
        let buffer = profile.buffer.map_or(ReceiveBuffer::UNLIMITED, |buffer| ReceiveBuffer {
            octets: buffer.octets,
            overhead: buffer.overhead,
        });
        for (node, id) in topology.nodes.iter().zip(nodes) {
            let is_chosen = match &self.nodes {
                Some(names) => names.contains(&node.name),
                None => node.role == Role::Router,
            };
            if is_chosen {
                let costs =
                    costs::ProfileCosts::new(profile.clone(), protocols.clone(), self.speed);
                network.set_processor(*id, Box::new(costs), buffer);
            }
        }
    }
}
