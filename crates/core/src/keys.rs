//! Keys that nodes and users share: where and when each is used, the change from one key to the next, and what happens after
//! the last one has expired.
//!
//! The rules are those of RFC 2747 section 5, for every protocol: the sender changes to a new key in the middle of its
//! overlap with the old one, and the last key stays in use after it has expired, which is reported.

mod chain;
mod sequence;

use alloc::string::String;
use core::net::IpAddr;
use core::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{Secret, Time};

pub use self::chain::{KeyChain, Unusable};
pub use self::sequence::{SequenceClock, is_newer};

/// Digest algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Algorithm {
    /// HMAC-MD5: 16 octets.
    #[serde(rename = "hmac-md5")]
    HmacMd5,
    /// HMAC-SHA-1: 20 octets.
    #[serde(rename = "hmac-sha-1")]
    HmacSha1,
    /// HMAC-SHA-256: 32 octets.
    #[serde(rename = "hmac-sha-256")]
    HmacSha256,
}

impl Algorithm {
    /// Length of the digest, octets; a multiple of four (RFC 2747 section 2.1).
    pub const fn digest_len(self) -> usize {
        match self {
            Algorithm::HmacMd5 => 16,
            Algorithm::HmacSha1 => 20,
            Algorithm::HmacSha256 => 32,
        }
    }
}

/// Directions in which a key is used, or an interface is secured. Security is simplex (RFC 2747 section 4): two nodes may
/// share one key for both directions, or use one for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Directions {
    /// Sent messages are signed, and received messages must be signed.
    #[default]
    Both,
    /// Sent messages are signed; signatures of received ones are ignored. For migration.
    Send,
    /// Received messages must be signed; sent ones are not.
    Accept,
}

impl Directions {
    /// Returns whether sent messages are signed.
    pub fn sends(self) -> bool {
        self != Directions::Accept
    }

    /// Returns whether received messages are verified.
    pub fn accepts(self) -> bool {
        self != Directions::Send
    }

    fn overlaps(self, other: Directions) -> bool {
        self == Directions::Both || other == Directions::Both || self == other
    }
}

/// A key of any protocol, as far as the common rules need it.
#[derive(Clone, Copy, Debug)]
pub struct KeyUse<'a> {
    /// Number of the key.
    pub id: u64,
    /// The shared secret; empty in a key that was read from a recording.
    pub secret: &'a Secret,
    /// Direction of use.
    pub purpose: Directions,
    /// Start of validity.
    pub start: Time,
    /// Time by which the validity began before [`Time::ZERO`], where `start` is then.
    pub age: Duration,
    /// End of validity; [`Time::MAX`] for none.
    pub end: Time,
    /// Names of the interfaces where the key is used; all secured ones if empty.
    pub interfaces: &'a [String],
    /// Addresses of the neighbours that share the key; all if empty.
    pub neighbors: &'a [IpAddr],
}

/// A key of a protocol.
pub trait SharedKey {
    /// Returns what the common rules need.
    fn key_use(&self) -> KeyUse<'_>;

    /// Returns the place of the secret.
    fn secret_mut(&mut self) -> &mut Secret;
}

impl KeyUse<'_> {
    /// Returns whether the key is valid at `now`.
    pub fn is_valid(&self, now: Time) -> bool {
        self.start <= now && now < self.end
    }

    /// Returns whether the key is used on an interface with any neighbour.
    pub fn serves_on(&self, interface: &str) -> bool {
        self.interfaces.is_empty() || self.interfaces.iter().any(|name| name == interface)
    }

    /// Returns whether the key is used on an interface and with a neighbour.
    pub fn serves(&self, interface: &str, neighbor: IpAddr) -> bool {
        self.serves_on(interface)
            && (self.neighbors.is_empty() || self.neighbors.contains(&neighbor))
    }

    /// Returns whether a message could match either of two keys: they have the same number and share an interface, a
    /// neighbour and a direction. Such keys must not be configured together.
    pub fn is_ambiguous_with(&self, other: &KeyUse<'_>) -> bool {
        self.id == other.id
            && self.purpose.overlaps(other.purpose)
            && overlap(self.interfaces, other.interfaces)
            && overlap(self.neighbors, other.neighbors)
    }
}

/// Returns whether two lists have a common element; an empty list contains all.
fn overlap<T: PartialEq>(one: &[T], other: &[T]) -> bool {
    one.is_empty() || other.is_empty() || one.iter().any(|item| other.contains(item))
}

/// Restores the secrets of keys that were read from a recording, from the same keys in `known`.
pub fn restore_secrets<K: SharedKey>(keys: &mut [K], known: &[K]) {
    for key in keys.iter_mut().filter(|key| key.key_use().secret.is_empty()) {
        let found = known.iter().find(|other| key.key_use().is_ambiguous_with(&other.key_use()));
        *key.secret_mut() = found.map(|other| other.key_use().secret.clone()).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_with_equal_number_need_disjoint_use() {
        let secret = Secret::default();
        let (eth1, eth2) = ([String::from("eth1")], [String::from("eth2")]);
        let addresses = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse::<IpAddr>().expect("right"));
        let all = KeyUse {
            id: 1,
            secret: &secret,
            purpose: Directions::Both,
            start: Time::ZERO,
            age: Duration::ZERO,
            end: Time::from_secs(1),
            interfaces: &[],
            neighbors: &[],
        };
        let on = |interfaces| KeyUse { interfaces, ..all };
        let to = |purpose| KeyUse { purpose, ..all };
        let with = |neighbors| KeyUse { neighbors, ..all };
        for (a, b, ambiguous) in [
            (on(&eth1), on(&eth2), false),
            (on(&eth1), to(Directions::Send), true),
            (to(Directions::Send), to(Directions::Accept), false),
            (with(&addresses[..1]), with(&addresses[1..]), false),
            (with(&addresses[..1]), on(&eth1), true),
            (with(&addresses[..1]), with(&addresses), true),
            (all, KeyUse { id: 2, ..all }, false),
        ] {
            assert_eq!(a.is_ambiguous_with(&b), ambiguous, "{a:?} {b:?}");
            assert_eq!(b.is_ambiguous_with(&a), ambiguous);
        }
        assert!(on(&eth1).serves("eth1", addresses[0]) && !on(&eth1).serves("eth2", addresses[0]));
        assert!(!with(&addresses[..1]).serves("eth1", addresses[1]));
    }
}
