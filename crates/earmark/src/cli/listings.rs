//! `earmark show`: tables for people, JSON arrays for programs.

mod detail;
mod of_router;
mod packet_filter;
mod pages;
mod print;
mod reservations;
mod sort;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use comfy_table::Cell;
use earmark_core::{Rate, Transport};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use self::of_router::OfRouter;
use self::pages::Pages;
use self::print::Printer;
#[cfg(feature = "top")]
pub(super) use self::reservations::{
    SortedReservations, check_reservation_sort, next_reservation_sort,
};
pub(crate) use self::reservations::{enforced, senders};
use self::sort::{SortKey, Sorted};
use super::arguments::{ListingOptions, What};
use super::outcome::Outcome;
use super::routers::router::Router;
use super::table::{new_table, number};
use crate::protocols::records_hops;
use earmark_control::Client;
use earmark_control::command::{Failure, Output};
use earmark_control::text::{ip_protocol, sender, with_port};
use earmark_control::{
    AdmissionRow, AggregateRow, ApplicationRow, AssociationRow, LinkRow, Listing, NeighborRow,
    PinholeRow, ReservationRow, Role, RoutingStateRow, SenderName, SessionRow, Show, StyleName,
    TranslationRow,
};
use earmark_core::amounts::{show_duration, show_octets};

/// Requests a listing and prints it.
pub(crate) fn show(
    client: &mut Client,
    what: What,
    limit: Option<usize>,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let (what, options) = what.parts();
    if what == Listing::Counters {
        return print_counters(client, out);
    }
    print(&mut Pages::OfDaemon(client), what, &options, limit, out)
}

/// Requests a listing of all routers and prints it as one. A failure of a router is passed to `failed`.
pub(super) fn show_all(
    routers: &[Router],
    what: &What,
    limit: Option<usize>,
    out: &mut Output,
    failed: &mut dyn FnMut(&Router, Failure),
) -> Result<Outcome, Failure> {
    let (what, options) = what.clone().parts();
    print(&mut Pages::OfRouters { routers, failed }, what, &options, limit, out)
}

fn print(
    pages: &mut Pages<'_>,
    what: Listing,
    options: &ListingOptions,
    limit: Option<usize>,
    out: &mut Output,
) -> Result<Outcome, Failure> {
    let mut listing = Request { pages, what, options, limit, out };
    match what {
        Listing::Sessions => listing.print::<SessionRow>(),
        Listing::Reservations => listing.print::<ReservationRow>(),
        Listing::Links => listing.print::<LinkRow>(),
        Listing::Neighbors => listing.print::<NeighborRow>(),
        Listing::Aggregates => listing.print::<AggregateRow>(),
        Listing::RoutingState => listing.print::<RoutingStateRow>(),
        Listing::Associations => listing.print::<AssociationRow>(),
        Listing::Pinholes => listing.print::<PinholeRow>(),
        Listing::Translations => listing.print::<TranslationRow>(),
        Listing::Applications => listing.print::<ApplicationRow>(),
        // Counters are no rows, and have been printed.
        Listing::Counters => Ok(Outcome::Done),
    }
}

/// Time after which a listing without output reports its progress.
const PROGRESS: Duration = Duration::from_secs(2);

struct Request<'a, 'b> {
    pages: &'a mut Pages<'b>,
    what: Listing,
    options: &'a ListingOptions,
    limit: Option<usize>,
    out: &'a mut Output,
}

