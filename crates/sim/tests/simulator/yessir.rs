//! YESSIR in whole networks: reports that reserve on their way, in part if not all links have room.
//!
//! ```text
//!   h1 --0-- r1 --2-- r2 --1-- h2
//!             \        /
//!              3      4
//!               \    /
//!                 r3
//! ```

use std::net::IpAddr;
use std::time::Duration;

use earmark_core::{Hop, Prefix, Rate, Route};
use earmark_node::{Command as NodeCommand, Event as NodeEvent, Listen, NodeConfig};
use earmark_rsvp as rsvp;
use earmark_sim::{Faults, LogEvent, NodeId};
use earmark_wire::intserv::TokenBucket;
use earmark_wire::rsvp::{FilterSpec, Session, SourceSelector};
use earmark_wire::yessir::{Flowspec, OctetRate, Style};
use earmark_yessir::{Answer, Application, Attachment, Change, Command, Event, Stream};

use crate::common::{Bench, Family, books_are_right};

const SENDER: Application = Application(1);
const RECEIVER: Application = Application(2);
const INTERVAL: u16 = 10;

struct Net {
    bench: Bench,
    h1: NodeId,
    h2: NodeId,
    r1: NodeId,
    r2: NodeId,
}

fn net(family: Family) -> Net {
    let mut bench = Bench::with(11, family, NodeConfig::default());
    let speed = Rate::from_mbps(10);
    let [r1, r2, r3] = ["r1", "r2", "r3"].map(|name| bench.router(name));
    let (h1, _) = bench.host("h1", r1, speed);
    let (h2, _) = bench.host("h2", r2, speed);
    for (a, b) in [(r1, r2), (r1, r3), (r3, r2)] {
        bench.connect(a, b, speed);
    }
    bench.route();
    Net { bench, h1, h2, r1, r2 }
}

impl Net {
    fn address(&self, link: usize, side: usize) -> IpAddr {
        self.bench.links[link].addresses[side]
    }

    fn attach(&mut self, application: Application, port: u16, rate: Rate, style: Style) {
        let octets = rate.as_octets_per_second();
        let attachment = Attachment {
            stream: Stream {
                source: self.address(0, 0),
                destination: self.address(1, 0),
                source_port: port,
                destination_port: 5_000,
            },
            ssrc: None,
            cname: "somebody@h1".into(),
            multiplexed: false,
            flowspec: Flowspec::Class { dscp: 46, rate: OctetRate(octets) },
            style,
            passive: false,
            interval: INTERVAL,
            ttl: 64,
            token: None,
        };
        self.command(self.h1, Command::Attach { application, attachment });
    }

    fn listen(&mut self) {
        let destination = self.address(1, 0);
        let cname = "somebody@h2".into();
        self.command(
            self.h2,
            Command::Listen { application: RECEIVER, destination, port: 5_000, cname },
        );
    }

    fn command(&mut self, node: NodeId, command: Command) {
        self.bench.network.command(node, NodeCommand::Yessir(command));
    }

    /// Returns the content of the receiver's next answer to the sender, within this many seconds.
    fn await_answer(&mut self, seconds: u64) -> Option<(Duration, Answer)> {
        let (begun, h1) = (self.bench.network.now(), self.h1);
        let found = self
            .bench
            .network
            .run_until_event(begun + Duration::from_secs(seconds), |node, event| {
                node == h1 && matches!(event, NodeEvent::Yessir(Event::Answered { .. }))
            })?;
        match found.what {
            LogEvent::Event(NodeEvent::Yessir(Event::Answered { answer, .. })) => {
                Some((found.at.since(begun), answer))
            }
            _ => None,
        }
    }

    fn run(&mut self, seconds: u64) {
        let until = self.bench.network.now() + Duration::from_secs(seconds);
        self.bench.network.run_until(until);
    }

    /// Returns the reservations at the end of each link that the stream leaves by, Mbit/s.
    fn held(&self) -> Vec<u64> {
        let ends = [(0, 0), (1, 1), (2, 0), (3, 0), (4, 0)];
        let held = ends.map(|(link, side): (usize, usize)| {
            let (node, interface) = self.bench.links[link].ends[side];
            let link = self.bench.network.node(node).map(|node| node.ledger().link(interface));
            link.flatten().map_or(0, |link| link.held.as_bps() / 1_000_000)
        });
        held.into()
    }

