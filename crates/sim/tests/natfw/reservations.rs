//! Reservations of QoS NSLP for data that a translator changes.

use std::net::IpAddr;

use std::time::Duration;

use earmark_core::{Endpoint, Flow, Prefix, Rate, Time};
use earmark_node::{Command, Event as NodeEvent};
use earmark_nsis::natfw::{OpenRequest, RoleView};
use earmark_nsis::nslp::Attributes;
use earmark_nsis::qos::{
    Application, Command as QosCommand, Event, Listen, Request, RequestedQos, SessionView,
};
use earmark_nsis::{Command as NsisCommand, Event as NsisEvent, Nsis};
use earmark_sim::{Keep, LogEvent, Source, TrafficPattern};
use earmark_wire::qos_nslp::BoundSessionId;
use earmark_wire::qos_nslp::iana::BindingCode;

use crate::network::{Net, accept_all, expose_request, external_of, granted, open_request};

const RATE: Rate = Rate::from_mbps(1);
/// The nodes between `c` and `s`, in this order.
const PATH: [&str; 5] = ["fw1", "nat", "r", "fw2", "e"];

impl Net {
    fn qos(&mut self, node: &str, command: QosCommand) {
        let id = self.id(node);
        self.network.command(id, Command::Nsis(NsisCommand::Qos(command)));
        self.run(2);
    }

    fn reserve(&mut self, node: &str, application: u64, flow: Flow) {
        let request = Request::new(flow, RequestedQos::of(RATE));
        let application = Application(application);
        self.qos(node, QosCommand::Reserve { application, request });
    }

    fn listen(&mut self, node: &str, application: u64) {
        let listen = Listen::default();
        let application = Application(application);
        self.qos(node, QosCommand::Listen { application, listen });
    }

    /// Returns the events of QoS NSLP at a node since the last call for any node.
    fn qos_events(&mut self, node: &str) -> Vec<Event> {
        let id = self.id(node);
        let log = self.network.take_log();
        let of_node = log.into_iter().filter(|entry| entry.node == id);
        of_node
            .filter_map(|entry| match entry.what {
                LogEvent::Event(NodeEvent::Nsis(NsisEvent::Qos(event))) => Some(event),
                _ => None,
            })
            .collect()
    }

    fn qos_sessions(&self, node: &str) -> Vec<SessionView> {
        let engine = self.network.node(self.id(node)).and_then(|node| node.engine::<Nsis>());
        engine.map_or(Vec::new(), |engine| engine.qos().sessions().collect())
    }

    /// Returns source and destination of the reservation that traffic control has on the link of a node.
    fn reserved(&self, node: &'static str, link: usize) -> Option<(Endpoint, Endpoint)> {
        let interface = self.interface(node, link);
        let all = self.network.traffic_control(self.id(node));
        let mut flows =
            all.filter(|(at, _)| *at == interface).flat_map(|(_, reserved)| reserved.flows);
        let flow = flows.next()?;
        assert!(flows.next().is_none(), "{node}: one reservation is expected");
        let source = Endpoint { address: flow.source?, port: flow.source_port };
        Some((source, Endpoint { address: flow.destination, port: flow.destination_port }))
    }

    /// Asserts that no node has a reservation.
    fn nothing_is_reserved(&mut self, context: &str) {
        self.packets_have_nothing(context);
        // A node that has lost the answer to a tear keeps the session for a while.
        self.run(100);
        for node in PATH.into_iter().chain(["c", "s"]) {
            assert_eq!(self.qos_sessions(node), [], "{context}: {node}");
        }
    }

    /// Asserts that no node has a reservation in traffic control.
    fn packets_have_nothing(&self, context: &str) {
        for node in PATH.into_iter().chain(["c", "s"]) {
            let held = self.network.traffic_control(self.id(node)).count();
            assert_eq!(held, 0, "{context}: {node}");
        }
    }

    /// Fills the links on the path of a stream with packets of a neighbouring port.
    fn flood(&mut self, node: &str, port: u16, to: Endpoint) {
        self.network.add_source(Source {
            node: self.id(node),
            port,
            destination: to.address,
            destination_port: to.port,
            dscp: 0,
            pattern: TrafficPattern::Constant(Rate::from_mbps(150)),
            packet_octets: 1_000,
            from: self.network.now(),
            until: Time::MAX,
            keep: Keep::Counts,
        });
    }
}

