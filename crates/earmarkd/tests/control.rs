//! The control layer with malformed input, excessive use and silent clients: other clients are served whatever one does.
//!
//! A real node and a real hub run in this process, with clients over socket pairs and a kernel that only records the requested
//! operations. Without privileges, clock and threads, every test decides who reads when.

#[path = "control/change.rs"]
mod change;
#[path = "control/config.rs"]
mod config;
#[path = "control/host.rs"]
mod host;
#[path = "control/keys.rs"]
mod keys;
#[path = "control/listing.rs"]
mod listing;
#[path = "control/log.rs"]
mod log;
#[path = "control/natfw.rs"]
mod natfw;
#[path = "control/natfw_path.rs"]
mod natfw_path;
#[path = "control/outcome.rs"]
mod outcome;
#[path = "control/places.rs"]
mod places;
#[path = "control/recording.rs"]
mod recording;
#[path = "control/styles.rs"]
mod styles;
#[path = "control/tokens.rs"]
mod tokens;
#[path = "control/trace.rs"]
mod trace;

use std::io::{BufReader, Read};
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::time::Duration;

use earmark_control::LONGEST_LINE;
use earmark_core::{Flow, FlowResolver, Hop, InterfaceId, Octets, Prefix, Rate, Resolution, Time};
use earmark_node::{Command, HostUpdate, Input};
use earmark_rsvp::{Renewal, Timing};
use earmarkd::record::{ReplaySecrets, replay};
use host::{Host, Peer};
use proptest::prelude::*;
use serde_json::{Value, json};

const SEND: &str = r#"{"reserve":{"to":"10.0.9.9:5001","rate_bps":2000000}}"#;

#[test]
fn token_of_a_request_is_sent_with_its_messages() {
    let mut host = Host::new();
    let mut peer = host.connect();
    let token =
        SEND.replacen("{\"to\"", "{\"identity\":{\"token\":\"dG9rZW4tb2YtYWxpY2U\"},\"to\"", 1);
    let opened = host.ask(&mut peer, &token);
    assert_eq!(opened["ok"]["role"], "sender", "{opened}");
    let (_, message) = host.driver.kernel().sent.pop_front().expect("a Path");
    assert!(message.windows(14).any(|octets| octets == b"token-of-alice"));
}

