//! Networks of nodes in virtual time: the behaviour of data and signalling, and its determinism.

use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;
use std::time::Duration;

use earmark_core::{Hop, InterfaceId, Prefix, Rate, Route, Secret, Time};
use earmark_node::{Command, Event, Listen, NodeConfig};
use earmark_rsvp::integrity::{Algorithm, Directions, HandshakeMode, Key, Settings};
use earmark_rsvp::{self as rsvp, Application};
use earmark_sim::{
    Direction, HookedMessage, Keep, LinkEnd, LinkSpec, LogEntry, LogEvent, MessageAction,
    MessageHook, Network, NodeId, Source, StreamId, TrafficPattern,
};
use earmark_wire::intserv::TokenBucket;
use earmark_wire::ipv4;
use earmark_wire::rsvp::{FilterSpec, Message, MessageType, Session, SourceSelector};

const SENDER: Application = Application(1);
const RECEIVER: Application = Application(2);

/// h1 (10.0.0.1) --100 Mbit/s-- (10.0.0.2) r1 (10.0.1.1) --10 Mbit/s, 1 ms-- (10.0.1.2) h2
struct Net {
    network: Network,
    h1: NodeId,
    r1: NodeId,
    h2: NodeId,
    /// r1's interface towards h2.
    narrow: InterfaceId,
}

fn address(text: &str) -> IpAddr {
    text.parse().unwrap()
}

fn net(seed: u64) -> Net {
    net_that_signs(seed, &Settings::default())
}

fn net_that_signs(seed: u64, integrity: &Settings) -> Net {
    let mut network = Network::new(seed);
    let timing =
        rsvp::Timing { refresh: Duration::from_secs(2), lifetime_factor: 3, ..Default::default() };
    let integrity = || integrity.clone();
    let rsvp = || rsvp::Config { timing, integrity: integrity(), ..rsvp::Config::default() };
    let config = || NodeConfig { rsvp: rsvp(), ..NodeConfig::default() };
    let h1 = network.add_node("h1", false, config());
    let r1 = network.add_node("r1", true, config());
    let h2 = network.add_node("h2", false, config());
    let end = |node, interface: &str, at| LinkEnd {
        node,
        interface: interface.into(),
        address: address(at),
    };
    let link = |ends, prefix: &str, mbps| LinkSpec {
        ends,
        prefix: prefix.parse().unwrap(),
        bandwidth: Rate::from_mbps(mbps),
        reservable: Rate::from_mbps(mbps).share(0.75),
        delay: Duration::from_millis(1),
        queue_packets: 50,
    };
    let [h1_out, _] = network.add_link(link(
        [end(h1, "eth0", "10.0.0.1"), end(r1, "eth0", "10.0.0.2")],
        "10.0.0.0/30",
        100,
    ));
    let [narrow, h2_out] = network.add_link(link(
        [end(r1, "eth1", "10.0.1.1"), end(h2, "eth0", "10.0.1.2")],
        "10.0.1.0/30",
        10,
    ));
    for (node, interface, gateway) in [(h1, h1_out, "10.0.0.2"), (h2, h2_out, "10.0.1.1")] {
        let prefix = Prefix::new(address("0.0.0.0"), 0);
        let hop = Hop { interface, gateway: Some(address(gateway)), source: None };
        network.add_route(node, Route { prefix, metric: 0, hop });
    }
    Net { network, h1, r1, h2, narrow }
}

impl Net {
    /// Runs until the reservation is restored at r1, whose daemon is back since second 5; returns whether this took at
    /// most one refresh interval and a round trip.
    fn is_restored(&mut self) -> bool {
        let r1 = self.r1;
        let stands = |node, event: &Event| {
            node == r1 && matches!(event, Event::Rsvp(rsvp::Event::Reservation { .. }))
        };
        let within = Time::from_secs(5) + Duration::from_millis(3_000 + 20);
        self.network.run_until_event(within, stands).is_some()
    }

