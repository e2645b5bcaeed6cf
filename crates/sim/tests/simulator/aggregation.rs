//! RSVP across a core in one aggregate of RSVP (RFC 3175): the routers of the core have one session for each pair of edges,
//! and their classes are for the packets of one DSCP.
//!
//! ```text
//!   h1 --0-- e1 --1-- c1 --2-- c2 --3-- e2 --4-- h2
//! ```

use std::time::Duration;

use earmark_core::{Flow, Outgoing, Rate, Time, Trust};
use earmark_node::{
    Across, AggregateChange, Border, CorePackets, CoreProtocol, Deaggregate, NodeConfig,
};
use earmark_rsvp as rsvp;
use earmark_sim::{Keep, Source, StreamId, TrafficPattern};
use earmark_wire::rsvp::{
    Body, Carried, Dscp, ErrorCode, ErrorSpec, Message, PathErr, SenderTemplate, Session,
    SourceSelector,
};
use proptest::prelude::*;

use crate::common::Family;
use crate::core_network::{CoreNetwork, STEP, across};

const DSCP: u8 = 46;

fn net(family: Family, core: Rate) -> CoreNetwork {
    net_with(family, core, |_| {})
}

fn net_with(family: Family, core: Rate, change: impl FnOnce(&mut Across)) -> CoreNetwork {
    let timing =
        rsvp::Timing { refresh: Duration::from_secs(10), lifetime_factor: 3, ..Default::default() };
    let rsvp = rsvp::Config { timing, ..rsvp::Config::default() };
    let plain = NodeConfig { rsvp, ..NodeConfig::default() };
    let mut across = across(family, CoreProtocol::Rsvp(CorePackets::Dscp(DSCP)));
    change(&mut across);
    let deaggregates = vec![Deaggregate { at: across.to, packets: CorePackets::Dscp(DSCP) }];
    let near = Border { across: vec![across], ..Border::default() };
    let far = Border { deaggregates, ..Border::default() };
    CoreNetwork::new(family, core, &plain, [near, far])
}

impl CoreNetwork {
    /// Returns what is reserved towards e2 on the links of e1, c1 and c2.
    fn holds(&self) -> [Rate; 3] {
        [(self.e1, 1), (self.c1, 2), (self.c2, 3)].map(|(node, link)| self.held(node, link))
    }

    /// Asserts that the flows have no more than the aggregate, that the aggregate has its rate on each link, that the edge has
    /// a class for each flow, and that each router of the core has one session and one class, for the packets with the DSCP.
    fn aggregate_is_whole(&self) {
        let row = self.check_edge();
        assert_eq!(self.holds(), [row.granted_bps; 3]);
        let network = &self.bench.network;
        let all = Flow::of_dscp(self.address(1, 0).is_ipv6(), DSCP);
        for id in [self.c1, self.c2] {
            assert_eq!(self.population(id), (1, 1, 1));
            let [(_, only)] = &network.traffic_control(id).collect::<Vec<_>>()[..] else {
                panic!("one class of {}", network.name(id));
            };
            assert_eq!((&only.flows[..], only.demand.rate), (&[all][..], row.granted_bps));
        }
    }

    fn core_is_empty(&self) {
        for id in [self.c1, self.c2] {
            let name = self.bench.network.name(id);
            assert_eq!(self.population(id), (0, 0, 0), "{name}");
            assert_eq!(self.bench.network.traffic_control(id).count(), 0, "{name}");
        }
        assert_eq!(self.holds(), [Rate::ZERO; 3]);
    }

    fn stream(&mut self, port: u16, dscp: u8, mbps: u64) -> StreamId {
        self.bench.network.add_source(Source {
            node: self.h1,
            port,
            destination: self.address(4, 0),
            destination_port: port,
            dscp,
            pattern: TrafficPattern::Constant(Rate::from_mbps(mbps)),
            packet_octets: 1_000,
            from: self.bench.network.now(),
            until: Time::MAX,
            keep: Keep::Counts,
        })
    }
}