impl Request<'_, '_> {
    fn print<T: Row>(&mut self) -> Result<Outcome, Failure> {
        let Request { pages, what, options, limit, out } = self;
        let (is_sorted, has_routers) = (!options.sort.is_empty(), pages.router_width().is_some());
        let mut sorted = Sorted::by(&options.sort, *limit, has_routers)?;
        let mut printer = Printer::new(out, options.detail, pages.router_width());
        let filter = options.filter.clone().into();
        let show = Show { limit: limit.filter(|_| !is_sorted), filter, ..Show::new(*what) };
        let (mut examined, mut reported_at) = (0, Instant::now());
        // Only the last page of a router says whether the listing has more rows.
        let mut has_more = BTreeMap::new();
        let mut is_cut = false;
        let mut left = limit.unwrap_or(usize::MAX);
        let is_answered = pages.each::<T>(&show, |router, page| {
            has_more.insert(router.cloned(), page.more);
            examined += page.examined.unwrap_or_default();
            let rows = page.rows.into_iter().map(|row| OfRouter { router: router.cloned(), row });
            if is_sorted {
                rows.into_iter().try_for_each(|row| sorted.add(row))?;
            } else {
                // Each router has sent as many rows as are printed of all together.
                let count = rows.len();
                is_cut |= count > left;
                printer.page(rows.take(left).collect())?;
                left = left.saturating_sub(count);
            }
            if !printer.has_begun() && reported_at.elapsed() >= PROGRESS {
                eprintln!("earmark: {examined} entries examined so far");
                reported_at = Instant::now();
            }
            Ok(())
        })?;
        if is_sorted {
            let (rows, is_sorted_cut) = sorted.finish();
            is_cut |= is_sorted_cut;
            printer.page(rows)?;
        }
        printer.finish()?;
        if is_cut || has_more.values().any(|more| *more) {
            eprintln!("earmark: there are more rows; a larger --limit shows them");
        }
        Ok(if is_answered { Outcome::Done } else { Outcome::Failed })
    }
}

fn print_counters(client: &mut Client, out: &mut Output) -> Result<Outcome, Failure> {
    let counters = client.show_counters()?;
    let mut rows = Vec::new();
    for (part, counts) in counters.as_object().into_iter().flatten() {
        flatten(part, "", counts, &mut rows);
    }
    let mut table = new_table(&["protocol", "counter", "count"]);
    for (part, name, count) in rows {
        table.add_row([Cell::new(part), Cell::new(name), number(count)]);
    }
    out.line(&table.to_string(), &counters)?;
    Ok(Outcome::Done)
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

/// Columns of a table: the header of each, and its cell of a row.
type Columns<R> = &'static [(&'static str, fn(&R) -> Cell)];

/// Columns to sort by: the name of each, and its value of a row.
type SortColumns<R> = &'static [(&'static str, fn(&R) -> SortKey)];

/// A row of a table.
trait Row: Serialize + DeserializeOwned + Send + 'static {
    const COLUMNS: Columns<Self>;
    /// Columns that the listing can be sorted by.
    const SORT: SortColumns<Self>;
    /// Text printed instead of a table without rows.
    const NOTHING: &'static str;
}

impl Row for SessionRow {
    const COLUMNS: Columns<SessionRow> = &[
        ("by", |row| Cell::new(&*row.protocol)),
        ("destination", |row| {
            Cell::new(in_range(row, with_port(row.destination, row.destination_port), 1))
        }),
        ("protocol", |row| Cell::new(data(row.ip_protocol, row.dscp))),
        ("source", |row| {
            let SessionRow { source: address, source_port: port, flow_label, spi, .. } = *row;
            Cell::new(in_range(row, sender(&SenderName { address, port, flow_label, spi }), 0))
        }),
        ("rate", |row| {
            let rate = Rate::from_bps(row.rate_bps);
            number(match row.reverse_bps {
                Some(back) => format!("{rate}\n{} back", Rate::from_bps(back)),
                None => rate.to_string(),
            })
        }),
        ("burst", |row| number(show_octets(row.burst_octets.into()))),
        ("from", |row| {
            Cell::new(match (&row.previous_hop, &row.incoming) {
                (Some(hop), Some(interface)) => format!("{hop} ({interface})"),
                (Some(hop), None) => hop.to_string(),
                (None, _) if !records_hops(&row.protocol) => "-".to_owned(),
                (None, _) => "this host".to_owned(),
            })
        }),
        ("to", |row| Cell::new(outgoing(&row.outgoing, row.here))),
        ("hops", |row| number(text_or_dash(row.hops))),
        ("reserved", |row| {
            Cell::new(match (row.reserved, row.waiting) {
                (true, false) => "yes",
                (true, true) => "in part",
                (false, true) => "waits",
                (false, false) => "no",
            })
        }),
        ("expires", |row| expires(row.expires_in_s)),
    ];
    const SORT: SortColumns<SessionRow> = &[
        ("by", |row| SortKey::text(&row.protocol)),
        ("to", |row| SortKey::Address(row.destination, row.destination_port)),
        ("from", |row| SortKey::Address(row.source, row.source_port)),
        ("protocol", |row| SortKey::number(row.ip_protocol)),
        ("rate", |row| SortKey::count(row.rate_bps)),
        ("burst", |row| SortKey::number(row.burst_octets)),
        ("hops", |row| SortKey::of(row.hops, SortKey::number)),
        ("expires", |row| SortKey::of(row.expires_in_s, SortKey::number)),
    ];
    const NOTHING: &'static str = "no flow is announced";
}

