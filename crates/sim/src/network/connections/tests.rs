//! Connections alone, over a channel that loses, duplicates and reorders; and between the nodes of a network.

use alloc::collections::BTreeMap;
use alloc::string::ToString;
use alloc::vec;
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::time::Duration;

use earmark_core::random::{RandomStreams, Stream};
use earmark_core::{Hop, InterfaceId, Prefix, Rate, Route, Time, Transport};
use earmark_node::NodeConfig;
use proptest::prelude::*;

use super::*;
use crate::connections::endpoint::BACKLOG;
use crate::{Faults, LinkEnd, LinkSpec};

const CONNECTION: ConnectionId = ConnectionId(2);
const LONGEST: usize = 1_000;

/// Two endpoints and the channel between them.
struct Channel {
    now: Time,
    ends: [Option<Endpoint>; 2],
    /// Segments in flight, by arrival time, with the receiving side.
    flying: BTreeMap<(Time, u64), (usize, Segment)>,
    entered: u64,
    random: Stream,
    /// Lost segments of 256.
    loss: u64,
    /// Duplicated segments of 256.
    twice: u64,
    jitter: Duration,
    reads: [bool; 2],
    accept_policy: AcceptPolicy,
    heard: [Vec<u8>; 2],
    told: [Vec<ConnectionEvent>; 2],
    /// Whether an endpoint ended because its retransmissions were not answered.
    gave_up: bool,
}

impl Channel {
    fn new(seed: u64, transport: Transport) -> Channel {
        let (end, output) = Endpoint::connect(CONNECTION, transport, LONGEST, Time::ZERO);
        let mut channel = Channel {
            now: Time::ZERO,
            ends: [Some(end), None],
            flying: BTreeMap::new(),
            entered: 0,
            random: RandomStreams::new(seed).stream("channel"),
            loss: 0,
            twice: 0,
            jitter: Duration::ZERO,
            reads: [true; 2],
            accept_policy: AcceptPolicy::Everyone,
            heard: [vec![], vec![]],
            told: [vec![], vec![]],
            gave_up: false,
        };
        channel.execute_output(0, output);
        channel
    }

    /// Returns a channel with heavy loss, duplication and reordering.
    fn bad(seed: u64, transport: Transport) -> Channel {
        let jitter = Duration::from_millis(30);
        Channel { loss: 50, twice: 30, jitter, ..Channel::new(seed, transport) }
    }

    fn execute_output(&mut self, from: usize, output: EndpointOutput) {
        for segment in output.segments {
            assert!(segment.payload.len() <= LONGEST);
            let copies = match self.random.next_u64() % 256 {
                drawn if drawn < self.loss => 0,
                drawn if drawn < self.loss + self.twice => 2,
                _ => 1,
            };
            for _ in 0..copies {
                let delay = self.random.uniform(Duration::ZERO, self.jitter);
                let at = self.now + Duration::from_millis(10) + delay;
                self.entered += 1;
                self.flying.insert((at, self.entered), (1 - from, segment.clone()));
            }
        }
        for event in output.events {
            match event {
                ConnectionEvent::Data(octets) => self.heard[from].extend(octets),
                other => self.told[from].push(other),
            }
        }
        if self.ends[from].as_ref().is_some_and(Endpoint::is_done) {
            self.ends[from] = None;
        }
    }

    /// Processes the next event; `false` if there is none.
    fn step(&mut self) -> bool {
        let timer = |side: usize| self.ends[side].as_ref().and_then(|end| end.timer);
        let timers = [0, 1].into_iter().filter_map(|side| Some((timer(side)?, side)));
        let (timer, flight) = (timers.min(), self.flying.keys().next().copied());
        match (timer, flight) {
            (None, None) => return false,
            (Some((at, side)), flight) if flight.is_none_or(|(arrives, _)| at < arrives) => {
                self.now = at;
                let end = self.ends[side].as_mut().expect("it has a timer");
                let output = end.retransmit(at);
                self.gave_up |= end.is_done();
                self.execute_output(side, output);
            }
            _ => {
                let ((at, _), (side, segment)) = self.flying.pop_first().expect("one flies");
                self.now = at;
                self.arrive(side, segment);
            }
        }
        true
    }

    fn arrive(&mut self, side: usize, segment: Segment) {
        let (now, reads, accept_policy) = (self.now, self.reads[side], self.accept_policy);
        let output = match &mut self.ends[side] {
            Some(end) => end.receive(segment, now, reads, accept_policy),
            None if segment.flags == flag::SYN && side == 1 => {
                let (end, output) = Endpoint::accept(CONNECTION, LONGEST, now, &segment);
                self.ends[1] = Some(end);
                output
            }
            None => {
                let segments = segment.reset_reply().into_iter().collect();
                EndpointOutput { segments, events: vec![] }
            }
        };
        self.execute_output(side, output);
    }

