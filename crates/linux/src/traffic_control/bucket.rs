//! Token buckets in the classifier's memory; `bpf/bucket.h` explains how they work.

use super::Statistics;
use super::guarantee::{BucketParameters, Guarantee};

/// Octets of `struct bucket`; four of them belong to the entry that contains the bucket, if any.
pub(super) const BUCKET: usize = 64;
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
        let Guarantee { bucket: BucketParameters { cost, depth }, class, mark } = self.guarantee;
        let mut octets = [0; BUCKET];
        let words = [self.full_at, cost, depth, self.packets, self.octets, self.excess];
        for (part, word) in octets.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *part = word.to_ne_bytes();
        }
        octets[48..52].copy_from_slice(&class.to_ne_bytes());
        octets[56] = mark.unwrap_or(0);
        octets
    }

    /// Decodes a bucket that the classifier has written.
    pub(super) fn parse(octets: &[u8; BUCKET]) -> Bucket {
        let word = |at: usize| u64::from_ne_bytes(octets.as_chunks::<8>().0[at]);
        let half = |at: usize| u32::from_ne_bytes(octets.as_chunks::<4>().0[at]);
        let bucket = BucketParameters { cost: word(1), depth: word(2) };
        Bucket {
            full_at: word(0),
            guarantee: Guarantee {
                bucket,
                class: half(12),
                mark: Some(octets[56]).filter(|&mark| mark != 0),
            },
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
    use super::*;

    #[test]
    fn bucket_has_the_layout_of_the_classifier() {
        let bucket = BucketParameters { cost: 2, depth: 3 };
        let guarantee = Guarantee { bucket, class: 0xea4d_0004, mark: Some(46) };
        let bucket = Bucket { full_at: 1, guarantee, packets: 4, octets: 5, excess: 6 };
        let octets = bucket.emit();
        for (at, word) in (1_u64..=6).enumerate() {
            assert_eq!(octets[8 * at..8 * at + 8], word.to_ne_bytes());
        }
        assert_eq!(octets[48..52], 0xea4d_0004_u32.to_ne_bytes());
        assert_eq!(octets[52..], [0, 0, 0, 0, 46, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(Bucket::parse(&octets), bucket);
    }
}
