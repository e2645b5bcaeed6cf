//! Policy rules in the kernel's order (Linux: `fib_rules.h`, `net/core/fib_rules.c`): the rule that selected a table.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

use earmark_core::{Flow, Prefix};

use super::verdict::{MatchedRule, Verdict};
use crate::flow_routes::{TCP, UDP};
use crate::mirror::{RULE_HEADER, ip_address};
use crate::netlink::{Attribute, Connection, Message, NetlinkError, Received};

/// Attributes of rules (`FRA_...`).
const DESTINATION: u16 = 1;
const SOURCE: u16 = 2;
const INCOMING: u16 = 3;
const GOTO: u16 = 4;
const PRIORITY: u16 = 6;
const MARK: u16 = 10;
const TUNNEL: u16 = 12;
const SUPPRESS_GROUP: u16 = 13;
const SUPPRESS_LENGTH: u16 = 14;
const TABLE: u16 = 15;
const MARK_MASK: u16 = 16;
const OUTGOING: u16 = 17;
const L3MDEV: u16 = 19;
const USERS: u16 = 20;
const IP_PROTOCOL: u16 = 22;
const SOURCE_PORTS: u16 = 23;
const DESTINATION_PORTS: u16 = 24;
const DSCP: u16 = 25;
const FLOW_LABEL: u16 = 26;
const FLOW_LABEL_MASK: u16 = 27;
const SOURCE_PORT_MASK: u16 = 28;
const DESTINATION_PORT_MASK: u16 = 29;
/// Attributes that select nothing: padding, realms, protocol (origin of the rule).
const WITHOUT_EFFECT: [u16; 3] = [18, 11, 21];
/// `FIB_RULE_INVERT`.
const INVERT: u32 = 2;
/// Value that means no suppression.
const NONE: u32 = u32::MAX;
/// Maximum number of rules in one walk: bounds a cycle of rules.
const MAX_STEPS: usize = 1 << 16;

/// Properties of a packet that the kernel's rules match.
pub(super) struct Packet<'a> {
    pub(super) flow: &'a Flow,
    /// Name of the incoming interface; `lo` for packets of this host.
    pub(super) incoming: Option<String>,
    pub(super) is_own: bool,
    pub(super) mark: u32,
    /// User ID of the calling process, as owner of this host's packets.
    pub(super) user: u32,
}

impl Packet<'_> {
    /// Returns protocol and ports, as far as the kernel's query included them.
    fn transport(&self) -> (u8, u16, u16) {
        match self.flow.protocol {
            TCP | UDP => (self.flow.protocol, self.flow.source_port, self.flow.destination_port),
            _ => (0, 0, 0),
        }
    }
}

/// Action of a rule for matching packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    /// Looks up a table.
    Table(u32),
    /// Continues at the rule of this priority.
    Goto(u32),
    /// Nothing.
    Nothing,
    /// Refuses the packets: the type of the equivalent route.
    Refuse(u8),
}

/// One condition of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Selector {
    From(Prefix),
    To(Prefix),
    TypeOfService(u8),
    Incoming(String),
    Outgoing(String),
    Mark {
        mark: u32,
        mask: u32,
    },
    Protocol(u8),
    SourcePorts(RangeInclusive<u16>),
    DestinationPorts(RangeInclusive<u16>),
    PortMask {
        of_source: bool,
        mask: u16,
    },
    Users(RangeInclusive<u32>),
    FlowLabel {
        label: u32,
        mask: u32,
    },
    Tunnel(u64),
    Vrf,
    /// Attribute of a newer kernel.
    Unknown(u16),
}

/// Result of matching a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    No,
    /// Unknown here.
    Maybe,
    Yes,
}

/// A policy rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rule {
    priority: u32,
    selectors: Vec<Selector>,
    is_inverted: bool,
    action: Action,
    /// Routes with a prefix of at most this length are ignored.
    suppressed_length: Option<u32>,
    /// Routes through an interface of some group are ignored.
    suppresses_group: bool,
}

/// All rules of a family, in the kernel's order.
#[derive(Debug)]
pub(super) struct RuleList(Vec<Rule>);

impl RuleList {
    /// Dumps the current rules.
    pub(super) fn read(netlink: &mut Connection, ipv6: bool) -> Result<RuleList, NetlinkError> {
        let mut header = [0; RULE_HEADER];
        header[0] = if ipv6 { libc::AF_INET6 } else { libc::AF_INET } as u8;
        let message = Message::new(libc::RTM_GETRULE, 0).fixed(&header);
        let answers = match netlink.dump("read policy rules", message) {
            Ok(answers) => answers,
            // The kernel does not support rules.
            Err(error) if error.is(libc::EAFNOSUPPORT) || error.is(libc::EOPNOTSUPP) => {
                return Ok(RuleList(Vec::new()));
            }
            Err(error) => return Err(error),
        };
        let rules = answers.iter().map(|message| Rule::decode(&message?));
        rules.collect::<Result<_, _>>().map(RuleList)
    }

