//! RSVP through a tunnel whose packets have a reservation of their own (RFC 2746): the routers below have one session for any
//! number of flows.
//!
//! ```text
//!              ===1=====       the tunnel
//!   h1 --0-- e1 --2-- c1 --3-- e2 --4-- h2
//! ```
//!
//! The tunnel is a link of its own here: the simulator encapsulates nothing. Daemons with a tunnel are in
//! `crates/earmarkd/tests/kernel`.

use std::time::Duration;

use earmark_core::{Flow, Hop, Prefix, Rate, Route};
use earmark_node::{
    Across, AggregateChange, Border, CorePackets, CoreProtocol, Deaggregate, NodeConfig,
    TunnelProtocol,
};
use earmark_rsvp as rsvp;
use earmark_sim::NodeId;

use crate::common::{Bench, Family};
use crate::core_network::{CoreNetwork, across};

const GRE: TunnelProtocol = TunnelProtocol { ip_protocol: 47, port: 0 };
const WIREGUARD: TunnelProtocol = TunnelProtocol { ip_protocol: 17, port: 51_820 };

/// Bandwidth of the tunnel, and so rate of its session.
const TUNNEL: Rate = Rate::from_mbps(10);

/// Creates the network. All links have 1 Gbit/s except the tunnel and the link from c1 to e2.
fn net(family: Family, tunnel: TunnelProtocol, below: Rate) -> CoreNetwork {
    let timing =
        rsvp::Timing { refresh: Duration::from_secs(10), lifetime_factor: 3, ..Default::default() };
    let rsvp = rsvp::Config { timing, ..rsvp::Config::default() };
    let plain = NodeConfig { rsvp, ..NodeConfig::default() };
    let mut bench = Bench::with(5, family, plain.clone());
    let packets = CorePackets::Tunnel(tunnel);
    let across = Across {
        step: TUNNEL,
        lowest: TUNNEL,
        highest: TUNNEL,
        ..across(family, CoreProtocol::Rsvp(packets))
    };
    let exit = across.to;
    let border = |across, deaggregates| {
        let border = Border { hide: false, across, deaggregates };
        NodeConfig { borders: [("link1".into(), border)].into(), ..plain.clone() }
    };
    let e1 = bench.router_with("e1", border(vec![across], vec![]));
    let c1 = bench.router("c1");
    let e2 = bench.router_with("e2", border(vec![], vec![Deaggregate { at: exit, packets }]));
    let speed = Rate::from_mbps(1_000);
    let (h1, _) = bench.host("h1", e1, speed);
    for (a, b, speed) in [(e1, e2, TUNNEL), (e1, c1, speed), (c1, e2, below)] {
        bench.connect(a, b, speed);
    }
    let (h2, _) = bench.host("h2", e2, speed);
    bench.route();
    // Packets of the tunnel do not enter it again.
    let interface = bench.links[2].ends[0].1;
    let hop = Hop { interface, gateway: Some(bench.links[2].addresses[1]), source: None };
    let prefix = Prefix::new(exit, if exit.is_ipv4() { 32 } else { 128 });
    bench.network.add_route(e1, Route { prefix, metric: 1, hop });
    CoreNetwork { bench, h1, e1, c1, c2: c1, e2, h2 }
}

impl CoreNetwork {
    /// Returns the flows and rates of traffic control at a node towards e2, on a link.
    fn classes(&self, node: NodeId, link: usize) -> Vec<(Vec<Flow>, Rate)> {
        let interface = self.bench.links[link].ends[0].1;
        let all = self.bench.network.traffic_control(node).filter(|(id, _)| *id == interface);
        all.map(|(_, reserved)| (reserved.flows, reserved.demand.rate)).collect()
    }

