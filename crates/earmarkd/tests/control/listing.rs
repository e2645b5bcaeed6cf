//! Listings by pages: what stands throughout a listing is in it once; filters; malformed positions; the share of each
//! client in the event loop.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestCaseError, TestRunner};
use serde_json::{Value, json};

use crate::host::{Host, Peer};

const PROTOCOLS: [&str; 4] = ["rsvp", "boomerang", "yessir", "nsis"];

/// Opens an application of a protocol to a destination port. Returns its number.
fn open(host: &mut Host, peer: &mut Peer, protocol: &str, port: u16) -> u64 {
    // Media of RTP have an even port.
    let port = 10_000 + 2 * port;
    let request = match protocol {
        "boomerang" => json!({ "options": { "rates": [{ "forward": 8_000, "reverse": 0 }] } }),
        "yessir" => json!({ "from": format!("10.0.1.1:{port}"), "rate_bps": 8_000 }),
        _ => json!({ "rate_bps": 8_000 }),
    };
    let mut request = request.as_object().unwrap().clone();
    request.insert("to".into(), format!("10.0.9.9:{port}").into());
    request.insert("protocol".into(), protocol.into());
    let answer = host.ask(peer, &json!({ "reserve": request }).to_string());
    answer["ok"]["application"].as_u64().unwrap_or_else(|| panic!("{answer}"))
}

fn release(host: &mut Host, peer: &mut Peer, application: u64) {
    host.ask(peer, &json!({ "release": { "application": application } }).to_string());
}

/// Requests a page. Returns its rows, and the position of the next one.
fn page(
    host: &mut Host,
    peer: &mut Peer,
    what: &str,
    after: &str,
    limit: usize,
) -> (Vec<Value>, Option<String>) {
    let show = json!({ "show": { "what": what, "after": after, "limit": limit } });
    let answer = host.ask(peer, &show.to_string());
    let rows = answer["ok"]["rows"].as_array().unwrap_or_else(|| panic!("{answer}")).clone();
    let next = answer["ok"]["next"].as_str().map(str::to_owned);
    assert_eq!(answer["ok"]["more"], json!(next.is_some()));
    (rows, next)
}

/// Key of a row: protocol, port, and style, which tells the directions of a loop apart.
fn key(row: &Value) -> (String, u64, String) {
    let text = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
    (text("protocol"), row["destination_port"].as_u64().unwrap(), text("style"))
}

/// What happens between two pages: a protocol begins a session, or ends the session with this rank.
fn changes() -> impl Strategy<Value = Vec<(usize, Option<usize>)>> {
    let change = (0..PROTOCOLS.len(), prop::option::of(any::<prop::sample::Index>()));
    let change = change.prop_map(|(protocol, ended)| (protocol, ended.map(|it| it.index(1_000))));
    prop::collection::vec(change, 0..6)
}

#[test]
fn what_stands_throughout_a_listing_is_listed_once() {
    let listings = vec!["sessions", "reservations", "applications"];
    let strategy = (
        prop::sample::select(listings),
        1..5_usize,
        prop::collection::vec(0..PROTOCOLS.len(), 0..24),
        prop::collection::vec(changes(), 40),
    );
    let config = ProptestConfig { cases: 64, rng_seed: RngSeed::Fixed(7), ..Default::default() };
    let run = TestRunner::new(config).run(&strategy, |(what, limit, before, between)| {
        let (mut host, mut ports) = (Host::new(), 0..);
        let mut peer = host.connect();
        let mut model = BTreeMap::new();
        for protocol in before {
            let port = ports.next().unwrap();
            model.insert(port, open(&mut host, &mut peer, PROTOCOLS[protocol], port));
        }
        let whole = host.ask(&mut peer, &json!({ "show": { "what": what } }).to_string());
        let whole = whole["ok"]["rows"].as_array().unwrap().iter().map(key);
        let mut throughout: BTreeSet<_> = whole.collect();
        let (mut listed, mut after) = (Vec::new(), Some("start".to_owned()));
        let mut between = between.into_iter();
        while let Some(position) = after {
            let (rows, next) = page(&mut host, &mut peer, what, &position, limit);
            // A session of two directions is not divided.
            prop_assert!(rows.len() <= limit + 1);
            listed.extend(rows.iter().map(key));
            after = next;
            for (protocol, ended) in between.next().into_iter().flatten() {
                let rank = ended.filter(|_| !model.is_empty()).map(|rank| rank % model.len());
                match rank.and_then(|rank| model.keys().nth(rank).copied()) {
                    Some(port) => {
                        release(&mut host, &mut peer, model.remove(&port).unwrap());
                        let ended = 10_000 + 2 * u64::from(port);
                        throughout.retain(|(_, port, _)| *port != ended);
                    }
                    None => {
                        let port = ports.next().unwrap();
                        model.insert(port, open(&mut host, &mut peer, PROTOCOLS[protocol], port));
                    }
                }
            }
        }
        let once: BTreeSet<_> = listed.iter().cloned().collect();
        prop_assert_eq!(once.len(), listed.len(), "twice in {:?}", listed);
        let missing: Vec<_> = throughout.difference(&once).collect();
        prop_assert!(missing.is_empty(), "{:?} of {:?}", missing, listed);
        Ok::<(), TestCaseError>(())
    });
    run.unwrap();
}

