//! Token buckets in the classifier's memory; `bpf/bucket.h` explains how they work.

use std::time::Duration;

use earmark_core::Rate;
use earmark_core::admission::Demand;

use super::Statistics;
use super::entry::Guarantee;
use super::plan::{MIN_RATE, octets_per_second};

/// Octets of `struct bucket`; the last of them belong to the entry that contains the bucket, if any.
pub(super) const BUCKET: usize = 56;
/// Fractional bits of a cost in nanoseconds.
const COST_SHIFT: u32 = 20;
/// Tolerance beyond the burst, nanoseconds at the bucket's rate: packets that earlier hops have delayed unevenly.
const JITTER: u64 = 2_000_000;
/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// Rate and depth of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BucketParameters {
    /// Nanoseconds per octet at the bucket's rate, times 2^20.
    cost: u64,
    /// Time to fill the bucket, nanoseconds.
    depth: u64,
}

impl BucketParameters {
    /// Parameters without a claim.
    pub(super) const NONE: BucketParameters = BucketParameters { cost: 0, depth: 0 };

    /// Whether the parameters are those without a claim.
    pub(super) fn is_none(&self) -> bool {
        self.cost == 0
    }

    /// Returns the time per octet, nanoseconds times 2^20: smaller for a higher rate.
    pub(super) fn cost(&self) -> u64 {
        self.cost
    }

    /// Returns the time to fill the bucket, nanoseconds.
    pub(super) fn depth(&self) -> u64 {
        self.depth
    }

    /// Returns parameters for this rate in octets per second, with a depth of `depth` at that rate.
    pub(super) fn of_rate(octets: u64, depth: Duration) -> BucketParameters {
        let cost = ((SECOND << COST_SHIFT) / octets.max(MIN_RATE)).max(1);
        let depth = u64::try_from(depth.as_nanos()).unwrap_or(u64::MAX / 4);
        BucketParameters { cost, depth }
    }

    /// Returns the parameters for a reservation's rate and burst. One packet more than the burst may pass, see
    /// `bpf/bucket.h`; so the largest packet is subtracted from the burst.
    pub(super) fn reserved(demand: &Demand) -> BucketParameters {
        let rate = octets_per_second(demand.rate).max(MIN_RATE);
        // Rounded down, so that no reservation gets less than promised; beyond 10^15 octets a second it would be zero.
        let cost = ((SECOND << COST_SHIFT) / rate).max(1);
        let burst = u128::from(demand.burst.saturating_sub(demand.max_packet));
        let depth = u64::try_from((burst * u128::from(cost)) >> COST_SHIFT).unwrap_or(u64::MAX / 4);
        let depth = depth.saturating_add(JITTER);
        BucketParameters { cost, depth }
    }

    /// Returns the rate, for display.
    pub(super) fn as_rate(&self) -> Rate {
        Rate::from_bps(((SECOND << COST_SHIFT) / self.cost.max(1)).saturating_mul(8))
    }
}

/// A bucket in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    /// Time when it will be full, nanoseconds of the kernel's monotonic clock.
    full_at: u64,
    pub(super) guarantee: Guarantee,
    packets: u64,
    octets: u64,
    excess: u64,
}

impl Bucket {
    /// Returns a full bucket.
    pub(super) fn new(guarantee: Guarantee) -> Bucket {
        Bucket { full_at: 0, guarantee, packets: 0, octets: 0, excess: 0 }
    }

    /// Returns this bucket with another guarantee; its debt and its counters stay.
    pub(super) fn with(self, guarantee: Guarantee) -> Bucket {
        Bucket { guarantee, ..self }
    }

    /// Returns this bucket with the counters of another one added to its own.
    pub(super) fn counting(self, before: &Statistics) -> Bucket {
        Bucket {
            packets: self.packets + before.packets,
            octets: self.octets + before.octets,
            excess: self.excess + before.drops,
            ..self
        }
    }

    /// Encodes the bucket for the classifier.
    pub(super) fn emit(&self) -> [u8; BUCKET] {
        let Guarantee { bucket: BucketParameters { cost, depth }, class } = self.guarantee;
        let mut octets = [0; BUCKET];
        let words = [self.full_at, cost, depth, self.packets, self.octets, self.excess];
        for (part, word) in octets.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *part = word.to_ne_bytes();
        }
        octets[48..52].copy_from_slice(&class.to_ne_bytes());
        octets
    }

    /// Decodes a bucket that the classifier has written.
    pub(super) fn parse(octets: &[u8; BUCKET]) -> Bucket {
        let word = |at: usize| u64::from_ne_bytes(octets.as_chunks::<8>().0[at]);
        let half = |at: usize| u32::from_ne_bytes(octets.as_chunks::<4>().0[at]);
        let bucket = BucketParameters { cost: word(1), depth: word(2) };
        Bucket {
            full_at: word(0),
            guarantee: Guarantee { bucket, class: half(12) },
            packets: word(3),
            octets: word(4),
            excess: word(5),
        }
    }

    /// Returns the counters. Excess packets were not dropped but were not served as reserved either: they count as
    /// drops.
    pub(super) fn statistics(&self) -> Statistics {
        Statistics {
            octets: self.octets,
            packets: self.packets,
            drops: self.excess,
            ..Statistics::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use earmark_core::admission::Service;

    use super::*;

    fn demand(bps: u64, burst: u32) -> Demand {
        let service = Service::ControlledLoad;
        Demand { service, rate: Rate::from_bps(bps), burst, max_packet: 1_500 }
    }

    #[test]
    fn bucket_has_the_layout_of_the_classifier() {
        let bucket = BucketParameters { cost: 2, depth: 3 };
        let guarantee = Guarantee { bucket, class: 0xea4d_0004 };
        let bucket = Bucket { full_at: 1, guarantee, packets: 4, octets: 5, excess: 6 };
        let octets = bucket.emit();
        for (at, word) in (1_u64..=6).enumerate() {
            assert_eq!(octets[8 * at..8 * at + 8], word.to_ne_bytes());
        }
        assert_eq!(octets[48..52], 0xea4d_0004_u32.to_ne_bytes());
        assert_eq!(octets[52..], [0; 4]);
        assert_eq!(Bucket::parse(&octets), bucket);
    }

    #[test]
    fn a_bucket_has_the_rate_and_the_depth_of_its_reservation() {
        // 125 000 octets/s: 8 000 ns an octet; two packets deep, of which one may pass in any case.
        let parameters = BucketParameters::reserved(&demand(1_000_000, 3_000));
        assert_eq!(parameters.cost, 8_000 << 20);
        assert_eq!(parameters.depth, 8_000 * 1_500 + JITTER);
        assert_eq!(parameters.as_rate(), Rate::from_bps(1_000_000));
    }

    /// Neither the smallest nor the largest numbers overflow, here or in the classifier with the longest packet.
    #[test]
    fn extremes_stay_within_64_bits() {
        for bps in [0, 1, 8_000, 100_000_000_000, u64::MAX] {
            for burst in [0, u32::MAX] {
                let parameters = BucketParameters::reserved(&demand(bps, burst));
                assert!(parameters.cost >= 1);
                assert!(parameters.cost.checked_mul(1 << 18).is_some(), "256 KiB at once");
                assert!(parameters.depth < u64::MAX / 2);
            }
        }
    }
}
