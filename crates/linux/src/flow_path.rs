//! Where the packets of a flow go, and by which policy rule, table and route: for people who ask, not for engines.
//!
//! [`FlowRoutes`](crate::FlowRoutes) asks for the next hop alone and its answers are kept. Here one flow costs several
//! questions (`RTM_GETROUTE` with and without `RTM_F_FIB_MATCH`, a dump of the rules), on a socket that is opened for
//! them and closed again; nothing is kept, and what engines were told stays as it is.
//!
//! The kernel names the table of its answer, and no rule. The rule is found by a walk over all rules as the kernel
//! walks them ([`rules`]): the first one that fits the question and leads to that table.

mod group;
mod rules;
mod whole_route;

use std::net::IpAddr;

use earmark_core::{Flow, Hop, InterfaceId, Prefix};

use crate::flow_routes::{FlowRouteError, MarkRule, is_no_route, question};
use crate::mirror::multipath_policy;
use crate::netlink::{Connection, Message, NetlinkError};
pub use group::NextHopGroup;
pub use rules::table_name;
use rules::{Packet, Rule, RuleList};
use whole_route::{Answer, WholeRoute};

/// How often the kernel is asked again where its two answers are of different moments.
const ATTEMPTS: u32 = 3;
/// Flags of a question (Linux: `rtnetlink.h`).
const RTM_F_LOOKUP_TABLE: u32 = 0x1000;
const RTM_F_FIB_MATCH: u32 = 0x2000;

/// A flow whose path is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathQuestion {
    /// Whose packets. Without a source: those that this host sends.
    pub flow: Flow,
    /// Where they come in; `None`: where the routes to their source lead, if that is another host.
    pub incoming: Option<InterfaceId>,
    /// The mark of the packets; `None`: as the settings say.
    pub mark: Option<u32>,
}

/// What becomes of the packets of a flow here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Packets leave.
    Forwarded(Hop),
    /// Packets are for this host.
    Local,
    /// Packets go to all hosts of a link.
    Broadcast(InterfaceId),
    /// Nothing says where to.
    NoRoute,
    /// A route or rule of the type `unreachable`.
    Unreachable,
    /// A route or rule of the type `prohibit`.
    Prohibited,
    /// A route or rule of the type `blackhole`, or a source or destination that no packet may have.
    Blackhole,
    /// Packets come in where packets of their source must not (reverse path filter).
    WrongInterface,
    /// Packets come in where this host forwards nothing.
    NotForwarded,
}

/// A next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// Outgoing interface.
    pub interface: InterfaceId,
    /// The router on the link; `None` where the destination itself is on the link.
    pub gateway: Option<IpAddr>,
    /// Share of the flows.
    pub weight: u32,
    /// Whether packets can leave by it now.
    pub usable: bool,
}

/// The route that decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedRoute {
    /// To which destinations.
    pub prefix: Prefix,
    /// Metric.
    pub metric: u32,
    /// All its next hops; none of a route to this host.
    pub next_hops: Vec<NextHop>,
    /// The nexthop object that the route names.
    pub nexthop_object: Option<u32>,
    /// What that object is, if it is a group.
    pub group: Option<NextHopGroup>,
    /// How the kernel spreads flows where there are several next hops (`fib_multipath_hash_policy`).
    pub hash_policy: Option<u8>,
}

/// The policy rule that leads to the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedRule {
    /// Priority.
    pub priority: u32,
    /// What it looks at, as `ip rule` shows it: `from 10.0.1.0/24 iif eth0`.
    pub selector: String,
    /// What it does: `lookup 200`, `unreachable`.
    pub action: String,
    /// Whether no other rule can have been it: `false` where one looks at something that cannot be seen from here.
    pub is_certain: bool,
}

