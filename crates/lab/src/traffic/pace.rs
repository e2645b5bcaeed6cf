//! The pace of a source: when each packet is due, as a token bucket has it.

use std::time::Duration;

use earmark_core::{Rate, Time};

/// Says when the next packet may go. All packets of a stream are of one length.
#[derive(Clone, Debug)]
pub struct Pacer {
    /// Bits of a packet times 10^9: divided by the rate, nanoseconds.
    scaled_bits: u128,
    rate: u128,
    /// How late a packet may go without the ones after it being put off.
    patience: Duration,
    origin: Time,
    /// Packets that went since `origin`.
    gone: u64,
}

impl Pacer {
    /// Packets of `packet_octets` at `rate` from `start` on; no more than `bucket_octets` (one packet at least) go in a
    /// row, however late it has become.
    pub fn new(rate: Rate, packet_octets: u32, bucket_octets: u32, start: Time) -> Pacer {
        let rate = u128::from(rate.as_bps().max(1));
        let nanos = |octets: u32| u128::from(octets) * 8 * 1_000_000_000 / rate;
        let spare = bucket_octets.saturating_sub(packet_octets);
        Pacer {
            scaled_bits: u128::from(packet_octets) * 8 * 1_000_000_000,
            rate,
            patience: Duration::from_nanos(u64::try_from(nanos(spare)).unwrap_or(u64::MAX)),
            origin: start,
            gone: 0,
        }
    }

    /// When the next packet is due.
    pub fn due(&self) -> Time {
        let nanos = u128::from(self.gone) * self.scaled_bits / self.rate;
        self.origin + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// A packet goes, at `now`. Where it goes later than the bucket allows for, the time beyond is lost for good.
    pub fn go(&mut self, now: Time) {
        let excess = now.since(self.due()).saturating_sub(self.patience);
        self.origin = self.origin + excess;
        self.gone += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lets a pacer run with a clock that is late by `late(n)` at packet n: the times of the packets.
    fn run(pacer: &mut Pacer, packets: u64, late: impl Fn(u64) -> Duration) -> Vec<Time> {
        let mut now = Time::ZERO;
        let mut times = Vec::new();
        for n in 0..packets {
            now = now.max(pacer.due() + late(n));
            pacer.go(now);
            times.push(now);
        }
        times
    }

    #[test]
    fn overshooting_sleeps_do_not_slow_it_down() {
        // 1 000 octets at 8 Mbit/s: one a millisecond.
        let mut pacer = Pacer::new(Rate::from_mbps(8), 1_000, 2_000, Time::ZERO);
        let times = run(&mut pacer, 10_001, |_| Duration::from_micros(80));
        assert_eq!(times[10_000], Time::from_secs(10) + Duration::from_micros(80));
    }

    /// Ten packets' time is slept through; the bucket holds four, so the other six never go.
    #[test]
    fn what_does_not_fit_the_bucket_is_lost() {
        let mut pacer = Pacer::new(Rate::from_mbps(8), 1_000, 4_000, Time::ZERO);
        let late = |n| Duration::from_millis(if n == 5 { 10 } else { 0 });
        let times = run(&mut pacer, 12, late);
        let millis: Vec<u64> = times.iter().map(|t| t.as_nanos() / 1_000_000).collect();
        assert_eq!(millis, [0, 1, 2, 3, 4, 15, 15, 15, 15, 16, 17, 18]);
    }
}
