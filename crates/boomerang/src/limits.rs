//! How much one initiating node may want of this one.

use alloc::vec;
use alloc::vec::Vec;

use earmark_core::Time;

use crate::counters::RefusalReason;
use crate::instance::Boomerang;
use crate::passing::{Passing, Refused};

/// What initiating nodes have used of what they may ask for in a second.
///
/// Each has a token bucket among a fixed number of them, found by a keyed hash of its address: nothing has to be entered or
/// forgotten, and memory and work stay the same however many addresses somebody makes up. Nodes that fall on the same
/// bucket share it; nobody can choose with whom.
#[derive(Debug)]
pub(crate) struct Throttle {
    buckets: Vec<Bucket>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Bucket {
    /// What is used, billionths of a change.
    used: u64,
    at: Time,
}

/// How many buckets there are.
const BUCKETS: usize = 4_096;
/// A change, in the unit of [`Bucket::used`].
const ONE: u64 = 1_000_000_000;

impl Throttle {
    pub(crate) fn new() -> Throttle {
        Throttle { buckets: vec![Bucket::default(); BUCKETS] }
    }

    /// Whether whoever has this hash may ask for one more change. It may ask for those of one second at once.
    fn admits(&mut self, now: Time, hash: u64, rate: u32) -> bool {
        let bucket = &mut self.buckets[hash as usize % BUCKETS];
        let earned = now.since(bucket.at).as_nanos() * u128::from(rate);
        let earned = u64::try_from(earned).unwrap_or(u64::MAX);
        let used = bucket.used.saturating_sub(earned) + ONE;
        bucket.at = now;
        let fits = used <= u64::from(rate) * ONE;
        bucket.used = if fits { used } else { used - ONE };
        fits
    }
}

impl Boomerang {
    /// Whether a message may change something here, or make a new session. Gives the hash of its initiating node, so that
    /// nobody has to compute it again.
    pub(crate) fn may_change(
        &mut self,
        now: Time,
        passing: &Passing<'_>,
        new: bool,
    ) -> Result<u64, Refused> {
        let limits = self.config.limits;
        let hash = self.store.hash_address(passing.initiator);
        if new {
            let full = self.store.sessions.len() >= limits.sessions as usize;
            let source = self.store.find_source(hash, passing.initiator);
            let theirs = source.map_or(0, |index| self.store.sources[index as usize].sessions);
            if full || theirs >= limits.sessions_per_source {
                return Err(Refused::flatly(RefusalReason::Limit));
            }
        }
        if !passing.own && !self.throttle.admits(now, hash, limits.changes_per_second) {
            return Err(Refused::flatly(RefusalReason::Limit));
        }
        self.is_credible(passing)?;
        Ok(hash)
    }
}

#[cfg(test)]
mod tests {
    use core::time::Duration;

    use super::*;

    #[test]
    fn a_node_may_do_so_much_in_a_second_and_others_as_much() {
        let mut throttle = Throttle::new();
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
}
