//! Keys of users, and the settings of credentials.

use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::keys::{Directions, KeyUse, SharedKey};
use earmark_core::{Secret, Time};
use serde::{Deserialize, Serialize};

/// Settings of credentials. By default nobody needs one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// All keys of this node.
    pub keys: Vec<Key>,
    /// Interfaces by name where requests need a credential, or this host adds one to its own. Refreshes that change nothing
    /// need none.
    pub interfaces: BTreeMap<String, Directions>,
}

/// A secret that a user shares with the nodes. Several may be valid at a time, so that a new one can replace an old one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Number of the key; messages contain the user's name instead.
    pub id: u64,
    /// User id; at most eight octets, padded with zeros in messages.
    pub user: String,
    /// The shared secret.
    pub secret: Secret,
    /// Direction of use.
    #[serde(default)]
    pub purpose: Directions,
    /// Start of validity.
    #[serde(default)]
    pub start: Time,
    /// Time by which the validity began before [`Time::ZERO`], where `start` is then.
    #[serde(default)]
    pub age: Duration,
    /// End of validity; [`Time::MAX`] for none.
    #[serde(default = "never")]
    pub end: Time,
    /// Names of the interfaces where the key is used; all if empty.
    #[serde(default)]
    pub interfaces: Vec<String>,
}

fn never() -> Time {
    Time::MAX
}

impl Key {
    /// Creates a key that is used for both directions, always and everywhere.
    pub fn new(id: u64, user: &str, secret: Secret) -> Key {
        let (user, start, age, end) = (user.into(), Time::ZERO, Duration::ZERO, Time::MAX);
        Key { id, user, secret, purpose: Directions::Both, start, age, end, interfaces: Vec::new() }
    }

    /// Returns the user id as in messages; `None` if the name is too long.
    pub fn user_id(&self) -> Option<[u8; 8]> {
        user_id(&self.user)
    }
}

/// Returns a user id as in messages; `None` if the name is too long.
pub fn user_id(name: &str) -> Option<[u8; 8]> {
    let mut id = [0; 8];
    id.get_mut(..name.len())?.copy_from_slice(name.as_bytes());
    Some(id)
}

impl SharedKey for Key {
    fn key_use(&self) -> KeyUse<'_> {
        let Key { id, ref secret, purpose, start, age, end, ref interfaces, .. } = *self;
        KeyUse { id, secret, purpose, start, age, end, interfaces, neighbors: &[] }
    }

    fn secret_mut(&mut self) -> &mut Secret {
        &mut self.secret
    }
}
