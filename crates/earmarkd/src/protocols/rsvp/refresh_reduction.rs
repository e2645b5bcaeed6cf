//! `[rsvp.reduction]` and `[rsvp.hello]`: refresh reduction (RFC 2961) and Hello messages.

use std::time::Duration;

use earmark_rsvp::{HelloTiming, Reduction, RestartTimes, Retransmission};
use serde::Deserialize;
use toml::Spanned;

use crate::config::{ConfigError, Source};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReductionTable {
    enabled: Option<bool>,
    bundle: Option<bool>,
    acknowledge_within: Option<Spanned<String>>,
    retransmit_after: Option<Spanned<String>>,
    transmissions: Option<Spanned<u32>>,
    increment: Option<Spanned<f64>>,
    burst: Option<Spanned<u32>>,
    burst_interval: Option<Spanned<String>>,
    #[serde(alias = "max_partners")]
    max_peers: Option<Spanned<u32>>,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HelloTable {
    interval: Option<Spanned<String>>,
    lost_after: Option<Spanned<f64>>,
    restart_time: Option<Spanned<String>>,
    recovery_time: Option<Spanned<String>>,
    max_restart_time: Option<Spanned<String>>,
}

/// Upper bound of `max_peers`.
const MAX_PARTNERS: u32 = 65_536;

impl Source<'_> {
    pub(crate) fn reduction(&self, table: ReductionTable) -> Result<Reduction, ConfigError> {
        let Reduction { retransmission, .. } = Reduction::default();
        let ms = Duration::from_millis;
        let retransmission = Retransmission {
            interval: self.duration(
                table.retransmit_after.as_ref(),
                ms(10)..=ms(60_000),
                retransmission.interval,
                "RFC 2961 has \"500ms\"; from 10ms to 60s are possible",
            )?,
            transmissions: u8::try_from(self.within(
                table.transmissions,
                1..17,
                retransmission.transmissions.into(),
            )?)
            .unwrap_or(retransmission.transmissions),
            increment: self.between(table.increment, 0.0, 9.0, retransmission.increment)?,
        };
        let defaults = Reduction::default();
        Ok(Reduction {
            enabled: table.enabled.unwrap_or(defaults.enabled),
            bundle: table.bundle.unwrap_or(defaults.bundle),
            acknowledge_within: self.duration(
                table.acknowledge_within.as_ref(),
                Duration::ZERO..=ms(1_000),
                defaults.acknowledge_within,
                "\"10ms\" is usual; from 0ms to 1s are possible",
            )?,
            burst: self.within(table.burst, 1..10_001, defaults.burst)?,
            burst_interval: self.duration(
                table.burst_interval.as_ref(),
                ms(1)..=ms(1_000),
                defaults.burst_interval,
                "\"1ms\" is usual; from 1ms to 1s are possible",
            )?,
            max_peers: self.within(table.max_peers, 1..MAX_PARTNERS + 1, defaults.max_peers)?,
            retransmission,
            ..defaults
        })
    }

    pub(crate) fn hello(&self, table: HelloTable) -> Result<HelloTiming, ConfigError> {
        let defaults = HelloTiming::default();
        let hint = "for example \"1s\"; from 5ms to 1 hour (60min) are possible, and without it no neighbour is asked";
        let interval = match &table.interval {
            None => None,
            Some(text) => {
                let range = Duration::from_millis(5)..=Duration::from_secs(3_600);
                Some(self.duration(Some(text), range, Duration::ZERO, hint)?)
            }
        };
        let restart = self.restart_times(&table, defaults.restart)?;
        let lost_after = self.between(table.lost_after, 1.0, 100.0, defaults.lost_after)?;
        Ok(HelloTiming { interval, lost_after, restart })
    }

    fn restart_times(
        &self,
        table: &HelloTable,
        defaults: RestartTimes,
    ) -> Result<RestartTimes, ConfigError> {
        let range = || Duration::from_secs(1)..=Duration::from_secs(3_600);
        let hint =
            |example| format!("for example \"{example}\"; from 1s to 1 hour (60min) are possible");
        let restart_time = match &table.restart_time {
            None => None,
            Some(text) => {
                let hint = hint("30s") + ", and without it neighbours do not expect this node back";
                Some(self.duration(Some(text), range(), Duration::ZERO, &hint)?)
            }
        };
        let time = |key: &Option<_>, default, example| {
            self.duration(key.as_ref(), range(), default, &hint(example))
        };
        Ok(RestartTimes {
            restart_time,
            recovery_time: time(&table.recovery_time, defaults.recovery_time, "1min")?,
            max_restart_time: time(&table.max_restart_time, defaults.max_restart_time, "5min")?,
        })
    }
}
