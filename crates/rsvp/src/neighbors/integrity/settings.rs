//! Settings of message integrity.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Directions, Key};

/// Settings of message integrity. By default no interface is secured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Security of interfaces by name; interfaces that are missing here are not secured.
    pub interfaces: BTreeMap<String, Directions>,
    /// Keys in any order.
    pub keys: Vec<Key>,
    /// N: number of sequence numbers kept for each neighbour, which limits how far messages may be reordered. At least
    /// 1, which allows no reordering.
    pub window: u16,
    /// Whether new neighbours are challenged.
    pub handshake: HandshakeMode,
    /// Time until an unanswered challenge is repeated; doubled each time.
    pub challenge_interval: Duration,
    /// Limit of Integrity Responses to one neighbour in one second. Anyone can send challenges, unsigned.
    pub answers_per_second: u32,
    /// Limit of associations (pairs of key and neighbour) with sequence numbers.
    pub max_associations: u32,
    /// Sequence number at [`earmark_core::Time::ZERO`], in units of 2^-32 seconds. It must exceed that of this node's
    /// previous run by at least the time that has passed since.
    pub sequence_start: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Settings {
            interfaces: BTreeMap::new(),
            keys: Vec::new(),
            window: 32,
            handshake: HandshakeMode::Offered,
            challenge_interval: Duration::from_secs(1),
            answers_per_second: 100,
            max_associations: 65_536,
            sequence_start: 0,
        }
    }
}

/// Whether new neighbours must prove that their messages are not replayed (RFC 2747 section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HandshakeMode {
    /// No neighbour is challenged; the first message of a neighbour is accepted.
    Off,
    /// Neighbours that set the flag HF are challenged; the first message of others is accepted.
    Offered,
    /// Neighbours that do not answer a challenge are ignored.
    Required,
}
