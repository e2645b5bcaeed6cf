//! `[boomerang]`.

use std::time::Duration;

use earmark_boomerang::{AggregateRule, Selector};
use earmark_core::{Prefix, Rate};
use serde::Deserialize;
use toml::Spanned;

use crate::config::{Config, ConfigError, InKeyFile, LineOfKey, Share, Source};
use crate::protocol::Tables;

/// Settings of Boomerang.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BoomerangConfig {
    /// Settings of the engine.
    pub engine: earmark_boomerang::Config,
    /// Largest part of the reservable rate of a link that the kernel may grant by itself.
    pub share: f64,
}

/// The tables of Boomerang.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BoomerangTables {
    #[serde(default)]
    boomerang: BoomerangTable,
}

impl Tables for BoomerangTables {
    fn set(self: Box<Self>, source: &Source<'_>, config: &mut Config) -> Result<(), ConfigError> {
        config.settings.set(source.boomerang(self.boomerang)?);
        Ok(())
    }
}

/// The `[boomerang]` table; see [`earmark_boomerang::Config`].
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct BoomerangTable {
    refresh: Option<Spanned<String>>,
    longest_refresh: Option<Spanned<String>>,
    unproven_lifetime: Option<Spanned<String>>,
    lifetime_factor: Option<Spanned<u32>>,
    burst: Option<Spanned<String>>,
    lock: Option<bool>,
    kernel: Option<Spanned<KernelSetting>>,
    max_sessions: Option<Spanned<u32>>,
    max_per_source: Option<Spanned<u32>>,
    changes_per_second: Option<Spanned<u32>>,
    #[serde(default)]
    verified: bool,
    #[serde(default)]
    verified_users: Vec<Spanned<String>>,
    aggregate_only: Option<bool>,
    #[serde(default)]
    aggregate: Vec<AggregateTable>,
    #[serde(rename = "user")]
    _user: Option<InKeyFile>,
}

