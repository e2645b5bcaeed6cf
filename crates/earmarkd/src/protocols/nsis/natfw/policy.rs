//! `[[natfw.rule]]`: on whose request a node opens its packet filter, and for which packets.

use std::time::Duration;

use earmark_control::text::{ip_protocol, ip_protocol_number};
use earmark_core::Prefix;
use earmark_nsis::natfw::Rule;
use serde::Deserialize;
use toml::Spanned;

use crate::config::{ConfigError, InterfaceConfig, Source};

/// A rule of the file; see [`Rule`].
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RuleTable {
    #[serde(default)]
    interfaces: Vec<Spanned<String>>,
    from: Option<Spanned<String>>,
    to: Option<Spanned<String>>,
    #[serde(default)]
    protocols: Vec<Spanned<ProtocolNumber>>,
    ports: Option<Spanned<Ports>>,
    #[serde(default)]
    privileged_ports: bool,
    #[serde(default)]
    secure: bool,
    #[serde(default)]
    verified: bool,
    #[serde(default)]
    users: Vec<Spanned<String>>,
    #[serde(default)]
    reserved: bool,
    #[serde(default)]
    refuse: bool,
    #[serde(default)]
    wildcards: bool,
    #[serde(default)]
    deny: bool,
    longest_lifetime: Option<Spanned<String>>,
    per_user: Option<Spanned<u32>>,
    total: Option<Spanned<u32>>,
}

/// Ports: `5000` or `"5000-6000"`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "a port such as 5000, or a range such as \"5000-6000\"")]
pub(super) enum Ports {
    Number(i64),
    Text(String),
}

/// An IP protocol: `17` or `"udp"`.
#[derive(Deserialize)]
#[serde(untagged, expecting = "an IP protocol such as \"udp\" or 17")]
enum ProtocolNumber {
    Number(i64),
    Text(String),
}

/// First port that is not privileged.
const FIRST_UNPRIVILEGED: u16 = 1_024;
const PORTS: &str = "a port such as 5000, or a range such as \"5000-6000\"; from 1 to 65535";
/// IP protocols without ports: ICMP, ESP, AH and ICMPv6.
const WITHOUT_PORTS: [u8; 4] = [1, 50, 51, 58];

impl Source<'_> {
    pub(super) fn natfw_rule(
        &self,
        table: &RuleTable,
        known: &[InterfaceConfig],
    ) -> Result<Rule, ConfigError> {
        let defaults = Rule::default();
        let range = |text: &Option<Spanned<String>>| -> Result<Option<Prefix>, ConfigError> {
            let hint = "an address range such as \"10.1.0.0/16\"";
            text.as_ref().map(|text| self.read(text, hint)).transpose()
        };
        let count = |value: &Option<Spanned<u32>>| {
            let value = value.as_ref();
            value.map(|value| self.count(Some(value.clone()), 1)).transpose()
        };
        let (from, to) = (range(&table.from)?, range(&table.to)?);
        if let (Some(text), Some(from), Some(to)) = (&table.to, from, to)
            && from.address().is_ipv4() != to.address().is_ipv4()
        {
            let hint = "both IPv4 or both IPv6";
            return Err(self.error(
                text.span(),
                format!("{from} and {to} are of different IP versions"),
                hint,
            ));
        }
        let protocols: Vec<u8> = (table.protocols.iter())
            .map(|protocol| self.protocol_number(protocol))
            .collect::<Result<_, _>>()?;
        let ports = match &table.ports {
            None if table.privileged_ports => (1, u16::MAX),
            None => defaults.ports,
            Some(ports) => {
                let has_none = |protocol: &u8| WITHOUT_PORTS.contains(protocol);
                if !protocols.is_empty() && protocols.iter().all(has_none) {
                    let message = format!("{} has no ports", ip_protocol(protocols[0]));
                    return Err(self.error(ports.span(), message, "leave ports out"));
                }
                self.ports(ports, table.privileged_ports)?
            }
        };
        let longest = table.longest_lifetime.as_ref();
        Ok(Rule {
            interfaces: self.interface_names(&table.interfaces, known)?,
            from,
            to,
            protocols,
            ports,
            secure: table.secure,
            required: self.required(table.verified, &table.users)?,
            reserved: table.reserved,
            refuse: table.refuse,
            wildcards: table.wildcards,
            deny: table.deny,
            longest_lifetime: longest
                .map(|_| self.lifetime(&table.longest_lifetime, Duration::MAX))
                .transpose()?,
            per_user: count(&table.per_user)?,
            total: count(&table.total)?,
        })
    }

    fn protocol_number(&self, protocol: &Spanned<ProtocolNumber>) -> Result<u8, ConfigError> {
        let number = match protocol.get_ref() {
            ProtocolNumber::Number(number) => u8::try_from(*number).ok().filter(|it| *it != 0),
            ProtocolNumber::Text(text) => ip_protocol_number(text),
        };
        number.ok_or_else(|| {
            let hint = "\"udp\", \"tcp\", \"sctp\", \"icmp\", \"icmpv6\", \"esp\", \"ah\", or a number from 1 to 255";
            self.error(protocol.span(), "unknown IP protocol", hint)
        })
    }

    /// Reads a port or a range of ports. Privileged ports are accepted only if the table says so.
    pub(super) fn ports(
        &self,
        ports: &Spanned<Ports>,
        privileged: bool,
    ) -> Result<(u16, u16), ConfigError> {
        let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port != 0);
        let read = match ports.get_ref() {
            Ports::Number(number) => {
                let number = u16::try_from(*number).ok().filter(|port| *port != 0);
                number.map(|number| (number, number))
            }
            Ports::Text(text) => match text.split_once('-') {
                Some((first, last)) => port(first).zip(port(last)),
                None => port(text).map(|port| (port, port)),
            },
        };
        let (first, last) =
            read.ok_or_else(|| self.error(ports.span(), "invalid range of ports", PORTS))?;
        if first > last {
            let hint = format!("\"{last}-{first}\"");
            return Err(self.error(ports.span(), "the first port exceeds the last one", hint));
        }
        if first < FIRST_UNPRIVILEGED && !privileged {
            return Err(self.error(
                ports.span(),
                format!("the range begins below {FIRST_UNPRIVILEGED}, among the ports of system services"),
                "privileged_ports = true, if that is intended",
            ));
        }
        Ok((first, last))
    }
}
