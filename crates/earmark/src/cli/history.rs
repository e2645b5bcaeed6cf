//! `earmark history` and `earmark usage`: the accounting records that a daemon has written.

mod options;

use comfy_table::Cell;
use earmark_control::SenderName;
use earmark_control::command::{Failure, Output};
use earmark_control::text::{ip_protocol, sender};
use earmark_core::Rate;
use earmark_core::amounts::show_octets;
use earmark_history::query::{self, By, Filter, HistoryRow, UsageRow};
use earmark_history::{Database, DatabaseError};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::Serialize;
use serde_json::Value;

use super::outcome::Outcome;
use super::table::{new_table, number};
use options::{DEFAULT_DATABASE, Select, SumBy};

pub(crate) use options::{HistoryOptions, UsageOptions};

fn open(select: &Select) -> Result<Database, Failure> {
    let path = select.database.clone().unwrap_or_else(|| DEFAULT_DATABASE.into());
    Database::open_to_read(&path).map_err(|error| failure(&error))
}

fn failure(error: &DatabaseError) -> Failure {
    let hint = match error {
        DatabaseError::Sqlite { .. } => {
            "root and the group of `control.group` may read it; --database names another"
        }
        DatabaseError::Missing(_) => {
            "--database names another; `earmarkd config check` shows what the daemon uses"
        }
        DatabaseError::NewerSchema { .. } | DatabaseError::Foreign(_) => "--database names another",
    };
    Failure::new("database", earmark_control::command::with_cause(error), hint)
}

/// A record as it is printed for programs.
#[derive(Serialize)]
struct Printed {
    id: i64,
    node: String,
    protocol: String,
    link: String,
    destination: String,
    destination_port: i64,
    ip_protocol: i64,
    dscp: Option<i64>,
    senders: Value,
    user: Option<String>,
    proof: Option<String>,
    rate_bps: i64,
    begun: String,
    seen: String,
    ended: Option<String>,
    end_reason: Option<String>,
    octets: i64,
    packets: i64,
    drops: i64,
    reserved_octets: i64,
}

const COLUMNS: [&str; 20] = [
    "id",
    "node",
    "protocol",
    "link",
    "destination",
    "destination_port",
    "ip_protocol",
    "dscp",
    "senders",
    "user",
    "proof",
    "rate_bps",
    "begun",
    "seen",
    "ended",
    "end_reason",
    "octets",
    "packets",
    "drops",
    "reserved_octets",
];

fn time(ms: i64) -> Timestamp {
    Timestamp::from_millisecond(ms).unwrap_or_default()
}

impl From<HistoryRow> for Printed {
    fn from(row: HistoryRow) -> Printed {
        let some = |text: String| (!text.is_empty()).then_some(text);
        Printed {
            id: row.id,
            node: row.node,
            protocol: row.protocol,
            link: row.link,
            destination: row.destination,
            destination_port: row.destination_port,
            ip_protocol: row.ip_protocol,
            dscp: row.dscp,
            senders: serde_json::from_str(&row.senders).unwrap_or_default(),
            user: some(row.user),
            proof: some(row.proof),
            rate_bps: row.rate_bps,
            begun: time(row.begun_ms).to_string(),
            seen: time(row.seen_ms).to_string(),
            ended: row.ended_ms.map(|ms| time(ms).to_string()),
            end_reason: row.end_reason,
            octets: row.octets,
            packets: row.packets,
            drops: row.drops,
            reserved_octets: row.reserved_octets,
        }
    }
}

/// Prints the reservations of the records.
pub(crate) fn history(options: &HistoryOptions, out: &mut Output) -> Result<Outcome, Failure> {
    let database = open(&options.select)?;
    let filter = Filter {
        to: options.to.map(|to| to.to_string()),
        reason: options.reason.clone(),
        open: options.open,
        ..options.select.filter()
    };
    let more = if options.csv {
        print_csv(&database, &filter, options.limit, out)?
    } else {
        let mut rows = Vec::new();
        let more = select(&database, &filter, options.limit, |row| {
            rows.push(row);
            true
        })?;
        match out.json {
            true => out.line("", &rows.into_iter().map(Printed::from).collect::<Vec<_>>())?,
            false => out.line(&table(&rows), &())?,
        }
        more
    };
    if more {
        eprintln!("earmark: there are more records; --limit N shows them");
    }
    warn_of_gaps(&database)?;
    Ok(Outcome::Done)
}

