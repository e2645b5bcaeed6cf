//! The node under test, from `topology.toml`.

use std::net::IpAddr;

use earmark_core::{Hop, Interface, InterfaceId, MulticastRoute, Prefix, Rate, Role, Route, Trust};
use serde::de::{DeserializeOwned, Deserializer, Error as _};
use serde::{Deserialize, Serialize};

use super::words::{Fault, Words};

/// Contents of `topology.toml`. Interfaces are numbered from 1 in the order of the file.
#[derive(Clone, Debug)]
pub struct Topology<S> {
    /// Seed of the random numbers.
    pub seed: u64,
    /// What only this protocol has.
    pub settings: S,
    /// Interfaces and routes.
    pub links: Links,
}

/// Interfaces and routes of a node under test.
#[derive(Clone, Debug)]
pub struct Links {
    interfaces: Vec<Interface>,
    /// Routes, those to the links themselves first.
    pub routes: Vec<Route>,
    /// Multicast forwarding entries.
    pub branches: Vec<MulticastRoute>,
}

/// Tables that every `topology.toml` may have.
const COMMON: [&str; 4] = ["seed", "interface", "route", "branches"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Common {
    #[serde(default = "seed")]
    seed: u64,
    #[serde(rename = "interface")]
    interfaces: Vec<Link>,
    #[serde(default, rename = "route")]
    routes: Vec<RouteEntry>,
    #[serde(default)]
    branches: Vec<BranchesEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    name: String,
    /// Addresses with the prefix length of the link: `10.0.1.2/24`.
    addresses: Vec<String>,
    #[serde(default = "mtu")]
    mtu: u32,
    /// Zero if the node does not take part.
    #[serde(default = "bandwidth", deserialize_with = "rate")]
    bandwidth: Rate,
    #[serde(default = "reservable", deserialize_with = "rate")]
    reservable: Rate,
    /// Limit of one reservation.
    largest: Option<u64>,
    /// Octets that the link adds to each IP packet.
    #[serde(default)]
    overhead: u16,
    #[serde(default)]
    latency_us: u32,
    #[serde(default = "role")]
    role: Role,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteEntry {
    to: String,
    interface: String,
    via: Option<IpAddr>,
    /// Route metric; the lowest is preferred.
    #[serde(default)]
    metric: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BranchesEntry {
    group: IpAddr,
    /// Source address; every source if absent.
    source: Option<IpAddr>,
    r#in: Option<String>,
    out: Vec<String>,
}

/// Settings of a protocol that has none.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NoSettings {}

fn seed() -> u64 {
    1
}

fn mtu() -> u32 {
    1_500
}

fn bandwidth() -> Rate {
    Rate::from_mbps(10)
}

fn reservable() -> Rate {
    Rate::from_mbps(8)
}

fn role() -> Role {
    Role::Core
}

/// Reads a rate: a number of bits per second, or text such as `2Mbit`.
fn rate<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Rate, D::Error> {
    match toml::Value::deserialize(deserializer)? {
        toml::Value::Integer(bps) => {
            u64::try_from(bps).map(Rate::from_bps).map_err(D::Error::custom)
        }
        toml::Value::String(text) => text.parse().map_err(D::Error::custom),
        other => Err(D::Error::custom(format!("{other} is no rate"))),
    }
}

impl<S: DeserializeOwned> Topology<S> {
    /// Reads the text of a `topology.toml`.
    ///
    /// # Errors
    /// What is wrong in the text.
    pub fn read(text: &str) -> Result<Topology<S>, Fault> {
        let mut own: toml::Table =
            text.parse().map_err(|error: toml::de::Error| error.to_string())?;
        let mut common = toml::Table::new();
        for name in COMMON {
            common.extend(own.remove_entry(name));
        }
        let common: Common = common.try_into().map_err(|error| error.to_string())?;
        let settings = own.try_into().map_err(|error| error.to_string())?;
        Ok(Topology { seed: common.seed, settings, links: Links::new(common)? })
    }
}

impl Links {
    fn new(common: Common) -> Result<Links, Fault> {
        let mut links = Links { interfaces: Vec::new(), routes: Vec::new(), branches: Vec::new() };
        for (id, link) in (1..).map(InterfaceId).zip(common.interfaces) {
            let mut addresses = Vec::new();
            for text in &link.addresses {
                let (address, _) =
                    text.split_once('/').ok_or(format!("{text}: no prefix length"))?;
                addresses.push(address.parse().map_err(|error| format!("{text}: {error}"))?);
                links.routes.push(route(text, id, None)?);
            }
            links.interfaces.push(Interface {
                id,
                name: link.name,
                addresses,
                mtu: link.mtu,
                up: true,
                bandwidth: link.bandwidth,
                reservable: link.reservable,
                largest: link.largest.map(Rate::from_bps),
                overhead: link.overhead,
                latency_us: link.latency_us,
                trust: Trust { role: link.role, sources: Vec::new() },
            });
        }
        for entry in common.routes {
            let route = route(&entry.to, links.id(&entry.interface)?, entry.via)?;
            links.routes.push(Route { metric: entry.metric, ..route });
        }
        for tree in common.branches {
            let incoming = tree.r#in.as_ref().map(|name| links.id(name)).transpose()?;
            let outgoing = tree.out.iter().map(|name| links.id(name)).collect::<Result<_, _>>()?;
            let (source, group) = (tree.source, tree.group);
            links.branches.push(MulticastRoute { source, group, incoming, outgoing });
        }
        Ok(links)
    }

    /// Returns the interfaces in the order of the file.
    pub fn interfaces(&self) -> impl Iterator<Item = &Interface> {
        self.interfaces.iter()
    }

    /// Returns an interface.
    ///
    /// # Errors
    /// The topology has no interface of this name.
    pub fn interface(&self, name: &str) -> Result<&Interface, Fault> {
        let found = self.interfaces.iter().find(|interface| interface.name == name);
        found.ok_or_else(|| format!("there is no interface `{name}`"))
    }

    /// Returns the number of an interface.
    ///
    /// # Errors
    /// The topology has no interface of this name.
    pub fn id(&self, name: &str) -> Result<InterfaceId, Fault> {
        self.interface(name).map(|interface| interface.id)
    }

    /// Returns the name of an interface; `interface-7` if the topology has none of this number.
    pub fn name(&self, id: InterfaceId) -> String {
        let known = self.interfaces.iter().find(|interface| interface.id == id);
        known.map_or_else(|| format!("interface-{}", id.0), |interface| interface.name.clone())
    }

    /// Takes `P on eth3 [via A]`.
    ///
    /// # Errors
    /// What is missing or wrong.
    pub fn read_route(&self, words: &mut Words<'_>) -> Result<Route, Fault> {
        let to = words.next("prefix")?;
        let name: String = words.after("on")?.ok_or("`on` is missing")?;
        route(to, self.id(&name)?, words.after("via")?)
    }

    /// Takes `G [from S] [in eth1] [out eth2 eth3]`.
    ///
    /// # Errors
    /// What is missing or wrong.
    pub fn read_branches(&self, words: &mut Words<'_>) -> Result<MulticastRoute, Fault> {
        let group = words.value("group")?;
        let source = words.after("from")?;
        let incoming: Option<String> = words.after("in")?;
        let incoming = incoming.map(|name| self.id(&name)).transpose()?;
        let mut outgoing = Vec::new();
        if words.flag("out") {
            while !words.is_empty() {
                outgoing.push(self.id(words.next("interface")?)?);
            }
        }
        Ok(MulticastRoute { source, group, incoming, outgoing })
    }
}

fn route(to: &str, interface: InterfaceId, gateway: Option<IpAddr>) -> Result<Route, Fault> {
    let prefix: Prefix = to.parse().map_err(|error| format!("{to}: {error}"))?;
    Ok(Route { prefix, metric: 0, hop: Hop { interface, gateway, source: None } })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
        seed = 7
        [[interface]]
        name = "eth1"
        addresses = ["10.0.1.2/24"]
        bandwidth = 4000000
        reservable = "3Mbit"
        [[route]]
        to = "10.0.9.0/24"
        interface = "eth1"
        via = "10.0.1.1"
    "#;

    #[test]
    fn topology_has_routes_to_its_links_first() {
        let topology: Topology<NoSettings> = Topology::read(TEXT).expect("it is valid");
        let link = topology.links.interface("eth1").expect("it is there");
        assert_eq!((topology.seed, link.id, link.mtu), (7, InterfaceId(1), 1_500));
        assert_eq!((link.bandwidth, link.reservable), (Rate::from_mbps(4), Rate::from_mbps(3)));
        let gateways: Vec<_> =
            topology.links.routes.iter().map(|route| route.hop.gateway).collect();
        assert_eq!(gateways, [None, Some(IpAddr::from([10, 0, 1, 1]))]);
    }

    #[test]
    fn unknown_table_or_interface_is_refused() {
        for (text, named) in
            [("[other]\n", "other"), ("[[route]]\nto = \"::/0\"\ninterface = \"eth2\"", "eth2")]
        {
            let fault = Topology::<NoSettings>::read(&format!("{TEXT}\n{text}")).expect_err(named);
            assert!(fault.contains(named), "{fault}");
        }
    }
}
