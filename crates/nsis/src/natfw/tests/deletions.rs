//! One message that deletes several sessions: RFC 5973 section 3.7.4.

use earmark_testkit::messages::gist::udp_flow;
use earmark_testkit::messages::natfw_nslp::EXTERNAL;
use earmark_wire::gist::{LooseEnd, PathCoupled};
use earmark_wire::natfw_nslp::{DataTerminal, TransportSelector};

use super::*;

const ALL: SessionId = SessionId([0; SessionId::LEN]);
const ASSOCIATION: Attributes = Attributes { reliable: true, secure: false };

/// A client, two firewalls, and a server; the client has opened paths to ports from 5 000 on.
fn opened(count: u16) -> Net {
    let mut net = Net::of(&[Place::Host, Place::Firewall, Place::Firewall, Place::Host]);
    for number in 0..count {
        let request = OpenRequest { attributes: Some(ASSOCIATION), ..to_server(5_000 + number) };
        net.command(0, Command::Open { application: Application(number.into()), request });
    }
    net.log();
    net
}

/// Returns the wildcard for all flows of the client.
fn all_flows() -> PathCoupled {
    PathCoupled {
        destination_prefix: 0,
        protocol: None,
        source_port: None,
        destination_port: None,
        ..udp_flow(([10, 0, 0, 1], 0), ([0, 0, 0, 0], 0))
    }
}

/// Delivers a CREATE about all sessions of a flow to the first firewall, as if from a neighbour.
fn delete(net: &mut Net, from: usize, flow: PathCoupled, attributes: Attributes, lifetime: u32) {
    let (message, data) = net.create_with(ALL, |create| create.lifetime = lifetime);
    let message = SendMessage { mri: Mri::PathCoupled(flow), attributes, ..message };
    net.deliver_as(from, 1, &message, &data);
    net.run();
}

/// Each session ends at this node, and a request for each tells the nodes behind. Nobody answers.
#[test]
fn all_sessions_of_an_initiator_end() {
    let mut net = opened(3);
    delete(&mut net, 0, all_flows(), ASSOCIATION, 0);
    let hops = ["1>2", "1>2", "1>2", "2>3", "2>3", "2>3"];
    assert_eq!(net.log(), hops.map(|hop| format!("{hop} CREATE lt=0 msn=1")));
    for node in 1..4 {
        assert_eq!(net.nodes[node].natfw.session_count(), 0, "node {node}");
        assert_eq!(net.rules(node), [""; 0]);
        net.nodes[node].natfw.assert_empty();
    }
    assert_eq!(net.nodes[1].natfw.counters().released, 3);
}

/// "All other fields of the respective NATFW NSLP signaling sessions to be terminated are set as well."
#[test]
fn fields_that_are_set_name_the_sessions() {
    let one = PathCoupled { destination_port: Some(5_001), protocol: Some(UDP), ..all_flows() };
    let server = [198, 51, 100, 9].into();
    let to_server = PathCoupled { destination: server, destination_prefix: 32, ..all_flows() };
    let elsewhere = PathCoupled { destination: [198, 51, 100, 8].into(), ..to_server };
    let of_tcp = PathCoupled { protocol: Some(6), ..all_flows() };
    let from = PathCoupled { protocol: Some(UDP), source_port: Some(9), ..all_flows() };
    let upstream = PathCoupled { direction: Direction::Upstream, ..all_flows() };
    let cases = [(one, 2), (to_server, 0), (elsewhere, 3), (of_tcp, 3), (from, 3), (upstream, 3)];
    for (flow, left) in cases {
        let mut net = opened(3);
        delete(&mut net, 0, flow, ASSOCIATION, 0);
        assert_eq!(net.nodes[1].natfw.session_count(), left, "{flow:?}");
        assert_eq!(net.rules(2).len(), left, "{flow:?}");
    }
}

