//! Settings of the node under test, from `topology.toml`; the stories of GIST and of QoS NSLP share them.

use earmark_nsis::{Config, gist, qos};
use serde::Deserialize;

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
    /// Whether reservations may preempt each other.
    #[serde(default)]
    pub(crate) preemption: bool,
}

impl Settings {
    pub(crate) fn config(&self) -> Config {
        Config { gist: self.gist.clone(), qos: self.qos.clone(), ..Config::default() }
    }
}