    fn source(&mut self, port: u16, mbps: u64, packet_octets: u32) -> StreamId {
        self.network.add_source(Source {
            node: self.h1,
            port,
            destination: address("10.0.1.2"),
            destination_port: port,
            dscp: 0,
            pattern: TrafficPattern::Constant(Rate::from_mbps(mbps)),
            packet_octets,
            from: Time::ZERO,
            until: Time::MAX,
            keep: Keep::Packets,
        })
    }

    /// Requests a reservation for the stream on port 5001.
    fn reserve(&mut self, mbps: u64) {
        let session =
            Session { destination: address("10.0.1.2"), protocol: 17, flags: 0, port: 5_001 };
        let listen = Listen { confirm: true, ..Listen::new(RECEIVER, session) };
        self.network.command(self.h2, Command::Listen(listen));
        let open = rsvp::Command::Session { application: SENDER, session };
        self.network.command(self.h1, Command::Rsvp(open));
        let template =
            FilterSpec { source: address("10.0.0.1"), selector: SourceSelector::Port(5_001) };
        let tspec = TokenBucket {
            rate: Rate::from_mbps(mbps).as_octets_per_second(),
            depth: 10_000.0,
            peak: f32::INFINITY,
            min_policed_unit: 1_000,
            max_packet_size: 1_000,
        };
        let send = rsvp::Command::Sender { application: SENDER, template, tspec, ttl: 64 };
        self.network.command(self.h1, Command::Rsvp(send));
    }

    fn release(&mut self) {
        for (node, application) in [(self.h1, SENDER), (self.h2, RECEIVER)] {
            self.network.command(node, Command::Rsvp(rsvp::Command::Release { application }));
        }
    }

    fn run(&mut self, seconds: u64) {
        self.network.run_until(Time::from_secs(seconds));
    }

    fn loss(&self, stream: StreamId, from: u64, until: u64) -> f64 {
        let trace = self.network.trace(stream);
        trace.figures(Time::from_secs(from), Time::from_secs(until)).loss
    }

    fn entries(&self, node: NodeId, wanted: impl Fn(&LogEvent) -> bool) -> Vec<&LogEntry> {
        self.network.log().iter().filter(|e| e.node == node && wanted(&e.what)).collect()
    }
}

/// One Mbit/s over an idle path: no loss, and the delay is that of the links: 992 octets with framing at 100 and at 10
/// Mbit/s, and twice 1 ms.
#[test]
fn an_idle_path_delays_by_its_links() {
    let mut net = net(1);
    let stream = net.source(5_001, 1, 986);
    net.run(10);
    let figures = net.network.trace(stream).figures(Time::from_secs(1), Time::from_secs(9));
    assert_eq!(figures.loss, 0.0);
    let delay = figures.delay_p50_ms.unwrap();
    assert!((delay - (2.0 + 0.08 + 0.8)).abs() < 1e-6, "{delay}");
    assert!((figures.offered_bps as f64 - 1e6).abs() < 5e3, "{figures:?}");
}

/// 22 Mbit/s into 10: best effort loses 55 %, equally in all streams.
#[test]
fn a_flood_takes_what_is_not_reserved() {
    let mut net = net(1);
    let stream = net.source(5_001, 2, 1_000);
    let flood = net.source(5_002, 20, 1_400);
    net.run(10);
    for stream in [stream, flood] {
        let loss = net.loss(stream, 1, 9);
        assert!((0.4..0.8).contains(&loss), "{loss}");
    }
}

/// The reserved stream loses nothing from the installation of its reservation until its release.
#[test]
fn a_reservation_keeps_its_rate_until_released() {
    let mut net = net(1);
    let stream = net.source(5_001, 2, 1_000);
    net.source(5_002, 20, 1_400);
    net.run(2);
    net.reserve(2);
    net.run(12);
    net.release();
    net.run(20);
    assert!(net.loss(stream, 0, 2) > 0.3);
    // Packets in the queue at the release are treated as best effort.
    assert_eq!(net.loss(stream, 3, 11), 0.0);
    assert!(net.loss(stream, 13, 18) > 0.3);
    let r1 = net.network.node(net.r1).unwrap();
    assert_eq!(r1.link_rows().map(|link| link.held_bps.as_bps()).sum::<u64>(), 0);
}

