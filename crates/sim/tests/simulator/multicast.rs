//! Multicast data in a network: trees reach every member once, follow members and links, and are reported to daemons.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use earmark_core::{MulticastRoute, Rate, Time};
use earmark_sim::{Faults, Keep, NodeId, Source, StreamId, TrafficPattern};

use crate::common::{Bench, Family};

/// A ring of four routers with a host at each: r0 - r1 - r2 - r3 - r0, links 0 to 3; h0 to h3, links 4 to 7.
struct Ring {
    bench: Bench,
    routers: Vec<NodeId>,
    hosts: Vec<NodeId>,
    group: IpAddr,
}

fn ring(family: Family) -> Ring {
    let mut bench = Bench::new(1, family, earmark_rsvp::Config::default());
    let speed = Rate::from_mbps(10);
    let routers: Vec<NodeId> = (0..4).map(|n| bench.router(&format!("r{n}"))).collect();
    for n in 0..4 {
        bench.connect(routers[n], routers[(n + 1) % 4], speed);
    }
    let hosts = (0..4).map(|n| bench.host(&format!("h{n}"), routers[n], speed).0).collect();
    bench.route();
    Ring { bench, routers, hosts, group: group(family) }
}

fn group(family: Family) -> IpAddr {
    match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::new(239, 1, 0, 1)),
        Family::V6 => IpAddr::V6(Ipv6Addr::new(0xff1e, 0, 0, 0, 0, 0, 1, 1)),
    }
}

impl Ring {
    /// Sends 100 packets a second to the group.
    fn send_from(&mut self, host: usize) -> StreamId {
        self.bench.network.add_source(Source {
            node: self.hosts[host],
            port: 1,
            destination: self.group,
            destination_port: 2,
            dscp: 0,
            pattern: TrafficPattern::Constant(Rate::from_bps(800_000)),
            packet_octets: 1_000,
            from: self.bench.network.now(),
            until: Time::MAX,
            keep: Keep::Packets,
        })
    }

    fn run(&mut self, seconds: u64) {
        self.bench.network.run_until(self.bench.network.now() + Duration::from_secs(seconds));
    }

    /// Returns the number of packets of a stream that each host has received.
    fn received(&self, stream: StreamId) -> Vec<u64> {
        let received = |&host| {
            self.bench.network.trace_at(stream, host).map_or(0, earmark_sim::Trace::received)
        };
        self.hosts.iter().map(received).collect()
    }

    /// Returns the number of branches that the daemon of each router knows for a source.
    fn branches(&self, host: usize) -> Vec<Option<usize>> {
        let source = self.bench.links[4 + host].addresses[0];
        let mine = |route: &&MulticastRoute| route.source == Some(source);
        let count = |&router| {
            let node = self.bench.network.node(router).expect("it lives");
            let mut routes = node.routes().multicast_routes();
            routes.find(mine).map(|route| route.outgoing.len())
        };
        self.routers.iter().map(count).collect()
    }
}

/// Members get each packet once, others none; new members get the packets sent from then on, former members no more.
#[test]
fn members_get_every_packet_once() {
    for family in [Family::V4, Family::V6] {
        let mut ring = ring(family);
        for host in [1, 2] {
            ring.bench.network.join(ring.hosts[host], ring.group);
        }
        let stream = ring.send_from(0);
        ring.run(1);
        ring.bench.network.stop_source(stream);
        ring.run(1);
        assert_eq!(ring.received(stream), [0, 100, 100, 0], "{family:?}");
        assert_eq!(ring.branches(0), [Some(1), Some(2), Some(1), None], "along one side");
        let (third, first) = (ring.hosts[3], ring.hosts[1]);
        ring.bench.network.join(third, ring.group);
        ring.bench.network.leave(first, ring.group);
        assert_eq!(ring.branches(0), [Some(2), Some(1), Some(1), Some(1)]);
        let second = ring.send_from(0);
        ring.run(1);
        ring.bench.network.stop_source(second);
        ring.run(1);
        assert_eq!(ring.received(second), [0, 0, 100, 100], "{family:?}");
    }
}

/// A link of the tree fails: the tree takes the other way round, and returns with the link.
#[test]
fn trees_go_around_a_failed_link() {
    let mut ring = ring(Family::V4);
    ring.bench.network.join(ring.hosts[1], ring.group);
    let stream = ring.send_from(0);
    ring.run(1);
    assert_eq!(ring.branches(0), [Some(1), Some(1), None, None]);
    let (router, interface) = ring.bench.links[0].ends[0];
    ring.bench.network.set_link_up(router, interface, false);
    assert_eq!(ring.branches(0), [Some(1), Some(1), Some(1), Some(1)]);
    ring.run(1);
    ring.bench.network.set_link_up(router, interface, true);
    assert_eq!(ring.branches(0), [Some(1), Some(1), None, None]);
    ring.run(1);
    let [_, received, ..] = ring.received(stream)[..] else { unreachable!("four hosts") };
    assert!((296..=300).contains(&received), "{received}: only what was on its way is lost");
}

/// All sources of a group use the links of one tree: no packet crosses the ring's far link, which is not on it.
#[test]
fn a_shared_tree_is_one_tree() {
    let mut ring = ring(Family::V4);
    for host in [1, 3] {
        ring.bench.network.join(ring.hosts[host], ring.group);
    }
    let stream = ring.send_from(2);
    ring.run(1);
    assert_eq!(ring.branches(2), [None, Some(1), Some(2), Some(1)], "both ways from r2");
    ring.bench.network.share_tree(ring.group, ring.routers[0]);
    assert_eq!(ring.branches(2), [Some(1), Some(2), Some(1), Some(1)], "all through r0");
    let before = ring.received(stream);
    ring.run(1);
    let after = ring.received(stream);
    for host in [1, 3] {
        // A hundred a second, each somewhere in its slot, and the packets in flight when the tree changed.
        assert!((97..=101).contains(&(after[host] - before[host])), "{before:?} {after:?}");
    }
}

/// A starting daemon gets the entries of its host.
#[test]
fn new_daemon_gets_multicast_entries() {
    let mut ring = ring(Family::V6);
    ring.bench.network.join(ring.hosts[1], ring.group);
    ring.send_from(0);
    ring.run(1);
    let router = ring.routers[0];
    ring.bench.network.kill(router);
    ring.bench.network.restart(router, Duration::from_secs(1));
    assert_eq!(ring.branches(0), [Some(1), Some(1), None, None]);
}

/// Faults affect signalling only.
#[test]
fn faults_do_not_affect_data() {
    let mut ring = ring(Family::V4);
    ring.bench.network.join(ring.hosts[1], ring.group);
    let (router, interface) = ring.bench.links[0].ends[0];
    let faults = Faults { loss: 1.0, ..Faults::default() };
    ring.bench.network.set_faults(router, interface, faults);
    let stream = ring.send_from(0);
    ring.run(1);
    ring.bench.network.stop_source(stream);
    ring.run(1);
    assert_eq!(ring.received(stream)[1], 100);
}
