//! The guarantee of packets: rate and depth of a token bucket, and a class.

use std::time::Duration;

use earmark_core::Rate;
use earmark_core::admission::Demand;

/// Minimum rate of a class, octets per second. HTB forgets a debt of more than a minute, so a class with less would get
/// this much nevertheless, at 1 500 octets a packet. The value must not be higher: classes get their rate whatever the
/// others do, so many tiny reservations could take bandwidth that the ledger does not count from the large ones.
pub(super) const MIN_RATE: u64 = 25;
/// Fractional bits of a cost in nanoseconds.
const COST_SHIFT: u32 = 20;
/// Tolerance beyond the burst, nanoseconds at the bucket's rate: packets that earlier hops have delayed unevenly.
const JITTER: u64 = 2_000_000;
/// Nanoseconds in a second.
const SECOND: u64 = 1_000_000_000;

/// Service of a claim's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Guarantee {
    /// Rate and depth; ordered with the larger first.
    pub(super) bucket: BucketParameters,
    /// Priority of the packets: the handle of a class, or the value from which the queue derives a band.
    pub(super) class: u32,
    /// DSCP that the packets get, from 1 to 63; `None`: no one.
    pub(super) mark: Option<u8>,
}

/// Rate and depth of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct BucketParameters {
    /// Nanoseconds per octet at the bucket's rate, times 2^20.
    pub(super) cost: u64,
    /// Time to fill the bucket, nanoseconds.
    pub(super) depth: u64,
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

/// Converts a rate, rounded up, so that no reservation gets less than promised.
pub(super) fn octets_per_second(rate: Rate) -> u64 {
    rate.as_bps().div_ceil(8).max(1)
}

#[cfg(test)]
mod tests {
    use earmark_core::admission::Service;

    use super::*;

    fn demand(bps: u64, burst: u32) -> Demand {
        let service = Service::ControlledLoad;
        Demand { service, rate: Rate::from_bps(bps), burst, max_packet: 1_500, min_packet: 0 }
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
