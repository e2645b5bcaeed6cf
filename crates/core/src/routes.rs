//! Routes: a longest-prefix table with lookups in nanoseconds.
//!
//! Engines only know the trait [`Routes`]. [`RouteTable`] is its implementation for drivers: the daemon mirrors the
//! kernel's routes in it, the simulator fills it with its computed ones. Each address family is a hash map from a
//! prefix to its routes, the best one first. A lookup tries prefix lengths from the longest to the shortest, but only
//! those that occur: a second, small map has the long prefixes in the block (a /16 of IPv4, a /32 of IPv6) of the
//! destination. On a real table these are one to four of the possible 32 or 128.
//!
//! A lookup is as quick as its cache misses are few. So the maps hold numbers only, and the best route's hop is in a
//! list of the distinct hops, of which a table has as many as the node has neighbours, not as it has routes.
//!
//! If a prefix has several next hops, or policy rules apply, the hop is that of the flow, and the host is asked for
//! it (the module `flows`).

mod family;
mod flows;
mod hops;
mod multicast;

use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};
use slab::Slab;

use self::family::{BestRoute, Family};
use self::flows::Flows;
use self::hops::Hops;
use self::multicast::MulticastTable;
use crate::hash::KeyedHash;
use crate::{Flow, InterfaceId, Prefix};

pub use self::flows::{FlowAnswer, FlowResolver, Resolution};
pub use self::hops::Hop;
pub use self::multicast::{Branches, MulticastRoute};

/// One route of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// Destinations.
    pub prefix: Prefix,
    /// Metric; the lowest wins among routes for the same prefix.
    pub metric: u32,
    /// Next hop.
    pub hop: Hop,
}

/// Route lookups.
pub trait Routes {
    /// Returns the hop towards `destination`; `None` if there is no route.
    fn lookup(&self, destination: IpAddr) -> Option<Hop>;

    /// Returns whether the route to `source` leads through `arrival`, the interface of a packet from there. The packet
    /// shows that the interface is up, which the kernel announces up to a second later.
    fn leads_back(&self, source: IpAddr, arrival: InterfaceId) -> bool;

    /// Returns whether flows to `destination` may take different hops, so that [`Routes::lookup`] is not enough.
    fn differs_by_flow(&self, _destination: IpAddr) -> bool {
        false
    }

    /// Returns the hop of a flow whose packets arrive through `incoming`; `None` for this host's own.
    fn lookup_flow(&self, flow: &Flow, _incoming: Option<InterfaceId>) -> Option<Hop> {
        self.lookup(flow.destination)
    }

    /// Returns the branches of packets from `source` to the multicast `group`; `None` if they are not forwarded.
    fn multicast(&self, source: IpAddr, group: IpAddr) -> Option<Branches<'_>>;
}

/// Routes of a node, IPv4 and IPv6; see the module documentation.
#[derive(Debug, Default)]
pub struct RouteTable {
    /// All routes. Those for one prefix are linked, the best one first.
    routes: Slab<Linked>,
    /// Hops of the best routes.
    hops: Hops,
    v4: Family<u32>,
    v6: Family<u128>,
    multicast: MulticastTable,
    /// Interfaces that are down, whose routes are not used; few.
    down: BTreeSet<InterfaceId>,
    flows: Flows,
}

#[derive(Clone, Debug)]
struct Linked {
    route: Route,
    /// Next best route for the same prefix, a key of the slab.
    next: Option<u32>,
}

impl RouteTable {
    /// Creates a table without routes.
    pub fn new() -> RouteTable {
        RouteTable::default()
    }

    /// Adds a route; `false` if the same one exists already. Several routes may serve one prefix: the lowest metric
    /// wins, and among equal ones the lowest hop, so that the order of insertion does not matter.
    pub fn insert(&mut self, route: Route) -> bool {
        let before = self.first(route.prefix);
        let (mut previous, mut next) = (None, before);
        while let Some(key) = next {
            let other = &self.routes[key as usize];
            if other.route == route {
                return false;
            }
            if rank(&other.route) > rank(&route) {
                break;
            }
            previous = next;
            next = other.next;
        }
        let key = self.routes.insert(Linked { route, next }) as u32;
        match previous {
            Some(previous) => self.routes[previous as usize].next = Some(key),
            None => self.set_first(route.prefix, Some(key)),
        }
        self.flows.change(route.prefix);
        true
    }

