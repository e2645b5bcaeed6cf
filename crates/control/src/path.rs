//! Request for the path of a flow on this node, and its answer.

use std::borrow::Cow;
use std::net::{IpAddr, SocketAddr};

use earmark_core::Prefix;
use earmark_core::listing::{EnforcementRow, ReservationRow};
use serde::{Deserialize, Serialize};

use crate::protocols::udp;

/// Most claims in an answer, by default.
pub const DEFAULT_CLAIMS: usize = 100;
/// Upper bound of claims in an answer, because each one costs a query of the kernel.
pub const MAX_CLAIMS: usize = 1_000;

/// Parameters of [`Request::Path`](crate::Request::Path).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct PathRequest {
    /// Destination of the flow; port 0 means that none is named.
    pub to: SocketAddr,
    /// Source of the flow, by default this host; port 0 means that none is named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<SocketAddr>,
    /// IPv6 flow label of the packets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_label: Option<u32>,
    /// IP protocol of the flow.
    #[serde(default = "udp")]
    pub ip_protocol: u8,
    /// Incoming interface of the packets; by default the one that the routes to the source lead to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incoming: Option<String>,
    /// Mark of the packets; by default that of the settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<u32>,
    /// Most claims in the answer; by default [`DEFAULT_CLAIMS`], at most [`MAX_CLAIMS`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

impl PathRequest {
    /// A request for UDP from this host to `to`.
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

/// The answer to [`Request::Path`](crate::Request::Path).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathAnswer {
    /// The requested flow, completed with defaults.
    pub flow: PathFlow,
    /// What happens to the packets.
    pub outcome: PathOutcome,
    /// Outgoing interface.
    pub interface: Option<String>,
    /// Next hop; `None` if the destination is on the link.
    pub next_hop: Option<IpAddr>,
    /// The policy rule that selected the table, or that refuses the packets.
    pub rule: Option<RuleRow>,
    /// The routing table.
    pub table: Option<TableRow>,
    /// The route.
    pub route: Option<RouteRow>,
    /// Claims on the outgoing interface that the packets match, the governing one first.
    pub claims: Vec<ClaimRow>,
    /// Number of such claims, including those beyond the limit.
    pub claim_count: usize,
    /// Claims on the flow on other interfaces.
    pub elsewhere: Vec<ElsewhereRow>,
    /// Service of the packets on the outgoing interface; `None` if they do not leave.
    pub packets: Option<PacketsRow>,
    /// Warnings, for people.
    pub warnings: Vec<String>,
}

/// A flow and its incoming interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PathFlow {
    /// Destination address.
    pub destination: IpAddr,
    /// Destination port; 0 if none.
    pub destination_port: u16,
    /// IP protocol.
    pub ip_protocol: u8,
    /// Source address; if none was named, the one that this host would use for its own packets.
    pub source: Option<IpAddr>,
    /// Source port; 0 if none.
    pub source_port: u16,
    /// IPv6 flow label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow_label: Option<u32>,
    /// Incoming interface of the packets; `None` for packets of this host.
    pub incoming: Option<String>,
    /// Whether the incoming interface was not named but derived from the routes to the source.
    pub incoming_assumed: bool,
    /// Mark of the packets.
    pub mark: Option<u32>,
    /// Whether the mark was not named but comes from the settings.
    pub mark_of_settings: bool,
}

/// What happens to the packets of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PathOutcome {
    /// Packets are forwarded or sent.
    Forwarded,
    /// Packets are delivered to this host.
    Local,
    /// Packets are sent to all hosts of the link.
    Broadcast,
    /// There is no route.
    NoRoute,
    /// A route or rule of the type `unreachable` applies.
    Unreachable,
    /// A route or rule of the type `prohibit` applies.
    Prohibited,
    /// A route or rule of the type `blackhole` applies, or the addresses are invalid.
    Blackhole,
    /// The reverse path filter drops packets from this source on the incoming interface.
    WrongInterface,
    /// Forwarding is disabled on the incoming interface.
    NotForwarded,
}

