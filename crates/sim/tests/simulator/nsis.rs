//! NSIS in whole networks: Ping NSLP finds the nodes of a path, by datagrams and over shared connections.
//!
//! ```text
//!   h1 --0-- r1 --2-- r2 --1-- h2      1 ms each
//! ```

use std::net::IpAddr;
use std::time::Duration;

use earmark_core::{CloseReason, Rate, Transport};
use earmark_node::{Command as NodeCommand, Event as NodeEvent, NodeConfig};
use earmark_nsis::nslp::Attributes;
use earmark_nsis::ping::{Application, Command, Event, Request};
use earmark_nsis::{Command as NsisCommand, Config, Event as NsisEvent};
use earmark_sim::{AcceptPolicy, Faults, LogEvent, NodeId};

use crate::common::{Bench, Family};

const RELIABLE: Attributes = Attributes { reliable: true, secure: false };
const SECURE: Attributes = Attributes { reliable: true, secure: true };

struct Net {
    bench: Bench,
    h1: NodeId,
    h2: NodeId,
    r1: NodeId,
    r2: NodeId,
    end: IpAddr,
}

/// With a port for TLS all connections use TLS, also for messages that need no security.
fn net(family: Family, tls: bool) -> Net {
    let mut nsis = Config::default();
    nsis.gist.associations.tls_port = tls.then_some(271);
    let config = NodeConfig { nsis, ..NodeConfig::default() };
    let mut bench = Bench::with(11, family, config);
    let speed = Rate::from_mbps(10);
    let [r1, r2] = ["r1", "r2"].map(|name| bench.router(name));
    let (h1, _) = bench.host("h1", r1, speed);
    let (h2, _) = bench.host("h2", r2, speed);
    bench.connect(r1, r2, speed);
    bench.route();
    let end = bench.links[1].addresses[0];
    Net { bench, h1, h2, r1, r2, end }
}

impl Net {
    /// Starts to ping the far end, `count` times, once a second.
    fn ping(&mut self, application: u64, attributes: Attributes, count: u32) {
        let request =
            Request { attributes, bandwidth: true, count: Some(count), ..Request::new(self.end) };
        let command = Command::Ping { application: Application(application), request };
        self.bench.network.command(self.h1, NodeCommand::Nsis(NsisCommand::Ping(command)));
    }

    fn run(&mut self, seconds: u64) {
        let until = self.bench.network.now() + Duration::from_secs(seconds);
        self.bench.network.run_until(until);
    }

    /// Returns the ping events since the last call.
    fn told(&mut self) -> Vec<Event> {
        let log = self.bench.network.take_log();
        log.into_iter()
            .filter_map(|entry| match entry.what {
                LogEvent::Event(NodeEvent::Nsis(NsisEvent::Ping(event))) => Some(event),
                _ => None,
            })
            .collect()
    }

    /// Returns the round-trip time and the number of visited nodes of messages that have returned.
    fn pongs(&mut self) -> Vec<(Duration, usize)> {
        let told = self.told();
        told.into_iter()
            .filter_map(|event| match event {
                Event::Pong { round_trip, visits, .. } => Some((round_trip, visits.len())),
                _ => None,
            })
            .collect()
    }
}

/// Whether a time is a round trip of six links, with the transmission time of some hundred octets at 10 Mbit/s.
fn is_a_round_trip(took: Duration) -> bool {
    (Duration::from_millis(6)..Duration::from_millis(9)).contains(&took)
}

#[test]
fn all_nodes_are_found_by_datagrams() {
    for family in [Family::V4, Family::V6] {
        let mut net = net(family, false);
        net.ping(1, Attributes::default(), 3);
        net.run(5);
        let pongs = net.pongs();
        assert_eq!(pongs.len(), 3);
        assert!(pongs.iter().all(|(_, nodes)| *nodes == 4), "{pongs:?}");
        assert!(pongs[1..].iter().all(|(took, _)| is_a_round_trip(*took)), "{pongs:?}");
        let network = &net.bench.network;
        assert!(network.nodes().all(|node| network.connections(node) == 0));
    }
}

