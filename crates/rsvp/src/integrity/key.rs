//! Authentication keys: algorithm, secret, scope and lifetime (RFC 2747 sections 2.2 and 5).

use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::{Secret, Time};
use serde::{Deserialize, Serialize};

use super::digest::Algorithm;

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
    pub purpose: Purpose,
    /// Start of validity (KeyStartValid).
    #[serde(default)]
    pub start: Time,
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

/// Direction in which a key is used. Associations are simplex (RFC 2747 section 4): two neighbours may share one key
/// for both directions, or use one for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// Sent messages are signed and received ones accepted with the key.
    #[default]
    Both,
    /// Only sent messages are signed with the key.
    Send,
    /// Only received messages are accepted with the key.
    Accept,
}

impl Purpose {
    /// Returns whether sent messages may be signed.
    pub fn sends(self) -> bool {
        self != Purpose::Accept
    }

    /// Returns whether received messages may be accepted.
    pub fn accepts(self) -> bool {
        self != Purpose::Send
    }
}

fn never() -> Time {
    Time::MAX
}

impl Key {
    /// Maximum Key Identifier.
    pub const LARGEST_ID: u64 = 0xffff_ffff_ffff;

    /// Restores the secrets of keys that were read from a recording, from the same keys in `known`.
    pub fn restore_secrets(keys: &mut [Key], known: &[Key]) {
        for key in keys.iter_mut().filter(|key| key.secret.is_empty()) {
            let same = known.iter().find(|other| key.is_ambiguous_with(other));
            key.secret = same.map(|other| other.secret.clone()).unwrap_or_default();
        }
    }

    /// Returns whether the key is valid at `now`.
    pub fn is_valid(&self, now: Time) -> bool {
        self.start <= now && now < self.end
    }

    /// Returns whether the key is used on an interface and with a neighbour.
    pub fn serves(&self, interface: &str, neighbor: IpAddr) -> bool {
        self.serves_on(interface)
            && (self.neighbors.is_empty() || self.neighbors.contains(&neighbor))
    }

    /// Returns whether the key is used on an interface with any neighbour.
    pub(super) fn serves_on(&self, interface: &str) -> bool {
        self.interfaces.is_empty() || self.interfaces.iter().any(|name| name == interface)
    }

    /// Returns whether a message could match either of two keys: they have the same identifier and share an interface,
    /// a neighbour and a direction. Such keys must not be configured together.
    pub fn is_ambiguous_with(&self, other: &Key) -> bool {
        self.id == other.id
            && (self.purpose == Purpose::Both
                || other.purpose == Purpose::Both
                || self.purpose == other.purpose)
            && overlap(&self.interfaces, &other.interfaces)
            && overlap(&self.neighbors, &other.neighbors)
    }
}

/// Returns whether two lists have a common element; an empty list contains all.
fn overlap<T: PartialEq>(one: &[T], other: &[T]) -> bool {
    one.is_empty() || other.is_empty() || one.iter().any(|item| other.contains(item))
}

/// Returns the key to sign with at `now` among those that `serves` accepts: the oldest valid one, until the middle of
/// its overlap with its successor (RFC 2747 section 5.1), so that clocks may differ by a quarter of the overlap either
/// way. If no key is valid any more, the one that expired last is used (section 5.3), because an old key is better than
/// none.
pub(super) fn key_to_sign(keys: &[Key], now: Time, serves: impl Fn(&Key) -> bool) -> Option<usize> {
    let candidates = || {
        let sends = |(_, key): &(usize, &Key)| key.purpose.sends() && serves(key);
        keys.iter().enumerate().filter(sends)
    };
    let mut valid: Vec<(usize, &Key)> = candidates().filter(|(_, key)| key.is_valid(now)).collect();
    valid.sort_by_key(|(index, key)| (key.start, *index));
    let mut chosen: Option<(usize, &Key)> = None;
    for (index, key) in valid {
        let wait = chosen.is_some_and(|(_, before)| {
            before.end != Time::MAX && now < middle(key.start, before.end)
        });
        if !wait {
            chosen = Some((index, key));
        }
    }
    let last = || {
        let expired = candidates().filter(|(_, key)| key.end <= now);
        expired.max_by_key(|(index, key)| (key.end, *index))
    };
    chosen.or_else(last).map(|(index, _)| index)
}

