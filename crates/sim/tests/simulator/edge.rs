//! RSVP across a core in one aggregate: the core has one reservation for any number of flows, and never less than they
//! need.
//!
//! ```text
//!   h1 --0-- e1 --1-- c1 --2-- c2 --3-- e2 --4-- h2        c1 and c2 see no RSVP
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use earmark_boomerang as boomerang;
use earmark_core::{Flow, Prefix, Rate, Time};
use earmark_node::{Across, AggregateChange, Border, CoreProtocol, Event, NodeConfig};
use earmark_rsvp as rsvp;
use earmark_sim::{LogEvent, NodeId};
use proptest::prelude::*;

use crate::common::{Family, boomerang_population};
use crate::core_network::{CoreNetwork, FLOW, STEP, across};

fn net(family: Family, core: Rate, change: impl FnOnce(&mut Across)) -> CoreNetwork {
    let timing =
        rsvp::Timing { refresh: Duration::from_secs(30), lifetime_factor: 3, ..Default::default() };
    let rsvp = rsvp::Config { timing, ..rsvp::Config::default() };
    let boomerang = boomerang::Config { refresh_interval: 10, ..boomerang::Config::default() };
    let plain = NodeConfig { rsvp, boomerang, ..NodeConfig::default() };
    let mut across = across(family, CoreProtocol::Boomerang);
    change(&mut across);
    let near = Border { across: vec![across], ..Border::default() };
    CoreNetwork::new(family, core, &plain, [near, Border::default()])
}

fn usual() -> CoreNetwork {
    net(Family::V4, Rate::from_mbps(1_000), |_| {})
}

impl CoreNetwork {
    /// Returns the reservation of each router of the core towards e2.
    fn core_holds(&self) -> [Rate; 2] {
        [(self.c1, 2), (self.c2, 3)].map(|(node, link)| self.held(node, link))
    }

    /// Returns the reservation of the aggregate on the edge's own link.
    fn edge_holds(&self) -> Rate {
        self.held(self.e1, 1)
    }

    /// Asserts that the aggregate has the granted rate everywhere, that the flows have no more than that, and that
    /// traffic control of the edge has a class for each flow and none for the aggregate; the core has no RSVP state.
    fn edge_is_whole(&self) {
        let row = self.check_edge();
        let network = &self.bench.network;
        for node in [self.c1, self.c2] {
            let node = network.node(node).expect("it lives");
            assert_eq!(rsvp_state(node), 0, "{}", node.name());
            let sessions = usize::from(row.granted_bps > Rate::ZERO);
            assert!(boomerang_population(node).0 <= 1.max(sessions));
        }
    }

    fn nothing_is_left(&self) {
        for id in self.bench.network.nodes() {
            let node = self.bench.network.node(id).expect("it lives");
            for (link, status) in node.ledger().links() {
                assert_eq!(
                    (status.held, status.claims),
                    (Rate::ZERO, 0),
                    "{} {link:?}",
                    node.name()
                );
            }
            assert_eq!(rsvp_state(node), 0, "{}", node.name());
            assert_eq!(boomerang_population(node), (0, 0), "{}", node.name());
            assert_eq!(self.bench.network.traffic_control(id).count(), 0, "{}", node.name());
        }
    }

    /// Returns the number of messages that a node's daemon has sent.
    fn sent(&self, node: NodeId) -> usize {
        let is_sent = |what: &LogEvent| matches!(what, LogEvent::Sent { .. });
        self.bench.network.log().iter().filter(|e| e.node == node && is_sent(&e.what)).count()
    }

    /// Returns the number of reservations that were refused to h2.
    fn refusals(&self) -> usize {
        let entries = self.bench.network.log().iter().filter(|entry| entry.node == self.h2);
        let refused: BTreeSet<u64> = entries
            .filter_map(|entry| match &entry.what {
                LogEvent::Event(Event::Rsvp(rsvp::Event::ResvError { application, .. })) => {
                    Some(application.0)
                }
                _ => None,
            })
            .collect();
        refused.len()
    }
}

/// Returns the number of senders and reservations.
fn rsvp_state(node: &earmark_node::Node) -> usize {
    let (_, senders, requests) =
        node.engine::<earmark_rsvp::Rsvp>().expect("a node with RSVP").population();
    senders + requests
}