/// Returns the IP protocol of the data, or the DSCP of an aggregate.
fn data(protocol: u8, dscp: Option<u8>) -> String {
    dscp.map_or_else(|| ip_protocol(protocol), |dscp| format!("dscp {dscp}"))
}

/// Appends the prefix length of an end, if the session is for a range.
fn in_range(row: &SessionRow, text: String, end: usize) -> String {
    match row.prefix_lengths {
        Some(lengths) => format!("{text}/{}", lengths[end]),
        None => text,
    }
}

/// Outgoing interfaces, one a line, and this host if the data ends here.
fn outgoing(interfaces: &[String], here: bool) -> String {
    let mut lines: Vec<&str> = interfaces.iter().map(String::as_str).collect();
    if here {
        lines.push("this host");
    }
    lines.join("\n")
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
    const COLUMNS: Columns<LinkRow> = &[
        ("link", |row| Cell::new(&row.interface)),
        ("state", |row| Cell::new(row.state.name())),
        ("address", |row| {
            let addresses: Vec<String> = row.addresses.iter().map(ToString::to_string).collect();
            Cell::new(addresses.join("\n"))
        }),
        ("bandwidth", |row| number(row.bandwidth_bps)),
        ("reservable", |row| number(row.reservable_bps)),
        ("reserved", |row| number(reserved(row))),
        ("reservations", |row| number(row.claims)),
        ("adopted", |row| number(row.adopted)),
    ];
    const SORT: SortColumns<LinkRow> = &[
        ("link", |row| SortKey::text(&row.interface)),
        ("state", |row| SortKey::text(row.state.name())),
        ("bandwidth", |row| SortKey::count(row.bandwidth_bps.as_bps())),
        ("reservable", |row| SortKey::count(row.reservable_bps.as_bps())),
        ("reserved", |row| SortKey::count(row.held_bps.as_bps())),
        ("reservations", |row| SortKey::number(row.claims)),
    ];
    const NOTHING: &'static str =
        "no interface takes part; name them in the daemon's configuration";
}

