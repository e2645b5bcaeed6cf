//! Demand of a flow specification on a link: the rate that counts, and the rate that a delay bound needs.

use earmark_wire::intserv::{FlowSpec, SenderTspec};

use super::{Demand, Service};
use crate::Rate;

impl Demand {
    /// Returns what a flow specification claims of each link: the token rate r for controlled load (RFC 2211), the
    /// reserved rate R for guaranteed service (RFC 2212). Fractions of an octet round up. Invalid numbers (negative,
    /// NaN) count as zero, so check the specification first.
    pub fn from_flowspec(flowspec: &FlowSpec) -> Demand {
        let (service, rate, bucket) = match flowspec {
            FlowSpec::ControlledLoad(bucket) => (Service::ControlledLoad, bucket.rate, bucket),
            FlowSpec::Guaranteed(bucket, rspec) => (Service::Guaranteed, rspec.rate, bucket),
        };
        Demand {
            service,
            rate: Rate::from_octets_per_second(rate),
            burst: whole_octets(bucket.depth),
            max_packet: bucket.max_packet_size,
            min_packet: bucket.min_policed_unit.clamp(SMALLEST_PACKET, LARGEST_UNIT) as u16,
        }
    }
}

impl Demand {
    /// Value of [`min_packet`](Demand::min_packet) for a demand that counts without the overhead of a link.
    pub const WITHOUT_OVERHEAD: u16 = u16::MAX;

    /// Returns the rate that the demand counts as on a link that adds `overhead` octets to each IP packet (link-layer
    /// headers, tunnels), rounded up. Covers the worst case, in which all packets have the minimum size (m of RFC 2210
    /// section 3.1).
    pub fn rate_on_link(&self, overhead: u16) -> Rate {
        let (packet, frame) = self.smallest_packet(overhead);
        let whole = (u128::from(self.rate.as_bps()) * frame).div_ceil(packet);
        Rate::from_bps(u64::try_from(whole).unwrap_or(u64::MAX))
    }

    /// Returns the largest rate that this demand could have if it is to count as no more than `rate` on a link that
    /// adds `overhead` octets to each IP packet.
    pub(super) fn rate_within(&self, rate: Rate, overhead: u16) -> Rate {
        let (packet, frame) = self.smallest_packet(overhead);
        Rate::from_bps((u128::from(rate.as_bps()) * packet / frame) as u64) // no more than `rate`
    }

    /// Returns the smaller of two values of [`min_packet`](Demand::min_packet), for a demand that covers two flows.
    #[must_use]
    pub fn smaller_unit(a: u16, b: u16) -> u16 {
        core::cmp::min_by_key(a, b, |unit| if *unit == 0 { UNKNOWN_PACKET as u16 } else { *unit })
    }

    /// Returns the size of the smallest packet, without and with the overhead of a link.
    fn smallest_packet(&self, overhead: u16) -> (u128, u128) {
        let (packet, overhead) = match self.min_packet {
            Self::WITHOUT_OVERHEAD => (1, 0),
            0 => (UNKNOWN_PACKET, overhead),
            octets => (u32::from(octets).max(SMALLEST_PACKET), overhead),
        };
        (packet.into(), u128::from(packet) + u128::from(overhead))
    }
}

/// Minimum size of an IP packet, octets: its header.
const SMALLEST_PACKET: u32 = 20;
/// Minimum policed unit of a demand that states none, octets.
const UNKNOWN_PACKET: u32 = 64;
/// Largest minimum policed unit that a demand states, octets; no packet is larger.
const LARGEST_UNIT: u32 = Demand::WITHOUT_OVERHEAD as u32 - 1;

/// Returns the rate R that a receiver must reserve for a queueing delay of at most `bound_us` microseconds: RFC
/// 2212's end-to-end bound (section "End-to-End Behavior") solved for R.
///
/// `c_tot` (octets) and `d_tot_us` (microseconds) are the error terms of the path from its ADSPEC. Never less than
/// the token rate r. `None` if no rate is enough (`d_tot_us` alone exceeds the bound), if the rate would exceed any
/// link, or if the traffic specification is not a valid token bucket.
pub fn guaranteed_rate(
    tspec: &SenderTspec,
    c_tot: u32,
    d_tot_us: u32,
    bound_us: u32,
) -> Option<Rate> {
    let bucket = Bucket::of(tspec)?;
    let budget = f64::from(bound_us.checked_sub(d_tot_us).filter(|&us| us > 0)?) / 1e6;
    let error = bucket.max_packet + f64::from(c_tot);
    // R >= p: the burst is never faster than R, so only packet and error term take time.
    let above_peak = error / budget;
    let rate = if above_peak >= bucket.peak {
        above_peak
    } else {
        // p > R >= r, with the length of the burst at peak rate (b-M)/(p-r):
        // budget = length * (p-R)/R + error/R.
        let (length, peak_times_length) = bucket.burst_length();
        (peak_times_length + error) / (budget + length)
    };
    let bits = rate.max(bucket.rate) * 8.0;
    let whole = bits as u64; // saturates
    let rounded = if (whole as f64) < bits { whole.saturating_add(1) } else { whole };
    (rounded < u64::MAX).then_some(Rate::from_bps(rounded))
}

