//! What a user of this node can ask for, and what the engine tells.

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use crate::{Config, gist, ping, qos};

/// What an application asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Of QoS NSLP.
    Qos(qos::Command),
    /// Of Ping NSLP.
    Ping(ping::Command),
    /// Takes of other settings what may change while the engine runs: see [`Config::renewed`].
    Renew(Box<Config>),
}

/// What the engine tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum Event {
    /// Of GIST.
    Gist(gist::Event),
    /// Of QoS NSLP.
    Qos(qos::Event),
    /// Of Ping NSLP.
    Ping(ping::Event),
}

impl From<gist::Event> for Event {
    fn from(event: gist::Event) -> Event {
        Event::Gist(event)
    }
}

impl From<qos::Event> for Event {
    fn from(event: qos::Event) -> Event {
        Event::Qos(event)
    }
}

impl From<ping::Event> for Event {
    fn from(event: ping::Event) -> Event {
        Event::Ping(event)
    }
}
