//! The path of a flow on this node: the question, and the answer with its parts.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use earmark_core::Prefix;
use earmark_node::{EnforcementRow, ReservationRow};
use serde::{Deserialize, Serialize};

use super::udp;

/// Most claims of an answer unless the request asks for another number.
pub const DEFAULT_CLAIMS: usize = 100;
/// Most claims of an answer: the kernel is asked for each.
pub const MAX_CLAIMS: usize = 1_000;

/// The question of [`Request::Path`](super::Request::Path).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PathRequest {
    /// Where the flow goes; port 0: none is named.
    pub to: SocketAddr,
    /// Where it comes from; port 0: none is named. None: from this host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<SocketAddr>,
    /// IPv6 flow label of its packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_label: Option<u32>,
    /// IP protocol of the flow.
    #[serde(default = "udp")]
    pub ip_protocol: u8,
    /// Through which interface its packets come in; none: where the routes to its source lead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incoming: Option<String>,
    /// Which mark its packets have; none: as the settings say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<u32>,
    /// Most claims in the answer; [`DEFAULT_CLAIMS`] where nothing is said, [`MAX_CLAIMS`] at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

impl PathRequest {
    /// UDP of this host to `to`.
    pub fn new(to: SocketAddr) -> PathRequest {
        PathRequest {
            to,
            from: None,
            flow_label: None,
            ip_protocol: udp(),
            incoming: None,
            mark: None,
            limit: None,
        }
    }
}

/// The answer to [`Request::Path`](super::Request::Path).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathAnswer {
    /// The flow that was asked for, with what was added to the question.
    pub flow: PathFlow,
    /// What becomes of its packets.
    pub outcome: PathOutcome,
    /// Through which interface they leave.
    pub interface: Option<String>,
    /// The router that they leave to; `None` where the destination is on the link.
    pub next_hop: Option<IpAddr>,
    /// The policy rule that led to the table, or that refuses them.
    pub rule: Option<RuleRow>,
    /// The routing table.
    pub table: Option<TableRow>,
    /// The route.
    pub route: Option<RouteRow>,
    /// The claims that they match on the interface, the governing one first.
    pub claims: Vec<ClaimRow>,
    /// How many claims there are.
    pub claim_count: usize,
    /// Claims on the flow that are on other interfaces.
    pub elsewhere: Vec<ElsewhereRow>,
    /// What the packets get on the interface; `None` where they leave by none.
    pub packets: Option<PacketsRow>,
    /// What should be looked at, for people.
    pub warnings: Vec<String>,
}

/// A flow, and how it comes in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathFlow {
    /// Destination address.
    pub destination: IpAddr,
    /// Destination port; 0: none.
    pub destination_port: u16,
    /// IP protocol.
    pub ip_protocol: u8,
    /// Source address: where none was named, the one that this host gives its own packets.
    pub source: Option<IpAddr>,
    /// Source port; 0: none.
    pub source_port: u16,
    /// IPv6 flow label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_label: Option<u32>,
    /// Through which interface its packets come in; `None`: they are this host's own.
    pub incoming: Option<String>,
    /// Whether that is where the routes to its source lead, and was not named.
    pub incoming_assumed: bool,
    /// The mark of its packets.
    pub mark: Option<u32>,
    /// Whether that is of the settings, and was not named.
    pub mark_of_settings: bool,
}

/// What becomes of the packets of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathOutcome {
    /// Packets leave.
    Forwarded,
    /// Packets are for this host.
    Local,
    /// Packets go to all hosts of the link.
    Broadcast,
    /// There is no route.
    NoRoute,
    /// A route or rule of the type `unreachable`.
    Unreachable,
    /// A route or rule of the type `prohibit`.
    Prohibited,
    /// A route or rule of the type `blackhole`, or addresses that no packet may have.
    Blackhole,
    /// Packets come in where packets of their source must not (reverse path filter).
    WrongInterface,
    /// Packets come in where this host forwards nothing.
    NotForwarded,
}

