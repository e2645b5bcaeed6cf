//! What a scenario says of its topology: a file, or what is to be made.
//!
//! ```toml
//! topology = "../topologies/retry.toml"        # nodes and links in our own words, see the module above
//! topology = "../topologies/abilene.graphml"   # published: one host is attached to each router
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

/// See the module's text.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// A file and nothing else.
    File(String),
    /// A file or a model, and what is to be made of it.
    Made(Box<Made>),
}

/// A backbone, and how it becomes a network.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    /// A random one,
    pub waxman: Option<Waxman>,
    /// or a published one in a file.
    pub file: Option<String>,
    /// Hosts in all; one for each router where nothing is said.
    pub hosts: Option<u32>,
    /// To which routers hosts are attached.
    #[serde(default)]
    pub attach: Attach,
    /// Of the dice for that.
    #[serde(default = "one")]
    pub seed: u64,
    /// Of each link between routers, whatever a file says.
    #[serde(default, deserialize_with = "value_syntax::some_rate")]
    pub bandwidth: Option<Rate>,
    /// What may be reserved of each link.
    #[serde(default)]
    pub reservable: Reservable,
    /// Of the best-effort queue at each end of a link, packets.
    #[serde(default = "fifty")]
    pub queue_packets: u32,
    /// Bandwidth of links to hosts; ten times that of the fastest link between routers where nothing is said.
    #[serde(default, deserialize_with = "value_syntax::some_rate")]
    pub access: Option<Rate>,
    /// Their delay.
    #[serde(default = "millisecond", deserialize_with = "value_syntax::time")]
    pub access_delay: Duration,
    /// What makes a path short.
    #[serde(default = "delay")]
    pub metric: Metric,
}

/// What a backbone needs to become a network, of [`Made`].
pub(super) type Settings = Made;

/// To which routers hosts are attached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Attach {
    /// One after the other, and again.
    #[default]
    Turns,
    /// Each to any, with the same probability.
    Random,
}

/// What may be reserved of a link: a share such as `"50%"`, or a rate.
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

/// Why a choice gives no topology.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ChoiceError {
    /// Neither a model nor a file, or both.
    #[error("say either waxman = {{ routers = 100 }} or file = \"...\"")]
    NoBackbone,
    /// A file that cannot be read.
    #[error("cannot read `{file}`: {why}")]
    Unreadable {
        /// Which.
        file: String,
        /// In the words of the system.
        why: String,
    },
    /// A file in our own words that is wrong.
    #[error("{file}: {why}")]
    Topology {
        /// Which.
        file: String,
        /// Where and why.
        why: TopologyError,
    },
    /// A published one that is wrong.
    #[error("{file}: {why}")]
    Graphml {
        /// Which.
        file: String,
        /// Where and why.
        why: GraphmlError,
    },
    /// A file that says everything itself.
    #[error("`{0}` says itself what its hosts and links are: name it alone, topology = \"{0}\"")]
    SaysItself(String),
    /// A setting of a model that makes no sense.
    #[error("{setting} is to be {range}")]
    OutOfRange {
        /// Its name,
        setting: &'static str,
        /// and what it can be.
        range: &'static str,
    },
    /// Too much of something.
    #[error("at most {most} {what} are possible")]
    TooLarge {
        /// Of what,
        what: &'static str,
        /// and how many there may be.
        most: usize,
    },
    /// More links than a router has addresses for.
    #[error("`{router}` would have more links than the {most} it has addresses for")]
    RouterIsFull {
        /// Which.
        router: String,
        /// How many it can have.
        most: usize,
    },
    /// No bandwidth.
    #[error(
        "nothing is said of the speed of the link from `{from}` to `{to}`: say bandwidth = \"10Mbit\""
    )]
    NoSpeed {
        /// From here
        from: String,
        /// to there.
        to: String,
    },
    /// No share, or more than there is.
    #[error("reservable: {0}")]
    Reservable(Problem),
}

impl Choice {
    /// The topology. `read` gives the text of a file by the name that stands here.
    ///
    /// # Errors
    /// [`ChoiceError`]: the file is not to be read or wrong, or what is to be made makes no sense.
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

/// Whether a file is one of those that others publish, by its name.
fn is_published(file: &str) -> bool {
    file.ends_with(".graphml")
}

impl Default for Made {
    /// As it is where nothing is said.
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
    /// A random backbone, else as it is where nothing is said.
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
