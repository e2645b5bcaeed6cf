//! Time parameters of RSVP (RFC 2205 sections 3.6 and 3.7): in `[rsvp]` those of all interfaces, in `timing` of `[[interface]]` its
//! own.

use std::ops::RangeInclusive;
use std::time::Duration;

use earmark_rsvp::Timing;
use serde::Deserialize;
use toml::Spanned;

use crate::config::{ConfigError, Source};

/// Range of R.
const REFRESH: RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(3_600);
const REFRESH_HINT: &str =
    "refresh (R): RFC 2205 has \"30s\"; from 10ms to 1 hour (60min) are possible";
/// Range of W.
const REPAIR_DELAY: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(600);
const REPAIR_DELAY_HINT: &str =
    "repair_delay (W): RFC 2205 has \"2s\"; from 1ms to 10min are possible";
/// Upper bounds of K and of Slew.Max in percent.
const MAX_LIFETIME_FACTOR: u32 = 100;
const MAX_SLEW_PERCENT: u32 = 1_000;

/// The keys of time parameters.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct TimingTable {
    pub(super) refresh: Option<Spanned<String>>,
    pub(super) lifetime_factor: Option<Spanned<u32>>,
    pub(super) slew_percent: Option<Spanned<u32>>,
    pub(super) repair_delay: Option<Spanned<String>>,
}

/// Time parameters that an interface has of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InterfaceTiming {
    refresh: Option<Duration>,
    lifetime_factor: Option<u32>,
    slew_percent: Option<u32>,
    repair_delay: Option<Duration>,
}

impl InterfaceTiming {
    /// Returns the timing of the interface, given that of all interfaces; `None` if it has none of its own.
    pub(super) fn over(self, general: Timing) -> Option<Timing> {
        (self != InterfaceTiming::default()).then(|| Timing {
            refresh: self.refresh.unwrap_or(general.refresh),
            lifetime_factor: self.lifetime_factor.unwrap_or(general.lifetime_factor),
            slew_percent: self.slew_percent.unwrap_or(general.slew_percent),
            repair_delay: self.repair_delay.unwrap_or(general.repair_delay),
        })
    }
}

impl Source<'_> {
    /// Reads the time parameters of all interfaces.
    pub(super) fn timing(&self, table: TimingTable) -> Result<Timing, ConfigError> {
        let own = self.interface_timing(table)?;
        let defaults = Timing::default();
        Ok(own.over(defaults).unwrap_or(defaults))
    }

    /// Reads the time parameters of one interface.
    pub(super) fn interface_timing(
        &self,
        table: TimingTable,
    ) -> Result<InterfaceTiming, ConfigError> {
        let TimingTable { refresh, lifetime_factor, slew_percent, repair_delay } = table;
        let defaults = Timing::default();
        let duration = |text: Option<Spanned<String>>, range, default, hint| {
            text.map(|text| self.duration(Some(&text), range, default, hint)).transpose()
        };
        let number = |value: Option<Spanned<u32>>, most: u32, default| {
            value.map(|value| self.within(Some(value), 1..most + 1, default)).transpose()
        };
        Ok(InterfaceTiming {
            refresh: duration(refresh, REFRESH, defaults.refresh, REFRESH_HINT)?,
            lifetime_factor: number(
                lifetime_factor,
                MAX_LIFETIME_FACTOR,
                defaults.lifetime_factor,
            )?,
            slew_percent: number(slew_percent, MAX_SLEW_PERCENT, defaults.slew_percent)?,
            repair_delay: duration(
                repair_delay,
                REPAIR_DELAY,
                defaults.repair_delay,
                REPAIR_DELAY_HINT,
            )?,
        })
    }
}
