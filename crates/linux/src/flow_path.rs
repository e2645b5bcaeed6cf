//! The path of a flow's packets, and the policy rule, table and route that select it: for operators, not for engines.
//!
//! [`FlowRoutes`](crate::FlowRoutes) queries only the next hop, and its callers cache the answers. Here one flow costs
//! several queries (`RTM_GETROUTE` with and without `RTM_F_FIB_MATCH`, a dump of the rules) on a socket that is opened
//! for them and closed again; nothing is cached, and the state of the engines does not change.
//!
//! The kernel's answer names the table but not the rule. The rule is found by a walk over all rules in the kernel's
//! order ([`rules`]): the first one that matches the query and selects that table.

mod group;
mod rules;
mod verdict;
mod whole_route;

use std::net::IpAddr;

use earmark_core::{Flow, InterfaceId, Prefix};

use crate::flow_routes::{FlowRouteError, MarkRule, is_no_route, question};
use crate::mirror::multipath_policy;
use crate::netlink::{Connection, Message, NetlinkError};
pub use group::NextHopGroup;
pub use rules::table_name;
use rules::{Packet, Rule, RuleList};
pub use verdict::{MatchedRule, NextHop, Verdict};
use whole_route::{Answer, WholeRoute};

/// Attempts before giving up if the kernel's two answers disagree because routes changed between them.
const ATTEMPTS: u32 = 3;
/// Flags of a route query (Linux: `rtnetlink.h`).
const RTM_F_LOOKUP_TABLE: u32 = 0x1000;
const RTM_F_FIB_MATCH: u32 = 0x2000;

/// A query for the path of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathQuestion {
    /// The flow. Without a source: packets that this host sends.
    pub flow: Flow,
    /// Incoming interface; `None`: the one that the routes to the source use, if the source is another host.
    pub incoming: Option<InterfaceId>,
    /// Mark of the packets; `None`: as the settings say.
    pub mark: Option<u32>,
}

/// The route that matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedRoute {
    /// Destination prefix.
    pub prefix: Prefix,
    /// Metric.
    pub metric: u32,
    /// All next hops; empty for a route to this host.
    pub next_hops: Vec<NextHop>,
    /// ID of the nexthop object that the route refers to.
    pub nexthop_object: Option<u32>,
    /// Kind of that object, if it is a group.
    pub group: Option<NextHopGroup>,
    /// How the kernel spreads flows over several next hops (`fib_multipath_hash_policy`).
    pub hash_policy: Option<u8>,
}

/// The path of a flow, with the rule, table and route that select it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowPath {
    /// The flow; if the query had no source, with the source address that this host selects.
    pub flow: Flow,
    /// Incoming interface; `None`: packets of this host.
    pub incoming: Option<InterfaceId>,
    /// Mark that was used in the query.
    pub mark: Option<u32>,
    /// Whether the mark comes from the settings.
    pub is_mark_of_settings: bool,
    /// What the kernel does with the packets.
    pub verdict: Verdict,
    /// The matching rule; `None` if no known rule selects the table.
    pub rule: Option<MatchedRule>,
    /// Whether some rule matches on IP protocols or ports, so that packets of others may take another path.
    pub rules_match_ports: bool,
    /// The routing table; `None` if no table answered.
    pub table: Option<u32>,
    /// The matching route; `None` if the kernel reports none.
    pub route: Option<MatchedRoute>,
}