#[test]
fn a_sender_is_opened_listed_and_released() {
    let mut host = Host::new();
    let mut peer = host.connect();
    let opened = host.ask(&mut peer, SEND);
    assert_eq!(opened["ok"]["role"], "sender");
    let id = opened["ok"]["application"].as_u64().unwrap();
    let (how, message) = host.driver.kernel().sent.pop_front().expect("a Path");
    assert!(how.router_alert);
    assert_eq!((how.protocol, how.destination), (46, "10.0.9.9".parse().unwrap()));
    assert_eq!(message[1], 1, "RFC 2205 section 3.1.1: message type 1 is Path");

    let listed = host.ask(&mut peer, r#"{"show":{"what":"applications"}}"#);
    assert_eq!(listed["ok"]["rows"][0]["application"], id);
    assert_eq!(listed["ok"]["rows"][0]["destination"], "10.0.9.9");
    let sessions = host.ask(&mut peer, r#"{"show":{"what":"sessions"}}"#);
    assert_eq!(sessions["ok"]["rows"][0]["rate_bps"], 2_000_000);

    let released = host.ask(&mut peer, &format!(r#"{{"release":{{"application":{id}}}}}"#));
    assert_eq!(released["ok"]["applications"], json!([id]));
    let gone = host.ask(&mut peer, &format!(r#"{{"release":{{"application":{id}}}}}"#));
    assert_eq!(gone["error"]["code"], "no_such_application");
    let sessions = host.ask(&mut peer, r#"{"show":{"what":"sessions"}}"#);
    assert_eq!(sessions["ok"]["rows"], json!([]));
}

#[test]
fn held_application_ends_with_its_client_and_kept_one_does_not() {
    let mut host = Host::new();
    let mut holder = host.connect();
    let mut other = host.connect();
    let held = SEND.replace("}}", r#","hold":true}}"#);
    let first = host.ask(&mut holder, &held)["ok"]["application"].clone();
    let second = held.replace("5001", "5002");
    let kept = host.ask(&mut holder, &second)["ok"]["application"].clone();
    host.ask(&mut holder, &format!(r#"{{"keep":{{"application":{kept}}}}}"#));
    assert_ne!(first, kept);

    drop(holder.stream.shutdown(std::net::Shutdown::Both));
    host.serve(&Peer { id: holder.id, stream: holder.stream, read: Vec::new() });
    let listed = host.ask(&mut other, r#"{"show":{"what":"applications"}}"#);
    let rows = listed["ok"]["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 1, "{listed}");
    assert_eq!(rows[0]["application"], kept);
}

/// Every kind of invalid request gets an error with a code, a message and a hint, and the next request is served.
#[test]
fn invalid_requests_get_errors_and_connection_stays_open() {
    let mut host = Host::new();
    let mut peer = host.connect();
    for (line, code) in [
        ("", "bad_request"),
        ("{}", "bad_request"),
        ("null", "bad_request"),
        ("show", "bad_request"),
        (r#"{"shew":{"what":"links"}}"#, "bad_request"),
        (r#"{"show":{"what":"colours"}}"#, "bad_request"),
        (r#"{"show":{"what":"links","colour":1}}"#, "bad_request"),
        (r#"{"show":{"what":"links"},"watch":{}}"#, "bad_request"),
        (r#"{"show":{"what":"links","limit":-1}}"#, "bad_request"),
        (r#"{"reserve":{"to":"10.0.9.9","rate_bps":1}}"#, "bad_request"),
        (r#"{"reserve":{"to":"0.0.0.0:1","rate_bps":1}}"#, "rejected"),
        (r#"{"reserve":{"to":"10.0.9.9:1","rate_bps":0}}"#, "rejected"),
        (r#"{"reserve":{"to":"10.0.9.9:1","rate_bps":1,"ip_protocol":0}}"#, "rejected"),
        (r#"{"reserve":{"to":"10.0.9.9:1","rate_bps":1,"from":"[::1]:1"}}"#, "rejected"),
        (r#"{"reserve":{"to":"10.0.9.9:1","rate_bps":9,"peak_bps":1}}"#, "rejected"),
        (r#"{"reserve":{"to":"10.0.9.9:1","rate_bps":9,"max_packet":5}}"#, "rejected"),
        (r#"{"reserve":{"to":"10.0.9.9:1","rate_bps":9,"burst_octets":5}}"#, "rejected"),
        (r#"{"reserve":{"to":"10.0.9.9:1","rate_bps":9,"from":"10.9.9.9:1"}}"#, "rejected"),
        (r#"{"reserve":{"to":"[2001:db8::2]:1","rate_bps":9}}"#, "rejected"),
        (r#"{"reserve":{"to":"[2001:db8::2]:1","rate_bps":9}}"#, "rejected"),
        (r#"{"listen":{"on":"[2001:db8::2]:1"}}"#, "rejected"),
        (r#"{"listen":{"on":"10.0.9.9:1"}}"#, "rejected"),
        (r#"{"path":{"to":"10.0.9.9:1","colour":1}}"#, "bad_request"),
        (r#"{"path":{"to":"10.0.9.9:1","from":"[::1]:1"}}"#, "rejected"),
        (r#"{"path":{"to":"10.0.9.9:1","ip_protocol":1}}"#, "rejected"),
        (r#"{"path":{"to":"10.0.9.9:1","ip_protocol":0}}"#, "rejected"),
        (r#"{"path":{"to":"239.1.2.3:1"}}"#, "rejected"),
        (r#"{"path":{"to":"10.0.9.9:1","incoming":"eth0"}}"#, "rejected"),
        (r#"{"path":{"to":"10.0.9.9:1","from":"10.9.9.9:1","incoming":"eth9"}}"#, "rejected"),
        (r#"{"path":{"to":"10.0.9.9:1"}}"#, "rejected"),
        (r#"{"reserve":{"to":"10.0.9.9:1","rate_bps":9,"identity":{"token":"a b"}}}"#, "rejected"),
        (
            r#"{"reserve":{"protocol":"boomerang","to":"10.0.9.9:1","rate_bps":9,"identity":{"token":"a b"}}}"#,
            "rejected",
        ),
        (
            r#"{"reserve":{"protocol":"yessir","to":"10.0.9.9:2","rate_bps":9,"identity":{"token":"a b"}}}"#,
            "rejected",
        ),
        (
            r#"{"reserve":{"protocol":"nsis","to":"10.0.9.9:1","rate_bps":9,"identity":{"token":"a b"}}}"#,
            "rejected",
        ),
        (r#"{"release":{"application":77}}"#, "no_such_application"),
        (r#"{"keep":{"application":77}}"#, "no_such_application"),
    ] {
        let answer = host.ask(&mut peer, line);
        assert_eq!(answer["error"]["code"], code, "{line}: {answer}");
        assert!(!answer["error"]["hint"].as_str().unwrap().is_empty(), "{line}");
    }
    let applications = host.ask(&mut peer, r#"{"show":{"what":"applications"}}"#);
    assert_eq!(applications["ok"]["rows"], json!([]), "nothing was left behind");
}

/// A daemon has adopted a reservation for a flow, and traffic control refuses the new reservation of this flow. The
/// adopted one then has no requester any more and is removed from the kernel as well as from the ledger.
#[test]
fn refused_installation_removes_adopted_reservation() {
    let mut host = Host::new();
    let mut peer = host.connect();
    let flow = Flow {
        destination: "10.0.9.9".parse().unwrap(),
        source: Some("10.0.1.1".parse().unwrap()),
        protocol: 17,
        destination_port: 5001,
        source_port: 5001,
        flow_label: 0,
        spi: 0,
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    };
    let (interface, rate) = (host.interface.id, Rate::from_mbps(2));
    let adopted = HostUpdate::Adopted { interface, flow, rate, protocol: None };
    host.driver.handle(Time::ZERO, Input::Host(adopted));
    let held = |host: &Host| host.driver.node().ledger().link(interface).unwrap().held;
    assert_eq!(held(&host), rate, "it is kept until its owner asks");

    host.driver.kernel().full = true;
    let reserve = r#"{"reserve":{"protocol":"boomerang","to":"10.0.9.9:5001","from":"10.0.1.1:5001",
        "options":{"rates":[{"forward":3000000,"reverse":0}]}}}"#;
    host.ask(&mut peer, &reserve.replace('\n', ""));
    assert_eq!(host.driver.kernel_ref().dropped, [(interface, flow)]);
    assert_eq!(held(&host), Rate::ZERO, "nothing is held for it");
    assert_eq!(host.driver.counters().refused, 1);
}

/// Path messages of a multicast session are addressed to its group, which the host joins while an application listens.
#[test]
fn the_group_of_a_session_is_joined_while_it_is_open() {
    let mut host = Host::new();
    let mut peer = host.connect();
    for _ in 0..2 {
        let answer = host.ask(&mut peer, r#"{"listen":{"on":"239.1.2.3:5001"}}"#);
        assert!(answer["ok"]["application"].is_u64(), "{answer}");
    }
    let group: IpAddr = "239.1.2.3".parse().unwrap();
    assert_eq!(host.driver.kernel().groups, [group, group], "once for each");
    host.ask(&mut peer, r#"{"release":{"application":1}}"#);
    host.ask(&mut peer, r#"{"release":{"application":2}}"#);
    assert!(host.driver.kernel().groups.is_empty());
}

/// Sessions that cannot be signalled are refused at once with the reason, instead of running into a timeout.
#[test]
fn ipv6_session_without_ipv6_signalling_is_refused() {
    let mut host = Host::new();
    let mut peer = host.connect();
    let answer =
        host.ask(&mut peer, r#"{"reserve":{"to":"[2001:db8::2]:5001","rate_bps":2000000}}"#);
    let message = answer["error"]["message"].as_str().unwrap();
    assert!(message.contains("2001:db8::2: IPv6 is disabled on this host"), "{answer}");
    assert!(answer["error"]["hint"].as_str().unwrap().contains("IPv4"), "{answer}");
    assert!(host.driver.kernel().sent.is_empty());
}

#[test]
fn counters_are_grouped_by_part() {
    let mut host = Host::new();
    let mut peer = host.connect();
    host.ask(&mut peer, SEND);
    let answer = host.ask(&mut peer, r#"{"show":{"what":"counters"}}"#);
    let counters = &answer["ok"]["rows"][0];
    assert_eq!(counters["paper"]["sheets"], 1, "what the kernel's side counts: {answer}");
    assert_eq!(counters["rsvp"]["sent"]["path"], 1, "{answer}");
    assert_eq!(counters["driver"]["sent"], 1, "{answer}");
    assert_eq!(counters["control"]["requests"], 1, "{answer}");
}

#[test]
fn endless_line_is_skipped_with_bounded_memory() {
    let mut host = Host::new();
    let mut peer = host.connect();
    let chunk = vec![b'x'; LONGEST_LINE / 4];
    for _ in 0..40 {
        peer.say(&chunk);
        host.serve(&peer);
    }
    let answers = peer.lines();
    assert_eq!(answers.len(), 1, "one error for one line, however long");
    assert_eq!(answers[0]["error"]["code"], "line_too_long");
    peer.say(b"still the same line\n");
    let links = host.ask(&mut peer, r#"{"show":{"what":"links"}}"#);
    assert_eq!(links["ok"]["rows"][0]["interface"], "eth0");
}

#[test]
fn half_closed_client_gets_its_answer() {
    let mut host = Host::new();
    let mut peer = host.connect();
    // The last line may lack its terminator, as `printf ... | nc -U` sends it.
    peer.say(br#"{"show":{"what":"links"}}"#);
    peer.stream.shutdown(std::net::Shutdown::Write).unwrap();
    host.serve(&peer);
    assert_eq!(peer.lines()[0]["ok"]["more"], false);
    assert!(!host.is_connected(&peer));
}

#[test]
fn listing_stops_at_limit_and_reports_more() {
    let mut host = Host::new();
    let mut peer = host.connect();
    for port in 1..=3 {
        host.ask(&mut peer, &SEND.replace("5001", &port.to_string()));
    }
    for what in ["applications", "sessions"] {
        let two = host.ask(&mut peer, &format!(r#"{{"show":{{"what":"{what}","limit":2}}}}"#));
        assert_eq!(two["ok"]["rows"].as_array().unwrap().len(), 2, "{what}");
        assert_eq!(two["ok"]["more"], true, "{what}");
        let all = host.ask(&mut peer, &format!(r#"{{"show":{{"what":"{what}","limit":3}}}}"#));
        assert_eq!(all["ok"]["more"], false, "{what}");
    }
}

#[test]
fn watcher_gets_events_of_other_clients() {
    let mut host = Host::new();
    let mut watcher = host.connect();
    let mut peer = host.connect();
    assert_eq!(host.ask(&mut watcher, r#"{"watch":{}}"#)["ok"]["node"], "h1");
    host.ask(&mut peer, SEND);
    host.hub.writable(watcher.id, host.now, &mut host.driver);
    let events = watcher.lines();
    assert_eq!(events[0]["event"]["event"], "path_state");
    assert_eq!(events[0]["event"]["change"], "created");
    assert_eq!(events[0]["event"]["at_s"], 1.0);
    assert!(peer.lines().is_empty(), "who did not ask gets no events");
}

/// A watcher that does not read gets an error and is disconnected at one megabyte of events; others are not affected.
#[test]
fn watcher_that_does_not_read_is_disconnected() {
    let mut host = Host::new();
    let mut sleeper = host.connect();
    let mut peer = host.connect();
    sleeper.say(b"{\"watch\":{}}\n");
    host.serve(&sleeper);
    let mut rounds = 0;
    while !is_closing(&host) {
        rounds += 1;
        assert!(rounds < 20_000, "it is never dropped");
        let opened = host.ask(&mut peer, SEND);
        let id = &opened["ok"]["application"];
        host.ask(&mut peer, &format!(r#"{{"release":{{"application":{id}}}}}"#));
    }
    // The watcher reads again before its deadline and gets the remaining lines with the reason.
    let mut lines = Vec::new();
    for _ in 0..1_000 {
        lines.extend(sleeper.lines());
        host.hub.writable(sleeper.id, host.now, &mut host.driver);
    }
    assert_eq!(lines.last().unwrap()["error"]["code"], "too_slow");
    assert!(!host.is_connected(&sleeper));
}

/// Returns whether a connection is about to be closed: idle ones stay longer.
fn is_closing(host: &Host) -> bool {
    host.hub.next_deadline().is_some_and(|at| at <= host.now + Duration::from_secs(5))
}

/// A watcher that never reads again is removed at its deadline.
#[test]
fn watcher_that_never_reads_again_is_removed_at_deadline() {
    let mut host = Host::new();
    let mut sleeper = host.connect();
    let mut peer = host.connect();
    sleeper.say(b"{\"watch\":{}}\n");
    host.serve(&sleeper);
    for _ in 0..20_000 {
        if is_closing(&host) {
            break;
        }
        let opened = host.ask(&mut peer, SEND);
        let id = &opened["ok"]["application"];
        host.ask(&mut peer, &format!(r#"{{"release":{{"application":{id}}}}}"#));
    }
    let deadline = host.hub.next_deadline().expect("its time runs out");
    host.hub.sweep(Time::from_nanos(deadline.as_nanos() - 1), &mut host.driver);
    assert!(host.is_connected(&sleeper));
    host.hub.sweep(deadline, &mut host.driver);
    assert!(!host.is_connected(&sleeper));
}

/// The requests of a client that does not read its answers are not read either, which bounds the daemon's memory.
#[test]
fn requests_wait_while_answers_are_unread() {
    let mut host = Host::new();
    let mut peer = host.connect();
    for port in 1..=200 {
        host.ask(&mut peer, &SEND.replace("5001", &port.to_string()));
    }
    let question = b"{\"show\":{\"what\":\"applications\"}}\n";
    let wants_to_read = |host: &Host| host.hub.interests().any(|(_, _, read, _)| read);
    let mut asked = 0;
    while wants_to_read(&host) {
        asked += 1;
        assert!(asked < 1_000, "it is read from for ever");
        peer.say(question);
        host.serve(&peer);
    }
    // Every request is answered when the client reads again.
    let mut answered = 0;
    for _ in 0..1_000 {
        answered += peer.lines().len();
        host.hub.writable(peer.id, host.now, &mut host.driver);
    }
    assert_eq!(answered, asked);
    assert!(wants_to_read(&host));
}

#[test]
fn client_beyond_limit_gets_error() {
    let mut host = Host::new();
    let watcher = |host: &mut Host| {
        let mut peer = host.connect();
        host.ask(&mut peer, r#"{"watch":{}}"#);
        peer
    };
    let peers: Vec<Peer> =
        (0..earmarkd::control::MAX_CLIENTS).map(|_| watcher(&mut host)).collect();
    let (ours, mut theirs) = UnixStream::pair().unwrap();
    assert!(host.hub.connect(ours, host.now).is_none());
    let mut told = String::new();
    theirs.read_to_string(&mut told).unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told["error"]["code"], "limit");
    drop(peers);
}

/// The replay of a recording sends the same messages, octet for octet and at the same times. The peak rate is infinite
/// here, for which JSON has no number.
#[test]
fn a_recording_replays_to_the_same_effects() {
    let file = std::env::temp_dir().join(format!("earmark-record-{}.jsonl", std::process::id()));
    let mut host = Host::recorded(Some(&file));
    let mut peer = host.connect();
    host.ask(&mut peer, SEND);
    let mut expirations = 0;
    for refresh in 0..3 {
        // Other protocols have timers of their own.
        let before = host.driver.kernel().sent.len();
        while host.driver.kernel().sent.len() == before {
            host.now = host.driver.next_deadline().expect("a refresh");
            host.driver.expire(host.now);
            expirations += 1;
        }
        if refresh == 1 {
            let timing = Timing { refresh: Duration::from_secs(7), ..Timing::default() };
            let renewal = Renewal { timing, ..Renewal::from(earmark_rsvp::Config::default()) };
            let command = earmark_rsvp::Command::Renew(Box::new(renewal));
            host.driver.handle(host.now, Input::Command(Command::Rsvp(command)));
        }
    }
    let sent: Vec<String> =
        host.driver.kernel().sent.drain(..).map(|(_, octets)| Octets(octets).to_string()).collect();
    assert_eq!(sent.len(), 4, "a Path and three refreshes");
    assert_eq!((sent[0] == sent[1], sent[2] == sent[3]), (true, false), "the last has another R");

    let mut effects = Vec::new();
    let recording = BufReader::new(std::fs::File::open(&file).unwrap());
    let inputs = replay(recording, ReplaySecrets::default(), &mut effects).unwrap().inputs;
    std::fs::remove_file(&file).unwrap();
    // Interface, route, the session and its sender, expirations, and changed settings before the last refresh.
    assert_eq!(inputs, 5 + expirations);
    let lines = effects.split(|&octet| octet == b'\n').filter(|line| !line.is_empty());
    let replayed: Vec<String> = lines
        .map(|line| serde_json::from_slice::<Value>(line).unwrap())
        .filter_map(|line| Some(line["what"]["Send"]["payload"].as_str()?.to_owned()))
        .collect();
    assert_eq!(replayed, sent);
}

/// Routes flows by the gateways .254 and .253 in turn, so that consecutive answers differ.
#[derive(Debug, Default)]
struct Turns(u8);

impl FlowResolver for Turns {
    fn resolve(&mut self, _: &Flow, _: Option<InterfaceId>) -> Resolution {
        self.0 += 1;
        let gateway = Some([10, 0, 1, 254 - self.0 % 2].into());
        Resolution::Through(Hop { interface: InterfaceId(2), gateway, source: None })
    }
}

/// The kernel's answers about flows are recorded, and a replay without a kernel uses the same next hops.
#[test]
fn recording_replays_the_answers_of_the_kernel() {
    let file = std::env::temp_dir().join(format!("earmark-flows-{}.jsonl", std::process::id()));
    let mut host = Host::recorded(Some(&file));
    host.driver.ask_for_flows(Box::new(Turns::default()));
    let prefix: Prefix = "0.0.0.0/0".parse().unwrap();
    host.driver.handle(host.now, Input::Host(HostUpdate::NextHops { prefix, several: true }));
    let mut peer = host.connect();
    host.ask(&mut peer, SEND);
    let deadline = |host: &mut Host| {
        host.now = host.driver.next_deadline().expect("a refresh");
        host.driver.expire(host.now);
    };
    for _ in 0..6 {
        host.driver.handle(host.now, Input::Host(HostUpdate::FlowRoutes(prefix)));
        deadline(&mut host);
        deadline(&mut host);
    }
    let next_hops: Vec<Option<IpAddr>> =
        host.driver.kernel().sent.drain(..).map(|(how, _)| how.next_hop).collect();
    assert!(next_hops.iter().all(Option::is_some), "{next_hops:?}");
    assert!(next_hops.windows(2).any(|pair| pair[0] != pair[1]), "{next_hops:?}");

    let mut effects = Vec::new();
    let recording = BufReader::new(std::fs::File::open(&file).unwrap());
    replay(recording, ReplaySecrets::default(), &mut effects).unwrap();
    std::fs::remove_file(&file).unwrap();
    let lines = effects.split(|&octet| octet == b'\n').filter(|line| !line.is_empty());
    let replayed: Vec<Option<IpAddr>> = lines
        .map(|line| serde_json::from_slice::<Value>(line).unwrap())
        .filter(|line| line["what"]["Send"].is_object())
        .map(|line| line["what"]["Send"]["how"]["next_hop"].as_str().and_then(|t| t.parse().ok()))
        .collect();
    assert_eq!(replayed, next_hops);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Each line of random octets, split anywhere, gets one error, and the next client is served.
    #[test]
    fn random_input_affects_no_other_client(pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..400), 0..8)) {
        let mut host = Host::new();
        let mut vandal = host.connect();
        for piece in &pieces {
            vandal.say(piece);
            host.serve(&vandal);
        }
        let lines = pieces.iter().flatten().filter(|&&octet| octet == b'\n').count();
        prop_assert_eq!(vandal.lines().iter().filter(|answer| answer.get("error").is_some()).count(), lines);
        let mut peer = host.connect();
        let answer = host.ask(&mut peer, r#"{"show":{"what":"links"}}"#);
        prop_assert!(answer.get("ok").is_some());
    }

    /// Valid requests with one octet changed never end the connection.
    #[test]
    fn altered_requests_keep_connection_open(place in 0..SEND.len(), octet in any::<u8>()) {
        let mut host = Host::new();
        let mut peer = host.connect();
        let mut line = SEND.as_bytes().to_vec();
        line[place] = octet;
        peer.say(&line);
        peer.say(b"\n");
        host.serve(&peer);
        prop_assert!(!peer.lines().is_empty());
        let answer = host.ask(&mut peer, r#"{"show":{"what":"counters"}}"#);
        prop_assert!(answer.get("ok").is_some());
    }
}
