//! Graceful restart of RSVP (RFC 3473 section 9): packets keep their class while the daemon of a router is down for longer than
//! state lives.

use std::time::Duration;

use earmark_core::{Rate, Time};
use earmark_node::{Command, Listen, NodeConfig};
use earmark_rsvp::{self as rsvp, Application};
use earmark_sim::{Keep, Network, NodeId, Source, StreamId, TrafficPattern};
use earmark_wire::intserv::TokenBucket;
use earmark_wire::rsvp::{FilterSpec, Session, SourceSelector};

use crate::common::{Bench, Family};

const SENDER: Application = Application(1);
const RECEIVER: Application = Application(2);
const SECOND: Duration = Duration::from_secs(1);

/// h1 --100 Mbit/s-- r1 --100 Mbit/s-- r2 --10 Mbit/s-- h2, with a reserved stream of 2 Mbit/s and 20 Mbit/s of best effort.
struct Net {
    network: Network,
    r1: NodeId,
    r2: NodeId,
    reserved: StreamId,
}

/// A network in which state lives 10.5 s, with this Restart Time of all nodes.
fn net(restart_time: Option<Duration>) -> Net {
    let timing = rsvp::Timing { refresh: 2 * SECOND, ..rsvp::Timing::default() };
    let restart = rsvp::RestartTimes { restart_time, ..rsvp::RestartTimes::default() };
    let hello = rsvp::HelloTiming { interval: Some(SECOND), restart, ..Default::default() };
    let rsvp = rsvp::Config { timing, hello, ..rsvp::Config::default() };
    let mut bench = Bench::with(1, Family::V4, NodeConfig { rsvp, ..NodeConfig::default() });
    let [r1, r2] = ["r1", "r2"].map(|name| bench.router(name));
    let (h1, first) = bench.host("h1", r1, Rate::from_mbps(100));
    bench.connect(r1, r2, Rate::from_mbps(100));
    let (h2, last) = bench.host("h2", r2, Rate::from_mbps(10));
    bench.route();
    let (source, destination) = (bench.links[first].addresses[0], bench.links[last].addresses[0]);
    let mut network = bench.network;
    let mut stream = |port, mbps, packet_octets| {
        let pattern = TrafficPattern::Constant(Rate::from_mbps(mbps));
        let (from, until, keep) = (Time::ZERO, Time::MAX, Keep::Packets);
        let destination_port = port;
        let node = h1;
        network.add_source(Source {
            node,
            port,
            destination,
            destination_port,
            dscp: 0,
            pattern,
            packet_octets,
            from,
            until,
            keep,
        })
    };
    let reserved = stream(5_001, 2, 1_000);
    stream(5_002, 20, 1_400);
    let session = Session { destination, protocol: 17, flags: 0, port: 5_001 };
    network.command(h2, Command::Listen(Listen::new(RECEIVER, session)));
    let open = rsvp::Command::Session { application: SENDER, session };
    network.command(h1, Command::Rsvp(open));
    let template = FilterSpec { source, selector: SourceSelector::Port(5_001) };
    let tspec = TokenBucket {
        rate: Rate::from_mbps(2).as_octets_per_second(),
        depth: 10_000.0,
        peak: f32::INFINITY,
        min_policed_unit: 1_000,
        max_packet_size: 1_000,
    };
    let send = rsvp::Command::Sender { application: SENDER, template, tspec, ttl: 63 };
    network.command(h1, Command::Rsvp(send));
    Net { network, r1, r2, reserved }
}

impl Net {
    /// The daemon of r1 is dead from second 5 to second 25; what its successor has not claimed within `grace` is removed.
    fn play(&mut self, grace: Duration) {
        self.network.run_until(Time::from_secs(5));
        self.network.kill(self.r1);
        self.network.run_until(Time::from_secs(25));
        self.network.restart(self.r1, grace);
        self.network.run_until(Time::from_secs(70));
    }

    /// Fraction of the reserved packets that were lost, sent between two seconds.
    fn loss(&self, from: u64, until: u64) -> f64 {
        let trace = self.network.trace(self.reserved);
        trace.figures(Time::from_secs(from), Time::from_secs(until)).loss
    }

    /// Reservations in traffic control of a node.
    fn reservations(&self, node: NodeId) -> usize {
        self.network.traffic_control(node).count()
    }
}

/// No packet is lost, neither with the reservations that the dead daemon has left, nor if its successor removes them at once:
/// those of the other nodes stay.
#[test]
fn no_packet_loses_its_class_while_a_daemon_restarts() {
    for grace in [60 * SECOND, Duration::ZERO] {
        let mut net = net(Some(30 * SECOND));
        net.play(grace);
        assert_eq!(net.loss(2, 69), 0.0, "{grace:?}");
        assert_eq!((net.reservations(net.r1), net.reservations(net.r2)), (1, 1), "{grace:?}");
    }
}

/// Without graceful restart the state of the next router expires after 10.5 s, and with it the class.
#[test]
fn packets_lose_their_class_without_restart_time() {
    let mut net = net(None);
    net.play(60 * SECOND);
    assert_eq!(net.loss(2, 14), 0.0);
    assert!(net.loss(18, 24) > 0.3, "{}", net.loss(18, 24));
    assert_eq!(net.loss(35, 69), 0.0);
}