/// Returns the maximum queueing delay, microseconds, of traffic that conforms to `tspec` if each link of the path
/// reserves `rate` (RFC 2212, "End-to-End Behavior"). `None` below the token rate, where there is no bound, and if
/// the traffic specification is not a valid token bucket.
pub fn guaranteed_delay_us(
    tspec: &SenderTspec,
    c_tot: u32,
    d_tot_us: u32,
    rate: Rate,
) -> Option<f64> {
    let bucket = Bucket::of(tspec)?;
    let rate = rate.as_bps() as f64 / 8.0;
    if rate < bucket.rate || rate == 0.0 {
        return None;
    }
    let mut seconds = (bucket.max_packet + f64::from(c_tot)) / rate;
    if rate < bucket.peak {
        let (length, peak_times_length) = bucket.burst_length();
        seconds += (peak_times_length - length * rate) / rate;
    }
    Some(seconds * 1e6 + f64::from(d_tot_us))
}

/// A token bucket in valid numbers: r <= p, and M <= b. Octets and seconds.
struct Bucket {
    rate: f64,
    depth: f64,
    /// Peak rate; infinite if unknown.
    peak: f64,
    max_packet: f64,
}

impl Bucket {
    fn of(tspec: &SenderTspec) -> Option<Bucket> {
        let (rate, depth, peak) = (tspec.rate, tspec.depth, tspec.peak);
        // Written so that NaN fails, too.
        if !(rate >= 0.0 && rate.is_finite() && depth >= 0.0 && depth.is_finite() && peak >= 0.0) {
            return None;
        }
        let max_packet = f64::from(tspec.max_packet_size);
        Some(Bucket {
            rate: f64::from(rate),
            depth: f64::from(depth).max(max_packet),
            peak: f64::from(peak).max(f64::from(rate)),
            max_packet,
        })
    }

    /// Returns the maximum length of a burst at peak rate, (b-M)/(p-r) seconds, and its product with p, which is
    /// finite even if the peak rate is not. Only for r < p.
    fn burst_length(&self) -> (f64, f64) {
        let burst = self.depth - self.max_packet;
        if self.peak.is_infinite() {
            return (0.0, burst);
        }
        let length = burst / (self.peak - self.rate);
        (length, length * self.peak)
    }
}

/// Rounds up; too large numbers are cut, invalid ones become zero.
fn whole_octets(octets: f32) -> u32 {
    let octets = f64::from(octets);
    let whole = octets as u32; // saturates; NaN and negatives give 0
    if f64::from(whole) < octets { whole.saturating_add(1) } else { whole }
}

#[cfg(test)]
mod tests {
    use earmark_wire::intserv::{Rspec, TokenBucket};

    use super::*;

    /// A video of 1 Mbit/s with bursts of 20 packets at 8 Mbit/s.
    const VIDEO: TokenBucket = TokenBucket {
        rate: 125_000.0,
        depth: 30_000.0,
        peak: 1_000_000.0,
        min_policed_unit: 64,
        max_packet_size: 1_500,
    };

    #[test]
    fn controlled_load_counts_token_rate_and_guaranteed_reserved_rate() {
        let expected = Demand {
            service: Service::ControlledLoad,
            rate: Rate::from_mbps(1),
            burst: 30_000,
            max_packet: 1_500,
            min_packet: 64,
        };
        assert_eq!(Demand::from_flowspec(&FlowSpec::ControlledLoad(VIDEO)), expected);
        let guaranteed = FlowSpec::Guaranteed(VIDEO, Rspec { rate: 250_000.0, slack_us: 0 });
        let expected =
            Demand { service: Service::Guaranteed, rate: Rate::from_mbps(2), ..expected };
        assert_eq!(Demand::from_flowspec(&guaranteed), expected);
    }

    /// Packets of 64 octets with 16 more each need a quarter more; voice in small packets through a tunnel needs
    /// twice as much.
    #[test]
    fn overhead_counts_for_smallest_packets() {
        let demand = Demand::from_flowspec(&FlowSpec::ControlledLoad(VIDEO));
        for (overhead, min_packet, rate) in [
            (0, 64, 1_000_000),
            (16, 64, 1_250_000),
            (60, 60, 2_000_000),
            (1, 1_500, 1_000_667),
            (20, 1, 2_000_000),
            (16, 0, 1_250_000),
            (u16::MAX, 20, 3_277_750_000),
            (u16::MAX, Demand::WITHOUT_OVERHEAD, 1_000_000),
        ] {
            let demand = Demand { min_packet, ..demand };
            let on_link = demand.rate_on_link(overhead);
            assert_eq!(on_link.as_bps(), rate, "{overhead} {min_packet}");
            assert_eq!(demand.rate_within(on_link, overhead), demand.rate);
            let less = Rate::from_bps(rate - 1);
            assert!(demand.rate_within(less, overhead) < demand.rate, "{overhead} {min_packet}");
        }
        let most = Demand { rate: Rate::MAX, ..demand };
        assert_eq!((most.rate_on_link(1), most.rate_within(Rate::MAX, 0)), (Rate::MAX, Rate::MAX));
    }

