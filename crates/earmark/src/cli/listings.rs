//! `earmark show`: tables for people, JSON arrays for programs.

use std::time::Duration;

use comfy_table::Cell;
use earmark_core::{Rate, Transport};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::arguments::What;
use super::outcome::Outcome;
use super::table::{new_table, number};
use crate::protocols::records_hops;
use earmark_control::Client;
use earmark_control::command::{Failure, Output};
use earmark_control::text::{ip_protocol, sender, with_port};
use earmark_control::{
    AdmissionRow, AggregateRow, ApplicationRow, AssociationRow, EnforcementRow, LinkRow,
    NeighborRow, Request, ReservationRow, Role, RoutingStateRow, Rows, SenderName, SessionRow,
    Show, StyleName, TrafficRow,
};
use earmark_core::amounts::{show_duration, show_octets};

/// Requests a listing and prints it.
pub(crate) fn show(
    client: &mut Client,
    what: What,
    limit: Option<usize>,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let mut listing = Listing { client, what, limit, out };
    match what {
        What::Sessions => listing.print::<SessionRow>(),
        What::Reservations => listing.print::<ReservationRow>(),
        What::Links => listing.print::<LinkRow>(),
        What::Neighbors => listing.print::<NeighborRow>(),
        What::Aggregates => listing.print::<AggregateRow>(),
        What::RoutingState => listing.print::<RoutingStateRow>(),
        What::Associations => listing.print::<AssociationRow>(),
        What::Applications => listing.print::<ApplicationRow>(),
        What::Counters => listing.print_counters(),
    }
}

struct Listing<'a> {
    client: &'a mut Client,
    what: What,
    limit: Option<usize>,
    out: &'a mut Output,
}

impl Listing<'_> {
    fn ask<T: DeserializeOwned>(&mut self) -> Result<Rows<T>, Failure> {
        let show = Show { what: self.what.into(), limit: self.limit };
        Ok(self.client.call(&Request::Show(show))?)
    }

    fn print<T: Row>(&mut self) -> Result<Outcome, Failure> {
        let Rows { rows, more } = self.ask::<T>()?;
        self.out.line(&table(&rows), &rows)?;
        if more {
            eprintln!("earmark: there are more rows; --limit N shows them");
        }
        Ok(Outcome::Done)
    }

    fn print_counters(&mut self) -> Result<Outcome, Failure> {
        let counters = self.ask::<Value>()?.rows.into_iter().next().unwrap_or_default();
        let mut rows = Vec::new();
        for (part, counts) in counters.as_object().into_iter().flatten() {
            flatten(part, "", counts, &mut rows);
        }
        let mut table = new_table(&["protocol", "counter", "count"]);
        for (part, name, count) in rows {
            table.add_row([Cell::new(part), Cell::new(name), number(count)]);
        }
        self.out.line(&table.to_string(), &counters)?;
        Ok(Outcome::Done)
    }
}

/// Flattens the counters of one part to rows named by their path, such as `received.path`.
fn flatten<'a>(
    part: &'a str,
    path: &str,
    value: &Value,
    rows: &mut Vec<(&'a str, String, String)>,
) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                flatten(part, &path, member, rows);
            }
        }
        leaf => rows.push((part, path.to_owned(), leaf.to_string())),
    }
}

/// A row of a table.
trait Row: Serialize + DeserializeOwned {
    const HEADER: &'static [&'static str];
    /// Text printed instead of a table without rows.
    const NOTHING: &'static str;
    fn cells(&self) -> Vec<Cell>;
}

fn table<T: Row>(rows: &[T]) -> String {
    if rows.is_empty() {
        return T::NOTHING.to_owned();
    }
    let mut table = new_table(T::HEADER);
    for row in rows {
        table.add_row(row.cells());
    }
    table.to_string()
}

impl Row for SessionRow {
    const HEADER: &'static [&'static str] = &[
        "by",
        "destination",
        "protocol",
        "source",
        "rate",
        "burst",
        "from",
        "to",
        "hops",
        "reserved",
        "expires",
    ];
    const NOTHING: &'static str = "no flow is announced";

    fn cells(&self) -> Vec<Cell> {
        let from = match (&self.previous_hop, &self.incoming) {
            (Some(hop), Some(interface)) => format!("{hop} ({interface})"),
            (Some(hop), None) => hop.to_string(),
            (None, _) if !records_hops(&self.protocol) => "-".to_owned(),
            (None, _) => "this host".to_owned(),
        };
        let range = |text: String, place: usize| match self.prefix_lengths {
            Some(lengths) => format!("{text}/{}", lengths[place]),
            None => text,
        };
        let source = sender(&SenderName {
            address: self.source,
            port: self.source_port,
            flow_label: self.flow_label,
        });
        let rate = Rate::from_bps(self.rate_bps);
        vec![
            Cell::new(&*self.protocol),
            Cell::new(range(with_port(self.destination, self.destination_port), 1)),
            Cell::new(ip_protocol(self.ip_protocol)),
            Cell::new(range(source, 0)),
            number(match self.reverse_bps {
                Some(back) => format!("{rate}\n{} back", Rate::from_bps(back)),
                None => rate.to_string(),
            }),
            number(show_octets(self.burst_octets.into())),
            Cell::new(from),
            Cell::new(ways(&self.outgoing, self.here)),
            number(self.hops.map_or("-".to_owned(), |hops| hops.to_string())),
            Cell::new(match (self.reserved, self.waiting) {
                (true, false) => "yes",
                (true, true) => "in part",
                (false, true) => "waits",
                (false, false) => "no",
            }),
            expires(self.expires_in_s),
        ]
    }
}

