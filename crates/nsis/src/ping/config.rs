//! Settings of Ping NSLP.

use core::time::Duration;

use serde::{Deserialize, Serialize};

/// Settings of Ping NSLP on one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// How long an initiator waits for an answer.
    pub timeout: Duration,
    /// How long a message waits at a node until the next one is found. A node that finds none in this time takes itself for
    /// the last one, so this has to be well below the timeout of initiators.
    pub discovery: Duration,
    /// The shortest time between two messages of one application.
    pub shortest_interval: Duration,
    /// Most applications at a time.
    pub applications: usize,
    /// Most messages of one application that wait for their answer.
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