/// Hundreds of flows are one session in the core, which grows in steps and ends with them.
#[test]
fn flows_are_one_session_in_the_core() {
    for family in [Family::V4, Family::V6] {
        let mut net = net(family, Rate::from_mbps(1_000));
        net.begin_all(300);
        let row = net.aggregate();
        assert_eq!((row.members, row.waiting, &*row.protocol), (300, 0, "rsvp"));
        assert_eq!(row.granted_bps, Rate::from_mbps(20), "five steps for 19.2 Mbit/s");
        net.aggregate_is_whole();
        let grown = [4, 8, 12, 16, 20].map(|rate| (AggregateChange::Grown, rate));
        assert_eq!(net.changes(), grown);

        // Refreshes of the flows are none of the core's.
        net.seconds(100);
        net.aggregate_is_whole();
        for number in 101..=300 {
            net.end(number);
        }
        net.seconds(60);
        assert_eq!(net.aggregate().granted_bps, Rate::from_mbps(8));
        net.aggregate_is_whole();
        for number in 1..=100 {
            net.end(number);
        }
        net.seconds(60);
        assert_eq!(net.aggregate().granted_bps, Rate::ZERO);
        net.core_is_empty();
    }
}

/// A core without more bandwidth refuses a step: the edge gives up what other routers have granted for it, admitted flows
/// stay, and RSVP refuses the others.
#[test]
fn refused_step_is_given_back_and_flows_are_refused() {
    let mut net = net(Family::V4, Rate::from_mbps(10));
    net.begin_all(150);
    net.seconds(10);
    let row = net.aggregate();
    assert_eq!((row.granted_bps, row.members), (Rate::from_mbps(8), 125));
    let refused = net.changes().iter().filter(|(c, _)| *c == AggregateChange::Refused).count();
    assert!((1..=3).contains(&refused), "{refused}: nobody asks again at once");
    // The others ask again with each refresh; between two attempts nothing of a step is left.
    for number in 126..=150 {
        net.end(number);
    }
    net.seconds(60);
    net.aggregate_is_whole();
}

/// The edge that restarts, and a router of the core, get their reservations back.
#[test]
fn restarted_routers_get_their_reservations_back() {
    let mut net = net(Family::V4, Rate::from_mbps(1_000));
    net.begin_all(100);
    for node in [net.c1, net.e2, net.e1] {
        net.restart(node);
        let (row, name) = (net.aggregate(), net.bench.network.name(node));
        assert_eq!((row.members, row.granted_bps), (100, Rate::from_mbps(8)), "{name}");
    }
    net.aggregate_is_whole();
}

/// A link in the core that fails takes the aggregate, and the reservations of the flows with it; when it returns, so do they.
#[test]
fn flows_lose_their_reservations_with_the_link_of_the_core() {
    let mut net = net(Family::V4, Rate::from_mbps(1_000));
    net.begin_all(100);
    let (node, interface) = net.bench.links[2].ends[0];
    net.bench.network.set_link_up(node, interface, false);
    net.seconds(90);
    let changes = net.changes();
    assert!(changes.contains(&(AggregateChange::Failing, 8)), "{changes:?}");
    assert!(changes.contains(&(AggregateChange::Lost, 0)), "{changes:?}");
    assert_eq!(net.aggregate().need_bps, Rate::ZERO);
    net.bench.network.set_link_up(node, interface, true);
    net.seconds(120);
    assert_eq!(net.aggregate().members, 100);
    net.aggregate_is_whole();
}

/// A router accepts aggregates from the core only. With e1 behind an access interface its flows get nothing.
#[test]
fn aggregate_from_behind_an_access_interface_is_refused() {
    let mut net = net(Family::V4, Rate::from_mbps(1_000));
    let (node, interface) = net.bench.links[1].ends[1];
    net.bench.network.set_trust(node, interface, Trust::ACCESS);
    net.begin_all(3);
    net.seconds(30);
    assert_eq!((net.aggregate().members, net.aggregate().granted_bps), (0, Rate::ZERO));
    net.core_is_empty();
    assert!(net.changes().contains(&(AggregateChange::Refused, 0)), "{:?}", net.changes());
}

