//! `[boomerang]`, `[yessir]`, and the protocols of an interface.

use std::time::Duration;

use earmark_boomerang::{Account, AggregateRule, Selector};
use earmark_core::admission::{Discipline, RetryPolicy};
use earmark_core::{Prefix, Rate};
use earmark_yessir::{Measuring, auth};
use serde::Deserialize;
use toml::Spanned;

use super::file::Share;
use super::source::Source;
use super::{ConfigError, InterfaceConfig, Protocols};

/// The `[boomerang]` table; see [`earmark_boomerang::Config`].
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct BoomerangTable {
    refresh: Option<Spanned<String>>,
    longest_refresh: Option<Spanned<String>>,
    lifetime_factor: Option<Spanned<u32>>,
    burst: Option<Spanned<String>>,
    lock: Option<bool>,
    kernel: Option<Spanned<KernelSetting>>,
    max_sessions: Option<Spanned<u32>>,
    max_per_source: Option<Spanned<u32>>,
    changes_per_second: Option<Spanned<u32>>,
    aggregate_only: Option<bool>,
    #[serde(default)]
    aggregate: Vec<AggregateTable>,
    #[serde(default)]
    user: Vec<Spanned<Account>>,
}

/// The `kernel` setting: what the kernel handles without the daemon.
#[derive(Deserialize)]
#[serde(untagged, expecting = "true, false, or a share such as { share = \"25%\" }")]
enum KernelSetting {
    /// The default share, or no offload.
    Switch(bool),
    Lent(LentTable),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LentTable {
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

/// The `[yessir]` table; see [`earmark_yessir::Config`].
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct YessirTable {
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
    key: Vec<KeyTable>,
    #[serde(default)]
    signed_on: Vec<Spanned<String>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KeyTable {
    id: u32,
    secret: Spanned<String>,
}

/// A protocol that an interface can speak.
#[derive(Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ProtocolName {
    Rsvp,
    Boomerang,
    Yessir,
    Nsis,
}

/// Names of [`earmark_linux::Yessir`] in the file.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum YessirInterceptName {
    RouterAlert,
    Always,
}

/// Shortest secret, octets. HMAC accepts shorter ones, but they can be guessed.
const SHORTEST_SECRET: usize = 8;

impl Source<'_> {
    /// The protocols of an interface; by default all that are possible.
    pub(super) fn protocols(
        &self,
        names: Option<&Spanned<Vec<ProtocolName>>>,
        udp_only: bool,
    ) -> Result<Protocols, ConfigError> {
        let Some(names) = names else {
            return Ok(Protocols {
                boomerang: !udp_only,
                yessir: !udp_only,
                nsis: !udp_only,
                ..Protocols::default()
            });
        };
        let has = |name| names.get_ref().contains(&name);
        let protocols = Protocols {
            rsvp: has(ProtocolName::Rsvp),
            boomerang: has(ProtocolName::Boomerang),
            yessir: has(ProtocolName::Yessir),
            nsis: has(ProtocolName::Nsis),
        };
        if udp_only && (protocols.boomerang || protocols.yessir || protocols.nsis) {
            return Err(self.error(
                names.span(),
                "with rsvp.udp_only nothing but RSVP can be signalled",
                "protocols = [\"rsvp\"], or leave udp_only out and grant CAP_NET_RAW",
            ));
        }
        Ok(protocols)
    }

    pub(super) fn boomerang(
        &self,
        table: BoomerangTable,
    ) -> Result<(earmark_boomerang::Config, f64), ConfigError> {
        let lent = match &table.kernel {
            None => None,
            Some(kernel) => self.lent(kernel)?,
        };
        let defaults = earmark_boomerang::Config::default();
        let limits = defaults.limits;
        for user in &table.user {
            let Account { name, .. } = user.get_ref();
            if name.is_empty() || user.get_ref().id().is_none() {
                return Err(self.error(
                    user.span(),
                    format!("{name:?} cannot be a user of Boomerang"),
                    "names have one to eight octets",
                ));
            }
        }
        let config = earmark_boomerang::Config {
            refresh_interval: self.seconds(table.refresh.as_ref(), defaults.refresh_interval)?,
            max_refresh_interval: self
                .seconds(table.longest_refresh.as_ref(), defaults.max_refresh_interval)?,
            lifetime_multiplier: self.octet(table.lifetime_factor, defaults.lifetime_multiplier)?,
            burst: self.burst(table.burst.as_ref(), defaults.burst)?,
            lock: table.lock.unwrap_or(defaults.lock),
            offload: lent.is_some(),
            users: table.user.into_iter().map(Spanned::into_inner).collect(),
            aggregates: self.aggregates(&table.aggregate)?,
            aggregate_only: table.aggregate_only.unwrap_or(defaults.aggregate_only),
            limits: earmark_boomerang::Limits {
                sessions: self.within(table.max_sessions, 1..u32::MAX, limits.sessions)?,
                sessions_per_source: self.within(
                    table.max_per_source,
                    1..u32::MAX,
                    limits.sessions_per_source,
                )?,
                changes_per_second: self.within(
                    table.changes_per_second,
                    1..u32::MAX,
                    limits.changes_per_second,
                )?,
                ..limits
            },
            ..defaults
        };
        Ok((config, lent.unwrap_or(0.0)))
    }

