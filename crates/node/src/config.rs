//! Settings of a node, and the engines that it is composed of.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;

use earmark_boomerang as boomerang;
use earmark_core::admission::{AdmissionMethod, Protocol, RetryPolicy};
use earmark_core::random::RandomStreams;
use earmark_nsis as nsis;
use earmark_rsvp as rsvp;
use earmark_yessir as yessir;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::edge::Border;
use crate::engine::NodeEngine;
use crate::protocols;

/// Settings of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeConfig {
    /// Name for display.
    pub name: String,
    /// Seed of all random streams.
    pub seed: u64,
    /// Settings of RSVP.
    pub rsvp: rsvp::Config,
    /// Names of interfaces without RSVP. Packets that pass through them are forwarded like any other.
    #[serde(default)]
    pub without_rsvp: BTreeSet<String>,
    /// Settings of Boomerang.
    #[serde(default)]
    pub boomerang: boomerang::Config,
    /// Settings of YESSIR.
    #[serde(default)]
    pub yessir: yessir::Config,
    /// Settings of NSIS.
    #[serde(default)]
    pub nsis: nsis::Config,
    /// Settings of the engines that a program adds, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub others: BTreeMap<String, Value>,
    /// Engines of the node; by default those of this project.
    #[serde(skip)]
    pub engines: Engines,
    /// Borders by interface name: interfaces towards a core, which aggregates cross.
    #[serde(default)]
    pub borders: BTreeMap<String, Border>,
    /// Retry policy for refused requests after bandwidth is released.
    #[serde(default)]
    pub retry: RetryPolicy,
    /// Admission control of the links that `link_admission` does not name.
    #[serde(default)]
    pub admission: AdmissionMethod,
    /// Admission control by interface name.
    #[serde(default)]
    pub link_admission: BTreeMap<String, AdmissionMethod>,
}

/// Kind of engine that a node can be composed of.
#[derive(Clone, Copy, Debug)]
pub struct EngineKind {
    /// Name of the protocol in listings, settings and commands: lower case, one word.
    pub name: &'static str,
    /// Number of the engine's claims in the ledger.
    pub protocol: Protocol,
    /// IP protocol that is the engine's alone; `None` for messages inside UDP or ICMP.
    pub ip_protocol: Option<u8>,
    /// Creates an engine from the settings of its node and the random streams.
    pub create: fn(&NodeConfig, &RandomStreams) -> Box<dyn NodeEngine>,
}

/// The engines that a node is composed of, in the order in which they process changes of the host. Of several engines
/// for an IP protocol, the last one is asked first whether it accepts a packet.
#[derive(Clone, Debug)]
pub struct Engines(Vec<EngineKind>);

/// Reason why a kind of engine cannot be added.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddEngineError {
    /// Another engine has the name.
    #[error("there is an engine named `{0}` already")]
    Name(&'static str),
    /// Another engine has the number.
    #[error("engine `{name}` has number {number} in the ledger, as `{other}` has")]
    Number {
        /// Name of the new engine.
        name: &'static str,
        /// Number of both.
        number: u8,
        /// Name of the other engine.
        other: &'static str,
    },
}

impl Default for Engines {
    fn default() -> Engines {
        Engines(protocols::ENGINES.to_vec())
    }
}

/// Engines are equal if they have the same names and numbers.
impl PartialEq for Engines {
    fn eq(&self, other: &Engines) -> bool {
        let key = |kind: &EngineKind| (kind.name, kind.protocol);
        self.0.iter().map(key).eq(other.0.iter().map(key))
    }
}

impl Engines {
    /// No engines: a node that only forwards.
    pub const fn none() -> Engines {
        Engines(Vec::new())
    }

    /// Adds an engine.
    ///
    /// # Errors
    /// Another engine has the name or the number.
    pub fn with(mut self, kind: EngineKind) -> Result<Engines, AddEngineError> {
        let EngineKind { name, protocol, .. } = kind;
        if self.0.iter().any(|other| other.name == name) {
            return Err(AddEngineError::Name(name));
        }
        if let Some(other) = self.0.iter().find(|other| other.protocol == protocol) {
            let (number, other) = (protocol.number(), other.name);
            return Err(AddEngineError::Number { name, number, other });
        }
        self.0.push(kind);
        Ok(self)
    }

    /// Iterates over the kinds.
    pub fn iter(&self) -> impl Iterator<Item = &EngineKind> {
        self.0.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engine_with_used_name_or_number_is_refused() {
        let [first, ..] = protocols::ENGINES;
        let engines = Engines::default();
        assert_eq!(engines.clone().with(first), Err(AddEngineError::Name(first.name)));
        let renamed = EngineKind { name: "new", ..first };
        assert_eq!(
            engines.clone().with(renamed),
            Err(AddEngineError::Number { name: "new", number: 1, other: first.name })
        );
        let free = EngineKind { protocol: Protocol::new(200), ..renamed };
        assert_eq!(engines.with(free).map(|engines| engines.iter().count()), Ok(5));
    }
}