    /// Asserts that each flow has its class at the entry of the tunnel, that the flows have no more than the tunnel's session, and
    /// that e1 and c1 have one class for its packets, of the tunnel's bandwidth.
    fn tunnel_is_whole(&self, tunnel: TunnelProtocol) {
        let row = self.aggregate();
        assert!(row.granted_bps == TUNNEL && row.need_bps <= TUNNEL, "{row:?}");
        let of_flows = self.classes(self.e1, 1);
        assert_eq!(of_flows.len(), row.members as usize);
        assert_eq!(of_flows.iter().fold(Rate::ZERO, |sum, (_, rate)| sum + *rate), row.need_bps);
        let packets = Flow {
            source: Some(self.address(2, 0)),
            protocol: tunnel.ip_protocol,
            destination_port: tunnel.port,
            ..Flow::to_range(Prefix::new(
                self.address(3, 1),
                if self.address(3, 1).is_ipv4() { 32 } else { 128 },
            ))
        };
        for (node, link) in [(self.e1, 2), (self.c1, 3)] {
            assert_eq!(self.classes(node, link), [(vec![packets], row.granted_bps)]);
            assert_eq!(self.held(node, link), row.granted_bps);
        }
        assert_eq!(self.held(self.e1, 1), Rate::ZERO, "the flows claim on the session alone");
    }
}

/// In both families, for tunnels with and without ports: the packets of a tunnel have one session below, whose rate is the
/// bandwidth of the tunnel for any number of flows.
#[test]
fn flows_in_a_tunnel_are_one_session_below() {
    for (family, tunnel) in
        [(Family::V4, GRE), (Family::V4, WIREGUARD), (Family::V6, GRE), (Family::V6, WIREGUARD)]
    {
        let mut net = net(family, tunnel, Rate::from_mbps(1_000));
        net.seconds(10);
        net.tunnel_is_whole(tunnel);
        net.begin_all(150);
        let row = net.aggregate();
        assert_eq!((row.members, row.waiting, &*row.protocol), (150, 0, "rsvp"));
        net.tunnel_is_whole(tunnel);
        assert_eq!(net.population(net.c1), (1, 1, 1));
        net.seconds(100);
        net.tunnel_is_whole(tunnel);
        (1..=150).for_each(|number| net.end(number));
        net.seconds(60);
        assert_eq!(net.aggregate().need_bps, Rate::ZERO);
        net.tunnel_is_whole(tunnel);
    }
}

/// A tunnel without room for a flow refuses it at once (RFC 2746 section 4.2.3: an admission control failure), and flows in
/// place stay.
#[test]
fn flow_beyond_the_tunnel_is_refused() {
    let mut net = net(Family::V4, GRE, Rate::from_mbps(1_000));
    net.seconds(10);
    net.begin_all(160);
    let row = net.aggregate();
    assert_eq!((row.members, row.waiting), (156, 0), "156 times 64 kbit/s");
    net.tunnel_is_whole(GRE);
}

/// Flows are reserved only while the tunnel is reserved below.
#[test]
fn flow_without_room_below_the_tunnel_is_refused() {
    let mut net = net(Family::V4, GRE, Rate::from_mbps(9));
    net.begin_all(3);
    net.seconds(30);
    let row = net.aggregate();
    assert_eq!((row.granted_bps, row.members), (Rate::ZERO, 0));
    assert!(net.changes().iter().any(|(change, _)| *change == AggregateChange::Refused));
    let (node, interface) = net.bench.links[3].ends[0];
    net.bench.network.set_bandwidth(node, interface, Rate::from_mbps(20));
    net.seconds(60);
    assert_eq!(net.aggregate().members, 3);
    net.tunnel_is_whole(GRE);
}

/// The exit, the entry and the router below restart; the link below fails and returns.
#[test]
fn reservations_return_after_failures_below_the_tunnel() {
    let mut net = net(Family::V4, GRE, Rate::from_mbps(1_000));
    net.begin_all(100);
    for node in [net.c1, net.e2, net.e1] {
        net.restart(node);
        let (row, name) = (net.aggregate(), net.bench.network.name(node));
        assert_eq!((row.members, row.granted_bps), (100, TUNNEL), "{name}");
        net.tunnel_is_whole(GRE);
    }
    let (node, interface) = net.bench.links[3].ends[0];
    net.bench.network.set_link_up(node, interface, false);
    net.seconds(90);
    assert_eq!(net.aggregate().need_bps, Rate::ZERO, "what is not reserved below is not reserved");
    net.bench.network.set_link_up(node, interface, true);
    net.seconds(120);
    assert_eq!(net.aggregate().members, 100);
    net.tunnel_is_whole(GRE);
}