    #[test]
    fn unknown_unit_is_compared_as_it_counts() {
        for (a, b, expected) in [(40, 100, 40), (0, 100, 0), (63, 0, 63), (0, 0, 0)] {
            assert_eq!(Demand::smaller_unit(a, b), expected);
            assert_eq!(Demand::smaller_unit(b, a), expected);
        }
    }

    #[test]
    fn minimum_policed_unit_is_within_sizes_of_packets() {
        for (unit, expected) in [(0, 20), (20, 20), (1_500, 1_500), (u32::MAX, 0xfffe)] {
            let bucket = TokenBucket { min_policed_unit: unit, ..VIDEO };
            let demand = Demand::from_flowspec(&FlowSpec::ControlledLoad(bucket));
            assert_eq!(demand.min_packet, expected, "{unit}");
        }
    }

    #[test]
    fn invalid_flowspec_claims_nothing_and_fractions_round_up() {
        let odd = TokenBucket { rate: f32::NAN, depth: -1.0, ..VIDEO };
        let demand = Demand::from_flowspec(&FlowSpec::ControlledLoad(odd));
        assert_eq!((demand.rate, demand.burst), (Rate::ZERO, 0));
        assert_eq!(whole_octets(0.5), 1);
        assert_eq!(whole_octets(f32::INFINITY), u32::MAX);
    }

    /// Calculated by hand. Below the peak: length (30000-1500)/(1000000-125000) = 32.571 ms; for 100 ms, of which 10
    /// ms are D: R = (0.032571 * 1000000 + 1500 + 4500) / (0.090 + 0.032571) = 314685.3 octets/s. Above it: for 14
    /// ms, R = (1500 + 4500) / 0.004 = 1500000 octets/s.
    #[test]
    fn rate_for_delay_bound_matches_hand_calculation() {
        let below = guaranteed_rate(&VIDEO, 4_500, 10_000, 100_000).expect("possible");
        assert_eq!(below.as_bps().div_ceil(8), 314_686);
        let above = guaranteed_rate(&VIDEO, 4_500, 10_000, 14_000).expect("possible");
        assert_eq!(above, Rate::from_mbps(12));
        // Without a peak rate the bound is b/R + C/R + D (RFC 2212, "Guidelines for Implementors"): 34500 / 0.069.
        let unknown_peak = TokenBucket { peak: f32::INFINITY, ..VIDEO };
        let rate = guaranteed_rate(&unknown_peak, 4_500, 10_000, 79_000).expect("possible");
        assert_eq!(rate, Rate::from_mbps(4));
        // A loose bound needs no more than the token rate.
        assert_eq!(guaranteed_rate(&VIDEO, 4_500, 0, 60_000_000), Some(Rate::from_mbps(1)));
    }

    #[test]
    fn impossible_delay_bound_is_none() {
        assert_eq!(guaranteed_rate(&VIDEO, 0, 10_000, 10_000), None, "D uses the bound up");
        assert_eq!(guaranteed_rate(&VIDEO, 0, 10_001, 10_000), None);
        for odd in [f32::NAN, -1.0, f32::INFINITY] {
            assert_eq!(guaranteed_rate(&TokenBucket { rate: odd, ..VIDEO }, 0, 0, 10_000), None);
            assert_eq!(guaranteed_rate(&TokenBucket { depth: odd, ..VIDEO }, 0, 0, 10_000), None);
        }
        assert_eq!(guaranteed_delay_us(&VIDEO, 0, 0, Rate::from_bps(999_999)), None);
        assert_eq!(guaranteed_delay_us(&TokenBucket::default(), 0, 0, Rate::ZERO), None);
    }

    proptest::proptest! {
        /// The rate keeps the bound, and a rate a thousandth lower would not, except for the token rate.
        #[test]
        fn rate_keeps_the_bound_and_is_minimal(
            rate in 1_000_f32..1e7,
            peak_factor in 1_f32..100.0,
            depth in 0_f32..1e6,
            max_packet_size in 0_u32..65_536,
            c_tot in 0_u32..1_000_000,
            d_tot in 0_u32..1_000_000,
            spare in 100_u32..10_000_000,
        ) {
            let peak = if peak_factor > 90.0 { f32::INFINITY } else { rate * peak_factor };
            let tspec = TokenBucket { rate, depth, peak, min_policed_unit: 0, max_packet_size };
            let bound = d_tot + spare;
            let found = guaranteed_rate(&tspec, c_tot, d_tot, bound).expect("there is time");
            let delay = guaranteed_delay_us(&tspec, c_tot, d_tot, found).expect("at least r");
            proptest::prop_assert!(delay <= f64::from(bound) * (1.0 + 1e-9), "{delay} > {bound}");
            let less = Rate::from_bps(found.as_bps() - found.as_bps().div_ceil(1_000));
            if let Some(delay) = guaranteed_delay_us(&tspec, c_tot, d_tot, less) {
                proptest::prop_assert!(delay > f64::from(bound), "{less} would do: {delay}");
            }
        }
    }
}
