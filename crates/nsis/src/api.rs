//! Commands to the NSIS engine, and the events that it reports.

use alloc::boxed::Box;

use serde::{Deserialize, Serialize};

use crate::{Config, gist, natfw, ping, qos};

/// A command to one layer of NSIS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Command to QoS NSLP.
    Qos(qos::Command),
    /// Command to NATFW NSLP.
    Natfw(natfw::Command),
    /// Command to Ping NSLP.
    Ping(ping::Command),
    /// Sets the wall clock after a jump: only the lifetimes of tokens depend on it.
    WallClock {
        /// Wall-clock time at [`Time::ZERO`](earmark_core::Time::ZERO), nanoseconds since 1970.
        wall_clock: u64,
    },
    /// Replaces the settings that may change while the engine runs: see [`Config::renewed`].
    Renew(Box<Config>),
}

/// An event of one layer of NSIS.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "part", rename_all = "snake_case")]
pub enum Event {
    /// Event of GIST.
    Gist(gist::Event),
    /// Event of QoS NSLP.
    Qos(qos::Event),
    /// Event of NATFW NSLP.
    Natfw(natfw::Event),
    /// Event of Ping NSLP.
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

impl From<natfw::Event> for Event {
    fn from(event: natfw::Event) -> Event {
        Event::Natfw(event)
    }
}

impl From<ping::Event> for Event {
    fn from(event: ping::Event) -> Event {
        Event::Ping(event)
    }
}
