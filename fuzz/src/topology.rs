//! The network of every input: two hosts, a router between them, a direct link between the hosts, and a link of the
//! router from which only built messages arrive.
//!
//! ```text
//!   host 0 ---1--- router 1 ---2--- host 2
//!      \               3             /
//!       `-------------4-------------'
//! ```
//!
//! Each link has its number as the index of its interfaces, and in its addresses: 10.0.link.node+1.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use earmark_core::{Hop, Interface, InterfaceId, MulticastRoute, Prefix, Rate, Route, Trust};

use crate::draw::Draw;

/// Number of nodes.
pub const NODES: usize = 3;
/// The node that forwards packets.
pub const ROUTER: usize = 1;
/// Reservable rate of each link.
pub const RESERVABLE: Rate = Rate::from_mbps(5);
/// Links with their nodes.
const LINKS: [(u32, &[usize]); 4] = [(1, &[0, 1]), (2, &[1, 2]), (3, &[1]), (4, &[0, 2])];
/// The stranger on link 3, as a number of a node.
pub const STRANGER: usize = 8;

pub fn v4(link: u32, node: usize) -> IpAddr {
    Ipv4Addr::new(10, 0, link as u8, node as u8 + 1).into()
}

pub fn v6(link: u32, node: usize) -> IpAddr {
    Ipv6Addr::new(0xfd00, link as u16, 0, 0, 0, 0, 0, node as u16 + 1).into()
}

/// A group address of the family of `like`.
pub fn group(like: IpAddr) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::new(239, 1, 1, 1).into(),
        IpAddr::V6(_) => Ipv6Addr::new(0xff1e, 0, 0, 0, 0, 0, 0, 1).into(),
    }
}

/// Returns the other node on the link of an interface.
pub fn peer(node: usize, interface: InterfaceId) -> Option<usize> {
    let (_, ends) = LINKS.iter().find(|(link, _)| *link == interface.0)?;
    ends.iter().copied().find(|end| *end != node)
}

/// Returns the links of a node.
pub fn links(node: usize) -> impl Iterator<Item = u32> {
    LINKS.iter().filter(move |(_, ends)| ends.contains(&node)).map(|(link, _)| *link)
}

pub fn interface(node: usize, link: u32, trust: Trust) -> Interface {
    Interface {
        id: InterfaceId(link),
        name: format!("eth{link}"),
        addresses: vec![v4(link, node), v6(link, node)],
        mtu: 1_500,
        up: true,
        bandwidth: Rate::from_mbps(10),
        reservable: RESERVABLE,
        largest: None,
        overhead: 0,
        latency_us: 100,
        trust,
    }
}

/// Returns the routes of a node: to its own links, and through the router to all others.
pub fn routes(node: usize) -> Vec<Route> {
    let own: Vec<u32> = links(node).collect();
    let mut routes = Vec::new();
    for link in 1..=4 {
        for address in [v4, v6] {
            let near = if own.contains(&link) { link } else { own[0] };
            let far = own.contains(&link);
            let next = peer(node, InterfaceId(near)).map(|next| address(near, next));
            let gateway = next.filter(|_| !far);
            let prefix = network(address(link, 0));
            routes.push(Route { prefix, metric: 0, hop: hop(near, gateway) });
        }
    }
    routes
}

fn network(address: IpAddr) -> Prefix {
    Prefix::new(address, if address.is_ipv4() { 24 } else { 64 })
}

fn hop(link: u32, gateway: Option<IpAddr>) -> Hop {
    Hop { interface: InterfaceId(link), gateway, source: None }
}

/// Draws a route that is preferred to the others: around the router, to the stranger, or a loop.
pub fn detour(draw: &mut Draw<'_>) -> (usize, Route) {
    let node = draw.below(NODES);
    let own: Vec<u32> = links(node).collect();
    let link = draw.one_of(&own);
    let address = if draw.flag() { v6 } else { v4 };
    let next = peer(node, InterfaceId(link)).unwrap_or(STRANGER);
    let prefix = Prefix::host(destination(draw));
    (node, Route { prefix, metric: 0, hop: hop(link, Some(address(link, next))) })
}

/// Draws the destination of a flow.
pub fn destination(draw: &mut Draw<'_>) -> IpAddr {
    let all = [
        v4(2, 2),
        v4(2, 2),
        v4(2, 2),
        v4(1, 0),
        v4(4, 2),
        v4(3, STRANGER),
        group(v4(1, 0)),
        v4(1, 1),
    ];
    let all6 = [
        v6(2, 2),
        v6(2, 2),
        v6(2, 2),
        v6(1, 0),
        v6(4, 2),
        v6(3, STRANGER),
        group(v6(1, 0)),
        v6(1, 1),
    ];
    let at = draw.octet();
    let family = if at & 0x80 == 0 { all } else { all6 };
    family[usize::from(at & 7)]
}

/// Draws the source of a flow, nearly always of the family of `like`.
pub fn source(draw: &mut Draw<'_>, like: IpAddr) -> IpAddr {
    let differs = draw.below(32) == 31;
    let address = if like.is_ipv4() != differs { v4 } else { v6 };
    let ends = [(1, 0), (1, 0), (2, 2), (3, STRANGER), (4, 0), (9, 9)];
    let (link, node) = draw.one_of(&ends);
    address(link, node)
}

/// Draws a multicast forwarding entry.
pub fn multicast_route(draw: &mut Draw<'_>) -> MulticastRoute {
    let like = if draw.flag() { v6(1, 0) } else { v4(1, 0) };
    let incoming = draw.maybe(|draw| InterfaceId(1 + draw.below(4) as u32));
    let mask = draw.octet();
    MulticastRoute {
        source: draw.maybe(|draw| source(draw, like)),
        group: group(like),
        incoming,
        outgoing: (1..=4).filter(|link| mask >> link & 1 == 1).map(InterfaceId).collect(),
    }
}
