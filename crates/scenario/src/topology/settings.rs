//! Settings of a network that is made from a backbone.

use std::time::Duration;

use earmark_core::Rate;
use serde::Deserialize;

use super::error::ChoiceError;
use super::waxman::Waxman;
use super::{Metric, parse};
use crate::value_syntax;

/// A backbone, and its extension to a network.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    /// Random backbone.
    pub waxman: Option<Waxman>,
    /// File with a published backbone.
    pub file: Option<String>,
    /// Total number of hosts; one per router by default.
    pub hosts: Option<u32>,
    /// Distribution of hosts over routers.
    #[serde(default)]
    pub attach: Attach,
    /// Seed of the random distribution.
    #[serde(default = "one")]
    pub seed: u64,
    /// Bandwidth of links between routers; overrides that of a file.
    #[serde(default, deserialize_with = "value_syntax::some_rate")]
    pub bandwidth: Option<Rate>,
    /// Reservable part of each link.
    #[serde(default)]
    pub reservable: Reservable,
    /// Limit of the best-effort queue at each end of a link, packets.
    #[serde(default = "fifty")]
    pub queue_packets: u32,
    /// Bandwidth of links to hosts; by default ten times that of the fastest link between routers.
    #[serde(default, deserialize_with = "value_syntax::some_rate")]
    pub access: Option<Rate>,
    /// Delay of links to hosts.
    #[serde(default = "millisecond", deserialize_with = "value_syntax::time")]
    pub access_delay: Duration,
    /// Metric of paths.
    #[serde(default = "delay")]
    pub metric: Metric,
}

/// Distribution of hosts over routers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attach {
    /// Round robin.
    #[default]
    Turns,
    /// Random, uniform.
    Random,
}

/// Reservable part of a link: a share such as `"50%"`, or a rate.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(transparent)]
pub struct Reservable(pub String);

impl Default for Reservable {
    fn default() -> Reservable {
        Reservable("75%".to_owned())
    }
}

impl Reservable {
    pub(super) fn of(&self, bandwidth: Rate) -> Result<Rate, ChoiceError> {
        parse::reservable(&self.0, bandwidth).map_err(ChoiceError::Reservable)
    }
}

fn one() -> u64 {
    1
}

fn fifty() -> u32 {
    50
}

fn millisecond() -> Duration {
    Duration::from_millis(1)
}

fn delay() -> Metric {
    Metric::Delay
}

impl Default for Made {
    /// Returns the default settings.
    fn default() -> Made {
        Made {
            waxman: None,
            file: None,
            hosts: None,
            attach: Attach::default(),
            seed: one(),
            bandwidth: None,
            reservable: Reservable::default(),
            queue_packets: fifty(),
            access: None,
            access_delay: millisecond(),
            metric: delay(),
        }
    }
}

impl Made {
    /// Returns the settings of a random backbone, with defaults for the rest.
    pub fn by(waxman: Waxman, bandwidth: Rate) -> Made {
        Made { waxman: Some(waxman), bandwidth: Some(bandwidth), ..Made::default() }
    }
}
