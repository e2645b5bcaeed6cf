//! Interfaces that face a core, and the aggregates across it.

use std::collections::BTreeSet;
use std::time::Duration;

use earmark_core::{Prefix, Rate};
use earmark_node::{Across, Border, CorePackets, CoreProtocol, CoreProtocolError, Deaggregate};
use serde::Deserialize;
use toml::Spanned;

use super::ConfigError;
use super::services::DscpName;
use super::source::Source;

/// An `[[interface.across]]` table: the aggregates to one far edge.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AcrossTable {
    to: Spanned<String>,
    protocol: Option<Spanned<String>>,
    dscp: Option<Spanned<DscpName>>,
    tunnel: Option<Spanned<String>>,
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

/// An `[[interface.deaggregate]]` table: the aggregates of other edges to an address of this node.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeaggregateTable {
    at: Spanned<String>,
    dscp: Option<Spanned<DscpName>>,
    tunnel: Option<Spanned<String>>,
}

/// Largest rate of an aggregate: its messages have 32 bits for a rate.
const MOST: Rate = Rate::from_bps(u32::MAX as u64);

impl Source<'_> {
    /// The core behind an interface; `None` if the interface faces none.
    pub(super) fn border(
        &self,
        faces_core: bool,
        tables: &[AcrossTable],
        deaggregated: &[DeaggregateTable],
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
        let deaggregates = deaggregated
            .iter()
            .map(|table| self.deaggregate(table))
            .collect::<Result<Vec<_>, _>>()?;
        let hide = deaggregates.iter().any(|aggregate| aggregate.packets.needs_hiding())
            || across.iter().any(|aggregate: &Across| aggregate.by.needs_hiding());
        let is_border = faces_core || !across.is_empty() || !deaggregates.is_empty();
        Ok(is_border.then_some(Border { hide, across, deaggregates }))
    }

    fn deaggregate(&self, table: &DeaggregateTable) -> Result<Deaggregate, ConfigError> {
        let at = self.read(&table.at, "an address of this node, such as \"10.0.3.2\"")?;
        let packets = self.core_packets(table.dscp.as_ref(), table.tunnel.as_ref())?;
        let packets = packets.ok_or_else(|| {
            let message =
                "aggregates are known by their DSCP or their tunnel, and neither is given";
            self.error(table.at.span(), message, "such as dscp = \"ef\" or tunnel = \"gre\"")
        })?;
        Ok(Deaggregate { at, packets })
    }

    /// Reads how a core tells the packets of an aggregate apart.
    fn core_packets(
        &self,
        dscp: Option<&Spanned<DscpName>>,
        tunnel: Option<&Spanned<String>>,
    ) -> Result<Option<CorePackets>, ConfigError> {
        match (dscp, tunnel) {
            (None, None) => Ok(None),
            (Some(dscp), None) => self.dscp_of_aggregate(dscp).map(CorePackets::Dscp).map(Some),
            (None, Some(tunnel)) => match tunnel.get_ref().parse() {
                Ok(protocol) => Ok(Some(CorePackets::Tunnel(protocol))),
                Err(error) => {
                    let message = format!("{} is no protocol of a tunnel", tunnel.get_ref());
                    Err(self.error(tunnel.span(), message, error.to_string()))
                }
            },
            (Some(_), Some(tunnel)) => Err(self.error(
                tunnel.span(),
                "an aggregate is known by its DSCP or by its tunnel",
                "leave one of the two out",
            )),
        }
    }

    /// Reads the DSCP of an aggregate. Unreserved packets have the default one.
    fn dscp_of_aggregate(&self, name: &Spanned<DscpName>) -> Result<u8, ConfigError> {
        name.get_ref().code_point().filter(|dscp| !matches!(dscp, 0 | 48 | 56)).ok_or_else(|| {
            let hint = "a name such as \"ef\" or a number from 1 to 63, but not CS6 and CS7, which are control traffic";
            self.error(name.span(), "this code point cannot be that of an aggregate", hint)
        })
    }

    /// Reads the protocol that reserves the aggregates of a table.
    fn core_protocol(&self, table: &AcrossTable) -> Result<CoreProtocol, ConfigError> {
        let packets = self.core_packets(table.dscp.as_ref(), table.tunnel.as_ref())?;
        let [first, second] = CoreProtocol::NAMES;
        let name = table.protocol.as_ref().map_or(first, |name| name.get_ref());
        let place = table.protocol.as_ref().map_or(table.to.span(), Spanned::span);
        CoreProtocol::named(name, packets).map_err(|error| match error {
            CoreProtocolError::UnknownName => {
                let message = format!("no protocol {name} reserves aggregates");
                self.error(place, message, format!("\"{first}\" or \"{second}\""))
            }
            CoreProtocolError::WithoutPackets => self.error(
                place,
                "an aggregate of this protocol is known by its DSCP or its tunnel, and neither is given",
                "such as dscp = \"ef\" or tunnel = \"gre\"",
            ),
            CoreProtocolError::ByRange => {
                let dscp = table.dscp.as_ref().map(Spanned::span);
                let place = dscp.or_else(|| table.tunnel.as_ref().map(Spanned::span));
                self.error(
                    place.unwrap_or(table.to.span()),
                    format!("an aggregate of {name} is known by its range"),
                    format!("leave `dscp` and `tunnel` out, or protocol = \"{second}\""),
                )
            }
        })
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
            by: self.core_protocol(table)?,
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

    /// Both edges hide messages of flows from a core that reserves with their protocol.
    #[test]
    fn core_that_reserves_by_dscp_hides_messages_of_flows() {
        let [by_range, by_dscp] = CoreProtocol::NAMES;
        let rest = "ranges = [\"10.0.4.0/24\"]\nstep = \"4Mbit\"\nhighest = \"40Mbit\"\n";
        let across = |keys: &str| format!("[[interface.across]]\nto = \"10.0.3.2\"\n{keys}{rest}");
        let near = read(&across(&format!("protocol = \"{by_dscp}\"\ndscp = \"ef\"\n")))
            .expect("valid")
            .expect("one");
        let ef = CorePackets::Dscp(46);
        let expected = CoreProtocol::named(by_dscp, Some(ef));
        assert_eq!((near.hide, Ok(near.across[0].by)), (true, expected));
        let plain = read(&across("")).expect("valid").expect("one");
        assert_eq!((plain.hide, plain.across[0].by), (false, CoreProtocol::default()));
        let far = "[[interface.deaggregate]]\nat = \"10.0.3.2\"\ndscp = 46\n";
        let far = read(far).expect("valid").expect("it faces a core");
        let at = "10.0.3.2".parse().expect("an address");
        assert_eq!(
            (far.hide, &far.deaggregates[..]),
            (true, &[Deaggregate { at, packets: ef }][..])
        );
        for (protocol, keys, told) in [
            (by_dscp, "", "neither is given"),
            ("ospf", "", "no protocol ospf"),
            (by_dscp, "dscp = 0\n", "cannot be that of an aggregate"),
            (by_dscp, "dscp = \"cs6\"\n", "cannot be that of an aggregate"),
            (by_range, "dscp = 46\n", "leave `dscp` and `tunnel` out"),
            (by_range, "tunnel = \"gre\"\n", "leave `dscp` and `tunnel` out"),
            (by_dscp, "tunnel = \"gre\"\ndscp = 46\n", "leave one of the two out"),
            (by_dscp, "tunnel = \"udp\"\n", "udp:51820"),
        ] {
            let keys = format!("protocol = \"{protocol}\"\n{keys}");
            let error = read(&across(&keys)).expect_err(&keys).to_string();
            assert!(error.contains(told), "{keys}: {error}");
        }
    }

    /// A tunnel hides the messages of flows by itself.
    #[test]
    fn edges_of_a_tunnel_hide_nothing() {
        let protocol = CoreProtocol::NAMES[1];
        for tunnel in ["gre", "udp:51820"] {
            let near = read(&format!(
                "[[interface.across]]\nto = \"192.0.2.2\"\nprotocol = \"{protocol}\"\ntunnel = \"{tunnel}\"\n\
                 ranges = [\"0.0.0.0/0\"]\nstep = \"4Mbit\"\nhighest = \"40Mbit\"\n"
            ));
            let near = near.expect("valid").expect("one");
            let packets = CorePackets::Tunnel(tunnel.parse().expect("a tunnel"));
            let expected = CoreProtocol::named(protocol, Some(packets)).expect("known");
            assert_eq!((near.hide, near.across[0].by), (false, expected));
            let far = read(&format!(
                "[[interface.deaggregate]]\nat = \"192.0.2.2\"\ntunnel = \"{tunnel}\"\n"
            ));
            let far = far.expect("valid").expect("one");
            assert_eq!((far.hide, far.deaggregates[0].packets), (false, packets));
        }
        let error = read("[[interface.deaggregate]]\nat = \"192.0.2.2\"\n").expect_err("neither");
        assert!(error.to_string().contains("neither is given"), "{error}");
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