    /// Whether all rules match all packets.
    pub(super) fn are_default(&self) -> bool {
        self.0.iter().all(|rule| rule.selectors.is_empty())
    }

    /// Whether a rule matches on IP protocols or ports.
    pub(super) fn match_ports(&self) -> bool {
        let is_of_ports = |selector: &Selector| {
            matches!(
                selector,
                Selector::Protocol(_) | Selector::SourcePorts(_) | Selector::DestinationPorts(_)
            )
        };
        self.0.iter().any(|rule| rule.selectors.iter().any(is_of_ports))
    }

    /// Returns the first rule that matches a packet and that `is_it`.
    pub(super) fn find(
        &self,
        packet: &Packet<'_>,
        is_it: impl Fn(&Rule) -> bool,
    ) -> Option<MatchedRule> {
        let (mut at, mut is_certain, mut candidate) = (0, true, None);
        for _ in 0..MAX_STEPS {
            let Some(rule) = self.0.get(at) else { break };
            at += 1;
            let fit = rule.fits(packet);
            match (fit, rule.action) {
                (Fit::No, _) => {}
                (_, Action::Goto(target)) => {
                    if fit == Fit::Yes {
                        at = self.0.partition_point(|rule| rule.priority < target).max(at);
                    }
                    is_certain &= fit == Fit::Yes;
                }
                _ if !is_it(rule) => {}
                (Fit::Yes, _) => return Some(rule.matched(is_certain && candidate.is_none())),
                (Fit::Maybe, _) => candidate = candidate.or(Some(rule)),
            }
        }
        candidate.map(|rule| rule.matched(false))
    }
}