/// Each node has one connection with each neighbour, for all sessions.
#[test]
fn sessions_share_connections() {
    for (attributes, family) in
        [(RELIABLE, Family::V4), (RELIABLE, Family::V6), (SECURE, Family::V4)]
    {
        let mut net = net(family, attributes.secure);
        for application in 1..=5 {
            net.ping(application, attributes, 3);
        }
        net.run(6);
        let network = &net.bench.network;
        let connections = network.nodes().map(|node| network.connections(node));
        assert_eq!(connections.collect::<Vec<_>>(), [2, 2, 1, 1], "r1, r2, h1, h2");
        let wanted = if attributes.secure { Transport::Tls } else { Transport::Tcp };
        let opened = network.log().iter().filter_map(|entry| match entry.what {
            LogEvent::Connection(_, Ok(transport)) => Some(transport),
            _ => None,
        });
        assert_eq!(opened.collect::<Vec<_>>(), [wanted; 6], "each at both ends");
        let pongs = net.pongs();
        assert_eq!(pongs.len(), 15);
        let last = &pongs[10..];
        assert!(
            last.iter().all(|(took, nodes)| is_a_round_trip(*took) && *nodes == 4),
            "{pongs:?}"
        );
    }
}

/// Over connections nothing is lost, only delayed.
#[test]
fn bad_links_delay_what_is_sent_reliably() {
    let mut net = net(Family::V4, false);
    let (node, interface) = net.bench.links[2].ends[0];
    let jitter = Duration::from_millis(3);
    let faults = Faults { loss: 0.2, duplication: 0.1, corruption: 0.1, jitter };
    net.ping(1, RELIABLE, 30);
    net.run(3);
    net.bench.network.set_faults(node, interface, faults);
    net.run(60);
    let pongs = net.pongs();
    assert_eq!(pongs.len(), 30);
    assert!(pongs.iter().any(|(took, _)| *took > Duration::from_millis(200)), "{pongs:?}");
}

/// Without a listener, or without possible authentication, a message is lost, and its sender gets an error.
#[test]
fn message_without_possible_connection_is_lost() {
    for (accept_policy, attributes) in
        [(AcceptPolicy::NoOne, RELIABLE), (AcceptPolicy::NotOverTls, SECURE)]
    {
        let mut net = net(Family::V4, attributes.secure);
        net.bench.network.set_accept_policy(net.r1, accept_policy);
        net.ping(1, attributes, 1);
        net.run(60);
        let told = net.told();
        assert!(told.iter().any(|event| matches!(event, Event::Lost { .. })), "{told:?}");
        assert!(!told.iter().any(|event| matches!(event, Event::Pong { .. })), "{told:?}");
    }
}

/// A killed and restarted daemon has no state, its connections break, and all nodes are found again.
#[test]
fn nodes_are_found_again_after_a_restart() {
    let mut net = net(Family::V4, false);
    net.ping(1, RELIABLE, 200);
    net.run(5);
    net.bench.network.kill(net.r2);
    net.run(1);
    let broken = net.bench.network.log().iter().any(|entry| {
        entry.node == net.r1
            && matches!(entry.what, LogEvent::Connection(_, Err(CloseReason::Broken)))
    });
    assert!(broken, "its neighbour knows");
    net.bench.network.restart(net.r2, Duration::from_secs(30));
    net.run(120);
    net.told();
    net.run(20);
    let pongs = net.pongs();
    assert!(pongs.len() >= 19, "{pongs:?}");
    assert!(pongs.iter().all(|(took, nodes)| is_a_round_trip(*took) && *nodes == 4), "{pongs:?}");
    assert!(net.bench.network.connections(net.h2) > 0);
}

/// Another machine in the place of a router knows no connection, and nobody is told before it gets a segment of one.
#[test]
fn replaced_router_is_connected_anew() {
    let mut net = net(Family::V4, false);
    net.ping(1, RELIABLE, 40);
    net.run(10);
    let before = net.pongs().len();
    assert!(before >= 9, "{before}");
    net.bench.network.replace(net.r1);
    let network = &net.bench.network;
    assert_eq!([net.h1, net.r1].map(|node| network.connections(node)), [1, 0]);
    net.run(30);
    let pongs = net.pongs();
    assert!(pongs.len() > 20 && pongs.iter().all(|(_, nodes)| *nodes == 4), "{pongs:?}");
}
