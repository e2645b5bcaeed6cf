//! `[nsis]`: GIST with its connections and accepted peers, and QoS NSLP with its policy.

use std::net::IpAddr;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Duration;

use earmark_core::{Prefix, Rate};
use earmark_linux::Gist;
use earmark_nsis::gist::{self, UpstreamQueries};
use earmark_nsis::nslp::Attributes;
use earmark_nsis::qos::{self, AggregateRule, Rule};
use serde::Deserialize;
use toml::Spanned;

use crate::config::{Config, ConfigError, LineOfKey, Source};
use crate::protocol::Tables;
use crate::streams::{Identity, Limits, Settings, TlsSettings};

/// Default TCP ports of connections: unused ones, since none are assigned. Neighbors learn them from GIST.
pub(crate) const TCP: u16 = 30_270;
pub(crate) const TLS: u16 = 30_271;

/// Settings of NSIS.
#[derive(Clone, Debug, PartialEq)]
pub struct NsisConfig {
    /// Settings of connections.
    pub streams: Settings,
    /// Settings of GIST and its applications, without the ports of connections.
    pub engine: earmark_nsis::Config,
}

impl Default for NsisConfig {
    fn default() -> NsisConfig {
        NsisConfig {
            streams: Settings { tcp: Some(TCP), tls: None, limits: Limits::default() },
            engine: earmark_nsis::Config::default(),
        }
    }
}

/// Settings of NSIS for an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NsisInterface {
    /// Which messages of GIST are intercepted, if the interface speaks NSIS.
    pub intercept: Gist,
}

impl Default for NsisInterface {
    fn default() -> NsisInterface {
        NsisInterface { intercept: Gist::RouterAlert }
    }
}

/// The tables of NSIS.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NsisTables {
    #[serde(default)]
    nsis: NsisTable,
}

impl Tables for NsisTables {
    fn set(self: Box<Self>, source: &Source<'_>, config: &mut Config) -> Result<(), ConfigError> {
        config.settings.set(source.nsis(self.nsis)?);
        Ok(())
    }
}

/// The keys of NSIS in `[[interface]]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct InterfaceKeys {
    nsis_intercept: Option<NsisInterceptName>,
}

impl InterfaceKeys {
    pub(super) fn settings(&self) -> NsisInterface {
        NsisInterface {
            intercept: match self.nsis_intercept {
                Some(NsisInterceptName::Port) => Gist::Port,
                Some(NsisInterceptName::RouterAlert) | None => Gist::RouterAlert,
            },
        }
    }
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct NsisTable {
    identity: Option<IpAddr>,
    validity: Option<Spanned<String>>,
    hold: Option<Spanned<String>>,
    require: Option<Spanned<Need>>,
    upstream: Option<UpstreamName>,
    own_source: Option<bool>,
    strict: Option<bool>,
    shortest_prefix: Option<Spanned<u32>>,
    #[serde(default)]
    without_router_alert: Vec<Spanned<String>>,
    max_states: Option<Spanned<u32>>,
    max_states_per_peer: Option<Spanned<u32>>,
    queries_per_second: Option<Spanned<u32>>,
    share_of_interface: Option<Spanned<u32>>,
    queries_per_second_of_interface: Option<Spanned<u32>>,
    errors_per_second: Option<Spanned<u32>>,
    refresh: Option<Spanned<String>>,
    lost_refreshes: Option<Spanned<u32>>,
    summary: Option<Spanned<u32>>,
    level: Option<Spanned<u32>>,
    proxy: Option<bool>,
    #[serde(default)]
    inner: Vec<String>,
    shrink_after: Option<Spanned<String>>,
    #[serde(default)]
    aggregate: Vec<AggregateTable>,
    max_sessions: Option<Spanned<u32>>,
    max_sessions_per_peer: Option<Spanned<u32>>,
    changes_per_second: Option<Spanned<u32>>,
    #[serde(default)]
    rule: Vec<RuleTable>,
    tcp: Option<Spanned<u32>>,
    tls: Option<Spanned<TlsTable>>,
    connections: Option<Spanned<u32>>,
    connections_per_source: Option<Spanned<u32>>,
    half_open: Option<Spanned<u32>>,
    half_open_per_source: Option<Spanned<u32>>,
    handshake: Option<Spanned<String>>,
    backlog: Option<Spanned<u32>>,
}

/// Transport attributes that all messages of applications need.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Need {
    Nothing,
    Reliable,
    Secure,
}

