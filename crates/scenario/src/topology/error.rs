//! Reasons why a choice gives no topology.

use super::parse::Problem;
use super::{GraphmlError, TopologyError};

/// Reason why a choice gives no topology.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChoiceError {
    /// Neither a model nor a file is given, or both.
    #[error("give either waxman = {{ routers = 100 }} or file = \"...\"")]
    NoBackbone,
    /// The file cannot be read.
    #[error("cannot read `{file}`: {why}")]
    Unreadable {
        /// The file.
        file: String,
        /// Message of the system.
        why: String,
    },
    /// The topology file is invalid.
    #[error("{file}: {why}")]
    Topology {
        /// The file.
        file: String,
        /// Position and reason.
        why: TopologyError,
    },
    /// The published file is invalid.
    #[error("{file}: {why}")]
    Graphml {
        /// The file.
        file: String,
        /// Position and reason.
        why: GraphmlError,
    },
    /// A topology file that takes no settings.
    #[error("`{0}` defines its hosts and links: name it alone, topology = \"{0}\"")]
    SaysItself(String),
    /// A setting of a model is out of range.
    #[error("{setting} must be {range}")]
    OutOfRange {
        /// Name of the setting.
        setting: &'static str,
        /// Valid range.
        range: &'static str,
    },
    /// A count exceeds its limit.
    #[error("at most {most} {what} are possible")]
    TooLarge {
        /// What is counted.
        what: &'static str,
        /// The limit.
        most: usize,
    },
    /// A router has more links than addresses for them.
    #[error("`{router}` would have more links than the {most} it has addresses for")]
    RouterIsFull {
        /// The router.
        router: String,
        /// The limit.
        most: usize,
    },
    /// A link without bandwidth.
    #[error("the link from `{from}` to `{to}` has no bandwidth: give bandwidth = \"10Mbit\"")]
    NoSpeed {
        /// One end.
        from: String,
        /// The other end.
        to: String,
    },
    /// The reservable share is invalid, or above 100 %.
    #[error("reservable: {0}")]
    Reservable(Problem),
}