/// Where a flow goes, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowPath {
    /// The flow, with the source that this host gives it where none was named.
    pub flow: Flow,
    /// Where its packets come in; `None`: they are this host's own.
    pub incoming: Option<InterfaceId>,
    /// The mark that was asked with.
    pub mark: Option<u32>,
    /// Whether that is of the settings.
    pub is_mark_of_settings: bool,
    /// What becomes of the packets.
    pub verdict: Verdict,
    /// By which rule. `None` where no rule is known to have led there.
    pub rule: Option<MatchedRule>,
    /// Whether some rule looks at IP protocols or ports, so that packets of others may go elsewhere.
    pub rules_look_at_ports: bool,
    /// Of which table; `None` where none answered.
    pub table: Option<u32>,
    /// By which route; `None` where there is none that the kernel tells.
    pub route: Option<MatchedRoute>,
}

impl FlowPath {
    /// Asks the kernel of the calling thread's network namespace; the first of `marks` that fits tells the mark that the
    /// question leaves open.
    ///
    /// # Errors
    /// The kernel cannot be asked, or its answer cannot be read.
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
            rules_look_at_ports: false,
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
        // Only now: the kernel has looked at rules and hash without it.
        path.flow.source = path.flow.source.or(own_source);
        path.check_forwarding(&netlink);
        Ok(path)
    }

    /// The kernel says *unreachable* (IPv4) or names the route (IPv6) of packets that it would not forward.
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
        // IPv6 always tells the table, and refuses the flag.
        let table = if self.flow.destination.is_ipv4() { RTM_F_LOOKUP_TABLE } else { 0 };
        question(&self.flow, self.incoming, self.mark, flags | table)
    }

    /// Asks for the next hop and for the whole route, and for the source that this host gives its packets; whether both
    /// answers are of one moment.
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
            // It went between the questions.
            Err(error) if is_no_route(&error) => return Ok(false),
            Err(error) => return Err(error.into()),
        };
        let Some(whole) = whole else { return Ok(false) };
        let is_same = whole.table == answer.table && whole.has(&answer.verdict);
        self.route = Some(whole.matched(netlink, self.flow.destination.is_ipv6())?);
        *own_source = answer.source;
        Ok(is_same)
    }

    /// Whether the reverse path filter discards the packets: since Linux 6.13 the kernel's error is that of a blackhole.
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
        // Until the first rule of somebody's is added, IPv4 has both tables in one, which it calls main.
        if self.table == Some(libc::RT_TABLE_MAIN.into())
            && matches!(self.verdict, Verdict::Local | Verdict::Broadcast(_))
            && rules.are_plain()
        {
            self.table = Some(libc::RT_TABLE_LOCAL.into());
        }
        self.rules_look_at_ports = rules.look_at_ports();
        let name = |interface: InterfaceId| {
            rustix::net::netdevice::index_to_name(&*netlink, interface.0).ok()
        };
        let packet = Packet {
            flow: &self.flow,
            // The kernel has the loopback interface for what it sends itself.
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

/// Where the packets come in: as the question says, or where the routes to their source lead; `None`: they are our own.
fn incoming_of(
    netlink: &mut Connection,
    asked: &PathQuestion,
) -> Result<Option<InterfaceId>, FlowRouteError> {
    let (None, Some(source)) = (asked.incoming, asked.flow.source) else {
        return Ok(asked.incoming);
    };
    route_back(netlink, source)
}

/// The interface that packets to `source` leave by; `None` where it is this host, or nowhere.
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

/// A setting of an interface, or of `all`, in the network namespace of the calling thread.
fn setting(ipv6: bool, interface: &str, name: &str) -> Option<String> {
    let family = if ipv6 { "ipv6" } else { "ipv4" };
    let path = format!("/proc/sys/net/{family}/conf/{interface}/{name}");
    Some(std::fs::read_to_string(path).ok()?.trim().to_owned())
}

/// What the kernel's error means for the packets; `None` where something is wrong with the question.
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
    /// What is shown of it, with what its nexthop object is.
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
