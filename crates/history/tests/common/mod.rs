//! What the tests of records share.

use std::path::{Path, PathBuf};

use earmark_core::{Flow, Prefix};
use earmark_history::query::{self, Filter, HistoryRow};
use earmark_history::{
    Append, Counts, Database, FlowKey, Journal, LEAST_BOUND, Record, Reservation, Settings, Writer,
};
use earmark_testkit::command_line::TemporaryDirectory;

/// A directory that ends with the test.
pub(crate) struct Place(pub(crate) TemporaryDirectory);

impl Place {
    pub(crate) fn new(name: &str) -> Place {
        Place(TemporaryDirectory::new(name))
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.0.0.join("history.db")
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.0.0.join("journal")
    }

    pub(crate) fn open_journal(&self) -> Journal {
        Journal::open(&self.journal(), LEAST_BOUND).expect("an own directory")
    }

    pub(crate) fn writer(&self) -> Writer {
        Writer::new(Settings {
            database: self.database(),
            journal: self.journal(),
            retention: None,
        })
    }
}

pub(crate) fn append(journal: &mut Journal, records: &[Record], oldest: u64) -> Append {
    let mut lines = Vec::new();
    records.iter().for_each(|record| record.add_to(&mut lines));
    journal.append(&lines, oldest)
}

/// Returns all reservations in the order of their begin.
pub(crate) fn rows(database: &Path) -> Vec<HistoryRow> {
    let database = Database::open_to_read(database).expect("a database");
    let mut rows = Vec::new();
    query::reservations(&database, &Filter::default(), |row| {
        rows.push(row);
        true
    })
    .expect("a query");
    rows.sort_by_key(|row| row.id);
    rows
}

pub(crate) fn started(at_ms: i64) -> Record {
    Record::Started { at_ms, node: "r1".into() }
}

/// Flow number `port`.
pub(crate) fn flow(port: u16) -> FlowKey {
    let to = Prefix::host("10.0.0.9".parse().expect("an address"));
    let flow = Flow { protocol: 17, destination_port: port, ..Flow::to_range(to) };
    FlowKey { link: "eth0".into(), protocol: Some("rsvp".into()), flow }
}

pub(crate) fn reservation(port: u16, rate_bps: u64) -> Reservation {
    Reservation {
        protocol: "rsvp".into(),
        link: "eth0".into(),
        destination: "10.0.0.9".parse().expect("an address"),
        destination_port: port,
        ip_protocol: 17,
        dscp: None,
        senders: Vec::new(),
        style: "FF".into(),
        service: "controlled-load".into(),
        user: None,
        rate_bps,
    }
}

pub(crate) fn counts(octets: u64) -> Counts {
    Counts { octets, packets: octets / 100, drops: 0 }
}

pub(crate) fn begun(number: u64, port: u16, at_ms: i64, before: u64) -> Record {
    Record::Begun {
        number,
        at_ms,
        flow: flow(port),
        counts: counts(before),
        reservation: reservation(port, 8_000),
    }
}

pub(crate) fn ended(number: u64, at_ms: i64, octets: u64) -> Record {
    Record::Ended { number, at_ms, reason: "torn_down".into(), counts: Some(counts(octets)) }
}
