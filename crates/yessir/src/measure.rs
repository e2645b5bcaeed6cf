//! Measurement mode: the rate of a stream, derived from its sender reports.
//!
//! Two successive reports give the packets and octets of payload sent between two times of the sender's clock.
//! Payload and the headers of the packets make a rate; the largest rate of a time window, with some headroom, is
//! requested. So a stream that grows gets more with its next report, and one that pauses keeps its reservation for at
//! least half a window and at most a whole one. The request is rounded up to five binary digits: a stream that varies
//! little makes the same request each time, and nothing changes.

use core::time::Duration;

use earmark_core::{Rate, Time};
use earmark_wire::rtcp::{RTP_HEADER, SenderInfo};
use earmark_wire::udp;

use crate::config::Measuring;

/// Minimum time between reports that give a rate.
const CLOSEST: Duration = Duration::from_millis(100);
/// Maximum time between two reports for which the sender's clock is used.
const FARTHEST: Duration = Duration::from_secs(3_600);

/// Measured rate of one stream.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Measurement {
    last: SenderInfo,
    /// Arrival time of the last report.
    at: Time,
    /// Largest rate of the current half of the window, bits per second.
    present: u64,
    /// Largest rate of the previous half, bits per second.
    before: u64,
    /// Start of the current half.
    since: Time,
    /// Whether two reports have arrived, so that there is a rate.
    pub(crate) known: bool,
}

impl Measurement {
    /// Starts a measurement with the first report, which gives no rate yet.
    pub(crate) fn new(now: Time, first: SenderInfo) -> Measurement {
        Measurement { last: first, at: now, present: 0, before: 0, since: now, known: false }
    }

    /// Adds a report.
    pub(crate) fn report(&mut self, now: Time, report: SenderInfo, window: u16, ipv6: bool) {
        let packets = report.packets.wrapping_sub(self.last.packets);
        let octets = report.octets.wrapping_sub(self.last.octets);
        if packets > u32::MAX / 2 || octets > u32::MAX / 2 {
            // The counters have restarted: another stream, as far as rates go.
            *self = Measurement { last: report, at: now, ..*self };
            return;
        }
        let elapsed = elapsed(&self.last, &report).unwrap_or(now.since(self.at));
        if elapsed < CLOSEST {
            return;
        }
        let ip = if ipv6 { 40 } else { 20 };
        let headers = (ip + udp::HEADER + RTP_HEADER) as u64;
        let bits = 8 * (u64::from(octets) + u64::from(packets) * headers);
        let rate = u128::from(bits) * 1_000_000_000 / elapsed.as_nanos();
        let half = Duration::from_secs(u64::from(window)) / 2;
        if now.since(self.since) >= half {
            // After so long without a report the previous half has expired.
            self.before = if now.since(self.since) >= 2 * half { 0 } else { self.present };
            (self.present, self.since) = (0, now);
        }
        self.present = self.present.max(u64::try_from(rate).unwrap_or(u64::MAX));
        (self.last, self.at, self.known) = (report, now, true);
    }

    /// Returns the rate to reserve.
    pub(crate) fn rate(&self, measuring: &Measuring) -> Rate {
        let largest = u128::from(self.present.max(self.before));
        let wanted = largest * u128::from(100 + u32::from(measuring.headroom)) / 100;
        let rate = rounded_up(u64::try_from(wanted).unwrap_or(u64::MAX));
        Rate::from_bps(rate).min(measuring.largest.unwrap_or(Rate::MAX))
    }
}

/// Returns the time between two reports by the sender's clock, if the clock is plausible: a sender need not have one.
fn elapsed(earlier: &SenderInfo, later: &SenderInfo) -> Option<Duration> {
    let ntp = later.ntp.wrapping_sub(earlier.ntp);
    let nanos = (u128::from(ntp) * 1_000_000_000) >> 32;
    let elapsed = Duration::from_nanos(u64::try_from(nanos).ok()?);
    (ntp > 0 && elapsed <= FARTHEST).then_some(elapsed)
}