/// A host with a session of each protocol and each of three destinations.
fn listed_host() -> (Host, Peer) {
    let mut host = Host::new();
    let mut peer = host.connect();
    for (port, protocol) in (0..).zip(PROTOCOLS.iter().cycle().take(12)) {
        open(&mut host, &mut peer, protocol, port);
    }
    (host, peer)
}

/// Returns the rows that a filter includes, whole and by pages.
fn filtered(host: &mut Host, peer: &mut Peer, what: &str, filter: &Value) -> Vec<Value> {
    let whole = host.ask(peer, &json!({ "show": { "what": what, "filter": filter } }).to_string());
    let whole =
        whole["ok"]["rows"].as_array().unwrap_or_else(|| panic!("{filter}: {whole}")).clone();
    let (mut paged, mut after) = (Vec::new(), Some("start".to_owned()));
    while let Some(position) = after {
        let show = json!({ "what": what, "filter": filter, "after": position, "limit": 1 });
        let answer = host.ask(peer, &json!({ "show": show }).to_string());
        paged.extend(answer["ok"]["rows"].as_array().unwrap().iter().cloned());
        after = answer["ok"]["next"].as_str().map(str::to_owned);
    }
    assert_eq!(paged, whole, "{what} {filter}");
    whole
}

#[test]
fn filters_include_rows_that_have_all_of_what_is_given() {
    let (mut host, mut peer) = listed_host();
    for what in ["sessions", "reservations"] {
        let mut count = |filter: Value| filtered(&mut host, &mut peer, what, &filter).len();
        let all = count(json!({}));
        assert!(all >= 9, "{what}: {all}");
        assert_eq!(count(json!({ "to": "10.0.9.0/24", "from": "10.0.1.1", "link": "eth0" })), all);
        assert_eq!(count(json!({ "to": "10.0.8.0/24" })), 0);
        assert_eq!(count(json!({ "from": "10.0.9.9" })), 0);
        // The first destination is one of RSVP, which reserves nothing without a receiver.
        for port in [10_002, 10_004, 10_006] {
            assert_eq!(count(json!({ "to": format!("10.0.9.9:{port}") })), 1, "{what} {port}");
        }
        let by_protocol = PROTOCOLS.map(|protocol| count(json!({ "protocol": protocol })));
        assert_eq!(by_protocol.iter().sum::<usize>(), all);
        assert_eq!(by_protocol[1..], [3; 3]);
        assert_eq!(count(json!({ "protocol": "nsis", "to": "10.0.9.9:10002" })), 0);
    }
    let mut states =
        |what, state: &str| filtered(&mut host, &mut peer, what, &json!({ "state": state })).len();
    assert_eq!(states("sessions", "unreserved"), 3);
    assert_eq!(states("sessions", "reserved"), 9);
    assert_eq!(states("sessions", "waiting"), 0);
    assert_eq!(states("links", "up"), 1);
    assert_eq!(states("links", "absent"), 0);
    assert_eq!(
        filtered(&mut host, &mut peer, "reservations", &json!({ "user": "alice" })).len(),
        0
    );
    let applications = json!({ "to": "10.0.9.9:10002", "protocol": "boomerang" });
    assert_eq!(filtered(&mut host, &mut peer, "applications", &applications).len(), 1);
}

