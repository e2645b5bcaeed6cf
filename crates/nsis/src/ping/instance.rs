//! One instance of Ping NSLP.

use core::time::Duration;

use earmark_core::random::RandomStreams;

use super::config::Config;
use super::counters::Counters;
use super::initiator::Initiator;

/// Ping NSLP on one node.
#[derive(Debug)]
pub struct PingNslp {
    /// Messages of this node.
    pub(super) initiator: Initiator,
    /// See [`Config::discovery`].
    pub(super) discovery: Duration,
    pub(super) counters: Counters,
}

impl PingNslp {
    pub(crate) fn new(config: Config, random: &RandomStreams) -> PingNslp {
        let discovery = config.discovery;
        PingNslp {
            initiator: Initiator::new(config, random),
            discovery,
            counters: Counters::default(),
        }
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Returns the number of applications with a request.
    pub fn applications(&self) -> usize {
        self.initiator.applications()
    }
}
