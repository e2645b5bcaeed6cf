//! The `path` request: next hop of a flow and the reason for it, the claims that it matches, and the service of its packets.
//!
//! Everything is looked up by the flow: no list of sessions is scanned, and the routing state that is kept does not change.

mod warnings;

use std::borrow::Cow;

use earmark_core::{Flow, FlowError, InterfaceId, Rate, Time};
use earmark_linux::{
    ClassOrPriority, ClassifierChoice, FlowClaim, FlowOnLink, FlowPath, MatchedRoute, PathQuestion,
    Precedence, Queues, Verdict, table_name,
};
use earmark_node::{EnforcementRow, EngineSlots, Node, ReservationRow};

use crate::describe;
use crate::driver::{Driver, Kernel, LinkView, LookupFailure};
use crate::protocol::{check_label, rejected};
use earmark_control::{
    ClaimRow, DEFAULT_CLAIMS, ElsewhereRow, HashPolicyRow, MAX_CLAIMS, MatchRow, NextHopRow,
    PacketsRow, PathAnswer, PathFlow, PathOutcome, PathRequest, Problem, ProblemCode, RouteRow,
    RuleRow, TableRow,
};
use warnings::Warnings;

/// Most claims on other interfaces in an answer.
const MAX_ELSEWHERE: usize = 16;

/// Looks up the path of a flow at a time.
pub(super) struct PathLookup<'a, K> {
    pub(super) driver: &'a mut Driver<K>,
    pub(super) now: Time,
}

impl<K: Kernel> PathLookup<'_, K> {
    pub(super) fn answer(&mut self, request: &PathRequest) -> Result<PathAnswer, Problem> {
        let flow = flow_of(request)?;
        let incoming = self.incoming_of(request)?;
        let now = self.now;
        // The node must first learn what the kernel has done by itself.
        self.driver.catch_up(now, &EngineSlots::default());
        let asked = PathQuestion { flow, incoming, mark: request.mark };
        let path = self.driver.kernel().flow_path(&asked).map_err(failed)?;
        let (interface, next_hop) = match path.verdict {
            Verdict::Forwarded(hop) => (Some(hop.interface), hop.gateway),
            Verdict::Broadcast(interface) => (Some(interface), None),
            _ => (None, None),
        };
        let limit = request.limit.unwrap_or(DEFAULT_CLAIMS).min(MAX_CLAIMS);
        let elsewhere = self.elsewhere(interface, &path.flow);
        let view = match interface {
            Some(on) => {
                let view = self.driver.kernel().flow_on_link(on, &path.flow, limit);
                Some(view.map_err(failed)?)
            }
            None => None,
        };
        let (claims, claim_count) = match &view {
            Some(LinkView::Planned(on_link)) => (self.claims(on_link), on_link.count),
            _ => (Vec::new(), 0),
        };
        let node = self.driver.node();
        let packets = view.as_ref().map(|view| packets(view, &claims));
        let on = interface.map(|id| node.interface_name(id)).unwrap_or_default();
        let warnings = Warnings {
            asked: &asked,
            path: &path,
            on: &on,
            view: view.as_ref(),
            elsewhere: &elsewhere,
        }
        .list();
        Ok(PathAnswer {
            flow: shown_flow(request, &path, node),
            outcome: outcome(path.verdict),
            interface: interface.map(|id| node.interface_name(id)),
            next_hop,
            rule: path.rule.as_ref().map(|rule| RuleRow {
                priority: rule.priority,
                selector: rule.selector.clone(),
                action: rule.action.clone(),
                certain: rule.is_certain,
            }),
            table: path.table.map(|number| TableRow { number, name: table_name(number) }),
            route: path.route.as_ref().map(|route| shown_route(route, path.verdict, node)),
            claims,
            claim_count,
            elsewhere,
            packets,
            warnings,
        })
    }

    /// The named incoming interface of the packets.
    fn incoming_of(&self, request: &PathRequest) -> Result<Option<InterfaceId>, Problem> {
        let Some(name) = &request.incoming else { return Ok(None) };
        if request.from.is_none_or(|from| from.ip().is_unspecified()) {
            return Err(rejected(
                format!("packets that arrive on {name} need a source"),
                "name it (--from ADDR), or omit the interface for packets from this host",
            ));
        }
        let known = self.driver.node().interfaces().by_name(name);
        known.map(|interface| Some(interface.id)).ok_or_else(|| {
            rejected(
                format!("there is no interface {name}"),
                "`ip link` lists the interfaces of this host",
            )
        })
    }

    fn claims(&mut self, on_link: &FlowOnLink) -> Vec<ClaimRow> {
        on_link.claims.iter().map(|claim| self.claim_row(claim)).collect()
    }

    fn claim_row(&mut self, claim: &FlowClaim) -> ClaimRow {
        let now = self.now;
        let reservation = claim.claim.and_then(|id| {
            let row = self.driver.node().reservation_of(id, now)?;
            let kernel = self.driver.kernel();
            let (traffic, enforcement) = (kernel.traffic(id), kernel.enforcement(id));
            let row = ReservationRow { traffic, enforcement, ..row };
            Some(self.driver.node().with_obstacle(row, now))
        });
        ClaimRow {
            precedence: match claim.precedence {
                Precedence::Governs => "governs".into(),
                Precedence::Next => "next".into(),
                Precedence::Standby => "standby".into(),
            },
            protocol: self.protocol(claim),
            rate_bps: rate(self.driver, claim),
            matches: match_row(&claim.flow),
            shared: claim.is_shared,
            adopted: claim.claim.is_none(),
            reservation,
        }
    }

    fn elsewhere(&self, interface: Option<InterfaceId>, flow: &Flow) -> Vec<ElsewhereRow> {
        let kernel = self.driver.kernel_ref();
        let others = kernel.claims_elsewhere(interface, flow, MAX_ELSEWHERE);
        let rows = others.iter().map(|(on, claim)| ElsewhereRow {
            interface: self.driver.node().interface_name(*on),
            protocol: self.protocol(claim),
            rate_bps: rate(self.driver, claim),
        });
        rows.collect()
    }

    fn protocol(&self, claim: &FlowClaim) -> Option<Cow<'static, str>> {
        let owner = claim.claim.and_then(|id| self.driver.node().ledger().owner(id));
        let protocol = owner.map(|owner| owner.protocol).or(claim.protocol)?;
        self.driver.node().protocol_name(protocol).map(Cow::Borrowed)
    }
}

