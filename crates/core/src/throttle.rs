//! Rate limit of requests per peer.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::Time;

/// A token bucket for each peer, among a fixed number of them, found by a keyed hash of the peer's address (see
/// [`KeyedHash`](crate::hash::KeyedHash)): nothing has to be inserted or removed, and memory and work stay the same
/// however many addresses an attacker invents. Peers with the same bucket share it; nobody can choose with whom.
///
/// A page of buckets is allocated on first use, since a node has several throttles, and most nodes of a simulation
/// have few peers or none.
#[derive(Clone, Debug, Default)]
pub struct Throttle {
    /// Pages; empty until a bucket is used.
    pages: Vec<Option<Box<Page>>>,
}

type Page = [Bucket; PAGE];

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// Used tokens, billionths of a request.
    used: u64,
    at: Time,
}

/// Number of buckets.
const BUCKETS: usize = 4_096;
/// Number of buckets in a page: 1 024 octets.
const PAGE: usize = 64;
/// One request in the unit of [`Bucket::used`].
const ONE: u64 = 1_000_000_000;

impl Throttle {
    /// Returns whether the peer with this hash may make one more request, at `rate` requests per second. The requests
    /// of one second may come in one burst. Refused requests do not count.
    #[inline]
    pub fn admits(&mut self, now: Time, hash: u64, rate: u32) -> bool {
        let bucket = self.bucket_mut(hash);
        let nanoseconds = now.as_nanos().saturating_sub(bucket.at.as_nanos());
        let earned = nanoseconds.saturating_mul(rate.into());
        let used = bucket.used.saturating_sub(earned) + ONE;
        bucket.at = now;
        let fits = used <= u64::from(rate) * ONE;
        bucket.used = if fits { used } else { used - ONE };
        fits
    }

    /// Counts a request of the peer with this hash without a check. An excess delays its next requests.
    pub fn charge(&mut self, now: Time, hash: u64, rate: u32) {
        let used = self.used(now, hash, rate);
        *self.bucket_mut(hash) = Bucket { used: used.saturating_add(ONE), at: now };
    }

    /// Returns how many requests the peer with this hash may make now.
    pub fn remaining(&self, now: Time, hash: u64, rate: u32) -> u32 {
        let left = (u64::from(rate) * ONE).saturating_sub(self.used(now, hash, rate));
        u32::try_from(left / ONE).unwrap_or(u32::MAX)
    }

    fn used(&self, now: Time, hash: u64, rate: u32) -> u64 {
        let bucket = self.bucket(hash);
        let nanoseconds = now.as_nanos().saturating_sub(bucket.at.as_nanos());
        bucket.used.saturating_sub(nanoseconds.saturating_mul(rate.into()))
    }

    fn bucket(&self, hash: u64) -> Bucket {
        let number = hash as usize % BUCKETS;
        let page = self.pages.get(number / PAGE).and_then(Option::as_ref);
        page.map_or_else(Bucket::default, |page| page[number % PAGE])
    }

    #[inline]
    fn bucket_mut(&mut self, hash: u64) -> &mut Bucket {
        let number = hash as usize % BUCKETS;
        if self.pages.is_empty() {
            self.pages.resize_with(BUCKETS / PAGE, || None);
        }
        let page =
            self.pages[number / PAGE].get_or_insert_with(|| Box::new([Bucket::default(); PAGE]));
        &mut page[number % PAGE]
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn rate_limit_holds_per_peer() {
        let mut throttle = Throttle::default();
        let start = Time::from_secs(5);
        let granted = |throttle: &mut Throttle, now, who| {
            (0..100).filter(|_| throttle.admits(now, who, 10)).count()
        };
        assert_eq!(granted(&mut throttle, start, 1), 10);
        assert_eq!(granted(&mut throttle, start, 2), 10);
        assert_eq!(granted(&mut throttle, start + Duration::from_millis(250), 1), 2);
        assert_eq!(granted(&mut throttle, start + Duration::from_millis(300), 1), 1);
        assert_eq!(granted(&mut throttle, start + Duration::from_secs(9), 1), 10);
        assert!(!throttle.admits(start, 3, 0), "nothing is nothing");
    }

    #[test]
    fn unchecked_requests_count_and_delay_later_ones() {
        let mut throttle = Throttle::default();
        let start = Time::from_secs(5);
        (0..15).for_each(|_| throttle.charge(start, 1, 10));
        assert_eq!((throttle.remaining(start, 1, 10), throttle.remaining(start, 2, 10)), (0, 10));
        assert!(!throttle.admits(start + Duration::from_millis(500), 1, 10), "the debt");
        assert_eq!(throttle.remaining(start + Duration::from_millis(800), 1, 10), 3);
    }
}