impl Rule {
    fn decode(message: &Received<'_>) -> Result<Rule, NetlinkError> {
        let fixed = message.fixed(RULE_HEADER, "rule")?;
        let (destination_length, source_length, tos) = (fixed[1], fixed[2], fixed[3]);
        let unspecified: IpAddr = match i32::from(fixed[0]) {
            libc::AF_INET => Ipv4Addr::UNSPECIFIED.into(),
            _ => Ipv6Addr::UNSPECIFIED.into(),
        };
        let (mut destination, mut source) = (unspecified, unspecified);
        let (mut table, mut target, mut priority) = (u32::from(fixed[4]), 0, 0);
        let (mut mark, mut mark_mask) = (0, None);
        let (mut label, mut label_mask) = (None, u32::MAX);
        let (mut suppressed_length, mut suppresses_group) = (None, false);
        let mut rest = Vec::new();
        for attribute in message.attributes(RULE_HEADER) {
            let attribute = attribute?;
            let name = |what| attribute.u32(what);
            match attribute.kind {
                DESTINATION => destination = ip_address(&attribute)?,
                SOURCE => source = ip_address(&attribute)?,
                INCOMING => rest.push(Selector::Incoming(attribute.text())),
                OUTGOING => rest.push(Selector::Outgoing(attribute.text())),
                GOTO => target = name("target of a rule")?,
                PRIORITY => priority = name("priority of a rule")?,
                MARK => mark = name("mark of a rule")?,
                MARK_MASK => mark_mask = Some(name("mask of a mark")?),
                TUNNEL => {
                    rest.push(Selector::Tunnel(u64::from_be_bytes(attribute.array("tunnel")?)));
                }
                SUPPRESS_GROUP => suppresses_group = name("suppressed group")? != NONE,
                SUPPRESS_LENGTH => {
                    let length = name("suppressed prefix length")?;
                    suppressed_length = (length != NONE).then_some(length);
                }
                TABLE => table = name("table of a rule")?,
                L3MDEV => rest.extend((attribute.u8("l3mdev")? != 0).then_some(Selector::Vrf)),
                USERS => {
                    let [a, b, c, d, e, f, g, h] = attribute.array("users of a rule")?;
                    let first = u32::from_ne_bytes([a, b, c, d]);
                    rest.push(Selector::Users(first..=u32::from_ne_bytes([e, f, g, h])));
                }
                IP_PROTOCOL => {
                    rest.push(Selector::Protocol(attribute.u8("IP protocol of a rule")?));
                }
                SOURCE_PORTS => rest.push(Selector::SourcePorts(ports(&attribute)?)),
                DESTINATION_PORTS => rest.push(Selector::DestinationPorts(ports(&attribute)?)),
                SOURCE_PORT_MASK | DESTINATION_PORT_MASK => {
                    let mask = u16::from_ne_bytes(attribute.array("mask of a port")?);
                    let of_source = attribute.kind == SOURCE_PORT_MASK;
                    rest.extend(
                        (mask != u16::MAX).then_some(Selector::PortMask { of_source, mask }),
                    );
                }
                DSCP => rest.push(Selector::TypeOfService(attribute.u8("DSCP of a rule")? << 2)),
                FLOW_LABEL => label = Some(u32::from_be_bytes(attribute.array("flow label")?)),
                FLOW_LABEL_MASK => label_mask = u32::from_be_bytes(attribute.array("flow label")?),
                kind if WITHOUT_EFFECT.contains(&kind) => {}
                kind => rest.push(Selector::Unknown(kind)),
            }
        }
        let mut selectors = Vec::new();
        let prefix = |address, length| (length != 0).then(|| Prefix::new(address, length));
        selectors.extend(prefix(source, source_length).map(Selector::From));
        selectors.extend(prefix(destination, destination_length).map(Selector::To));
        selectors.extend((tos != 0).then_some(Selector::TypeOfService(tos)));
        if mark != 0 || mark_mask.is_some_and(|mask| mask != 0) {
            selectors.push(Selector::Mark { mark, mask: mark_mask.unwrap_or(u32::MAX) });
        }
        selectors.extend(label.map(|label| Selector::FlowLabel { label, mask: label_mask }));
        selectors.extend(rest);
        let action = match fixed[7] {
            1 => Action::Table(table),
            2 => Action::Goto(target),
            3 => Action::Nothing,
            // FR_ACT_BLACKHOLE and later actions have the numbers of route types.
            kind => Action::Refuse(kind),
        };
        let flags = u32::from_ne_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]);
        let is_inverted = flags & INVERT != 0;
        Ok(Rule { priority, selectors, is_inverted, action, suppressed_length, suppresses_group })
    }

    fn fits(&self, packet: &Packet<'_>) -> Fit {
        let mask = |of_source| {
            let is_it = |selector: &Selector| match selector {
                Selector::PortMask { of_source: source, mask } if *source == of_source => {
                    Some(*mask)
                }
                _ => None,
            };
            self.selectors.iter().find_map(is_it)
        };
        let fits = |selector| fit_of(selector, packet, &mask);
        let fit = self.selectors.iter().map(fits).min().unwrap_or(Fit::Yes);
        match (fit, self.is_inverted) {
            (Fit::Yes, true) => Fit::No,
            (Fit::No, true) => Fit::Yes,
            (fit, _) => fit,
        }
    }

    /// Whether the answer can result from this rule: it was found in `table`, under a prefix of this length.
    pub(super) fn leads_to(&self, table: u32, length: Option<u8>) -> bool {
        let is_suppressed = match (self.suppressed_length, length) {
            (Some(most), Some(length)) => u32::from(length) <= most,
            _ => false,
        };
        let is_table = match self.action {
            // A rule of virtual routing tables (VRF) names no table.
            Action::Table(named) => named == table || self.selectors.contains(&Selector::Vrf),
            _ => false,
        };
        is_table && !is_suppressed
    }

    /// Whether the rule refuses packets with this verdict.
    pub(super) fn refuses_with(&self, verdict: Verdict) -> bool {
        let Action::Refuse(kind) = self.action else { return false };
        match kind {
            libc::RTN_BLACKHOLE => verdict == Verdict::Blackhole,
            // The kernel has one error number for both.
            libc::RTN_UNREACHABLE => matches!(verdict, Verdict::NoRoute | Verdict::Unreachable),
            libc::RTN_PROHIBIT => verdict == Verdict::Prohibited,
            _ => false,
        }
    }

    fn matched(&self, is_certain: bool) -> MatchedRule {
        let is_certain = is_certain && !self.suppresses_group;
        MatchedRule {
            priority: self.priority,
            selector: self.text(),
            action: self.action_text(),
            is_certain,
        }
    }

    /// Formats the rule as `ip rule` does.
    fn text(&self) -> String {
        let mut text = if self.is_inverted { "not " } else { "" }.to_owned();
        match self.selectors.iter().find(|selector| matches!(selector, Selector::From(_))) {
            Some(Selector::From(prefix)) => _ = write!(text, "from {}", short(*prefix)),
            _ => text += "from all",
        }
        for selector in &self.selectors {
            let _ = match selector {
                Selector::From(_) => Ok(()),
                Selector::To(prefix) => write!(text, " to {}", short(*prefix)),
                Selector::TypeOfService(tos) => write!(text, " tos {tos:#x}"),
                Selector::Incoming(name) => write!(text, " iif {name}"),
                Selector::Outgoing(name) => write!(text, " oif {name}"),
                Selector::Mark { mark, mask: u32::MAX } => write!(text, " fwmark {mark:#x}"),
                Selector::Mark { mark, mask } => write!(text, " fwmark {mark:#x}/{mask:#x}"),
                Selector::Protocol(17) => write!(text, " ipproto udp"),
                Selector::Protocol(6) => write!(text, " ipproto tcp"),
                Selector::Protocol(number) => write!(text, " ipproto {number}"),
                Selector::SourcePorts(ports) => write!(text, " sport {}", range(ports)),
                Selector::DestinationPorts(ports) => write!(text, " dport {}", range(ports)),
                Selector::PortMask { of_source: true, mask } => {
                    write!(text, " sport mask {mask:#x}")
                }
                Selector::PortMask { of_source: false, mask } => {
                    write!(text, " dport mask {mask:#x}")
                }
                Selector::Users(users) => {
                    write!(text, " uidrange {}-{}", users.start(), users.end())
                }
                Selector::FlowLabel { label, mask } => {
                    write!(text, " flowlabel {label:#x}/{mask:#x}")
                }
                Selector::Tunnel(id) => write!(text, " tun_id {id}"),
                Selector::Vrf => write!(text, " l3mdev"),
                Selector::Unknown(kind) => write!(text, " attribute {kind}"),
            };
        }
        text
    }

    fn action_text(&self) -> String {
        let mut text = match self.action {
            Action::Table(_) if self.selectors.contains(&Selector::Vrf) => {
                "lookup [l3mdev-table]".into()
            }
            Action::Table(table) => format!("lookup {}", table_name(table)),
            Action::Goto(target) => format!("goto {target}"),
            Action::Nothing => "nop".into(),
            Action::Refuse(libc::RTN_BLACKHOLE) => "blackhole".into(),
            Action::Refuse(libc::RTN_UNREACHABLE) => "unreachable".into(),
            Action::Refuse(libc::RTN_PROHIBIT) => "prohibit".into(),
            Action::Refuse(other) => format!("action {other}"),
        };
        if let Some(length) = self.suppressed_length {
            let _ = write!(text, " suppress_prefixlength {length}");
        }
        text
    }
}

