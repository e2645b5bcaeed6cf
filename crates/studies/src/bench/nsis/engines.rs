//! Three NSIS nodes without I/O, in virtual time: pings go from the first over the second to the third, and back.
//!
//! ```text
//!   h1 --- r --- h2        192.0.2.0/24, 198.51.100.0/24
//! ```
//!
//! Each node is the whole of [`earmark_node`]; its messages are handed to the next node at once. So the router in the
//! middle receives real messages of its neighbors: handshakes, refreshes of GIST at random times, and pings in both
//! directions. Messages travel in datagrams and without delay.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use earmark_core::{
    Datagram, Effect, Effects, Hop, Interface, InterfaceId, Outgoing, Rate, Route, Time, Trust,
};
use earmark_node::{Command, Event, HostUpdate, Input, Node, NodeConfig};
use earmark_nsis::{self as nsis, ping};

use crate::bench::router::lift_limits;

/// The first link, at both of its ends.
const NEAR: InterfaceId = InterfaceId(1);
/// The second link, at both of its ends.
const FAR: InterfaceId = InterfaceId(2);
/// Addresses of the first node, of the router (two), and of the last node.
const ADDRESSES: [&str; 4] = ["192.0.2.1", "192.0.2.2", "198.51.100.1", "198.51.100.2"];
const PREFIXES: [&str; 2] = ["192.0.2.0/24", "198.51.100.0/24"];
/// Indexes of the nodes.
const FIRST: usize = 0;
const ROUTER: usize = 1;
const LAST: usize = 2;

/// Ping interval of a session, as in the published measurement.
const PING_EVERY: Duration = Duration::from_secs(30);
/// Mean interval of GIST refreshes, as in the published measurement.
const REFRESH: Duration = Duration::from_secs(180);
/// Validity of routing state; refreshes come between 0.5 and 0.75 of it (RFC 5971 section 4.4.4).
const VALIDITY: Duration = Duration::from_secs(288);

/// Function whose instructions valgrind counts: one turn of the router, as a pattern.
pub(in crate::bench) const COUNTED: &str = "*earmark_counted_turn*";

/// A message in transit.
struct Packet {
    /// Receiving node, and its link.
    to: (usize, InterfaceId),
    out: Outgoing,
    octets: Vec<u8>,
}

/// The three nodes.
pub(in crate::bench) struct Engines {
    nodes: [Node; 3],
    now: Time,
    under_way: VecDeque<Packet>,
    out: Effects<Event>,
    /// Whether valgrind counts the router's turns.
    is_counted: bool,
    back: u64,
}

impl Engines {
    /// Sets up `sessions` sessions, whose begins are spread evenly over one ping period, and which have been
    /// refreshed since.
    pub(in crate::bench) fn with_sessions(sessions: u32) -> Engines {
        let nodes = [FIRST, ROUTER, LAST].map(|place| Node::new(config(place, sessions)));
        let (under_way, out) = (VecDeque::new(), Effects::new());
        let now = Time::from_secs(1);
        let mut engines = Engines { nodes, now, under_way, out, is_counted: false, back: 0 };
        for (place, update) in hosts() {
            engines.turn(place, Input::Host(update));
        }
        for number in 0..sessions {
            engines.ping(number);
            engines.run_for(PING_EVERY / sessions);
        }
        engines.run_for(REFRESH);
        engines
    }

    /// Runs for one mean period of GIST, in which valgrind counts the router's turns; returns the number of pings
    /// that came back.
    pub(in crate::bench) fn count(&mut self) -> u64 {
        let before = self.back;
        self.is_counted = true;
        self.run_for(REFRESH);
        self.is_counted = false;
        self.back - before
    }

    fn ping(&mut self, number: u32) {
        let destination = address(ADDRESSES[3]);
        let interval = PING_EVERY;
        let request = ping::Request { count: None, interval, ..ping::Request::new(destination) };
        let application = ping::Application(number.into());
        let command = nsis::Command::Ping(ping::Command::Ping { application, request });
        self.turn(FIRST, Input::Command(Command::Nsis(command)));
    }

    fn run_for(&mut self, how_long: Duration) {
        let end = self.now + how_long;
        loop {
            let due = |place: &usize| self.nodes[*place].next_deadline();
            let next = [FIRST, ROUTER, LAST].into_iter().filter(|place| due(place).is_some());
            let Some(place) = next.min_by_key(due) else { break };
            let at = due(&place).unwrap_or(Time::MAX);
            if at > end {
                break;
            }
            self.now = self.now.max(at);
            self.turn(place, Input::Expire);
        }
        self.now = end;
    }