impl FlowPath {
    /// Queries the kernel in the network namespace of the calling thread. If the query has no mark, the first matching
    /// rule of `marks` gives it.
    ///
    /// # Errors
    /// The query fails, or the answer is malformed.
    pub fn find(asked: &PathQuestion, marks: &[MarkRule]) -> Result<FlowPath, FlowRouteError> {
        let mut netlink = Connection::open()?;
        let incoming = incoming_of(&mut netlink, asked)?;
        let of_settings = marks.iter().find(|rule| rule.fits(&asked.flow, incoming, &netlink));
        let mark = asked.mark.or(of_settings.map(|rule| rule.mark));
        let mut path = FlowPath {
            flow: asked.flow,
            incoming,
            mark,
            is_mark_of_settings: asked.mark.is_none() && mark.is_some(),
            verdict: Verdict::NoRoute,
            rule: None,
            rules_match_ports: false,
            table: None,
            route: None,
        };
        let mut own_source = None;
        for _ in 0..ATTEMPTS {
            if path.ask(&mut netlink, &mut own_source)? {
                break;
            }
        }
        path.find_rule(&mut netlink)?;
        // Set only now: the kernel evaluated rules and hash without it.
        path.flow.source = path.flow.source.or(own_source);
        path.check_forwarding(&netlink);
        Ok(path)
    }

    /// Corrects the verdict for packets that the kernel would not forward: for them it answers *unreachable* (IPv4) or
    /// names the route (IPv6).
    fn check_forwarding(&mut self, netlink: &Connection) {
        let is_through = matches!(self.verdict, Verdict::Forwarded(_) | Verdict::Unreachable);
        let Some(incoming) = self.incoming.filter(|_| is_through) else { return };
        let Ok(name) = rustix::net::netdevice::index_to_name(netlink, incoming.0) else { return };
        let forwarding = setting(self.flow.destination.is_ipv6(), &name, "forwarding");
        if forwarding.is_some_and(|value| value == "0") {
            self.verdict = Verdict::NotForwarded;
            (self.rule, self.table, self.route) = (None, None, None);
        }
    }

    fn question(&self, flags: u32) -> Message {
        // IPv6 always reports the table, and refuses the flag.
        let table = if self.flow.destination.is_ipv4() { RTM_F_LOOKUP_TABLE } else { 0 };
        question(&self.flow, self.incoming, self.mark, flags | table)
    }

