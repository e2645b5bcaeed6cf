//! Queries of the accounting records.

use rusqlite::types::Value;
use rusqlite::{Row, params_from_iter};
use serde::Serialize;

use crate::database::{Database, DatabaseError};

/// Which reservations a query is about; `None` and empty members select all.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Reservations that stood at this time or later.
    pub since_ms: Option<i64>,
    /// Reservations that had begun before this time.
    pub until_ms: Option<i64>,
    /// Name of the user.
    pub user: Option<String>,
    /// Name of the interface.
    pub link: Option<String>,
    /// Name of the protocol.
    pub protocol: Option<String>,
    /// Destination address, as text.
    pub to: Option<String>,
    /// Name of the node.
    pub node: Option<String>,
    /// Why it ended.
    pub reason: Option<String>,
    /// Only those that still stand.
    pub open: bool,
}

/// A reservation in the records.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HistoryRow {
    /// Number in this database.
    pub id: i64,
    /// Name of the node.
    pub node: String,
    /// Name of the protocol.
    pub protocol: String,
    /// Name of the interface.
    pub link: String,
    /// Destination address.
    pub destination: String,
    /// Destination port.
    pub destination_port: i64,
    /// IP protocol of the data.
    pub ip_protocol: i64,
    /// DSCP of the data, if it is an aggregate.
    pub dscp: Option<i64>,
    /// Senders, as JSON.
    pub senders: String,
    /// Name of the user; empty if the request names none.
    pub user: String,
    /// `verified` or `claimed`; empty without a user.
    pub proof: String,
    /// Last rate, bits per second.
    pub rate_bps: i64,
    /// Begin, milliseconds since 1970.
    pub begun_ms: i64,
    /// Time of the last record, milliseconds since 1970.
    pub seen_ms: i64,
    /// End, milliseconds since 1970; `None` if it stands.
    pub ended_ms: Option<i64>,
    /// Why it ended.
    pub end_reason: Option<String>,
    /// Octets forwarded.
    pub octets: i64,
    /// Packets forwarded.
    pub packets: i64,
    /// Packets dropped.
    pub drops: i64,
    /// Octets that its rate would have allowed.
    pub reserved_octets: i64,
}

impl HistoryRow {
    pub(crate) const COLUMNS: &str = "id, node, protocol, link, destination, destination_port, ip_protocol, dscp, senders, user_name, proof, \
                           rate_bps, begun_ms, seen_ms, ended_ms, end_reason, octets, packets, drops, reserved_octets";

    pub(crate) fn read(row: &Row<'_>) -> rusqlite::Result<HistoryRow> {
        Ok(HistoryRow {
            id: row.get(0)?,
            node: row.get(1)?,
            protocol: row.get(2)?,
            link: row.get(3)?,
            destination: row.get(4)?,
            destination_port: row.get(5)?,
            ip_protocol: row.get(6)?,
            dscp: row.get(7)?,
            senders: row.get(8)?,
            user: row.get(9)?,
            proof: row.get(10)?,
            rate_bps: row.get(11)?,
            begun_ms: row.get(12)?,
            seen_ms: row.get(13)?,
            ended_ms: row.get(14)?,
            end_reason: row.get(15)?,
            octets: row.get(16)?,
            packets: row.get(17)?,
            drops: row.get(18)?,
            reserved_octets: row.get(19)?,
        })
    }
}

/// What use is summed by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// User, with the proof of the name.
    User,
    /// Interface of a node.
    Link,
    /// Protocol.
    Protocol,
    /// Node.
    Node,
    /// Hour.
    Hour,
}

impl By {
    const fn column(self) -> &'static str {
        match self {
            By::User => "user_name",
            By::Link => "link",
            By::Protocol => "protocol",
            By::Node => "node",
            By::Hour => "CAST(hour_ms AS TEXT)",
        }
    }

    /// A second column that tells rows apart.
    const fn second_column(self) -> &'static str {
        match self {
            By::User => "proof",
            By::Link => "node",
            By::Protocol | By::Node | By::Hour => "''",
        }
    }
}

/// Use of a user, link, protocol, node or hour.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct UsageRow {
    /// What the use is summed by; an hour as milliseconds since 1970.
    pub key: String,
    /// Proof of a user's name, or node of a link; else empty.
    pub detail: String,
    /// Reservations that began.
    pub begun: i64,
    /// Octets forwarded.
    pub octets: i64,
    /// Packets forwarded.
    pub packets: i64,
    /// Packets dropped.
    pub drops: i64,
    /// Octets that the reserved rates would have allowed.
    pub reserved_octets: i64,
}

