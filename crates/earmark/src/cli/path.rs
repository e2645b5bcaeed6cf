//! `earmark show path`: next hop of a flow and the reason for it, its reservations on this node, and the service of its packets.

use std::fmt::Write as _;
use std::net::IpAddr;

use comfy_table::Cell;
use earmark_core::{Prefix, Rate};

use super::arguments::PathOptions;
use super::listings::{enforced, senders};
use super::outcome::{Outcome, wrong_usage};
use super::table::{new_table, number};
use earmark_control::Client;
use earmark_control::command::{Failure, Output};
use earmark_control::text::{ip_protocol, with_port};
use earmark_control::{
    ClaimRow, MatchRow, NextHopRow, PacketsRow, PathAnswer, PathFlow, PathOutcome, RouteRow,
};

/// Requests the path of a flow and prints it.
pub(super) fn show(
    client: &mut Client,
    options: &PathOptions,
    limit: Option<usize>,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let request = options.request(limit).map_err(|conflict| wrong_usage(&conflict))?;
    let answer = client.path(request)?;
    out.line(&text(&answer), &answer)?;
    Ok(Outcome::Done)
}

fn text(answer: &PathAnswer) -> String {
    let mut text = format!("{}\n{}\n", flow(&answer.flow), verdict(answer));
    let mut part = |name: &str, what: &str| _ = writeln!(text, "  {name:<10}{what}");
    if let Some(rule) = &answer.rule {
        let doubt = if rule.certain { "" } else { " (or another)" };
        part("rule", &format!("{}: {} {}{doubt}", rule.priority, rule.selector, rule.action));
    }
    if let Some(route) = &answer.route {
        let table = answer.table.as_ref().map_or("-", |table| &table.name);
        part("route", &format!("{}{} in table {table}", route.prefix, details(route)));
        if route.next_hops.len() > 1 {
            let hops: Vec<String> = route.next_hops.iter().map(next_hop).collect();
            part("next hops", &hops.join(", "));
        }
        if let Some(policy) = &route.hash_policy {
            let number = policy.number;
            part("chosen by", &format!("hash policy {number}: {}", policy.looks_at));
        }
    }
    let packets = answer.packets.as_ref();
    match (packets, &answer.interface) {
        (Some(packets), Some(interface)) => {
            text += &reserved(answer, packets, interface);
            let _ = writeln!(text, "packets get {}", get(answer, packets, interface));
        }
        _ => text += "nothing is queued for it here\n",
    }
    for warning in &answer.warnings {
        let _ = writeln!(text, "warning: {warning}");
    }
    text.trim_end().to_owned()
}

/// The flow as the daemon completed it: `10.0.1.1:4000 -> 10.0.2.2:5001, udp, in through eth0`.
fn flow(flow: &PathFlow) -> String {
    let end = |address: Option<IpAddr>, port| match address {
        Some(address) => with_port(address, port),
        None if port == 0 => "this host".to_owned(),
        None => format!("this host, port {port}"),
    };
    let mut text = format!(
        "{} -> {}, {}",
        end(flow.source, flow.source_port),
        with_port(flow.destination, flow.destination_port),
        ip_protocol(flow.ip_protocol)
    );
    if let Some(label) = flow.flow_label {
        let _ = write!(text, ", label {label:#x}");
    }
    if let Some(interface) = &flow.incoming {
        let assumed = if flow.incoming_assumed { " (as routes to its source lead)" } else { "" };
        let _ = write!(text, ", in through {interface}{assumed}");
    }
    if let Some(mark) = flow.mark {
        let settings = if flow.mark_of_settings { " (by [[mark]] of the settings)" } else { "" };
        let _ = write!(text, ", mark {mark:#x}{settings}");
    }
    text
}

fn verdict(answer: &PathAnswer) -> String {
    let on = answer.interface.as_deref().unwrap_or("-");
    match (answer.outcome, answer.next_hop) {
        (PathOutcome::Forwarded, Some(hop)) => format!("leaves through {on}, next hop {hop}"),
        (PathOutcome::Forwarded, None) => {
            format!("leaves through {on}, its destination is on the link")
        }
        (PathOutcome::Local, _) => "is for this host itself".to_owned(),
        (PathOutcome::Broadcast, _) => format!("goes to all hosts on {on}"),
        (PathOutcome::NoRoute, _) => "goes nowhere: there is no route".to_owned(),
        (PathOutcome::Unreachable, _) => "is refused: a route or rule says unreachable".to_owned(),
        (PathOutcome::Prohibited, _) => "is refused: a route or rule says prohibit".to_owned(),
        (PathOutcome::Blackhole, _) => {
            "is discarded: a route or rule says blackhole, or an address is none of a packet"
                .to_owned()
        }
        (PathOutcome::WrongInterface, _) => {
            "is discarded: packets of this source must not come in there (rp_filter)".to_owned()
        }
        (PathOutcome::NotForwarded, _) => {
            "is discarded: this host does not forward what comes in there (net.ipv4.ip_forward)"
                .to_owned()
        }
    }
}

