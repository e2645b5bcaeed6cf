//! Tables of the packet filter: pinholes and translations.

use comfy_table::Cell;
use earmark_control::text::{ip_protocol, with_port};
use earmark_control::{FilterSessionRow, PinholeRow, TranslationRow};
use earmark_core::{Endpoint, FilterAction};

use super::sort::SortKey;
use super::{Columns, Row, SortColumns, expires, number, text_or_dash};

impl Row for PinholeRow {
    const COLUMNS: Columns<PinholeRow> = &[
        ("action", |row| Cell::new(action(row.action))),
        ("protocol", |row| Cell::new(packets(row))),
        ("source", |row| Cell::new(source(row))),
        ("destination", |row| Cell::new(with_port(row.destination, row.destination_port))),
        ("translated to", |row| Cell::new(translated(row.new_source, row.new_destination))),
        ("role", |row| Cell::new(&*row.session.role)),
        ("state", |row| Cell::new(state(row))),
        ("application", |row| application(&row.session)),
        ("user", |row| Cell::new(text_or_dash(row.session.user.as_ref()))),
        ("expires", |row| expires(row.session.expires_in_s)),
    ];
    const SORT: SortColumns<PinholeRow> = &[
        ("to", |row| SortKey::Address(row.destination, row.destination_port)),
        ("from", |row| {
            SortKey::of(row.source, |address| SortKey::Address(address, row.source_port))
        }),
        ("state", |row| SortKey::text(&row.session.stage)),
        ("user", |row| SortKey::of(row.session.user.as_deref(), SortKey::text)),
        ("expires", |row| SortKey::of(row.session.expires_in_s, SortKey::number)),
    ];
    const NOTHING: &'static str =
        "no rule of a session; `earmark open` on a host asks for one on its path";
}

impl Row for TranslationRow {
    const COLUMNS: Columns<TranslationRow> = &[
        ("protocol", |row| Cell::new(protocol(row.ip_protocol))),
        ("internal", |row| Cell::new(row.internal)),
        ("external", |row| Cell::new(row.external)),
        ("from", |row| Cell::new(row.from.map_or("any".to_owned(), |from| from.to_string()))),
        ("action", |row| Cell::new(action(row.action))),
        ("role", |row| Cell::new(&*row.session.role)),
        ("state", |row| Cell::new(&*row.session.stage)),
        ("application", |row| application(&row.session)),
        ("user", |row| Cell::new(text_or_dash(row.session.user.as_ref()))),
        ("expires", |row| expires(row.session.expires_in_s)),
    ];
    const SORT: SortColumns<TranslationRow> = &[
        ("internal", |row| SortKey::Address(row.internal.address, row.internal.port)),
        ("external", |row| SortKey::Address(row.external.address, row.external.port)),
        ("state", |row| SortKey::text(&row.session.stage)),
        ("user", |row| SortKey::of(row.session.user.as_deref(), SortKey::text)),
        ("expires", |row| SortKey::of(row.session.expires_in_s, SortKey::number)),
    ];
    const NOTHING: &'static str = "no address is reserved; `earmark expose` on a host asks for one at the edge of its network";
}

fn action(action: FilterAction) -> &'static str {
    match action {
        FilterAction::Allow => "allow",
        FilterAction::Deny => "deny",
    }
}

fn protocol(number: u8) -> String {
    if number == 0 { "any".to_owned() } else { ip_protocol(number) }
}

/// IP protocol, with the SPI or the ICMP type of the packets.
fn packets(row: &PinholeRow) -> String {
    let protocol = protocol(row.ip_protocol);
    match (row.spi, row.icmp_type) {
        (Some(spi), _) => format!("{protocol} spi {spi:#x}"),
        (None, Some(kind)) => format!("{protocol} type {kind}"),
        (None, None) => protocol,
    }
}

fn source(row: &PinholeRow) -> String {
    match (row.source, row.source_port) {
        (Some(address), port) => with_port(address, port),
        (None, 0) => "any".to_owned(),
        (None, port) => format!("any, port {port}"),
    }
}

/// New source and new destination of the packets, one a line.
fn translated(source: Option<Endpoint>, destination: Option<Endpoint>) -> String {
    let source = source.map(|source| format!("from {source}"));
    let destination = destination.map(|destination| format!("to {destination}"));
    let lines: Vec<String> = source.into_iter().chain(destination).collect();
    if lines.is_empty() { "-".to_owned() } else { lines.join("\n") }
}

/// Whether the packet filter has the rule, and why not.
fn state(row: &PinholeRow) -> String {
    match (row.installed, &row.reason) {
        (true, _) if row.session.stage == "established" => "installed".to_owned(),
        (true, _) => format!("installed, {}", row.session.stage),
        (false, Some(reason)) => format!("{}: {reason}", row.session.stage),
        (false, None) => row.session.stage.to_string(),
    }
}

fn application(session: &FilterSessionRow) -> Cell {
    number(text_or_dash(session.application))
}