impl Row for NeighborRow {
    const COLUMNS: Columns<NeighborRow> = &[
        ("neighbor", |row| Cell::new(row.address)),
        ("protocol", |row| Cell::new(&row.protocol)),
        ("link", |row| Cell::new(&row.interface)),
        ("senders", |row| number(row.senders)),
        ("reservations", |row| number(row.reservations)),
        ("in summaries", |row| match &row.reduction {
            Some(reduction) => number(reduction.summarized),
            None => Cell::new("-"),
        }),
        ("hello", |row| match (row.hello.as_deref(), row.kept_s) {
            (Some(hello), Some(kept_s)) => Cell::new(format!("{hello}, {kept_s:.0} s left")),
            (hello, _) => Cell::new(hello.unwrap_or("-")),
        }),
        ("tolerated", |row| match row.tolerated.is_empty() {
            true => Cell::new("-"),
            false => Cell::new(row.tolerated.join(", ")),
        }),
        ("received", |row| ago(row.heard_s)),
    ];
    const SORT: SortColumns<NeighborRow> = &[
        ("neighbor", |row| SortKey::Address(row.address, 0)),
        ("protocol", |row| SortKey::text(&row.protocol)),
        ("link", |row| SortKey::text(&row.interface)),
        ("senders", |row| SortKey::count(row.senders as u64)),
        ("reservations", |row| SortKey::count(row.reservations as u64)),
        ("received", |row| SortKey::number(row.heard_s)),
    ];
    const NOTHING: &'static str = "no neighbor is known";
}

impl Row for AggregateRow {
    const COLUMNS: Columns<AggregateRow> = &[
        ("protocol", |row| Cell::new(&row.protocol)),
        ("range", |row| Cell::new(row.range)),
        ("far edge", |row| Cell::new(text_or_dash(row.to))),
        ("link", |row| Cell::new(row.interface.as_deref().unwrap_or("-"))),
        ("members", |row| number(row.members)),
        ("needed", |row| number(row.need_bps)),
        ("granted", |row| number(row.granted_bps)),
        ("waiting", |row| number(row.waiting)),
        ("state", |row| Cell::new(if row.failing { "failing" } else { "fine" })),
    ];
    const SORT: SortColumns<AggregateRow> = &[
        ("protocol", |row| SortKey::text(&row.protocol)),
        ("range", |row| SortKey::Address(row.range.address(), 0)),
        ("link", |row| SortKey::of(row.interface.as_deref(), SortKey::text)),
        ("members", |row| SortKey::number(row.members)),
        ("needed", |row| SortKey::count(row.need_bps.as_bps())),
        ("granted", |row| SortKey::count(row.granted_bps.as_bps())),
        ("waiting", |row| SortKey::number(row.waiting)),
    ];
    const NOTHING: &'static str = "no aggregate is configured";
}

impl Row for RoutingStateRow {
    const COLUMNS: Columns<RoutingStateRow> = &[
        ("application", |row| Cell::new(&*row.application)),
        ("destination", |row| Cell::new(with_port(row.destination, row.destination_port))),
        ("protocol", |row| Cell::new(ip_protocol(row.ip_protocol))),
        ("source", |row| Cell::new(with_port(row.source, row.source_port))),
        ("direction", |row| Cell::new(&*row.direction)),
        ("state", |row| {
            let state = row.state.replace('_', " ");
            Cell::new(match &*row.validity {
                "tentative" => format!("{state}, tentative"),
                _ => state,
            })
        }),
        ("peer", |row| {
            Cell::new(match (row.peer, &row.interface) {
                (Some(peer), Some(interface)) => format!("{peer} ({interface})"),
                (Some(peer), None) => peer.to_string(),
                (None, _) => "-".to_owned(),
            })
        }),
        ("hops", |row| number(text_or_dash(row.ip_distance))),
        ("refresh", |row| expires(row.refresh_in_s)),
        ("expires", |row| expires(row.expires_in_s)),
    ];
    const SORT: SortColumns<RoutingStateRow> = &[
        ("to", |row| SortKey::Address(row.destination, row.destination_port)),
        ("from", |row| SortKey::Address(row.source, row.source_port)),
        ("state", |row| SortKey::text(&row.state)),
        ("peer", |row| SortKey::of(row.peer, |peer| SortKey::Address(peer, 0))),
        ("expires", |row| SortKey::of(row.expires_in_s, SortKey::number)),
    ];
    const NOTHING: &'static str = "no routing state";
}

