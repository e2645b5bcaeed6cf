//! Hops of a flow as a table or JSON, and how the trace ended.

use std::fmt::Write as _;
use std::net::IpAddr;

use comfy_table::Cell;
use earmark_control::text::{sender, with_port};
use earmark_control::{PathAnswer, PathOutcome};
use earmark_core::Rate;
use serde_json::{Value, json};

use super::Hop;
use crate::cli::outcome::Outcome;
use crate::cli::routers::names::RouterName;
use crate::cli::table::new_table;
use crate::protocols::TraceOptions;

/// Reason for the end of a trace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The packets reach their destination: this router, or a host on its link.
    Arrived { router: RouterName },
    /// No named router has the next hop.
    NotNamed { router: RouterName, next_hop: IpAddr },
    /// Several named routers have the next address.
    Ambiguous { address: IpAddr, owners: Vec<RouterName> },
    /// The router does not forward the packets.
    Stopped { router: RouterName, outcome: PathOutcome },
    /// The packets come back to a router.
    Loop { router: RouterName },
    /// The trace has as many hops as were asked for.
    HopLimit,
    /// A router could not be asked; its failure is reported already.
    Unanswered { router: RouterName, is_timeout: bool },
}

/// Result of a trace.
pub(super) struct Report<'a> {
    pub(super) options: &'a TraceOptions,
    pub(super) hops: &'a [Hop],
    pub(super) end: &'a End,
}

impl Report<'_> {
    pub(super) fn outcome(&self) -> Outcome {
        match self.end {
            End::Arrived { .. } | End::HopLimit => Outcome::Done,
            End::NotNamed { .. } | End::Ambiguous { .. } => Outcome::Part,
            End::Unanswered { is_timeout: true, .. } => Outcome::TimedOut,
            End::Stopped { .. } | End::Loop { .. } | End::Unanswered { .. } => Outcome::Failed,
        }
    }

    pub(super) fn text(&self) -> String {
        let to = with_port(self.options.to.ip(), self.options.to.port());
        let known = self.hops.first().and_then(|hop| hop.answer.flow.source);
        let from = match (&self.options.from, known) {
            (Some(from), _) => sender(from),
            (None, Some(source)) => source.to_string(),
            (None, None) => "the first router".to_owned(),
        };
        let mut text = format!("{from} -> {to}\n");
        if !self.hops.is_empty() {
            let mut table = new_table(&["router", "in", "out", "next hop", "reserved", "service"]);
            for Hop { router, answer } in self.hops {
                table.add_row([
                    Cell::new(router),
                    Cell::new(answer.flow.incoming.as_deref().unwrap_or("this host")),
                    Cell::new(answer.interface.as_deref().unwrap_or("-")),
                    Cell::new(next_hop(answer)),
                    Cell::new(reserved(answer)),
                    Cell::new(service(answer)),
                ]);
            }
            let _ = writeln!(text, "{table}");
        }
        for Hop { router, answer } in self.hops {
            for warning in &answer.warnings {
                let _ = writeln!(text, "{router}: warning: {warning}");
            }
        }
        let (end, help) = self.end();
        text += &end;
        if let Some(help) = help {
            let _ = write!(text, "\n  help: {help}");
        }
        text
    }

    /// How the trace ended, and what to do about it.
    fn end(&self) -> (String, Option<&'static str>) {
        let last = self.hops.last().map(|hop| hop.answer.outcome);
        let destination = self.options.to.ip();
        match self.end {
            End::Arrived { router } if last == Some(PathOutcome::Local) => {
                (format!("arrived: {destination} is {router}"), None)
            }
            End::Arrived { router } => {
                (format!("arrived: {destination} is on a link of {router}"), None)
            }
            End::NotNamed { router, next_hop } => (
                format!(
                    "{router} sends to {next_hop}, which is not an address of the routers named"
                ),
                Some(
                    "name the router with this address in --on; `earmark show links` lists those of a router",
                ),
            ),
            End::Ambiguous { address, owners } => {
                let names: Vec<&str> = owners.iter().map(RouterName::as_str).collect();
                let names = names.join(", ");
                (
                    format!("several of the routers named have the address {address}: {names}"),
                    Some("name only the one on this link"),
                )
            }
            End::Stopped { router, outcome } => stopped(router, *outcome),
            End::Loop { router } => (
                format!("loop: the packets come back to {router}"),
                Some("`earmark show path` on each router shows the rule and the route that decide"),
            ),
            End::HopLimit => ("ended at the limit of --max-hops".to_owned(), None),
            End::Unanswered { router, .. } => (format!("{router} could not be asked"), None),
        }
    }

    pub(super) fn json(&self) -> Value {
        let hops: Vec<Value> = self.hops.iter().map(hop_json).collect();
        let (message, hint) = self.end();
        let end = match self.end {
            End::Arrived { .. } => "arrived",
            End::NotNamed { .. } => "not_named",
            End::Ambiguous { .. } => "ambiguous",
            End::Stopped { .. } => "stopped",
            End::Loop { .. } => "loop",
            End::HopLimit => "hop_limit",
            End::Unanswered { .. } => "unanswered",
        };
        let flow = self.hops.first().map(|hop| &hop.answer.flow);
        json!({
            "destination": self.options.to.ip(),
            "destination_port": self.options.to.port(),
            "ip_protocol": self.options.ip_protocol,
            "source": flow.and_then(|flow| flow.source),
            "source_port": flow.map(|flow| flow.source_port),
            "hops": hops,
            "end": end,
            "message": message,
            "hint": hint,
        })
    }
}

