//! Record of a stream: the send and receive time of each packet, and the figures of any interval.
//!
//! The simulator and the traffic tools of the lab fill the same [`Trace`], so that their figures are comparable.

use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::Time;
use serde::{Deserialize, Serialize};

/// One stream of packets of equal length, numbered from 0 in sending order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    packet_octets: u32,
    /// Send times, by number; never decreasing.
    sent: Vec<Time>,
    /// Time of first arrival, by number.
    arrived: Vec<Option<Time>>,
}

/// The figures of an interval.
///
/// Rates count IP packet octets: IP header, UDP header and payload, without link framing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Packets sent in the interval.
    pub packets: u64,
    /// Rate at which they were sent, bits per second.
    pub offered_bps: u64,
    /// Rate of those of them that arrived at any time, bits per second.
    pub received_bps: u64,
    /// Share of them that never arrived, 0 to 1; 0 if none was sent.
    pub loss: f64,
    /// Median of their one-way delays, milliseconds; `None` if none arrived.
    pub delay_p50_ms: Option<f64>,
    /// 99th percentile of their one-way delays (nearest rank), milliseconds; `None` if none arrived.
    pub delay_p99_ms: Option<f64>,
}

/// One-way delays of the packets of a stream that have arrived, and their variation, seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Delays {
    /// Mean.
    pub mean: f64,
    /// Median (nearest rank).
    pub p50: f64,
    /// 99th percentile (nearest rank).
    pub p99: f64,
    /// Maximum.
    pub max: f64,
    /// Interarrival jitter of RFC 3550 section 6.4.1, after the last arrival: the running mean of the variation between
    /// packets in the order of their arrival, where each new value has the weight 1/16.
    pub jitter: f64,
    /// Mean of the absolute delay variation (ipdv, RFC 3393) of all pairs of packets sent one after the other that have
    /// both arrived; 0 without such a pair.
    pub ipdv: f64,
}

impl Trace {
    /// Creates the trace of a stream of packets of `packet_octets` IP octets each, none sent so far.
    pub fn new(packet_octets: u32) -> Trace {
        Trace { packet_octets, ..Trace::default() }
    }

    /// Records that the next packet was sent.
    pub fn leave(&mut self, at: Time) {
        self.sent.push(at);
        self.arrived.push(None);
    }

    /// Returns the trace of the same stream without arrivals.
    pub(crate) fn without_arrivals(&self) -> Trace {
        Trace { arrived: vec![None; self.sent.len()], ..self.clone() }
    }

    /// Records the arrival of packet `sequence`. Ignores one that was not sent, or has arrived before.
    pub fn arrive(&mut self, sequence: u64, at: Time) {
        let slot = usize::try_from(sequence).ok().and_then(|number| self.arrived.get_mut(number));
        if let Some(slot @ None) = slot {
            *slot = Some(at);
        }
    }

    /// Returns the number of sent packets.
    pub fn sent(&self) -> u64 {
        self.sent.len() as u64
    }

    /// Returns the number of received packets.
    pub fn received(&self) -> u64 {
        self.arrived.iter().flatten().count() as u64
    }

    /// Returns the figures of the packets sent in `from..until`.
    pub fn figures(&self, from: Time, until: Time) -> Figures {
        let first = self.sent.partition_point(|&at| at < from);
        let end = self.sent.partition_point(|&at| at < until).max(first);
        let (sent, arrived) = (&self.sent[first..end], &self.arrived[first..end]);
        let mut delays: Vec<Duration> = sent
            .iter()
            .zip(arrived)
            .filter_map(|(&sent, &arrived)| Some(arrived?.since(sent)))
            .collect();
        delays.sort_unstable();
        let (packets, received) = (sent.len() as u64, delays.len() as u64);
        let rate = |packets| rate_bps(packets, self.packet_octets, until.since(from));
        Figures {
            packets,
            offered_bps: rate(packets),
            received_bps: rate(received),
            loss: if packets == 0 { 0.0 } else { (packets - received) as f64 / packets as f64 },
            delay_p50_ms: percentile(&delays, 50),
            delay_p99_ms: percentile(&delays, 99),
        }
    }

