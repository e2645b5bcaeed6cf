//! Parser of topology files: from text to a valid network, or to the line with the error.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Range;
use std::time::Duration;

use earmark_core::amounts::parse_duration;
use earmark_core::{Prefix, PrefixError, Rate, RateError};
use serde::Deserialize;
use toml::Spanned;

use super::{End, Link, MAX_LINKS, MAX_NODES, Metric, Node, Role, Topology};

/// Error in a topology file, with its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopologyError {
    /// Line, from 1.
    pub line: usize,
    /// The invalid key, `link.bandwidth`; empty if the text is not TOML.
    pub key: &'static str,
    /// The problem.
    pub problem: Problem,
}

impl fmt::Display for TopologyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: ", self.line)?;
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        write!(f, "{}", self.problem)
    }
}

// The problem is part of the text above, so it is not repeated as a source.
impl std::error::Error for TopologyError {}

/// Problem of a topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// Invalid TOML, or a key that is missing, unknown or of the wrong type; in the words of the TOML parser.
    #[error("{0}")]
    Toml(String),
    /// The network has no nodes or no links.
    #[error("a network needs at least two nodes and one link")]
    Empty,
    /// More nodes or links than the lab can number.
    #[error("at most {MAX_NODES} nodes and {MAX_LINKS} links are possible")]
    TooLarge,
    /// A name that is not valid for a namespace or interface.
    #[error("invalid name `{0}`: use 1 to 32 letters, digits, `_` or `-`, not starting with `-`")]
    BadName(String),
    /// Two nodes have the same name.
    #[error("node `{0}` is defined twice")]
    DuplicateNode(String),
    /// A link to an unknown node.
    #[error("unknown node `{0}`; add [[node]] name = \"{0}\" or correct the name")]
    NoSuchNode(String),
    /// A link from a node to itself.
    #[error("`{0}` is linked with itself; a link joins two different nodes")]
    SelfLink(String),
    /// Not a rate.
    #[error("invalid rate `{text}`: {why}")]
    BadRate {
        /// The text.
        text: String,
        /// The reason.
        why: RateError,
    },
    /// A link without bandwidth.
    #[error("the bandwidth must be more than zero")]
    ZeroBandwidth,
    /// Not a share.
    #[error("`{0}` is neither a share such as 75% (0 to 100) nor a rate such as 7.5Mbit")]
    BadShare(String),
    /// The reservable rate exceeds the bandwidth.
    #[error("{reservable} is more than the bandwidth of the link, {bandwidth}")]
    ReservableAboveBandwidth {
        /// Reservable rate.
        reservable: Rate,
        /// Bandwidth.
        bandwidth: Rate,
    },
    /// Not a duration.
    #[error("invalid duration `{0}`; write 5ms, 100us or 1s, at most 10s")]
    BadDuration(String),
    /// A queue without room.
    #[error("a queue holds at least one packet")]
    ZeroQueue,
    /// Not an address range.
    #[error("`{text}`: {why}")]
    BadPrefix {
        /// The text.
        text: String,
        /// The reason.
        why: PrefixError,
    },
    /// An address range without room for two hosts, or of IPv6.
    #[error("{0} has no room for two addresses; use an IPv4 range of /30 or larger")]
    PrefixTooSmall(Prefix),
    /// Two links with overlapping address ranges.
    #[error("{0} overlaps {1}, the range of an earlier link")]
    PrefixOverlap(Prefix, Prefix),
    /// The network is not connected.
    #[error(
        "node `{from}` cannot reach node `{to}`: add a link, or give the nodes between them role = \
         \"router\" (hosts do not forward)"
    )]
    Disconnected {
        /// First node of the file.
        from: String,
        /// A node without a path to it.
        to: String,
    },
}

