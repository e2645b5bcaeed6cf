//! Settings, and which of them may be replaced while an engine runs.
//!
//! Existing state is kept when settings change: reservations that a new limit or rule would refuse stay and are
//! refreshed as before. Values that neighbors have already received hold until the next message to them.

use serde::{Deserialize, Serialize};

use crate::{gist, natfw, ping, qos};

/// Settings of NSIS on one node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Settings of GIST.
    pub gist: gist::Config,
    /// Settings of QoS NSLP.
    pub qos: qos::Config,
    /// Settings of NATFW NSLP.
    pub natfw: natfw::Config,
    /// Settings of Ping NSLP.
    pub ping: ping::Config,
}

impl Config {
    /// Returns these settings with all values of `new` that may change while an engine runs. Those of Ping NSLP cannot
    /// change.
    pub fn renewed(&self, new: Config) -> Config {
        Config {
            gist: self.gist.renewed(new.gist),
            qos: self.qos.renewed(new.qos),
            natfw: self.natfw.renewed(new.natfw),
            ping: self.ping.clone(),
        }
    }
}