    fn nothing_is_held(&self) {
        assert_eq!(self.held(), [0; 5]);
        books_are_right(&self.bench.network);
        for id in self.bench.network.nodes() {
            if let Some(node) = self.bench.network.node(id) {
                assert_eq!(
                    node.engine::<earmark_yessir::Yessir>()
                        .expect("a node with YESSIR")
                        .session_count(),
                    0,
                    "{}",
                    node.name()
                );
            }
            assert_eq!(self.bench.network.traffic_control(id).count(), 0);
        }
    }

    /// Returns the reported changes of reservations at a node.
    fn changes(&self, at: NodeId) -> Vec<Change> {
        let of = |entry: &earmark_sim::LogEntry| match &entry.what {
            LogEvent::Event(NodeEvent::Yessir(Event::Reservation { change, .. })) => {
                (entry.node == at).then_some(*change)
            }
            _ => None,
        };
        self.bench.network.log().iter().filter_map(of).collect()
    }
}

/// The first report of a stream reserves its whole path; the receiver's answer reports no failure.
#[test]
fn one_pass_reserves_the_whole_way() {
    for family in [Family::V4, Family::V6] {
        let mut net = net(family);
        net.listen();
        net.attach(SENDER, 4_000, Rate::from_mbps(3), Style::Individual);
        let (took, answer) = net.await_answer(5).expect("an answer");
        assert!(took < Duration::from_millis(1_000), "{took:?}");
        assert_eq!(answer.failures, []);
        let path = answer.path.expect("what the way offers");
        assert_eq!((path.hops, path.other_hops), (2, false), "r1 and r2");
        assert_eq!(net.held(), [3, 3, 3, 0, 0]);
        books_are_right(&net.bench.network);
        net.run(300);
        assert_eq!(net.held(), [3, 3, 3, 0, 0], "refreshes keep it");
        net.command(net.h1, Command::Release { application: SENDER });
        net.run(1);
        net.nothing_is_held();
    }
}

/// The case in the paper: a link that is full (by RSVP) does not stop the report. The stream has the other links, and
/// knows the refusing node; when RSVP releases, that router grants the remembered request at once, without any message.
#[test]
fn bandwidth_released_by_rsvp_is_granted_at_once() {
    let mut net = net(Family::V4);
    reserve_by_rsvp(&mut net, 8);
    net.run(1);
    assert_eq!(net.held(), [8, 8, 8, 0, 0]);
    // RSVP reserves at h1 and r1 as well, so their links get more room: only r2's link to h2 is to be the bottleneck.
    for link in [0, 2] {
        let (node, interface) = net.bench.links[link].ends[0];
        net.bench.network.set_bandwidth(node, interface, Rate::from_mbps(100));
    }
    net.listen();
    net.attach(SENDER, 4_000, Rate::from_mbps(3), Style::Individual);
    let (_, answer) = net.await_answer(5).expect("an answer");
    assert_eq!(net.held(), [11, 8, 11, 0, 0], "reserved in part");
    let [note] = &answer.failures[..] else { panic!("{answer:?}") };
    assert_eq!((note.node, note.hop), (net.address(1, 1), 2));
    assert_eq!(note.available, OctetRate(250_000.0), "2 Mbit/s, in octets per second");
    books_are_right(&net.bench.network);

    let release = rsvp::Command::Release { application: rsvp::Application(8) };
    net.bench.network.command(net.h2, NodeCommand::Rsvp(release));
    // Before the sender's next report, which is at least seven seconds away.
    net.run(1);
    assert_eq!(net.held()[1], 3);
    assert!(net.changes(net.r2).contains(&Change::Grabbed));
    books_are_right(&net.bench.network);
    let (_, answer) = net.await_answer(20).expect("news with the next report");
    assert_eq!(answer.failures, []);
    net.command(net.h1, Command::Release { application: SENDER });
    net.bench.network.command(
        net.h1,
        NodeCommand::Rsvp(rsvp::Command::Release { application: rsvp::Application(7) }),
    );
    net.run(5);
    net.nothing_is_held();
}

