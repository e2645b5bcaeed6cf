//! `[yessir]`.

use std::time::Duration;

use earmark_core::admission::{Discipline, RetryPolicy};
use earmark_linux::Yessir;
use earmark_yessir::Measuring;
use serde::Deserialize;
use toml::Spanned;

use crate::config::{Config, ConfigError, InKeyFile, InterfaceConfig, Source};
use crate::protocol::Tables;

/// Settings of YESSIR.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct YessirConfig {
    /// Settings of the engine, including the interfaces on which it measures RTP streams.
    pub engine: earmark_yessir::Config,
    /// Policy for retrying refused requests when bandwidth is released.
    pub retry: RetryPolicy,
}

/// Settings of YESSIR for an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct YessirInterface {
    /// Which messages are intercepted, if the interface speaks YESSIR.
    pub intercept: Yessir,
    /// Whether incoming RTP streams whose senders do not use YESSIR are measured and reserved for.
    pub measure_rtp: bool,
}

impl Default for YessirInterface {
    fn default() -> YessirInterface {
        YessirInterface { intercept: Yessir::RouterAlert, measure_rtp: false }
    }
}

/// The tables of YESSIR.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct YessirTables {
    #[serde(default)]
    yessir: YessirTable,
}

impl Tables for YessirTables {
    fn set(self: Box<Self>, source: &Source<'_>, config: &mut Config) -> Result<(), ConfigError> {
        config.settings.set(source.yessir(self.yessir, &config.interfaces)?);
        Ok(())
    }
}

/// The keys of YESSIR in `[[interface]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InterfaceKeys {
    yessir_intercept: Option<YessirInterceptName>,
    measure_rtp: Option<bool>,
}

impl InterfaceKeys {
    /// Returns the settings of an interface; one that does not speak YESSIR measures nothing.
    pub(super) fn settings(&self, speaks: bool) -> YessirInterface {
        YessirInterface {
            intercept: match self.yessir_intercept {
                Some(YessirInterceptName::Always) => Yessir::Always,
                Some(YessirInterceptName::RouterAlert) | None => Yessir::RouterAlert,
            },
            measure_rtp: self.measure_rtp.unwrap_or(false) && speaks,
        }
    }
}

/// The `[yessir]` table; see [`earmark_yessir::Config`].
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct YessirTable {
    refresh: Option<Spanned<String>>,
    longest_refresh: Option<Spanned<String>>,
    lifetime_factor: Option<Spanned<u32>>,
    burst: Option<Spanned<String>>,
    window: Option<Spanned<String>>,
    headroom: Option<Spanned<u32>>,
    grab_attempts: Option<Spanned<u32>>,
    most_waiting: Option<Spanned<u32>>,
    waiting: Option<Discipline>,
    max_sessions: Option<Spanned<u32>>,
    max_per_source: Option<Spanned<u32>>,
    changes_per_second: Option<Spanned<u32>>,
    #[serde(default)]
    verified: bool,
    #[serde(default)]
    verified_users: Vec<Spanned<String>>,
    #[serde(rename = "key")]
    _key: Option<InKeyFile>,
    #[serde(rename = "signed_on")]
    _signed_on: Option<InKeyFile>,
}

/// Names of [`Yessir`] in the file.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum YessirInterceptName {
    RouterAlert,
    Always,
}

impl Source<'_> {
    fn yessir(
        &self,
        table: YessirTable,
        interfaces: &[InterfaceConfig],
    ) -> Result<YessirConfig, ConfigError> {
        let defaults = earmark_yessir::Config::default();
        let (limits, retry) = (defaults.limits, RetryPolicy::default());
        let window = Duration::from_secs(defaults.measuring.window.into());
        let range = Duration::from_secs(1)..=Duration::from_secs(3_600);
        let hint = "\"60s\" is usual; from 1s to 60min are possible";
        let window = self.duration(table.window.as_ref(), range, window, hint)?;
        let headroom = u32::from(defaults.measuring.headroom);
        let measuring = Measuring {
            window: u16::try_from(window.as_secs()).unwrap_or(u16::MAX),
            headroom: u16::try_from(self.within(table.headroom, 0..1_001, headroom)?)
                .unwrap_or(u16::MAX),
            ..defaults.measuring
        };
        let measured = interfaces
            .iter()
            .filter(|interface| interface.settings.get::<YessirInterface>().measure_rtp);
        let missed = self.within(table.lifetime_factor, 1..101, defaults.missed)?;
        let engine = earmark_yessir::Config {
            required: self.required(table.verified, &table.verified_users)?,
            interval: self.seconds(table.refresh.as_ref(), u16::MAX, defaults.interval)?,
            max_interval: self.seconds(
                table.longest_refresh.as_ref(),
                u16::MAX,
                defaults.max_interval,
            )?,
            missed,
            burst: self.burst(table.burst.as_ref(), defaults.burst)?,
            measuring,
            measured: measured.map(|interface| (interface.name.clone(), measuring)).collect(),
            limits: earmark_yessir::Limits {
                sessions: self.count(table.max_sessions, limits.sessions)?,
                sessions_per_source: self
                    .count(table.max_per_source, limits.sessions_per_source)?,
                changes_per_second: self
                    .count(table.changes_per_second, limits.changes_per_second)?,
                ..limits
            },
            ..defaults
        };
        let capacity = u32::try_from(retry.capacity).unwrap_or(u32::MAX);
        let retry = RetryPolicy {
            threshold: self.within(table.grab_attempts, 0..1_001, retry.threshold)?,
            capacity: self.within(table.most_waiting, 0..1_000_001, capacity)? as usize,
            discipline: table.waiting.unwrap_or_default(),
            ..retry
        };
        Ok(YessirConfig { engine, retry })
    }
}
