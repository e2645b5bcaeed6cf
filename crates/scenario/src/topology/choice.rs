//! Topology of a scenario: a file, or a network to be generated.
//!
//! ```toml
//! topology = "../topologies/retry.toml"        # our own format, see the parent module
//! topology = "../topologies/abilene.graphml"   # published: one host per router
//! topology = { file = "../topologies/abilene.graphml", hosts = 110, bandwidth = "10Mbit" }
//! topology = { waxman = { routers = 200, alpha = 0.3, beta = 0.1, seed = 7 }, hosts = 400, bandwidth = "10Mbit" }
//! ```

use earmark_core::Rate;
use serde::de::value::MapAccessDeserializer;
use serde::{Deserialize, Deserializer, de};

use super::error::ChoiceError;
use super::settings::Made;
use super::{Topology, graphml};

/// Choice of a topology; see the module documentation.
#[derive(Clone, Debug, PartialEq)]
pub enum Choice {
    /// A file.
    File(String),
    /// A file or a model, with settings of the network.
    Made(Box<Made>),
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

impl Made {
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
