//! How much each source address has and asks for, so that nobody can use up what there is for all.

use alloc::collections::BTreeMap;
use core::hash::BuildHasher;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use earmark_core::Time;
use hashbrown::HashMap;
use siphasher::sip::SipHasher13;

/// Whoever sends chooses the address, so that the hash must be keyed.
#[derive(Clone, Copy, Debug)]
struct Keyed(u64, u64);

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.0, self.1)
    }
}

/// What sources have, and what they have used of what they may ask for. None of it is looked at for a refresh.
#[derive(Debug)]
pub(crate) struct Sources {
    /// Streams that each source has.
    sessions: HashMap<IpAddr, u32, Keyed>,
    /// By source: ordered, and no more than [`MOST_SOURCES`].
    buckets: BTreeMap<IpAddr, Bucket>,
    /// When those that had been quiet were forgotten, which is done once in a second at most.
    swept: Time,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// What is left, billionths of a request.
    left: u64,
    at: Time,
}

/// Sources that are told apart by how much they ask for; past that the others share, until some have been quiet.
const MOST_SOURCES: usize = 4_096;
/// A request, in the unit of [`Bucket::left`].
const ONE: u64 = 1_000_000_000;
const SECOND: Duration = Duration::from_secs(1);

impl Sources {
    pub(crate) fn new(hash_key: (u64, u64)) -> Sources {
        Sources {
            sessions: HashMap::with_hasher(Keyed(hash_key.0, hash_key.1)),
            buckets: BTreeMap::new(),
            swept: Time::ZERO,
        }
    }

    /// One stream more of a source, unless it has `most` already.
    pub(crate) fn enter(&mut self, source: IpAddr, most: u32) -> bool {
        let count = self.sessions.entry(source).or_insert(0);
        if *count >= most {
            if *count == 0 {
                self.sessions.remove(&source);
            }
            return false;
        }
        *count += 1;
        true
    }

    /// One stream less.
    pub(crate) fn leave(&mut self, source: IpAddr) {
        if let Some(count) = self.sessions.get_mut(&source) {
            *count -= 1;
            if *count == 0 {
                self.sessions.remove(&source);
            }
        }
    }

    /// Whether a source may ask for something new. It may ask for what it may in one second, `rate`, at once.
    pub(crate) fn may_ask(&mut self, now: Time, source: IpAddr, rate: u32) -> bool {
        let mut who = source;
        if self.buckets.len() >= MOST_SOURCES && !self.buckets.contains_key(&who) {
            if now >= self.swept + SECOND {
                self.swept = now;
                self.buckets.retain(|_, bucket| now < bucket.at + SECOND);
            }
            if self.buckets.len() >= MOST_SOURCES {
                who = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
            }
        }
        let full = u64::from(rate) * ONE;
        let bucket = self.buckets.entry(who).or_insert(Bucket { left: full, at: now });
        let earned = now.since(bucket.at).as_nanos() * u128::from(rate);
        let earned = u64::try_from(earned).unwrap_or(u64::MAX);
        bucket.left = bucket.left.saturating_add(earned).min(full);
        bucket.at = now;
        match bucket.left.checked_sub(ONE) {
            Some(left) => {
                bucket.left = left;
                true
            }
            None => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(number: u32) -> IpAddr {
        Ipv4Addr::from_bits(0x0a00_0000 + number).into()
    }

    #[test]
    fn a_source_has_so_many_streams_and_others_as_many() {
        let mut sources = Sources::new((1, 2));
        assert!(sources.enter(source(1), 2) && sources.enter(source(1), 2));
        assert!(!sources.enter(source(1), 2));
        assert!(sources.enter(source(2), 2));
        sources.leave(source(1));
        assert!(sources.enter(source(1), 2));
        assert!(!sources.enter(source(3), 0));
        for number in [1, 1, 2, 2] {
            sources.leave(source(number));
        }
        assert!(sources.sessions.is_empty(), "nothing is kept of those that have nothing");
    }

    #[test]
    fn a_source_may_ask_so_often_and_made_up_ones_share() {
        let mut sources = Sources::new((1, 2));
        let start = Time::from_secs(5);
        let granted = |sources: &mut Sources, now, who| {
            (0..100).filter(|_| sources.may_ask(now, source(who), 10)).count()
        };
        assert_eq!(granted(&mut sources, start, 1), 10);
        assert_eq!(granted(&mut sources, start + Duration::from_millis(250), 1), 2);
        let crowd = 2..20_000;
        let all = crowd.filter(|&who| sources.may_ask(start, source(who), 10)).count();
        assert_eq!(all, MOST_SOURCES - 1 + 10);
        assert!(sources.buckets.len() <= MOST_SOURCES + 1);
        assert_eq!(granted(&mut sources, start + SECOND, 99_999), 10);
    }
}