/// The file as written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<Spanned<String>>,
    #[serde(default)]
    ipv6: bool,
    #[serde(default)]
    node: Vec<NodeEntry>,
    #[serde(default)]
    link: Vec<LinkEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeEntry {
    name: Spanned<String>,
    role: Option<Role>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkEntry {
    ends: [Spanned<String>; 2],
    bandwidth: Spanned<String>,
    delay: Option<Spanned<String>>,
    reservable: Option<Spanned<String>>,
    queue_packets: Option<Spanned<u32>>,
    prefix: Option<Spanned<String>>,
}

/// Parses a whole file.
pub(super) fn parse(text: &str) -> Result<Topology, TopologyError> {
    let reader = Reader { text };
    let file: File = toml::from_str(text).map_err(|error| {
        let problem = Problem::Toml(error.message().to_owned());
        reader.error(error.span().unwrap_or(0..0), "", problem)
    })?;
    if file.node.len() < 2 || file.link.is_empty() {
        return Err(reader.error(0..0, "node", Problem::Empty));
    }
    if file.node.len() > MAX_NODES || file.link.len() > MAX_LINKS {
        return Err(reader.error(0..0, "node", Problem::TooLarge));
    }
    let name = match &file.name {
        Some(name) => reader.name(name, "name")?,
        None => "earmark".to_owned(),
    };
    let mut topology =
        Topology { name, nodes: Vec::new(), links: Vec::new(), metric: Metric::Links };
    for entry in &file.node {
        let name = reader.name(&entry.name, "node.name")?;
        if topology.node(&name).is_some() {
            return Err(reader.at(&entry.name, "node.name", Problem::DuplicateNode(name)));
        }
        let role = entry.role.unwrap_or(Role::Host);
        topology.nodes.push(Node { name, role, area: None, place: None });
    }
    let mut ranges = BTreeMap::new();
    for (number, entry) in file.link.iter().enumerate() {
        let mut link = reader.link(&topology, number, entry, &mut ranges)?;
        if file.ipv6 {
            add_ipv6(&mut link, number);
        }
        topology.links.push(link);
    }
    for (node, entry) in file.node.iter().enumerate() {
        if entry.role.is_none() && topology.interfaces(node).count() > 1 {
            topology.nodes[node].role = Role::Router;
        }
    }
    if let Some((node, other)) = topology.paths().unreachable() {
        let from = topology.nodes[node].name.clone();
        let to = topology.nodes[other].name.clone();
        let problem = Problem::Disconnected { from, to };
        return Err(reader.at(&file.node[other].name, "node.name", problem));
    }
    Ok(topology)
}

/// The text, to find line numbers.
struct Reader<'a> {
    text: &'a str,
}

impl Reader<'_> {
    fn error(&self, span: Range<usize>, key: &'static str, problem: Problem) -> TopologyError {
        let before = self.text.as_bytes().iter().take(span.start);
        let line = 1 + before.filter(|&&octet| octet == b'\n').count();
        TopologyError { line, key, problem }
    }

    fn at<T>(&self, value: &Spanned<T>, key: &'static str, problem: Problem) -> TopologyError {
        self.error(value.span(), key, problem)
    }

    fn name(&self, name: &Spanned<String>, key: &'static str) -> Result<String, TopologyError> {
        let text = name.get_ref();
        if !is_name(text) {
            return Err(self.at(name, key, Problem::BadName(text.clone())));
        }
        Ok(text.clone())
    }

    /// Parses one link. `ranges` holds the address ranges so far, by last address: if one of them overlaps a new one
    /// it is the first that ends at or after the new one's start.
    fn link(
        &self,
        topology: &Topology,
        number: usize,
        entry: &LinkEntry,
        ranges: &mut BTreeMap<Ipv4Addr, Prefix>,
    ) -> Result<Link, TopologyError> {
        let [first, second] = &entry.ends;
        let nodes = [self.end(topology, first)?, self.end(topology, second)?];
        if nodes[0] == nodes[1] {
            let problem = Problem::SelfLink(second.get_ref().clone());
            return Err(self.at(second, "link.ends", problem));
        }
        let bandwidth = self.rate(&entry.bandwidth, "link.bandwidth")?;
        if bandwidth == Rate::ZERO {
            return Err(self.at(&entry.bandwidth, "link.bandwidth", Problem::ZeroBandwidth));
        }
        let queue_packets = match &entry.queue_packets {
            None => 50,
            Some(queue) if *queue.get_ref() == 0 => {
                return Err(self.at(queue, "link.queue_packets", Problem::ZeroQueue));
            }
            Some(queue) => *queue.get_ref(),
        };
        let (prefix, addresses) = self.addresses(number, entry, ranges)?;
        let end = |side: usize| End {
            node: nodes[side],
            interface: format!("eth{}", topology.interfaces(nodes[side]).count()),
            address: addresses[side],
            address6: None,
        };
        Ok(Link {
            ends: [end(0), end(1)],
            prefix,
            prefix6: None,
            bandwidth,
            delay: self.delay(entry.delay.as_ref())?,
            reservable: self.reservable(entry.reservable.as_ref(), bandwidth)?,
            queue_packets,
        })
    }

    fn end(&self, topology: &Topology, name: &Spanned<String>) -> Result<usize, TopologyError> {
        topology
            .node(name.get_ref())
            .ok_or_else(|| self.at(name, "link.ends", Problem::NoSuchNode(name.get_ref().clone())))
    }

    fn rate(&self, text: &Spanned<String>, key: &'static str) -> Result<Rate, TopologyError> {
        text.get_ref().parse().map_err(|why| {
            self.at(text, key, Problem::BadRate { text: text.get_ref().clone(), why })
        })
    }

    fn reservable(
        &self,
        text: Option<&Spanned<String>>,
        bandwidth: Rate,
    ) -> Result<Rate, TopologyError> {
        let Some(text) = text else {
            return Ok(bandwidth.share(0.75));
        };
        reservable(text.get_ref(), bandwidth)
            .map_err(|problem| self.at(text, "link.reservable", problem))
    }

    fn delay(&self, text: Option<&Spanned<String>>) -> Result<Duration, TopologyError> {
        let Some(text) = text else {
            return Ok(Duration::ZERO);
        };
        parse_duration(text.get_ref())
            .ok()
            .filter(|delay| *delay <= Duration::from_secs(10))
            .ok_or_else(|| {
                self.at(text, "link.delay", Problem::BadDuration(text.get_ref().clone()))
            })
    }

    fn addresses(
        &self,
        number: usize,
        entry: &LinkEntry,
        ranges: &mut BTreeMap<Ipv4Addr, Prefix>,
    ) -> Result<(Prefix, [Ipv4Addr; 2]), TopologyError> {
        let key = "link.prefix";
        let span = entry.prefix.as_ref().map_or_else(|| entry.ends[0].span(), Spanned::span);
        let fail = |problem| self.error(span.clone(), key, problem);
        let prefix: Prefix = match &entry.prefix {
            None => automatic_prefix(number),
            Some(text) => text
                .get_ref()
                .parse()
                .map_err(|why| fail(Problem::BadPrefix { text: text.get_ref().clone(), why }))?,
        };
        let IpAddr::V4(base) = prefix.address() else {
            return Err(fail(Problem::PrefixTooSmall(prefix)));
        };
        if prefix.length() > 30 {
            return Err(fail(Problem::PrefixTooSmall(prefix)));
        }
        let base = u32::from(base);
        let last = base | (u32::MAX.checked_shr(u32::from(prefix.length())).unwrap_or(0));
        let (base, last) = (Ipv4Addr::from(base), Ipv4Addr::from(last));
        if let Some((_, other)) = ranges.range(base..).next()
            && (other.contains(base.into()) || prefix.contains(other.address()))
        {
            return Err(fail(Problem::PrefixOverlap(prefix, *other)));
        }
        ranges.insert(last, prefix);
        let first = u32::from(base) + 1;
        Ok((prefix, [Ipv4Addr::from(first), Ipv4Addr::from(first + 1)]))
    }
}