/// Passes the first records of a filter to `each`, until it returns `false`. Returns whether there are more than `limit`.
fn select(
    database: &Database,
    filter: &Filter,
    limit: usize,
    mut each: impl FnMut(HistoryRow) -> bool,
) -> Result<bool, Failure> {
    let (mut count, mut more) = (0, false);
    query::reservations(database, filter, |row| {
        more = count == limit;
        count += 1;
        !more && each(row)
    })
    .map_err(|error| failure(&error))?;
    Ok(more)
}

/// Prints records as CSV, each as it is read. Returns whether there are more.
fn print_csv(
    database: &Database,
    filter: &Filter,
    limit: usize,
    out: &mut Output,
) -> Result<bool, Failure> {
    let mut csv = csv_writer(&mut out.to, &COLUMNS)?;
    let mut written = Ok(());
    let more = select(database, filter, limit, |row| {
        written = csv.write_record(csv_fields(row));
        written.is_ok()
    })?;
    written.map_err(csv_failure)?;
    csv.flush()?;
    Ok(more)
}

/// Prints the use of reservations.
pub(crate) fn usage(options: &UsageOptions, out: &mut Output) -> Result<Outcome, Failure> {
    let database = open(&options.select)?;
    let by = match options.by {
        SumBy::User => By::User,
        SumBy::Link => By::Link,
        SumBy::Protocol => By::Protocol,
        SumBy::Node => By::Node,
        SumBy::Hour => By::Hour,
    };
    let mut rows =
        query::usage(&database, by, &options.select.filter()).map_err(|error| failure(&error))?;
    if by == By::Hour {
        for row in &mut rows {
            row.key = time(row.key.parse().unwrap_or_default()).to_string();
        }
    }
    if options.csv {
        let header = ["key", "detail", "begun", "octets", "packets", "drops", "reserved_octets"];
        let mut csv = csv_writer(&mut out.to, &header)?;
        for UsageRow { key, detail, begun, octets, packets, drops, reserved_octets } in rows {
            let numbers = [begun, octets, packets, drops, reserved_octets];
            let fields = [key, detail].into_iter().chain(numbers.map(|number| number.to_string()));
            csv.write_record(fields).map_err(csv_failure)?;
        }
        csv.flush()?;
    } else {
        out.line(&usage_table(by, &rows), &rows)?;
    }
    warn_of_gaps(&database)?;
    Ok(Outcome::Done)
}

/// Says if records were lost, because what is shown is then too little.
fn warn_of_gaps(database: &Database) -> Result<(), Failure> {
    for (node, records, at_ms) in query::lost(database).map_err(|error| failure(&error))? {
        eprintln!(
            "earmark: {records} records of {node} were lost, the last before {}",
            time(at_ms)
        );
    }
    Ok(())
}

fn csv_writer<W: std::io::Write>(to: W, header: &[&str]) -> Result<csv::Writer<W>, Failure> {
    let mut csv = csv::Writer::from_writer(to);
    csv.write_record(header).map_err(csv_failure)?;
    Ok(csv)
}

fn csv_failure(error: csv::Error) -> Failure {
    match error.into_kind() {
        csv::ErrorKind::Io(error) => error.into(),
        other => Failure::new("input_output", format!("{other:?}"), ""),
    }
}

fn csv_fields(row: HistoryRow) -> Vec<String> {
    let senders = senders(&row);
    let number = |number: Option<i64>| number.map(|number| number.to_string()).unwrap_or_default();
    vec![
        row.id.to_string(),
        row.node,
        row.protocol,
        row.link,
        row.destination,
        row.destination_port.to_string(),
        row.ip_protocol.to_string(),
        number(row.dscp),
        senders,
        row.user,
        row.proof,
        row.rate_bps.to_string(),
        time(row.begun_ms).to_string(),
        time(row.seen_ms).to_string(),
        row.ended_ms.map(|ms| time(ms).to_string()).unwrap_or_default(),
        row.end_reason.unwrap_or_default(),
        row.octets.to_string(),
        row.packets.to_string(),
        row.drops.to_string(),
        row.reserved_octets.to_string(),
    ]
}

/// Formats the senders of a record; empty for all senders.
fn senders(row: &HistoryRow) -> String {
    let senders: Vec<SenderName> = serde_json::from_str(&row.senders).unwrap_or_default();
    senders.iter().map(sender).collect::<Vec<_>>().join(" ")
}

