//! `[natfw]`: which packets a node opens its packet filter for, and on whose request.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use earmark_linux::PacketFilterSettings;
use earmark_nsis::natfw::{self, Responder, Translator};
use earmark_nsis::nslp::Attributes;
use serde::Deserialize;
use toml::Spanned;

use crate::config::{Config, ConfigError, InterfaceConfig, Source};
use crate::protocol::{Protocol, Tables};
use crate::protocols::nsis::{Nsis, NsisConfig};

use super::policy::{Ports, RuleTable};

/// Settings of NATFW NSLP, and of the packet filter that it opens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NatfwSettings {
    /// Settings of the engine.
    pub engine: natfw::Config,
    /// Names of the interfaces behind which no host may begin a connection without a pinhole.
    pub guard: Vec<String>,
}

impl NatfwSettings {
    /// Returns the settings of the packet filter; `None` if this node is neither a firewall nor a translator.
    pub(super) fn packet_filter(&self) -> Option<PacketFilterSettings> {
        let natfw::Config { enabled, firewall, translator, .. } = &self.engine;
        let is_middlebox = *enabled && (*firewall || translator.is_some());
        is_middlebox.then(|| PacketFilterSettings::new(self.guard.iter().map(String::as_str)))
    }

    /// Returns these settings with all values of `new` that may change while the daemon runs.
    pub(super) fn renewed(&self, new: NatfwSettings) -> NatfwSettings {
        NatfwSettings { engine: self.engine.renewed(new.engine), guard: self.guard.clone() }
    }

    /// Returns the keys of `new` that differ and wait for a restart.
    pub(super) fn waiting(&self, new: &NatfwSettings) -> impl Iterator<Item = &'static str> {
        let [old, changed] = [&self.engine, &new.engine];
        let keys = [
            ("natfw.enabled", old.enabled != changed.enabled),
            ("natfw.firewall", old.firewall != changed.firewall),
            ("natfw.external", old.external != changed.external),
            ("natfw.edge", old.edge != changed.edge),
            ("natfw.guard", self.guard != new.guard),
            ("natfw.translator", old.translator != changed.translator),
        ];
        keys.into_iter().filter(|(_, differs)| *differs).map(|(key, _)| key)
    }
}

/// The tables of NATFW NSLP.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NatfwTables {
    natfw: Option<NatfwTable>,
}

impl Tables for NatfwTables {
    fn set(self: Box<Self>, source: &Source<'_>, config: &mut Config) -> Result<(), ConfigError> {
        if let Some(table) = self.natfw {
            let settings = source.natfw(&table, &config.interfaces)?;
            if settings.engine.enabled {
                source.check_transport(&table, &settings.engine, config)?;
            }
            config.settings.set(settings);
        }
        Ok(())
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NatfwTable {
    enabled: Spanned<bool>,
    #[serde(default)]
    firewall: bool,
    #[serde(default)]
    external: Vec<Spanned<String>>,
    edge: Option<bool>,
    #[serde(default)]
    guard: Vec<Spanned<String>>,
    translator: Option<Spanned<TranslatorTable>>,
    responder: Option<ResponderName>,
    signaling_destination: Option<Spanned<String>>,
    lifetime: Option<Spanned<String>>,
    longest_lifetime: Option<Spanned<String>>,
    shortest_lifetime: Option<Spanned<String>>,
    lost_refreshes: Option<Spanned<u32>>,
    transport: Option<Spanned<TransportName>>,
    max_sessions: Option<Spanned<u32>>,
    max_sessions_per_peer: Option<Spanned<u32>>,
    share_of_interface: Option<Spanned<u32>>,
    changes_per_second: Option<Spanned<u32>>,
    max_icmp_types: Option<Spanned<u32>>,
    #[serde(default)]
    rule: Vec<RuleTable>,
}

/// Names of [`Responder`] in the file.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum ResponderName {
    Exposed,
    Any,
}

/// Transport of messages, unless a request sets another one.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum TransportName {
    Datagrams,
    Reliable,
    Secure,
}

/// The translator of the file; see [`Translator`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TranslatorTable {
    #[serde(default)]
    addresses: Vec<Spanned<String>>,
    #[serde(default)]
    sources: Vec<Spanned<String>>,
    ports: Option<Spanned<Ports>>,
    #[serde(default)]
    privileged_ports: bool,
}