/// Names of [`UpstreamQueries`] in the file.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum UpstreamName {
    Never,
    OnLink,
    Routed,
}

/// A rule of the file; see [`Rule`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleTable {
    from: Option<Spanned<String>>,
    to: Option<Spanned<String>>,
    #[serde(default)]
    secure: bool,
    #[serde(default)]
    verified: bool,
    #[serde(default)]
    users: Vec<Spanned<String>>,
    #[serde(default)]
    refuse: bool,
    largest: Option<Spanned<String>>,
    total: Option<Spanned<String>>,
}

/// An aggregate of the file; see [`AggregateRule`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct AggregateTable {
    to: Spanned<String>,
    step: Option<Spanned<String>>,
    highest: Option<Spanned<String>>,
}

/// How neighbors authenticate; settings of the other method may be present too.
#[derive(Clone, Copy, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Proof {
    #[default]
    Certificates,
    Keys,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TlsTable {
    port: Option<Spanned<u32>>,
    #[serde(default)]
    by: Proof,
    key: PathBuf,
    certificate: Option<PathBuf>,
    authorities: Option<PathBuf>,
    #[serde(default)]
    peers: Vec<String>,
    public_keys: Option<PathBuf>,
}

/// Names of [`Gist`] in the file.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum NsisInterceptName {
    RouterAlert,
    Port,
}

