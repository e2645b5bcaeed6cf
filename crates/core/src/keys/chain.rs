//! The keys of one protocol on a node: which one signs, and which ones are accepted.

use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use super::{KeyUse, SharedKey};
use crate::Time;

/// Keys of one protocol, as configured.
#[derive(Clone, Debug)]
pub struct KeyChain<K> {
    keys: Vec<K>,
    /// Keys whose use after their end was reported, so that each is reported once.
    reported: Vec<bool>,
}

/// Why no key is usable for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// No key has this number and is used here.
    Unknown,
    /// The key is not valid yet, or has expired while there is a better one.
    NotValid,
}

impl<K> Default for KeyChain<K> {
    fn default() -> Self {
        KeyChain { keys: Vec::new(), reported: Vec::new() }
    }
}

impl<K: SharedKey> KeyChain<K> {
    /// Creates a chain.
    pub fn new(keys: Vec<K>) -> KeyChain<K> {
        KeyChain { reported: alloc::vec![false; keys.len()], keys }
    }

    /// Returns all keys.
    pub fn keys(&self) -> &[K] {
        &self.keys
    }

    /// Returns the key to sign with at `now` among those that `serves` admits: the oldest valid one, until the middle of
    /// its overlap with its successor (RFC 2747 section 5.1), so that clocks may differ by a quarter of the overlap either
    /// way. If no key is valid any more, the one that expired last is used (section 5.3), because an old key is better
    /// than none.
    pub fn to_sign(&self, now: Time, serves: impl Fn(&K) -> bool) -> Option<usize> {
        let candidates =
            || self.usable().filter(|(_, key, used)| used.purpose.sends() && serves(key));
        let order = |(index, used): &(usize, KeyUse<'_>)| (used.start, Reverse(used.age), *index);
        // In the order of their starts, without a list of them: few keys are valid at a time.
        let next = |after: Option<(Time, Reverse<Duration>, usize)>| {
            candidates()
                .filter(|(_, _, used)| used.is_valid(now))
                .map(|(index, _, used)| (index, used))
                .filter(|found| after.is_none_or(|after| order(found) > after))
                .min_by_key(order)
        };
        let mut chosen: Option<(usize, KeyUse<'_>)> = None;
        let mut place = None;
        while let Some(found) = next(place) {
            place = Some(order(&found));
            let waits = chosen.is_some_and(|(_, before)| {
                before.end != Time::MAX && now < middle(&found.1, before.end)
            });
            if !waits {
                chosen = Some(found);
            }
        }
        let last = || {
            let expired = candidates().filter(|(_, _, used)| used.end <= now);
            expired.max_by_key(|(index, _, used)| (used.end, *index)).map(|(index, ..)| index)
        };
        chosen.map(|(index, _)| index).or_else(last)
    }

    /// Returns the key with this number for a received message, among those that `serves` admits.
    ///
    /// # Errors
    /// There is none, or it is not valid.
    pub fn to_accept(
        &self,
        now: Time,
        id: u64,
        serves: impl Fn(&K) -> bool,
    ) -> Result<usize, Unusable> {
        let mut named = self.accepting(&serves).filter(|(_, used)| used.id == id);
        let (index, _) = named.next().ok_or(Unusable::Unknown)?;
        drop(named);
        match self.is_usable(now, index, serves) {
            true => Ok(index),
            false => Err(Unusable::NotValid),
        }
    }

    /// Returns whether a key is valid at `now`, or expired while no key that `serves` admits is better (section 5.3).
    pub fn is_usable(&self, now: Time, index: usize, serves: impl Fn(&K) -> bool) -> bool {
        let key = self.keys[index].key_use();
        let is_better =
            |other: KeyUse<'_>| other.is_valid(now) || (other.end <= now && other.end > key.end);
        key.is_valid(now)
            || (key.end <= now && !self.accepting(&serves).any(|(_, other)| is_better(other)))
    }

    /// Returns the number of a key if it is used for the first time after its end.
    pub fn report_overdue(&mut self, now: Time, index: usize) -> Option<u64> {
        let KeyUse { id, end, .. } = self.keys[index].key_use();
        (end <= now && !core::mem::replace(&mut self.reported[index], true)).then_some(id)
    }

    /// Iterates over the keys that have a secret.
    fn usable(&self) -> impl Iterator<Item = (usize, &K, KeyUse<'_>)> {
        let keys = self.keys.iter().enumerate();
        keys.map(|(index, key)| (index, key, key.key_use()))
            .filter(|(_, _, used)| !used.secret.is_empty())
    }

    fn accepting(&self, serves: &impl Fn(&K) -> bool) -> impl Iterator<Item = (usize, KeyUse<'_>)> {
        self.usable()
            .filter(move |(_, key, used)| used.purpose.accepts() && serves(key))
            .map(|(index, _, used)| (index, used))
    }
}

/// Returns the middle of the overlap of a key with the one before, which ends at `end`.
fn middle(key: &KeyUse<'_>, end: Time) -> Time {
    let age = u64::try_from(key.age.as_nanos()).unwrap_or(u64::MAX);
    match key.start.as_nanos().checked_sub(age) {
        Some(start) => Time::from_nanos(start + (end.as_nanos() - start) / 2),
        // The overlap began before the engine.
        None => Time::from_nanos(end.as_nanos().saturating_sub(age) / 2),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use proptest::prelude::*;

    use super::*;
    use crate::Secret;
    use crate::keys::Directions;

    #[derive(Clone, Debug)]
    struct Key {
        id: u64,
        secret: Secret,
        purpose: Directions,
        start: Time,
        age: Duration,
        end: Time,
    }

    impl SharedKey for Key {
        fn key_use(&self) -> KeyUse<'_> {
            let &Key { id, ref secret, purpose, start, age, end } = self;
            KeyUse { id, secret, purpose, start, age, end, interfaces: &[], neighbors: &[] }
        }

        fn secret_mut(&mut self) -> &mut Secret {
            &mut self.secret
        }
    }

    fn key(id: u64, start: u64, end: u64) -> Key {
        let (start, end) = (Time::from_secs(start), Time::from_secs(end));
        let (purpose, age) = (Directions::Both, Duration::ZERO);
        Key { id, secret: Secret::new("a secret"), purpose, start, age, end }
    }

    fn signer(keys: &[Key], at: u64) -> Option<u64> {
        let chain = KeyChain::new(keys.to_vec());
        chain.to_sign(Time::from_secs(at), |_| true).map(|index| keys[index].id)
    }

    /// RFC 2747 section 5.1: the sender changes keys in the middle of the overlap. Key 2 replaces key 1 between 80 and
    /// 100, key 3 has no overlap with key 2, and after 300 no key is valid.
    #[test]
    fn key_changes_in_the_middle_of_the_overlap() {
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
            assert_eq!(signer(&keys, now), expected, "at {now} s");
        }
    }

    /// The engine starts at second 40 of an overlap of 100 s: the change is 10 s later, and not in the middle of the rest.
    #[test]
    fn key_changes_in_the_middle_of_an_overlap_that_has_begun() {
        let old = Key { age: Duration::from_secs(500), ..key(1, 0, 60) };
        let new = |age| Key { age: Duration::from_secs(age), ..key(2, 0, 900) };
        for (age, now, expected) in [(40, 9, 1), (40, 10, 2), (60, 0, 2), (90, 0, 2), (0, 29, 1)] {
            for keys in [[old.clone(), new(age)], [new(age), old.clone()]] {
                assert_eq!(signer(&keys, now), Some(expected), "{age} s, at {now} s");
            }
        }
    }

    /// A key without end is replaced at once, because the overlap has no middle.
    #[test]
    fn key_without_end_is_replaced_by_newer_one() {
        let keys = [Key { end: Time::MAX, ..key(1, 0, 0) }, key(2, 50, 60)];
        assert_eq!(signer(&keys, 49), Some(1));
        assert_eq!(signer(&keys, 50), Some(2));
        assert_eq!(signer(&keys, 60), Some(1));
    }

    #[test]
    fn keys_for_accepting_or_without_secret_sign_nothing() {
        let accept = Key { purpose: Directions::Accept, ..key(1, 0, 100) };
        let unread = Key { secret: Secret::default(), ..key(2, 0, 100) };
        let keys = [accept, unread];
        assert_eq!((signer(&keys, 1), signer(&keys, 100)), (None, None));
    }

    #[test]
    fn expired_key_is_accepted_if_none_is_better_and_reported_once() {
        let mut chain = KeyChain::new(vec![key(1, 0, 100), key(2, 50, 200)]);
        let accept =
            |chain: &KeyChain<Key>, now, id| chain.to_accept(Time::from_secs(now), id, |_| true);
        for (now, id, expected) in [
            (49, 2, Err(Unusable::NotValid)),
            (49, 1, Ok(0)),
            (99, 1, Ok(0)),
            (99, 2, Ok(1)),
            (100, 1, Err(Unusable::NotValid)),
            (200, 1, Err(Unusable::NotValid)),
            (200, 2, Ok(1)),
            (200, 3, Err(Unusable::Unknown)),
        ] {
            assert_eq!(accept(&chain, now, id), expected, "key {id} at {now} s");
        }
        assert_eq!(chain.report_overdue(Time::from_secs(199), 1), None);
        assert_eq!(chain.report_overdue(Time::from_secs(200), 1), Some(2));
        assert_eq!(chain.report_overdue(Time::from_secs(201), 1), None);
    }

    proptest! {
        /// Two nodes with the same keys, whose clocks differ by less than a quarter of each overlap, accept what the other
        /// signs. There is always a key once one has started.
        #[test]
        fn what_one_signs_the_other_accepts(
            steps in prop::collection::vec((100_u64..400, 8_u64..80), 1..5),
            now in 0_u64..2_000,
            skew in 0_u64..20,
            ahead in any::<bool>(),
        ) {
            let mut keys = Vec::new();
            let (mut start, mut quarter) = (100, u64::MAX);
            for (id, (length, overlap)) in (0..).zip(&steps) {
                keys.push(key(id, start, start + length));
                start += length - overlap;
                quarter = quarter.min(overlap / 4);
            }
            let skew = skew.min(quarter.saturating_sub(1));
            let theirs = if ahead { now + skew } else { now.saturating_sub(skew) };
            let chain = KeyChain::new(keys);
            let signing = chain.to_sign(Time::from_secs(now), |_| true);
            prop_assert_eq!(signing.is_some(), now >= 100);
            // Before its first key a node has none to accept with.
            if let Some(index) = signing && theirs >= 100 {
                let id = chain.keys()[index].id;
                let found = chain.to_accept(Time::from_secs(theirs), id, |_| true);
                prop_assert_eq!(found, Ok(index), "signed at {}, received at {}", now, theirs);
            }
        }
    }
}