/// The `kernel` setting: what the kernel handles without the daemon.
#[derive(Deserialize)]
#[serde(untagged, expecting = "true, false, or a share such as { share = \"25%\" }")]
enum KernelSetting {
    /// The default share, or no offload.
    Switch(bool),
    Delegation(DelegationTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct DelegationTable {
    share: Share,
}

/// Default part of each link that the kernel may grant by itself.
const KERNEL_SHARE: f64 = 0.25;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AggregateTable {
    name: String,
    source: Spanned<String>,
    destination: Spanned<String>,
    step: Option<Spanned<String>>,
}

impl Source<'_> {
    fn boomerang(&self, table: BoomerangTable) -> Result<BoomerangConfig, ConfigError> {
        let delegated = match &table.kernel {
            None => None,
            Some(kernel) => self.delegated(kernel)?,
        };
        let defaults = earmark_boomerang::Config::default();
        let limits = defaults.limits;
        let engine = earmark_boomerang::Config {
            required: self.required(table.verified, &table.verified_users)?,
            refresh_interval: self.seconds(
                table.refresh.as_ref(),
                u8::MAX,
                defaults.refresh_interval,
            )?,
            max_refresh_interval: self.seconds(
                table.longest_refresh.as_ref(),
                u8::MAX,
                defaults.max_refresh_interval,
            )?,
            unproven_lifetime: Duration::from_secs(
                self.seconds(
                    table.unproven_lifetime.as_ref(),
                    u8::MAX,
                    defaults.unproven_lifetime.as_secs() as u8, // ten
                )?
                .into(),
            ),
            lifetime_multiplier: self.octet(table.lifetime_factor, defaults.lifetime_multiplier)?,
            burst: self.burst(table.burst.as_ref(), defaults.burst)?,
            lock: table.lock.unwrap_or(defaults.lock),
            offload: delegated.is_some(),
            aggregates: self.aggregates(&table.aggregate)?,
            aggregate_only: table.aggregate_only.unwrap_or(defaults.aggregate_only),
            limits: earmark_boomerang::Limits {
                sessions: self.count(table.max_sessions, limits.sessions)?,
                sessions_per_source: self
                    .count(table.max_per_source, limits.sessions_per_source)?,
                changes_per_second: self
                    .count(table.changes_per_second, limits.changes_per_second)?,
                ..limits
            },
            ..defaults
        };
        Ok(BoomerangConfig { engine, share: delegated.unwrap_or(0.0) })
    }

    /// The part of the reservable rate that the kernel may grant by itself; `None` if offload is disabled.
    fn delegated(&self, kernel: &Spanned<KernelSetting>) -> Result<Option<f64>, ConfigError> {
        let share = match kernel.get_ref() {
            KernelSetting::Switch(false) => return Ok(None),
            KernelSetting::Switch(true) => return Ok(Some(KERNEL_SHARE)),
            KernelSetting::Delegation(DelegationTable { share }) => share,
        };
        let part = match share {
            Share::Number(part) => Some(*part),
            Share::Text(text) => {
                let percent = text.trim().strip_suffix('%');
                percent.and_then(|percent| percent.trim().parse().ok()).map(|p: f64| p / 100.0)
            }
        };
        let part = part.filter(|part| (0.0..=1.0).contains(part)).ok_or_else(|| {
            let hint = "a share of the reservable bandwidth, such as { share = \"25%\" }; with \
                \"0%\" the kernel only refreshes";
            self.error(kernel.span(), "the kernel cannot be delegated such a share", hint)
        })?;
        Ok(Some(part))
    }

    fn aggregates(&self, tables: &[AggregateTable]) -> Result<Vec<AggregateRule>, ConfigError> {
        let mut known = LineOfKey::new();
        let rule = |table: &AggregateTable| {
            let hint = "an address range such as \"10.1.0.0/16\"";
            let source: Prefix = self.read(&table.source, hint)?;
            let destination: Prefix = self.read(&table.destination, hint)?;
            if source.address().is_ipv4() != destination.address().is_ipv4() {
                return Err(self.error(
                    table.destination.span(),
                    "source and destination are of different IP versions",
                    "both IPv4 or both IPv6",
                ));
            }
            let what = format!("flows from {source} to {destination} are in an aggregate");
            let hint = "a flow is in the first aggregate that matches; remove one of the two";
            self.once(&mut known, (source, destination), table.source.span(), what, hint)?;
            let step = table.step.as_ref().map(|step| self.read(step, "a rate such as \"1Mbit\""));
            Ok(AggregateRule {
                name: table.name.clone(),
                selector: Selector {
                    source,
                    destination,
                    protocol: None,
                    source_port: None,
                    destination_port: None,
                },
                step: step.transpose()?.unwrap_or(Rate::ZERO),
            })
        };
        tables.iter().map(rule).collect()
    }

    fn octet(&self, value: Option<Spanned<u32>>, default: u8) -> Result<u8, ConfigError> {
        let found = self.within(value, 1..101, default.into())?;
        Ok(u8::try_from(found).unwrap_or(default))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn read(text: &str) -> Result<BoomerangConfig, ConfigError> {
        Config::parse(text, Path::new("r1.toml")).map(|config| config.settings.get())
    }

    #[test]
    fn kernel_setting_is_a_switch_or_a_share() {
        for (setting, offload, share) in [
            ("false", false, 0.0),
            ("true", true, 0.25),
            ("{ share = \"10%\" }", true, 0.1),
            ("{ share = 1.0 }", true, 1.0),
            ("{ share = \"0%\" }", true, 0.0),
        ] {
            let config = read(&format!("[boomerang]\nkernel = {setting}\n")).unwrap();
            assert_eq!((config.engine.offload, config.share), (offload, share));
        }
        for wrong in ["\"much\"", "{ share = \"101%\" }", "{ share = \"5Mbit\" }", "{ part = 0.1 }"]
        {
            let error = read(&format!("[boomerang]\nkernel = {wrong}\n")).unwrap_err();
            assert_eq!(error.place.key, "boomerang.kernel", "{error}");
        }
    }
}