/// Returns the reservable rate of a link: a share of its bandwidth or a rate.
pub(super) fn reservable(text: &str, bandwidth: Rate) -> Result<Rate, Problem> {
    let bad = || Problem::BadShare(text.to_owned());
    let reservable = match text.trim().strip_suffix('%') {
        Some(percent) => {
            let percent: f64 = percent.trim().parse().map_err(|_| bad())?;
            if !(0.0..=100.0).contains(&percent) {
                return Err(bad());
            }
            bandwidth.share(percent / 100.0)
        }
        None => text.parse().map_err(|_| bad())?,
    };
    if reservable > bandwidth {
        return Err(Problem::ReservableAboveBandwidth { reservable, bandwidth });
    }
    Ok(reservable)
}

/// Returns whether a name is valid for a namespace, a file and a line of a configuration.
pub(super) fn is_name(text: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    (1..=32).contains(&text.len()) && !text.starts_with('-') && text.chars().all(fits)
}

/// Returns the default range of link `number`: 10.x.y.0/30.
fn automatic_prefix(number: usize) -> Prefix {
    // MAX_LINKS is far below 65 536, so both octets fit.
    let [high, low] = u16::try_from(number).unwrap_or(u16::MAX).to_be_bytes();
    Prefix::new(Ipv4Addr::new(10, high, low, 0).into(), 30)
}

/// Gives link `number` the range 2001:db8:0:n::/64, and its ends the first two addresses of it.
fn add_ipv6(link: &mut Link, number: usize) {
    // MAX_LINKS is far below 65 536.
    let number = u16::try_from(number).unwrap_or(u16::MAX);
    let address = |last| Ipv6Addr::new(0x2001, 0xdb8, 0, number, 0, 0, 0, last);
    link.prefix6 = Some(Prefix::new(address(0).into(), 64));
    for (end, last) in link.ends.iter_mut().zip(1..) {
        end.address6 = Some(address(last));
    }
}

#[cfg(test)]
mod tests;
