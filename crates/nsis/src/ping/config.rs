//! Settings of Ping NSLP.

use core::time::Duration;

use serde::{Deserialize, Serialize};

/// Settings of Ping NSLP on one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Timeout of an answer.
    pub timeout: Duration,
    /// Time that a message waits for the discovery of the next node. A node that finds none in this time acts as the
    /// last one, so the value must be well below the timeout of initiators.
    pub discovery: Duration,
    /// Shortest interval between messages of one application.
    pub shortest_interval: Duration,
    /// Limit of applications.
    pub applications: usize,
    /// Limit of unanswered messages of one application.
    pub outstanding: usize,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            timeout: Duration::from_secs(5),
            discovery: Duration::from_secs(2),
            shortest_interval: Duration::from_millis(1),
            applications: 1_000,
            outstanding: 10_000,
        }
    }
}
