//! `[natfw]`: the packet filter of a node with NATFW NSLP.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::ops::RangeInclusive;

use serde::Deserialize;
use toml::Spanned;

use super::ConfigError;
use super::source::Source;

/// Settings of the packet filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Natfw {
    /// Names of interfaces behind which nobody may begin a connection through this router without a pinhole.
    pub guard: BTreeSet<String>,
    /// Translation of addresses.
    pub translator: Option<Translator>,
}

/// Addresses and ports for translation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Translator {
    /// Interface whose packets are translated.
    pub interface: String,
    /// External addresses.
    pub addresses: Vec<IpAddr>,
    /// External ports.
    pub ports: RangeInclusive<u16>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct NatfwTable {
    #[serde(default)]
    enabled: bool,
    #[serde(default)]
    guard: Vec<Spanned<String>>,
    translator: Option<TranslatorTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TranslatorTable {
    interface: Spanned<String>,
    addresses: Vec<Spanned<String>>,
    ports: Option<Spanned<String>>,
}

/// Ports without those of services.
const PORTS: RangeInclusive<u16> = 1_024..=u16::MAX;
/// Octets of an interface name with its terminator (`IFNAMSIZ`).
const NAME_LENGTH: usize = 16;

impl Source<'_> {
    /// Returns the settings of the packet filter; `None` if it is disabled.
    pub(super) fn natfw(&self, table: Option<NatfwTable>) -> Result<Option<Natfw>, ConfigError> {
        let Some(table) = table else { return Ok(None) };
        let guard = table.guard.iter().map(|name| self.interface_name(name));
        let guard = guard.collect::<Result<_, _>>()?;
        let translator = table.translator.map(|table| self.translator(&table)).transpose()?;
        Ok(table.enabled.then_some(Natfw { guard, translator }))
    }

    fn translator(&self, table: &TranslatorTable) -> Result<Translator, ConfigError> {
        let hint = "an external address of this router such as \"203.0.113.1\"";
        let addresses = self.all::<IpAddr>(&table.addresses, hint)?;
        if addresses.is_empty() {
            let message = "a translator without addresses";
            return Err(self.error(table.interface.span(), message, hint));
        }
        let ports = table.ports.as_ref().map_or(Ok(PORTS), |text| {
            let ends = text.get_ref().split_once('-');
            let ports = ends.and_then(|(first, last)| {
                let ports = first.trim().parse().ok()?..=last.trim().parse().ok()?;
                (*ports.start() != 0 && !ports.is_empty()).then_some(ports)
            });
            ports.ok_or_else(|| {
                self.error(text.span(), "not a range of ports", "such as \"1024-65535\"")
            })
        })?;
        Ok(Translator { interface: self.interface_name(&table.interface)?, addresses, ports })
    }

    fn interface_name(&self, name: &Spanned<String>) -> Result<String, ConfigError> {
        match name.get_ref().len() {
            1..NAME_LENGTH => Ok(name.get_ref().clone()),
            _ => Err(self.error(
                name.span(),
                "the name of an interface has 1 to 15 octets",
                "a name that `ip link` shows",
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::config::{Config, ConfigError};

    fn read(text: &str) -> Result<Config, ConfigError> {
        Config::parse(text, Path::new("r1.toml"))
    }

    #[test]
    fn packet_filter_is_off_unless_enabled() {
        assert_eq!(read("").expect("valid").natfw, None);
        assert_eq!(read("[natfw]\nguard = [\"eth1\"]").expect("valid").natfw, None);
        let text = "[natfw]\nenabled = true\nguard = [\"eth1\"]\n[natfw.translator]\n\
            interface = \"eth1\"\naddresses = [\"203.0.113.1\"]\nports = \"5000-5999\"";
        let natfw = read(text).expect("valid").natfw.expect("enabled");
        assert!(natfw.guard.contains("eth1"));
        let translator = natfw.translator.expect("there");
        assert_eq!((translator.interface.as_str(), translator.ports), ("eth1", 5_000..=5_999));
    }

    #[test]
    fn impossible_settings_are_refused_with_their_line() {
        let translator = "[natfw.translator]\ninterface = \"eth1\"\n";
        for (text, line, message) in [
            ("[natfw]\nguard = [\"\"]".to_owned(), 2, "1 to 15 octets"),
            (format!("{translator}addresses = []"), 2, "without addresses"),
            (
                format!("{translator}addresses = [\"10.0.0.1\"]\nports = \"9-1\""),
                4,
                "not a range of ports",
            ),
            (format!("{translator}addresses = [\"10.0.0\"]"), 3, "invalid IP address"),
        ] {
            let error = read(&text).expect_err("refused").to_string();
            assert!(error.contains(&format!(":{line}")) && error.contains(message), "{error}");
        }
    }
}
