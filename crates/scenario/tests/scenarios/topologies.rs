//! Generated networks: every node reaches every other, by shortest paths, under unique addresses.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use earmark_core::{Hop, InterfaceId, Rate, Route, RouteTable, Routes};
use earmark_scenario::topology::{Attach, Choice, Link, Made, Metric, Role, Topology, Waxman};
use proptest::prelude::*;

fn built(made: Made) -> Topology {
    let nothing = |_: &str| Err(std::io::Error::other("no file is needed"));
    Choice::Made(Box::new(made)).build(nothing).expect("a topology")
}

fn waxman(routers: usize, seed: u64) -> Made {
    Made::by(Waxman { seed, ..Waxman::of(routers) }, Rate::from_mbps(10))
}

/// Returns each node's routing table, with its own links; interfaces are numbered as links are.
fn tables(topology: &Topology) -> Vec<RouteTable> {
    let paths = topology.paths();
    let table = |node: usize| {
        let mut table = RouteTable::new();
        for (number, link) in topology.links.iter().enumerate() {
            let Some(ours) = link.ends.iter().position(|end| end.node == node) else { continue };
            let enter = |prefix, gateway| {
                let interface = InterfaceId(number as u32);
                Route { prefix, metric: 0, hop: Hop { interface, gateway, source: None } }
            };
            assert!(table.insert(enter(link.prefix, None)));
            let peer = link.ends[1 - ours].address;
            for route in paths.routes(node) {
                if route.interface == link.ends[ours].interface {
                    assert_eq!(route.gateway, IpAddr::V4(peer));
                    assert!(table.insert(enter(route.prefix, Some(route.gateway))));
                }
            }
        }
        table
    };
    (0..topology.nodes.len()).map(table).collect()
}

/// Returns the links of a packet's path.
fn way(topology: &Topology, tables: &[RouteTable], from: usize, to: Ipv4Addr) -> Vec<usize> {
    let (mut at, mut links) = (from, Vec::new());
    while !topology.interfaces(at).any(|(end, _)| end.address == to) {
        let hop = tables[at].lookup(to.into()).expect("a route");
        let number = hop.interface.0 as usize;
        let link: &Link = &topology.links[number];
        at = link.ends.iter().find(|end| end.node != at).expect("another end").node;
        links.push(number);
        assert!(links.len() <= topology.nodes.len(), "a packet goes round in circles");
    }
    links
}

/// Returns the costs of the shortest paths between all nodes (Floyd and Warshall), through routers only.
fn costs(topology: &Topology) -> Vec<Vec<(Duration, usize)>> {
    let count = topology.nodes.len();
    let far = (Duration::from_secs(1_000_000), 0);
    let mut costs = vec![vec![far; count]; count];
    for link in &topology.links {
        let [a, b] = [link.ends[0].node, link.ends[1].node];
        let cost = match topology.metric {
            Metric::Delay => (link.delay, 1),
            Metric::Links => (Duration::ZERO, 1),
        };
        for (from, to) in [(a, b), (b, a)] {
            costs[from][to] = costs[from][to].min(cost);
        }
    }
    for (node, own) in costs.iter_mut().enumerate() {
        own[node] = (Duration::ZERO, 0);
    }
    let routers = (0..count).filter(|node| topology.nodes[*node].role == Role::Router);
    for through in routers {
        for from in 0..count {
            for to in 0..count {
                let [first, second] = [costs[from][through], costs[through][to]];
                let whole = (first.0 + second.0, first.1 + second.1);
                costs[from][to] = costs[from][to].min(whole);
            }
        }
    }
    costs
}