fn endpoint(address: IpAddr, port: u16) -> Endpoint {
    Endpoint { address, port }
}

fn udp(source: Endpoint, destination: Endpoint) -> Flow {
    Flow {
        source: Some(source.address),
        source_port: source.port,
        destination_port: destination.port,
        protocol: 17,
        ..Flow::to_range(Prefix::host(destination.address))
    }
}

fn is_reserved(events: &[Event]) -> bool {
    events.iter().any(|event| matches!(event, Event::Reserved { .. } | Event::Incoming { .. }))
}

#[test]
fn data_from_inside_is_reserved_on_both_sides_of_the_translator() {
    let mut net = Net::with(false, &accept_all);
    let (inside, server) = (endpoint(net.address("c"), 5_000), endpoint(net.address("s"), 6_000));
    net.open("c", 1, server.address);
    assert!(granted(&net.events("c")));
    let outside = net.external_source();
    net.listen("s", 2);
    net.reserve("c", 1, udp(inside, server));
    let events = net.qos_events("c");
    assert!(is_reserved(&events), "{events:?}");
    for (node, link, source) in [
        ("c", 0, inside),
        ("fw1", 1, inside),
        ("nat", 2, outside),
        ("r", 3, outside),
        ("fw2", 4, outside),
        ("e", 5, outside),
    ] {
        assert_eq!(net.reserved(node, link), Some((source, server)), "{node}");
    }
    // It stays while it is refreshed.
    net.run(300);
    assert_eq!(net.reserved("nat", 2), Some((outside, server)));
    assert_eq!(net.qos_events("c"), []);
    net.qos("c", QosCommand::Release { application: Application(1) });
    net.nothing_is_reserved("release");
}

/// The reservation is made by the sender, or by the receiver at the wish of the sender.
#[derive(Clone, Copy, Debug)]
enum By {
    Sender,
    Receiver,
}

impl Net {
    /// Reserves for a flow that begins at a node, and asserts that it succeeds.
    fn reserve_by(&mut self, by: By, (from, to): (&str, &str), flow: Flow) {
        self.listen(to, 9);
        let (application, request) = (Application(1), Request::new(flow, RequestedQos::of(RATE)));
        let command = match by {
            By::Sender => QosCommand::Reserve { application, request },
            By::Receiver => QosCommand::Invite { application, request },
        };
        self.qos(from, command);
        self.run(2);
        let events = self.qos_events(from);
        assert!(is_reserved(&events), "{by:?} {from} {to}: {events:?}");
    }

