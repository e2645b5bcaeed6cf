//! Places and roles of clients: no user keeps others from the control socket, and readers change nothing.

use std::os::unix::net::UnixStream;
use std::time::Duration;

use earmark_linux::PeerCredentials;
use earmarkd::config::Control;
use earmarkd::control::{MAX_CLIENTS, MAX_CLIENTS_PER_USER, RESERVED_CLIENTS, Roles};
use serde_json::{Value, json};

use crate::SEND;
use crate::host::{Host, Peer};

const WATCH: &str = r#"{"watch":{}}"#;
/// Group of operators, and of readers.
const OPERATORS: u32 = 4_001;
const READERS: u32 = 4_002;

fn user(uid: u32, groups: &[u32]) -> PeerCredentials {
    PeerCredentials { pid: 1, uid, groups: groups.to_vec() }
}

/// A connection of a user, with the error if it is refused.
fn connect(host: &mut Host, peer: &PeerCredentials) -> Result<Peer, Value> {
    let (ours, theirs) = UnixStream::pair().unwrap();
    theirs.set_nonblocking(true).unwrap();
    match host.hub.connect_as(ours, peer.clone(), host.now) {
        Some(id) => Ok(Peer { id, stream: theirs, read: Vec::new() }),
        None => {
            let mut refused =
                Peer { id: earmarkd::control::ClientId(0), stream: theirs, read: Vec::new() };
            Err(refused.lines().pop().expect("an error")["error"].clone())
        }
    }
}

