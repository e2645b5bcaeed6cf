//! Interfaces that face a core, and the aggregates across it.

use std::collections::BTreeSet;
use std::time::Duration;

use earmark_core::{Prefix, Rate};
use earmark_node::{Across, Border};
use serde::Deserialize;
use toml::Spanned;

use super::ConfigError;
use super::source::Source;

/// An `[[interface.across]]` table: the aggregates to one far edge.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AcrossTable {
    to: Spanned<String>,
    ranges: Vec<Spanned<String>>,
    step: Spanned<String>,
    highest: Spanned<String>,
    lowest: Option<Spanned<String>>,
    margin: Option<Spanned<String>>,
    shrink_after: Option<Spanned<String>>,
    patience: Option<Spanned<String>>,
    waiting: Option<Spanned<u32>>,
    pause: Option<Spanned<String>>,
    recover: Option<Spanned<String>>,
}

/// Largest rate of an aggregate: its messages have 32 bits for a rate.
const MOST: Rate = Rate::from_bps(u32::MAX as u64);

impl Source<'_> {
    /// The core behind an interface; `None` if the interface faces none.
    pub(super) fn border(
        &self,
        faces_core: bool,
        tables: &[AcrossTable],
    ) -> Result<Option<Border>, ConfigError> {
        let mut across = Vec::new();
        let mut known = BTreeSet::new();
        for table in tables {
            for range in &table.ranges {
                let aggregate = self.across(table, range)?;
                if !known.insert(aggregate.range) {
                    return Err(self.error(
                        range.span(),
                        "another aggregate across this core has the same range",
                        "each range is behind one far edge; remove one of the two",
                    ));
                }
                across.push(aggregate);
            }
        }
        Ok((faces_core || !across.is_empty()).then_some(Border { hide: false, across }))
    }

    fn across(&self, table: &AcrossTable, range: &Spanned<String>) -> Result<Across, ConfigError> {
        const RATE: &str = "a rate such as \"4Mbit\"";
        let to = self.read(&table.to, "the far edge's address, such as \"10.0.3.2\"")?;
        let prefix: Prefix = self.read(range, "an address range such as \"10.0.4.0/24\"")?;
        if prefix.address().is_ipv4() != std::net::IpAddr::is_ipv4(&to) {
            return Err(self.error(
                range.span(),
                "the range is of another family than the far edge",
                "one [[interface.across]] for IPv4 and one for IPv6",
            ));
        }
        let step: Rate = self.read(&table.step, RATE)?;
        let highest: Rate = self.read(&table.highest, RATE)?;
        if step == Rate::ZERO || step > highest {
            return Err(self.error(
                table.step.span(),
                format!("{highest} is not a multiple of the step {step}"),
                "above 0, at most `highest`",
            ));
        }
        if highest > MOST {
            return Err(self.error(
                table.highest.span(),
                format!("an aggregate has at most {MOST}"),
                "give several narrower ranges",
            ));
        }
        let rate = |text: Option<&Spanned<String>>, what: &str| {
            let Some(text) = text else { return Ok(Rate::ZERO) };
            let rate: Rate = self.read(text, RATE)?;
            if rate > highest {
                let message = format!("{what} is above `highest`");
                return Err(self.error(text.span(), message, format!("at most {highest}")));
            }
            Ok(rate)
        };
        let time = |text: Option<&Spanned<String>>, default: u64| {
            let (least, most) = (Duration::from_millis(100), Duration::from_secs(3_600));
            let hint = "from 100ms to 1 hour (60min) are possible";
            self.duration(text, least..=most, Duration::from_secs(default), hint)
        };
        Ok(Across {
            to,
            range: prefix,
            step,
            lowest: rate(table.lowest.as_ref(), "`lowest`")?,
            highest,
            margin: rate(table.margin.as_ref(), "`margin`")?,
            shrink_after: time(table.shrink_after.as_ref(), 30)?,
            patience: time(table.patience.as_ref(), 2)?,
            waiting: self.within(table.waiting.clone(), 1..100_001, 1_000)?,
            pause: time(table.pause.as_ref(), 5)?,
            recover: time(table.recover.as_ref(), 5)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::{Config, ConfigError};
    use super::*;

    fn read(across: &str) -> Result<Option<Border>, ConfigError> {
        let eth1 = "[[interface]]\nname = \"eth1\"\nbandwidth = \"1Gbit\"\n";
        let config = Config::parse(&format!("{eth1}{across}"), Path::new("r1.toml"))?;
        Ok(config.interfaces.into_iter().next().and_then(|interface| interface.border))
    }

    #[test]
    fn each_range_is_an_aggregate() {
        let border = read(
            "[[interface.across]]\nto = \"10.0.3.2\"\nranges = [\"10.0.4.0/24\", \"10.0.8.0/21\"]\n\
             step = \"4Mbit\"\nhighest = \"40Mbit\"\nmargin = \"1Mbit\"\nshrink_after = \"10s\"\n",
        );
        let border = border.expect("valid").expect("it faces a core");
        let ranges: Vec<String> = border.across.iter().map(|a| a.range.to_string()).collect();
        assert_eq!(ranges, ["10.0.4.0/24", "10.0.8.0/21"]);
        let first = &border.across[0];
        assert_eq!((first.step, first.margin), (Rate::from_mbps(4), Rate::from_mbps(1)));
        assert_eq!((first.lowest, first.shrink_after), (Rate::ZERO, Duration::from_secs(10)));
        assert_eq!(read("").expect("valid"), None);
        let far = read("faces_core = true\n").expect("valid");
        assert_eq!(far, Some(Border::default()));
    }

    #[test]
    fn invalid_aggregates_are_refused_with_place() {
        let table = |keys: &str| {
            let error = read(&format!("[[interface.across]]\n{keys}")).expect_err(keys);
            error.to_string()
        };
        let rest = "step = \"4Mbit\"\nhighest = \"40Mbit\"\n";
        for (keys, told) in [
            (format!("to = \"2001:db8::1\"\nranges = [\"10.0.4.0/24\"]\n{rest}"), "another family"),
            (format!("to = \"10.0.3.2\"\nranges = [\"10.0.4.0\"]\n{rest}"), "address range"),
            (
                "to = \"10.0.3.2\"\nranges = [\"10.0.4.0/24\"]\nstep = \"50Mbit\"\n\
                 highest = \"40Mbit\"\n"
                    .to_owned(),
                "is not a multiple",
            ),
            (
                format!("to = \"10.0.3.2\"\nranges = [\"10.0.4.0/24\", \"10.0.4.7/24\"]\n{rest}"),
                "the same range",
            ),
            (
                format!(
                    "to = \"10.0.3.2\"\nranges = [\"10.0.4.0/24\"]\nlowest = \"1Gbit\"\n{rest}"
                ),
                "above `highest`",
            ),
        ] {
            let error = table(&keys);
            assert!(error.contains(told), "{keys}: {error}");
        }
    }
}