/// A policy rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RuleRow {
    /// Priority.
    pub priority: u32,
    /// Selector of the rule, as `ip rule` prints it.
    pub selector: String,
    /// Action of the rule: `lookup main`, `prohibit`.
    pub action: String,
    /// Whether it is certain that this rule applied.
    pub certain: bool,
}

/// A routing table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TableRow {
    /// Number.
    pub number: u32,
    /// Name, or the number if there is none.
    pub name: String,
}

/// A route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RouteRow {
    /// Destinations of the route.
    pub prefix: Prefix,
    /// Metric.
    pub metric: u32,
    /// All next hops of the route.
    pub next_hops: Vec<NextHopRow>,
    /// Nexthop object of the route.
    pub nexthop_object: Option<u32>,
    /// Type of the nexthop object: `single`, `group` or `resilient group`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nexthop_kind: Option<Cow<'static, str>>,
    /// How the kernel selects among several next hops (`fib_multipath_hash_policy`).
    pub hash_policy: Option<HashPolicyRow>,
}

/// A next hop of a route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct NextHopRow {
    /// Outgoing interface.
    pub interface: String,
    /// Address of the router; `None` if the destination is on the link.
    pub next_hop: Option<IpAddr>,
    /// Share of the flows.
    pub weight: u32,
    /// Whether packets can leave by this next hop now.
    pub usable: bool,
    /// Whether the flow takes this next hop.
    pub chosen: bool,
}

/// Hash policy that selects among several next hops.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HashPolicyRow {
    /// Number.
    pub number: u8,
    /// Fields that are hashed.
    pub looks_at: Cow<'static, str>,
}

/// A claim that the packets of a flow match.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ClaimRow {
    /// Precedence of the claim for the packets: `governs`, applied first; `next`, applied to packets beyond the claims before
    /// it; `standby`, applied when a better claim on the same flow ends.
    pub precedence: Cow<'static, str>,
    /// Protocol of the claim; `None` if an earlier daemon left it without saying so.
    pub protocol: Option<Cow<'static, str>>,
    /// Rate, bits per second.
    pub rate_bps: u64,
    /// Flow, or range of flows, that the claim is for.
    pub matches: MatchRow,
    /// Whether other flows share the claim.
    pub shared: bool,
    /// Whether an earlier daemon left the claim and no reservation has adopted it yet.
    pub adopted: bool,
    /// Reservation that holds the claim: its row of `show reservations`.
    pub reservation: Option<ReservationRow>,
}

/// Fields of packets that a claim matches; a field that it does not match is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MatchRow {
    /// Destination addresses.
    pub destination: Prefix,
    /// Source addresses; `None` for all.
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

/// A claim on an interface other than the outgoing one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ElsewhereRow {
    /// Name of the interface.
    pub interface: String,
    /// Protocol, if known.
    pub protocol: Option<Cow<'static, str>>,
    /// Rate, bits per second.
    pub rate_bps: u64,
}

/// Service of the packets of a flow on the outgoing interface.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PacketsRow {
    /// `reserved` for the service of the governing claim, or `best_effort`.
    pub get: Cow<'static, str>,
    /// HTB class that the kernel's tables select: `ea4d:10`.
    pub class: Option<String>,
    /// Priority of the packets, if the device's own queues serve by priority.
    pub priority: Option<u32>,
    /// Rate of the token bucket in front of the queue, bits per second; `None` if there is none.
    pub bucket_bps: Option<u64>,
    /// Classifier that finds the packets: `bpf` or `u32`; `None` if there is none.
    pub classifier: Option<Cow<'static, str>>,
    /// Queueing on the interface: `per-flow`, `aggregate`, `priority`, or `none` if its queues are left alone; `None` if the
    /// interface takes no part.
    pub queues: Option<Cow<'static, str>>,
    /// Whether the packets get what is reserved for them; `None` if nothing is reserved.
    pub enforcement: Option<EnforcementRow>,
}