/// Longest lifetime of a session, seconds: a day.
const MAX_LIFETIME: u32 = 86_400;
impl Source<'_> {
    fn natfw(
        &self,
        table: &NatfwTable,
        known: &[InterfaceConfig],
    ) -> Result<NatfwSettings, ConfigError> {
        let defaults = natfw::Config::default();
        let limits = defaults.limits;
        let external = self.different_interfaces(&table.external, known)?;
        let guard = self.different_interfaces(&table.guard, known)?;
        let translator = table.translator.as_ref();
        self.check_roles(table, known)?;
        let [shortest, longest, lifetime] = self.lifetimes(table, &defaults)?;
        let max_icmp_types =
            self.within(table.max_icmp_types.clone(), 1..256, limits.icmp_types.into())?;
        let engine = natfw::Config {
            enabled: *table.enabled.get_ref(),
            firewall: table.firewall,
            external,
            edge: table.edge.unwrap_or(defaults.edge),
            translator: translator.map(|table| self.translator(table.get_ref())).transpose()?,
            responder: match table.responder {
                None => defaults.responder,
                Some(ResponderName::Exposed) => Responder::Exposed,
                Some(ResponderName::Any) => Responder::Any,
            },
            signaling_destination: (table.signaling_destination.as_ref())
                .map(|text| self.signaling_destination(text))
                .transpose()?,
            lifetime,
            longest_lifetime: longest,
            shortest_lifetime: shortest,
            lost_refreshes: self.within(
                table.lost_refreshes.clone(),
                1..101,
                defaults.lost_refreshes,
            )?,
            attributes: match table.transport.as_ref().map(Spanned::get_ref) {
                None => defaults.attributes,
                Some(TransportName::Datagrams) => Attributes { reliable: false, secure: false },
                Some(TransportName::Reliable) => Attributes { reliable: true, secure: false },
                Some(TransportName::Secure) => Attributes { reliable: true, secure: true },
            },
            rules: (table.rule.iter())
                .map(|rule| self.natfw_rule(rule, known))
                .collect::<Result<_, _>>()?,
            limits: natfw::Limits {
                sessions: self.count(table.max_sessions.clone(), limits.sessions)?,
                share_of_interface: self.within(
                    table.share_of_interface.clone(),
                    1..101,
                    limits.share_of_interface,
                )?,
                sessions_per_peer: self
                    .count(table.max_sessions_per_peer.clone(), limits.sessions_per_peer)?,
                changes_per_second: self
                    .count(table.changes_per_second.clone(), limits.changes_per_second)?,
                icmp_types: u8::try_from(max_icmp_types).unwrap_or(u8::MAX),
            },
            ..defaults
        };
        Ok(NatfwSettings { engine, guard })
    }

    /// Reads names of interfaces that take part, each of which is named once.
    fn different_interfaces(
        &self,
        names: &[Spanned<String>],
        known: &[InterfaceConfig],
    ) -> Result<Vec<String>, ConfigError> {
        let mut seen = BTreeSet::new();
        if let Some(twice) = names.iter().find(|name| !seen.insert(name.get_ref())) {
            let message = format!("{} is named twice", twice.get_ref());
            return Err(self.error(twice.span(), message, "name each interface once"));
        }
        self.interface_names(names, known)
    }

    /// Checks that the interfaces fit the roles of this node.
    fn check_roles(
        &self,
        table: &NatfwTable,
        known: &[InterfaceConfig],
    ) -> Result<(), ConfigError> {
        if let Some(translator) = table.translator.as_ref().filter(|_| table.external.is_empty()) {
            return Err(self.error(
                translator.span(),
                "a translator needs an interface that leads out of the network",
                "external = [\"eth1\"] in the table [natfw]",
            ));
        }
        let is_inert = !table.firewall && table.translator.is_none();
        for (key, names) in [("external", &table.external), ("guard", &table.guard)] {
            if let Some(first) = names.first().filter(|_| is_inert) {
                return Err(self.error(
                    first.span(),
                    format!(
                        "{key} has no effect: this node is neither a firewall nor a translator"
                    ),
                    "firewall = true, or a table [natfw.translator]",
                ));
            }
        }
        let is_outside = |interface: &InterfaceConfig| {
            table.external.iter().any(|name| *name.get_ref() == interface.name)
        };
        match table.external.first() {
            Some(first) if known.len() > 1 && known.iter().all(is_outside) => Err(self.error(
                first.span(),
                "every interface leads out of the network",
                "leave out those that lead to the hosts that this node protects",
            )),
            _ => Ok(()),
        }
    }

    /// Reads the shortest, the longest and the usual lifetime.
    fn lifetimes(
        &self,
        table: &NatfwTable,
        defaults: &natfw::Config,
    ) -> Result<[Duration; 3], ConfigError> {
        let shortest = self.lifetime(&table.shortest_lifetime, defaults.shortest_lifetime)?;
        let longest = self.lifetime(&table.longest_lifetime, defaults.longest_lifetime)?;
        let bounds = table.shortest_lifetime.as_ref().or(table.longest_lifetime.as_ref());
        if let Some(text) = bounds.filter(|_| shortest > longest) {
            return Err(self.error(
                text.span(),
                "the shortest lifetime exceeds the longest one",
                format!(
                    "shortest_lifetime is {} s and longest_lifetime {} s now",
                    shortest.as_secs(),
                    longest.as_secs()
                ),
            ));
        }
        let range = shortest..=longest;
        let usual = defaults.lifetime.clamp(shortest, longest);
        let lifetime = self.lifetime(&table.lifetime, usual)?;
        match &table.lifetime {
            Some(text) if !range.contains(&lifetime) => Err(self.error(
                text.span(),
                "this node would refuse its own requests",
                format!(
                    "from shortest_lifetime, {} s, to longest_lifetime, {} s",
                    shortest.as_secs(),
                    longest.as_secs()
                ),
            )),
            _ => Ok([shortest, longest, lifetime]),
        }
    }

    pub(super) fn lifetime(
        &self,
        text: &Option<Spanned<String>>,
        default: Duration,
    ) -> Result<Duration, ConfigError> {
        let Some(text) = text else { return Ok(default) };
        let seconds = self.seconds(Some(text), MAX_LIFETIME, MAX_LIFETIME)?;
        Ok(Duration::from_secs(seconds.into()))
    }

    fn signaling_destination(&self, text: &Spanned<String>) -> Result<IpAddr, ConfigError> {
        let hint = "the address of a host beyond the edge of the network, such as \"198.51.100.1\"";
        let address: IpAddr = self.read(text, hint)?;
        match address.is_unspecified() || address.is_multicast() || address.is_loopback() {
            true => Err(self.error(text.span(), format!("{address} is not a host outside"), hint)),
            false => Ok(address),
        }
    }

    fn translator(&self, table: &TranslatorTable) -> Result<Translator, ConfigError> {
        let defaults = Translator::default();
        let hint =
            "IPv4 addresses of this node by which hosts outside reach it, such as \"203.0.113.1\"";
        let addresses: Vec<Ipv4Addr> = self.all(&table.addresses, hint)?;
        let cannot = |address: &Ipv4Addr| address.is_unspecified() || address.is_multicast();
        if let Some(place) = addresses.iter().position(cannot) {
            let message = format!("{} is not the address of a node", addresses[place]);
            return Err(self.error(table.addresses[place].span(), message, hint));
        }
        let sources = self.ranges(&table.sources)?;
        if let Some(place) = sources.iter().position(|range| range.address().is_ipv6()) {
            return Err(self.error(
                table.sources[place].span(),
                "addresses of IPv6 are not translated",
                "ranges of IPv4 such as \"10.0.0.0/8\"",
            ));
        }
        let ports = table.ports.as_ref();
        let (first_port, last_port) = match ports {
            Some(ports) => self.ports(ports, table.privileged_ports)?,
            None => (defaults.first_port, defaults.last_port),
        };
        Ok(Translator { addresses, sources, first_port, last_port })
    }

    /// Checks that this node has a transport for its requests, and an interface that intercepts those of others.
    fn check_transport(
        &self,
        table: &NatfwTable,
        engine: &natfw::Config,
        config: &Config,
    ) -> Result<(), ConfigError> {
        let span = table.transport.as_ref().map_or(table.enabled.span(), Spanned::span);
        let streams = config.settings.get::<NsisConfig>().streams;
        let (has_tcp, has_tls) = (streams.tcp.is_some(), streams.tls.is_some());
        let Attributes { reliable, secure } = engine.attributes;
        if secure && !has_tls {
            return Err(self.error(
                span,
                "no request could be sent without TLS",
                "[nsis.tls] with a certificate or a key, or transport = \"reliable\"",
            ));
        }
        if reliable && !has_tcp && !has_tls {
            return Err(self.error(
                span,
                "no request could be sent without TCP and TLS",
                "[nsis] tcp = 30270 or a table [nsis.tls], or transport = \"datagrams\"",
            ));
        }
        let mut interfaces = config.interfaces.iter().peekable();
        let speaks = |interface: &InterfaceConfig| interface.speaks(Nsis.name());
        if interfaces.peek().is_some() && !interfaces.any(speaks) {
            return Err(self.error(
                table.enabled.span(),
                "no interface speaks NSIS, over which NATFW NSLP signals",
                "protocols of an [[interface]] contains \"nsis\"",
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "config_tests.rs"]
mod tests;
