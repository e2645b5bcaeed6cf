//! Reservations of QoS NSLP for data that a translator changes.

use std::net::IpAddr;
use std::time::Duration;

use earmark_core::{Endpoint, Flow, Prefix, Rate, Time};
use earmark_node::{Command, Event as NodeEvent};
use earmark_nsis::qos::{
    Application, Command as QosCommand, Event, Listen, Request, RequestedQos,
    SessionView,
};
use earmark_nsis::{Command as NsisCommand, Event as NsisEvent, Nsis};
use earmark_sim::{Keep, LogEvent, Source, TrafficPattern};

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
        let listen = Listen {
            destination: None,
            protocol: None,
            port: None,
            most: None,
            reverse: None,
            token: None,
        };
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
        engine.map_or(Vec::new(), |engine| engine.qos().sessions(0).map(|(_, view)| view).collect())
    }

    /// Returns source and destination of the reservation that traffic control has on the link of a node.
    fn reserved(&self, node: &'static str, link: usize) -> Option<(Endpoint, Endpoint)> {
        let interface = self.interface(node, link);
        let all = self.network.traffic_control(self.id(node));
        let mut flows = all.filter(|(at, _)| *at == interface).flat_map(|(_, reserved)| reserved.flows);
        let flow = flows.next()?;
        assert!(flows.next().is_none(), "{node}: one reservation is expected");
        let source = Endpoint { address: flow.source?, port: flow.source_port };
        Some((source, Endpoint { address: flow.destination, port: flow.destination_port }))
    }

    /// Asserts that no node has a reservation.
    fn nothing_is_reserved(&self) {
        for node in PATH.into_iter().chain(["c", "s"]) {
            assert_eq!(self.qos_sessions(node), [], "{node}");
            assert_eq!(self.network.traffic_control(self.id(node)).count(), 0, "{node}");
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
    events.iter().any(|event| matches!(event, Event::Reserved { .. }))
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
    net.nothing_is_reserved();
}
