//! Random networks: a tree of routers with some additional links, and hosts on some of them.

use std::net::Ipv4Addr;
use std::time::Duration;

use earmark_core::random::Stream;
use earmark_core::{Prefix, Rate};
use earmark_sim::distributions::{fraction, happens};

use crate::sampling::{below, milliseconds, one_of};
use crate::topology::{End, Link, Metric, Node, Role, Topology};

/// Minimum and maximum number of routers.
const ROUTERS: [usize; 2] = [2, 60];
/// Bandwidths between routers, bits per second: so low that some packets fill the link.
const BETWEEN_ROUTERS: [u64; 4] = [512_000, 1_000_000, 1_500_000, 2_000_000];
/// Bandwidths of links to hosts.
const OF_HOSTS: [u64; 2] = [2_000_000, 4_000_000];

/// Draws a network.
pub(super) fn draw(dice: &mut Stream) -> Topology {
    let (name, metric) = ("explored".to_owned(), one_of(dice, &[Metric::Links, Metric::Delay]));
    let mut topology = Topology { name, nodes: Vec::new(), links: Vec::new(), metric };
    // Most are small: few nodes already find errors, and each run of a large one takes long.
    let drawn = fraction(dice);
    let routers =
        ROUTERS[0] + (drawn * drawn * drawn * (ROUTERS[1] - ROUTERS[0] + 1) as f64) as usize;
    let add = |topology: &mut Topology, name: String, role| {
        topology.nodes.push(Node { name, role, area: None, place: None });
        topology.nodes.len() - 1
    };
    for number in 0..routers {
        let router = add(&mut topology, format!("r{number}"), Role::Router);
        if number > 0 {
            let other = below(dice, number);
            join(&mut topology, [other, router], &BETWEEN_ROUTERS, dice);
        }
    }
    for _ in 0..below(dice, routers) {
        let ends = [below(dice, routers), below(dice, routers)];
        if ends[0] != ends[1] {
            join(&mut topology, ends, &BETWEEN_ROUTERS, dice);
        }
    }
    let mut hosts = 0;
    for router in 0..routers {
        // At least two routers have hosts, the first and the last one.
        if router == 0 || router == routers - 1 || happens(dice, 0.5) {
            let host = add(&mut topology, format!("h{hosts}"), Role::Host);
            hosts += 1;
            join(&mut topology, [router, host], &OF_HOSTS, dice);
        }
    }
    topology
}

/// Joins a host that was added later to a router.
pub(super) fn join_host(topology: &mut Topology, router: usize, host: usize, dice: &mut Stream) {
    join(topology, [router, host], &OF_HOSTS, dice);
}

/// Adds a link, with the next range of addresses.
fn join(topology: &mut Topology, nodes: [usize; 2], bandwidths: &[u64], dice: &mut Stream) {
    let [high, low] = (topology.links.len() as u16).to_be_bytes(); // some hundreds at most
    let end = |side: usize| End {
        node: nodes[side],
        interface: format!("eth{}", topology.interfaces(nodes[side]).count()),
        address: Ipv4Addr::new(10, high, low, side as u8 + 1),
        address6: None,
    };
    let bandwidth = Rate::from_bps(one_of(dice, bandwidths));
    let link = Link {
        ends: [end(0), end(1)],
        prefix: Prefix::new(Ipv4Addr::new(10, high, low, 0).into(), 30),
        prefix6: None,
        bandwidth,
        // The framing of packets must fit beside the reservations.
        reservable: bandwidth.share(0.5 + 0.35 * fraction(dice)),
        delay: if happens(dice, 0.3) { Duration::ZERO } else { milliseconds(dice, 1, 20) },
        queue_packets: 10 + below(dice, 40) as u32,
    };
    topology.links.push(link);
}
