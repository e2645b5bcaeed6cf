//! GIST: to be written.
use earmark_core::random::RandomStreams;
use serde::{Deserialize, Serialize};

/// Settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {}

/// What GIST tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Event {}

/// GIST on one node.
#[derive(Debug)]
pub struct Gist {}

impl Gist {
    pub(crate) fn new(_config: Config, _random: &RandomStreams) -> Gist {
        Gist {}
    }
}