fn counter(host: &mut Host, name: &str) -> u64 {
    let mut peer = connect(host, &user(0, &[])).expect("a place for root");
    let answer = host.ask(&mut peer, r#"{"show":{"what":"counters"}}"#);
    answer["ok"]["rows"][0]["control"][name].as_u64().expect("a counter")
}

#[test]
fn idle_connections_of_one_user_lock_nobody_out() {
    let mut host = Host::new();
    let (many, other) = (user(1_001, &[]), user(1_002, &[]));
    let mut flood: Vec<Peer> = Vec::new();
    for _ in 0..4 * MAX_CLIENTS {
        flood.push(connect(&mut host, &many).expect("its own oldest connection ends"));
    }
    let open = flood.iter().filter(|peer| host.is_connected(peer)).count();
    assert_eq!(open, MAX_CLIENTS_PER_USER);
    let told = flood[0].lines().pop().expect("an error");
    assert_eq!(told["error"]["code"], "idle", "{told}");
    for peer in [&other, &user(0, &[])] {
        let mut peer = connect(&mut host, peer).expect("a place for others");
        assert!(host.ask(&mut peer, WATCH).get("ok").is_some());
    }
}

#[test]
fn user_with_busy_connections_is_refused_and_others_are_served() {
    let mut host = Host::new();
    let many = user(1_001, &[]);
    let mut busy = Vec::new();
    for _ in 0..MAX_CLIENTS_PER_USER {
        let mut peer = connect(&mut host, &many).expect("within the share");
        host.ask(&mut peer, WATCH);
        busy.push(peer);
    }
    let refused = connect(&mut host, &many).err().expect("no idle connection");
    assert_eq!(refused["code"], "limit");
    let message = refused["message"].as_str().unwrap();
    assert_eq!(message, "client limit 16 of user 1001 reached");
    assert!(connect(&mut host, &user(1_002, &[])).is_ok());
    assert_eq!(counter(&mut host, "refused_clients"), 1);
    assert!(busy.iter().all(|peer| host.is_connected(peer)));
}

#[test]
fn many_users_leave_places_for_root() {
    let mut host = Host::new();
    let mut peers = Vec::new();
    let mut uid = 1_000;
    let refused = loop {
        uid += 1;
        match connect(&mut host, &user(uid, &[])) {
            Ok(mut peer) => {
                host.ask(&mut peer, WATCH);
                peers.push(peer);
            }
            Err(refused) => break refused,
        }
    };
    assert_eq!(peers.len(), MAX_CLIENTS - RESERVED_CLIENTS);
    assert_eq!(refused["message"], "client limit 64 reached");
    for _ in 0..RESERVED_CLIENTS {
        let mut root = connect(&mut host, &user(0, &[])).expect("reserved");
        host.ask(&mut root, WATCH);
        peers.push(root);
    }
    assert!(connect(&mut host, &user(0, &[])).is_err());
}

#[test]
fn place_comes_from_the_user_with_the_most_connections() {
    let mut host = Host::new();
    let mut peers = Vec::new();
    for (uid, count) in [(1_001, 16), (1_002, 16), (1_003, 14), (1_004, 10)] {
        for _ in 0..count {
            peers.push((uid, connect(&mut host, &user(uid, &[])).expect("a place")));
            host.now = host.now + Duration::from_millis(1);
        }
    }
    let late = connect(&mut host, &user(1_005, &[])).expect("a place of the largest");
    let gone: Vec<u32> =
        peers.iter().filter(|(_, peer)| !host.is_connected(peer)).map(|(uid, _)| *uid).collect();
    assert_eq!(gone, [1_002]);
    assert!(host.is_connected(&late));
}

#[test]
fn idle_connection_is_closed_and_one_in_use_is_not() {
    let mut host = Host::new();
    let timeout = Duration::from_secs(20);
    host.hub = std::mem::take(&mut host.hub).with(Roles::default(), timeout);
    let mut silent = host.connect();
    let mut asking = host.connect();
    let mut slow = host.connect();
    let mut watching = host.connect();
    let mut holding = host.connect();
    let mut following = host.connect();
    host.ask(&mut watching, WATCH);
    host.ask(&mut holding, &SEND.replace("}}", r#","hold":true}}"#));
    host.ask(&mut following, &SEND.replace("5001", "5002").replace("}}", r#","follow":true}}"#));
    for second in 0..3 * timeout.as_secs() {
        host.now = host.now + Duration::from_secs(1);
        if second % 15 == 0 {
            host.ask(&mut asking, r#"{"show":{"what":"links"}}"#);
        }
        // Octets without a request are no use of the place.
        if host.is_connected(&slow) && second < timeout.as_secs() - 1 {
            slow.say(b" ");
            host.serve(&slow);
        }
        host.hub.sweep(host.now, &mut host.driver);
        if second == timeout.as_secs() - 2 {
            assert!(host.is_connected(&silent), "before the timeout");
        }
        assert!(host.hub.next_deadline().is_some_and(|at| at > host.now));
    }
    let told = silent.lines().pop().expect("an error");
    assert_eq!(told["error"]["code"], "idle");
    assert_eq!(told["error"]["message"], "idle connection closed: no request for 20 s");
    for (name, peer, is_open) in [
        ("silent", &silent, false),
        ("slow", &slow, false),
        ("asking", &asking, true),
        ("watching", &watching, true),
        ("holding", &holding, true),
        ("following", &following, true),
    ] {
        assert_eq!(host.is_connected(peer), is_open, "{name}");
    }
    assert_eq!(counter(&mut host, "idle_clients"), 2);
}

#[test]
fn readers_list_and_watch_and_strangers_do_nothing() {
    let mut host = Host::new();
    let mut control = Control::new("/unused");
    control.group = Some(OPERATORS.to_string());
    control.readers = Some(READERS.to_string());
    let roles = Roles::of(&control).unwrap();
    host.hub = std::mem::take(&mut host.hub).with(roles, control.idle_timeout);

    let refused = connect(&mut host, &user(1_001, &[77])).err().expect("a stranger");
    assert_eq!(refused["code"], "forbidden");
    assert_eq!(refused["message"], "user 1001 may not use the control socket");

    let changing = [
        SEND,
        r#"{"listen":{"on":"10.0.1.1:5001"}}"#,
        r#"{"ping":{"to":"10.0.9.9"}}"#,
        r#"{"statistics":{"application":1,"packets":1,"octets":1,"rtp_timestamp":1}}"#,
        r#"{"keep":{"application":1}}"#,
        r#"{"release":{"application":1}}"#,
        r#"{"release":{"all":{}}}"#,
        r#"{"trace":{"to":"10.0.9.9:5001"}}"#,
        r#"{"log":{"set":{"audit":"off"}}}"#,
        r#"{"log":{"reset":true}}"#,
        r#"{"config":{"compare":{}}}"#,
        r#"{"config":{"apply":{}}}"#,
    ];
    let looking = [
        r#"{"log":{}}"#,
        r#"{"show":{"what":"links"}}"#,
        r#"{"show":{"what":"applications"}}"#,
        r#"{"version":{}}"#,
        WATCH,
    ];
    let mut root = connect(&mut host, &user(0, &[])).expect("root");
    let opened = host.ask(&mut root, SEND);
    assert_eq!(opened["ok"]["application"], 1);
    let mut reader = connect(&mut host, &user(1_001, &[77, READERS])).expect("a reader");
    for line in changing {
        let answer = host.ask(&mut reader, line);
        assert_eq!(answer["error"]["code"], "forbidden", "{line}: {answer}");
        let message = answer["error"]["message"].as_str().unwrap();
        assert!(message.ends_with("this request needs group \"4001\""), "{message}");
    }
    for line in looking {
        assert!(host.ask(&mut reader, line).get("ok").is_some(), "{line}");
    }
    let rows = host.ask(&mut root, r#"{"show":{"what":"applications"}}"#);
    assert_eq!(rows["ok"]["rows"].as_array().map(Vec::len), Some(1), "nothing was changed");
    let mut operator = connect(&mut host, &user(1_003, &[OPERATORS])).expect("an operator");
    let released = host.ask(&mut operator, r#"{"release":{"all":{}}}"#);
    assert_eq!(released["ok"]["applications"], json!([1]));
}