impl Row for ReservationRow {
    const HEADER: &'static [&'static str] = &[
        "by",
        "destination",
        "protocol",
        "source",
        "style",
        "service",
        "rate",
        "burst",
        "link",
        "next hop",
        "expires",
        "enforced",
        "sent",
        "dropped",
        "queued",
    ];
    const NOTHING: &'static str = "nothing is reserved";

    fn cells(&self) -> Vec<Cell> {
        let traffic =
            |show: fn(TrafficRow) -> String| number(self.traffic.map_or("-".to_owned(), show));
        let next_hop = match self.next_hop {
            Some(hop) => hop.to_string(),
            None if !records_hops(&self.protocol) => "-".to_owned(),
            None => "this host".to_owned(),
        };
        vec![
            Cell::new(&*self.protocol),
            Cell::new(with_port(self.destination, self.destination_port)),
            Cell::new(ip_protocol(self.ip_protocol)),
            Cell::new(senders(&self.senders)),
            Cell::new(&*self.style),
            Cell::new(&*self.service),
            number(Rate::from_bps(self.rate_bps)),
            number(show_octets(self.burst_octets.into())),
            Cell::new(self.interface.as_deref().unwrap_or("this host")),
            Cell::new(next_hop),
            expires(self.expires_in_s),
            Cell::new(enforced(self.enforcement.as_ref())),
            traffic(|t| packets(t.packets, t.octets)),
            traffic(|t| t.drops.to_string()),
            traffic(|t| packets(t.backlog_packets.into(), t.backlog_octets.into())),
        ]
    }
}

/// Whether the packets get the reservation, and how many claims there are on their flow.
pub(crate) fn enforced(enforcement: Option<&EnforcementRow>) -> String {
    let Some(EnforcementRow { state, reason, claims }) = enforcement else {
        return "-".to_owned();
    };
    match (&**state, reason) {
        ("enforced", _) if *claims < 2 => "yes".to_owned(),
        ("enforced", _) => format!("yes, best of {claims}"),
        ("standby", _) => format!("stands by, {claims} claims"),
        (_, Some(reason)) => format!("no: {reason}"),
        (_, None) => "no".to_owned(),
    }
}

/// Outgoing interfaces, one a line, and this host if the data ends here.
fn ways(outgoing: &[String], here: bool) -> String {
    let mut ways: Vec<&str> = outgoing.iter().map(String::as_str).collect();
    if here {
        ways.push("this host");
    }
    ways.join("\n")
}

/// Senders that share a reservation, one a line.
pub(crate) fn senders(senders: &[SenderName]) -> String {
    if senders.is_empty() {
        return "all".to_owned();
    }
    senders.iter().map(sender).collect::<Vec<_>>().join("\n")
}

/// Reserved bandwidth of a link, and below it the measured load where that decides about admission.
fn reserved(link: &LinkRow) -> String {
    match &link.admission {
        Some(AdmissionRow { method, measured_bps }) if method != "parameter" => {
            let load = measured_bps.map_or("-".to_owned(), |load| load.to_string());
            format!("{}\n{method} {load}", link.held_bps)
        }
        _ => link.held_bps.to_string(),
    }
}

impl Row for LinkRow {
    const HEADER: &'static [&'static str] = &[
        "link",
        "state",
        "address",
        "bandwidth",
        "reservable",
        "reserved",
        "reservations",
        "adopted",
    ];
    const NOTHING: &'static str =
        "no interface takes part; name them in the daemon's configuration";

    fn cells(&self) -> Vec<Cell> {
        let addresses: Vec<String> = self.addresses.iter().map(ToString::to_string).collect();
        vec![
            Cell::new(&self.interface),
            Cell::new(self.state.name()),
            Cell::new(addresses.join("\n")),
            number(self.bandwidth_bps),
            number(self.reservable_bps),
            number(reserved(self)),
            number(self.claims),
            number(self.adopted),
        ]
    }
}

impl Row for NeighborRow {
    const HEADER: &'static [&'static str] =
        &["neighbor", "link", "senders", "reservations", "in summaries", "hello", "heard"];
    const NOTHING: &'static str = "no neighbor has been heard";

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::new(self.address),
            Cell::new(&self.interface),
            number(self.senders),
            number(self.reservations),
            match &self.reduction {
                Some(reduction) => number(reduction.summarized),
                None => Cell::new("-"),
            },
            Cell::new(self.hello.as_deref().unwrap_or("-")),
            number(format!("{} ago", seconds(self.heard_s))),
        ]
    }
}

