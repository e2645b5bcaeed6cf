//! Keys: what a digest is made with, where, with whom, and how long (RFC 2747 sections 2.2 and 5).

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use earmark_core::Time;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use zeroize::Zeroizing;

use super::digest::Algorithm;

/// One authentication key, as it is configured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// Key Identifier: 48 bits, unique among the keys of one sender.
    pub id: u64,
    /// How digests are computed.
    pub algorithm: Algorithm,
    /// What only those who share the key know.
    pub secret: Secret,
    /// For what it serves.
    #[serde(default)]
    pub purpose: Purpose,
    /// When it begins to be valid (KeyStartValid).
    #[serde(default)]
    pub start: Time,
    /// When it ceases to be (KeyEndValid); [`Time::MAX`] is never.
    #[serde(default = "never")]
    pub end: Time,
    /// Names of the interfaces that it serves on; all that are secured, if none is named.
    #[serde(default)]
    pub interfaces: Vec<String>,
    /// Addresses of the neighbours that it is shared with, as their hop objects name them; all, if none is named.
    #[serde(default)]
    pub neighbors: Vec<IpAddr>,
}

/// In which direction a key serves. Associations are simplex (RFC 2747 section 4): two neighbours may share one key for
/// both directions, or have one each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Purpose {
    /// What leaves is signed with it, what arrives is accepted with it.
    #[default]
    Both,
    /// Only what leaves.
    Send,
    /// Only what arrives.
    Accept,
}

impl Purpose {
    /// Whether what leaves may be signed.
    pub fn sends(self) -> bool {
        self != Purpose::Accept
    }

    /// Whether what arrives may be accepted.
    pub fn accepts(self) -> bool {
        self != Purpose::Send
    }
}

fn never() -> Time {
    Time::MAX
}

impl Key {
    /// The largest Key Identifier there is.
    pub const LARGEST_ID: u64 = 0xffff_ffff_ffff;

    /// Gives keys that were read back from a recording their secrets, as far as `known` has the same keys.
    pub fn restore_secrets(keys: &mut [Key], known: &[Key]) {
        for key in keys.iter_mut().filter(|key| key.secret.is_empty()) {
            let same = known.iter().find(|other| key.is_ambiguous_with(other));
            key.secret = same.map(|other| other.secret.clone()).unwrap_or_default();
        }
    }

    /// Whether it is valid at `now`.
    pub fn is_valid(&self, now: Time) -> bool {
        self.start <= now && now < self.end
    }

    /// Whether it serves on an interface and with a neighbour.
    pub fn serves(&self, interface: &str, neighbor: IpAddr) -> bool {
        self.serves_on(interface)
            && (self.neighbors.is_empty() || self.neighbors.contains(&neighbor))
    }

    /// Whether it serves on an interface, with whomever.
    pub(super) fn serves_on(&self, interface: &str) -> bool {
        self.interfaces.is_empty() || self.interfaces.iter().any(|name| name == interface)
    }

    /// Whether a message could be meant for either of two keys: they have the same identifier, and there are an
    /// interface, a neighbour and a direction that both serve. Such keys must not be configured together.
    pub fn is_ambiguous_with(&self, other: &Key) -> bool {
        self.id == other.id
            && (self.purpose == Purpose::Both
                || other.purpose == Purpose::Both
                || self.purpose == other.purpose)
            && meet(&self.interfaces, &other.interfaces)
            && meet(&self.neighbors, &other.neighbors)
    }
}

/// Whether two lists have something in common; an empty one has everything.
fn meet<T: PartialEq>(one: &[T], other: &[T]) -> bool {
    one.is_empty() || other.is_empty() || one.iter().any(|item| other.contains(item))
}

/// The key to sign with at `now`, of those that `serves` picks: the oldest of those that are valid, until the middle of
/// the time that it has in common with its successor (RFC 2747 section 5.1), so that clocks may differ by a quarter of
/// the overlap either way. Where none is valid any more, the one that was valid last goes on
/// (section 5.3): better an old key than none.
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

/// Octets that must never be shown. They are overwritten when they are not needed any more.
///
/// In recordings and listings there is nothing in its place, so what is read back there is empty, and good for nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Secret(Zeroizing<Vec<u8>>);

impl Secret {
    /// Keeps these octets.
    pub fn new(octets: Vec<u8>) -> Secret {
        Secret(Zeroizing::new(octets))
    }

    /// Whether there is none, as in a key that was read back from a recording.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn octets(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

impl Serialize for Secret {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_unit()
    }
}

impl<'de> Deserialize<'de> for Secret {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <()>::deserialize(deserializer).map(|()| Secret::default())
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use std::{format, vec};

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

    /// RFC 2747 section 5.1: the sender changes over in the middle of the overlap. Key 2 takes over from key 1 between
    /// 80 and 100, key 3 has no overlap with key 2, and after 300 there is none left.
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

    /// A key without end gives way at once: there is no middle of forever.
    #[test]
    fn a_key_without_end_gives_way_to_a_newer_one() {
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
    fn keys_with_one_number_are_told_apart_by_where_they_serve() {
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

    #[test]
    fn secrets_are_shown_nowhere_and_do_not_come_back() {
        let key = Key { secret: Secret::new(b"correct horse".to_vec()), ..key(7, 0, 1) };
        let text = serde_json::to_string(&key).expect("it can be written");
        for shown in [&text, &format!("{key:?}")] {
            assert!(!shown.contains("correct horse"), "{shown}");
            assert!(!shown.contains("99, 111"), "not as numbers either: {shown}");
        }
        let back: Key = serde_json::from_str(&text).expect("it can be read");
        assert!(back.secret.is_empty());
        assert_eq!(Key { secret: key.secret.clone(), ..back }, key);
    }
}