/// Returns the name of a table that every kernel has, or the number.
pub fn table_name(table: u32) -> String {
    const NAMES: [(u8, &str); 3] = [
        (libc::RT_TABLE_LOCAL, "local"),
        (libc::RT_TABLE_MAIN, "main"),
        (libc::RT_TABLE_DEFAULT, "default"),
    ];
    let known = NAMES.iter().find(|(number, _)| u32::from(*number) == table);
    known.map_or_else(|| table.to_string(), |(_, name)| (*name).to_owned())
}

fn fit_of(
    selector: &Selector,
    packet: &Packet<'_>,
    port_mask: &impl Fn(bool) -> Option<u16>,
) -> Fit {
    let (protocol, source_port, destination_port) = packet.transport();
    let port = |ports: &RangeInclusive<u16>, port: u16, of_source| match port_mask(of_source) {
        Some(mask) => (port ^ ports.start()) & mask == 0,
        None => ports.contains(&port),
    };
    let yes = match selector {
        Selector::From(prefix) => packet.flow.source.is_some_and(|source| prefix.contains(source)),
        Selector::To(prefix) => prefix.contains(packet.flow.destination),
        // The query contains no DSCP, outgoing interface or tunnel.
        Selector::TypeOfService(_) | Selector::Outgoing(_) | Selector::Tunnel(_) => false,
        Selector::Incoming(name) => match &packet.incoming {
            Some(incoming) => incoming == name,
            None => return Fit::Maybe,
        },
        Selector::Mark { mark, mask } => (packet.mark ^ mark) & mask == 0,
        Selector::Protocol(named) => protocol == *named,
        Selector::SourcePorts(ports) => port(ports, source_port, true),
        Selector::DestinationPorts(ports) => port(ports, destination_port, false),
        Selector::PortMask { .. } => true,
        Selector::Users(users) => packet.is_own && users.contains(&packet.user),
        Selector::FlowLabel { label, mask } => (packet.flow.flow_label ^ label) & mask == 0,
        Selector::Vrf | Selector::Unknown(_) => return Fit::Maybe,
    };
    if yes { Fit::Yes } else { Fit::No }
}

fn ports(attribute: &Attribute<'_>) -> Result<RangeInclusive<u16>, NetlinkError> {
    let [a, b, c, d] = attribute.array("ports of a rule")?;
    Ok(u16::from_ne_bytes([a, b])..=u16::from_ne_bytes([c, d]))
}

fn range(ports: &RangeInclusive<u16>) -> String {
    match (ports.start(), ports.end()) {
        (first, last) if first == last => first.to_string(),
        (first, last) => format!("{first}-{last}"),
    }
}

/// Formats a prefix; a single address without its length.
fn short(prefix: Prefix) -> String {
    match prefix == Prefix::host(prefix.address()) {
        true => prefix.address().to_string(),
        false => prefix.to_string(),
    }
}

#[cfg(test)]
mod tests;