    /// Asserts that each link of a path, from the first node on, has one reservation: before and after the translator.
    fn path_is_reserved<const N: usize>(
        &self,
        path: [(&'static str, usize); N],
        [before, after]: [(Endpoint, Endpoint); 2],
    ) {
        let mut expected = before;
        for (node, link) in path {
            if node == "nat" {
                expected = after;
            }
            assert_eq!(self.reserved(node, link), Some(expected), "{node}");
        }
    }
}

const OUTWARD: [(&str, usize); 6] =
    [("c", 0), ("fw1", 1), ("nat", 2), ("r", 3), ("fw2", 4), ("e", 5)];
const INWARD: [(&str, usize); 6] =
    [("s", 5), ("e", 4), ("fw2", 3), ("r", 2), ("nat", 1), ("fw1", 0)];

/// Who asked for the translation, in which direction the data goes, who reserves, and over which transport.
#[test]
fn every_way_to_reserve_crosses_the_translator() {
    let transports = [Attributes::default(), Attributes { reliable: true, secure: false }];
    for by in [By::Sender, By::Receiver] {
        for attributes in transports {
            for is_exposed in [false, true] {
                let mut net = Net::with_transport(false, &accept_all, attributes);
                let inside = endpoint(net.address("c"), if is_exposed { 6_000 } else { 5_000 });
                let server = endpoint(net.address("s"), if is_exposed { 5_000 } else { 6_000 });
                let outside = match is_exposed {
                    false => {
                        net.open("c", 1, server.address);
                        net.external_source()
                    }
                    true => {
                        net.expose("c", 1, expose_request(None));
                        let outside = external_of(&net.events("c"));
                        let request = open_request(outside.address);
                        let destination_port = Some(outside.port);
                        net.open_with("s", 1, OpenRequest { destination_port, ..request });
                        assert!(granted(&net.events("s")));
                        outside
                    }
                };
                let context = format!("{by:?} {attributes:?} exposed {is_exposed}");
                let flows = |a, b| [(a, server), (b, server)];
                net.reserve_by(by, ("c", "s"), udp(inside, server));
                net.path_is_reserved(OUTWARD, flows(inside, outside));
                net.run(200);
                net.path_is_reserved(OUTWARD, flows(inside, outside));
                net.qos("c", QosCommand::Release { application: Application(1) });
                net.run(3);
                net.qos("s", QosCommand::Release { application: Application(9) });
                net.nothing_is_reserved(&context);
                net.reserve_by(by, ("s", "c"), udp(server, outside));
                net.path_is_reserved(INWARD, [(server, outside), (server, inside)]);
                net.run(200);
                net.path_is_reserved(INWARD, [(server, outside), (server, inside)]);
                net.qos("s", QosCommand::Release { application: Application(1) });
                net.run(3);
                net.qos("c", QosCommand::Release { application: Application(9) });
                net.nothing_is_reserved(&context);
            }
        }
    }
}

#[test]
fn reserved_packets_pass_a_full_translator() {
    let mut net = Net::with(false, &accept_all);
    let (inside, server) = (endpoint(net.address("c"), 5_000), endpoint(net.address("s"), 6_000));
    net.open("c", 1, server.address);
    let other = OpenRequest { source_port: Some(5_001), ..open_request(server.address) };
    net.open_with("c", 2, other);
    let data = net.stream("c", 5_000, server.address, 6_000);
    assert!(net.passes(data));
    net.flood("c", 5_001, server);
    net.run(3);
    let before = net.network.counts(data).1;
    net.run(2);
    let passed = net.network.counts(data).1 - before;
    assert!(passed < 180, "without a reservation {passed} of 200 packets pass");
    net.reserve_by(By::Sender, ("c", "s"), udp(inside, server));
    for _ in 0..5 {
        assert!(net.passes(data));
    }
}

/// A reservation for addresses that no packet has outside would be useless.
#[test]
fn reservation_without_translation_is_refused_at_the_translator() {
    let mut net = Net::with(false, &accept_all);
    let (inside, server) = (endpoint(net.address("c"), 5_000), endpoint(net.address("s"), 6_000));
    net.listen("s", 9);
    net.reserve("c", 1, udp(inside, server));
    let events = net.qos_events("c");
    let refused = |event: &Event| matches!(event, Event::Refused { .. });
    assert!(events.iter().any(refused), "{events:?}");
    net.run(120);
    for node in ["nat", "r", "fw2", "e", "s"] {
        assert_eq!(net.qos_sessions(node), [], "{node}");
    }
}

#[test]
fn reservation_ends_after_its_translation() {
    let mut net = Net::with(false, &accept_all);
    let (inside, server) = (endpoint(net.address("c"), 5_000), endpoint(net.address("s"), 6_000));
    net.open("c", 1, server.address);
    net.reserve_by(By::Sender, ("c", "s"), udp(inside, server));
    net.release("c", 1);
    net.run(200);
    let events = net.qos_events("c");
    let told = |event: &Event| matches!(event, Event::Lost { .. });
    assert!(events.iter().any(told), "{events:?}");
    for node in ["nat", "r", "fw2", "e", "s"] {
        assert_eq!(net.qos_sessions(node), [], "{node}");
    }
}

/// The rules stay in the kernel, and the reservation of their data, too.
#[test]
fn reservation_outlives_a_restart_of_the_translator() {
    let mut net = Net::with(false, &accept_all);
    let (inside, server) = (endpoint(net.address("c"), 5_000), endpoint(net.address("s"), 6_000));
    net.open("c", 1, server.address);
    let outside = net.external_source();
    net.reserve_by(By::Sender, ("c", "s"), udp(inside, server));
    let nat = net.id("nat");
    net.network.kill(nat);
    net.run(5);
    net.network.restart(nat, Duration::ZERO);
    for _ in 0..60 {
        net.run(5);
        assert_eq!(net.reserved("r", 3), Some((outside, server)));
        let at_translator = net.reserved("nat", 2);
        assert!(at_translator.is_none_or(|flow| flow == (outside, server)), "{at_translator:?}");
    }
    assert_eq!(net.reserved("nat", 2), Some((outside, server)));
    let lost = net.qos_events("c");
    assert!(!lost.iter().any(|event| matches!(event, Event::Translated { .. })), "{lost:?}");
}

#[test]
fn both_directions_are_reserved_together() {
    let mut net = Net::with(false, &accept_all);
    let (inside, server) = (endpoint(net.address("c"), 5_000), endpoint(net.address("s"), 6_000));
    net.open("c", 1, server.address);
    let outside = net.external_source();
    let listen = Listen { reverse: Some(RequestedQos::of(RATE)), ..Listen::default() };
    let application = Application(9);
    net.qos("s", QosCommand::Listen { application, listen });
    net.reserve("c", 1, udp(inside, server));
    net.run(3);
    net.path_is_reserved(OUTWARD, [(inside, server), (outside, server)]);
    net.path_is_reserved(INWARD, [(server, outside), (server, inside)]);
    net.run(200);
    net.path_is_reserved(INWARD, [(server, outside), (server, inside)]);
    net.qos("c", QosCommand::Release { application: Application(1) });
    net.run(3);
    net.nothing_is_reserved("both directions");
}

impl Net {
    /// Reserves from a node, bound to the path that its application 1 has opened.
    fn reserve_bound(&mut self, (from, to): (&str, &str), flow: Flow) {
        self.listen(to, 9);
        let opened =
            self.sessions(from).into_iter().find(|session| session.role == RoleView::Initiator);
        let session = opened.expect("an opened path").session;
        let bound = vec![BoundSessionId { binding: BindingCode::Dependent, session }];
        let request = Request { bound, ..Request::new(flow, RequestedQos::of(RATE)) };
        let application = Application(11);
        self.qos(from, QosCommand::Reserve { application, request });
        let events = self.qos_events(from);
        assert!(is_reserved(&events), "{events:?}");
    }

    /// Opens a path into the network to an exposed port of `c`; returns the external address and port.
    fn open_inward(&mut self) -> Endpoint {
        self.expose("c", 1, expose_request(None));
        let outside = external_of(&self.events("c"));
        let request = open_request(outside.address);
        self.open_with("s", 1, OpenRequest { destination_port: Some(outside.port), ..request });
        assert!(granted(&self.events("s")));
        outside
    }
}

#[test]
fn bound_reservation_ends_with_the_path_of_its_data() {
    let mut net = Net::with(false, &accept_all);
    let (inside, server) = (endpoint(net.address("c"), 5_000), endpoint(net.address("s"), 6_000));
    net.open("c", 1, server.address);
    let outside = net.external_source();
    net.reserve_bound(("c", "s"), udp(inside, server));
    net.path_is_reserved(OUTWARD, [(inside, server), (outside, server)]);
    net.run(100);
    net.path_is_reserved(OUTWARD, [(inside, server), (outside, server)]);
    net.release("c", 1);
    net.nothing_is_reserved("the path is closed");
}

/// The hole closes when its receiver stops asking, and the reservation of the sender ends with it.
#[test]
fn receiver_ends_path_and_reservation() {
    let mut net = Net::new();
    let (inside, server) = (endpoint(net.address("c"), 6_000), endpoint(net.address("s"), 5_000));
    let outside = net.open_inward();
    net.reserve_bound(("s", "c"), udp(server, outside));
    net.path_is_reserved(INWARD, [(server, outside), (server, inside)]);
    let data = net.stream("s", 5_000, outside.address, outside.port);
    assert!(net.passes(data));
    net.release("c", 1);
    assert!(!net.passes(data));
    net.nothing_is_reserved("the receiver has stopped");
}

#[test]
fn bound_reservation_ends_with_a_path_that_is_not_refreshed() {
    let mut net = Net::with(false, &accept_all);
    let (inside, server) = (endpoint(net.address("c"), 5_000), endpoint(net.address("s"), 6_000));
    let lifetime = Some(Duration::from_secs(20));
    net.open_with("c", 1, OpenRequest { lifetime, ..open_request(server.address) });
    net.reserve_bound(("c", "s"), udp(inside, server));
    let client = net.id("c");
    net.network.kill(client);
    net.run(25);
    for node in PATH {
        assert_eq!(net.network.traffic_control(net.id(node)).count(), 0, "{node}");
    }
}
