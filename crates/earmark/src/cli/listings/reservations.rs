//! Table of reservations, and their order.

use comfy_table::Cell;
#[cfg(feature = "top")]
use earmark_control::command::Failure;
use earmark_control::text::{sender, with_port};
use earmark_control::{EnforcementRow, ReservationRow, SenderName, TrafficRow, UserRow};
use earmark_core::Rate;
use earmark_core::amounts::show_octets;

#[cfg(feature = "top")]
use super::of_router::OfRouter;
use super::sort::SortKey;
#[cfg(feature = "top")]
use super::sort::Sorted;
use super::{Columns, Row, SortColumns, data, expires, number, packets, seconds};
use crate::protocols::records_hops;

/// Reservations in the order of a column.
#[cfg(feature = "top")]
pub(in crate::cli) struct SortedReservations(Sorted<ReservationRow>);

#[cfg(feature = "top")]
impl SortedReservations {
    /// Creates an empty list that keeps the first `most` in the order of a column, with `-` for the largest first.
    ///
    /// # Errors
    /// There is no such column.
    pub(in crate::cli) fn by(column: &str, most: usize) -> Result<SortedReservations, Failure> {
        Sorted::by(&[column.to_owned()], Some(most), false).map(SortedReservations)
    }

    /// Adds a row.
    ///
    /// # Errors
    /// More are to be kept than can be.
    pub(in crate::cli) fn add(&mut self, row: ReservationRow) -> Result<(), Failure> {
        self.0.add(OfRouter { router: None, row })
    }

    /// Returns the rows in their order.
    pub(in crate::cli) fn finish(self) -> Vec<ReservationRow> {
        self.0.finish().0.into_iter().map(|row| row.row).collect()
    }
}

/// Checks a column to sort reservations by, with `-` for the largest first.
///
/// # Errors
/// There is no such column.
#[cfg(feature = "top")]
pub(in crate::cli) fn check_reservation_sort(column: &str) -> Result<(), Failure> {
    SortedReservations::by(column, 0).map(drop)
}

/// Returns the column after another one, in the same direction.
#[cfg(feature = "top")]
pub(in crate::cli) fn next_reservation_sort(column: &str) -> String {
    let (sign, name) = column.strip_prefix('-').map_or(("", column), |name| ("-", name));
    let columns = ReservationRow::SORT;
    let at = columns.iter().position(|(known, _)| *known == name).unwrap_or(0);
    format!("{sign}{}", columns[(at + 1) % columns.len()].0)
}

impl Row for ReservationRow {
    const COLUMNS: Columns<ReservationRow> = &[
        ("by", |row| Cell::new(&*row.protocol)),
        ("destination", |row| Cell::new(with_port(row.destination, row.destination_port))),
        ("protocol", |row| Cell::new(data(row.ip_protocol, row.dscp))),
        ("source", |row| Cell::new(senders(&row.senders))),
        ("style", |row| Cell::new(&*row.style)),
        ("service", |row| Cell::new(&*row.service)),
        ("user", |row| Cell::new(user(row.user.as_ref()))),
        ("rate", |row| number(Rate::from_bps(row.rate_bps))),
        ("burst", |row| number(show_octets(row.burst_octets.into()))),
        ("link", |row| Cell::new(row.interface.as_deref().unwrap_or("this host"))),
        ("next hop", |row| {
            Cell::new(match row.next_hop {
                Some(hop) => hop.to_string(),
                None if !records_hops(&row.protocol) => "-".to_owned(),
                None => "this host".to_owned(),
            })
        }),
        ("age", |row| number(row.age_s.map_or("-".to_owned(), seconds))),
        ("expires", |row| expires(row.expires_in_s)),
        ("enforced", |row| Cell::new(enforced(row.enforcement.as_ref()))),
        ("sent", |row| traffic(row, |t| packets(t.packets, t.octets))),
        ("dropped", |row| traffic(row, |t| t.drops.to_string())),
        ("queued", |row| {
            traffic(row, |t| packets(t.backlog_packets.into(), t.backlog_octets.into()))
        }),
    ];
    const SORT: SortColumns<ReservationRow> = &[
        ("by", |row| SortKey::text(&row.protocol)),
        ("to", |row| SortKey::Address(row.destination, row.destination_port)),
        ("from", |row| {
            SortKey::of(row.senders.first(), |it| SortKey::Address(it.address, it.port))
        }),
        ("protocol", |row| SortKey::number(row.ip_protocol)),
        ("user", |row| SortKey::of(row.user.as_ref(), |user| SortKey::text(&user.name))),
        ("rate", |row| SortKey::count(row.rate_bps)),
        ("burst", |row| SortKey::number(row.burst_octets)),
        ("link", |row| SortKey::of(row.interface.as_deref(), SortKey::text)),
        ("age", |row| SortKey::of(row.age_s, SortKey::number)),
        ("expires", |row| SortKey::of(row.expires_in_s, SortKey::number)),
        ("sent", |row| SortKey::of(row.traffic, |traffic| SortKey::count(traffic.octets))),
        ("dropped", |row| SortKey::of(row.traffic, |traffic| SortKey::count(traffic.drops))),
        ("queued", |row| SortKey::of(row.traffic, |it| SortKey::number(it.backlog_octets))),
    ];
    const NOTHING: &'static str = "nothing is reserved";
}

fn traffic(row: &ReservationRow, show: fn(TrafficRow) -> String) -> Cell {
    number(row.traffic.map_or("-".to_owned(), show))
}

/// Name of the user, and whether it is proven.
fn user(user: Option<&UserRow>) -> String {
    user.map_or("-".to_owned(), |UserRow { name, proof }| format!("{name}\n{proof}"))
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

/// Senders that share a reservation, one a line.
pub(crate) fn senders(senders: &[SenderName]) -> String {
    if senders.is_empty() {
        return "all".to_owned();
    }
    senders.iter().map(sender).collect::<Vec<_>>().join("\n")
}
