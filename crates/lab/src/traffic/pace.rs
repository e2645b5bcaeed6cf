//! Pace of a source: the departure time of each packet by a token bucket.

use std::time::Duration;

use earmark_core::{Rate, Time};

/// Departure times of a stream. All packets of a stream are of one length.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// Bits of a packet times 10^9: divided by the rate, nanoseconds.
    scaled_bits: u128,
    rate: u128,
    /// Largest delay of a packet that does not postpone the following ones.
    tolerance: Duration,
    origin: Time,
    /// Number of packets sent since `origin`.
    gone: u64,
}

impl Pacer {
    /// Creates a pacer for packets of `packet_octets` at `rate` from `start` on; at most `bucket_octets` (one packet
    /// at least) leave in a row after a delay.
    pub fn new(rate: Rate, packet_octets: u32, bucket_octets: u32, start: Time) -> Pacer {
        let rate = u128::from(rate.as_bps().max(1));
        let nanos = |octets: u32| u128::from(octets) * 8 * 1_000_000_000 / rate;
        let spare = bucket_octets.saturating_sub(packet_octets);
        Pacer {
            scaled_bits: u128::from(packet_octets) * 8 * 1_000_000_000,
            rate,
            tolerance: Duration::from_nanos(u64::try_from(nanos(spare)).unwrap_or(u64::MAX)),
            origin: start,
            gone: 0,
        }
    }

    /// Returns the time at which the next packet is due.
    pub fn due(&self) -> Time {
        let nanos = u128::from(self.gone) * self.scaled_bits / self.rate;
        self.origin + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// Records a packet that leaves at `now`. A delay beyond the bucket is lost for good.
    pub fn record(&mut self, now: Time) {
        let excess = now.since(self.due()).saturating_sub(self.tolerance);
        self.origin = self.origin + excess;
        self.gone += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a pacer with a clock that is late by `late(n)` at packet n; returns the times of the packets.
    fn run(pacer: &mut Pacer, packets: u64, late: impl Fn(u64) -> Duration) -> Vec<Time> {
        let mut now = Time::ZERO;
        let mut times = Vec::new();
        for n in 0..packets {
            now = now.max(pacer.due() + late(n));
            pacer.record(now);
            times.push(now);
        }
        times
    }

    #[test]
    fn late_sleeps_do_not_lower_the_rate() {
        // 1 000 octets at 8 Mbit/s: one a millisecond.
        let mut pacer = Pacer::new(Rate::from_mbps(8), 1_000, 2_000, Time::ZERO);
        let times = run(&mut pacer, 10_001, |_| Duration::from_micros(80));
        assert_eq!(times[10_000], Time::from_secs(10) + Duration::from_micros(80));
    }

    /// The sleep lasts for ten packets; the bucket holds four, so the other six are never sent.
    #[test]
    fn delay_beyond_the_bucket_is_lost() {
        let mut pacer = Pacer::new(Rate::from_mbps(8), 1_000, 4_000, Time::ZERO);
        let late = |n| Duration::from_millis(if n == 5 { 10 } else { 0 });
        let times = run(&mut pacer, 12, late);
        let millis: Vec<u64> = times.iter().map(|t| t.as_nanos() / 1_000_000).collect();
        assert_eq!(millis, [0, 1, 2, 3, 4, 15, 15, 15, 15, 16, 17, 18]);
    }
}