    /// The part of the reservable rate that the kernel may grant by itself; `None` if offload is disabled.
    fn lent(&self, kernel: &Spanned<KernelSetting>) -> Result<Option<f64>, ConfigError> {
        let share = match kernel.get_ref() {
            KernelSetting::Switch(false) => return Ok(None),
            KernelSetting::Switch(true) => return Ok(Some(KERNEL_SHARE)),
            KernelSetting::Lent(LentTable { share }) => share,
        };
        let part = match share {
            Share::Number(part) => Some(*part),
            Share::Text(text) => {
                let percent = text.trim().strip_suffix('%');
                percent.and_then(|percent| percent.trim().parse().ok()).map(|p: f64| p / 100.0)
            }
        };
        let part = part.filter(|part| (0.0..=1.0).contains(part)).ok_or_else(|| {
            let hint = "a share of what can be reserved, such as { share = \"25%\" }; with \"0%\" the \
                        kernel refreshes and sets nothing up";
            self.error(kernel.span(), "the kernel cannot be lent such a share", hint)
        })?;
        Ok(Some(part))
    }

    fn aggregates(&self, tables: &[AggregateTable]) -> Result<Vec<AggregateRule>, ConfigError> {
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

    pub(super) fn yessir(
        &self,
        table: YessirTable,
        interfaces: &[InterfaceConfig],
    ) -> Result<(earmark_yessir::Config, RetryPolicy), ConfigError> {
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
        let measured = interfaces.iter().filter(|interface| interface.measure_rtp);
        let missed = self.within(table.lifetime_factor, 1..101, defaults.missed)?;
        let config = earmark_yessir::Config {
            interval: self.long_seconds(table.refresh.as_ref(), defaults.interval)?,
            max_interval: self
                .long_seconds(table.longest_refresh.as_ref(), defaults.max_interval)?,
            missed,
            burst: self.burst(table.burst.as_ref(), defaults.burst)?,
            measuring,
            measured: measured.map(|interface| (interface.name.clone(), measuring)).collect(),
            limits: earmark_yessir::Limits {
                sessions: self.within(table.max_sessions, 1..u32::MAX, limits.sessions)?,
                sessions_per_source: self.within(
                    table.max_per_source,
                    1..u32::MAX,
                    limits.sessions_per_source,
                )?,
                changes_per_second: self.within(
                    table.changes_per_second,
                    1..u32::MAX,
                    limits.changes_per_second,
                )?,
                ..limits
            },
            auth: self.signing(&table.key, &table.signed_on, interfaces)?,
            ..defaults
        };
        let capacity = u32::try_from(retry.capacity).unwrap_or(u32::MAX);
        let retry = RetryPolicy {
            threshold: self.within(table.grab_attempts, 0..1_001, retry.threshold)?,
            capacity: self.within(table.most_waiting, 0..1_000_001, capacity)? as usize,
            discipline: table.waiting.unwrap_or_default(),
            ..retry
        };
        Ok((config, retry))
    }

    fn signing(
        &self,
        keys: &[KeyTable],
        signed_on: &[Spanned<String>],
        interfaces: &[InterfaceConfig],
    ) -> Result<auth::Settings, ConfigError> {
        let key = |key: &KeyTable| match key.secret.get_ref() {
            secret if secret.len() < SHORTEST_SECRET => Err(self.error(
                key.secret.span(),
                format!("key {} needs a secret of at least {SHORTEST_SECRET} octets", key.id),
                "`openssl rand -hex 32` makes one",
            )),
            secret => {
                Ok(auth::Key { id: key.id, secret: auth::Secret::new(secret.clone().into_bytes()) })
            }
        };
        for name in signed_on {
            if !interfaces.iter().any(|interface| interface.name == *name.get_ref()) {
                return Err(self.error(
                    name.span(),
                    format!("{} is no interface of this file", name.get_ref()),
                    "name one of the [[interface]] tables",
                ));
            }
        }
        Ok(auth::Settings {
            keys: keys.iter().map(key).collect::<Result<_, _>>()?,
            required_on: signed_on.iter().map(|name| name.get_ref().clone()).collect(),
            started: 0, // the daemon sets it at start
        })
    }

    /// A time for which messages have one octet of seconds.
    fn seconds(&self, text: Option<&Spanned<String>>, default: u8) -> Result<u8, ConfigError> {
        let default = Duration::from_secs(default.into());
        let range = Duration::from_secs(1)..=Duration::from_secs(255);
        let hint = "\"30s\" is usual; from 1s to 255s are possible";
        let found = self.duration(text, range, default, hint)?;
        Ok(u8::try_from(found.as_secs()).unwrap_or(u8::MAX))
    }

    /// A time for which messages have two octets of seconds.
    fn long_seconds(
        &self,
        text: Option<&Spanned<String>>,
        default: u16,
    ) -> Result<u16, ConfigError> {
        let default = Duration::from_secs(default.into());
        let range = Duration::from_secs(1)..=Duration::from_secs(65_535);
        let hint = "\"30s\" is usual; from 1s to 65535s are possible";
        let found = self.duration(text, range, default, hint)?;
        Ok(u16::try_from(found.as_secs()).unwrap_or(u16::MAX))
    }

    fn burst(
        &self,
        text: Option<&Spanned<String>>,
        default: Duration,
    ) -> Result<Duration, ConfigError> {
        let hint = "how much may come at once, as a time at the reserved rate: from 1ms to 10s";
        self.duration(text, Duration::from_millis(1)..=Duration::from_secs(10), default, hint)
    }

    fn octet(&self, value: Option<Spanned<u32>>, default: u8) -> Result<u8, ConfigError> {
        let found = self.within(value, 1..101, default.into())?;
        Ok(u8::try_from(found).unwrap_or(default))
    }
}
