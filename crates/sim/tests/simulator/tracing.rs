//! Traces (RFC 2745) through networks of nodes: the report of each node, skipped nodes, and nodes that do not answer.

use std::net::IpAddr;
use std::time::Duration;

use earmark_core::{Rate, Secret, Time};
use earmark_node::{Ask, Command, Event, Listen};
use earmark_rsvp::diagnostics::{self, Trace, TraceEnd, TraceHop};
use earmark_rsvp::integrity::{self, Algorithm, Directions, Key};
use earmark_rsvp::{Application, Config, Timing};
use earmark_sim::{Faults, LogEvent, NodeId};
use earmark_wire::intserv::TokenBucket;
use earmark_wire::rsvp::{SenderTemplate, Session, SourceSelector, Style};

use crate::common::{Bench, Family};

const SENDER: Application = Application(1);
const RECEIVER: Application = Application(2);
const TRACER: Application = Application(9);

/// h1 - r0 - r1 - ... - h2, with a reservation of 1 Mbit/s from h1 to h2 after two seconds.
struct Chain {
    bench: Bench,
    h1: NodeId,
    h2: NodeId,
    routers: Vec<NodeId>,
    session: Session,
    template: SenderTemplate,
}

fn config() -> Config {
    let timing =
        Timing { refresh: Duration::from_secs(2), lifetime_factor: 3, ..Default::default() };
    Config { timing, ..Config::default() }
}

fn chain(family: Family, length: usize) -> Chain {
    chain_of(family, length, config())
}

fn chain_of(family: Family, length: usize, config: Config) -> Chain {
    let mut bench = Bench::new(3, family, config);
    let speed = Rate::from_mbps(10);
    let routers: Vec<NodeId> = (0..length).map(|n| bench.router(&format!("r{n}"))).collect();
    let (h1, first) = bench.host("h1", routers[0], speed);
    for pair in routers.windows(2) {
        bench.connect(pair[0], pair[1], speed);
    }
    let (h2, last) = bench.host("h2", routers[length - 1], speed);
    bench.route();
    let (source, destination) = (bench.links[first].addresses[0], bench.links[last].addresses[0]);
    let session = Session { destination, protocol: 17, flags: 0, port: 5001 };
    let template = SenderTemplate { source, selector: SourceSelector::Port(4000) };
    Chain { bench, h1, h2, routers, session, template }
}

impl Chain {
    fn reserve(&mut self) {
        self.rsvp(self.h2, listen(RECEIVER, self.session));
        for command in announce(SENDER, self.session, self.template) {
            self.rsvp(self.h1, command);
        }
        self.run(2);
    }

    fn rsvp(&mut self, node: NodeId, command: Command) {
        self.bench.network.command(node, command);
    }

    fn run(&mut self, seconds: u64) {
        let until = self.bench.network.now() + Duration::from_secs(seconds);
        self.bench.network.run_until(until);
    }

    fn question(&self) -> Trace {
        Trace {
            session: self.session,
            sender: Some(self.template),
            last_hop: None,
            max_hops: 0,
            patience: Duration::from_secs(60),
        }
    }

    /// Runs a trace from `node`; returns also its duration.
    fn trace(&mut self, node: NodeId, trace: Trace) -> (Vec<TraceHop>, TraceEnd, Duration) {
        trace_from(&mut self.bench, node, trace)
    }

    /// Returns the names of the nodes that answered, by the address that faces the sender or else the receiver.
    fn names(&self, hops: &[TraceHop]) -> Vec<&str> {
        let name = |hop: &TraceHop| {
            let address = hop.incoming.or(hop.outgoing);
            let mut ends =
                self.bench.links.iter().flat_map(|l| l.addresses.into_iter().zip(l.ends));
            let end = ends.find(|(own, _)| Some(*own) == address);
            end.map_or("?", |(_, (node, _))| self.bench.network.name(node))
        };
        hops.iter().map(name).collect()
    }
}

fn trace_from(
    bench: &mut Bench,
    node: NodeId,
    trace: Trace,
) -> (Vec<TraceHop>, TraceEnd, Duration) {
    let command = earmark_rsvp::Command::Trace { application: TRACER, trace };
    let asked = bench.network.now();
    bench.network.take_log();
    bench.network.command(node, Command::Rsvp(command));
    bench.network.run_until(asked + Duration::from_secs(120));
    let log = bench.network.take_log();
    let ended = log.into_iter().find_map(|entry| match entry.what {
        LogEvent::Event(Event::Rsvp(earmark_rsvp::Event::Traced { hops, end, .. })) => {
            Some((hops, end, entry.at - asked))
        }
        _ => None,
    });
    ended.expect("every trace ends")
}

