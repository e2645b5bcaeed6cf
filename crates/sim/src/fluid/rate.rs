//! Rates of fluid: integers, so that sums of changes are exact, and the same on all machines.

use core::ops::{Add, AddAssign, Sub, SubAssign};
use core::time::Duration;

use earmark_core::Rate;

use crate::packet::FRAMING;

/// Thousandths of a bit per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Flux(u64);

impl Flux {
    pub(crate) const ZERO: Flux = Flux(0);

    pub(crate) fn of(rate: Rate) -> Flux {
        Flux(rate.as_bps().saturating_mul(1_000))
    }

    /// Returns the mean rate of packets of this length at these times.
    pub(crate) fn mean(octets: u32, times: &[Duration]) -> Flux {
        let milli_bits = times.len() as u128 * u128::from(octets) * 8_000;
        let span = times.last().map_or(0, Duration::as_nanos);
        let flux = (milli_bits * 1_000_000_000).checked_div(span).unwrap_or(0);
        Flux(u64::try_from(flux).unwrap_or(u64::MAX))
    }

    /// Returns the bandwidth that packets of this length need at this rate, including framing.
    pub(crate) fn framed(self, octets: u32) -> Flux {
        let octets = u64::from(octets.max(1));
        self.times(Share(octets + u64::from(FRAMING), octets))
    }

    pub(crate) fn minus(self, other: Flux) -> Flux {
        Flux(self.0.saturating_sub(other.0))
    }

    /// Returns a share of this rate, rounded down so that rates never increase.
    pub(crate) fn times(self, Share(part, whole): Share) -> Flux {
        match part == whole {
            true => self,
            false => Flux((u128::from(self.0) * u128::from(part) / u128::from(whole)) as u64),
        }
    }

    /// Returns the volume that flows in a time.
    pub(crate) fn during(self, time: Duration) -> Volume {
        Volume(u128::from(self.0) * time.as_nanos())
    }
}

impl Add for Flux {
    type Output = Flux;

    fn add(self, other: Flux) -> Flux {
        Flux(self.0 + other.0)
    }
}

impl AddAssign for Flux {
    fn add_assign(&mut self, other: Flux) {
        self.0 += other.0;
    }
}

impl Sub for Flux {
    type Output = Flux;

    fn sub(self, other: Flux) -> Flux {
        Flux(self.0 - other.0)
    }
}

impl SubAssign for Flux {
    fn sub_assign(&mut self, other: Flux) {
        self.0 -= other.0;
    }
}

/// A fraction: part and whole; the whole is not 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share(u64, u64);

impl Share {
    pub(crate) const ALL: Share = Share(1, 1);

    /// Returns the share of `wanted` that `room` allows.
    pub(crate) fn of(room: Flux, wanted: Flux) -> Share {
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