impl Source<'_> {
    fn nsis(&self, table: NsisTable) -> Result<NsisConfig, ConfigError> {
        let engine = earmark_nsis::Config {
            gist: self.gist(&table)?,
            qos: self.qos(&table)?,
            ..earmark_nsis::Config::default()
        };
        let limits = self.connection_limits(&table)?;
        let tcp = self.port(table.tcp, TCP, 0)?;
        if let Some(require) = &table.require {
            self.check_requirement(require, tcp > 0, table.tls.is_some())?;
        }
        let tls = table.tls.map(|table| self.tls(table)).transpose()?;
        let streams = Settings { tcp: (tcp > 0).then_some(tcp), tls, limits };
        Ok(NsisConfig { streams, engine })
    }

    /// Checks that this node has a transport with the attributes that all messages need.
    fn check_requirement(
        &self,
        require: &Spanned<Need>,
        has_tcp: bool,
        has_tls: bool,
    ) -> Result<(), ConfigError> {
        let (wrong, hint) = match require.get_ref() {
            Need::Nothing => return Ok(()),
            Need::Reliable if has_tcp || has_tls => return Ok(()),
            Need::Secure if has_tls => return Ok(()),
            Need::Reliable => ("no message could be sent without TCP and TLS", "[nsis] tcp = 270"),
            Need::Secure => {
                ("no message could be sent without TLS", "[nsis.tls] with a certificate or a key")
            }
        };
        Err(self.error(require.span(), wrong, hint))
    }

    fn gist(&self, table: &NsisTable) -> Result<gist::Config, ConfigError> {
        let defaults = gist::Config::default();
        let (associations, limits) = (defaults.associations, defaults.limits);
        let hint = "\"30s\" is usual; from 1s to 1 hour (60min) are possible";
        let range = Duration::from_secs(1)..=Duration::from_secs(3_600);
        Ok(gist::Config {
            identity: table.identity,
            validity: self.duration(
                table.validity.as_ref(),
                range.clone(),
                defaults.validity,
                hint,
            )?,
            upstream_queries: match table.upstream {
                None => defaults.upstream_queries,
                Some(UpstreamName::Never) => UpstreamQueries::Never,
                Some(UpstreamName::OnLink) => UpstreamQueries::OnLink,
                Some(UpstreamName::Routed) => UpstreamQueries::Routed,
            },
            own_source: table.own_source.unwrap_or(defaults.own_source),
            strict: table.strict.unwrap_or(defaults.strict),
            shortest_prefix: u8::try_from(self.small(
                &table.shortest_prefix,
                0..129,
                defaults.shortest_prefix.into(),
            )?)
            .unwrap_or(defaults.shortest_prefix),
            without_router_alert: self.ranges(&table.without_router_alert)?,
            associations: gist::AssociationSettings {
                require: match table.require.as_ref().map(Spanned::get_ref) {
                    None => associations.require,
                    Some(Need::Nothing) => Attributes { reliable: false, secure: false },
                    Some(Need::Reliable) => Attributes { reliable: true, secure: false },
                    Some(Need::Secure) => Attributes { reliable: true, secure: true },
                },
                hold_time: self.duration(
                    table.hold.as_ref(),
                    range,
                    associations.hold_time,
                    hint,
                )?,
                ..associations
            },
            limits: gist::Limits {
                states: self.count(table.max_states.clone(), limits.states)?,
                states_per_peer: self
                    .count(table.max_states_per_peer.clone(), limits.states_per_peer)?,
                queries_per_second: self
                    .count(table.queries_per_second.clone(), limits.queries_per_second)?,
                share_of_interface: self.share_of_interface(table, limits.share_of_interface)?,
                queries_per_second_of_a_peer: self.count(
                    table.queries_per_second_of_interface.clone(),
                    limits.queries_per_second_of_a_peer,
                )?,
                errors_per_second: self
                    .count(table.errors_per_second.clone(), limits.errors_per_second)?,
                ..limits
            },
            ..defaults
        })
    }

    /// Reads the part of each table that one interface may use, percent.
    fn share_of_interface(&self, table: &NsisTable, default: u32) -> Result<u32, ConfigError> {
        self.within(table.share_of_interface.clone(), 1..101, default)
    }

    fn small(
        &self,
        value: &Option<Spanned<u32>>,
        range: Range<u32>,
        default: u16,
    ) -> Result<u16, ConfigError> {
        let number = self.within(value.clone(), range, default.into())?;
        Ok(u16::try_from(number).unwrap_or(default))
    }

    fn qos(&self, table: &NsisTable) -> Result<qos::Config, ConfigError> {
        let defaults = qos::Config::default();
        let limits = defaults.limits;
        let hint = "\"30s\" is usual; from 1s to 1 hour (60min) are possible";
        let range = Duration::from_secs(1)..=Duration::from_secs(3_600);
        let mut known = LineOfKey::new();
        Ok(qos::Config {
            level: self.small(&table.level, 0..32, defaults.level)?,
            refresh: self.duration(table.refresh.as_ref(), range, defaults.refresh, hint)?,
            lost_refreshes: self.within(
                table.lost_refreshes.clone(),
                1..101,
                defaults.lost_refreshes,
            )?,
            summary: self.small(&table.summary, 0..1_001, defaults.summary)?,
            proxy: table.proxy.unwrap_or(defaults.proxy),
            strict: table.strict.unwrap_or(defaults.strict),
            inner: table.inner.clone(),
            aggregates: table
                .aggregate
                .iter()
                .map(|aggregate| self.nsis_aggregate(aggregate, &table.inner, &mut known))
                .collect::<Result<_, _>>()?,
            shrink_after: self.duration(
                table.shrink_after.as_ref(),
                Duration::from_millis(100)..=Duration::from_secs(3_600),
                defaults.shrink_after,
                "\"10s\" is usual; from 100ms to 1 hour (60min) are possible",
            )?,
            limits: qos::Limits {
                sessions: self.count(table.max_sessions.clone(), limits.sessions)?,
                share_of_interface: self.share_of_interface(table, limits.share_of_interface)?,
                sessions_per_peer: self
                    .count(table.max_sessions_per_peer.clone(), limits.sessions_per_peer)?,
                changes_per_second: self
                    .count(table.changes_per_second.clone(), limits.changes_per_second)?,
                ..limits
            },
            policy: table.rule.iter().map(|rule| self.nsis_rule(rule)).collect::<Result<_, _>>()?,
            ..defaults
        })
    }

    /// Reads an aggregate; `known` has the ranges of those before it.
    fn nsis_aggregate(
        &self,
        table: &AggregateTable,
        inner: &[String],
        known: &mut LineOfKey<Prefix>,
    ) -> Result<AggregateRule, ConfigError> {
        if inner.is_empty() {
            return Err(self.error(
                table.to.span(),
                "an aggregate needs a domain",
                "inner: the interfaces that face it",
            ));
        }
        let to: Prefix = self.read(&table.to, "an address range such as \"10.1.0.0/16\"")?;
        let whole = if to.address().is_ipv4() { 32 } else { 128 };
        if !(8..whole).contains(&to.length()) {
            return Err(self.error(
                table.to.span(),
                "an aggregate is of a range of addresses",
                "a prefix of at least 8 bits that is no single host, such as \"10.1.0.0/16\"",
            ));
        }
        let what = format!("flows to {to} are in an aggregate");
        let hint = "a flow is in the first aggregate that matches; remove one of the two";
        self.once(known, to, table.to.span(), what, hint)?;
        let rate = |text: &Option<Spanned<String>>, default: Rate| {
            let read = |text| self.read(text, "a rate such as \"2Mbit\"");
            text.as_ref().map_or(Ok(default), read)
        };
        Ok(AggregateRule {
            to,
            step: rate(&table.step, Rate::from_mbps(1))?,
            highest: rate(&table.highest, Rate::MAX)?,
        })
    }

    fn nsis_rule(&self, table: &RuleTable) -> Result<Rule, ConfigError> {
        let range = |text: &Option<Spanned<String>>| {
            let hint = "an address range such as \"10.1.0.0/16\"";
            text.as_ref().map(|text| self.read(text, hint)).transpose()
        };
        let rate = |text: &Option<Spanned<String>>| {
            text.as_ref().map(|text| self.read(text, "a rate such as \"2Mbit\"")).transpose()
        };
        Ok(Rule {
            from: range(&table.from)?,
            to: range(&table.to)?,
            secure: table.secure,
            required: self.required(table.verified, &table.users)?,
            refuse: table.refuse,
            largest: rate(&table.largest)?,
            total: rate(&table.total)?,
        })
    }

    fn connection_limits(&self, table: &NsisTable) -> Result<Limits, ConfigError> {
        let limits = Limits::default();
        let count = |value: &Option<Spanned<u32>>, default: usize| {
            let default = u32::try_from(default).unwrap_or(u32::MAX);
            self.within(value.clone(), 1..65_536, default).map(|count| count as usize)
        };
        let range = Duration::from_millis(100)..=Duration::from_secs(120);
        let hint = "\"10s\" is usual; from 100ms to 120s are possible";
        let backlog = u32::try_from(limits.backlog).unwrap_or(u32::MAX);
        Ok(Limits {
            connections: count(&table.connections, limits.connections)?,
            per_source: count(&table.connections_per_source, limits.per_source)?,
            half_open: count(&table.half_open, limits.half_open)?,
            half_open_per_source: count(&table.half_open_per_source, limits.half_open_per_source)?,
            handshake: self.duration(table.handshake.as_ref(), range, limits.handshake, hint)?,
            // At least the size of one message of GIST.
            backlog: self.within(table.backlog.clone(), 262_144..1 << 30, backlog)? as usize,
        })
    }

    fn tls(&self, table: Spanned<TlsTable>) -> Result<TlsSettings, ConfigError> {
        let span = table.span();
        let TlsTable { port, by, key, certificate, authorities, peers, public_keys } =
            table.into_inner();
        let missing = |hint| self.error(span, "the accepted peers are missing", hint);
        let identity = match by {
            Proof::Certificates => match (certificate, authorities) {
                (Some(chain), Some(authorities)) if !peers.is_empty() => {
                    Identity::Certificates { chain, authorities, peers }
                }
                _ => {
                    return Err(missing(
                        "certificate, authorities, and peers: the accepted names; or by = \"keys\"",
                    ));
                }
            },
            Proof::Keys => match public_keys {
                Some(keys) => Identity::PublicKeys(keys),
                None => return Err(missing("public_keys: a file with the keys of all peers")),
            },
        };
        Ok(TlsSettings { port: self.port(port, TLS, 1)?, key, identity })
    }

    fn port(
        &self,
        value: Option<Spanned<u32>>,
        default: u16,
        least: u32,
    ) -> Result<u16, ConfigError> {
        let port = self.within(value, least..65_536, default.into())?;
        Ok(u16::try_from(port).unwrap_or(default))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// Both layers are strict, or neither; the shortest prefix is that of GIST.
    #[test]
    fn deviations_are_tolerated_unless_the_settings_are_strict() {
        let engine = |text: &str| {
            Config::parse(&format!("[nsis]\n{text}"), Path::new("r1.toml"))
                .map(|config| config.settings.get::<NsisConfig>().engine)
        };
        for (text, strict, shortest) in [
            ("", false, 8),
            ("strict = true", true, 8),
            ("shortest_prefix = 0", false, 0),
            ("shortest_prefix = 128", false, 128),
        ] {
            let engine = engine(text).expect(text);
            assert_eq!((engine.gist.strict, engine.qos.strict), (strict, strict), "{text}");
            assert_eq!(engine.gist.shortest_prefix, shortest, "{text}");
        }
        let error = engine("shortest_prefix = 129").unwrap_err();
        assert_eq!(error.place.key, "nsis.shortest_prefix");
    }

    /// Certificates and keys are both accepted; each missing setting is reported.
    #[test]
    fn connections_are_secured_by_certificates_or_keys() {
        let tls = |text: &str| {
            let text = format!("[nsis]\ntcp = 0\n[nsis.tls]\nkey = 'k'\n{text}");
            Config::parse(&text, Path::new("r1.toml"))
                .map(|config| config.settings.get::<NsisConfig>().streams)
        };
        let streams = tls("certificate = 'c'\nauthorities = 'a'\npeers = ['r2']").unwrap();
        assert_eq!(streams.tcp, None);
        let settings = streams.tls.unwrap();
        assert_eq!((settings.port, settings.key.as_path()), (30_271, Path::new("k")));
        assert_eq!(
            settings.identity,
            Identity::Certificates {
                chain: "c".into(),
                authorities: "a".into(),
                peers: vec!["r2".into()]
            }
        );
        let streams = tls("by = 'keys'\npublic_keys = 'p'\nport = 1").unwrap();
        let settings = streams.tls.unwrap();
        assert_eq!((settings.port, settings.identity), (1, Identity::PublicKeys("p".into())));
        for (text, hint) in [
            ("", "accepted names"),
            ("certificate = 'c'\nauthorities = 'a'", "accepted names"),
            ("certificate = 'c'\npeers = ['r2']", "accepted names"),
            ("by = 'keys'", "public_keys"),
        ] {
            let error = tls(text).expect_err(text);
            assert!(error.hint.contains(hint), "{error}");
            assert_eq!(error.place.key, "nsis.tls", "{error}");
        }
        let error =
            tls("certificate = 'c'\nauthorities = 'a'\npeers = ['r2']\nport = 0").unwrap_err();
        assert_eq!(error.place.key, "nsis.tls.port");
    }
}
