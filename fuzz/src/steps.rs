//! Steps: what happens in the network, as the octets of the fuzzer say.

use std::net::SocketAddr;
use std::time::Duration;

use earmark_core::{CloseReason, InterfaceId, Prefix, Rate, Role, Transport, Trust};
use earmark_node::{HostUpdate, Input, NodeConfig};

use crate::draw::Draw;
use crate::host::Host;
use crate::invariants;
use crate::network::Network;
use crate::packet::{Flight, Packet, Segment};
use crate::protocols::{APPLICATIONS, Protocol};
use crate::topology::{self, NODES, STRANGER};

/// Most steps of one input.
const MOST_STEPS: usize = 80;
/// Most deadlines of one step in which time passes.
const MOST_DEADLINES: usize = 150;

/// Plays the steps of `octets` with a protocol.
///
/// # Panics
/// An invariant is violated.
pub fn play(protocol: &'static dyn Protocol, octets: &[u8]) {
    let mut draw = Draw::new(octets);
    let draw = &mut draw;
    let mut network = build(protocol, draw);
    for _ in 0..MOST_STEPS {
        if draw.is_empty() {
            break;
        }
        step(protocol, &mut network, draw);
    }
    network.hosts.iter().for_each(|host| invariants::check_listing(host, network.now));
    end(protocol, &mut network);
}

fn build(protocol: &'static dyn Protocol, draw: &mut Draw<'_>) -> Network {
    let mut config = NodeConfig { seed: 1, ..NodeConfig::default() };
    config.retry.threshold = draw.one_of(&[0, 3, u32::MAX]);
    let limits = protocol.configure(draw, &mut config);
    let roles = draw.octet();
    let trust = [0, 1, 2, 3].map(|bit| match roles >> bit & 1 {
        0 => Trust::CORE,
        _ => Trust { role: Role::Access, sources: Vec::new() },
    });
    let host = |at| Host::new(at, config.clone(), trust.clone());
    Network::new(protocol, (0..NODES).map(host).collect(), limits)
}

fn step(protocol: &dyn Protocol, network: &mut Network, draw: &mut Draw<'_>) {
    match draw.below(32) {
        0..=4 => {
            let at = draw.below(NODES);
            let application = 1 + draw.below(APPLICATIONS as usize) as u64;
            let command = protocol.command(draw, at, application);
            network.handle(at, Input::Command(command));
        }
        5 => {
            let at = draw.below(NODES);
            let application = 1 + draw.below(APPLICATIONS as usize) as u64;
            release(protocol, network, at, application);
        }
        6..=9 => network.deliver_all(100),
        10 => in_flight(network, draw, |network, flight, _| network.deliver(flight)),
        11 => in_flight(network, draw, |_, _, _| {}),
        12 => in_flight(network, draw, |network, flight, _| {
            // A connection delivers everything once.
            if matches!(flight, Flight::Packet(_)) {
                network.flight.push_back(flight.clone());
            }
            network.deliver(flight);
        }),
        13..=15 => in_flight(network, draw, |network, mut flight, draw| {
            flight.damage(draw);
            network.deliver(flight);
        }),
        16 => repeat(network, draw),
        17..=22 => {
            let packet = protocol.message(draw, network);
            if let Some(packet) = packet {
                network.deliver(Flight::Packet(packet));
            }
        }
        23 => octets(protocol, network, draw),
        24..=26 => pass(network, draw),
        27 => connection(protocol, network, draw),
        _ => host(network, draw),
    }
}

