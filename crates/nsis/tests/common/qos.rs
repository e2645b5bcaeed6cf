//! Reservations by QoS NSLP in a network: links that can be reserved, requests, and what nodes hold.

use std::net::IpAddr;

use earmark_core::admission::LinkCapacity;
use earmark_core::{Flow, Rate};
use earmark_nsis::Config;
use earmark_nsis::qos::{Application, Command, Event, Listen, Request, RequestedQos};
use earmark_wire::gist::SessionId;

use super::{Network, Place, address};

/// Application that requests.
pub const APP: Application = Application(1);
/// Application that listens.
pub const LISTENER: Application = Application(2);
/// Session of [`request`].
pub const SESSION: SessionId = SessionId([7; 16]);
/// Addresses of the last node of a line of four, in both families.
pub const ENDS: [&str; 2] = ["10.0.2.2", "fd00:2::2"];

/// Creates a line of nodes with links that can be reserved.
pub fn reservable_line(places: &[Place]) -> Network {
    let mut network = Network::line(places);
    make_reservable(&mut network);
    network
}

/// Creates a line of nodes with the same settings and links that can be reserved.
pub fn reservable_line_of(count: usize, config: &Config) -> Network {
    reservable_line(&vec![Place::Aware(config.clone()); count])
}

/// Lets all links be reserved.
pub fn make_reservable(network: &mut Network) {
    for node in &mut network.nodes {
        for link in node.interfaces.iter() {
            let (bandwidth, reservable, mtu) = (link.bandwidth, link.reservable, link.mtu);
            node.ledger.set_link(link.id, LinkCapacity { bandwidth, reservable, mtu });
        }
    }
}

pub fn command(network: &mut Network, node: usize, command: Command) {
    network.command(node, earmark_nsis::Command::Qos(command));
}

/// Returns a request from the first node to an address.
pub fn request(to: IpAddr, rate: Rate) -> Request {
    let source = address(if to.is_ipv4() { "10.0.0.1" } else { "fd00:0::1" });
    let flow = Flow {
        destination: to,
        source: Some(source),
        protocol: 17,
        destination_port: 5_000,
        source_port: 6_000,
        flow_label: 0,
        spi: 0,
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    };
    Request { session: Some(SESSION), ..Request::new(flow, RequestedQos::of(rate)) }
}

/// Returns a listener for the flow of [`request`].
pub fn listener() -> Listen {
    Listen { protocol: Some(17), port: Some(5_000), ..Listen::default() }
}

/// Returns the events for applications of a node.
pub fn events_of(network: &Network, node: usize) -> Vec<Event> {
    let events = network.nodes[node].events.iter().filter_map(|(_, event)| match event {
        earmark_nsis::Event::Qos(event) => Some(event.clone()),
        _ => None,
    });
    let is_told =
        |event: &Event| !matches!(event, Event::Reservation { .. } | Event::Dropped { .. });
    events.filter(is_told).collect()
}

/// Returns the reserved rate of all links of a node, Mbit/s.
pub fn held(network: &Network, node: usize) -> u64 {
    let links = network.nodes[node].ledger.links();
    links.map(|(_, link)| link.held.as_bps() / 1_000_000).sum()
}

/// Returns the reserved rate of all links of each node, Mbit/s.
pub fn all_held(network: &Network) -> Vec<u64> {
    (0..network.nodes.len()).map(|node| held(network, node)).collect()
}

/// Returns the number of sessions of each node.
pub fn session_counts(network: &Network) -> Vec<usize> {
    (0..network.nodes.len()).map(|node| network.engine(node).qos().session_count()).collect()
}
