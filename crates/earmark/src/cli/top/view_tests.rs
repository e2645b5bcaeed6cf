//! Tests of the view and of what is drawn.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Mutex;
use std::time::Duration;

use ratatui::Terminal;
use ratatui::backend::TestBackend;
use serde_json::{Value, json};

use super::*;
use crate::cli::top::draw::draw;
use crate::cli::top::sampler::Sampler;

fn link(name: &str, sent: Option<u64>) -> LinkRow {
    let row = json!({
        "interface": name, "index": 2, "up": true, "state": "up", "addresses": ["10.0.1.1"],
        "bandwidth_bps": 10_000_000, "reservable_bps": 8_000_000, "held_bps": 2_000_000, "claims": 1, "adopted": 0,
        "sent_octets": sent,
    });
    serde_json::from_value(row).expect("a link")
}

fn reservation(port: u16, octets: u64) -> Value {
    json!({
        "protocol": "tickets", "destination": "10.0.2.2", "destination_port": port, "ip_protocol": 17,
        "senders": [{ "address": "10.0.1.2", "port": 4_000 }], "style": "FF", "service": "controlled-load",
        "interface": "eth1", "next_hop": null, "rate_bps": u64::from(port) * 1_000, "burst_octets": 1_500,
        "expires_in_s": 12.3,
        "traffic": { "packets": 1, "octets": octets, "drops": 0, "backlog_packets": 0, "backlog_octets": 0 },
    })
}

fn rows(rows: &[Value]) -> Vec<ReservationRow> {
    let row = |row: &Value| serde_json::from_value(row.clone()).expect("a reservation");
    rows.iter().map(row).collect()
}

fn query() -> Query {
    Query { sort: "-rate".into(), filter: ListingFilter::default() }
}

/// A view with `count` reservations and links after two samples, a second apart.
fn view(count: u16) -> View {
    let mut view = View::new(query());
    view.update(Update::Connected("r1".into()));
    let start = Instant::now();
    for second in 0..2 {
        let at = start + Duration::from_secs(second);
        let links = (0..count).map(|n| link(&format!("eth{n}"), Some(second * 250_000)));
        view.update(Update::Links(links.collect(), at));
        let values: Vec<_> =
            (1..=count).map(|port| reservation(port, second * 125 * u64::from(port))).collect();
        let (query, included) = (query(), count.into());
        view.update(Update::Reservations(Reservations {
            query,
            rows: rows(&values),
            included,
            at,
        }));
    }
    view
}

fn drawn(view: &View, width: u16, height: u16) -> Vec<String> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).expect("a test screen");
    terminal.draw(|frame| draw(view, frame)).expect("a test screen");
    let cells = terminal.backend().buffer().content().chunks(usize::from(width));
    cells.map(|line| line.iter().map(ratatui::buffer::Cell::symbol).collect()).collect()
}

#[test]
fn every_size_has_head_links_reservations_and_keys() {
    for (width, height) in [(40, 12), (80, 24), (200, 50)] {
        for count in [0, 1, 3, 300] {
            let lines = drawn(&view(count), width, height);
            let text = lines.join("\n");
            assert!(lines[0].starts_with(&format!("r1: {count} reservations")), "{text}");
            assert!(lines[1].starts_with("link"), "{text}");
            let table = lines.iter().position(|line| line.contains("destination"));
            assert!(table.is_some(), "{text}");
            assert!(lines[usize::from(height) - 1].starts_with("q end"), "{text}");
            let listed = lines.iter().filter(|line| line.contains("10.0.2.2:")).count();
            assert!(count == 0 || listed > 0, "reservations remain: {text}");
        }
    }
}

#[test]
fn printed_frame_has_every_row() {
    for count in [0, 1, 3, 200] {
        let text = super::super::printed(&view(count));
        let rows = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!((rows("eth"), rows("tickets ")), (count.into(), count.into()), "{text}");
    }
}

#[test]
fn tiny_screen_is_no_panic() {
    for size in [(1, 1), (2, 3), (10, 4), (200, 1)] {
        drawn(&view(3), size.0, size.1);
    }
}

#[test]
fn rates_are_those_between_two_samples() {
    let view = view(2);
    let of_links = view.links.iter().map(|line| line.used_bps.map(Rate::as_bps));
    assert_eq!(of_links.collect::<Vec<_>>(), [Some(2_000_000); 2]);
    let used: Vec<_> =
        view.reservations.iter().map(|line| line.used_bps.map(Rate::as_bps)).collect();
    assert_eq!(used, [Some(1_000), Some(2_000)]);
    let text = drawn(&view, 120, 12).join("\n");
    assert!(text.contains("2 Mbit/s    #####..............."), "{text}");
}

