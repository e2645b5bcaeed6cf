//! Checks of a message against the trust in the interface that it came through.

use core::net::IpAddr;

use super::Role;
use crate::{Context, Interface, InterfaceId, Prefix};

impl Interface {
    /// Returns whether only routers of the same administration are behind the interface.
    #[inline]
    pub fn is_core(&self) -> bool {
        self.trust.role == Role::Core
    }
}

impl Context<'_> {
    /// Returns whether a message that arrived through one interface may concern state at another one: if both are the
    /// same, or both are core interfaces.
    #[inline]
    pub fn may_concern(&self, arrival: InterfaceId, at: InterfaceId) -> bool {
        arrival == at || (self.is_core(arrival) && self.is_core(at))
    }

    /// Returns whether only routers of the same administration are behind an interface.
    #[inline]
    pub fn is_core(&self, interface: InterfaceId) -> bool {
        self.interfaces.by_id(interface).is_some_and(Interface::is_core)
    }

    /// Returns whether data from `source` may arrive through an interface: through a core interface from anywhere,
    /// through an access interface from its configured sources, or else from where the route to the source leads.
    #[inline]
    pub fn is_behind(&self, source: IpAddr, interface: InterfaceId) -> bool {
        let link = self.interfaces.by_id(interface);
        link.is_some_and(|link| link.is_core() || self.is_behind_access(source, link))
    }

    /// Returns whether a neighbour with this address may be behind an interface: behind a core interface any, behind an
    /// access interface those to which the route leads through it. Answers to others would go elsewhere.
    #[inline]
    pub fn may_be_neighbor(&self, address: IpAddr, interface: InterfaceId) -> bool {
        self.is_core(interface) || self.routes.leads_back(address, interface)
    }

    /// Returns whether data from all of a range may arrive through an interface. Of a range that follows the routes, the
    /// first and the last address decide.
    #[inline]
    pub fn is_range_behind(&self, range: Prefix, interface: InterfaceId) -> bool {
        let link = self.interfaces.by_id(interface);
        link.is_some_and(|link| link.is_core() || self.is_range_behind_access(range, link))
    }

    #[cold]
    fn is_range_behind_access(&self, range: Prefix, link: &Interface) -> bool {
        match link.trust.sources.as_slice() {
            [] => [range.address(), range.last_address()]
                .into_iter()
                .all(|end| self.is_behind_access(end, link)),
            sources => sources.iter().any(|prefix| prefix.covers(range)),
        }
    }

    #[cold]
    fn is_behind_access(&self, source: IpAddr, link: &Interface) -> bool {
        match link.trust.sources.as_slice() {
            [] => self.routes.leads_back(source, link.id),
            sources => sources.iter().any(|prefix| prefix.contains(source)),
        }
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use alloc::vec;

    use alloc::vec::Vec;

    use super::*;
    use crate::admission::Ledger;
    use crate::trust::Trust;
    use crate::{Hop, Interfaces, Rate, Route, RouteTable};

    const CORE: [InterfaceId; 2] = [InterfaceId(1), InterfaceId(2)];
    const ACCESS: [InterfaceId; 2] = [InterfaceId(3), InterfaceId(4)];

    fn interfaces(sources: &[&str]) -> Interfaces {
        let mut interfaces = Interfaces::default();
        for id in CORE.into_iter().chain(ACCESS) {
            let sources = sources.iter().map(|text| text.parse().expect("a prefix")).collect();
            let role = if CORE.contains(&id) { Role::Core } else { Role::Access };
            interfaces.set(Interface {
                id,
                name: id.0.to_string(),
                addresses: vec![],
                mtu: 1_500,
                up: true,
                bandwidth: Rate::from_mbps(10),
                reservable: Rate::from_mbps(5),
                largest: None,
                overhead: 0,
                latency_us: 10,
                trust: Trust { role, sources },
            });
        }
        interfaces
    }

    /// Routes through the first access interface and, for all else, through the first core interface.
    fn routes() -> RouteTable {
        let mut routes = RouteTable::new();
        for (prefix, interface) in [("10.3.0.0/16", ACCESS[0]), ("0.0.0.0/0", CORE[0])] {
            let hop = Hop { interface, gateway: None, source: None };
            routes.insert(Route { prefix: prefix.parse().expect("a prefix"), metric: 0, hop });
        }
        routes
    }

    /// Every pair of interfaces: only equal ones and pairs of core interfaces are allowed.
    #[test]
    fn message_concerns_its_own_interface_or_other_core_interfaces() {
        let (interfaces, routes, mut ledger) =
            (interfaces(&[]), RouteTable::new(), Ledger::default());
        let context = Context { routes: &routes, interfaces: &interfaces, ledger: &mut ledger };
        let all: Vec<InterfaceId> = CORE.into_iter().chain(ACCESS).collect();
        for &arrival in &all {
            for &at in &all {
                let expected = arrival == at || (CORE.contains(&arrival) && CORE.contains(&at));
                assert_eq!(context.may_concern(arrival, at), expected, "{arrival:?} {at:?}");
            }
        }
        assert!(!context.may_concern(CORE[0], InterfaceId(9)), "an interface that is gone");
    }

    #[test]
    fn source_is_behind_access_interface_by_route_or_settings() {
        let routes = routes();
        let (ours, foreign) = ([10, 3, 0, 1].into(), [192, 0, 2, 1].into());
        let check = |sources: &[&str], source, interface| {
            let (interfaces, mut ledger) = (interfaces(sources), Ledger::default());
            let context = Context { routes: &routes, interfaces: &interfaces, ledger: &mut ledger };
            context.is_behind(source, interface)
        };
        assert!(check(&[], ours, ACCESS[0]));
        assert!(!check(&[], ours, ACCESS[1]), "behind another interface");
        assert!(!check(&[], foreign, ACCESS[0]), "behind the core");
        assert!(check(&[], foreign, CORE[1]) && check(&[], ours, CORE[1]), "from anywhere");
        assert!(check(&["192.0.2.0/24"], foreign, ACCESS[1]), "as configured");
        assert!(!check(&["192.0.2.0/24"], ours, ACCESS[0]), "not configured");
    }

    /// A range is behind an access interface if all of it is.
    #[test]
    fn range_is_behind_access_interface_as_a_whole() {
        let routes = routes();
        let configured: &[&str] = &["10.3.0.0/17", "192.0.2.0/24"];
        for (sources, range, interface, expected) in [
            (&[] as &[&str], "10.3.0.1/32", ACCESS[0], true),
            (&[], "10.3.0.0/16", ACCESS[0], true),
            (&[], "10.3.0.0/15", ACCESS[0], false),
            (&[], "10.2.0.0/15", ACCESS[0], false),
            (&[], "0.0.0.0/0", ACCESS[0], false),
            (&[], "10.3.0.0/16", ACCESS[1], false),
            (&[], "0.0.0.0/0", CORE[1], true),
            (configured, "10.3.0.0/18", ACCESS[0], true),
            (configured, "10.3.0.0/16", ACCESS[0], false),
            (configured, "192.0.2.0/24", ACCESS[1], true),
            (configured, "192.0.2.0/23", ACCESS[1], false),
            (configured, "0.0.0.0/0", CORE[0], true),
        ] {
            let (interfaces, mut ledger) = (interfaces(sources), Ledger::default());
            let context = Context { routes: &routes, interfaces: &interfaces, ledger: &mut ledger };
            let behind = context.is_range_behind(range.parse().expect("a prefix"), interface);
            assert_eq!(behind, expected, "{range} {interface:?} {sources:?}");
        }
    }

    #[test]
    fn neighbor_of_access_interface_is_reached_through_it() {
        let (routes, interfaces, mut ledger) =
            (routes(), interfaces(&["192.0.2.0/24"]), Ledger::default());
        let context = Context { routes: &routes, interfaces: &interfaces, ledger: &mut ledger };
        for (address, interface, expected) in [
            ("10.3.0.1", ACCESS[0], true),
            ("10.3.0.1", ACCESS[1], false),
            // Sources may be behind an interface without a route to them, but answers would not get there.
            ("192.0.2.1", ACCESS[0], false),
            ("10.3.0.1", CORE[1], true),
            ("192.0.2.1", CORE[1], true),
        ] {
            let address = address.parse().expect("an address");
            assert_eq!(
                context.may_be_neighbor(address, interface),
                expected,
                "{address} {interface:?}"
            );
        }
    }
}