    /// Removes a route; `false` if it does not exist. All fields must match, including the metric.
    pub fn remove(&mut self, route: &Route) -> bool {
        let (mut previous, mut next) = (None, self.first(route.prefix));
        while let Some(key) = next {
            next = self.routes[key as usize].next;
            if self.routes[key as usize].route != *route {
                previous = Some(key);
                continue;
            }
            self.routes.remove(key as usize);
            match previous {
                Some(previous) => self.routes[previous as usize].next = next,
                None => self.set_first(route.prefix, next),
            }
            self.flows.change(route.prefix);
            return true;
        }
        false
    }

    /// Removes all routes through an interface. Returns their prefixes, each once, in order. Walks the whole table.
    /// The state of [`set_interface_up`](RouteTable::set_interface_up) is dropped.
    pub fn remove_interface(&mut self, interface: InterfaceId) -> Vec<Prefix> {
        let gone: Vec<Route> =
            self.iter().filter(|r| r.hop.interface == interface).copied().collect();
        for route in &gone {
            self.remove(route);
        }
        self.down.remove(&interface);
        let mut prefixes: Vec<Prefix> = gone.iter().map(|r| r.prefix).collect();
        prefixes.sort_unstable();
        prefixes.dedup();
        prefixes
    }

    /// Marks an interface up or down. Routes through an interface that is down stay in the table but are not used.
    /// Interfaces are up by default.
    pub fn set_interface_up(&mut self, interface: InterfaceId, up: bool) {
        let changed = if up { self.down.remove(&interface) } else { self.down.insert(interface) };
        if changed {
            self.flows.change(Prefix::everything(false));
            self.flows.change(Prefix::everything(true));
        }
    }

    /// Records whether the route to a prefix has several next hops, among which the host chooses for each flow; or
    /// that they have changed.
    pub fn set_multipath(&mut self, prefix: Prefix, multipath: bool) {
        self.flows.set_multipath(prefix, multipath);
    }

    /// Records whether policy rules, or tables other than main and local, apply to packets of a family; or that they
    /// have changed.
    pub fn set_rules(&mut self, ipv6: bool, apply: bool) {
        self.flows.set_rules(Prefix::everything(ipv6), apply);
    }

    /// Records that the host may route flows to these destinations differently from now on.
    pub fn flows_changed(&mut self, prefix: Prefix) {
        self.flows.change(prefix);
    }

    /// Returns whether the host has to be asked for any flow.
    #[inline]
    pub fn flows_differ(&self) -> bool {
        self.flows.any()
    }

    /// Sets the resolver of flows. Without one, flows follow the routes of their destinations.
    pub fn set_resolver(&mut self, resolver: Box<dyn FlowResolver>) {
        self.flows.answers().set_resolver(resolver);
    }

    /// Sets the hash for flows, whose addresses and ports peers choose. Answers do not depend on it.
    pub fn set_flow_hash(&mut self, hash: KeyedHash) {
        self.flows.answers().set_hash(hash);
    }

    /// Records the host's answers from now on, for [`RouteTable::take_flow_answers`].
    pub fn keep_flow_answers(&mut self) {
        self.flows.answers().keep_log();
    }

    /// Takes the host's answers since the last call, in the order of the questions.
    pub fn take_flow_answers(&mut self) -> Vec<FlowAnswer> {
        self.flows.answers().take_log()
    }

    /// Uses these answers, each once, for the next questions. They are the host's answers from a recording.
    pub fn add_recorded_answers(&mut self, answers: Vec<FlowAnswer>) {
        self.flows.answers().add_recorded(answers);
    }

