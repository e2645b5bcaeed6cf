//! Settings.

use serde::{Deserialize, Serialize};

use crate::{gist, ping, qos};

/// Settings of NSIS on one node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Of GIST.
    pub gist: gist::Config,
    /// Of QoS NSLP.
    pub qos: qos::Config,
    /// Of Ping NSLP.
    pub ping: ping::Config,
}
