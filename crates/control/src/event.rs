//! Events as a client sees them.

use std::time::Duration;

use earmark_core::ApplicationId;
use earmark_core::outcome::Outcome;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// One event, with the daemon's time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Event {
    /// Seconds since the daemon's start.
    pub at_s: f64,
    /// The daemon's wall clock, RFC 3339 in UTC. It may jump, unlike `at_s`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub time: String,
    /// Name of the interface that the event contains as an index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface_name: Option<String>,
    /// Outcome of the request after this event, if the event concerns one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Box<Outcome>>,
    /// The event in one line, for people.
    #[serde(default)]
    pub text: String,
    /// Protocol that reports the event, or the kind of an event of the node itself: `enforcement`, `aggregate`,
    /// `no_answer` or `not_adopted`.
    pub protocol: String,
    /// Name of the event among those of its protocol; empty for an event of the node itself.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub event: String,
    /// Number of the application that the event concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<ApplicationId>,
    /// Further members, by protocol and event.
    #[serde(flatten)]
    pub details: Map<String, Value>,
}

impl Event {
    /// Returns whether this is the event `event` of `protocol`.
    pub fn is(&self, protocol: &str, event: &str) -> bool {
        self.protocol == protocol && self.event == event
    }

    /// Returns the time from `at_s`, a time of the same daemon, to the event; zero if the event came before.
    pub fn since(&self, at_s: f64) -> Duration {
        Duration::try_from_secs_f64(self.at_s - at_s).unwrap_or_default()
    }

    /// Reads the further members as a `T`; `None` if they are of another form.
    pub fn details<'de, T: Deserialize<'de>>(&'de self) -> Option<T> {
        T::deserialize(&self.details).ok()
    }
}