    /// Returns all routes, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter().map(|(_, linked)| &linked.route)
    }

    /// Returns the number of routes.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Returns whether the table is empty.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// Adds or replaces a multicast forwarding entry; `false` if nothing changes.
    pub fn insert_multicast(&mut self, route: MulticastRoute) -> bool {
        self.multicast.insert(route)
    }

    /// Removes a multicast forwarding entry; `false` if there is none.
    pub fn remove_multicast(&mut self, source: Option<IpAddr>, group: IpAddr) -> bool {
        self.multicast.remove(source, group)
    }

    /// Returns all multicast forwarding entries, by group and source.
    pub fn multicast_routes(&self) -> impl Iterator<Item = &MulticastRoute> {
        self.multicast.iter()
    }

    /// Returns the hop of the best usable route of a list.
    #[inline]
    fn usable_hop(&self, first: BestRoute) -> Option<Hop> {
        if self.down.is_empty() {
            return self.hops.hop(first.hop);
        }
        self.best_hop(first, |interface| !self.down.contains(&interface))
    }

    /// Returns the hop of the best route of a list through an interface that is up.
    fn best_hop(&self, first: BestRoute, is_up: impl Fn(InterfaceId) -> bool) -> Option<Hop> {
        let mut next = Some(first.route);
        while let Some(key) = next {
            let linked = &self.routes[key as usize];
            if is_up(linked.route.hop.interface) {
                return Some(linked.route.hop);
            }
            next = linked.next;
        }
        None
    }

    /// Returns the prefix that decides the route to `destination`.
    fn deciding_prefix(&self, destination: IpAddr) -> Option<Prefix> {
        let prefix = |first: BestRoute| {
            self.usable_hop(first).map(|_| self.routes[first.route as usize].route.prefix)
        };
        match destination {
            IpAddr::V4(a) => self.v4.longest(a.to_bits(), prefix),
            IpAddr::V6(a) => self.v6.longest(a.to_bits(), prefix),
        }
    }

    fn first(&self, prefix: Prefix) -> Option<u32> {
        let first = match prefix.address() {
            IpAddr::V4(address) => self.v4.first(address.to_bits(), prefix.length()),
            IpAddr::V6(address) => self.v6.first(address.to_bits(), prefix.length()),
        };
        first.map(|first| first.route)
    }

    fn set_first(&mut self, prefix: Prefix, route: Option<u32>) {
        let first = route.map(|route| BestRoute {
            route,
            hop: self.hops.acquire(self.routes[route as usize].route.hop),
        });
        let (address, length) = (prefix.address(), prefix.length());
        let before = match address {
            IpAddr::V4(address) => self.v4.set_first(address.to_bits(), length, first),
            IpAddr::V6(address) => self.v6.set_first(address.to_bits(), length, first),
        };
        if let Some(before) = before {
            self.hops.release(before.hop);
        }
    }
}

impl Routes for RouteTable {
    fn lookup(&self, destination: IpAddr) -> Option<Hop> {
        match destination {
            IpAddr::V4(a) => self.v4.longest(a.to_bits(), |first| self.usable_hop(first)),
            IpAddr::V6(a) => self.v6.longest(a.to_bits(), |first| self.usable_hop(first)),
        }
    }

    fn leads_back(&self, source: IpAddr, arrival: InterfaceId) -> bool {
        let hop = if self.down.contains(&arrival) {
            let is_up = |interface| interface == arrival || !self.down.contains(&interface);
            match source {
                IpAddr::V4(a) => self.v4.longest(a.to_bits(), |first| self.best_hop(first, is_up)),
                IpAddr::V6(a) => self.v6.longest(a.to_bits(), |first| self.best_hop(first, is_up)),
            }
        } else {
            self.lookup(source)
        };
        hop.is_some_and(|hop| hop.interface == arrival)
    }

    #[inline]
    fn differs_by_flow(&self, destination: IpAddr) -> bool {
        self.flows.any()
            && (self.flows.rules_apply(destination)
                || self.deciding_prefix(destination).is_some_and(|p| self.flows.is_multipath(p)))
    }

    fn lookup_flow(&self, flow: &Flow, incoming: Option<InterfaceId>) -> Option<Hop> {
        let by_destination = || self.lookup(flow.destination);
        if !self.differs_by_flow(flow.destination) {
            return by_destination();
        }
        self.flows.hop(flow, incoming).unwrap_or_else(by_destination)
    }

