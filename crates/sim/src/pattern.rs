//! Send times of a source's packets.

use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::random::Stream;
use earmark_core::{Rate, Time};

use crate::distributions;

/// Distribution of a source's packets over time.
#[derive(Clone, Debug, PartialEq)]
pub enum TrafficPattern {
    /// Constant rate: packet n is sent within `n * g .. (n + 1) * g` after the start, where g is the time of one packet
    /// at the rate; the position in that interval is drawn for each. So the rate is exact, and sources are not
    /// synchronized.
    Constant(Rate),
    /// Bursts of a token bucket: each time the bucket is full, all of it is sent at once.
    Bucket {
        /// Fill rate.
        rate: Rate,
        /// Depth, octets; at least one packet.
        depth: u32,
    },
    /// Alternating on and off, for exponentially distributed times. While it is on, packets are sent evenly.
    OnOff {
        /// The rate while it is on.
        rate: Rate,
        /// Mean on time.
        on: Duration,
        /// Mean off time.
        off: Duration,
    },
    /// These times after the start, in order.
    Times(Vec<Duration>),
}

/// Future packets of a source.
#[derive(Debug)]
pub(crate) struct Departures {
    pattern: TrafficPattern,
    /// Bits of a packet, times 10^9.
    bits: u64,
    from: Time,
    /// Number of sent packets.
    number: usize,
    /// Start times of the slots of packets, of a burst or of all.
    slots: Slots,
    /// Packets of a burst that have not been sent.
    burst: u64,
    /// Start time of the next burst.
    next_burst: Time,
}

impl Departures {
    pub(crate) fn new(
        pattern: TrafficPattern,
        packet_octets: u32,
        from: Time,
        random: &mut Stream,
    ) -> Self {
        let bits = u64::from(packet_octets).max(1).saturating_mul(8_000_000_000);
        let (mut slots, mut next_burst) = (Slots::default(), from);
        match &pattern {
            TrafficPattern::Constant(rate) => slots = Slots::new(from, bits, *rate),
            TrafficPattern::Bucket { rate, depth } => {
                let fill = full_bucket(bits, *depth);
                slots = Slots::new(from, fill, *rate);
                let first = Slots::new(from, fill, *rate).next();
                next_burst = from + random.uniform(Duration::ZERO, first.since(from));
            }
            TrafficPattern::OnOff { on, off, .. } => {
                next_burst = distributions::first_burst(random, from, *on, *off);
            }
            TrafficPattern::Times(_) => {}
        }
        Departures { pattern, bits, from, number: 0, slots, burst: 0, next_burst }
    }

    /// Returns the time of the next packet; `None` if there is none any more.
    pub(crate) fn next(&mut self, random: &mut Stream) -> Option<Time> {
        let at = match &self.pattern {
            TrafficPattern::Constant(_) => {
                let begins = self.slots.at;
                let ends = self.slots.next();
                begins + random.uniform(Duration::ZERO, ends.since(begins))
            }
            TrafficPattern::Bucket { depth, .. } => {
                if self.burst == 0 {
                    let shift = self.next_burst.since(self.slots.at);
                    self.burst = full_bucket(self.bits, *depth) / self.bits;
                    if self.number > 0 {
                        self.next_burst = self.slots.next() + shift;
                    }
                }
                self.burst -= 1;
                self.next_burst
            }
            TrafficPattern::OnOff { rate, on, off } => {
                if self.burst == 0 {
                    let begins = self.next_burst;
                    let lasts = distributions::exponential(random, *on);
                    self.slots = Slots::new(begins, self.bits, *rate);
                    let packets = lasts.as_nanos() * u128::from(rate.as_bps());
                    let packets = (packets + u128::from(self.bits / 2)) / u128::from(self.bits);
                    self.burst = u64::try_from(packets).unwrap_or(u64::MAX).max(1);
                    self.next_burst = begins + lasts + distributions::exponential(random, *off);
                }
                self.burst -= 1;
                let begins = self.slots.at;
                self.slots.next();
                begins
            }
            TrafficPattern::Times(times) => self.from + *times.get(self.number)?,
        };
        self.number += 1;
        Some(at)
    }
}

/// Returns the bits of the whole packets in a full bucket, times 10^9.
fn full_bucket(bits: u64, depth: u32) -> u64 {
    let packets = u64::from(depth).saturating_mul(8_000_000_000) / bits;
    bits.saturating_mul(packets.max(1))
}