/// Advice about packets that a router discards by its configuration.
const SHOW_PATH: &str = "`earmark show path` there shows the rule and the route";

fn stopped(router: &RouterName, outcome: PathOutcome) -> (String, Option<&'static str>) {
    let (text, help) = match outcome {
        PathOutcome::NoRoute => ("has no route to the destination", "add one: `ip route` there"),
        PathOutcome::WrongInterface => (
            "discards the packets: their source must not arrive there (rp_filter)",
            "the route to the source leads to another interface; if this is wanted, set net.ipv4.conf.*.rp_filter there",
        ),
        PathOutcome::NotForwarded => (
            "discards the packets: it does not forward what arrives there",
            "set net.ipv4.ip_forward or net.ipv6.conf.all.forwarding there",
        ),
        PathOutcome::Unreachable => {
            ("refuses the packets: a route or rule says unreachable", SHOW_PATH)
        }
        PathOutcome::Prohibited => {
            ("refuses the packets: a route or rule says prohibit", SHOW_PATH)
        }
        _ => (
            "discards the packets: a route or rule says blackhole, or an address is invalid",
            SHOW_PATH,
        ),
    };
    (format!("{router} {text}"), Some(help))
}

fn next_hop(answer: &PathAnswer) -> String {
    match (answer.outcome, answer.next_hop) {
        (PathOutcome::Forwarded, Some(hop)) => hop.to_string(),
        (PathOutcome::Forwarded, None) => "on the link".to_owned(),
        (PathOutcome::Local, _) => "this host".to_owned(),
        _ => "-".to_owned(),
    }
}

/// Reservation that the packets match first, and the number of others.
fn reserved(answer: &PathAnswer) -> String {
    let Some(claim) = answer.claims.first() else { return "none".to_owned() };
    let by = claim.protocol.as_deref().unwrap_or("an earlier daemon");
    let text = format!("{by} {}", Rate::from_bps(claim.rate_bps));
    match answer.claim_count.saturating_sub(1) {
        0 => text,
        more => format!("{text}, {more} more"),
    }
}

/// Service that the packets get, with the reason if it is best effort.
fn service(answer: &PathAnswer) -> String {
    let Some(packets) = &answer.packets else { return "-".to_owned() };
    match (&*packets.get, why_best_effort(answer)) {
        ("reserved", _) => "enforced".to_owned(),
        (_, Some(why)) => format!("best effort: {why}"),
        (_, None) => "best effort".to_owned(),
    }
}

/// Reason why the packets get best effort, besides that nothing is reserved.
fn why_best_effort(answer: &PathAnswer) -> Option<&str> {
    let packets = answer.packets.as_ref()?;
    match (&packets.enforcement, packets.queues.as_deref()) {
        (Some(enforcement), _) if packets.get != "reserved" => {
            Some(enforcement.reason.as_deref().unwrap_or("the reservation is not in place"))
        }
        (None, None) => Some("the interface takes no part"),
        (None, Some("none")) => Some("the queues of the interface are left alone"),
        _ => None,
    }
}

fn hop_json(Hop { router, answer }: &Hop) -> Value {
    let claim = answer.claims.first();
    let packets = answer.packets.as_ref();
    json!({
        "router": router.as_str(),
        "outcome": answer.outcome,
        "incoming": answer.flow.incoming,
        "interface": answer.interface,
        "next_hop": answer.next_hop,
        "protocol": claim.and_then(|claim| claim.protocol.as_deref()),
        "rate_bps": claim.map(|claim| claim.rate_bps),
        "claim_count": answer.claim_count,
        "get": packets.map(|packets| &*packets.get),
        "class": packets.and_then(|packets| packets.class.as_deref()),
        "reason": why_best_effort(answer),
        "warnings": answer.warnings,
    })
}