fn details(route: &RouteRow) -> String {
    let mut text = String::new();
    if route.metric != 0 {
        let _ = write!(text, " metric {}", route.metric);
    }
    if let Some(id) = route.nexthop_object {
        let kind = route.nexthop_kind.as_deref().unwrap_or("object");
        let _ = write!(text, " by nexthop {id} ({kind})");
    }
    text
}

fn next_hop(hop: &NextHopRow) -> String {
    let NextHopRow { interface, next_hop, weight, usable, chosen } = hop;
    let mut text = match next_hop {
        Some(address) => format!("{address} ({interface})"),
        None => interface.clone(),
    };
    if *weight != 1 {
        let _ = write!(text, " weight {weight}");
    }
    text += match (usable, chosen) {
        (_, true) => " chosen",
        (false, false) => " down",
        (true, false) => "",
    };
    text
}

/// Claims that the packets match.
fn reserved(answer: &PathAnswer, packets: &PacketsRow, interface: &str) -> String {
    if answer.claims.is_empty() {
        return match packets.queues.as_deref() {
            None => format!("nothing can be reserved: {interface} takes no part\n"),
            Some("none") => format!("the queues of {interface} are left alone\n"),
            Some(_) => format!("nothing is reserved for it on {interface}\n"),
        };
    }
    let mut table = new_table(&["precedence", "by", "rate", "for", "session", "style", "enforced"]);
    for claim in &answer.claims {
        table.add_row(cells(claim));
    }
    let mut text = format!("reserved on {interface}:\n{table}\n");
    let hidden = answer.claim_count - answer.claims.len().min(answer.claim_count);
    if hidden > 0 {
        let _ = writeln!(text, "and {hidden} more; --limit N shows them");
    }
    text
}

fn cells(claim: &ClaimRow) -> Vec<Cell> {
    let row = claim.reservation.as_ref();
    let session = row.map_or_else(
        || "left by an earlier daemon".to_owned(),
        |row| {
            let to = with_port(row.destination, row.destination_port);
            format!("{} -> {to}", senders(&row.senders).replace('\n', ", "))
        },
    );
    vec![
        Cell::new(match &*claim.precedence {
            "standby" => "stands by",
            other => other,
        }),
        Cell::new(claim.protocol.as_deref().unwrap_or("-")),
        number(Rate::from_bps(claim.rate_bps)),
        Cell::new(matches(&claim.matches, claim.shared)),
        Cell::new(session),
        Cell::new(row.map_or("-", |row| &*row.style)),
        Cell::new(enforced(row.and_then(|row| row.enforcement.as_ref()))),
    ]
}

/// Packets that a claim matches.
fn matches(row: &MatchRow, shared: bool) -> String {
    let whole = |prefix: Prefix| prefix == Prefix::host(prefix.address());
    let is_one = whole(row.destination) && row.source.is_some_and(whole);
    let mut text = match (is_one, row.source) {
        (true, _) => "this flow".to_owned(),
        (false, None) if whole(row.destination) => "all senders".to_owned(),
        (false, None) => format!("all to {}", row.destination),
        (false, Some(source)) => format!("{source} to {}", row.destination),
    };
    let ports = (row.source_port, row.destination_port);
    let named = match (ports, row.flow_label) {
        (_, Some(label)) => format!(", label {label:#x}"),
        ((Some(_), Some(_)), _) => String::new(),
        ((None, Some(port)), _) => format!(", port {port}"),
        ((Some(port), None), _) => format!(", from port {port}"),
        ((None, None), _) => ", any port".to_owned(),
    };
    text += &named;
    if row.ip_protocol.is_none() {
        text += ", any protocol";
    }
    if shared {
        text += ", shared";
    }
    text
}

/// Description of the service that the packets get.
fn get(answer: &PathAnswer, packets: &PacketsRow, interface: &str) -> String {
    let place = match (&packets.class, packets.priority) {
        (Some(class), _) => format!(", class {class}"),
        (None, Some(priority)) => format!(", priority {priority}"),
        (None, None) => String::new(),
    };
    let Some(enforcement) = &packets.enforcement else {
        return format!("best effort{place} on {interface}: nothing is reserved for them");
    };
    let bucket = packets
        .bucket_bps
        .map_or_else(String::new, |bps| format!(", token bucket of {}", Rate::from_bps(bps)));
    match (&*packets.get, answer.claims.first()) {
        ("reserved", Some(claim)) => {
            let by = claim.protocol.as_deref().unwrap_or("an earlier daemon");
            let rate = Rate::from_bps(claim.rate_bps);
            format!("{rate} by {by}{place}{bucket} on {interface}; enforced")
        }
        _ => {
            let why = enforcement.reason.as_deref().unwrap_or("it is not in place");
            format!("best effort on {interface}, and not what is reserved: {why}")
        }
    }
}

#[cfg(test)]
mod tests;
