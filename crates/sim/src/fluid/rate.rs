//! Rates of fluid: integers, so that sums of changes are exact, and the same on all machines.

use core::ops::{Add, AddAssign, Sub, SubAssign};
use core::time::Duration;

use earmark_core::Rate;

use crate::packet::FRAMING;

/// Thousandths of a bit per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FluidRate(u64);

impl FluidRate {
    pub(crate) const ZERO: FluidRate = FluidRate(0);

    pub(crate) fn of(rate: Rate) -> FluidRate {
        FluidRate(rate.as_bps().saturating_mul(1_000))
    }

    /// Returns the mean rate of packets of this length at these times.
    pub(crate) fn mean(octets: u32, times: &[Duration]) -> FluidRate {
        let milli_bits = times.len() as u128 * u128::from(octets) * 8_000;
        let span = times.last().map_or(0, Duration::as_nanos);
        let rate = (milli_bits * 1_000_000_000).checked_div(span).unwrap_or(0);
        FluidRate(u64::try_from(rate).unwrap_or(u64::MAX))
    }

    /// Returns the bandwidth that packets of this length need at this rate, including framing.
    pub(crate) fn framed(self, octets: u32) -> FluidRate {
        let octets = u64::from(octets.max(1));
        self.times(Share(octets + u64::from(FRAMING), octets))
    }

    pub(crate) fn minus(self, other: FluidRate) -> FluidRate {
        FluidRate(self.0.saturating_sub(other.0))
    }

    /// Returns a share of this rate, rounded down so that rates never increase.
    pub(crate) fn times(self, Share(part, whole): Share) -> FluidRate {
        match part == whole {
            true => self,
            false => FluidRate((u128::from(self.0) * u128::from(part) / u128::from(whole)) as u64),
        }
    }

    /// Returns the volume that flows in a time.
    pub(crate) fn during(self, time: Duration) -> Volume {
        Volume(u128::from(self.0) * time.as_nanos())
    }
}

impl Add for FluidRate {
    type Output = FluidRate;

    fn add(self, other: FluidRate) -> FluidRate {
        FluidRate(self.0 + other.0)
    }
}

impl AddAssign for FluidRate {
    fn add_assign(&mut self, other: FluidRate) {
        self.0 += other.0;
    }
}

impl Sub for FluidRate {
    type Output = FluidRate;

    fn sub(self, other: FluidRate) -> FluidRate {
        FluidRate(self.0 - other.0)
    }
}

impl SubAssign for FluidRate {
    fn sub_assign(&mut self, other: FluidRate) {
        self.0 -= other.0;
    }
}

/// A fraction: part and whole; the whole is not 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share(u64, u64);

impl Share {
    pub(crate) const ALL: Share = Share(1, 1);

    /// Returns the share of `wanted` that `room` allows.
    pub(crate) fn of(room: FluidRate, wanted: FluidRate) -> Share {
        match room < wanted {
            true => Share(room.0, wanted.0),
            false => Share::ALL,
        }
    }
}

impl PartialEq for Share {
    fn eq(&self, other: &Share) -> bool {
        u128::from(self.0) * u128::from(other.1) == u128::from(other.0) * u128::from(self.1)
    }
}

/// A volume: 10^-12 bit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Volume(u128);

impl Volume {
    /// Returns whole octets, rounded.
    pub(crate) fn octets(self) -> u64 {
        const OCTET: u128 = 8_000_000_000_000;
        u64::try_from((self.0 + OCTET / 2) / OCTET).unwrap_or(u64::MAX)
    }
}

impl AddAssign for Volume {
    fn add_assign(&mut self, other: Volume) {
        self.0 += other.0;
    }
}