/// Neighbours without a security association challenge each other first (RFC 2747 section 4.3). Messages lost meanwhile
/// are sent again at once, so a setup takes a few round trips of 2 ms more, and not a refresh period. The reservation
/// is refreshed and ends normally, too.
#[test]
fn signing_neighbors_reserve_within_a_few_round_trips() {
    let mut plain = net(1);
    let mut signing = net_that_signs(1, &signed_by(b"only these three know"));
    let confirmed = [&mut plain, &mut signing].map(|net| {
        net.reserve(2);
        let event = |_, event: &Event| matches!(event, Event::Rsvp(rsvp::Event::Confirmed { .. }));
        net.network.run_until_event(Time::from_secs(1), event).expect("a ResvConf").at
    });
    assert!(confirmed[0] < confirmed[1], "there was a handshake");
    assert!(confirmed[1] < Time::from_millis(20), "{confirmed:?}");
    signing.run(60);
    let held = |net: &Net| {
        let r1 = net.network.node(net.r1).unwrap();
        r1.link_rows().map(|link| link.held_bps.as_bps()).sum::<u64>()
    };
    assert_eq!(held(&signing), 2_000_000, "it was refreshed");
    signing.release();
    signing.run(62);
    assert_eq!(held(&signing), 0);
}

fn signed_by(secret: &[u8]) -> Settings {
    let key = Key {
        id: 1,
        algorithm: Algorithm::HmacSha256,
        secret: Secret::new(secret),
        purpose: Directions::Both,
        start: Time::ZERO,
        age: Default::default(),
        end: Time::MAX,
        interfaces: vec![],
        neighbors: vec![],
    };
    Settings {
        interfaces: ["eth0", "eth1"].map(|name| (name.to_owned(), Directions::Both)).into(),
        keys: vec![key],
        handshake: HandshakeMode::Required,
        ..Settings::default()
    }
}

/// Ten Mbit/s do not fit 7.5: the receiver gets an error, and r1 holds nothing.
#[test]
fn reservation_over_capacity_is_refused() {
    let mut net = net(1);
    net.network.watch_attempts();
    net.reserve(10);
    let h2 = net.h2;
    let refused = |node, event: &Event| {
        node == h2 && matches!(event, Event::Rsvp(rsvp::Event::ResvError { .. }))
    };
    let entry = net.network.run_until_event(Time::from_secs(1), refused).expect("a ResvErr");
    let LogEvent::Event(Event::Rsvp(rsvp::Event::ResvError { error, .. })) = entry.what else {
        unreachable!("asked for");
    };
    assert_eq!((error.node, error.code.code()), (address("10.0.1.1"), 1));
    assert_eq!(net.entries(net.r1, |what| matches!(what, LogEvent::Installed(_))).len(), 0);
    let attempts = net.entries(net.r1, |what| matches!(what, LogEvent::Attempt(_)));
    let [LogEvent::Attempt(attempt)] =
        attempts.iter().map(|entry| &entry.what).collect::<Vec<_>>()[..]
    else {
        panic!("{attempts:?}");
    };
    assert_eq!(
        (attempt.link, attempt.rate, attempt.granted),
        (net.narrow, Rate::from_mbps(10), false)
    );
}

