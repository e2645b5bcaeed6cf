//! Histograms of durations.

use std::time::Duration;

/// Upper bounds of the buckets, nanoseconds: 10 us to 50 s.
const BOUNDS: [u64; 21] = {
    let (mut bounds, mut decade, mut at) = ([0; 21], 10_000, 0);
    while at < bounds.len() {
        bounds[at] = decade * [1, 2, 5][at % 3];
        at += 1;
        if at % 3 == 0 {
            decade *= 10;
        }
    }
    bounds
};

/// Numbers of durations by their length.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Histogram {
    /// Durations of each bucket that are in no bucket before; the last one has no upper bound.
    counts: [u64; BOUNDS.len() + 1],
    /// Sum of all durations, nanoseconds.
    sum: u64,
}

impl Histogram {
    /// Counts a duration.
    pub(crate) fn observe(&mut self, duration: Duration) {
        let nanoseconds = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        let bucket = BOUNDS.partition_point(|&bound| bound < nanoseconds);
        self.counts[bucket] += 1;
        self.sum = self.sum.saturating_add(nanoseconds);
    }

    /// Returns the buckets: upper bound in seconds, and number of durations that are in no bucket before.
    #[cfg(feature = "http")]
    pub(crate) fn buckets(&self) -> Vec<(f64, u64)> {
        let bounds = BOUNDS.iter().map(|&bound| Duration::from_nanos(bound).as_secs_f64());
        bounds.chain([f64::INFINITY]).zip(self.counts).collect()
    }

    /// Returns the number of durations.
    #[cfg(feature = "http")]
    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the sum of all durations in seconds.
    #[cfg(feature = "http")]
    pub(crate) fn sum(&self) -> f64 {
        Duration::from_nanos(self.sum).as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_one_two_five_in_each_decade() {
        assert_eq!(BOUNDS[..4], [10_000, 20_000, 50_000, 100_000]);
        assert_eq!(BOUNDS[20], 50_000_000_000);
        assert!(BOUNDS.is_sorted());
    }

    #[test]
    fn duration_is_in_the_first_bucket_that_has_room() {
        for (nanoseconds, bucket) in [
            (0, 0),
            (10_000, 0),
            (10_001, 1),
            (50_000_000_000, 20),
            (50_000_000_001, 21),
            (u64::MAX, 21),
        ] {
            let mut histogram = Histogram::default();
            histogram.observe(Duration::from_nanos(nanoseconds));
            assert_eq!(
                histogram.counts.iter().position(|&n| n == 1),
                Some(bucket),
                "{nanoseconds}"
            );
            assert_eq!(histogram.sum, nanoseconds);
        }
    }
}
