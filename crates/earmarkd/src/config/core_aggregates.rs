//! Interfaces that face a core, and the aggregates across it.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use earmark_core::{Prefix, Rate};
use earmark_node::{Across, Border, CorePackets, CoreProtocol, CoreProtocolError, Deaggregate};
use serde::Deserialize;
use toml::Spanned;

use super::services::DscpName;
use super::source::{LineOfKey, Source};
use super::{ConfigError, InterfaceConfig};

/// An `[[interface.across]]` table: the aggregates to one far edge.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AcrossTable {
    to: Spanned<String>,
    protocol: Option<Spanned<String>>,
    dscp: Option<Spanned<DscpName>>,
    tunnel: Option<Spanned<String>>,
    ranges: Vec<Spanned<String>>,
    step: Option<Spanned<String>>,
    highest: Option<Spanned<String>>,
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
    /// The core behind an interface; `None` if the interface faces none. `shaped` is the rate to which its queues limit all
    /// packets.
    pub(super) fn border(
        &self,
        faces_core: bool,
        tables: &[AcrossTable],
        deaggregated: &[DeaggregateTable],
        shaped: Option<Rate>,
    ) -> Result<Option<Border>, ConfigError> {
        let mut across: Vec<Across> = Vec::new();
        let (mut known, mut sessions) = (BTreeSet::new(), BTreeSet::new());
        for table in tables {
            for range in &table.ranges {
                let aggregate = self.across(table, range, shaped)?;
                if !known.insert(aggregate.range) {
                    return Err(self.error(
                        range.span(),
                        "another aggregate across this core has the same range",
                        "each range is behind one far edge; remove one of the two",
                    ));
                }
                if let Some(session) = session_of(&aggregate)
                    && !sessions.insert(session)
                {
                    return Err(self.error(
                        range.span(),
                        "another aggregate to this far edge has the same packets",
                        "one range for each far edge and DSCP; a tunnel has one range",
                    ));
                }
                across.push(aggregate);
            }
        }
        let mut known = LineOfKey::new();
        let deaggregates = deaggregated
            .iter()
            .map(|table| self.deaggregate(table, &mut known))
            .collect::<Result<Vec<_>, _>>()?;
        // Unless they are hidden or in a tunnel, the nodes of the core process the messages of the flows.
        let ours = across.iter().filter_map(|aggregate| aggregate.by.packets());
        let theirs = deaggregates.iter().map(|aggregate| aggregate.packets);
        let hide = ours.chain(theirs).any(|packets| !packets.is_tunnel());
        let is_border = faces_core || !across.is_empty() || !deaggregates.is_empty();
        Ok(is_border.then_some(Border { hide, across, deaggregates }))
    }

    /// Reads a table of aggregates that end here; `known` has those before it.
    fn deaggregate(
        &self,
        table: &DeaggregateTable,
        known: &mut LineOfKey<CoreSession>,
    ) -> Result<Deaggregate, ConfigError> {
        let at = self.read(&table.at, "an address of this node, such as \"10.0.3.2\"")?;
        let packets = self.core_packets(table.dscp.as_ref(), table.tunnel.as_ref())?;
        let packets = packets.ok_or_else(|| {
            let message =
                "aggregates are known by their DSCP or their tunnel, and neither is given";
            self.error(table.at.span(), message, "such as dscp = \"ef\" or tunnel = \"gre\"")
        })?;
        let hint = "one [[interface.deaggregate]] for each address and DSCP, or tunnel; remove one of the two";
        let what = format!("aggregates to {at} with the same packets end here");
        self.once(known, (at, packets), table.at.span(), what, hint)?;
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

    fn across(
        &self,
        table: &AcrossTable,
        range: &Spanned<String>,
        shaped: Option<Rate>,
    ) -> Result<Across, ConfigError> {
        let to = self.read(&table.to, "the far edge's address, such as \"10.0.3.2\"")?;
        let prefix: Prefix = self.read(range, "an address range such as \"10.0.4.0/24\"")?;
        let by = self.core_protocol(table)?;
        let is_tunnel = by.packets().is_some_and(CorePackets::is_tunnel);
        // A tunnel may have packets of the other family inside.
        if !is_tunnel && prefix.address().is_ipv4() != IpAddr::is_ipv4(&to) {
            return Err(self.error(
                range.span(),
                "the range is of another family than the far edge",
                "one [[interface.across]] for IPv4 and one for IPv6",
            ));
        }
        let Rates { step, lowest, highest, margin } =
            if is_tunnel { self.rates_of_tunnel(table, shaped)? } else { self.rates(table)? };
        if highest > MOST {
            let place = table.highest.as_ref().map_or(table.to.span(), Spanned::span);
            let message = format!("an aggregate has at most {MOST}");
            return Err(self.error(place, message, "give several narrower ranges"));
        }
        let time = |text: Option<&Spanned<String>>, default: u64| {
            let (least, most) = (Duration::from_millis(100), Duration::from_secs(3_600));
            let hint = "from 100ms to 1 hour (60min) are possible";
            self.duration(text, least..=most, Duration::from_secs(default), hint)
        };
        Ok(Across {
            to,
            range: prefix,
            by,
            step,
            lowest,
            highest,
            margin,
            shrink_after: time(table.shrink_after.as_ref(), 30)?,
            patience: time(table.patience.as_ref(), 2)?,
            waiting: self.within(table.waiting.clone(), 1..100_001, 1_000)?,
            pause: time(table.pause.as_ref(), 5)?,
            recover: time(table.recover.as_ref(), 5)?,
        })
    }

    /// Reads the rates between which an aggregate grows and shrinks.
    fn rates(&self, table: &AcrossTable) -> Result<Rates, ConfigError> {
        const RATE: &str = "a rate such as \"4Mbit\"";
        let (Some(step_text), Some(highest)) = (&table.step, &table.highest) else {
            let hint = "such as step = \"4Mbit\" and highest = \"200Mbit\"";
            return Err(self.error(table.to.span(), "`step` or `highest` is missing", hint));
        };
        let step: Rate = self.read(step_text, RATE)?;
        let highest: Rate = self.read(highest, RATE)?;
        if step == Rate::ZERO || step > highest {
            return Err(self.error(
                step_text.span(),
                format!("{highest} is not a multiple of the step {step}"),
                "above 0, at most `highest`",
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
        let lowest = rate(table.lowest.as_ref(), "`lowest`")?;
        Ok(Rates { step, lowest, highest, margin: rate(table.margin.as_ref(), "`margin`")? })
    }

    /// Returns the rates of a tunnel's session: it has room for all packets that enter the tunnel, because the routers below cannot
    /// tell reserved ones from others.
    fn rates_of_tunnel(
        &self,
        table: &AcrossTable,
        shaped: Option<Rate>,
    ) -> Result<Rates, ConfigError> {
        let AcrossTable { step, highest, lowest, margin, shrink_after, .. } = table;
        let of_steps = [step, highest, lowest, margin, shrink_after];
        if let Some(text) = of_steps.into_iter().flatten().next() {
            return Err(self.error(
                text.span(),
                "the session of a tunnel has the bandwidth of the interface",
                "leave `step`, `highest`, `lowest`, `margin` and `shrink_after` out",
            ));
        }
        let Some(rate) = shaped else {
            return Err(self.error(
                table.to.span(),
                "a tunnel is reserved for with the rate to which its packets are shaped, and there is none",
                "give the interface a `bandwidth`, and queues = \"per-flow\" or \"aggregate\"",
            ));
        };
        Ok(Rates { step: rate, lowest: rate, highest: rate, margin: Rate::ZERO })
    }
}

/// Far edge of an aggregate, and what its packets are told apart by, if there is one session for both.
type CoreSession = (IpAddr, CorePackets);

fn session_of(aggregate: &Across) -> Option<CoreSession> {
    aggregate.by.packets().map(|packets| (aggregate.to, packets))
}

/// Sessions of the aggregates of all interfaces, each with the interface that has it.
#[derive(Default)]
pub(super) struct CoreSessions(BTreeMap<CoreSession, String>);

impl CoreSessions {
    /// Adds the sessions of an interface. Returns one that another interface has, as its far edge and that interface.
    pub(super) fn add(&mut self, interface: &InterfaceConfig) -> Option<(IpAddr, String)> {
        let all = interface.border.iter().flat_map(|border| &border.across);
        let mut same = None;
        for session in all.filter_map(session_of) {
            let other = self.0.insert(session, interface.name.clone());
            same = same.or(other.map(|other| (session.0, other)));
        }
        same
    }
}

/// Rates of an aggregate.
struct Rates {
    step: Rate,
    lowest: Rate,
    highest: Rate,
    margin: Rate,
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
                 ranges = [\"0.0.0.0/0\"]\n"
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

    /// One session reserves for all packets of a kind to a far edge, and one in a tunnel for all of them.
    #[test]
    fn aggregates_of_one_session_are_refused() {
        let protocol = CoreProtocol::NAMES[1];
        let table = |to: &str, keys: &str, range: &str| {
            format!(
                "[[interface.across]]\nto = \"{to}\"\nprotocol = \"{protocol}\"\n{keys}ranges = [{range}]\n"
            )
        };
        let steps = "step = \"4Mbit\"\nhighest = \"40Mbit\"\n";
        let ef = |to, range| table(to, &format!("dscp = \"ef\"\n{steps}"), range);
        let af41 = |to, range| table(to, &format!("dscp = \"af41\"\n{steps}"), range);
        let gre = |to, range| table(to, "tunnel = \"gre\"\n", range);
        let first = ef("10.0.3.2", "\"10.0.4.0/24\"");
        for (second, is_valid) in [
            (ef("10.0.3.2", "\"10.0.8.0/24\""), false),
            (af41("10.0.3.2", "\"10.0.8.0/24\""), true),
            (ef("10.0.3.3", "\"10.0.8.0/24\""), true),
            (gre("10.0.3.2", "\"10.0.8.0/24\""), true),
        ] {
            assert_eq!(read(&format!("{first}{second}")).is_ok(), is_valid, "{second}");
            let eth2 = "[[interface]]\nname = \"eth2\"\nbandwidth = \"1Gbit\"\n";
            let error =
                read(&format!("{first}{eth2}{second}")).err().map(|error| error.to_string());
            assert_eq!(error.is_none(), is_valid, "{second}");
            assert!(error.is_none_or(|error| error.contains("eth1 has an aggregate to 10.0.3.2")));
        }
        let both = "\"10.0.4.0/24\", \"10.0.8.0/24\"";
        for table in [ef("10.0.3.2", both), gre("10.0.3.2", both)] {
            let error = read(&table).expect_err(&table).to_string();
            assert!(error.contains("has the same packets"), "{error}");
        }
    }

    #[test]
    fn deaggregate_table_that_repeats_another_is_refused_with_both_lines() {
        let table = |at: &str, packets: &str| {
            format!("[[interface.deaggregate]]\nat = \"{at}\"\n{packets}\n")
        };
        let first = table("10.0.3.2", "dscp = \"ef\"") + &table("10.0.3.2", "tunnel = \"gre\"");
        for (second, earlier) in [
            (table("10.0.3.2", "dscp = 46"), Some(5)),
            (table("10.0.3.2", "tunnel = \"gre\""), Some(8)),
            (table("10.0.3.2", "dscp = \"af41\""), None),
            (table("10.0.3.3", "dscp = \"ef\""), None),
        ] {
            let outcome = read(&format!("{first}{second}"));
            let found = outcome.err().map(|error| (error.place.line, error.message));
            let message = |line| {
                format!(
                    "aggregates to 10.0.3.2 with the same packets end here already, in line {line}"
                )
            };
            assert_eq!(found, earlier.map(|line| (11, message(line))), "{second}");
            // A node may face the core through several interfaces, and all of them need the table.
            let eth2 = "[[interface]]\nname = \"eth2\"\nbandwidth = \"1Gbit\"\n";
            assert!(read(&format!("{first}{eth2}{second}")).is_ok(), "{second}");
        }
    }

    /// Routers below a tunnel cannot tell reserved packets from others: its session has room for all.
    #[test]
    fn session_of_a_tunnel_has_the_bandwidth_of_the_interface() {
        let protocol = CoreProtocol::NAMES[1];
        let tunnel = format!(
            "[[interface.across]]\nto = \"192.0.2.2\"\nprotocol = \"{protocol}\"\ntunnel = \"gre\"\nranges = [\"2001:db8::/32\"]\n"
        );
        let border = read(&tunnel).expect("valid").expect("one");
        let all = Rate::from_mbps(1_000);
        let Across { step, lowest, highest, margin, .. } = border.across[0];
        assert_eq!((step, lowest, highest, margin), (all, all, all, Rate::ZERO));
        for key in ["step", "highest", "lowest", "margin"] {
            let error = read(&format!("{tunnel}{key} = \"4Mbit\"\n")).expect_err(key).to_string();
            assert!(error.contains("has the bandwidth of the interface"), "{error}");
        }
        for settings in ["queues = \"priority\"\nbandwidth = \"1Gbit\"", "queues = \"per-flow\""] {
            let text = format!("[[interface]]\nname = \"gre1\"\n{settings}\n{tunnel}");
            let error = Config::parse(&text, Path::new("r1.toml")).expect_err(settings).to_string();
            assert!(error.contains("to which its packets are shaped"), "{error}");
        }
        let without = tunnel
            .replace("tunnel = \"gre\"\n", "dscp = \"ef\"\n")
            .replace("2001:db8::/32", "10.0.4.0/24");
        let error = read(&without).expect_err("no steps").to_string();
        assert!(error.contains("`step` or `highest` is missing"), "{error}");
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