/// Conditions of a query with their values.
#[derive(Default)]
struct Conditions {
    text: Vec<String>,
    values: Vec<Value>,
}

impl Conditions {
    fn add(&mut self, condition: &str, value: Option<impl Into<Value>>) {
        if let Some(value) = value {
            self.values.push(value.into());
            self.text.push(condition.replace('?', &format!("?{}", self.values.len())));
        }
    }

    fn text(&self) -> String {
        match self.text.is_empty() {
            true => String::new(),
            false => format!(" WHERE {}", self.text.join(" AND ")),
        }
    }
}

/// Passes the reservations of a filter to `each`, the latest first, until it returns `false`.
///
/// # Errors
/// SQLite reports an error.
pub fn reservations(
    database: &Database,
    filter: &Filter,
    mut each: impl FnMut(HistoryRow) -> bool,
) -> Result<(), DatabaseError> {
    let mut conditions = Conditions::default();
    conditions.add("coalesce(ended_ms, 9223372036854775807) >= ?", filter.since_ms);
    conditions.add("begun_ms < ?", filter.until_ms);
    conditions.add("user_name = ?", filter.user.clone());
    conditions.add("link = ?", filter.link.clone());
    conditions.add("protocol = ?", filter.protocol.clone());
    conditions.add("destination = ?", filter.to.clone());
    conditions.add("node = ?", filter.node.clone());
    conditions.add("end_reason = ?", filter.reason.clone());
    if filter.open {
        conditions.text.push("ended_ms IS NULL".to_owned());
    }
    let select = format!(
        "SELECT {} FROM reservation{} ORDER BY begun_ms DESC, id DESC",
        HistoryRow::COLUMNS,
        conditions.text()
    );
    let mut run = || -> rusqlite::Result<()> {
        let mut statement = database.connection().prepare(&select)?;
        let mut rows = statement.query(params_from_iter(&conditions.values))?;
        while let Some(row) = rows.next()? {
            if !each(HistoryRow::read(row)?) {
                break;
            }
        }
        Ok(())
    };
    run().map_err(|source| database.failed(source))
}

/// Returns the use of each user, link, protocol, node or hour, the largest first, hours in their order. Of the filter, only times and
/// names count; times are rounded down to hours.
///
/// # Errors
/// SQLite reports an error.
pub fn usage(database: &Database, by: By, filter: &Filter) -> Result<Vec<UsageRow>, DatabaseError> {
    let mut conditions = Conditions::default();
    conditions.add("hour_ms + 3600000 > ?", filter.since_ms);
    conditions.add("hour_ms < ?", filter.until_ms);
    conditions.add("user_name = ?", filter.user.clone());
    conditions.add("link = ?", filter.link.clone());
    conditions.add("protocol = ?", filter.protocol.clone());
    conditions.add("node = ?", filter.node.clone());
    let order = if by == By::Hour { "1" } else { "4 DESC, 1" };
    let select = format!(
        "SELECT {}, {}, sum(begun), sum(octets), sum(packets), sum(drops), sum(reserved_octets) FROM usage{} \
         GROUP BY 1, 2 ORDER BY {order}",
        by.column(),
        by.second_column(),
        conditions.text()
    );
    let run = || -> rusqlite::Result<Vec<UsageRow>> {
        let mut statement = database.connection().prepare(&select)?;
        let rows = statement.query_map(params_from_iter(&conditions.values), |row| {
            Ok(UsageRow {
                key: row.get(0)?,
                detail: row.get(1)?,
                begun: row.get(2)?,
                octets: row.get(3)?,
                packets: row.get(4)?,
                drops: row.get(5)?,
                reserved_octets: row.get(6)?,
            })
        })?;
        rows.collect()
    };
    run().map_err(|source| database.failed(source))
}

/// Returns the number of records that were lost, by node, and the last time.
///
/// # Errors
/// SQLite reports an error.
pub fn lost(database: &Database) -> Result<Vec<(String, i64, i64)>, DatabaseError> {
    let select = "SELECT node, sum(records), max(at_ms) FROM gap GROUP BY node";
    let run = || -> rusqlite::Result<Vec<(String, i64, i64)>> {
        let mut statement = database.connection().prepare(select)?;
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?.collect()
    };
    run().map_err(|source| database.failed(source))
}