/// Does something with one of the things in flight.
fn in_flight(
    network: &mut Network,
    draw: &mut Draw<'_>,
    then: impl FnOnce(&mut Network, Flight, &mut Draw<'_>),
) {
    let at = draw.octet();
    let count = network.flight.len();
    if count > 0
        && let Some(flight) = network.flight.remove(usize::from(at) % count)
    {
        then(network, flight, draw);
    }
}

/// A packet arrives once more, as it was, changed, or elsewhere.
fn repeat(network: &mut Network, draw: &mut Draw<'_>) {
    let count = network.history.len();
    if count == 0 {
        return;
    }
    let mut packet = network.history[draw.below(count)].clone();
    if draw.flag() {
        packet.to = draw.below(NODES);
        packet.interface = interface_of(packet.to, draw);
    }
    let mut flight = Flight::Packet(packet);
    if draw.flag() {
        flight.damage(draw);
    }
    network.deliver(flight);
}

/// Any octets arrive.
fn octets(protocol: &dyn Protocol, network: &mut Network, draw: &mut Draw<'_>) {
    let to = draw.below(NODES);
    let destination = topology::destination(draw);
    let count = draw.below(128);
    let payload = protocol.framed(draw.take(count));
    let mut packet = Packet {
        to,
        interface: interface_of(to, draw),
        protocol: protocol.ip_protocol(destination),
        source: topology::source(draw, destination),
        destination,
        // Half of them may be of neighbours.
        ttl: match draw.octet() {
            odd if odd % 2 == 1 => u8::MAX,
            even => even,
        },
        router_alert: draw.flag(),
        payload,
    };
    packet.seal();
    network.deliver(Flight::Packet(packet));
}

pub fn interface_of(node: usize, draw: &mut Draw<'_>) -> InterfaceId {
    let links: Vec<u32> = topology::links(node).collect();
    InterfaceId(draw.one_of(&links))
}

fn pass(network: &mut Network, draw: &mut Draw<'_>) {
    const MILLISECONDS: [u64; 10] =
        [0, 1, 20, 600, 1_000, 5_000, 31_000, 100_000, 400_000, 4_000_000];
    let end = network.now + Duration::from_millis(draw.one_of(&MILLISECONDS));
    network.pass(end, draw.flag(), MOST_DEADLINES);
    for at in 0..NODES {
        network.expire(at);
    }
}

/// Something happens to a connection, or the stranger opens one.
fn connection(protocol: &dyn Protocol, network: &mut Network, draw: &mut Draw<'_>) {
    let open: Vec<_> = network.connections.keys().copied().collect();
    let chosen = open.get(draw.below(open.len().max(1))).copied();
    match (draw.below(4), chosen) {
        (0, Some((at, connection))) => {
            let reasons = [CloseReason::Ended, CloseReason::TimedOut, CloseReason::Backlog];
            let closed = Segment::Closed(draw.one_of(&reasons));
            network.deliver(Flight::Stream(at, connection, closed));
        }
        (1 | 2, Some((at, connection))) => {
            let data = Segment::Data(protocol.stream(draw, network));
            network.deliver(Flight::Stream(at, connection, data));
        }
        _ => {
            let to = draw.below(NODES);
            let link = interface_of(to, draw).0;
            let transport = if draw.flag() { Transport::Tls } else { Transport::Tcp };
            let local = SocketAddr::new(topology::v4(link, to), protocol.port());
            let peer = SocketAddr::new(topology::v4(link, STRANGER), 50_000);
            network.call(to, local, peer, Segment::Open { local, peer, transport });
        }
    }
}

/// The host of a node changes.
fn host(network: &mut Network, draw: &mut Draw<'_>) {
    let at = draw.below(NODES);
    let interface = interface_of(at, draw);
    let update = match draw.below(12) {
        0 | 1 => {
            let mut interface = network.hosts[at].interface(interface.0);
            interface.up = draw.flag();
            match draw.below(6) {
                0 => interface.bandwidth = Rate::ZERO,
                1 => interface.reservable = Rate::from_bps(draw.u16().into()),
                2 => interface.trust = Trust::CORE,
                3 => interface.trust = Trust::ACCESS,
                4 => interface.addresses.truncate(1),
                _ => {}
            }
            HostUpdate::Interface(interface)
        }
        2 => HostUpdate::Interface(network.hosts[at].interface(interface.0)),
        3 => HostUpdate::InterfaceGone(interface),
        4 => HostUpdate::QueuesTaken(interface),
        5 | 6 => {
            let (at, route) = topology::detour(draw);
            let gone = draw.flag();
            let update = if gone { HostUpdate::RouteGone(route) } else { HostUpdate::Route(route) };
            return network.handle(at, Input::Host(update));
        }
        7 => {
            let routes = topology::routes(at);
            let route = routes[draw.below(routes.len())];
            if draw.flag() { HostUpdate::RouteGone(route) } else { HostUpdate::Route(route) }
        }
        8 => {
            let route = topology::multicast_route(draw);
            match draw.flag() {
                true => HostUpdate::MulticastRoute(route),
                false => {
                    HostUpdate::MulticastRouteGone { source: route.source, group: route.group }
                }
            }
        }
        9 => {
            network.hosts[at].refusals = draw.below(4) as u32;
            return;
        }
        10 => {
            match draw.flag() {
                true => network.restart(at),
                false => network.reap(at),
            }
            return;
        }
        _ => {
            let prefix = Prefix::host(topology::destination(draw));
            match draw.below(3) {
                0 => HostUpdate::FlowRoutes(prefix),
                1 => HostUpdate::NextHops { prefix, several: draw.flag() },
                _ => HostUpdate::PolicyRules { ipv6: draw.flag(), apply: draw.flag() },
            }
        }
    };
    network.handle(at, Input::Host(update));
}

fn release(protocol: &dyn Protocol, network: &mut Network, at: usize, application: u64) {
    for command in protocol.release(application) {
        network.handle(at, Input::Command(command));
    }
}

/// Every application releases what it has, then all links are cut, and time passes.
fn end(protocol: &dyn Protocol, network: &mut Network) {
    for at in 0..NODES {
        network.hosts[at].refusals = 0;
        for application in 1..=APPLICATIONS {
            release(protocol, network, at, application);
        }
        network.reap(at);
    }
    network.deliver_all(200);
    let minute = network.now + Duration::from_secs(60);
    network.pass(minute, true, 2 * MOST_DEADLINES);
    const SECONDS: [u64; 22] = [
        1, 4, 10, 30, 60, 100, 300, 400, 700, 1_000, 1_000, 3_000, 10_000, 100_000, 1_000_000,
        10_000_000, 10_000_000, 10_000_000, 10_000_000, 1_000, 1_000, 1_000,
    ];
    for seconds in SECONDS {
        network.flight.retain(|flight| matches!(flight, Flight::Stream(..)));
        network.deliver_all(200);
        network.now = network.now + Duration::from_secs(seconds);
        for at in 0..NODES {
            network.expire(at);
        }
        if network.hosts.iter().all(|host| host.node.next_deadline().is_none()) {
            break;
        }
    }
    network.hosts.iter().for_each(invariants::check_empty);
}