/// Times at intervals of this many bits at a rate, each exact to the nanosecond below.
#[derive(Debug, Default)]
struct Slots {
    at: Time,
    /// Whole nanoseconds of the interval.
    step: u64,
    /// Remainder of the interval, nanoseconds in parts of the rate.
    rest: u64,
    rate: u64,
    /// Accumulated remainders, always below the rate.
    left: u64,
}

impl Slots {
    /// Creates slots of `bits`, given times 10^9.
    fn new(at: Time, bits: u64, rate: Rate) -> Slots {
        let rate = rate.as_bps().max(1);
        Slots { at, step: bits / rate, rest: bits % rate, rate, left: 0 }
    }

    fn next(&mut self) -> Time {
        self.left += self.rest; // both are below the rate, which is far below 2^63
        let more = u64::from(self.left >= self.rate);
        self.left -= self.rate * more;
        self.at = self.at + Duration::from_nanos(self.step + more);
        self.at
    }
}

#[cfg(test)]
mod tests {
    use earmark_core::random::RandomStreams;

    use super::*;

    fn departures(pattern: TrafficPattern, octets: u32, count: usize) -> Vec<f64> {
        let mut random = RandomStreams::new(5).stream("shape");
        let mut departures = Departures::new(pattern, octets, Time::from_secs(1), &mut random);
        let next = core::iter::from_fn(|| departures.next(&mut random));
        next.take(count).map(|at| at.as_secs_f64() - 1.0).collect()
    }

    /// 100 kbit/s in packets of 125 octets: one in each 10 ms.
    #[test]
    fn a_constant_rate_has_one_packet_in_each_slot() {
        let times = departures(TrafficPattern::Constant(Rate::from_bps(100_000)), 125, 1_000);
        for (slot, at) in times.iter().enumerate() {
            let begins = slot as f64 / 100.0;
            assert!((begins..=begins + 0.01).contains(at), "{slot}: {at}");
        }
    }

    /// Slots of 8/3 ns start at 0, 2, 5, 8, 10 ...
    #[test]
    fn remainders_are_carried_over() {
        let mut slots = Slots::new(Time::ZERO, 8, Rate::from_bps(3));
        let begins: Vec<u64> = (0..6).map(|_| slots.next().as_nanos()).collect();
        assert_eq!(begins, [2, 5, 8, 10, 13, 16]);
    }

    /// 5 000 octets at 100 kbit/s: forty packets each 400 ms.
    #[test]
    fn a_bucket_is_emptied_at_once() {
        let pattern = TrafficPattern::Bucket { rate: Rate::from_bps(100_000), depth: 5_000 };
        let times = departures(pattern, 125, 120);
        let [first, second, third] = [times[0], times[40], times[80]];
        assert!((0.0..0.4).contains(&first), "{first}");
        assert!((second - first - 0.4).abs() < 1e-6 && (third - second - 0.4).abs() < 1e-6);
        for burst in times.chunks(40) {
            assert!(burst.iter().all(|at| *at == burst[0]), "{burst:?}");
        }
        let tiny = TrafficPattern::Bucket { rate: Rate::from_bps(100_000), depth: 10 };
        let times = departures(tiny, 125, 3);
        assert!((times[1] - times[0] - 0.01).abs() < 1e-6, "one packet at least");
    }

    /// The source of the study: 500 kbit/s for 1 s, then 0.5 s off: a mean of a third of a megabit. The sum of the
    /// times of 10 000 cycles has a standard deviation of 0.75 %.
    #[test]
    fn on_and_off_times_have_their_means() {
        let pattern = TrafficPattern::OnOff {
            rate: Rate::from_bps(500_000),
            on: Duration::from_secs(1),
            off: Duration::from_millis(500),
        };
        let times = departures(pattern, 125, 5_000_000);
        let rate = times.len() as f64 * 1_000.0 / times.last().expect("many");
        assert!((325_000.0..342_000.0).contains(&rate), "{rate}");
        let gaps = times.windows(2).map(|pair| pair[1] - pair[0]);
        let pauses: Vec<f64> = gaps.filter(|gap| *gap > 0.002_001).collect();
        assert!((9_500..10_500).contains(&pauses.len()), "{}", pauses.len());
        let mean = pauses.iter().sum::<f64>() / pauses.len() as f64;
        assert!((0.48..0.53).contains(&mean), "{mean}");
    }

    #[test]
    fn given_times_are_send_times() {
        let times = [0, 5, 5, 9].map(Duration::from_secs).to_vec();
        assert_eq!(departures(TrafficPattern::Times(times), 125, 9), [0.0, 5.0, 5.0, 9.0]);
    }
}