    fn multicast(&self, source: IpAddr, group: IpAddr) -> Option<Branches<'_>> {
        self.multicast.lookup(source, group)
    }
}

/// Returns the order of routes for one prefix: lower is better.
fn rank(route: &Route) -> (u32, Hop) {
    (route.metric, route.hop)
}

#[cfg(test)]
mod tests {
    use core::mem::size_of;
    use core::net::Ipv4Addr;

    use super::*;

    fn route(prefix: &str, metric: u32, interface: u32) -> Route {
        let hop = Hop { interface: InterfaceId(interface), gateway: None, source: None };
        Route { prefix: prefix.parse().expect("a prefix"), metric, hop }
    }

    fn table(routes: &[(&str, u32, u32)]) -> RouteTable {
        let mut table = RouteTable::new();
        for &(prefix, metric, interface) in routes {
            assert!(table.insert(route(prefix, metric, interface)));
        }
        table
    }

    #[test]
    fn multicast_entries_change_only_if_they_differ() {
        let mut table = RouteTable::new();
        let group = IpAddr::from(Ipv4Addr::new(239, 1, 2, 3));
        let entry = |outgoing| MulticastRoute { source: None, group, incoming: None, outgoing };
        let one = [InterfaceId(1)].to_vec();
        assert!(table.insert_multicast(entry(one.clone())));
        assert!(!table.insert_multicast(entry(one)));
        assert!(table.insert_multicast(entry([InterfaceId(1), InterfaceId(2)].to_vec())));
        assert!(table.remove_multicast(None, group));
        assert!(!table.remove_multicast(None, group));
    }

    /// Returns the interface number towards `destination`, 0 for none.
    fn towards(table: &RouteTable, destination: &str) -> u32 {
        let destination = destination.parse().expect("an address");
        table.lookup(destination).map_or(0, |hop| hop.interface.0)
    }

    #[test]
    fn longest_prefix_wins_in_both_families() {
        let table = table(&[
            ("0.0.0.0/0", 0, 1),
            ("10.0.0.0/8", 0, 2),
            ("10.1.0.0/16", 0, 3),
            ("10.1.2.0/24", 0, 4),
            ("10.1.2.3/32", 0, 5),
            ("::/0", 0, 6),
            ("2001:db8::/32", 0, 7),
            ("2001:db8:1::/48", 0, 8),
            ("2001:db8:1::1/128", 0, 9),
        ]);
        for (destination, interface) in [
            ("192.0.2.1", 1),
            ("10.9.0.1", 2),
            ("10.1.9.1", 3),
            ("10.1.2.4", 4),
            ("10.1.2.3", 5),
            ("2001:db9::1", 6),
            ("2001:db8:2::1", 7),
            ("2001:db8:1::2", 8),
            ("2001:db8:1::1", 9),
        ] {
            assert_eq!(towards(&table, destination), interface, "{destination}");
        }
    }

    #[test]
    fn lowest_metric_wins_in_any_insertion_order() {
        for order in [[1, 2, 3], [3, 2, 1], [2, 3, 1]] {
            let mut table = RouteTable::new();
            for n in order {
                assert!(table.insert(route("10.0.0.0/8", n, n)));
            }
            assert!(!table.insert(route("10.0.0.0/8", 2, 2)), "once is enough");
            for n in 1..=3 {
                assert_eq!(towards(&table, "10.0.0.1"), n);
                assert!(table.remove(&route("10.0.0.0/8", n, n)));
                assert!(!table.remove(&route("10.0.0.0/8", n, n)));
            }
            assert_eq!(towards(&table, "10.0.0.1"), 0);
            assert!(table.is_empty());
        }
    }

