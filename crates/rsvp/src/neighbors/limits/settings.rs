//! Settings of limits.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::Prefix;
use serde::{Deserialize, Serialize};

/// Limits of a node. The default has only those of [`crate::Config`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// Limits of interfaces, by name.
    pub interfaces: BTreeMap<String, Interface>,
    /// Limit of senders, and of reservations, of one neighbour.
    pub per_neighbor: Option<u32>,
    /// Limit of new or changed senders and reservations of one neighbour in one second.
    pub changes_per_second: Option<u32>,
    /// Limits of each access interface.
    pub access: Access,
}

/// Limits of one interface.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Interface {
    /// Accepted neighbours; all if empty.
    pub neighbors: Vec<Prefix>,
    /// Limit of senders, and of reservations, of one neighbour; that of [`Settings`] by default.
    pub per_neighbor: Option<u32>,
    /// Limit of new or changed senders and reservations of one neighbour in one second; that of [`Settings`] by default.
    pub changes_per_second: Option<u32>,
}

impl Interface {
    /// Returns whether the interface names a neighbour.
    pub(super) fn names(&self, neighbor: IpAddr) -> bool {
        self.neighbors.iter().any(|range| range.contains(neighbor))
    }
}

/// Limits of an access interface, whose neighbours are not trusted. Neighbours without a verified signature share them,
/// because they choose their addresses; each neighbour with one has the same limits by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Access {
    /// Limit of senders, and of reservations.
    pub max_blocks: u32,
    /// Limit of new or changed senders and reservations in one second.
    pub changes_per_second: u32,
    /// Limit of errors in one second that this node sends there by itself.
    pub errors_per_second: u32,
    /// Limit of the lifetime of state, whatever refresh period is announced.
    pub max_lifetime: Duration,
}

impl Default for Access {
    fn default() -> Access {
        Access {
            max_blocks: 500_000,
            changes_per_second: 10_000,
            errors_per_second: 100,
            // Four times the lifetime with the default refresh period.
            max_lifetime: Duration::from_secs(630),
        }
    }
}