/// Whoever has no right to the sessions changes nothing of them.
#[test]
fn others_delete_nothing() {
    let datagram = Attributes { reliable: false, secure: false };
    let anybody = PathCoupled { source_prefix: 0, source: [0, 0, 0, 0].into(), ..all_flows() };
    let network = PathCoupled { source_prefix: 24, source: [10, 0, 0, 0].into(), ..all_flows() };
    let outside = PathCoupled { source: [198, 51, 100, 9].into(), ..all_flows() };
    let authentication = Some("1>0 RESPONSE 5/0x01 msn=0");
    let authorization = Some("1>0 RESPONSE 5/0x02 msn=0");
    for (from, flow, attributes, lifetime, answer) in [
        (0, all_flows(), datagram, 0, authentication),
        (0, all_flows(), ASSOCIATION, 60, authorization),
        (0, anybody, ASSOCIATION, 0, authorization),
        (0, network, ASSOCIATION, 0, authorization),
        (0, outside, ASSOCIATION, 0, authorization),
        // The next node has asked for no session.
        (2, outside, ASSOCIATION, 0, None),
        (2, all_flows(), ASSOCIATION, 0, None),
    ] {
        let mut net = opened(2);
        delete(&mut net, from, flow, attributes, lifetime);
        assert_eq!(net.log(), Vec::from_iter(answer), "{from} {flow:?}");
        assert_eq!(net.nodes[1].natfw.session_count(), 2);
        assert_eq!(net.rules(1).len(), 2);
    }
}

/// A session that was secured is deleted by who secured it.
#[test]
fn secured_sessions_stay_without_security() {
    let secured = Attributes { reliable: true, secure: true };
    for (attributes, left) in [(ASSOCIATION, 1), (secured, 0)] {
        let mut net = opened(2);
        let request = OpenRequest { attributes: Some(secured), ..to_server(6_000) };
        net.command(0, Command::Open { application: APP, request });
        delete(&mut net, 0, all_flows(), attributes, 0);
        assert_eq!(net.nodes[1].natfw.session_count(), left);
    }
}

/// A CREATE deletes no session that an EXTERNAL has created, and an EXTERNAL none of a CREATE.
#[test]
fn each_kind_of_request_deletes_its_own_kind() {
    let terminal = |port| DataTerminal {
        transport: TransportSelector::Ports { protocol: UDP, destination: port, source: 0 },
        ..EXTERNAL.data_terminal
    };
    let any = DataTerminal { transport: TransportSelector::Any, ..EXTERNAL.data_terminal };
    for (terminal, left) in [(any, 1), (terminal(4_000), 2), (terminal(4_001), 3)] {
        let mut net = Net::of(&[Place::Host, Place::EdgeTranslator, Place::Host]);
        for (number, port) in [(1, 4_000), (2, 4_002)] {
            let request = ExposeRequest { attributes: Some(ASSOCIATION), ..port_of_client(port) };
            net.command(0, Command::Expose { application: Application(number), request });
        }
        let request = OpenRequest { attributes: Some(ASSOCIATION), ..to_server(5_000) };
        net.command(0, Command::Open { application: APP, request });
        assert_eq!(net.nodes[1].natfw.session_count(), 3);
        let external =
            earmark_wire::natfw_nslp::External { lifetime: 0, data_terminal: terminal, ..EXTERNAL };
        let (message, _) = net.create_with(ALL, |_| {});
        let mri = Mri::LooseEnd(LooseEnd {
            source: address(CLIENT),
            destination: [0, 0, 0, 0].into(),
            direction: Direction::Downstream,
        });
        let message = SendMessage { mri, ..message };
        net.deliver_as(0, 1, &message, &emit(&Message::External(external)));
        net.run();
        assert_eq!(net.nodes[1].natfw.session_count(), left, "{terminal:?}");
        delete(&mut net, 0, all_flows(), ASSOCIATION, 0);
        assert_eq!(net.nodes[1].natfw.session_count(), left - 1);
    }
}

/// The work of one call is bounded, and so is the number of requests that wait.
#[test]
fn many_sessions_end_in_bounded_calls() {
    let mut net = opened(200);
    let (message, data) = net.create_with(ALL, |create| create.lifetime = 0);
    let mri = Mri::PathCoupled(all_flows());
    let message = SendMessage { mri, attributes: ASSOCIATION, ..message };
    for _ in 0..70 {
        net.deliver_as(0, 1, &message, &data);
    }
    let first = net.nodes[1].natfw.session_count();
    assert_eq!(first, 200 - 64);
    net.run();
    assert_eq!(net.log().iter().filter(|line| line.contains("RESPONSE 4/0x01")).count(), 6);
    while net.nodes[1].natfw.next_deadline() == Some(net.now) {
        let before = net.nodes[1].natfw.session_count();
        net.call(1, Nslp::expire);
        assert!(before - net.nodes[1].natfw.session_count() <= 64);
    }
    assert_eq!(net.nodes[1].natfw.session_count(), 0);
}
