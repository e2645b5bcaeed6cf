//! Records on their way into a database.

mod common;

use common::{Place, append, begun, counts, ended, flow, reservation, rows, started};
use earmark_history::query::{self, By, Filter, UsageRow};
use earmark_history::{
    Append, Database, DatabaseError, Journal, JournalError, LEAST_BOUND, Record,
};

const DAY_MS: i64 = 24 * 3_600_000;

#[test]
fn reservation_has_its_times_its_use_and_its_end() {
    let place = Place::new("life");
    let mut journal = place.open_journal();
    let changed =
        Record::Changed { number: 1, at_ms: 5_000, reservation: reservation(5_000, 16_000) };
    let used = Record::Used { number: 1, at_ms: 7_000, counts: counts(1_500) };
    let records = [started(0), Record::AdoptedAll {}, begun(1, 5_000, 1_000, 500), changed, used];
    assert_eq!(append(&mut journal, &records, 0), Append::Done);
    let mut writer = place.writer();
    writer.apply().expect("a database");
    let found = &rows(&place.database())[0];
    assert_eq!((found.octets, found.packets, found.ended_ms), (1_000, 10, None));
    assert_eq!((found.rate_bps, found.begun_ms, found.seen_ms), (16_000, 1_000, 7_000));
    append(&mut journal, &[ended(1, 9_000, 2_500)], 0);
    writer.apply().expect("a database");
    let found = &rows(&place.database())[0];
    assert_eq!((found.octets, found.packets, found.ended_ms), (2_000, 20, Some(9_000)));
    assert_eq!(found.end_reason.as_deref(), Some("torn_down"));
    // 4 s of 8 kbit/s and 4 s of 16 kbit/s.
    assert_eq!(found.reserved_octets, 4_000 + 8_000);
    let database = Database::open_to_read(&place.database()).expect("a database");
    let usage = query::usage(&database, By::Protocol, &Filter::default()).expect("a query");
    let expected = UsageRow {
        key: "rsvp".into(),
        detail: String::new(),
        begun: 1,
        octets: 2_000,
        packets: 20,
        drops: 0,
        reserved_octets: 12_000,
    };
    assert_eq!(usage, [expected]);
}

#[test]
fn reservation_continues_after_a_restart_if_the_kernel_still_has_it() {
    let place = Place::new("restart");
    let mut journal = place.open_journal();
    let first = [started(0), Record::AdoptedAll {}];
    let ports = [1, 2, 3];
    append(&mut journal, &first, 0);
    for port in ports {
        append(&mut journal, &[begun(u64::from(port), port, 1_000, 0)], 0);
    }
    drop(journal);
    // The daemon was killed. The kernel still has flows 1 and 2, and only flow 1 is claimed again: by another number.
    let mut journal = place.open_journal();
    let adopted = |port| Record::Adopted { flow: flow(port) };
    let second = [
        started(60_000),
        adopted(1),
        adopted(2),
        Record::AdoptedAll {},
        begun(1, 1, 61_000, 700),
        Record::NotAdopted { flow: flow(2), at_ms: 90_000, counts: Some(counts(300)) },
        ended(1, 95_000, 1_000),
    ];
    append(&mut journal, &second, 0);
    place.writer().apply().expect("a database");
    let found: Vec<_> = rows(&place.database())
        .into_iter()
        .map(|row| (row.begun_ms, row.ended_ms, row.end_reason.unwrap_or_default(), row.octets))
        .collect();
    let expected = [
        (1_000, Some(95_000), "torn_down".to_owned(), 1_000),
        (1_000, Some(90_000), "not_adopted".to_owned(), 300),
        (1_000, Some(1_000), "unknown".to_owned(), 0),
    ];
    assert_eq!(found, expected);
}

