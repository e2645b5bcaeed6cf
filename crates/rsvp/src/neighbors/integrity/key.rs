//! Authentication keys: algorithm, secret, scope and lifetime (RFC 2747 sections 2.2 and 5).

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::keys::{Algorithm, Directions, KeyUse, SharedKey};
use earmark_core::{Secret, Time};
use serde::{Deserialize, Serialize};

/// Authentication key as configured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Key Identifier: 48 bits, unique among the keys of one sender.
    pub id: u64,
    /// Digest algorithm.
    pub algorithm: Algorithm,
    /// Shared secret.
    pub secret: Secret,
    /// Direction of use.
    #[serde(default)]
    pub purpose: Directions,
    /// Start of validity (KeyStartValid).
    #[serde(default)]
    pub start: Time,
    /// Time by which the validity began before [`Time::ZERO`], where `start` is then.
    #[serde(default)]
    pub age: Duration,
    /// End of validity (KeyEndValid); [`Time::MAX`] for none.
    #[serde(default = "never")]
    pub end: Time,
    /// Names of the interfaces where the key is used; all secured ones if empty.
    #[serde(default)]
    pub interfaces: Vec<String>,
    /// Addresses of the neighbours that share the key, as in their hop objects; all neighbours if empty.
    #[serde(default)]
    pub neighbors: Vec<IpAddr>,
}

fn never() -> Time {
    Time::MAX
}

impl Key {
    /// Maximum Key Identifier.
    pub const LARGEST_ID: u64 = 0xffff_ffff_ffff;

    /// Returns whether the key is used on an interface and with a neighbour.
    pub fn serves(&self, interface: &str, neighbor: IpAddr) -> bool {
        self.key_use().serves(interface, neighbor)
    }
}

impl SharedKey for Key {
    fn key_use(&self) -> KeyUse<'_> {
        let Key { id, ref secret, purpose, start, age, end, ref interfaces, ref neighbors, .. } =
            *self;
        KeyUse { id, secret, purpose, start, age, end, interfaces, neighbors }
    }

    fn secret_mut(&mut self) -> &mut Secret {
        &mut self.secret
    }
}