    /// Handles an input of a node, and everything that follows from it.
    fn turn(&mut self, place: usize, input: Input<'_>) {
        self.handle(place, input);
        while let Some(packet) = self.under_way.pop_front() {
            let Packet { to: (place, interface), out, octets } = packet;
            let Outgoing { protocol, source, destination, router_alert, .. } = out;
            let ttl = out.ttl.saturating_sub(1);
            let payload = octets.as_slice();
            let encapsulated = false;
            let datagram = Datagram {
                interface,
                source,
                destination,
                ttl,
                router_alert,
                encapsulated,
                payload,
            };
            self.handle(place, Input::Datagram(protocol, datagram));
        }
    }

    fn handle(&mut self, place: usize, input: Input<'_>) {
        let (node, now) = (&mut self.nodes[place], self.now);
        self.out.clear();
        if self.is_counted && place == ROUTER {
            earmark_counted_turn(node, now, input, &mut self.out);
        } else {
            node.handle(now, input, &mut self.out);
        }
        for effect in self.out.iter() {
            match effect {
                Effect::Send(out, range) => {
                    let octets = self.out.octets(range).to_vec();
                    self.under_way.push_back(Packet { to: next(place, out), out: *out, octets });
                }
                Effect::Notify(Event::Nsis(nsis::Event::Ping(ping::Event::Pong { .. }))) => {
                    self.back += 1;
                }
                _ => {}
            }
        }
    }
}

#[inline(never)]
fn earmark_counted_turn(node: &mut Node, now: Time, input: Input<'_>, out: &mut Effects<Event>) {
    node.handle(now, input, out);
    // Prevents a tail call: it could become a jump, and then this function would never return.
    std::hint::black_box(out);
}

/// Returns the node that receives a message of this one, and its link.
fn next(place: usize, out: &Outgoing) -> (usize, InterfaceId) {
    let is_near = |destination: IpAddr| {
        [ADDRESSES[0], ADDRESSES[1]].iter().any(|end| address(end) == destination)
    };
    match place {
        FIRST => (ROUTER, NEAR),
        LAST => (ROUTER, FAR),
        _ if out.interface.map_or(is_near(out.destination), |link| link == NEAR) => (FIRST, NEAR),
        _ => (LAST, FAR),
    }
}

fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

fn config(place: usize, sessions: u32) -> NodeConfig {
    let name = ["h1", "r", "h2"][place].to_owned();
    let mut config = NodeConfig { name, seed: place as u64 + 1, ..NodeConfig::default() };
    config.nsis.gist.validity = VALIDITY;
    config.nsis.ping.applications = sessions as usize;
    lift_limits(&mut config.nsis.gist);
    config
}

/// Interfaces and routes of all nodes.
fn hosts() -> Vec<(usize, HostUpdate)> {
    let mut updates = Vec::new();
    for (place, id, own) in [(FIRST, NEAR, 0), (ROUTER, NEAR, 1), (ROUTER, FAR, 2), (LAST, FAR, 3)]
    {
        let bandwidth = Rate::from_mbps(400_000);
        let interface = Interface {
            id,
            name: format!("eth{}", id.0),
            addresses: vec![address(ADDRESSES[own])],
            mtu: 1_500,
            up: true,
            bandwidth,
            reservable: bandwidth,
            largest: None,
            overhead: 0,
            latency_us: 10,
            trust: Trust::CORE,
        };
        updates.push((place, HostUpdate::Interface(interface)));
    }
    for (place, id, prefix, gateway) in [
        (FIRST, NEAR, 0, None),
        (FIRST, NEAR, 1, Some(1)),
        (ROUTER, NEAR, 0, None),
        (ROUTER, FAR, 1, None),
        (LAST, FAR, 1, None),
        (LAST, FAR, 0, Some(2)),
    ] {
        let gateway = gateway.map(|own: usize| address(ADDRESSES[own]));
        let hop = Hop { interface: id, gateway, source: None };
        let prefix = PREFIXES[prefix].parse().expect("a prefix");
        updates.push((place, HostUpdate::Route(Route { prefix, metric: 0, hop })));
    }
    updates
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every session is pinged six times in a period of GIST, and each ping passes the router and comes back.
    #[test]
    fn pings_pass_the_router_both_ways() {
        let mut engines = Engines::with_sessions(5);
        assert_eq!(engines.count(), 5 * 6);
        let router =
            engines.nodes[ROUTER].engine::<earmark_nsis::Nsis>().expect("a node with NSIS");
        assert_eq!(router.gist().routing_state_count(), 5);
        assert!(router.ping().counters().passed_on >= 2 * 5 * 12);
    }
}