    /// Processes events until `done`, for at most an hour.
    fn run(&mut self, done: impl Fn(&Channel) -> bool) {
        while !done(self) && self.now < Time::from_secs(3_600) && self.step() {}
    }

    fn write(&mut self, side: usize, octets: &[u8]) {
        let now = self.now;
        let output = self.ends[side].as_mut().expect("it lives").write(octets, now);
        self.execute_output(side, output);
    }

    fn close(&mut self, side: usize) {
        let now = self.now;
        let output = self.ends[side].as_mut().expect("it lives").close(now);
        self.execute_output(side, output);
    }
}

fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place % 251) as u8).collect()
}

/// A connection opens after one round trip, and with TLS after two.
#[test]
fn opening_takes_one_round_trip_or_two_with_tls() {
    for (transport, millis) in [(Transport::Tcp, 20), (Transport::Tls, 40)] {
        let mut channel = Channel::new(1, transport);
        channel.run(|channel| !channel.told[0].is_empty());
        assert_eq!(channel.now, Time::from_millis(millis), "{transport:?}");
        assert_eq!(channel.told[0], [ConnectionEvent::Open(transport)]);
        assert_eq!(channel.told[1], [], "it has said nothing yet");
        channel.write(0, b"hello");
        channel.run(|channel| !channel.heard[1].is_empty());
        assert_eq!(channel.now, Time::from_millis(millis + 10));
        assert_eq!(
            (&channel.heard[1][..], &channel.told[1][..]),
            (&b"hello"[..], &[ConnectionEvent::Open(transport)][..])
        );
    }
}

#[test]
fn refused_caller_gets_the_reason() {
    let mut channel =
        Channel { accept_policy: AcceptPolicy::NotOverTls, ..Channel::new(1, Transport::Tls) };
    channel.run(|_| false);
    assert_eq!(
        channel.told,
        [vec![ConnectionEvent::Closed(CloseReason::NotAuthenticated)], vec![]]
    );
    assert!(channel.ends.iter().all(Option::is_none));
}

/// Two windows of octets wait, and continue when there is room.
#[test]
fn unread_octets_block_the_sender_and_are_not_lost() {
    let mut channel = Channel { reads: [true, false], ..Channel::new(1, Transport::Tcp) };
    let all = pattern(200_000);
    channel.run(|channel| !channel.told[0].is_empty());
    channel.write(0, &all);
    channel.run(|channel| channel.now > Time::from_secs(600));
    assert_eq!(
        channel.told,
        [vec![ConnectionEvent::Open(Transport::Tcp)], vec![]],
        "nobody gave up"
    );
    channel.reads = [true; 2];
    let now = channel.now;
    let output =
        channel.ends[1].as_mut().expect("it lives").resume_reading(now, AcceptPolicy::Everyone);
    channel.execute_output(1, output);
    channel.run(|channel| channel.heard[1].len() == 200_000);
    assert!(channel.heard[1] == all);
    assert!(channel.now < Time::from_secs(603), "{}", channel.now);
}

#[test]
fn full_send_buffer_closes_the_connection() {
    let mut channel = Channel { reads: [true, false], ..Channel::new(1, Transport::Tcp) };
    channel.run(|channel| !channel.told[0].is_empty());
    channel.write(0, &pattern(BACKLOG));
    assert_eq!(channel.told[0].len(), 1);
    channel.write(0, &[1]);
    assert_eq!(channel.told[0][1..], [ConnectionEvent::Closed(CloseReason::Backlog)]);
    channel.run(|_| false);
    assert!(channel.ends.iter().all(Option::is_none), "the other end was told, too");
}

#[test]
fn silent_peer_is_detected_when_sending() {
    let mut channel = Channel::new(1, Transport::Tcp);
    channel.run(|channel| !channel.told[0].is_empty());
    channel.loss = 256;
    channel.write(0, b"hello");
    let begun = channel.now;
    channel.run(|_| false);
    assert_eq!(channel.told[0][1..], [ConnectionEvent::Closed(CloseReason::TimedOut)]);
    let took = channel.now.since(begun).as_secs();
    assert!((38..=39).contains(&took), "{took} s");
}

