//! Ends of a case: the source, and one host or a group with hosts as its members; and the routers of these ends.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use earmark_core::{Hop, Outgoing, Prefix, Route};
use earmark_sim::{Network, NodeId};

use super::case::Case;
use crate::protocols::End;
use crate::reservation::ReservationRequest;
use crate::routing::Routing;
use crate::topology::{Family, Link, Role, Topology};

/// IP protocol number and TTL of the packets of the flow.
const UDP: u8 = 17;
const DATA_TTL: u8 = 64;
/// Names of the members of a group, in order; the first is the destination if that is no group.
const MEMBERS: [&str; 2] = ["destination", "second"];

/// Returns the indices of the nodes to which a case reserves.
pub(super) fn members(case: &Case, topology: &Topology) -> Vec<usize> {
    let names = MEMBERS.iter().take(case.variant.members.max(1));
    names.filter_map(|name| topology.node(name)).collect()
}

/// Returns the requests of a case, one for each member. All have the application of the source, and each its own at the member.
pub(super) fn requests(
    case: &Case,
    topology: &Topology,
    nodes: &[NodeId],
) -> Vec<ReservationRequest> {
    let address = |node: usize| {
        let mut interfaces = topology.interfaces(node);
        let (end, _) = interfaces.next().expect("each node has a link");
        end.address_in(case.family).unwrap_or(end.address.into())
    };
    let at_router = case.variant.proxy.filter(|proxy| proxy.has_application);
    let receiver = at_router.map(|proxy| router_of(proxy.of, topology).0);
    let request = |(number, member): (u64, usize)| ReservationRequest {
        number,
        time: 0,
        nodes: [nodes[0], nodes[receiver.unwrap_or(member)]],
        addresses: [
            address(0),
            match case.variant.members {
                0 => address(member),
                _ => group(case.family),
            },
        ],
        port: 5_000,
        rate: case.rate(),
        bucket_octets: 5_000,
        packet_octets: 500,
        priority: None,
    };
    (1..).zip(members(case, topology)).map(request).collect()
}

/// Returns the router of the source or of the first member, with the name of its interface there.
pub(super) fn router_of(end: End, topology: &Topology) -> (usize, String) {
    let name = match end {
        End::Source => "source",
        End::Destination => MEMBERS[0],
    };
    let host = topology.node(name).expect("it is in the network of crossings");
    let (_, link) = topology.interfaces(host).next().expect("each node has a link");
    let mut ends = link.ends.iter();
    let router = ends.find(|end| end.node != host).expect("a link has two ends");
    (router.node, router.interface.clone())
}

/// Returns the names of the interfaces of a router towards hosts; none for a host.
pub(super) fn towards_hosts(place: usize, topology: &Topology) -> Vec<String> {
    let peer = |link: &Link| link.ends.iter().map(|end| end.node).find(|node| *node != place);
    let interfaces = topology
        .interfaces(place)
        .filter(|(_, link)| peer(link).is_some_and(|peer| topology.nodes[peer].role == Role::Host));
    interfaces.map(|(end, _)| end.interface.clone()).collect()
}

/// Makes the members join the group of their requests, and gives the source a route to it. Its first packet makes the routers'
/// trees, as signalling inside UDP goes no further than the first router.
pub(super) fn join(requests: &[ReservationRequest], network: &mut Network, routing: &Routing) {
    for request in requests {
        let [source, member] = request.nodes;
        let [address, group] = request.addresses;
        if !group.is_multicast() {
            return;
        }
        network.join(member, group);
        if request.number == 1
            && let Some((_, interface)) = routing.end_of(0)
        {
            let hop = Hop { interface, gateway: None, source: Some(address) };
            network.add_route(source, Route { prefix: Prefix::host(group), metric: 0, hop });
            network.send_datagram(source, &Outgoing::new(UDP, address, group, DATA_TTL), &[]);
        }
    }
}

fn group(family: Family) -> IpAddr {
    match family {
        Family::Ipv4 => Ipv4Addr::new(239, 1, 0, 1).into(),
        Family::Ipv6 => Ipv6Addr::new(0xff1e, 0, 0, 0, 0, 0, 1, 1).into(),
    }
}