impl Row for AssociationRow {
    const COLUMNS: Columns<AssociationRow> = &[
        ("peer", |row| Cell::new(text_or_dash(row.peer))),
        ("by", |row| {
            Cell::new(match row.transport {
                Transport::Tcp => "TCP",
                Transport::Tls => "TLS",
            })
        }),
        ("stage", |row| Cell::new(row.stage.replace('_', " "))),
        ("opened by", |row| Cell::new(if row.is_ours { "this node" } else { "the peer" })),
        ("this end", |row| Cell::new(row.local)),
        ("other end", |row| Cell::new(row.remote)),
        ("used by", |row| number(row.uses)),
        ("received", |row| ago(row.heard_s)),
        ("sent", |row| ago(row.said_s)),
    ];
    const SORT: SortColumns<AssociationRow> = &[
        ("peer", |row| SortKey::of(row.peer, |peer| SortKey::Address(peer, 0))),
        ("stage", |row| SortKey::text(&row.stage)),
        ("used", |row| SortKey::number(row.uses)),
        ("received", |row| SortKey::number(row.heard_s)),
        ("sent", |row| SortKey::number(row.said_s)),
    ];
    const NOTHING: &'static str = "no association";
}

impl Row for ApplicationRow {
    const COLUMNS: Columns<ApplicationRow> = &[
        ("id", |row| number(row.application)),
        ("by", |row| Cell::new(&row.protocol)),
        ("role", |row| {
            Cell::new(match row.role {
                Role::Sender => "sender",
                Role::Receiver => "receiver",
                Role::Initiator => "initiator",
            })
        }),
        ("destination", |row| Cell::new(with_port(row.destination, row.destination_port))),
        ("protocol", |row| Cell::new(ip_protocol(row.ip_protocol))),
        ("style", |row| Cell::new(row.style.map_or("-", StyleName::name))),
        ("senders", |row| {
            Cell::new(match row.role {
                Role::Sender if row.senders.is_empty() => "this host".to_owned(),
                _ => senders(&row.senders),
            })
        }),
        ("lasts", |row| {
            Cell::new(if row.held { "as long as its client" } else { "until released" })
        }),
        ("outcome", |row| Cell::new(&row.outcome)),
        ("last event", |row| Cell::new(row.last.as_deref().unwrap_or("-"))),
    ];
    const SORT: SortColumns<ApplicationRow> = &[
        ("id", |row| SortKey::count(row.application.0)),
        ("by", |row| SortKey::text(&row.protocol)),
        ("to", |row| SortKey::Address(row.destination, row.destination_port)),
    ];
    const NOTHING: &'static str = "nothing was opened on this host";
}

/// Packets with their octets, such as `1200 (1.8 MB)`.
fn packets(count: u64, octets: u64) -> String {
    match count {
        0 => "0".to_owned(),
        count => format!("{count} ({})", show_octets(octets)),
    }
}

/// A value as text; a dash without a value.
fn text_or_dash(value: Option<impl ToString>) -> String {
    value.map_or("-".to_owned(), |value| value.to_string())
}

fn ago(span: f64) -> Cell {
    number(format!("{} ago", seconds(span)))
}

fn expires(seconds_left: Option<f64>) -> Cell {
    number(expires_text(seconds_left))
}

/// Formats the time until a row expires.
pub(super) fn expires_text(seconds_left: Option<f64>) -> String {
    seconds_left.map_or_else(|| "-".to_owned(), |left| format!("in {}", seconds(left)))
}

/// Formats a time in seconds: `12.3 s`, `2 min 37 s`, `3 h 5 min`, `2 d 4 h`.
fn seconds(span: f64) -> String {
    let Ok(span) = Duration::try_from_secs_f64(span) else { return "-".to_owned() };
    let whole = span.as_secs();
    match whole {
        0..60 => show_duration(span),
        60..3_600 => format!("{} min {} s", whole / 60, whole % 60),
        3_600..86_400 => format!("{} h {} min", whole / 3_600, whole % 3_600 / 60),
        _ => format!("{} d {} h", whole / 86_400, whole % 86_400 / 3_600),
    }
}
