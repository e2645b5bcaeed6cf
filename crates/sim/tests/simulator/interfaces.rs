//! Interfaces that are removed and return: what the node loses with them, and what it has of the link afterwards.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use earmark_boomerang::{self as boomerang, Application, RequestedRates, Selector};
use earmark_core::{Flow, InterfaceId, Rate};
use earmark_node::{Command, NodeConfig};
use earmark_sim::NodeId;

use crate::common::{Bench, Family};

const RATE: Rate = Rate::from_mbps(1);

/// Host a with a reservation to host b behind router r: the bench, a, r, and the numbers of their links.
fn reserved() -> (Bench, NodeId, NodeId, [usize; 2]) {
    let mut bench = Bench::with(1, Family::V4, NodeConfig::default());
    let router = bench.router("r");
    let (source, near) = bench.host("a", router, Rate::from_mbps(10));
    let (_, far) = bench.host("b", router, Rate::from_mbps(10));
    bench.route();
    let [from, to] = [near, far].map(|link| bench.links[link].addresses[0]);
    reserve(&mut bench, source, 1, from, to);
    assert_eq!(classes(&bench, router), [bench.links[far].ends[1].1]);
    (bench, source, router, [near, far])
}

/// Requests a reservation of application `number`, for packets to a port of its own.
fn request(bench: &mut Bench, node: NodeId, number: u16, source: IpAddr, destination: IpAddr) {
    let flow = Flow {
        destination,
        source: Some(source),
        protocol: 17,
        destination_port: 5_000 + number,
        source_port: 5_000,
        flow_label: 0,
        spi: 0,
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    };
    let rates = RequestedRates { forward: RATE, reverse: Rate::ZERO };
    let request = boomerang::Request::new(destination, Selector::of_flow(&flow), rates);
    let application = Application(number.into());
    let reserve = boomerang::Command::Reserve { application, request };
    bench.network.command(node, Command::Boomerang(reserve));
}

fn reserve(bench: &mut Bench, node: NodeId, number: u16, source: IpAddr, destination: IpAddr) {
    request(bench, node, number, source, destination);
    let end = bench.network.now() + Duration::from_secs(5);
    bench.network.run_until(end);
}

fn classes(bench: &Bench, node: NodeId) -> Vec<InterfaceId> {
    bench.network.traffic_control(node).map(|(interface, _)| interface).collect()
}

fn reservable(bench: &Bench, node: NodeId, interface: InterfaceId) -> Option<Rate> {
    let node = bench.network.node(node).expect("its daemon runs");
    node.ledger().link(interface).map(|link| link.reservable)
}

#[test]
fn removed_interface_takes_routes_and_reservations_with_it() {
    let (mut bench, _, router, [_, far]) = reserved();
    let [(host, at_host), (_, at_router)] = bench.links[far].ends;
    bench.network.remove_interface(router, at_router);
    assert_eq!(classes(&bench, router), []);
    assert_eq!(reservable(&bench, router, at_router), None);
    // A second removal and a change meanwhile are no news for the node.
    bench.network.remove_interface(router, at_router);
    bench.network.set_reservable(router, at_router, Rate::from_mbps(3));
    assert_eq!(reservable(&bench, router, at_router), None);
    // The other end has its interface still, without a link.
    assert_eq!(reservable(&bench, host, at_host), Some(Rate::from_mbps(10)));
    let there = bench.links[far].addresses[0];
    let near = bench.links[0].addresses[0];
    let (source, _) = bench.links[0].ends[0];
    reserve(&mut bench, source, 2, near, there);
    assert_eq!(classes(&bench, router), []);
}

#[test]
fn returned_interface_reserves_again_with_changes_made_meanwhile() {
    for (renumbered, address) in
        [(false, None), (true, None), (true, Some(Ipv4Addr::new(10, 0, 1, 3).into()))]
    {
        let (mut bench, source, router, [near, far]) = reserved();
        let (_, at_router) = bench.links[far].ends[1];
        bench.network.remove_interface(router, at_router);
        bench.network.set_reservable(router, at_router, Rate::from_mbps(3));
        let id = bench.network.return_interface(router, at_router, renumbered, address);
        let id = id.expect("it was removed");
        assert_eq!(id == at_router, !renumbered);
        assert_eq!(bench.network.return_interface(router, id, false, None), None);
        assert_eq!(reservable(&bench, router, id), Some(Rate::from_mbps(3)));
        let [from, to] = [near, far].map(|link| bench.links[link].addresses[0]);
        reserve(&mut bench, source, 2, from, to);
        assert_eq!(classes(&bench, router), [id]);
    }
}

/// The link works again when the failure is over and both interfaces are there, in any order.
#[test]
fn link_with_failure_and_removed_interfaces_works_after_the_last_of_them() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
        let (mut bench, source, router, [near, far]) = reserved();
        let [(host, at_host), (_, at_router)] = bench.links[far].ends;
        bench.network.remove_interface(router, at_router);
        bench.network.set_link_up(host, at_host, false);
        bench.network.remove_interface(host, at_host);
        let [from, to] = [near, far].map(|link| bench.links[link].addresses[0]);
        for (number, step) in order.into_iter().enumerate() {
            reserve(&mut bench, source, 2 + number as u16, from, to);
            assert_eq!(classes(&bench, router), [], "{order:?} before {number}");
            match step {
                0 => _ = bench.network.return_interface(router, at_router, false, None),
                1 => bench.network.set_link_up(router, at_router, true),
                _ => _ = bench.network.return_interface(host, at_host, false, None),
            }
        }
        reserve(&mut bench, source, 9, from, to);
        assert!(!classes(&bench, router).is_empty(), "{order:?}");
    }
}

#[test]
fn packets_on_the_way_to_a_removed_interface_are_lost() {
    let (mut bench, source, router, [near, far]) = reserved();
    let (_, at_router) = bench.links[near].ends[1];
    let before = classes(&bench, router).len();
    let [from, to] = [near, far].map(|link| bench.links[link].addresses[0]);
    request(&mut bench, source, 2, from, to);
    // The link takes a millisecond.
    let soon = bench.network.now() + Duration::from_micros(500);
    bench.network.run_until(soon);
    bench.network.remove_interface(router, at_router);
    bench.network.run_until(soon + Duration::from_millis(100));
    assert_eq!(classes(&bench, router).len(), before);
}

/// Another machine in the place of a router has no reservations until they are refreshed, and no daemon if the first one has
/// none.
#[test]
fn replaced_router_reserves_by_the_next_refresh() {
    let (mut bench, _, router, [_, far]) = reserved();
    bench.network.replace(router);
    assert_eq!(classes(&bench, router), []);
    let end = bench.network.now() + Duration::from_secs(60);
    bench.network.run_until(end);
    assert_eq!(classes(&bench, router), [bench.links[far].ends[1].1]);
    bench.network.kill(router);
    assert_eq!(classes(&bench, router).len(), 1, "what a dead daemon leaves");
    bench.network.replace(router);
    assert_eq!(classes(&bench, router), []);
    assert!(bench.network.node(router).is_none());
}