#[test]
fn counter_that_begins_anew_has_no_rate() {
    let mut view = view(1);
    let at = Instant::now() + Duration::from_secs(9);
    view.update(Update::Links(vec![link("eth0", Some(5)), link("eth1", None)], at));
    assert!(view.links.iter().all(|line| line.used_bps.is_none()), "{view:?}");
}

#[test]
fn filters_are_typed_and_mistakes_are_named() {
    let mut view = view(1);
    let mut type_line = |text: &str| {
        view.act(Action::Filter);
        while view.typed.as_ref().is_some_and(|typed| !typed.is_empty()) {
            view.act(Action::Erase);
        }
        for letter in text.chars() {
            view.act(Action::Type(letter));
        }
        let asks = view.act(Action::Apply);
        (asks, view.query.filter.clone(), view.mistake.clone())
    };
    let (asks, filter, mistake) = type_line("to 10.0.2.0/24 link eth1");
    assert!(asks && mistake.is_none(), "{mistake:?}");
    let applied = filter;
    assert_eq!(applied.link.as_deref(), Some("eth1"));
    assert!(applied.to.is_some());
    for wrong in ["port 5", "to", "to nowhere", "link"] {
        let (asks, filter, mistake) = type_line(wrong);
        assert!(!asks && mistake.is_some(), "{wrong}");
        assert_eq!(filter, applied, "{wrong}");
    }
    let (asks, filter, _) = type_line("");
    assert!(asks && filter.is_empty());
}

#[test]
fn sort_goes_through_the_columns_in_both_directions() {
    let mut view = view(1);
    let first = view.query.sort.clone();
    let mut seen = vec![first.clone()];
    while view.act(Action::NextColumn) && view.query.sort != first {
        assert!(listings::check_reservation_sort(&view.query.sort).is_ok(), "{}", view.query.sort);
        seen.push(view.query.sort.clone());
    }
    assert!(seen.len() > 5 && seen.iter().all(|sort| sort.starts_with('-')), "{seen:?}");
    assert!(view.act(Action::Reverse));
    assert_eq!(view.query.sort, "rate");
}

#[test]
fn moving_stays_within_the_reservations() {
    let mut view = view(3);
    for (lines, first) in [(1, 1), (10, 2), (-1, 1), (isize::MIN, 0)] {
        view.act(Action::Move(lines));
        assert_eq!(view.first, first, "{lines}");
    }
}

#[test]
fn sample_of_an_earlier_query_is_not_shown() {
    let mut view = view(3);
    view.act(Action::NextColumn);
    let old = Reservations { query: query(), rows: Vec::new(), included: 0, at: Instant::now() };
    view.update(Update::Reservations(old));
    assert_eq!(view.reservations.len(), 3);
}

#[test]
fn control_characters_of_names_do_nothing() {
    let mut view = view(0);
    view.update(Update::Links(vec![link("e\u{1b}[2J\u{7}th", None)], Instant::now()));
    view.update(Update::Connected("r\u{1b}]0;title\u{7}".into()));
    let text = drawn(&view, 80, 10).join("\n");
    assert!(!text.contains(['\u{1b}', '\u{7}']), "{text:?}");
}

/// Returns a daemon's answer to a request: 250 reservations, in pages of 100.
fn answer(line: &str) -> Value {
    let request: Value = serde_json::from_str(line).expect("a request");
    match request["show"]["what"].as_str().unwrap_or_default() {
        "links" => json!({ "rows": [link("eth0", Some(7))], "more": false }),
        "reservations" => {
            let after = request["show"]["after"].as_str().unwrap_or_default();
            let from: u16 = after.parse().unwrap_or(0);
            let to = (from + 100).min(250);
            let rows: Vec<_> = (from..to).map(|n| reservation(1 + n, 0)).collect();
            let next = (to < 250).then(|| to.to_string());
            json!({ "rows": rows, "more": false, "next": next })
        }
        _ => json!({ "node": "r1" }),
    }
}

/// Answers like a daemon, on one connection after the other.
fn daemon(listener: &UnixListener, connections: usize) {
    for stream in listener.incoming().take(connections) {
        let mut stream = stream.expect("a client");
        let reader = BufReader::new(stream.try_clone().expect("another descriptor"));
        for line in reader.lines().map_while(Result::ok).take(40) {
            let answer = json!({ "ok": answer(&line) });
            if writeln!(stream, "{answer}").is_err() {
                break;
            }
        }
    }
}