/// All octets arrive in order, also if sequence numbers wrap.
fn all_arrives(seed: u64, transport: Transport, chunks: &[(usize, usize)]) {
    let mut channel = Channel::bad(seed, transport);
    channel.run(|channel| !channel.told[0].is_empty());
    if channel.told[0] != [ConnectionEvent::Open(transport)] {
        return; // the SYN was lost seven times
    }
    let mut written = [vec![], vec![]];
    for &(side, length) in chunks {
        let octets = pattern(length);
        // The called side may write after it has received something.
        if channel.ends[side].is_some() && !channel.told[side].is_empty() {
            channel.write(side, &octets);
            written[side].extend(octets);
        }
        for _ in 0..20 {
            channel.step();
        }
    }
    channel.run(|channel| channel.heard[1] == written[0] && channel.heard[0] == written[1]);
    if channel.gave_up {
        return; // the same segment was lost seven times
    }
    assert!(channel.heard[1] == written[0] && channel.heard[0] == written[1]);
    channel.close(0);
    channel.run(|_| false);
    if channel.gave_up {
        return; // the FIN was: an endpoint with nothing to send cannot detect it
    }
    assert!(channel.ends.iter().all(Option::is_none), "both ends are done");
    if channel.told[1].len() > 1 {
        assert!(matches!(
            channel.told[1][1],
            ConnectionEvent::Closed(CloseReason::Ended | CloseReason::Broken)
        ));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        failure_persistence: None,
        ..ProptestConfig::with_cases(64)
    })]

    #[test]
    fn octets_arrive_once_and_in_order(
        seed: u64,
        tls: bool,
        chunks in prop::collection::vec((0..2_usize, 0..9_000_usize), 1..30),
    ) {
        all_arrives(seed, if tls { Transport::Tls } else { Transport::Tcp }, &chunks);
    }

    #[test]
    fn segment_is_decoded_as_encoded(
        source_port: u16, destination_port: u16, sequence: u32, acknowledgement: u32, flags: u8,
        window: u16, payload: Vec<u8>, v6: bool, bit: prop::sample::Index,
    ) {
        let flags = flags & (flag::SYN | flag::FIN | flag::ACK | flag::RST);
        let segment = Segment {
            source_port, destination_port, sequence, acknowledgement, flags, window, payload,
        };
        let (a, b): (IpAddr, IpAddr) =
            if v6 { ([1; 16].into(), [2; 16].into()) } else { ([1; 4].into(), [2; 4].into()) };
        let mut octets = segment.octets(a, b);
        prop_assert_eq!(Segment::parse(&octets, a, b), Some(segment));
        let bit = bit.index(octets.len() * 8);
        octets[bit / 8] ^= 1 << (bit % 8);
        prop_assert_eq!(Segment::parse(&octets, a, b), None, "one bit is found");
    }
}

/// ```text
/// h1 ---- r ---- h2      5 ms each
/// ```
struct Net {
    network: Network,
    h1: NodeId,
    h2: NodeId,
    link: InterfaceId,
}

const FROM: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
const TO: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1)), 4_000);

/// Returns settings of a node that waits without limit for the rest of a message.
fn patient() -> NodeConfig {
    let mut config = NodeConfig::default();
    config.nsis.gist.associations.connect_timeout = Duration::from_secs(3_600);
    config.nsis.gist.limits.half_open_octets = u32::MAX;
    config
}

/// Returns the beginning of the longest GIST message: the engine does not judge an incomplete one.
fn beginning(length: usize) -> Vec<u8> {
    let mut octets = pattern(length);
    octets[..8].copy_from_slice(&[1, 64, 0xff, 0xff, 0, 0, 3, 0]);
    octets
}

fn net(daemon: bool) -> Net {
    let mut network = Network::new(3);
    let h1 = network.add_node("h1", false, NodeConfig::default());
    let r = network.add_node("r", true, NodeConfig::default());
    let h2 = match daemon {
        true => network.add_node("h2", false, patient()),
        false => network.add_plain_node("h2", false),
    };
    let mut links = Vec::new();
    for (number, host) in [(0, h1), (1, h2)] {
        let address = |at| IpAddr::V4(Ipv4Addr::new(10, 0, number, at));
        let end = |node, at| LinkEnd { node, interface: "eth".to_string(), address: address(at) };
        let ids = network.add_link(LinkSpec {
            ends: [end(host, 1), end(r, 2)],
            prefix: Prefix::new(address(0), 24),
            bandwidth: Rate::from_mbps(1_000),
            reservable: Rate::from_mbps(1_000),
            delay: Duration::from_millis(5),
            queue_packets: 100,
        });
        let hop = Hop { interface: ids[0], gateway: Some(address(2)), source: None };
        let prefix = Prefix::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        network.add_route(host, Route { prefix, metric: 1, hop });
        links.push(ids[0]);
    }
    Net { network, h1, h2, link: links[0] }
}

