//! Many sessions in one message, and acknowledgements (RFC 5974 sections 3.2.6, 5.3.6, 5.3.7 and 5.4.1).

use std::time::Duration;

use earmark_wire::qos_nslp::iana::Informational;
use earmark_wire::qos_nslp::{Extra, GenericFlags, InfoSpec, Notify, Outcome};

use super::*;

fn with_summaries(nodes: usize) -> Net {
    Net::with(nodes, &|_| Config { summary: 50, ..Config::default() })
}

fn reserve_some(net: &mut Net, sessions: u8) {
    for number in 0..sessions {
        let request = Request {
            session: Some(SessionId([number; 16])),
            ..request(0, of_node(2), Rate::from_bps(64_000))
        };
        let application = Application(number.into());
        net.command(0, Command::Reserve { application, request });
    }
}

#[test]
fn sessions_with_the_same_next_node_share_refreshes() {
    let mut net = with_summaries(3);
    reserve_some(&mut net, 40);
    net.advance(Duration::from_secs(300));
    net.lines();
    let before = net.nodes[2].qos.counters().refreshed;
    net.advance(Duration::from_secs(600));
    let lines = net.lines();
    assert!(lines.iter().all(|line| line.contains("RESERVE 0")), "{lines:?}");
    // Single refreshes would be 1 600: 20 periods of 40 sessions, by two nodes.
    assert!(lines.len() < 100, "{} messages: {:?}", lines.len(), &lines[..60]);
    assert!(net.nodes[2].qos.counters().refreshed - before > 700);
    assert_eq!(net.held(1, RIGHT), Rate::from_bps(40 * 64_000));
    assert_eq!(net.nodes[1].qos.counters().expired, 0);
}

/// A node is told of a route change although it is still on the path: it refreshes the next one again as soon as its previous node
/// shows that it is, also in a summary.
#[test]
fn summary_shows_that_the_node_is_on_the_path() {
    let mut net = with_summaries(3);
    reserve_some(&mut net, 40);
    net.advance(Duration::from_secs(300));
    let info = InfoSpec::new(Outcome::Informational(Informational::RouteChange));
    let flags = GenericFlags::default();
    let changed = emit(&Message::Notify(Notify { flags, info, qspec: None, extra: Extra::NONE }));
    let upstream = mri(0, of_node(2), Direction::Upstream);
    for number in 0..40 {
        net.deliver((2, 1, NSLPID), SessionId([number; 16]), upstream, &changed, true);
    }
    net.run();
    net.advance(Duration::from_secs(600));
    let expired = [1, 2].map(|node: usize| net.nodes[node].qos.counters().expired);
    assert_eq!(expired, [0, 0]);
    assert_eq!(net.held(1, RIGHT), Rate::from_bps(40 * 64_000));
}

/// Sessions whose peer is gone end together, here and further along the path (RFC 5974 section 3.2.6).
#[test]
fn sessions_that_end_together_are_torn_down_in_one_message() {
    let mut net = Net::with(4, &|_| Config { summary: 50, ..Config::default() });
    for number in 0..40 {
        let request = Request {
            session: Some(SessionId([number; 16])),
            ..request(0, of_node(3), Rate::from_bps(64_000))
        };
        let application = Application(number.into());
        net.command(0, Command::Reserve { application, request });
    }
    net.advance(Duration::from_secs(300));
    net.nodes[0] = Net::of(4).nodes.remove(0);
    net.lines();
    net.advance(Duration::from_secs(200));
    let lines = net.lines();
    let tears = |hop: &str| {
        let tears = lines.iter().filter(|line| line.starts_with(hop) && line.contains(" tear"));
        tears.collect::<Vec<_>>()
    };
    assert!((1..10).contains(&tears("1>2").len()), "{:?}", tears("1>2"));
    assert_eq!(tears("1>2").len(), tears("2>3").len());
    assert!(tears("2>3").iter().any(|line| line.contains(" and ")), "{:?}", tears("2>3"));
    net.assert_nothing_left();
    assert_eq!(net.nodes[2].qos.counters().expired, 0);
}

/// Sessions of a summary that the next node does not know are sent in full.
#[test]
fn lost_sessions_of_a_neighbor_are_sent_in_full() {
    let mut net = with_summaries(3);
    reserve_some(&mut net, 10);
    net.advance(Duration::from_secs(300));
    // Node 1 restarts.
    let fresh = Net::with(3, &|_| Config { summary: 50, ..Config::default() });
    net.nodes[1] = fresh.nodes.into_iter().nth(1).expect("node 1");
    net.nodes[1].qos.epoch = 77;
    net.lines();
    net.advance(Duration::from_secs(100));
    let lines = net.lines();
    let asked = "1>0 RESPONSE full QSPEC required";
    assert!(lines.contains(&asked.into()), "{lines:?}");
    assert_eq!(net.nodes[1].qos.session_count(), 10);
    assert_eq!(net.held(1, RIGHT), Rate::from_bps(10 * 64_000));
}

#[test]
fn mismatching_sessions_are_reported() {
    let mut net = with_summaries(2);
    for number in 0..3 {
        let session = Some(SessionId([number; 16]));
        let request = Request { session, ..request(0, of_node(1), Rate::from_bps(64_000)) };
        let application = Application(number.into());
        net.command(0, Command::Reserve { application, request });
    }
    // The far end removes one session, and has a newer sequence number for another one.
    let gone = net.nodes[1].qos.store.find(SessionId([1; 16])).expect("there");
    net.nodes[1].qos.store.remove(gone);
    let other = net.nodes[1].qos.store.find(SessionId([2; 16])).expect("there");
    net.nodes[1].qos.store.session_mut(other).rsn.number = 9;
    net.lines();
    net.advance(Duration::from_secs(200));
    let lines = net.lines();
    let unknown = "1>0 RESPONSE unknown SESSION-ID in SESSION-ID-LIST";
    let mismatching = "1>0 RESPONSE mismatching RSN in RSN-LIST";
    assert!(lines.contains(&unknown.into()) || lines.iter().any(|l| l.contains("full QSPEC")));
    assert!(lines.contains(&mismatching.into()), "{lines:?}");
    assert_eq!(net.nodes[1].qos.session_count(), 3);
}

#[test]
fn refreshes_are_acknowledged_if_configured() {
    let config = Config { acknowledge: true, ..Config::default() };
    let mut net = Net::with(3, &|_| config.clone());
    net.reserve(0, request(0, of_node(2), mbps(1)));
    net.lines();
    net.advance(Duration::from_secs(100));
    let lines = net.lines();
    assert!(lines.contains(&"0>1 RESERVE 0 ack".into()), "{lines:?}");
    assert!(lines.contains(&"1>0 RESPONSE acknowledgement".into()), "{lines:?}");
    assert_eq!(net.events(0).len(), 1, "nobody is missed");
    // Node 2 stops responding; node 1 detects it and notifies the QNI.
    net.unreachable = [2].into();
    net.advance(Duration::from_secs(100));
    let events = net.events(0);
    assert!(matches!(events[..], [Event::Lost { .. }, ..]), "{events:?}");
    assert!(net.lines().contains(&"1>0 NOTIFY path truncated, next peer dead".into()));
}
