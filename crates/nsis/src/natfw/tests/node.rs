//! What the nodes of the tests are, with their addresses and routes.

use super::*;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// A host that accepts every session.
    Host,
    /// A firewall within a network.
    Firewall,
    /// A firewall whose right interface leads out of its network.
    EdgeFirewall,
    /// A firewall whose left interface leads out of its network.
    FarEdgeFirewall,
    /// A translator and firewall whose right interface leads out of its network.
    EdgeTranslator,
    /// A translator within the network: its right interface leads out of a part of it.
    InnerTranslator,
}

impl Place {
    pub(super) fn config(self) -> Config {
        let open = Rule { wildcards: true, deny: true, ports: (1, u16::MAX), ..Rule::default() };
        let config = Config {
            enabled: true,
            responder: Responder::Any,
            rules: vec![open],
            signaling_destination: Some(address(SERVER)),
            ..Config::default()
        };
        let firewall = Config { firewall: true, ..config.clone() };
        match self {
            Place::Host => config,
            Place::Firewall => firewall,
            Place::EdgeFirewall => Config { external: vec!["right".into()], ..firewall },
            Place::FarEdgeFirewall => Config { external: vec!["left".into()], ..firewall },
            Place::EdgeTranslator | Place::InnerTranslator => Config {
                edge: self == Place::EdgeTranslator,
                external: vec!["right".into()],
                translator: Some(Translator::default()),
                ..firewall
            },
        }
    }
}

impl Node {
    pub(super) fn new(number: usize, places: &[Place], config: Config) -> Node {
        let nodes = places.len();
        let mut interfaces = Interfaces::default();
        let mut routes = RouteTable::new();
        let own = |id: InterfaceId| -> Vec<IpAddr> {
            match (number, id, places[number]) {
                (0, RIGHT, _) => vec![address(CLIENT), address("2001:db8:1::1")],
                (_, LEFT, _) if number == nodes - 1 => {
                    vec![address(SERVER), address("2001:db8:2::9")]
                }
                (_, RIGHT, Place::EdgeTranslator) => vec![address(PUBLIC)],
                (_, RIGHT, Place::InnerTranslator) => vec![address("10.9.0.1")],
                (_, id, _) => vec![address(&format!("172.31.{}.{}", id.0, number + 1))],
            }
        };
        // Firewalls and translators next to each other are of one administration.
        let trust = |id: InterfaceId| {
            let neighbor = if id == LEFT { number.checked_sub(1) } else { Some(number + 1) };
            let place = neighbor.and_then(|neighbor| places.get(neighbor));
            match place.is_some_and(|place| *place != Place::Host) {
                true => Trust::CORE,
                false => Trust::ACCESS,
            }
        };
        for (id, name) in [(LEFT, "left"), (RIGHT, "right")] {
            interfaces.set(Interface {
                id,
                name: name.into(),
                addresses: own(id),
                mtu: 1_500,
                up: true,
                bandwidth: Rate::from_mbps(10),
                reservable: Rate::from_mbps(8),
                largest: None,
                overhead: 0,
                latency_us: 100,
                trust: trust(id),
            });
        }
        let of_place = |wanted: Place| places.iter().position(|place| *place == wanted);
        let inside =
            |prefix: &str, behind: Option<usize>| behind.map(|behind| (prefix.to_string(), behind));
        let ranges = [
            Some(("10.0.0.0/24".to_string(), 0)),
            Some(("2001:db8:1::/48".to_string(), 0)),
            Some(("198.51.100.0/24".to_string(), nodes - 1)),
            Some(("2001:db8:2::/48".to_string(), nodes - 1)),
            inside("203.0.113.0/24", of_place(Place::EdgeTranslator)),
            inside("10.9.0.0/24", of_place(Place::InnerTranslator)),
        ];
        for (prefix, behind) in ranges.into_iter().flatten() {
            let interface = match behind.cmp(&number) {
                core::cmp::Ordering::Less => LEFT,
                core::cmp::Ordering::Greater => RIGHT,
                // The hosts' own networks; the addresses of a translator are its own.
                core::cmp::Ordering::Equal if number == 0 => RIGHT,
                core::cmp::Ordering::Equal => LEFT,
            };
            let hop = Hop { interface, gateway: None, source: None };
            routes.insert(Route { prefix: prefix.parse().expect("a range"), metric: 0, hop });
        }
        Node {
            natfw: NatfwNslp::new(config, &RandomStreams::new(number as u64)),
            ledger: Ledger::new(),
            interfaces,
            routes,
            events: Vec::new(),
            filter: BTreeMap::new(),
            refuse: None,
        }
    }
}