/// Checks every guarantee for a generated network.
fn check(topology: &Topology) {
    let mut addresses = BTreeSet::new();
    for (number, link) in topology.links.iter().enumerate() {
        for end in &link.ends {
            assert!(addresses.insert(end.address), "{} twice", end.address);
            assert!(link.prefix.contains(end.address.into()));
        }
        let others = topology.links[..number].iter();
        assert!(others.into_iter().all(|other| !other.prefix.covers(link.prefix)));
    }
    let names: BTreeSet<&str> = topology.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names.len(), topology.nodes.len());
    let (tables, costs) = (tables(topology), costs(topology));
    let mut paths = topology.paths();
    for (from, costs) in costs.iter().enumerate() {
        for (to, cost) in costs.iter().enumerate() {
            let address = topology.address(to).expect("each has one");
            let links = way(topology, &tables, from, address);
            // A router may have no address in its own range: then packets for itself go by its neighbour.
            if topology.nodes[to].area.is_some_and(|area| !area.contains(address.into())) {
                continue;
            }
            let delays = links.iter().map(|link| match topology.metric {
                Metric::Delay => topology.links[*link].delay,
                Metric::Links => Duration::ZERO,
            });
            assert_eq!((delays.sum(), links.len()), *cost, "{from} to {to}");
            assert_eq!(paths.distance(from, to), Some(links.len()));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn random_network_is_connected_with_shortest_paths(
        routers in 2_usize..40,
        hosts in 0_u32..60,
        seed: u64,
        alpha in 0.01_f64..1.0,
        beta in 0.05_f64..0.5,
        (random, delay) in (any::<bool>(), any::<bool>()),
    ) {
        let waxman = Waxman { seed, alpha: Some(alpha), beta, ..Waxman::of(routers) };
        let attach = if random { Attach::Random } else { Attach::Turns };
        let metric = if delay { Metric::Delay } else { Metric::Links };
        let made = Made::by(waxman, Rate::from_mbps(10));
        let topology = built(Made { attach, hosts: Some(hosts), metric, seed, ..made });
        prop_assert_eq!(topology.nodes.len(), routers + hosts as usize);
        check(&topology);
    }
}

/// More hosts than 16 bits can number.
#[test]
fn many_hosts_have_unique_addresses() {
    let topology = built(Made { hosts: Some(70_000), ..waxman(100, 1) });
    let ends = topology.links.iter().flat_map(|link| &link.ends);
    let addresses: BTreeSet<Ipv4Addr> = ends.map(|end| end.address).collect();
    assert_eq!(addresses.len(), 2 * topology.links.len());
    let mut paths = topology.paths();
    let last = topology.nodes.len() - 1;
    assert!(paths.distance(100, last).is_some_and(|links| (3..20).contains(&links)));
    assert_eq!(paths.routes(last).len(), 1);
}

/// Adjacent ranges are reached by one route: far fewer routes than routers.
#[test]
fn adjacent_ranges_share_routes() {
    let topology = built(waxman(200, 1));
    let paths = topology.paths();
    let routes: usize = (0..200).map(|router| paths.routes(router).len()).sum();
    assert!(routes < 200 * 60, "{} a router", routes / 200);
}

/// A published backbone, with a host in each city, at the speed of its links or another one.
#[test]
fn published_backbone_has_expected_paths() {
    let text = include_str!("../../../../topologies/abilene.graphml");
    let read = |file: &str| {
        assert_eq!(file, "abilene.graphml");
        Ok(text.to_owned())
    };
    let topology = Choice::File("abilene.graphml".to_owned()).build(read).expect("a topology");
    let trunks = &topology.links[..14];
    assert_eq!((topology.nodes.len(), topology.links.len()), (22, 25));
    assert!(trunks.iter().all(|link| link.bandwidth == Rate::from_bps(9_953_280_000)));
    let node = |name| topology.node(name).expect(name);
    let mut paths = topology.paths();
    // By Denver, Kansas City, Indianapolis, Chicago.
    assert_eq!(paths.distance(node("Seattle-h1"), node("New-York-h1")), Some(7));
    let delay = costs(&topology)[node("Seattle")][node("New-York")].0;
    assert!((Duration::from_millis(20)..Duration::from_millis(25)).contains(&delay), "{delay:?}");
    check(&topology);
    let file = Some("abilene.graphml".to_owned());
    let slow = Made { file, bandwidth: Some(Rate::from_mbps(10)), ..Made::default() };
    let slow = Choice::Made(Box::new(slow)).build(read).expect("a topology");
    assert!(slow.links[..14].iter().all(|link| link.bandwidth == Rate::from_mbps(10)));
    assert_eq!(slow.links[14].bandwidth, Rate::from_mbps(100));
}

#[test]
fn same_choice_gives_same_network() {
    assert_eq!(built(waxman(60, 3)), built(waxman(60, 3)));
    assert_ne!(built(waxman(60, 3)).links, built(waxman(60, 4)).links);
    let at_random = |seed| built(Made { attach: Attach::Random, seed, ..waxman(60, 3) });
    assert_eq!(at_random(1), at_random(1));
    // Another seed for hosts leaves the backbone unchanged.
    let backbone = |topology: &Topology| topology.links[..100].to_vec();
    assert_ne!(at_random(1), at_random(2));
    assert_eq!(backbone(&at_random(1)), backbone(&at_random(2)));
}

/// Returns routers around a first one, in GraphML.
fn star(rays: usize) -> String {
    let keys = "<key id='n' attr.name='Latitude'/><key id='e' attr.name='Longitude'/><key id='l' attr.name='label'/>";
    let place = "<data key='n'>1</data><data key='e'>1</data>";
    let node =
        |label: &str, id| format!("<node id='{id}'>{place}<data key='l'>{label}</data></node>");
    let nodes: String = (1..=rays).map(|id| node("b", id)).collect();
    let edges: String = (1..=rays).map(|id| format!("<edge source='0' target='{id}'/>")).collect();
    format!("<graphml>{keys}<graph>{}{nodes}{edges}</graph></graphml>", node("a", 0))
}

#[test]
fn invalid_choice_is_rejected() {
    let read = |text: &str| {
        #[derive(serde::Deserialize)]
        struct File {
            topology: Choice,
        }
        let file: File = toml::from_str(text).map_err(|why| why.message().to_owned())?;
        let build = file.topology.build(|file| match file {
            "demo.toml" => Ok(earmark_scenario::topology::DEMO.to_owned()),
            "empty.toml" | "empty.graphml" => Ok(String::new()),
            "star.graphml" => Ok(star(2_047)),
            _ => Err(std::io::Error::other("there is none")),
        });
        build.map(|_| ()).map_err(|why| why.to_string())
    };
    assert_eq!(read("topology = 'demo.toml'"), Ok(()));
    assert_eq!(read("topology = { waxman = { routers = 9 }, bandwidth = '1Mbit' }"), Ok(()));
    for (text, word) in [
        ("topology = 5", "the name of a file, or a table"),
        ("topology = 'nowhere.toml'", "cannot read `nowhere.toml`: there is none"),
        ("topology = 'empty.toml'", "empty.toml: line 1: node: a network needs at least two"),
        ("topology = 'empty.graphml'", "empty.graphml: line 1, column 1: "),
        ("topology = 'star.graphml'", "the link from `a` to `b` has no bandwidth: give bandwidth"),
        (
            "topology = { file = 'star.graphml', hosts = 4096, bandwidth = '1Mbit' }",
            "`a` would have more links than the 2048 it has addresses for",
        ),
        ("topology = { file = 'demo.toml', hosts = 3 }", "name it alone"),
        ("topology = { hosts = 3 }", "give either waxman"),
        ("topology = { waxman = { routers = 9 }, file = 'a' }", "give either waxman"),
        ("topology = { waxman = { routers = 9 } }", "give bandwidth"),
        ("topology = { waxman = { routers = 1 } }", "waxman.routers must be 2 to 2048"),
        ("topology = { waxman = { routers = 9, colour = 1 } }", "unknown field `colour`"),
        ("topology = { waxman = { routers = 9 }, speed = 1 }", "unknown field `speed`"),
        ("topology = { waxman = { routers = 9 }, bandwidth = '0bit' }", "bandwidth must be more"),
        ("topology = { waxman = { routers = 9 }, queue_packets = 0 }", "queue_packets must be 1"),
        ("topology = { waxman = { routers = 9 }, bandwidth = 'x' }", "invalid rate"),
        (
            "topology = { waxman = { routers = 9 }, bandwidth = '1Mbit', reservable = '120%' }",
            "reservable: `120%` is neither",
        ),
        (
            "topology = { waxman = { routers = 9 }, bandwidth = '1Mbit', hosts = 200001 }",
            "at most 200000 hosts",
        ),
        (
            "topology = { waxman = { routers = 2048 }, bandwidth = '1Mbit', hosts = 200000, attach = 'all' }",
            "unknown variant `all`",
        ),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.contains(word), "{text}: {error}");
    }
}