fn table(rows: &[HistoryRow]) -> String {
    let mut table = new_table(&[
        "begun", "ended", "why", "protocol", "link", "from", "to", "data", "user", "rate",
        "octets", "packets", "drops",
    ]);
    for row in rows {
        let all = senders(row);
        let user = match row.proof.as_str() {
            "claimed" => format!("{} (claimed)", row.user),
            _ => row.user.clone(),
        };
        let to = match row.destination.parse() {
            Ok(address) => earmark_control::text::with_port(address, port(row.destination_port)),
            Err(_) => row.destination.clone(),
        };
        let data = u8::try_from(row.ip_protocol).map(ip_protocol);
        table.add_row([
            Cell::new(local(row.begun_ms)),
            Cell::new(row.ended_ms.map_or("stands".to_owned(), local)),
            Cell::new(row.end_reason.clone().unwrap_or_default()),
            Cell::new(&row.protocol),
            Cell::new(&row.link),
            Cell::new(if all.is_empty() { "all senders".to_owned() } else { all }),
            Cell::new(to),
            Cell::new(data.map(|data| data.to_string()).unwrap_or_default()),
            Cell::new(user),
            number(Rate::from_bps(row.rate_bps.unsigned_abs())),
            number(show_octets(row.octets.unsigned_abs())),
            number(row.packets),
            number(row.drops),
        ]);
    }
    table.to_string()
}

fn port(number: i64) -> u16 {
    u16::try_from(number).unwrap_or_default()
}

/// Formats a time in the zone of this host.
fn local(ms: i64) -> String {
    time(ms).to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

fn usage_table(by: By, rows: &[UsageRow]) -> String {
    let (key, detail) = match by {
        By::User => ("user", Some("proof")),
        By::Link => ("link", Some("node")),
        By::Protocol => ("protocol", None),
        By::Node => ("node", None),
        By::Hour => ("hour", None),
    };
    let numbers = ["reservations begun", "octets", "packets", "drops", "reserved octets", "used"];
    let header: Vec<&str> = [key].into_iter().chain(detail).chain(numbers).collect();
    let mut table = new_table(&header);
    for row in rows {
        let share = match row.reserved_octets {
            1.. => format!("{:.1} %", row.octets as f64 * 100.0 / row.reserved_octets as f64),
            _ => "-".to_owned(),
        };
        let nobody = by == By::User && row.key.is_empty();
        let key = if nobody { "(no name)" } else { &row.key };
        let names = [key.to_owned()].into_iter().chain(detail.map(|_| row.detail.clone()));
        let cells = names.map(Cell::new).chain([
            number(row.begun),
            number(show_octets(row.octets.unsigned_abs())),
            number(row.packets),
            number(row.drops),
            number(show_octets(row.reserved_octets.unsigned_abs())),
            number(share),
        ]);
        table.add_row(cells.collect::<Vec<_>>());
    }
    table.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_is_a_row_for_people_and_for_tables() {
        let row = HistoryRow {
            id: 7,
            node: "r1".into(),
            protocol: "other".into(),
            link: "eth1".into(),
            destination: "10.0.2.2".into(),
            destination_port: 5_001,
            ip_protocol: 17,
            dscp: None,
            senders: r#"[{"address":"10.0.1.1","port":4000}]"#.into(),
            user: "alice".into(),
            proof: "claimed".into(),
            rate_bps: 2_000_000,
            begun_ms: 1_000,
            seen_ms: 60_000,
            ended_ms: Some(61_000),
            end_reason: Some("torn_down".into()),
            octets: 12_500_000,
            packets: 10_000,
            drops: 3,
            reserved_octets: 15_000_000,
        };
        let text = table(std::slice::from_ref(&row));
        for cell in ["10.0.1.1:4000", "10.0.2.2:5001", "alice (claimed)", "12.5 MB", "torn_down"] {
            assert!(text.contains(cell), "{cell} is missing:\n{text}");
        }
        let fields = csv_fields(row.clone());
        assert_eq!(fields.len(), COLUMNS.len());
        assert_eq!(
            fields[12..15],
            ["1970-01-01T00:00:01Z", "1970-01-01T00:01:00Z", "1970-01-01T00:01:01Z"]
        );
        let json = serde_json::to_value(Printed::from(row)).expect("an object");
        let members: Vec<&str> =
            json.as_object().expect("an object").keys().map(String::as_str).collect();
        assert_eq!(members, COLUMNS);
        assert_eq!(json["senders"][0]["port"], 4_000);
    }
}