/// Rate that a claim holds on its link, or the installed rate if no reservation has adopted it yet.
fn rate<K: Kernel>(driver: &Driver<K>, claim: &FlowClaim) -> u64 {
    let held = claim.claim.and_then(|id| driver.node().ledger().demand(id));
    held.map_or(claim.rate, |demand| demand.rate).as_bps()
}

/// The requested flow, if packets of it can exist.
fn flow_of(request: &PathRequest) -> Result<Flow, Problem> {
    let PathRequest { to, from, flow_label, ip_protocol, .. } = *request;
    let from = from.filter(|from| !from.ip().is_unspecified() || from.port() != 0);
    if to.ip().is_unspecified() {
        return Err(rejected(
            format!("{} is not a destination address", to.ip()),
            "name the address itself, not \"any\"",
        ));
    }
    if to.ip().is_multicast() {
        return Err(rejected(
            format!("{} is a group: its packets take the multicast forwarding entries", to.ip()),
            "`ip mroute` lists these; `earmark show sessions` shows the interfaces of each sender",
        ));
    }
    if ip_protocol == 0 {
        return Err(rejected("IP protocol 0 is invalid".to_owned(), "17 for UDP, 6 for TCP"));
    }
    if let Some(label) = flow_label {
        check_label(label, to.ip())?;
    }
    let flow = Flow {
        destination: to.ip(),
        source: from.map(|from| from.ip()).filter(|source| !source.is_unspecified()),
        protocol: ip_protocol,
        destination_port: to.port(),
        source_port: from.map_or(0, |from| from.port()),
        flow_label: 0,
        spi: 0,
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    };
    if let Some(from) = from.filter(|from| from.is_ipv4() != to.is_ipv4()) {
        return Err(rejected(
            format!("{} and {} are of different IP versions", from.ip(), to.ip()),
            "both IPv4 or both IPv6",
        ));
    }
    // A packet has a flow label as well as ports; a filter has one of them.
    match flow.check() {
        Ok(()) => Ok(Flow { flow_label: flow_label.unwrap_or(0), ..flow }),
        Err(FlowError::NoPorts) => Err(rejected(
            format!("IP protocol {} has no ports", describe::ip_protocol(ip_protocol)),
            "omit the ports, or name a protocol that has ports (--ip-protocol udp)",
        )),
        Err(FlowError::Mapped) => {
            Err(rejected("an IPv4-mapped IPv6 address".to_owned(), "write it as IPv4: 10.0.2.2"))
        }
        Err(error) => Err(rejected(format!("invalid flow: {error}"), "name one flow")),
    }
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn failed(failure: LookupFailure) -> Problem {
    Problem::new(
        ProblemCode::Rejected,
        format!("cannot read the route of the flow: {failure}"),
        "the daemon's log may say more",
    )
}

fn outcome(verdict: Verdict) -> PathOutcome {
    match verdict {
        Verdict::Forwarded(_) => PathOutcome::Forwarded,
        Verdict::Local => PathOutcome::Local,
        Verdict::Broadcast(_) => PathOutcome::Broadcast,
        Verdict::NoRoute => PathOutcome::NoRoute,
        Verdict::Unreachable => PathOutcome::Unreachable,
        Verdict::Prohibited => PathOutcome::Prohibited,
        Verdict::Blackhole => PathOutcome::Blackhole,
        Verdict::WrongInterface => PathOutcome::WrongInterface,
        Verdict::NotForwarded => PathOutcome::NotForwarded,
    }
}

fn shown_flow(request: &PathRequest, path: &FlowPath, node: &Node) -> PathFlow {
    PathFlow {
        destination: path.flow.destination,
        destination_port: path.flow.destination_port,
        ip_protocol: path.flow.protocol,
        source: path.flow.source,
        source_port: path.flow.source_port,
        flow_label: request.flow_label,
        incoming: path.incoming.map(|id| node.interface_name(id)),
        incoming_assumed: path.incoming.is_some() && request.incoming.is_none(),
        mark: path.mark,
        mark_of_settings: path.is_mark_of_settings,
    }
}

fn shown_route(route: &MatchedRoute, verdict: Verdict, node: &Node) -> RouteRow {
    let chosen = |interface, gateway| match verdict {
        Verdict::Forwarded(hop) => hop.interface == interface && hop.gateway == gateway,
        _ => false,
    };
    let hops = match verdict {
        Verdict::Local => &[],
        _ => &route.next_hops[..],
    };
    RouteRow {
        prefix: route.prefix,
        metric: route.metric,
        next_hops: hops
            .iter()
            .map(|hop| NextHopRow {
                interface: node.interface_name(hop.interface),
                next_hop: hop.gateway,
                weight: hop.weight,
                usable: hop.usable,
                chosen: chosen(hop.interface, hop.gateway),
            })
            .collect(),
        nexthop_object: route.nexthop_object,
        nexthop_kind: route.nexthop_object.map(|_| match route.group {
            None => "single".into(),
            Some(group) if group.buckets.is_some() => "resilient group".into(),
            Some(_) => "group".into(),
        }),
        hash_policy: route
            .hash_policy
            .map(|number| HashPolicyRow { number, looks_at: hash_fields(number).into() }),
    }
}

/// Fields that `fib_multipath_hash_policy` has the kernel hash (Linux: `ip-sysctl.rst`).
fn hash_fields(policy: u8) -> &'static str {
    match policy {
        0 => "source and destination, of IPv6 the flow label too",
        1 => "source, destination, protocol and ports",
        2 => "source and destination, of tunnels the inner ones",
        3 => "the fields of fib_multipath_hash_fields",
        _ => "an unknown hash policy",
    }
}