impl Net {
    fn connect(&mut self, transport: Transport) {
        let (connection, source, destination) = (CONNECTION, FROM, TO);
        self.network
            .connect_stream(self.h1, &Connect { connection, source, destination, transport });
    }

    fn run(&mut self, millis: u64) {
        let until = self.network.now() + Duration::from_millis(millis);
        self.network.run_until(until);
    }

    /// Returns the connection events since the last call: node, time in milliseconds, result.
    fn seen(&mut self) -> Vec<(NodeId, u128, Result<Transport, CloseReason>)> {
        let log = self.network.take_log();
        log.iter()
            .filter_map(|entry| match entry.what {
                LogEvent::Connection(_, what) => {
                    Some((entry.node, entry.at.since(Time::ZERO).as_millis(), what))
                }
                _ => None,
            })
            .collect()
    }
}

/// Packets take 10 ms each way and some microseconds.
#[test]
fn connection_through_router_closes_at_both_ends() {
    let mut net = net(true);
    net.connect(Transport::Tls);
    net.network.write_stream(net.h1, CONNECTION, &beginning(100_000));
    net.run(2_000);
    let (h1, h2) = (net.h1, net.h2);
    assert_eq!(net.seen(), [(h1, 40, Ok(Transport::Tls)), (h2, 50, Ok(Transport::Tls))]);
    assert_eq!(net.network.connections(h1), 1);
    net.network.close_stream(h1, CONNECTION);
    net.run(2_000);
    assert_eq!(net.seen(), [(h2, 2_010, Err(CloseReason::Ended))]);
    assert_eq!((net.network.connections(h1), net.network.connections(h2)), (0, 0));
}

#[test]
fn connection_without_listener_is_refused() {
    for daemon in [false, true] {
        let mut net = net(daemon);
        net.network.set_accept_policy(net.h2, AcceptPolicy::NoOne);
        net.connect(Transport::Tcp);
        net.run(2_000);
        assert_eq!(net.seen(), [(net.h1, 20, Err(CloseReason::Unreachable))]);
        assert_eq!(net.network.connections(net.h1), 0);
    }
}

#[test]
fn connection_without_route_fails_at_once() {
    let mut net = net(true);
    let (source, connection) = (FROM, CONNECTION);
    let destination = SocketAddr::new(IpAddr::from([1; 16]), 4_000);
    let transport = Transport::Tcp;
    net.network.connect_stream(net.h1, &Connect { connection, source, destination, transport });
    net.run(0);
    assert_eq!(net.seen(), [(net.h1, 0, Err(CloseReason::Unreachable))]);
}

#[test]
fn dead_daemon_breaks_its_connections() {
    let mut net = net(true);
    net.connect(Transport::Tcp);
    net.run(100);
    net.network.write_stream(net.h1, CONNECTION, b"hello");
    net.run(100);
    net.network.kill(net.h2);
    net.run(100);
    let (h1, h2) = (net.h1, net.h2);
    assert_eq!(
        net.seen(),
        [
            (h1, 20, Ok(Transport::Tcp)),
            (h2, 110, Ok(Transport::Tcp)),
            (h1, 210, Err(CloseReason::Broken))
        ]
    );
}

/// Faults of links affect connections, too; damaged octets are rejected.
#[test]
fn connections_survive_bad_links() {
    let mut net = net(true);
    let faults =
        Faults { loss: 0.1, duplication: 0.1, corruption: 0.1, jitter: Duration::from_millis(20) };
    net.network.set_faults(net.h1, net.link, faults);
    net.connect(Transport::Tls);
    net.network.write_stream(net.h1, CONNECTION, &beginning(250_000));
    net.run(60_000);
    net.network.close_stream(net.h1, CONNECTION);
    net.run(60_000);
    let ends: Vec<_> = net.seen().into_iter().map(|(node, _, what)| (node, what)).collect();
    let (h1, h2) = (net.h1, net.h2);
    assert_eq!(
        ends,
        [(h1, Ok(Transport::Tls)), (h2, Ok(Transport::Tls)), (h2, Err(CloseReason::Ended))]
    );
}

/// The capture of a router has TCP in IP.
#[test]
fn capture_has_whole_packets() {
    let mut net = net(true);
    net.network.capture(net.h2);
    net.connect(Transport::Tcp);
    net.run(100);
    let captured = net.network.take_captured(net.h2);
    let flags: Vec<u8> = captured.iter().map(|packet| packet.octets[20 + 13]).collect();
    assert_eq!(flags, [flag::SYN, flag::SYN | flag::ACK, flag::ACK]);
    assert!(captured.iter().all(|packet| packet.octets[9] == TCP));
}