fn middle(start: Time, end: Time) -> Time {
    start + (end - start) / 2
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::vec;

    use super::*;

    fn key(id: u64, start: u64, end: u64) -> Key {
        Key {
            id,
            algorithm: Algorithm::HmacMd5,
            secret: Secret::new(vec![id as u8; 16]),
            purpose: Purpose::Both,
            start: Time::from_secs(start),
            end: Time::from_secs(end),
            interfaces: vec![],
            neighbors: vec![],
        }
    }

    fn chosen(keys: &[Key], at: u64) -> Option<u64> {
        key_to_sign(keys, Time::from_secs(at), |_| true).map(|index| keys[index].id)
    }

    /// RFC 2747 section 5.1: the sender changes keys in the middle of the overlap. Key 2 replaces key 1 between 80 and
    /// 100, key 3 has no overlap with key 2, and after 300 no key is valid.
    #[test]
    fn the_key_changes_in_the_middle_of_the_overlap() {
        let keys = [key(2, 80, 200), key(3, 200, 300), key(1, 10, 100)];
        let at = [
            (0, None),
            (10, Some(1)),
            (89, Some(1)),
            (90, Some(2)),
            (199, Some(2)),
            (200, Some(3)),
            (299, Some(3)),
            (300, Some(3)),
            (9_999, Some(3)),
        ];
        for (now, expected) in at {
            assert_eq!(chosen(&keys, now), expected, "at {now} s");
        }
    }

    /// A key without end is replaced at once, because the overlap has no middle.
    #[test]
    fn key_without_end_is_replaced_by_newer_one() {
        let keys = [Key { end: Time::MAX, ..key(1, 0, 0) }, key(2, 50, 60)];
        assert_eq!(chosen(&keys, 49), Some(1));
        assert_eq!(chosen(&keys, 50), Some(2));
        assert_eq!(chosen(&keys, 60), Some(1));
    }

    #[test]
    fn keys_for_accepting_sign_nothing() {
        let keys = [Key { purpose: Purpose::Accept, ..key(1, 0, 100) }];
        assert_eq!(chosen(&keys, 1), None);
        assert_eq!(chosen(&keys, 100), None);
    }

    #[test]
    fn keys_with_equal_id_need_disjoint_scope() {
        let eth1 = Key { interfaces: vec!["eth1".into()], ..key(1, 0, 1) };
        let eth2 = Key { interfaces: vec!["eth2".into()], ..key(1, 0, 1) };
        let send = Key { purpose: Purpose::Send, ..key(1, 0, 1) };
        let accept = Key { purpose: Purpose::Accept, ..key(1, 0, 1) };
        let one = Key { neighbors: vec!["10.0.0.1".parse().expect("right")], ..key(1, 0, 1) };
        let two = Key { neighbors: vec!["10.0.0.2".parse().expect("right")], ..key(1, 0, 1) };
        for (a, b, ambiguous) in [
            (&eth1, &eth2, false),
            (&eth1, &send, true),
            (&send, &accept, false),
            (&one, &two, false),
            (&one, &eth1, true),
            (&one, &one, true),
            (&key(1, 0, 1), &key(2, 0, 1), false),
        ] {
            assert_eq!(a.is_ambiguous_with(b), ambiguous, "{a:?} {b:?}");
            assert_eq!(b.is_ambiguous_with(a), ambiguous);
        }
        assert!(eth1.serves("eth1", "10.0.0.9".parse().expect("right")));
        assert!(!one.serves("eth1", "10.0.0.9".parse().expect("right")));
    }
}
