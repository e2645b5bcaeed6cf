//! `[[mark]]`: marks that this host's firewall sets on packets, for policy rules that match them.

use earmark_core::Prefix;
use earmark_linux::MarkRule;
use serde::Deserialize;
use toml::Spanned;

use super::ConfigError;
use super::source::{LineOfKey, Source};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct MarkTable {
    mark: Spanned<u32>,
    interface: Option<String>,
    from: Option<Spanned<String>>,
    to: Option<Spanned<String>>,
    ip_protocol: Option<u8>,
    port: Option<u16>,
}

const RANGE: &str = "an address range such as \"10.0.3.0/24\"";

impl Source<'_> {
    pub(super) fn marks(&self, tables: &[MarkTable]) -> Result<Vec<MarkRule>, ConfigError> {
        let mut known = LineOfKey::new();
        let rule = |table: &MarkTable| {
            let rule = self.mark(table)?;
            let MarkRule { incoming, source, destination, protocol, port, mark: _ } = rule.clone();
            let packets = (incoming, source, destination, protocol, port);
            let hint = "the first table that matches is used; remove one of the two";
            let what = "a [[mark]] is for the same packets";
            self.once(&mut known, packets, table.mark.span(), what, hint)?;
            Ok(rule)
        };
        tables.iter().map(rule).collect()
    }

    fn mark(&self, table: &MarkTable) -> Result<MarkRule, ConfigError> {
        let range = |text: &Option<Spanned<String>>| -> Result<Option<Prefix>, ConfigError> {
            text.as_ref().map(|text| self.read(text, RANGE)).transpose()
        };
        let rule = MarkRule {
            mark: *table.mark.get_ref(),
            incoming: table.interface.clone(),
            source: range(&table.from)?,
            destination: range(&table.to)?,
            protocol: table.ip_protocol,
            port: table.port,
        };
        if let (Some(from), Some(to), Some(text)) = (rule.source, rule.destination, &table.to)
            && from.address().is_ipv4() != to.address().is_ipv4()
        {
            let message = "from and to are of different IP versions";
            return Err(self.error(text.span(), message, "write one [[mark]] for each version"));
        }
        Ok(rule)
    }
}