#[test]
fn flow_of_another_protocol_is_not_continued() {
    let place = Place::new("protocols");
    let mut journal = place.open_journal();
    let mut other = flow(1);
    other.protocol = Some("yessir".into());
    let records = [
        started(0),
        Record::AdoptedAll {},
        begun(1, 1, 1_000, 0),
        started(2_000),
        Record::Adopted { flow: other },
        Record::AdoptedAll {},
        begun(1, 1, 3_000, 0),
    ];
    append(&mut journal, &records, 0);
    place.writer().apply().expect("a database");
    let ends: Vec<_> =
        rows(&place.database()).into_iter().map(|row| (row.begun_ms, row.end_reason)).collect();
    assert_eq!(ends, [(1_000, Some("unknown".to_owned())), (3_000, None)]);
}

#[test]
fn only_one_daemon_appends_to_a_journal() {
    let place = Place::new("lock");
    let journal = place.open_journal();
    let second = Journal::open(&place.journal(), LEAST_BOUND);
    assert!(matches!(second, Err(JournalError::InUse(_))), "{second:?}");
    drop(journal);
    place.open_journal();
}

#[test]
fn full_journal_takes_nothing_and_goes_on_once_it_is_applied() {
    let place = Place::new("full");
    let mut journal = place.open_journal();
    append(&mut journal, &[started(0), Record::AdoptedAll {}], 0);
    let (mut number, mut writer) = (0, place.writer());
    let mut fill = |journal: &mut Journal, oldest| {
        while append(journal, &[begun(number + 1, 1, 1_000, 0)], oldest) == Append::Done {
            number += 1;
            assert!(number < 100_000, "it is never full");
        }
        number
    };
    let before = fill(&mut journal, 0);
    let length: u64 = std::fs::read_dir(place.journal())
        .expect("a directory")
        .map(|entry| entry.expect("a file").metadata().expect("a file").len())
        .sum();
    assert!((LEAST_BOUND..LEAST_BOUND + 4_096).contains(&length), "{length} octets");
    writer.apply().expect("a database");
    assert_eq!(rows(&place.database()).len() as u64, before);
    let oldest = writer.status().oldest_segment();
    assert_eq!(oldest, journal.segment());
    append(&mut journal, &[Record::Lost { at_ms: 5_000, records: 7 }], oldest);
    assert!(fill(&mut journal, oldest) > before);
    writer.apply().expect("a database");
    assert_eq!(rows(&place.database()).len() as u64, number);
    let database = Database::open_to_read(&place.database()).expect("a database");
    assert_eq!(query::lost(&database).expect("a query"), [("r1".to_owned(), 7, 5_000)]);
}

#[test]
fn line_that_was_cut_off_does_not_count() {
    let place = Place::new("torn");
    let mut journal = place.open_journal();
    append(&mut journal, &[started(0), Record::AdoptedAll {}, begun(1, 1, 1_000, 0)], 0);
    drop(journal);
    let segment = std::fs::read_dir(place.journal())
        .expect("a directory")
        .map(|entry| entry.expect("a file").path())
        .find(|path| path.extension().is_some())
        .expect("a segment");
    let mut text = std::fs::read(&segment).expect("a segment");
    text.extend_from_slice(b"{\"record\":\"ended\",\"number\":1,\"at_ms\":");
    std::fs::write(&segment, text).expect("a segment");
    // A segment that was begun, and no more.
    std::fs::write(place.journal().join("00000000000000000001.journal"), "").expect("a segment");
    let mut journal = place.open_journal();
    append(&mut journal, &[started(9_000), Record::AdoptedAll {}, begun(1, 2, 9_500, 0)], 0);
    let mut writer = place.writer();
    writer.apply().expect("a database");
    assert_eq!(writer.status().invalid(), 0);
    let ports: Vec<_> =
        rows(&place.database()).iter().map(|row| (row.destination_port, row.ended_ms)).collect();
    assert_eq!(ports, [(1, Some(1_000)), (2, None)]);
}