    /// Queries the next hop, the whole route, and the source address that this host selects. Returns whether both
    /// answers are consistent.
    fn ask(
        &mut self,
        netlink: &mut Connection,
        own_source: &mut Option<IpAddr>,
    ) -> Result<bool, FlowRouteError> {
        let answers = netlink.ask("find the route of a flow", self.question(0));
        let answer = match answers {
            Ok(answers) => Answer::decode(answers.iter(), self.flow.destination)?,
            Err(error) => {
                self.verdict = refusal(&error).ok_or(error)?;
                if self.verdict == Verdict::Blackhole && self.fails_reverse_path(netlink)? {
                    self.verdict = Verdict::WrongInterface;
                }
                (self.table, self.route) = (None, None);
                return Ok(true);
            }
        };
        self.verdict = answer.verdict;
        self.table = Some(answer.table);
        let whole = match netlink.ask("find the whole route", self.question(RTM_F_FIB_MATCH)) {
            Ok(answers) => WholeRoute::decode(answers.iter())?,
            // The route disappeared between the queries.
            Err(error) if is_no_route(&error) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let Some(whole) = whole else { return Ok(false) };
        let is_same = whole.table == answer.table && whole.has(&answer.verdict);
        self.route = Some(whole.matched(netlink, self.flow.destination.is_ipv6())?);
        *own_source = answer.source;
        Ok(is_same)
    }

    /// Whether the reverse path filter drops the packets: since Linux 6.13 the kernel's error is that of a blackhole.
    fn fails_reverse_path(&self, netlink: &mut Connection) -> Result<bool, FlowRouteError> {
        let (Some(incoming), Some(source)) = (self.incoming, self.flow.source) else {
            return Ok(false);
        };
        let Ok(name) = rustix::net::netdevice::index_to_name(&*netlink, incoming.0) else {
            return Ok(false);
        };
        let setting = |name: &str| {
            let text = setting(source.is_ipv6(), name, "rp_filter");
            text.and_then(|text| text.parse().ok()).unwrap_or(0)
        };
        let mut back = || route_back(netlink, source);
        Ok(match setting("all").max(setting(&name)) {
            0_u8 => false,
            1 => back()? != Some(incoming),
            _ => back()?.is_none(),
        })
    }

    fn find_rule(&mut self, netlink: &mut Connection) -> Result<(), NetlinkError> {
        let rules = RuleList::read(netlink, self.flow.destination.is_ipv6())?;
        // Before the first custom rule is added, IPv4 keeps both tables in one, which it calls main.
        if self.table == Some(libc::RT_TABLE_MAIN.into())
            && matches!(self.verdict, Verdict::Local | Verdict::Broadcast(_))
            && rules.are_default()
        {
            self.table = Some(libc::RT_TABLE_LOCAL.into());
        }
        self.rules_match_ports = rules.match_ports();
        let name = |interface: InterfaceId| {
            rustix::net::netdevice::index_to_name(&*netlink, interface.0).ok()
        };
        let packet = Packet {
            flow: &self.flow,
            // The kernel uses the loopback interface as incoming interface of its own packets.
            incoming: self.incoming.map_or_else(|| Some("lo".to_owned()), name),
            is_own: self.incoming.is_none(),
            mark: self.mark.unwrap_or(0),
            user: rustix::process::geteuid().as_raw(),
        };
        let length = self.route.as_ref().map(|route| route.prefix.length());
        self.rule = match (self.table, self.verdict) {
            (Some(table), _) => rules.find(&packet, |rule| rule.leads_to(table, length)),
            (None, verdict) => rules.find(&packet, |rule: &Rule| rule.refuses_with(verdict)),
        };
        Ok(())
    }
}

/// Returns the incoming interface: as given in the query, or the one that the routes to the source use; `None`: packets
/// of this host.
fn incoming_of(
    netlink: &mut Connection,
    asked: &PathQuestion,
) -> Result<Option<InterfaceId>, FlowRouteError> {
    let (None, Some(source)) = (asked.incoming, asked.flow.source) else {
        return Ok(asked.incoming);
    };
    route_back(netlink, source)
}

/// Returns the outgoing interface of packets to `source`; `None` if it is this host, or unreachable.
fn route_back(
    netlink: &mut Connection,
    source: IpAddr,
) -> Result<Option<InterfaceId>, FlowRouteError> {
    let back = Flow::to_range(Prefix::host(source));
    match netlink.ask("find the route to a source", question(&back, None, None, 0)) {
        Ok(answers) => Ok(match Answer::decode(answers.iter(), source)?.verdict {
            Verdict::Forwarded(hop) => Some(hop.interface),
            _ => None,
        }),
        Err(error) if refusal(&error).is_some() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Reads a setting of an interface, or of `all`, in the network namespace of the calling thread.
fn setting(ipv6: bool, interface: &str, name: &str) -> Option<String> {
    let family = if ipv6 { "ipv6" } else { "ipv4" };
    let path = format!("/proc/sys/net/{family}/conf/{interface}/{name}");
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

/// Returns the verdict that the kernel's error means for the packets; `None` if the query itself is wrong.
fn refusal(error: &NetlinkError) -> Option<Verdict> {
    let NetlinkError::Refused { source, .. } = error else { return None };
    if !is_no_route(error) {
        return None;
    }
    Some(match source.raw_os_error()? {
        libc::EHOSTUNREACH => Verdict::Unreachable,
        libc::EACCES => Verdict::Prohibited,
        libc::EINVAL => Verdict::Blackhole,
        libc::EXDEV => Verdict::WrongInterface,
        _ => Verdict::NoRoute,
    })
}

impl WholeRoute {
    /// Returns the displayed part of the route, with the kind of its nexthop object.
    fn matched(self, netlink: &mut Connection, ipv6: bool) -> Result<MatchedRoute, NetlinkError> {
        let WholeRoute { prefix, metric, next_hops, nexthop_object, .. } = self;
        let group = match nexthop_object {
            Some(id) => NextHopGroup::find(netlink, id)?,
            None => None,
        };
        let hash_policy = (next_hops.len() > 1).then(|| multipath_policy(ipv6)).flatten();
        Ok(MatchedRoute { prefix, metric, next_hops, nexthop_object, group, hash_policy })
    }
}