/// The daemon of r1 dies; its class remains. The next daemon finds it, and knows the reservation again with the first
/// Path: that arrives within 1.5 R = 3 s (RFC 2205 section 3.7), and the Path that r1 forwards has a new handle in the
/// hop, which makes the Resv follow at once. 20 ms are for the round trip.
#[test]
fn a_killed_daemon_is_replaced_unnoticed() {
    let mut net = net(1);
    let stream = net.source(5_001, 2, 1_000);
    net.source(5_002, 20, 1_400);
    net.reserve(2);
    net.run(4);
    net.network.kill(net.r1);
    net.run(5);
    assert!(net.network.node(net.r1).is_none());
    net.network.restart(net.r1, Duration::from_secs(11));
    let r1 = net.r1;
    let narrow = net.narrow;
    let adopted = |net: &Net| {
        let node = net.network.node(r1).expect("it lives");
        node.link_rows().find(|link| link.index == narrow.0).map(|link| (link.claims, link.adopted))
    };
    assert_eq!(adopted(&net), Some((0, 1)));
    assert!(net.is_restored(), "state forms again with the first Path");
    assert_eq!(adopted(&net), Some((1, 0)));
    net.run(30);
    assert_eq!(net.loss(stream, 1, 29), 0.0);
    let rows = net.network.node(net.r1).unwrap();
    let narrow = rows.link_rows().find(|link| link.index == net.narrow.0).unwrap();
    assert_eq!((narrow.held_bps.as_bps(), narrow.adopted), (2_000_000, 0));
}

/// For every seed, no restart takes longer than the first Path.
#[test]
fn state_is_restored_within_one_refresh_interval() {
    for seed in 1..=20 {
        let mut net = net(seed);
        net.reserve(2);
        net.run(4);
        net.network.kill(net.r1);
        net.run(5);
        net.network.restart(net.r1, Duration::from_secs(11));
        assert!(net.is_restored(), "seed {seed}");
    }
}

/// A dead daemon's reservation that is not claimed is removed after the grace period.
#[test]
fn unclaimed_reservation_is_reaped() {
    let mut net = net(1);
    let stream = net.source(5_001, 2, 1_000);
    net.source(5_002, 20, 1_400);
    net.reserve(2);
    net.run(4);
    net.network.kill(net.r1);
    net.network.kill(net.h1);
    net.network.kill(net.h2);
    net.network.restart(net.r1, Duration::from_secs(10));
    net.run(24);
    assert_eq!(net.loss(stream, 1, 13), 0.0);
    assert!(net.loss(stream, 15, 23) > 0.3);
}

/// A refusal by traffic control is a protocol error: the receiver gets it.
#[test]
fn refusing_traffic_control_is_reported() {
    let mut net = net(1);
    net.network.refuse_installations(net.r1, Some(12));
    net.reserve(2);
    let h2 = net.h2;
    let told = |node, event: &Event| {
        node == h2 && matches!(event, Event::Rsvp(rsvp::Event::ResvError { .. }))
    };
    assert!(net.network.run_until_event(Time::from_secs(2), told).is_some());
    let refused = net.entries(net.r1, |what| matches!(what, LogEvent::Refused(_, 12)));
    assert!(!refused.is_empty());
}

/// A dead daemon's reservation is removed when its flow is requested again and refused: its bandwidth is free then.
#[test]
fn refused_flows_leave_nothing_of_a_dead_daemon() {
    let mut net = net(1);
    net.reserve(2);
    net.run(4);
    net.network.kill(net.r1);
    net.network.refuse_installations(net.r1, Some(12));
    net.network.restart(net.r1, Duration::from_secs(300));
    assert_eq!(net.network.traffic_control(net.r1).count(), 1);
    net.run(100);
    let refused = net.entries(net.r1, |what| matches!(what, LogEvent::Refused(..)));
    assert!(!refused.is_empty());
    assert_eq!(net.network.traffic_control(net.r1).count(), 0);
    let ledger = net.network.node(net.r1).expect("it lives").ledger();
    assert!(ledger.links().all(|(_, link)| link.held == Rate::ZERO && link.adopted == 0));
}