#[test]
fn unknown_filters_and_positions_are_refused_with_what_there_is() {
    let (mut host, mut peer) = listed_host();
    for (show, message, hint) in [
        (
            json!({ "what": "sessions", "filter": { "link": "eth7" } }),
            "unknown link",
            "one of eth0",
        ),
        (
            json!({ "what": "sessions", "filter": { "protocol": "ospf" } }),
            "unknown protocol",
            "one of rsvp, boomerang, yessir, nsis",
        ),
        (
            json!({ "what": "sessions", "filter": { "state": "fine" } }),
            "unknown state",
            "one of reserved, partial, waiting, unreserved",
        ),
        (
            json!({ "what": "links", "filter": { "user": "alice" } }),
            "the listing links has no filter `user`",
            "its filters are link, state",
        ),
        (
            json!({ "what": "counters", "filter": { "to": "10.0.0.1" } }),
            "no filter `to`",
            "it has none",
        ),
        (json!({ "what": "sessions", "filter": { "to": "10.0.0.0/40" } }), "10.1.0.0/16", ""),
        (json!({ "what": "sessions", "filter": { "colour": "red" } }), "unknown field", ""),
        (json!({ "what": "sessions", "after": "" }), "invalid position", "`next`"),
        (json!({ "what": "sessions", "after": "rsvp" }), "invalid position", "`next`"),
        (json!({ "what": "sessions", "after": "rsvp:-1" }), "invalid position", "`next`"),
        (json!({ "what": "sessions", "after": "ospf:1" }), "invalid position", "`next`"),
        (json!({ "what": "sessions", "after": "applications:1" }), "invalid position", "`next`"),
        (json!({ "what": "links", "after": "rsvp:1" }), "invalid position", "`next`"),
    ] {
        let answer = host.ask(&mut peer, &json!({ "show": show }).to_string());
        let text = |name: &str| answer["error"][name].as_str().unwrap_or_default().to_owned();
        assert_eq!(text("code"), "bad_request", "{show}: {answer}");
        assert!(text("message").contains(message), "{show}: {answer}");
        assert!(text("hint").contains(hint), "{show}: {answer}");
    }
    for after in ["nsis:4000000000", "nsis:18446744073709551615", "rsvp:18446744073709551615"] {
        let (_, next) = page(&mut host, &mut peer, "sessions", after, 100);
        assert_eq!(next, None, "{after}");
    }
}

#[test]
fn listings_of_clients_advance_in_turn_and_one_a_turn() {
    let (mut host, _first) = listed_host();
    let mut peers = [host.connect(), host.connect(), host.connect()];
    let line = format!("{}\n", json!({ "show": { "what": "sessions", "after": "start" } }));
    for peer in &mut peers {
        for _ in 0..100 {
            peer.say(line.as_bytes());
        }
        host.hub.readable(peer.id, host.now, &mut host.driver);
    }
    let mut answers = [0; 3];
    for turn in 1..=60 {
        assert!(host.hub.has_listings());
        assert!(
            host.hub.next_deadline().is_some_and(|at| at <= host.now),
            "the loop must not sleep"
        );
        host.hub.continue_listings(host.now, &mut host.driver);
        for (peer, count) in peers.iter_mut().zip(&mut answers) {
            *count += peer.lines().len();
        }
        assert_eq!(answers.iter().sum::<usize>(), turn);
    }
    assert_eq!(answers, [20; 3]);
}

#[test]
fn listing_of_client_that_has_ended_its_requests_is_answered() {
    let (mut host, _first) = listed_host();
    let mut peer = host.connect();
    peer.say(b"{\"show\":{\"what\":\"sessions\"}}\n");
    peer.stream.shutdown(std::net::Shutdown::Write).unwrap();
    for _ in 0..3 {
        host.hub.readable(peer.id, host.now, &mut host.driver);
    }
    host.hub.sweep(host.now, &mut host.driver);
    host.serve(&peer);
    let answer = peer.lines();
    assert_eq!(answer[0]["ok"]["rows"].as_array().map(Vec::len), Some(12), "{answer:?}");
    assert!(!host.is_connected(&peer));
}