fn listen(application: Application, session: Session) -> Command {
    let (ask, style) = (Ask::ControlledLoad, Style::FixedFilter);
    let (confirm, senders) = (false, Vec::new());
    Command::Listen(Listen { application, session, ask, confirm, style, senders })
}

fn announce(application: Application, session: Session, template: SenderTemplate) -> [Command; 2] {
    let tspec = TokenBucket {
        rate: 125_000.0,
        depth: 3_000.0,
        peak: f32::INFINITY,
        min_policed_unit: 64,
        max_packet_size: 1_400,
    };
    [
        Command::Rsvp(earmark_rsvp::Command::Session { application, session }),
        Command::Rsvp(earmark_rsvp::Command::Sender { application, template, tspec, ttl: 63 }),
    ]
}

/// The answer is the same for every requester: from the receiver to the sender, with the reservation at each node.
#[test]
fn every_node_on_the_path_reports_its_reservation() {
    for family in [Family::V4, Family::V6] {
        let mut chain = chain(family, 3);
        chain.reserve();
        for node in [chain.h2, chain.h1, chain.routers[1]] {
            let question = chain.question();
            let (hops, end, took) = chain.trace(node, question);
            assert_eq!(end, TraceEnd::Sender, "{family:?}");
            assert_eq!(chain.names(&hops), ["h2", "r2", "r1", "r0", "h1"]);
            assert!(took < Duration::from_millis(50), "{took:?}");
            for hop in &hops {
                let rate = hop.flowspec.expect("reserved").token_bucket().rate;
                assert_eq!(rate.to_bits(), 125_000.0_f32.to_bits());
                assert_eq!(hop.style, Some(Style::FixedFilter));
                assert_eq!(hop.filters, [chain.template]);
                assert_eq!((hop.refresh_s, hop.refresh_multiple), (2, 3));
                assert!(hop.tspec.is_some() && !hop.merged && !hop.no_path_state);
            }
            let links: Vec<_> =
                hops.windows(2).map(|w| (w[0].incoming, w[0].previous_hop)).collect();
            let ends: Vec<_> = hops.windows(2).map(|w| w[1].outgoing).collect();
            for ((incoming, previous), outgoing) in links.into_iter().zip(ends) {
                assert!(
                    incoming.is_some() && previous == outgoing,
                    "they are the ends of one link"
                );
            }
            assert!(hops[1..].iter().all(|hop| hop.ip_hops == 1), "all are neighbours");
        }
    }
}

/// A router without a daemon forwards everything; the node behind it sees that the request took two hops. Nodes believe
/// neighbours beyond it if their configuration says that there are any.
#[test]
fn routers_without_rsvp_are_counted() {
    for family in [Family::V4, Family::V6] {
        let distant_neighbors = (0..5).map(|link| format!("link{link}")).collect();
        let mut chain = chain_of(family, 4, Config { distant_neighbors, ..Config::default() });
        chain.bench.network.kill(chain.routers[1]);
        chain.bench.network.kill(chain.routers[2]);
        chain.reserve();
        let question = chain.question();
        let (hops, end, _) = chain.trace(chain.h2, question);
        assert_eq!((chain.names(&hops), end), (vec!["h2", "r3", "r0", "h1"], TraceEnd::Sender));
        let distances: Vec<u8> = hops.iter().map(|hop| hop.ip_hops).collect();
        assert_eq!(distances, [0, 1, 3, 1]);
    }
}