    /// Returns the delays of all packets that have arrived; `None` if none has.
    pub fn delays(&self) -> Option<Delays> {
        let delay = |(&sent, &arrived): (&Time, &Option<Time>)| Some(arrived?.since(sent));
        let by_number: Vec<Option<Duration>> =
            self.sent.iter().zip(&self.arrived).map(delay).collect();
        let mut sorted: Vec<Duration> = by_number.iter().copied().flatten().collect();
        sorted.sort_unstable();
        let seconds = |percent| nearest_rank(&sorted, percent).map(|delay| delay.as_secs_f64());
        let sum: Duration = sorted.iter().sum();
        let variation = |pair: &[Option<Duration>]| match pair {
            [Some(one), Some(next)] => Some(one.abs_diff(*next).as_secs_f64()),
            _ => None,
        };
        let pairs = by_number.windows(2).filter_map(variation);
        let (count, total) = pairs.fold((0_u64, 0.0), |(n, sum), next| (n + 1, sum + next));
        Some(Delays {
            mean: sum.as_secs_f64() / sorted.len() as f64,
            p50: seconds(50)?,
            p99: seconds(99)?,
            max: seconds(100)?,
            jitter: self.jitter(),
            ipdv: if count == 0 { 0.0 } else { total / count as f64 },
        })
    }

    /// Returns the interarrival jitter after the last arrival, seconds.
    fn jitter(&self) -> f64 {
        let both = |(&sent, &arrived): (&Time, &Option<Time>)| Some((arrived?, sent));
        let mut packets: Vec<(Time, Time)> =
            self.sent.iter().zip(&self.arrived).filter_map(both).collect();
        packets.sort_unstable();
        let delays: Vec<Duration> =
            packets.iter().map(|&(arrived, sent)| arrived.since(sent)).collect();
        // J(i) = J(i-1) + (|D(i-1,i)| - J(i-1)) / 16
        delays.windows(2).fold(0.0, |jitter, pair| match pair {
            [one, next] => jitter + (one.abs_diff(*next).as_secs_f64() - jitter) / 16.0,
            _ => jitter,
        })
    }

    /// Returns the delay of the latest packet that left in `from..until` and has arrived.
    pub fn latest_delay(&self, from: Time, until: Time) -> Option<Duration> {
        let packets = self.sent.iter().zip(&self.arrived).rev();
        let mut packets = packets.filter(|(sent, _)| (from..until).contains(*sent));
        packets.find_map(|(&sent, &arrived)| Some(arrived?.since(sent)))
    }

    /// Returns when the packets were sent that left in `from..until` and have not arrived, in order.
    pub fn lost(&self, from: Time, until: Time) -> impl Iterator<Item = Time> + '_ {
        let packets = self.sent.iter().zip(&self.arrived);
        let is_lost = move |(sent, arrived): &(&Time, &Option<Time>)| {
            (from..until).contains(*sent) && arrived.is_none()
        };
        packets.filter(is_lost).map(|(sent, _)| *sent)
    }

    /// Returns the rate of arrivals in each `width` of `from..until`, bits per second; at most 100 000 values.
    pub fn arrival_rates(&self, from: Time, until: Time, width: Duration) -> Vec<u64> {
        let width_ns = u64::try_from(width.as_nanos()).unwrap_or(u64::MAX).max(1);
        let span_ns = until.as_nanos().saturating_sub(from.as_nanos());
        let bins = usize::try_from(span_ns.div_ceil(width_ns)).unwrap_or(usize::MAX).min(100_000);
        let mut packets = vec![0_u64; bins];
        for at in self.arrived.iter().flatten().filter(|&&at| at >= from) {
            let bin = at.since(from).as_nanos() as u64 / width_ns;
            if let Some(count) = usize::try_from(bin).ok().and_then(|bin| packets.get_mut(bin)) {
                *count += 1;
            }
        }
        packets.iter().map(|&count| rate_bps(count, self.packet_octets, width)).collect()
    }
}

/// Returns the rate of `packets` of `octets` each in `span`, bits per second, rounded.
fn rate_bps(packets: u64, octets: u32, span: Duration) -> u64 {
    let bits = u128::from(packets) * u128::from(octets) * 8;
    let span = span.as_nanos().max(1);
    u64::try_from((bits * 1_000_000_000 + span / 2) / span).unwrap_or(u64::MAX)
}

/// Returns the nearest-rank percentile of sorted delays, milliseconds.
fn percentile(sorted: &[Duration], percent: usize) -> Option<f64> {
    nearest_rank(sorted, percent).map(|delay| delay.as_secs_f64() * 1e3)
}

