//! Events per second on one core, at packet level, in a network like that of the retry study: five routers in a row, 85
//! reserved flows of 100 kbit/s in 125-octet packets, and 27 best-effort flows that fill the rest.
//!
//! Prints the events, their rate in each of several runs of one seed, and virtual seconds per second.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use earmark_core::{Hop, InterfaceId, Prefix, Rate, Route, Time};
use earmark_node::{Command, NodeConfig};
use earmark_sim::{Keep, LinkEnd, LinkSpec, Network, NodeId, Source, TrafficPattern};
use earmark_wire::yessir::{Flowspec, OctetRate, Style};
use earmark_yessir as yessir;

/// Virtual seconds of a run.
const SECONDS: u64 = 60;
const RUNS: usize = 5;

/// Hosts with the index of their router; sources before sinks.
const HOSTS: [(&str, usize); 10] = [
    ("h0", 0),
    ("h7", 0),
    ("h8", 1),
    ("h9", 2),
    ("h10", 3),
    ("h6", 4),
    ("h11", 2),
    ("h12", 3),
    ("h13", 4),
    ("h14", 4),
];

struct Net {
    network: Network,
    hosts: Vec<(NodeId, IpAddr)>,
}

fn net() -> Net {
    let mut network = Network::new(1);
    let routers: Vec<NodeId> =
        (1..=5).map(|n| network.add_node(&format!("r{n}"), true, NodeConfig::default())).collect();
    let mut subnet = 0_u8;
    let mut link = |network: &mut Network, ends: [NodeId; 2], mbps: u64, millis: u64| {
        subnet += 1;
        let address = |at| IpAddr::V4(Ipv4Addr::new(10, 0, subnet, at));
        let end = |side: usize| LinkEnd {
            node: ends[side],
            interface: format!("eth{subnet}"),
            address: address(1 + side as u8),
        };
        let ids = network.add_link(LinkSpec {
            ends: [end(0), end(1)],
            prefix: Prefix::new(address(0), 24),
            bandwidth: Rate::from_mbps(mbps),
            reservable: Rate::from_mbps(mbps).share(0.5),
            delay: Duration::from_millis(millis),
            queue_packets: 50,
        });
        (subnet, ids)
    };
    let backbone: Vec<_> =
        routers.windows(2).map(|pair| link(&mut network, [pair[0], pair[1]], 10, 20)).collect();
    let mut hosts = Vec::new();
    let mut at = Vec::new();
    for (name, router) in HOSTS {
        let host = network.add_node(name, false, NodeConfig::default());
        let (subnet, [mine, _]) = link(&mut network, [host, routers[router]], 100, 10);
        let all = Prefix::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);
        route(&mut network, host, all, mine, [10, 0, subnet, 2]);
        hosts.push((host, IpAddr::V4(Ipv4Addr::new(10, 0, subnet, 1))));
        at.push((subnet, router));
    }
    for (here, &router) in routers.iter().enumerate() {
        for &(subnet, there) in at.iter().filter(|(_, there)| *there != here) {
            let to = Prefix::new(IpAddr::V4(Ipv4Addr::new(10, 0, subnet, 0)), 24);
            let (link, side) = if there > here { (here, 0) } else { (here - 1, 1) };
            let (shared, ids) = backbone[link];
            route(&mut network, router, to, ids[side], [10, 0, shared, 2 - side as u8]);
        }
    }
    Net { network, hosts }
}

fn route(network: &mut Network, at: NodeId, prefix: Prefix, interface: InterfaceId, by: [u8; 4]) {
    let hop = Hop { interface, gateway: Some(IpAddr::from(by)), source: None };
    network.add_route(at, Route { prefix, metric: 1, hop });
}

impl Net {
    fn flow(&mut self, number: u16, kbps: u64, reserved: bool) {
        let pair = 1 + usize::from(number % 4);
        let ((node, source), (_, destination)) = (self.hosts[pair], self.hosts[pair + 5]);
        let port = 2 * number;
        self.network.add_source(Source {
            node,
            port,
            destination,
            destination_port: port,
            dscp: 0,
            pattern: TrafficPattern::Constant(Rate::from_bps(kbps * 1_000)),
            packet_octets: 125,
            from: Time::ZERO,
            until: Time::MAX,
            keep: Keep::Packets,
        });
        if !reserved {
            return;
        }
        let attachment = yessir::Attachment {
            stream: yessir::Stream {
                source,
                destination,
                source_port: port,
                destination_port: port,
            },
            ssrc: None,
            cname: format!("{number}@{node:?}"),
            multiplexed: true,
            flowspec: Flowspec::Class {
                dscp: 0,
                rate: OctetRate(Rate::from_bps(kbps * 1_000).as_octets_per_second()),
            },
            style: Style::Individual,
            passive: false,
            interval: 0,
            ttl: 64,
            token: None,
        };
        let application = yessir::Application(number.into());
        let attach = yessir::Command::Attach { application, attachment };
        self.network.command(node, Command::Yessir(attach));
    }
}

fn main() {
    let mut rates = Vec::new();
    for _ in 0..RUNS {
        let mut net = net();
        for number in 0..85 {
            net.flow(5_000 + number, 100, true);
        }
        for number in 0..27 {
            net.flow(6_000 + number, 333, false);
        }
        let begun = Instant::now();
        net.network.run_until(Time::from_secs(SECONDS));
        let took = begun.elapsed().as_secs_f64();
        let events = net.network.event_count();
        rates.push(events as f64 / took);
        println!(
            "{events} events in {took:.2} s: {:.2} million a second, {:.0} virtual seconds a second",
            events as f64 / took / 1e6,
            SECONDS as f64 / took
        );
    }
    rates.sort_by(f64::total_cmp);
    println!("median {:.2} million events a second", rates[RUNS / 2] / 1e6);
}
