//! Octets of one fluid stream sent and received, in total and in each second.

use alloc::vec::Vec;

use earmark_core::Time;

use super::rate::{FluidRate, Volume};

const SECOND: u64 = 1_000_000_000;

/// Counters of one fluid stream.
#[derive(Clone, Debug, Default)]
pub(crate) struct Meter {
    /// Time up to which everything is counted.
    at: Time,
    leaves: FluidRate,
    arrives: FluidRate,
    left: Volume,
    arrived: Volume,
    /// Received volume of each second since the start of the network, up to the last one with arrivals.
    seconds: Vec<Volume>,
}

impl Meter {
    pub(crate) fn set_leaving(&mut self, now: Time, rate: FluidRate) {
        self.advance(now);
        self.leaves = rate;
    }

    pub(crate) fn set_arriving(&mut self, now: Time, rate: FluidRate) {
        self.advance(now);
        self.arrives = rate;
    }

    /// Counts up to now.
    pub(crate) fn advance(&mut self, now: Time) {
        let span = now.since(self.at);
        self.left += self.leaves.during(span);
        self.arrived += self.arrives.during(span);
        while self.at < now && self.arrives != FluidRate::ZERO {
            let second = self.at.as_nanos() / SECOND;
            let ends = Time::from_nanos((second + 1).saturating_mul(SECOND)).min(now);
            let second = second as usize; // seconds of a run fit in memory
            if self.seconds.len() <= second {
                self.seconds.resize(second + 1, Volume::default());
            }
            self.seconds[second] += self.arrives.during(ends.since(self.at));
            self.at = ends;
        }
        self.at = self.at.max(now);
    }

    /// Returns the octets sent and received.
    pub(crate) fn octets(&self) -> (u64, u64) {
        (self.left.octets(), self.arrived.octets())
    }

    /// Returns the rate received in each second, bits per second.
    pub(crate) fn rates(&self, until: Time) -> Vec<u64> {
        let seconds = until.since(Time::ZERO).as_nanos().div_ceil(SECOND.into());
        let seconds = usize::try_from(seconds).unwrap_or(usize::MAX).min(100_000);
        let arrived = self.seconds.iter().map(|volume| volume.octets() * 8);
        arrived.chain(core::iter::repeat(0)).take(seconds).collect()
    }
}

#[cfg(test)]
mod tests {
    use earmark_core::Rate;

    use super::*;

    /// 80 kbit/s are sent from 0.5 s to 2.5 s; half of it arrives until 1.75 s, all of it from then on.
    #[test]
    fn seconds_add_up() {
        let [all, half] = [80_000, 40_000].map(|bps| FluidRate::of(Rate::from_bps(bps)));
        let mut meter = Meter::default();
        let at = Time::from_millis;
        meter.set_leaving(at(500), all);
        meter.set_arriving(at(500), half);
        meter.set_arriving(at(1_750), all);
        meter.set_leaving(at(2_500), FluidRate::ZERO);
        meter.set_arriving(at(2_500), FluidRate::ZERO);
        meter.advance(at(9_000));
        assert_eq!(meter.rates(at(4_000)), [20_000, 50_000, 40_000, 0]);
        assert_eq!(meter.octets(), (20_000, 13_750));
        assert_eq!(meter.rates(at(1_500)), [20_000, 50_000]);
    }
}