fn match_row(flow: &Flow) -> MatchRow {
    let named = |number: u16| (number != 0).then_some(number);
    MatchRow {
        destination: flow.destinations(),
        source: flow.sources(),
        ip_protocol: (flow.protocol != 0).then_some(flow.protocol),
        destination_port: named(flow.destination_port),
        source_port: named(flow.source_port),
        flow_label: (flow.flow_label != 0).then_some(flow.flow_label),
    }
}

/// Service of the packets, according to the kernel's tables.
fn packets(view: &LinkView, claims: &[ClaimRow]) -> PacketsRow {
    let best_effort = PacketsRow {
        get: "best_effort".into(),
        class: None,
        priority: None,
        bucket_bps: None,
        classifier: None,
        queues: None,
        enforcement: None,
    };
    let on_link = match view {
        LinkView::TakesNoPart => return best_effort,
        LinkView::LeftAlone => return PacketsRow { queues: Some("none".into()), ..best_effort },
        LinkView::Planned(on_link) => on_link,
    };
    let place = match (on_link.kernel, &on_link.fault) {
        (Some(entry), _) => Some(entry.class),
        (None, None) => Some(on_link.best_effort),
        // The packets' place is unknown on a link that is out of order.
        (None, Some(_)) => None,
    };
    let (class, priority) = match place {
        Some(ClassOrPriority::Class { handle, .. }) => {
            (Some(format!("{:x}:{:x}", handle >> 16, handle & 0xffff)), None)
        }
        Some(ClassOrPriority::Priority(priority)) => (None, Some(priority)),
        None => (None, None),
    };
    let enforcement = (!claims.is_empty()).then(|| {
        let of_claim = claims.first().and_then(|claim| claim.reservation.as_ref());
        let of_claim = of_claim.and_then(|row| row.enforcement.clone());
        match (&on_link.fault, of_claim) {
            (None, Some(row)) => EnforcementRow { claims: on_link.count, ..row },
            (fault, _) => EnforcementRow {
                state: if fault.is_none() { "enforced" } else { "unenforced" }.into(),
                reason: fault.clone(),
                claims: on_link.count,
            },
        }
    });
    let is_enforced = enforcement.as_ref().is_some_and(|row| row.state == "enforced");
    PacketsRow {
        get: if on_link.kernel.is_some() && is_enforced { "reserved" } else { "best_effort" }
            .into(),
        class,
        priority,
        bucket_bps: on_link.kernel.and_then(|entry| entry.bucket).map(Rate::as_bps),
        classifier: Some(match on_link.classifier {
            ClassifierChoice::U32 => "u32".into(),
            _ => "bpf".into(),
        }),
        queues: Some(match on_link.queues {
            Queues::PerFlow => "per-flow".into(),
            Queues::Aggregate => "aggregate".into(),
            Queues::Priority => "priority".into(),
        }),
        enforcement,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use earmark_core::Prefix;

    use super::*;

    fn request(to: &str, from: Option<&str>, ip_protocol: u8) -> PathRequest {
        let from = from.map(|from| from.parse().expect("an end"));
        PathRequest { from, ip_protocol, ..PathRequest::new(to.parse().expect("an end")) }
    }

    #[test]
    fn impossible_flow_is_rejected_with_reason() {
        for (to, from, ip_protocol, words) in [
            ("0.0.0.0:1", None, 17, "not a destination address"),
            ("239.1.2.3:1", None, 17, "is a group"),
            ("10.0.0.9:1", None, 0, "IP protocol 0 is invalid"),
            ("10.0.0.9:1", None, 1, "IP protocol icmp has no ports"),
            ("10.0.0.9:0", Some("10.0.0.1:7"), 50, "IP protocol esp has no ports"),
            ("10.0.0.9:1", Some("[2001:db8::1]:7"), 17, "are of different IP versions"),
            ("[::ffff:10.0.0.9]:1", None, 17, "IPv4-mapped"),
        ] {
            let problem = flow_of(&request(to, from, ip_protocol)).expect_err(to);
            assert!(problem.message.contains(words), "{to}: {}", problem.message);
            assert!(!problem.hint.is_empty(), "{to}");
        }
        let label = PathRequest { flow_label: Some(7), ..request("10.0.0.9:1", None, 17) };
        assert!(flow_of(&label).expect_err("a label").message.contains("flow label"));
    }

    #[test]
    fn packet_has_a_label_and_ports() {
        let asked = request("[2001:db8::9]:5001", Some("[2001:db8::1]:4000"), 17);
        let flow = flow_of(&PathRequest { flow_label: Some(7), ..asked }).expect("a flow");
        assert_eq!((flow.flow_label, flow.source_port, flow.destination_port), (7, 4_000, 5_001));
        let own = flow_of(&request("10.0.0.9:0", Some("0.0.0.0:4000"), 6)).expect("a flow");
        assert_eq!((own.source, own.source_port), (None, 4_000));
    }

    #[test]
    fn match_row_has_only_matched_fields() {
        let range = Flow::to_range("10.0.9.0/24".parse().expect("a prefix"));
        let row = match_row(&range);
        assert_eq!(row.destination.to_string(), "10.0.9.0/24");
        assert_eq!((row.source, row.ip_protocol, row.destination_port), (None, None, None));
        let exact = Flow {
            source: Some([10, 0, 0, 1].into()),
            protocol: 17,
            destination_port: 5_001,
            ..Flow::to_range(Prefix::host(IpAddr::from([10, 0, 9, 1])))
        };
        let row = match_row(&exact);
        assert_eq!(row.source.map(|source| source.to_string()).as_deref(), Some("10.0.0.1/32"));
        assert_eq!((row.ip_protocol, row.destination_port), (Some(17), Some(5_001)));
    }
}