/// A thousand flows of 64 kbit/s, a hundred a second, are 16 steps; the core gets some tens of messages for them.
#[test]
fn a_thousand_flows_are_one_reservation_in_the_core() {
    for family in [Family::V4, Family::V6] {
        let mut net = net(family, Rate::from_mbps(1_000), |_| {});
        for number in 1..=1_000 {
            net.begin(number, FLOW);
            net.run(Duration::from_millis(10));
        }
        net.seconds(1);
        net.edge_is_whole();
        let row = net.aggregate();
        assert_eq!((row.members, row.waiting), (1_000, 0));
        assert_eq!((row.need_bps, row.granted_bps), (Rate::from_mbps(64), Rate::from_mbps(64)));
        assert_eq!(net.core_holds(), [Rate::from_mbps(64); 2]);
        assert_eq!(net.edge_holds(), Rate::from_mbps(64), "nothing counts twice");
        assert_eq!(net.refusals(), 0);
        for node in [net.c1, net.c2] {
            let node = net.bench.network.node(node).expect("it lives");
            assert_eq!(boomerang_population(node), (1, 0));
        }
        let messages = net.sent(net.c1);
        assert!(messages <= 60, "{messages} messages of the core in all");
        let grown = net.changes().iter().filter(|(c, _)| *c == AggregateChange::Grown).count();
        assert_eq!(grown, 16);

        // Refreshes of a thousand flows cause none in the core.
        let before = net.sent(net.c1);
        net.seconds(100);
        net.edge_is_whole();
        assert!(net.sent(net.c1) - before <= 2 * 100 / 5, "two a refresh of the aggregate");

        for number in 1..=1_000 {
            net.end(number);
        }
        net.seconds(60);
        assert_eq!(net.aggregate().granted_bps, Rate::ZERO);
        net.nothing_is_left();
    }
}

/// A flow that fits is admitted without messages to the core, another one after one round trip.
#[test]
fn fitting_flow_is_admitted_at_once() {
    let mut net = usual();
    net.begin(1, FLOW);
    net.seconds(1);
    let before = net.sent(net.c1);
    for number in 2..=62 {
        net.begin(number, FLOW);
    }
    net.seconds(1);
    assert_eq!(net.sent(net.c1), before);
    let row = net.aggregate();
    assert_eq!((row.members, row.granted_bps), (62, STEP));
    net.begin(63, FLOW);
    net.run(Duration::from_millis(100));
    let row = net.aggregate();
    assert_eq!((row.members, row.granted_bps), (63, Rate::from_mbps(8)));
    net.edge_is_whole();
}

/// With a margin the aggregate grows before it is exhausted.
#[test]
fn margin_is_kept_for_later_flows() {
    let mut net = net(Family::V4, Rate::from_mbps(1_000), |a| a.margin = Rate::from_mbps(1));
    for number in 1..=50 {
        net.begin(number, FLOW);
        net.run(Duration::from_millis(50));
    }
    let row = net.aggregate();
    assert_eq!((row.members, row.granted_bps), (50, Rate::from_mbps(8)), "3.2 and a margin");
    assert_eq!(net.changes(), [(AggregateChange::Grown, 4), (AggregateChange::Grown, 8)]);
}

/// A flow that starts and ends at the border of a step makes the aggregate grow once, and not shrink.
#[test]
fn churn_at_a_step_border_does_not_oscillate() {
    let mut net = usual();
    for number in 1..=62 {
        net.begin(number, FLOW);
    }
    net.seconds(2);
    for _ in 0..20 {
        net.begin(63, FLOW);
        net.seconds(5);
        net.end(63);
        net.seconds(5);
    }
    assert_eq!(net.changes(), [(AggregateChange::Grown, 4), (AggregateChange::Grown, 8)]);
    // After some time with spare bandwidth it shrinks, by the unused step.
    net.seconds(30);
    assert_eq!(net.changes()[2..], [(AggregateChange::Shrunk, 4)]);
    assert_eq!(net.core_holds(), [STEP; 2]);
    net.edge_is_whole();
}

/// A core without more bandwidth refuses; admitted flows stay, and RSVP reports the reason to the others.
#[test]
fn refusal_by_the_core_is_a_refusal_by_rsvp() {
    let mut net = net(Family::V4, Rate::from_mbps(10), |_| {});
    for number in 1..=150 {
        net.begin(number, FLOW);
        net.run(Duration::from_millis(20));
    }
    net.seconds(3);
    let row = net.aggregate();
    assert_eq!(row.granted_bps, Rate::from_mbps(8), "a third step does not fit");
    assert_eq!(row.members, 125);
    assert_eq!(net.core_holds(), [Rate::from_mbps(8); 2], "the refused step is given back");
    assert_eq!(net.edge_holds(), Rate::from_mbps(8));
    assert_eq!(net.refusals(), 25);
    net.edge_is_whole();
    let refused = net.changes().iter().filter(|(c, _)| *c == AggregateChange::Refused).count();
    assert!(refused <= 2, "nobody asks again at once: {refused}");
    // When others leave, there is room again, without messages to the core.
    for number in 1..=30 {
        net.end(number);
    }
    net.seconds(90);
    assert_eq!(net.aggregate().members, 120, "those that were refused ask again");
    net.edge_is_whole();
    for number in 1..=150 {
        net.end(number);
    }
    net.seconds(60);
    net.nothing_is_left();
}