#[test]
fn line_that_is_no_record_is_counted_and_skipped() {
    let place = Place::new("invalid");
    let mut journal = place.open_journal();
    append(&mut journal, &[started(0), Record::AdoptedAll {}], 0);
    journal.append(b"{\"record\":\"of a later version\"}\n", 0);
    append(&mut journal, &[begun(1, 1, 1_000, 0)], 0);
    let mut writer = place.writer();
    writer.apply().expect("a database");
    assert_eq!((writer.status().invalid(), rows(&place.database()).len()), (1, 1));
}

#[test]
fn database_that_cannot_be_used_is_named_and_the_journal_waits_for_it() {
    let place = Place::new("unusable");
    let mut journal = place.open_journal();
    append(&mut journal, &[started(0), Record::AdoptedAll {}, begun(1, 1, 1_000, 0)], 0);
    let mut writer = place.writer();
    std::fs::write(place.database(), "this is a text of more than a few octets, and no database")
        .expect("a file");
    let error = writer.apply().expect_err("no database").to_string();
    assert!(error.contains("history.db is not a database of accounting records"), "{error}");
    assert!(writer.status().is_failing());
    assert!(writer.pause() < writer.pause());
    std::fs::remove_file(place.database()).expect("a file");
    writer.apply().expect("a database");
    assert!(!writer.status().is_failing());
    assert_eq!(rows(&place.database()).len(), 1);
}

#[test]
fn newer_schema_is_refused_and_left() {
    let place = Place::new("newer");
    let database = Database::open(&place.database()).expect("a database");
    database.connection().execute("UPDATE meta SET version = 2", []).expect("a database");
    drop(database);
    let path = place.database();
    for opened in [Database::open(&path), Database::open_to_read(&path)] {
        let error = opened.expect_err("a newer schema");
        assert!(matches!(error, DatabaseError::NewerSchema { found: 2, .. }), "{error}");
    }
}

#[test]
fn database_of_something_else_is_refused_and_left() {
    let place = Place::new("foreign");
    let other = rusqlite::Connection::open(place.database()).expect("a database");
    other.execute_batch("CREATE TABLE bees (name TEXT)").expect("a table");
    drop(other);
    for opened in [Database::open(&place.database()), Database::open_to_read(&place.database())] {
        assert!(matches!(opened, Err(DatabaseError::Foreign(_))), "{opened:?}");
    }
    let missing = Database::open_to_read(&place.0.0.join("none.db"));
    assert!(matches!(missing, Err(DatabaseError::Missing(_))), "{missing:?}");
}

#[test]
fn old_rows_are_removed_unless_they_are_to_be_exported() {
    let place = Place::new("retention");
    let mut journal = place.open_journal();
    let mut records = vec![started(0), Record::AdoptedAll {}];
    for number in 1..=3 {
        let at_ms = i64::try_from(number).expect("small") * DAY_MS;
        records.push(begun(number, 1, at_ms, 0));
        records.push(ended(number, at_ms + 1_000, 100));
    }
    records.push(begun(4, 1, DAY_MS, 0));
    append(&mut journal, &records, 0);
    place.writer().apply().expect("a database");
    let mut database = Database::open(&place.database()).expect("a database");
    let numbers = |database: &Database| -> Vec<i64> {
        let mut found = Vec::new();
        query::reservations(database, &Filter::default(), |row| {
            found.push(row.id);
            true
        })
        .expect("a query");
        found.sort_unstable();
        found
    };
    let export = "INSERT INTO export SELECT 'elsewhere', revision FROM reservation WHERE id = 1";
    database.connection().execute(export, []).expect("a row");
    assert!(!database.forget_before(3 * DAY_MS, 10).expect("a database"));
    assert_eq!(numbers(&database), [2, 3, 4]);
    database.connection().execute("DELETE FROM export", []).expect("a row");
    assert!(database.forget_before(3 * DAY_MS, 1).expect("a database"));
    // What stands is never removed.
    assert_eq!(numbers(&database), [3, 4]);
    let hours = query::usage(&database, By::Hour, &Filter::default()).expect("a query");
    assert!(hours.len() < 3, "{hours:?}");
}
