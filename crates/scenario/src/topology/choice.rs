//! Topology of a scenario: a file, or a network to be generated.
//!
//! ```toml
//! topology = "../topologies/retry.toml"        # our own format, see the parent module
//! topology = "../topologies/abilene.graphml"   # published: one host per router
//! topology = { file = "../topologies/abilene.graphml", hosts = 110, bandwidth = "10Mbit" }
//! topology = { waxman = { routers = 200, alpha = 0.3, beta = 0.1, seed = 7 }, hosts = 400, bandwidth = "10Mbit" }
//! ```

use std::time::Duration;

use earmark_core::Rate;
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, de};

use super::parse::{self, Problem};
use super::waxman::Waxman;
use super::{GraphmlError, Metric, Topology, TopologyError, graphml};
use crate::value_syntax;

/// Choice of a topology; see the module documentation.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// A file.
    File(String),
    /// A file or a model, with settings of the network.
    Made(Box<Made>),
}

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

/// Settings for the extension of a backbone, a part of [`Made`].
pub(super) type Settings = Made;

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

/// Reason why a choice gives no topology.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChoiceError {
    /// Neither a model nor a file is given, or both.
    #[error("say either waxman = {{ routers = 100 }} or file = \"...\"")]
    NoBackbone,
    /// The file cannot be read.
    #[error("cannot read `{file}`: {why}")]
    Unreadable {
        /// The file.
        file: String,
        /// Message of the system.
        why: String,
    },
    /// The topology file is invalid.
    #[error("{file}: {why}")]
    Topology {
        /// The file.
        file: String,
        /// Position and reason.
        why: TopologyError,
    },
    /// The published file is invalid.
    #[error("{file}: {why}")]
    Graphml {
        /// The file.
        file: String,
        /// Position and reason.
        why: GraphmlError,
    },
    /// A topology file that takes no settings.
    #[error("`{0}` says itself what its hosts and links are: name it alone, topology = \"{0}\"")]
    SaysItself(String),
    /// A setting of a model is out of range.
    #[error("{setting} is to be {range}")]
    OutOfRange {
        /// Name of the setting.
        setting: &'static str,
        /// Valid range.
        range: &'static str,
    },
    /// A count exceeds its limit.
    #[error("at most {most} {what} are possible")]
    TooLarge {
        /// What is counted.
        what: &'static str,
        /// The limit.
        most: usize,
    },
    /// A router has more links than addresses for them.
    #[error("`{router}` would have more links than the {most} it has addresses for")]
    RouterIsFull {
        /// The router.
        router: String,
        /// The limit.
        most: usize,
    },
    /// A link without bandwidth.
    #[error(
        "nothing is said of the speed of the link from `{from}` to `{to}`: say bandwidth = \"10Mbit\""
    )]
    NoSpeed {
        /// One end.
        from: String,
        /// The other end.
        to: String,
    },
    /// The reservable share is invalid, or above 100 %.
    #[error("reservable: {0}")]
    Reservable(Problem),
}

impl Choice {
    /// Builds the topology. `read` returns the text of a file by the name in the scenario.
    ///
    /// # Errors
    /// [`ChoiceError`]: the file is unreadable or invalid, or the settings are.
    pub fn build(
        &self,
        read: impl FnOnce(&str) -> std::io::Result<String>,
    ) -> Result<Topology, ChoiceError> {
        let read = |file: &str| {
            read(file).map_err(|why| ChoiceError::Unreadable {
                file: file.to_owned(),
                why: why.to_string(),
            })
        };
        match self {
            Choice::File(file) if is_published(file) => {
                Made::default().of_published(file, &read(file)?)
            }
            Choice::File(file) => Topology::parse(&read(file)?)
                .map_err(|why| ChoiceError::Topology { file: file.clone(), why }),
            Choice::Made(made) => made.build(read),
        }
    }
}

/// Returns whether a file has a published format, by its name.
fn is_published(file: &str) -> bool {
    file.ends_with(".graphml")
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

    fn build(
        &self,
        read: impl FnOnce(&str) -> Result<String, ChoiceError>,
    ) -> Result<Topology, ChoiceError> {
        let rates = [("bandwidth", self.bandwidth), ("access", self.access)];
        for (setting, rate) in rates {
            if rate == Some(Rate::ZERO) {
                return Err(ChoiceError::OutOfRange { setting, range: "more than zero" });
            }
        }
        if self.queue_packets == 0 {
            return Err(ChoiceError::OutOfRange { setting: "queue_packets", range: "1 or more" });
        }
        match (&self.waxman, &self.file) {
            (Some(waxman), None) => waxman.draw()?.with_hosts(self),
            (None, Some(file)) if is_published(file) => self.of_published(file, &read(file)?),
            (None, Some(file)) => Err(ChoiceError::SaysItself(file.clone())),
            _ => Err(ChoiceError::NoBackbone),
        }
    }

    fn of_published(&self, file: &str, text: &str) -> Result<Topology, ChoiceError> {
        let wrong = |why| ChoiceError::Graphml { file: file.to_owned(), why };
        graphml::parse(text).map_err(wrong)?.with_hosts(self)
    }
}

impl<'de> Deserialize<'de> for Choice {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Choice, D::Error> {
        struct Visitor;

        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Choice;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("the name of a file, or a table such as { waxman = { routers = 100 } }")
            }

            fn visit_str<E: de::Error>(self, file: &str) -> Result<Choice, E> {
                Ok(Choice::File(file.to_owned()))
            }

            fn visit_map<A: de::MapAccess<'de>>(self, map: A) -> Result<Choice, A::Error> {
                let made = Made::deserialize(MapAccessDeserializer::new(map))?;
                Ok(Choice::Made(Box::new(made)))
            }
        }

        deserializer.deserialize_any(Visitor)
    }
}