/// Returns the next number with at most five significant binary digits.
fn rounded_up(rate: u64) -> u64 {
    let step = 1_u64 << rate.checked_ilog2().unwrap_or(0).saturating_sub(4);
    rate.checked_next_multiple_of(step).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a report at a second of the sender's clock.
    fn report(second: u64, packets: u32, octets: u32) -> SenderInfo {
        SenderInfo { ntp: second << 32, rtp_timestamp: 0, packets, octets }
    }

    const EXACT: Measuring = Measuring { window: 60, headroom: 0, largest: None };

    /// 50 packets of 160 octets per second are 80 kbit/s with headers, whenever the reports arrive.
    #[test]
    fn rate_includes_headers_and_uses_sender_clock() {
        let mut measurement = Measurement::new(Time::from_secs(1), report(1_000, 7, 1_120));
        assert!(!measurement.known);
        measurement.report(Time::from_secs(9), report(1_005, 257, 41_120), 60, false);
        assert!(measurement.known);
        assert_eq!(measurement.rate(&EXACT).as_bps(), rounded_up(80_000));
        let with_headroom = Measuring { headroom: 20, ..EXACT };
        assert_eq!(measurement.rate(&with_headroom).as_bps(), rounded_up(96_000));
        let capped = Measuring { largest: Some(Rate::from_bps(50_000)), ..EXACT };
        assert_eq!(measurement.rate(&capped).as_bps(), 50_000);
    }

    #[test]
    fn missing_clock_uses_arrival_time() {
        let mut measurement = Measurement::new(Time::from_secs(1), report(0, 0, 0));
        measurement.report(Time::from_secs(6), report(0, 250, 40_000), 60, true);
        assert_eq!(measurement.rate(&EXACT).as_bps(), rounded_up(88_000));
    }

    #[test]
    fn window_maximum_is_used_and_expires() {
        let mut measurement = Measurement::new(Time::ZERO, report(1, 0, 0));
        let mut octets = 0_u32;
        let mut rates = [0; 14];
        for (step, rate) in (1..).zip(&mut rates) {
            // One busy interval of 10 s, then silence.
            octets = octets.wrapping_add(if step == 1 { 1_250_000 } else { 0 });
            measurement.report(
                Time::from_secs(10 * step),
                report(1 + 10 * step, 0, octets),
                60,
                false,
            );
            *rate = measurement.rate(&EXACT).as_bps();
        }
        let loud = rounded_up(1_000_000);
        assert_eq!(rates[..5], [loud; 5]);
        assert_eq!(rates[6..], [0; 8]);
    }

    #[test]
    fn restarted_stream_keeps_its_rate() {
        let mut measurement = Measurement::new(Time::ZERO, report(1, 0, 0));
        measurement.report(Time::from_secs(5), report(6, 0, 5_000), 60, false);
        measurement.report(Time::from_secs(10), report(1, 0, 100), 60, false);
        measurement.report(Time::from_secs(15), report(6, 0, 5_100), 60, false);
        assert_eq!(measurement.rate(&EXACT).as_bps(), rounded_up(8_000));
    }

    #[test]
    fn wrapped_counters_continue() {
        let mut measurement = Measurement::new(Time::ZERO, report(1, u32::MAX - 9, u32::MAX - 99));
        measurement.report(Time::from_secs(1), report(2, 0, 900), 60, false);
        assert_eq!(measurement.rate(&EXACT).as_bps(), rounded_up(8 * (1_000 + 10 * 40)));
    }

    #[test]
    fn rounding_adds_at_most_a_sixteenth() {
        for rate in [0, 1, 31, 32, 33, 1_000, 80_000, 12_345_678, u64::MAX - 1] {
            let rounded = rounded_up(rate);
            assert!(rounded >= rate && rounded - rate <= rate / 16, "{rate} {rounded}");
        }
        assert_eq!(rounded_up(u64::MAX), u64::MAX);
    }
}
