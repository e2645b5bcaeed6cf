//! Ping NSLP: to be written.
use earmark_core::random::RandomStreams;
use serde::{Deserialize, Serialize};

/// Settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {}

/// What an application asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {}

/// What Ping NSLP tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {}

/// Ping NSLP on one node.
#[derive(Debug)]
pub struct PingNslp {}

impl PingNslp {
    pub(crate) fn new(_config: Config, _random: &RandomStreams) -> PingNslp {
        PingNslp {}
    }
}
