//! Settings, and which of them may be replaced while an engine runs.
//!
//! What stands is never given up for that: reservations that a new limit or rule would refuse stay, and are refreshed as
//! before. What neighbours have been told holds until they are told anew.

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

impl Config {
    /// These settings, with all of `new` that may change while an engine runs; of Ping NSLP none.
    pub fn renewed(&self, new: Config) -> Config {
        Config {
            gist: self.gist.renewed(new.gist),
            qos: self.qos.renewed(new.qos),
            ping: self.ping.clone(),
        }
    }
}
