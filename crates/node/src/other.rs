//! Commands and events of engines that a program adds to the node; see [`crate::Engines`].

use alloc::boxed::Box;
use alloc::string::String;

use earmark_core::outcome::Outcome;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A command for an engine that a program adds to the node; see [`crate::Engines`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OtherCommand {
    /// Name of the protocol.
    pub name: String,
    /// The command in the engine's own form.
    pub command: Value,
}

/// An event of an engine that a program adds to the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OtherEvent {
    /// Name of the protocol.
    pub name: String,
    /// Application that the event concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<u64>,
    /// Outcome of the application's request after the event; `None` if the event does not affect it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Box<Outcome>>,
    /// The event in the engine's own form.
    pub event: Value,
}
