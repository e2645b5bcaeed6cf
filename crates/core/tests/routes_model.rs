//! The route table compared with a linear search of a list.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use earmark_core::{Hop, InterfaceId, Prefix, Route, RouteTable, Routes};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Insert(Route),
    /// Removes one that is in the list, or one that most likely is not.
    Remove(prop::sample::Index, Route),
    RemoveInterface(u32),
    SetUp(u32, bool),
    Lookup(IpAddr),
}

/// Few distinct bits, so that prefixes coincide and nest; both ends of the address vary.
fn address() -> impl Strategy<Value = IpAddr> {
    let v4 = (0_u32..4, 0_u32..4, 0_u32..4)
        .prop_map(|(a, b, c)| IpAddr::V4(Ipv4Addr::from(10 << 24 | a << 22 | b << 15 | c)));
    let v6 = (0_u128..4, 0_u128..4, 0_u128..4)
        .prop_map(|(a, b, c)| IpAddr::V6(Ipv6Addr::from(0x2001 << 112 | a << 94 | b << 63 | c)));
    prop_oneof![v4, v6]
}

fn route() -> impl Strategy<Value = Route> {
    let gateway = prop::option::of(address());
    (address(), 0_u8..=128, 0_u32..3, 1_u32..4, gateway).prop_map(
        |(address, length, metric, interface, gateway)| Route {
            prefix: Prefix::new(address, length),
            metric,
            hop: Hop { interface: InterfaceId(interface), gateway, source: None },
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => route().prop_map(Step::Insert),
        3 => (any::<prop::sample::Index>(), route()).prop_map(|(i, r)| Step::Remove(i, r)),
        1 => (1_u32..4).prop_map(Step::RemoveInterface),
        1 => (1_u32..4, any::<bool>()).prop_map(|(i, up)| Step::SetUp(i, up)),
        8 => address().prop_map(Step::Lookup),
    ]
}

#[derive(Default)]
struct Model {
    routes: Vec<Route>,
    down: BTreeSet<u32>,
}

impl Model {
    fn lookup(&self, destination: IpAddr) -> Option<Hop> {
        let usable =
            |r: &&Route| r.prefix.contains(destination) && !self.down.contains(&r.hop.interface.0);
        let better = |r: &&Route| (128 - r.prefix.length(), r.metric, r.hop);
        self.routes.iter().filter(usable).min_by_key(better).map(|r| r.hop)
    }

    fn remove(&mut self, route: &Route) -> bool {
        let before = self.routes.len();
        self.routes.retain(|r| r != route);
        self.routes.len() < before
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn route_table_agrees_with_list(steps in prop::collection::vec(step(), 0..200)) {
        let (mut model, mut table) = (Model::default(), RouteTable::new());
        for step in steps {
            match step {
                Step::Insert(route) => {
                    let new = !model.routes.contains(&route);
                    prop_assert_eq!(table.insert(route), new);
                    if new {
                        model.routes.push(route);
                    }
                }
                Step::Remove(which, other) => {
                    let route =
                        if model.routes.is_empty() { other } else { *which.get(&model.routes) };
                    prop_assert_eq!(table.remove(&route), model.remove(&route));
                    prop_assert_eq!(table.remove(&other), model.remove(&other));
                }
                Step::RemoveInterface(interface) => {
                    let through = |r: &Route| r.hop.interface.0 == interface;
                    let gone: BTreeSet<Prefix> =
                        model.routes.iter().filter(|r| through(r)).map(|r| r.prefix).collect();
                    model.routes.retain(|r| !through(r));
                    model.down.remove(&interface);
                    let removed = table.remove_interface(InterfaceId(interface));
                    prop_assert_eq!(removed, gone.into_iter().collect::<Vec<_>>());
                }
                Step::SetUp(interface, up) => {
                    table.set_interface_up(InterfaceId(interface), up);
                    if up { model.down.remove(&interface) } else { model.down.insert(interface) };
                }
                Step::Lookup(destination) => {
                    prop_assert_eq!(table.lookup(destination), model.lookup(destination));
                }
            }
            prop_assert_eq!(table.len(), model.routes.len());
        }
    }
}