/// A node that does not answer is found, after three requests without answer, by requests with one hop more each time.
#[test]
fn a_silent_node_is_found() {
    let mut chain = chain_of(Family::V4, 3, Config::default());
    chain.reserve();
    // The daemon of r0 dies; its neighbours know it until the next refresh, in some 30 s.
    chain.bench.network.kill(chain.routers[0]);
    let question = chain.question();
    let (hops, end, took) = chain.trace(chain.h2, question);
    assert_eq!(chain.names(&hops), ["h2", "r2", "r1"]);
    assert_eq!(end, TraceEnd::Silent { node: hops[2].previous_hop.expect("r0") });
    assert_eq!(took.as_secs(), 6, "1 + 1 + 2 for the whole way, 2 for r0 alone");
    // No answer at all: the fault is at the first node.
    let question = Trace { last_hop: Some(chain.template.source), ..chain.question() };
    let nobody = Trace { patience: Duration::from_secs(3), ..question };
    chain.bench.network.kill(chain.h1);
    let (hops, end, took) = chain.trace(chain.h2, nobody);
    assert_eq!((hops.len(), end), (0, TraceEnd::Silent { node: chain.template.source }));
    assert_eq!(took, Duration::from_secs(3), "no longer than it may take");
}

/// A node without state reports it, and the requester learns where the path ends.
#[test]
fn missing_state_is_reported() {
    let mut chain = chain(Family::V4, 3);
    let question = chain.question();
    let (hops, end, _) = chain.trace(chain.h1, question);
    assert_eq!((hops.len(), end), (1, TraceEnd::NoPathState), "h2 knows of no sender");
    chain.reserve();
    let r1 = chain.routers[1];
    chain.bench.network.kill(r1);
    chain.bench.network.restart(r1, Duration::from_secs(1));
    let (hops, end, _) = chain.trace(chain.h2, question);
    assert_eq!(end, TraceEnd::NoPathState);
    assert_eq!(hops.len(), 3, "h2 and r2 know more than r1");
    assert!(hops[2].no_path_state && hops[2].tspec.is_none());
}

/// Max-RSVP-hops ends the trace early.
#[test]
fn max_rsvp_hops_limits_answering_nodes() {
    let mut chain = chain(Family::V4, 3);
    chain.reserve();
    for most in 1..=4 {
        let question = Trace { max_hops: most, ..chain.question() };
        let (hops, end, _) = chain.trace(chain.h2, question);
        assert_eq!((hops.len(), end), (usize::from(most), TraceEnd::HopLimit));
    }
    let question =
        Trace { last_hop: chain.bench.links.last().map(|l| l.addresses[1]), ..chain.question() };
    let (hops, end, _) = chain.trace(chain.h1, question);
    assert_eq!(chain.names(&hops), ["r2", "r1", "r0", "h1"], "from the last router on");
    assert_eq!(end, TraceEnd::Sender);
}

/// An answer that is too long for a link is split, and each part takes the return path that is known at that point.
#[test]
fn long_path_is_reported_in_parts() {
    for (family, length) in [(Family::V4, 40), (Family::V6, 30)] {
        let mut chain = chain(family, length);
        chain.reserve();
        chain.bench.network.capture(chain.h1);
        for node in [chain.h1, chain.h2] {
            let question = chain.question();
            let (hops, end, took) = chain.trace(node, question);
            assert_eq!((hops.len(), end), (length + 2, TraceEnd::Sender), "{family:?}");
            assert!(took < Duration::from_secs(1), "{took:?}");
        }
        let tapped = chain.bench.network.take_captured(chain.h1);
        assert!(tapped.iter().all(|packet| packet.octets.len() <= 1_500), "no packet is too long");
    }
}

/// Lost requests and answers are repeated.
#[test]
fn lost_messages_are_repeated() {
    let mut chain = chain(Family::V4, 3);
    chain.reserve();
    let faults = Faults { loss: 0.1, ..Faults::default() };
    for link in chain.bench.links.clone() {
        for (node, interface) in link.ends {
            chain.bench.network.set_faults(node, interface, faults);
        }
    }
    let mut reached = 0;
    for _ in 0..20 {
        let question = chain.question();
        let (hops, end, _) = chain.trace(chain.h2, question);
        if end == TraceEnd::Sender {
            assert_eq!(hops.len(), 5);
            reached += 1;
        }
    }
    assert!(reached >= 15, "{reached} of 20");
}

