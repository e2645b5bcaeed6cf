//! What the engine counts: messages by kind, and what it threw away by reason.

use serde::{Deserialize, Serialize};

/// Why a message was thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// It could not be read.
    Malformed,
}

/// Messages of each kind, by direction, and drops by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {}