impl Row for AggregateRow {
    const HEADER: &'static [&'static str] = &[
        "protocol", "range", "far edge", "link", "members", "needed", "granted", "waiting", "state",
    ];
    const NOTHING: &'static str = "no aggregate is configured";

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::new(&self.protocol),
            Cell::new(self.range),
            self.to.map_or_else(|| Cell::new("-"), Cell::new),
            Cell::new(self.interface.as_deref().unwrap_or("-")),
            number(self.members),
            number(self.need_bps),
            number(self.granted_bps),
            number(self.waiting),
            Cell::new(if self.failing { "failing" } else { "fine" }),
        ]
    }
}

impl Row for RoutingStateRow {
    const HEADER: &'static [&'static str] = &[
        "application",
        "destination",
        "protocol",
        "source",
        "way",
        "state",
        "peer",
        "hops",
        "refresh",
        "expires",
    ];
    const NOTHING: &'static str = "there is no routing state";

    fn cells(&self) -> Vec<Cell> {
        let peer = match (self.peer, &self.interface) {
            (Some(peer), Some(interface)) => format!("{peer} ({interface})"),
            (Some(peer), None) => peer.to_string(),
            (None, _) => "-".to_owned(),
        };
        let state = match &*self.validity {
            "tentative" => format!("{}, doubtful", state(&self.state)),
            _ => state(&self.state).to_owned(),
        };
        vec![
            Cell::new(&*self.application),
            Cell::new(with_port(self.destination, self.destination_port)),
            Cell::new(ip_protocol(self.ip_protocol)),
            Cell::new(with_port(self.source, self.source_port)),
            Cell::new(&*self.direction),
            Cell::new(state),
            Cell::new(peer),
            number(self.ip_distance.map_or("-".to_owned(), |hops| hops.to_string())),
            expires(self.refresh_in_s),
            expires(self.expires_in_s),
        ]
    }
}

impl Row for AssociationRow {
    const HEADER: &'static [&'static str] =
        &["peer", "by", "stage", "opened by", "this end", "other end", "used by", "heard", "said"];
    const NOTHING: &'static str = "there is no association";

    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::new(self.peer.map_or("-".to_owned(), |peer| peer.to_string())),
            Cell::new(match self.transport {
                Transport::Tcp => "TCP",
                Transport::Tls => "TLS",
            }),
            Cell::new(self.stage.replace('_', " ")),
            Cell::new(if self.is_ours { "this node" } else { "the peer" }),
            Cell::new(self.local),
            Cell::new(self.remote),
            number(self.uses),
            number(format!("{} ago", seconds(self.heard_s))),
            number(format!("{} ago", seconds(self.said_s))),
        ]
    }
}

fn state(state: &str) -> &str {
    match state {
        "idle" => "nothing",
        "wait_response" => "asking",
        "wait_association" => "connecting",
        "established_downstream" => "asked, stands",
        "wait_confirm" => "answered",
        "established_upstream" => "was asked, stands",
        other => other,
    }
}

impl Row for ApplicationRow {
    const HEADER: &'static [&'static str] = &[
        "id",
        "by",
        "role",
        "destination",
        "protocol",
        "style",
        "senders",
        "lasts",
        "outcome",
        "last event",
    ];
    const NOTHING: &'static str = "nothing was opened on this host";

    fn cells(&self) -> Vec<Cell> {
        vec![
            number(self.application),
            Cell::new(&self.protocol),
            Cell::new(match self.role {
                Role::Sender => "sender",
                Role::Receiver => "receiver",
                Role::Initiator => "initiator",
            }),
            Cell::new(with_port(self.destination, self.destination_port)),
            Cell::new(ip_protocol(self.ip_protocol)),
            Cell::new(self.style.map_or("-", StyleName::name)),
            Cell::new(match self.role {
                Role::Sender if self.senders.is_empty() => "this host".to_owned(),
                _ => senders(&self.senders),
            }),
            Cell::new(if self.held { "as long as its client" } else { "until released" }),
            Cell::new(&self.outcome),
            Cell::new(self.last.as_deref().unwrap_or("-")),
        ]
    }
}

/// Packets with their octets, such as `1200 (1.8 MB)`.
fn packets(count: u64, octets: u64) -> String {
    match count {
        0 => "0".to_owned(),
        count => format!("{count} ({})", show_octets(octets)),
    }
}

fn expires(seconds_left: Option<f64>) -> Cell {
    number(seconds_left.map_or("-".to_owned(), |left| format!("in {}", seconds(left))))
}

fn seconds(span: f64) -> String {
    Duration::try_from_secs_f64(span).map_or("-".to_owned(), show_duration)
}