/// A PathErr about an aggregate that is granted, which a neighbour may forge, ends nothing.
#[test]
fn forged_error_leaves_a_granted_aggregate() {
    let mut net = net(Family::V4, Rate::from_mbps(1_000));
    net.begin_all(30);
    let granted = net.aggregate();
    let [own, neighbor] = [0, 1].map(|side| net.address(1, side));
    let error = PathErr {
        session: Session::aggregate(net.address(3, 1), Dscp(DSCP)),
        error: ErrorSpec {
            node: neighbor,
            flags: 0,
            code: ErrorCode::AdmissionControlFailure,
            value: 2,
        },
        carried: Carried::NONE,
        sender: Some((SenderTemplate { source: own, selector: SourceSelector::Aggregator }, None)),
    };
    let message = Message::new(255, Body::PathErr(error));
    let mut octets = vec![0; message.buffer_len()];
    message.emit(&mut octets).expect("there is room");
    let (c1, interface) = net.bench.links[1].ends[1];
    let how = Outgoing::new(rsvp::PROTOCOL, neighbor, own, 255);
    let how = Outgoing { interface: Some(interface), ..how };
    net.bench.network.send_datagram(c1, &how, &octets);
    net.seconds(20);
    let e1 = net.bench.network.node(net.e1).expect("it lives");
    let counters = e1.engine::<rsvp::Rsvp>().expect("a node with RSVP").counters();
    let path_err = rsvp::MESSAGES.iter().position(|name| *name == "path_err").expect("known");
    assert_eq!((counters.received[path_err], counters.dropped.iter().sum::<u64>()), (1, 0));
    assert_eq!(net.aggregate(), granted);
    assert_eq!(net.changes(), [(AggregateChange::Grown, 4)]);
    net.aggregate_is_whole();
}

/// The edge marks the packets of reserved flows, and no others: in a flood that its sender has marked, a flow whose sender
/// marks nothing loses nothing.
#[test]
fn packets_of_reserved_flows_alone_have_the_aggregate() {
    for family in [Family::V4, Family::V6] {
        let mut net = net(family, Rate::from_mbps(10));
        net.begin_all(30);
        net.begin(7_000, Rate::from_mbps(2));
        net.seconds(3);
        assert_eq!(net.aggregate().granted_bps, STEP);
        net.aggregate_is_whole();
        let reserved = net.stream(7_000, 0, 2);
        let unreserved = net.stream(7_001, 0, 2);
        let flood = net.stream(7_002, DSCP, 20);
        net.seconds(10);
        let share = |stream| {
            let (sent, received) = net.bench.network.counts(stream);
            received as f64 / sent as f64
        };
        assert!(share(reserved) > 0.99, "{}", share(reserved));
        for stream in [unreserved, flood] {
            assert!(share(stream) < 0.9, "{}", share(stream));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// For any sequence of flows, the core has at least the sum of the flows' reservations at any time, and nothing is left after
    /// them.
    #[test]
    fn core_reserves_at_least_the_sum_of_the_flows(
        moves in prop::collection::vec((1_u16..40, any::<bool>(), 1_u64..12, 0_u64..3_000), 1..60),
        core in 5_u64..60,
        margin in 0_u64..3,
    ) {
        let mut net = net_with(Family::V4, Rate::from_mbps(core), |across| {
            across.margin = Rate::from_mbps(margin);
            across.shrink_after = Duration::from_secs(3);
        });
        net.come_and_go(moves, |net| {
            let (row, core) = (net.aggregate(), net.holds());
            assert!(row.granted_bps >= row.need_bps, "{row:?}");
            assert!(core.iter().all(|held| *held >= row.need_bps), "{core:?} {row:?}");
        });
        net.seconds(90);
        prop_assert_eq!(net.aggregate().granted_bps, Rate::ZERO);
        net.core_is_empty();
    }
}
