//! Settings of the node under test, from `topology.toml`; the stories of GIST, QoS NSLP and NATFW NSLP share them.

use earmark_nsis::{Config, gist, natfw, qos};
use serde::Deserialize;

/// IP TTL of the messages in all stories.
const TTL: u8 = 64;

/// Contents of `topology.toml` besides interfaces and routes.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// Settings of GIST that differ from the defaults.
    #[serde(default)]
    gist: gist::Config,
    /// Settings of QoS NSLP that differ from the defaults.
    #[serde(default)]
    qos: qos::Config,
    /// Settings of NATFW NSLP that differ from the defaults.
    #[serde(default)]
    natfw: natfw::Config,
    /// Whether reservations may preempt each other.
    #[serde(default)]
    pub(crate) preemption: bool,
}

impl Settings {
    pub(crate) fn config(&self) -> Config {
        let gist = gist::Config { ttl: TTL, ..self.gist.clone() };
        let (qos, natfw) = (self.qos.clone(), self.natfw.clone());
        Config { gist, qos, natfw, ..Config::default() }
    }
}