    #[test]
    fn routes_through_down_interface_are_not_used() {
        let mut table =
            table(&[("10.0.0.0/8", 9, 1), ("10.1.0.0/16", 2, 3), ("10.1.0.0/16", 1, 2)]);
        assert_eq!(towards(&table, "10.1.0.1"), 2);
        table.set_interface_up(InterfaceId(2), false);
        assert_eq!(towards(&table, "10.1.0.1"), 3, "the next metric");
        table.set_interface_up(InterfaceId(3), false);
        assert_eq!(towards(&table, "10.1.0.1"), 1, "the shorter prefix");
        table.set_interface_up(InterfaceId(1), false);
        assert_eq!(towards(&table, "10.1.0.1"), 0);
        table.set_interface_up(InterfaceId(2), true);
        assert_eq!(towards(&table, "10.1.0.1"), 2);
    }

    /// A packet shows that its interface is up, whatever is known of it; the other interfaces stay down.
    #[test]
    fn route_leads_back_through_the_interface_of_arrival() {
        let mut table = table(&[
            ("10.0.0.0/8", 9, 1),
            ("10.1.0.0/16", 1, 2),
            ("10.1.0.0/16", 2, 3),
            ("2001:db8::/32", 0, 2),
        ]);
        let through = |table: &RouteTable, source: &str| {
            let source = source.parse().expect("an address");
            [1, 2, 3].map(|interface| table.leads_back(source, InterfaceId(interface)))
        };
        assert_eq!(through(&table, "10.1.0.1"), [false, true, false]);
        assert_eq!(through(&table, "10.2.0.1"), [true, false, false]);
        assert_eq!(through(&table, "2001:db8::1"), [false, true, false]);
        assert_eq!(through(&table, "192.0.2.1"), [false; 3], "no route");
        table.set_interface_up(InterfaceId(2), false);
        assert_eq!(through(&table, "10.1.0.1"), [false, true, true], "up by its packet, or not");
        assert_eq!(through(&table, "2001:db8::1"), [false, true, false]);
        table.set_interface_up(InterfaceId(3), false);
        assert_eq!(through(&table, "10.1.0.1"), [true, true, true]);
    }

    #[test]
    fn removed_interface_removes_its_routes() {
        let mut table = table(&[
            ("10.2.0.0/16", 1, 2),
            ("10.1.0.0/16", 1, 2),
            ("10.1.0.0/16", 2, 2),
            ("10.1.0.0/16", 3, 3),
            ("2001:db8::/32", 0, 2),
        ]);
        let gone = table.remove_interface(InterfaceId(2));
        let expected = ["10.1.0.0/16", "10.2.0.0/16", "2001:db8::/32"];
        assert_eq!(gone, expected.map(|p| p.parse().expect("a prefix")));
        assert_eq!(table.len(), 1);
        assert_eq!(towards(&table, "10.1.0.1"), 3);
        assert_eq!(towards(&table, "10.2.0.1"), 0);
    }

    /// A thousand blocks of 65 networks each, as dense as real tables are: 8 MB in all.
    #[test]
    fn a_route_takes_less_than_128_octets() {
        let mut table = RouteTable::new();
        for n in 0..65_000_u32 {
            let address =
                Ipv4Addr::from_bits((10 << 24) + ((n % 1_000) << 16) + ((n / 1_000) << 8));
            let mut entered = route("0.0.0.0/0", 0, 1);
            entered.prefix = Prefix::new(address.into(), 24);
            assert!(table.insert(entered));
        }
        let octets = table.routes.capacity() * size_of::<Linked>() + table.v4.allocated();
        assert!(octets / table.len() < 128, "{}", octets / table.len());
    }

    /// However often routes change, the list of hops holds only those in use.
    #[test]
    fn hop_is_removed_with_its_last_route() {
        let mut table = RouteTable::new();
        for n in 1..=100 {
            assert!(table.insert(route("10.0.0.0/8", 1, n)));
            assert!(table.insert(route("10.1.0.0/16", 1, n)));
            assert_eq!(table.hops.len(), 1);
            assert!(table.remove(&route("10.0.0.0/8", 1, n)));
            assert_eq!(towards(&table, "10.1.0.1"), n);
            assert!(table.remove(&route("10.1.0.0/16", 1, n)));
            assert_eq!(table.hops.len(), 0);
        }
    }
}
