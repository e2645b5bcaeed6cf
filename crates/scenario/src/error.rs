//! Reasons why a scenario or an override of it is invalid.

use crate::faults::FaultError;
use crate::processing::ProfileError;
use crate::topology::TopologyError;

/// Maximum number of parts of a key. No key of a scenario has as many, dots in names included; generated keys may.
pub(crate) const MAX_KEY_PARTS: usize = 64;

/// Reason why a scenario is invalid.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ScenarioError {
    /// Invalid TOML, or a key that is missing, unknown or of the wrong type.
    #[error("line {line}: {why}")]
    Toml {
        /// Line, from 1.
        line: usize,
        /// Message of the TOML parser.
        why: String,
    },
    /// The topology is invalid.
    #[error("topology: {0}")]
    Topology(TopologyError),
    /// Flows name a node that does not exist.
    #[error("flows `{flows}`: the topology has no node `{node}`")]
    NoSuchNode {
        /// Name of the flows.
        flows: String,
        /// Name of the node.
        node: String,
    },
    /// An override is invalid.
    #[error("`{key}`: {why}")]
    Override {
        /// The key.
        key: String,
        /// The reason.
        why: OverrideError,
    },
    /// A value is well-formed, but invalid.
    #[error("`{key}`: {why}")]
    Value {
        /// The key, as in an override.
        key: String,
        /// The reason.
        why: &'static str,
    },
    /// No protocol has the name.
    #[error("unknown protocol `{name}`: one of {known}")]
    Protocol {
        /// The name.
        name: String,
        /// Names of the protocols.
        known: String,
    },
    /// The refresh interval is not one that messages of the protocol can state.
    #[error(
        "`refresh`: {protocol} states it in whole seconds, from 1 to {most}, so \"{seconds}s\" would do"
    )]
    Refresh {
        /// Name of the protocol.
        protocol: String,
        /// Longest interval, seconds.
        most: u64,
        /// Possible interval next to the one given, seconds.
        seconds: u64,
    },
    /// The protocol has no priorities.
    #[error("flows `{flows}` have a priority, but only {known} tells routers of it")]
    Priority {
        /// Name of the flows.
        flows: String,
        /// Names of the protocols that have priorities.
        known: String,
    },
    /// Flows without endpoints.
    #[error("flows `{0}` have no ends: give between = [[\"a\", \"b\"]]")]
    Nowhere(String),
    /// The lists of arrivals and lifetimes differ in length.
    #[error(
        "flows `{flows}`: the list of arrivals has length {arrivals}, that of lifetimes {lifetimes}: give one lifetime for each arrival"
    )]
    TraceLengths {
        /// Name of the flows.
        flows: String,
        /// Number of arrivals.
        arrivals: usize,
        /// Number of lifetimes.
        lifetimes: usize,
    },
    /// A scheduler is set for a link that does not exist.
    #[error("scheduler: `{}` and `{}` are not joined", .0[0], .0[1])]
    NoSuchLink([String; 2]),
    /// A cost profile cannot be used.
    #[error("processing: profile `{profile}`: {why}")]
    Profile {
        /// Name of the profile, or of its file.
        profile: String,
        /// The reason.
        why: ProfileError,
    },
    /// A processor is set for a node that does not exist.
    #[error("processing: the topology has no node `{0}`")]
    NoSuchProcessor(String),
    /// Hosts cannot move like this.
    #[error("`{key}`{}: {why}", quoted(name))]
    Mobility {
        /// The key.
        key: String,
        /// Name of a node; empty if it concerns none in particular.
        name: String,
        /// The reason.
        why: &'static str,
    },
    /// A fault is invalid.
    #[error(transparent)]
    Fault(#[from] FaultError),
}

/// Reason why a key could not be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OverrideError {
    /// No element of the list matches.
    #[error("{list} has no element `{element}`; there are {known}")]
    NoSuchElement {
        /// Key of the list.
        list: String,
        /// Requested element.
        element: String,
        /// Existing elements.
        known: String,
    },
    /// The key has too many parts.
    #[error("no key has more than {MAX_KEY_PARTS} parts")]
    TooDeep,
    /// The parent of the key is not a table.
    #[error("{0} is neither a table nor a list")]
    NoTable(String),
    /// The scenario is not valid any more, in the words of the TOML parser.
    #[error("{0}")]
    Unfit(String),
}

/// Returns a name in quotes with a blank before it, or nothing if it is empty.
fn quoted(name: &str) -> String {
    if name.is_empty() { String::new() } else { format!(" `{name}`") }
}

/// Returns the error of the TOML parser with its position.
pub(crate) fn of_toml(text: &str, error: &toml::de::Error) -> ScenarioError {
    let start = error.span().map_or(0, |span| span.start);
    let before = text.as_bytes().iter().take(start);
    let line = 1 + before.filter(|&&octet| octet == b'\n').count();
    ScenarioError::Toml { line, why: error.message().to_owned() }
}