/// A policy rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RuleRow {
    /// Priority.
    pub priority: u32,
    /// What it looks at, as `ip rule` shows it.
    pub selector: String,
    /// What it does: `lookup main`, `prohibit`.
    pub action: String,
    /// Whether no other rule can have been it.
    pub certain: bool,
}

/// A routing table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableRow {
    /// Number.
    pub number: u32,
    /// Name, or number where it has none.
    pub name: String,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteRow {
    /// To which destinations.
    pub prefix: Prefix,
    /// Metric.
    pub metric: u32,
    /// All its next hops.
    pub next_hops: Vec<NextHopRow>,
    /// The nexthop object that it names.
    pub nexthop_object: Option<u32>,
    /// What that object is: `single`, `group` or `resilient group`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nexthop_kind: Option<Cow<'static, str>>,
    /// How the kernel chose among several next hops (`fib_multipath_hash_policy`).
    pub hash_policy: Option<HashPolicyRow>,
}

/// A next hop of a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NextHopRow {
    /// Outgoing interface.
    pub interface: String,
    /// The router on the link; `None` where the destination is on it.
    pub next_hop: Option<IpAddr>,
    /// Share of the flows.
    pub weight: u32,
    /// Whether packets can leave by it now.
    pub usable: bool,
    /// Whether the flow takes it.
    pub chosen: bool,
}

/// What decides between several next hops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HashPolicyRow {
    /// Number.
    pub number: u8,
    /// What it looks at.
    pub looks_at: Cow<'static, str>,
}

/// A claim that the packets of a flow match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClaimRow {
    /// When the packets get it: `governs`, first of all; `next`, those that the claims before it have no room for;
    /// `standby`, not before a better one on the same flow ends.
    pub precedence: Cow<'static, str>,
    /// By which protocol; `None` where an earlier daemon has left it and that is not known.
    pub protocol: Option<Cow<'static, str>>,
    /// How much, bits per second.
    pub rate_bps: u64,
    /// The flow, or range of flows, that it is for.
    pub matches: MatchRow,
    /// Whether other flows use it up, too.
    pub shared: bool,
    /// Whether an earlier daemon has left it, and nobody has claimed it yet.
    pub adopted: bool,
    /// Whose it is: the row of `show reservations`.
    pub reservation: Option<ReservationRow>,
}

/// What a claim looks at in packets; what it does not look at is not there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MatchRow {
    /// Destinations.
    pub destination: Prefix,
    /// Sources; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Prefix>,
    /// IP protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_protocol: Option<u8>,
    /// Destination port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destination_port: Option<u16>,
    /// Source port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source_port: Option<u16>,
    /// IPv6 flow label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_label: Option<u32>,
}

/// A claim on another interface than the one that the packets leave by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ElsewhereRow {
    /// Where.
    pub interface: String,
    /// By which protocol, where that is known.
    pub protocol: Option<Cow<'static, str>>,
    /// How much, bits per second.
    pub rate_bps: u64,
}

/// What the packets of a flow get on the interface that they leave by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketsRow {
    /// `reserved`: what the governing claim has reserved; `best_effort`.
    pub get: Cow<'static, str>,
    /// The class of HTB that the kernel's tables lead them to: `ea4d:10`.
    pub class: Option<String>,
    /// Their priority, where the device's own queues serve by priority.
    pub priority: Option<u32>,
    /// The rate of the token bucket in front of that place, bits per second; `None` where there is none.
    pub bucket_bps: Option<u64>,
    /// Which classifier finds them: `bpf` or `u32`; `None` where there is none.
    pub classifier: Option<Cow<'static, str>>,
    /// How reservations are kept apart on the interface: `per-flow`, `aggregate`, `priority`, `none` where its queues are
    /// left alone; `None` where it takes no part.
    pub queues: Option<Cow<'static, str>>,
    /// Whether they get what is reserved for them; `None` where nothing is.
    pub enforcement: Option<EnforcementRow>,
}