/// A router of the core dies and restarts: its next refresh restores the aggregate, and no flow is affected.
#[test]
fn a_router_of_the_core_may_die() {
    let mut net = usual();
    for number in 1..=100 {
        net.begin(number, FLOW);
    }
    net.seconds(5);
    let before = net.aggregate();
    net.bench.network.kill(net.c1);
    net.seconds(20);
    net.bench.network.restart(net.c1, Duration::from_secs(60));
    net.seconds(30);
    assert_eq!(net.aggregate(), before);
    assert_eq!(net.core_holds(), [Rate::from_mbps(8); 2]);
    net.edge_is_whole();
    assert_eq!(net.refusals(), 0);
}

/// The core grants lost bandwidth to another session: the flows lose their reservations, and get an error.
#[test]
fn flows_lose_bandwidth_that_the_core_preempts() {
    let mut net = net(Family::V4, Rate::from_mbps(10), |_| {});
    for number in 1..=100 {
        net.begin(number, FLOW);
    }
    net.seconds(5);
    assert_eq!(net.aggregate().members, 100);
    let interface = net.bench.links[2].ends[0].1;
    net.bench.network.set_bandwidth(net.c1, interface, Rate::from_mbps(2));
    net.bench.network.kill(net.c1);
    net.bench.network.restart(net.c1, Duration::from_secs(1));
    net.seconds(30);
    let changes = net.changes();
    assert!(changes.contains(&(AggregateChange::Failing, 8)), "{changes:?}");
    assert!(changes.contains(&(AggregateChange::Lost, 0)), "{changes:?}");
    assert_eq!(net.refusals(), 100);
    assert_eq!(net.aggregate().need_bps, Rate::ZERO);
    assert_eq!(net.core_holds(), [Rate::ZERO; 2]);
    assert_eq!(net.bench.network.traffic_control(net.e1).count(), 0);
}

/// No router of the core breaks the path, though each lowers the TTL; the far edge sees one hop.
#[test]
fn the_core_is_no_break_in_the_path() {
    let mut net = usual();
    net.begin(1, FLOW);
    net.seconds(1);
    let offers = net.bench.network.log().iter().filter_map(|entry| match &entry.what {
        LogEvent::Event(Event::Rsvp(rsvp::Event::Path { offer, .. })) if entry.node == net.h2 => {
            *offer
        }
        _ => None,
    });
    let offers: Vec<_> = offers.collect();
    assert!(!offers.is_empty() && offers.iter().all(|offer| !offer.broken), "{offers:?}");
    let e2 = net.bench.network.node(net.e2).expect("it lives");
    assert_eq!(rsvp_state(e2), 2, "a sender and its reservation");
    assert_eq!(Flow::to_range(net.aggregate().range).destinations(), prefix("10.0.4.0/24"));
}

fn prefix(text: &str) -> Prefix {
    text.parse().expect("a prefix")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// For any sequence of flows, the core has at least the sum of the flows' reservations at any time.
    #[test]
    fn core_reserves_at_least_the_sum_of_the_flows(
        moves in prop::collection::vec((1_u16..40, any::<bool>(), 1_u64..12, 0_u64..3_000), 1..60),
        core in 5_u64..60,
        margin in 0_u64..3,
    ) {
        let mut net = net(Family::V4, Rate::from_mbps(core), |across| {
            across.margin = Rate::from_mbps(margin);
            across.shrink_after = Duration::from_secs(3);
        });
        net.come_and_go(moves, |net| {
            let row = net.aggregate();
            assert!(row.granted_bps >= row.need_bps, "{row:?}");
            if row.need_bps > Rate::ZERO {
                let core = net.core_holds();
                assert!(core.iter().all(|held| *held >= row.need_bps), "{core:?} {row:?}");
            }
        });
        net.seconds(60);
        net.nothing_is_left();
        prop_assert!(net.bench.network.now() > Time::ZERO);
    }
}
