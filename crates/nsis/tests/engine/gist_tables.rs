//! The state machines as tables: printed and compared with the expected text, and checked against RFC 5972 appendix A.

use std::collections::BTreeSet;
use std::fmt::Write;

use earmark_nsis::gist::machine::{
    Action, Event, Fact, Facts, QUERYING, RESPONDING, State, Table, Transition,
};

const FACTS: [Fact; 10] = [
    Fact::MaxRetry,
    Fact::NeedsAssociation,
    Fact::AssociationExists,
    Fact::NewPeer,
    Fact::ConfirmRequired,
    Fact::Delayed,
    Fact::PeerLostState,
    Fact::PeerKnown,
    Fact::Bad,
    Fact::Refused,
];

fn printed() -> String {
    let mut text = String::new();
    for (name, table) in [("Querying node", &QUERYING), ("Responding node", &RESPONDING)] {
        writeln!(text, "{name}").expect("room");
        let mut from = None;
        for row in table.rows() {
            if from != Some(row.from) {
                writeln!(text, "\n{:?}", row.from).expect("room");
                from = Some(row.from);
            }
            writeln!(text, "  {}", row.to_string().replace('\n', "\n  ")).expect("room");
        }
        text.push('\n');
    }
    text
}

/// `EARMARK_REWRITE=1` rewrites the file; the difference must be checked against the RFC.
#[test]
fn tables_match_the_expected_text() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/gist_tables.txt");
    if std::env::var_os("EARMARK_REWRITE").is_some() {
        std::fs::write(path, printed()).expect("it can be written");
    }
    let agreed = std::fs::read_to_string(path).expect("the file is there");
    assert_eq!(printed(), agreed);
}

/// Appendix A.1 numbers its rows 1 to 18, A.2 1 to 14; each exists, in each state of the appendix where its event occurs:
/// Tg_ERROR concerns a Query that waits for its Response (18) or an association in use (14).
#[test]
fn every_row_of_the_appendix_exists() {
    use State::*;
    let querying: [(State, &[u8]); 4] = [
        (Idle, &[1]),
        (WaitResponse, &[2, 3, 4, 5, 6, 7, 18]),
        (EstablishedDownstream, &[4, 9, 10, 11, 13, 14, 15, 16, 17, 18]),
        (WaitAssociation, &[5, 8, 12]),
    ];
    let responding: [(State, &[u8]); 3] = [
        (Idle, &[1, 2]),
        (WaitConfirm, &[3, 4, 5, 6]),
        (EstablishedUpstream, &[7, 8, 9, 10, 11, 12, 13, 14]),
    ];
    for (table, states) in [(&QUERYING, &querying[..]), (&RESPONDING, &responding[..])] {
        for (state, numbers) in states {
            let there: BTreeSet<u8> = table
                .rows()
                .iter()
                .filter(|row| row.from == *state)
                .filter_map(|row| row.rule.parse().ok())
                .collect();
            assert_eq!(there, numbers.iter().copied().collect(), "{state:?}");
        }
    }
}

/// Every row is taken for some facts: none is shadowed by an earlier one.
#[test]
fn every_row_is_reachable() {
    for table in [&QUERYING, &RESPONDING] {
        for row in table.rows() {
            let taken = (0..1_u16 << FACTS.len()).any(|bits| {
                let facts = FACTS.iter().enumerate().fold(Facts::default(), |facts, (at, fact)| {
                    facts.with(*fact, bits >> at & 1 != 0)
                });
                let found = table.transition(row.from, row.event, facts);
                found.is_some_and(|found| std::ptr::eq(found, row))
            });
            assert!(taken, "{row}");
        }
    }
}

/// Every transition to Idle deletes the state, and only such transitions do.
#[test]
fn idle_transitions_delete_the_state() {
    let deletes = |row: &&Transition| row.actions.contains(&Action::Delete);
    for row in QUERYING.rows().iter().chain(RESPONDING.rows()) {
        let stays_idle = row.from == State::Idle && row.to == State::Idle && !deletes(&row);
        assert_eq!(deletes(&row), row.to == State::Idle && !stays_idle, "{row}");
        if deletes(&row) {
            assert_eq!(row.actions.last(), Some(&Action::Delete), "{row}");
        }
    }
}

/// Without state, only the Query that opens a handshake, and the answer to it, have transitions.
#[test]
fn idle_state_reacts_only_to_handshakes() {
    let from_idle = |table: &'static Table| {
        let rows =
            table.rows().iter().filter(|row| row.from == State::Idle && row.to != State::Idle);
        rows.map(|row| row.event).collect::<BTreeSet<Event>>()
    };
    assert_eq!(from_idle(&QUERYING), [Event::SendMessage].into());
    assert_eq!(from_idle(&RESPONDING), [Event::Query, Event::Confirm].into());
}

/// Rows of one state are adjacent, which the lookup relies on.
#[test]
fn rows_of_a_state_are_adjacent() {
    for table in [&QUERYING, &RESPONDING] {
        let mut states: Vec<State> = table.rows().iter().map(|row| row.from).collect();
        states.dedup();
        let different: BTreeSet<State> = states.iter().copied().collect();
        assert_eq!(states.len(), different.len());
    }
}

/// A timer whose event has no row would be due again at once, for ever.
#[test]
fn every_timer_of_a_state_has_a_row() {
    use State::*;
    let querying = [WaitResponse, WaitAssociation, EstablishedDownstream];
    let mut timers: Vec<(State, Event)> = querying
        .into_iter()
        .flat_map(|state| [(state, Event::Expire), (state, Event::NoResponse)])
        .collect();
    timers.extend([
        (EstablishedDownstream, Event::Refresh),
        (WaitConfirm, Event::NoConfirm),
        (WaitConfirm, Event::Expire),
        (EstablishedUpstream, Event::Expire),
    ]);
    for (state, event) in timers {
        let table = if state.is_querying() { &QUERYING } else { &RESPONDING };
        for is_last in [false, true] {
            let facts = Facts::default().with(Fact::MaxRetry, is_last);
            assert!(table.transition(state, event, facts).is_some(), "{state:?} {event:?}");
        }
    }
}