/// Returns the nearest-rank percentile of sorted delays; `None` if there are none.
fn nearest_rank(sorted: &[Duration], percent: usize) -> Option<Duration> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 packets of 125 octets, one every 10 ms; every fourth is lost, the n-th takes n milliseconds.
    fn trace() -> Trace {
        let mut trace = Trace::new(125);
        for n in 0..100 {
            trace.leave(Time::from_millis(10 * n));
        }
        for n in (0..100).filter(|n| n % 4 != 3) {
            trace.arrive(n, Time::from_millis(10 * n + n));
        }
        trace
    }

    #[test]
    fn figures_are_those_of_the_span() {
        let whole = trace().figures(Time::ZERO, Time::from_secs(1));
        assert_eq!((whole.packets, whole.offered_bps, whole.received_bps), (100, 100_000, 75_000));
        assert_eq!(
            (whole.loss, whole.delay_p50_ms, whole.delay_p99_ms),
            (0.25, Some(49.0), Some(98.0))
        );
        let half = trace().figures(Time::from_millis(500), Time::from_secs(1));
        assert_eq!((half.packets, half.offered_bps), (50, 100_000));
        let latest = trace().latest_delay(Time::ZERO, Time::from_secs(1));
        assert_eq!(latest, Some(Duration::from_millis(98)));
        assert_eq!(trace().latest_delay(Time::from_secs(2), Time::from_secs(3)), None);
        let lost: Vec<Time> = trace().lost(Time::from_millis(500), Time::from_secs(1)).collect();
        assert_eq!(lost.len() as f64, half.loss * 50.0);
        assert!(lost.iter().all(|at| (500..1_000).contains(&at.since(Time::ZERO).as_millis())));
        let nothing = trace().figures(Time::from_secs(2), Time::from_secs(3));
        assert_eq!((nothing.packets, nothing.loss, nothing.delay_p50_ms), (0, 0.0, None));
        let backwards = trace().figures(Time::from_millis(900), Time::from_millis(100));
        assert_eq!(backwards.packets, 0);
    }

    /// Packets every 10 ms with delays of 1, 3, 2 and 6 ms; the one between the last two is lost.
    #[test]
    fn delays_and_their_variation_follow_the_rfcs() {
        let mut trace = Trace::new(100);
        assert_eq!(trace.delays(), None);
        for (number, delay) in [Some(1), Some(3), Some(2), None, Some(6)].into_iter().enumerate() {
            let at = 10 * number as u64;
            trace.leave(Time::from_millis(at));
            if let Some(delay) = delay {
                trace.arrive(number as u64, Time::from_millis(at + delay));
            }
        }
        let delays = trace.delays().unwrap();
        assert_eq!((delays.mean, delays.p50, delays.p99, delays.max), (0.003, 0.002, 0.006, 0.006));
        // Differences of 2, 1 and 4 ms between arrivals; the lost packet separates the last pair for RFC 3393.
        let jitter = [2.0, 1.0, 4.0].iter().fold(0.0, |j, d| j + (d - j) / 16.0);
        assert!((delays.jitter - jitter / 1e3).abs() < 1e-12, "{delays:?}");
        assert!((delays.ipdv - 0.0015).abs() < 1e-12, "{delays:?}");
    }

    /// A packet that overtakes another is compared with the one that arrived before it.
    #[test]
    fn jitter_follows_the_order_of_arrival() {
        let mut trace = Trace::new(100);
        (0..2).for_each(|number| trace.leave(Time::from_millis(number)));
        trace.arrive(1, Time::from_millis(5));
        trace.arrive(0, Time::from_millis(9));
        let delays = trace.delays().unwrap();
        assert!((delays.jitter - 0.005 / 16.0).abs() < 1e-12, "{delays:?}");
    }

    #[test]
    fn only_the_first_arrival_of_a_packet_that_left_counts() {
        let mut trace = Trace::new(100);
        trace.leave(Time::ZERO);
        trace.arrive(0, Time::from_millis(1));
        trace.arrive(0, Time::from_millis(9));
        trace.arrive(1, Time::from_millis(1));
        trace.arrive(u64::MAX, Time::from_millis(1));
        assert_eq!((trace.sent(), trace.received()), (1, 1));
        assert_eq!(trace.figures(Time::ZERO, Time::from_secs(1)).delay_p99_ms, Some(1.0));
    }

    #[test]
    fn arrivals_fall_into_their_bins() {
        let mut trace = Trace::new(1_250);
        for at in [0, 50, 99, 100, 250, 1_000] {
            trace.leave(Time::from_millis(at));
            trace.arrive(trace.sent() - 1, Time::from_millis(at));
        }
        let rates =
            trace.arrival_rates(Time::ZERO, Time::from_millis(300), Duration::from_millis(100));
        assert_eq!(rates, [300_000, 100_000, 100_000]);
    }
}