/// Sends events without a pause, until the client is gone.
fn flood(stream: &Mutex<UnixStream>) {
    let event = json!({ "event": {
        "at_s": 1.0, "time": "2026-11-28T08:15:02.417Z", "protocol": "tickets", "event": "path_state", "text": "a path",
    } });
    let line = format!("{event}\n").repeat(50);
    let send = || stream.lock().expect("nobody panics with it").write_all(line.as_bytes());
    while send().is_ok() {}
}

/// A daemon with more events than a client can read is still asked for links and reservations.
#[test]
fn flood_of_events_does_not_stop_samples() {
    let path = std::env::temp_dir().join(format!("earmark-flood-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("a socket");
    let fake = std::thread::spawn(move || {
        let (stream, _) = listener.accept().expect("a client");
        let reader = BufReader::new(stream.try_clone().expect("another descriptor"));
        let stream = Mutex::new(stream);
        std::thread::scope(|scope| {
            for line in reader.lines().map_while(Result::ok) {
                let answer = format!("{}\n", json!({ "ok": answer(&line) }));
                let mut to = stream.lock().expect("nobody panics with it");
                let is_watched = line.contains("watch");
                if to.write_all(answer.as_bytes()).is_err() {
                    break;
                }
                drop(to);
                if is_watched {
                    scope.spawn(|| flood(&stream));
                }
            }
        });
    });
    let sampler = Sampler::start(&path, query(), Duration::from_millis(200));
    let mut view = View::new(query());
    let (mut samples, deadline) = (0, Instant::now() + Duration::from_secs(20));
    while samples < 2 {
        assert!(Instant::now() < deadline, "{samples} samples in a flood");
        for update in sampler.reported() {
            assert!(!matches!(update, Update::Failed(_)), "the daemon is there");
            samples += usize::from(matches!(update, Update::Reservations(_)));
            view.update(update);
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    assert_eq!((view.included, view.event.as_str()), (250, "a path"));
    drop(sampler);
    fake.join().expect("it answers");
    std::fs::remove_file(&path).expect("the socket");
}

/// What a daemon must not send is a failure with advice, after which the thread tries again.
#[test]
fn malformed_answers_are_failures() {
    let path = std::env::temp_dir().join(format!("earmark-malformed-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("a socket");
    let answers = ["nonsense", "{}", "{\"ok\":{\"rows\":7}}", "{\"event\":{}}", "\u{0}"];
    let fake = std::thread::spawn(move || {
        for answer in answers {
            let (mut stream, _) = listener.accept().expect("a client");
            // The client may have gone already.
            let _ = writeln!(stream, "{answer}");
        }
    });
    let sampler = Sampler::start(&path, query(), Duration::from_millis(1));
    for answer in answers {
        let Update::Failed(failure) = sampler.next() else { panic!("{answer} is taken") };
        assert!(!failure.message.is_empty() && !failure.hint.is_empty(), "{answer}");
    }
    fake.join().expect("it answers");
    std::fs::remove_file(&path).expect("the socket");
}

#[test]
fn unknown_column_is_named_with_those_that_exist() {
    for wrong in ["nothing", "-nothing", "", "-"] {
        let failure = listings::check_reservation_sort(wrong).expect_err("no column");
        assert!(failure.hint.contains("rate"), "{wrong}: {}", failure.hint);
    }
}

/// The largest reservations of all pages are kept; the daemon goes and comes back meanwhile.
#[test]
fn sampler_keeps_the_largest_and_connects_again() {
    let path = std::env::temp_dir().join(format!("earmark-top-{}.sock", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let listener = UnixListener::bind(&path).expect("a socket");
    let fake = std::thread::spawn(move || daemon(&listener, 2));
    let sampler = Sampler::start(&path, query(), Duration::from_millis(200));
    let mut view = View::new(query());
    let (mut connected, mut samples) = (0, 0);
    while connected < 2 || samples < 1 {
        let update = sampler.next();
        connected += usize::from(matches!(update, Update::Connected(_)));
        samples += usize::from(matches!(update, Update::Reservations(_)));
        view.update(update);
    }
    assert_eq!((view.node.as_str(), view.included, view.reservations.len()), ("r1", 250, 200));
    let ports = view.reservations.iter().map(|line| line.row.destination_port);
    assert!(ports.eq((51..=250).rev()), "the largest first");
    drop(sampler);
    fake.join().expect("it answers");
    std::fs::remove_file(&path).expect("the socket");
}