/// Reserves by RSVP from h1 to h2, for another port.
fn reserve_by_rsvp(net: &mut Net, mbps: u64) {
    let session = Session { destination: net.address(1, 0), protocol: 17, flags: 0, port: 6_000 };
    let listen = Listen::new(rsvp::Application(8), session);
    net.bench.network.command(net.h2, NodeCommand::Listen(listen));
    let application = rsvp::Application(7);
    let open = rsvp::Command::Session { application, session };
    net.bench.network.command(net.h1, NodeCommand::Rsvp(open));
    let template = FilterSpec { source: net.address(0, 0), selector: SourceSelector::Port(6_000) };
    let tspec = TokenBucket {
        rate: Rate::from_mbps(mbps).as_octets_per_second(),
        depth: 10_000.0,
        peak: f32::INFINITY,
        min_policed_unit: 1_000,
        max_packet_size: 1_000,
    };
    let send = rsvp::Command::Sender { application, template, tspec, ttl: 64 };
    net.bench.network.command(net.h1, NodeCommand::Rsvp(send));
}

/// Senders that share a reservation have the largest of their requests, not the sum.
#[test]
fn senders_that_share_have_one_reservation() {
    let mut net = net(Family::V4);
    net.attach(SENDER, 4_000, Rate::from_mbps(3), Style::Shared);
    net.attach(Application(3), 4_002, Rate::from_mbps(2), Style::Shared);
    net.run(1);
    assert_eq!(net.held(), [3, 3, 3, 0, 0]);
    books_are_right(&net.bench.network);
    net.command(net.h1, Command::Release { application: SENDER });
    net.run(1);
    assert_eq!(net.held(), [2, 2, 2, 0, 0]);
    net.command(net.h1, Command::Release { application: Application(3) });
    net.run(1);
    net.nothing_is_held();
}

/// A third of all reports is lost, and state is removed after three losses in a row; the ledgers are right at every
/// moment, and in the end no state is left.
#[test]
fn lost_reports_are_tolerated() {
    let mut net = net(Family::V4);
    net.listen();
    let bad =
        Faults { loss: 0.3, duplication: 0.2, corruption: 0.05, jitter: Duration::from_millis(20) };
    for link in [0, 2] {
        let (node, interface) = net.bench.links[link].ends[0];
        net.bench.network.set_faults(node, interface, bad);
    }
    net.attach(SENDER, 4_000, Rate::from_mbps(3), Style::Individual);
    net.await_answer(120).expect("an answer in the end");
    for _ in 0..60 {
        net.run(10);
        books_are_right(&net.bench.network);
        assert!(net.held().iter().all(|&rate| [0, 3].contains(&rate)), "{:?}", net.held());
    }
    net.command(net.h1, Command::Release { application: SENDER });
    net.run(60);
    net.nothing_is_held();
}

/// The first report on the new path reserves it.
#[test]
fn the_reservation_follows_the_route() {
    let mut net = net(Family::V4);
    net.attach(SENDER, 4_000, Rate::from_mbps(3), Style::Individual);
    net.run(1);
    let (node, interface) = net.bench.links[2].ends[0];
    net.bench.network.set_link_up(node, interface, false);
    let link = net.bench.links[3];
    let hop = Hop { interface: link.ends[0].1, gateway: Some(link.addresses[1]), source: None };
    let prefix = Prefix::host(net.address(1, 0));
    net.bench.network.add_route(net.r1, Route { prefix, metric: 0, hop });
    let link = net.bench.links[4];
    let r3 = link.ends[0].0;
    let hop = Hop { interface: link.ends[0].1, gateway: Some(link.addresses[1]), source: None };
    net.bench.network.add_route(r3, Route { prefix, metric: 0, hop });
    net.run(60);
    assert_eq!(net.held(), [3, 3, 0, 3, 3]);
    books_are_right(&net.bench.network);
    net.command(net.h1, Command::Release { application: SENDER });
    net.run(60);
    net.nothing_is_held();
}

/// State without refresh for three intervals is removed everywhere.
#[test]
fn nothing_outlives_its_sender() {
    let mut net = net(Family::V4);
    net.attach(SENDER, 4_000, Rate::from_mbps(3), Style::Individual);
    net.run(1);
    net.bench.network.kill(net.h1);
    net.run(15);
    assert_eq!(net.held()[1..3], [3, 3], "not yet");
    net.run(30);
    net.bench.network.restart(net.h1, Duration::from_secs(1));
    net.run(5);
    net.nothing_is_held();
    assert!(net.changes(net.r1).contains(&Change::Expired));
}