/// Two runs with one seed have equal logs, entry by entry; another seed gives a different log.
#[test]
fn the_log_depends_on_the_seed_alone() {
    let run = |seed| {
        let mut net = net(seed);
        net.source(5_001, 2, 1_000);
        net.source(5_002, 20, 1_400);
        net.reserve(2);
        net.run(10);
        net.network.kill(net.r1);
        net.network.restart(net.r1, Duration::from_secs(5));
        net.run(20);
        net.release();
        net.run(25);
        let lines = net.network.log().iter().map(|entry| serde_json::to_string(entry).unwrap());
        lines.collect::<Vec<_>>()
    };
    let first = run(7);
    assert!(first.len() > 50, "{}", first.len());
    assert_eq!(first, run(7));
    assert_ne!(first, run(8));
}

/// The tap of a router records each forwarded message twice, as whole IP packets that others can parse.
#[test]
fn tap_records_packets_of_a_node() {
    let mut net = net(1);
    net.network.capture(net.r1);
    net.source(5_001, 2, 1_000);
    net.reserve(2);
    net.run(1);
    let tapped = net.network.take_captured(net.r1);
    let messages: Vec<_> = tapped
        .iter()
        .map(|tapped| {
            let packet = ipv4::Packet::parse(&tapped.octets).expect("an IP packet");
            Message::parse(packet.payload()).expect("a message").body.message_type()
        })
        .collect();
    use MessageType::{Ack, Path, Resv, ResvConf};
    // The acknowledgements of the neighbours follow later.
    assert_eq!(messages[..6], [Path, Path, Resv, Resv, ResvConf, ResvConf]);
    assert!(messages[6..].iter().all(|&kind| kind == Ack));
    assert!(tapped.is_sorted_by_key(|tapped| tapped.at));
    assert!(net.network.take_captured(net.h1).is_empty(), "no tap there");
}

/// Messages that a hook has seen.
type Seen = Rc<RefCell<Vec<(NodeId, Direction, Vec<u8>)>>>;

/// Sees the messages at all interfaces, and replaces or drops them by a rule.
struct Hook {
    seen: Seen,
    rule: fn(&HookedMessage<'_>) -> MessageAction,
}

impl MessageHook for Hook {
    fn message(&mut self, message: &HookedMessage<'_>) -> MessageAction {
        let packet =
            ipv4::Packet::parse(message.packet.expect("a valid packet")).expect("a packet");
        assert_eq!(packet.payload(), message.octets);
        assert_eq!(IpAddr::from(packet.source()), message.source);
        let octets = message.octets.to_vec();
        self.seen.borrow_mut().push((message.node, message.direction, octets));
        (self.rule)(message)
    }
}

#[test]
fn hook_sees_messages_and_may_drop_or_replace_them() {
    let play = |rule: fn(&HookedMessage<'_>) -> MessageAction| {
        let mut net = net(7);
        let seen = Seen::default();
        net.network.set_message_hook(Some(Box::new(Hook { seen: Rc::clone(&seen), rule })));
        net.reserve(2);
        net.run(20);
        let reserved = net.network.traffic_control(net.r1).count();
        assert!(seen.borrow().iter().all(|(node, ..)| [net.h1, net.r1, net.h2].contains(node)));
        (seen.take(), reserved)
    };
    let (seen, reserved) = play(|_| MessageAction::Pass);
    assert_eq!(reserved, 1);
    let ways = [Direction::Out, Direction::In];
    let [sent, received] = ways.map(|way| seen.iter().filter(|(_, seen, _)| *seen == way).count());
    assert!(
        sent == received && sent > 20,
        "refreshes of three nodes in both directions: {sent}, {received}"
    );
    let (_, reserved) = play(|_| MessageAction::Drop);
    assert_eq!(reserved, 0);
    // Without its last octet, a message is malformed.
    let (seen, reserved) = play(|message| match message.direction {
        Direction::Out => MessageAction::Replace(message.octets[..message.octets.len() - 1].into()),
        Direction::In => MessageAction::Pass,
    });
    assert_eq!(reserved, 0);
    let [(_, Direction::Out, sent), (_, Direction::In, received), ..] = &seen[..] else {
        panic!("{seen:?}")
    };
    assert_eq!(received[..], sent[..sent.len() - 1]);
}