/// A node that does not answer traces still sends requests.
#[test]
fn answering_can_be_switched_off() {
    let diagnostics = diagnostics::Settings { answer: false, ..diagnostics::Settings::default() };
    let mut bench = Bench::new(3, Family::V4, Config { diagnostics, ..config() });
    let router = bench.router("r0");
    let (h1, first) = bench.host("h1", router, Rate::from_mbps(10));
    let (h2, last) = bench.host("h2", router, Rate::from_mbps(10));
    bench.route();
    let session =
        Session { destination: bench.links[last].addresses[0], protocol: 17, flags: 0, port: 5001 };
    let source = bench.links[first].addresses[0];
    let template = SenderTemplate { source, selector: SourceSelector::Port(4000) };
    for command in announce(SENDER, session, template) {
        bench.network.command(h1, command);
    }
    bench.network.run_until(Time::from_secs(1));
    let (sender, last_hop, patience) = (Some(template), None, Duration::from_secs(60));
    let question = Trace { session, sender, last_hop, max_hops: 0, patience };
    let (hops, end, _) = trace_from(&mut bench, h2, question);
    assert_eq!(hops.len(), 1, "its own host, without any reservation");
    assert_eq!((hops[0].style, hops[0].flowspec), (None, None));
    let silent: IpAddr = bench.links[last].addresses[1];
    assert_eq!(end, TraceEnd::Silent { node: silent });
}

/// Two receivers of a group behind different interfaces of r1: the reservations of r1 towards each are merged upstream,
/// and the trace from a receiver shows it, in every style.
#[test]
fn merging_shows_in_multicast() {
    for family in [Family::V4, Family::V6] {
        for style in [Style::FixedFilter, Style::SharedExplicit, Style::Wildcard] {
            merging_shows(family, style);
        }
    }
}

fn merging_shows(family: Family, style: Style) {
    let mut bench = Bench::new(3, family, config());
    let speed = Rate::from_mbps(10);
    let (top, fork) = (bench.router("r0"), bench.router("r1"));
    bench.connect(top, fork, speed);
    let (h1, first) = bench.host("h1", top, speed);
    let receivers = [bench.host("h2", fork, speed).0, bench.host("h3", fork, speed).0];
    bench.route();
    let group = match family {
        Family::V4 => "239.1.0.1",
        Family::V6 => "ff1e::1:1",
    };
    let destination = group.parse().expect("a group");
    let session = Session { destination, protocol: 17, flags: 0, port: 5001 };
    let source = bench.links[first].addresses[0];
    let template = SenderTemplate { source, selector: SourceSelector::Port(4000) };
    for receiver in receivers {
        bench.network.join(receiver, destination);
        let Command::Listen(listen) = listen(RECEIVER, session) else { unreachable!("it listens") };
        bench.network.command(receiver, Command::Listen(Listen { style, ..listen }));
    }
    for command in announce(SENDER, session, template) {
        bench.network.command(h1, command);
    }
    bench.network.run_until(Time::from_secs(5));
    let (patience, last_hop) = (Duration::from_secs(60), None);
    let question = Trace { session, sender: None, last_hop, max_hops: 0, patience };
    let (hops, end, _) = trace_from(&mut bench, receivers[1], question);
    assert_eq!((hops.len(), end), (4, TraceEnd::Sender), "h3, r1, r0, h1");
    let merged: Vec<bool> = hops.iter().map(|hop| hop.merged).collect();
    assert_eq!(merged, [false, true, false, false], "{style:?}");
    for hop in hops {
        assert_eq!((hop.style, hop.flowspec.is_some()), (Some(style), true));
        let named = if style == Style::Wildcard { vec![] } else { vec![template] };
        assert_eq!(hop.filters, named, "{style:?}");
    }
}

/// If neighbours accept only signed messages, the answer is sent hop by hop, and each node signs it again.
#[test]
fn signed_neighbours_answer_hop_by_hop() {
    let key = Key {
        id: 1,
        algorithm: Algorithm::HmacSha256,
        secret: Secret::new("a secret of many octets"),
        purpose: Directions::Both,
        start: Time::ZERO,
        age: Default::default(),
        end: Time::MAX,
        interfaces: vec![],
        neighbors: vec![],
    };
    let integrity = integrity::Settings {
        interfaces: (0..4).map(|n| (format!("link{n}"), Directions::Both)).collect(),
        keys: vec![key],
        ..integrity::Settings::default()
    };
    let mut chain = chain_of(Family::V4, 3, Config { integrity, ..config() });
    chain.reserve();
    let question = chain.question();
    let (hops, end, took) = chain.trace(chain.h2, question);
    assert_eq!((chain.names(&hops).len(), end), (5, TraceEnd::Sender));
    assert!(took < Duration::from_millis(50), "the first question was answered: {took:?}");
}
