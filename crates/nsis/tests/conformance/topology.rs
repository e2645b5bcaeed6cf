//! The node under test, from `topology.toml`.

use std::net::IpAddr;

use earmark_core::{Hop, Interface, InterfaceId, Interfaces, Prefix, Rate, Route, RouteTable};
use earmark_nsis::{Config, gist, qos};
use serde::Deserialize;

use crate::words::Fault;

/// Contents of `topology.toml`. Interfaces are numbered from 1 in the order of the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Topology {
    /// Seed of the random numbers.
    #[serde(default = "seed")]
    pub(crate) seed: u64,
    /// Settings that differ from the defaults.
    #[serde(default)]
    gist: gist::Config,
    #[serde(default)]
    qos: qos::Config,
    /// Whether reservations may preempt each other.
    #[serde(default)]
    pub(crate) preemption: bool,
    #[serde(rename = "interface")]
    interfaces: Vec<Link>,
    #[serde(default, rename = "route")]
    routes: Vec<RouteEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    name: String,
    /// Addresses with the prefix length of the link: `10.0.1.2/24`.
    addresses: Vec<String>,
    #[serde(default = "mtu")]
    mtu: u32,
    /// Reservable bandwidth, as in `2Mbit`.
    #[serde(default = "reservable")]
    reservable: String,
    #[serde(default)]
    latency_us: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RouteEntry {
    to: String,
    interface: String,
    via: Option<IpAddr>,
}

fn seed() -> u64 {
    1
}

fn mtu() -> u32 {
    1_500
}

fn reservable() -> String {
    "8Mbit".into()
}

impl Topology {
    pub(crate) fn read(text: &str) -> Result<Topology, Fault> {
        toml::from_str(text).map_err(|error| error.to_string())
    }

    pub(crate) fn config(&self) -> Config {
        Config { gist: self.gist.clone(), qos: self.qos.clone(), ..Config::default() }
    }

    pub(crate) fn interface(&self, name: &str) -> Result<InterfaceId, Fault> {
        let place = self.interfaces.iter().position(|link| link.name == name);
        let place = place.ok_or_else(|| format!("there is no interface `{name}`"))?;
        Ok(InterfaceId(place as u32 + 1))
    }

    pub(crate) fn name(&self, interface: InterfaceId) -> &str {
        self.interfaces.get(interface.0 as usize - 1).map_or("?", |link| &link.name)
    }

    pub(crate) fn interfaces(&self) -> Result<Interfaces, Fault> {
        let mut interfaces = Interfaces::default();
        for (id, link) in (1..).zip(&self.interfaces) {
            let addresses: Result<Vec<IpAddr>, Fault> =
                link.addresses.iter().map(|a| address(a)).collect();
            interfaces.set(Interface {
                id: InterfaceId(id),
                name: link.name.clone(),
                addresses: addresses?,
                mtu: link.mtu,
                up: true,
                bandwidth: Rate::from_mbps(10),
                reservable: link.reservable.parse().map_err(|_| "reservable is no rate")?,
                latency_us: link.latency_us,
            });
        }
        Ok(interfaces)
    }

    pub(crate) fn routes(&self) -> Result<RouteTable, Fault> {
        let mut table = RouteTable::new();
        for (id, link) in (1..).zip(&self.interfaces) {
            for text in &link.addresses {
                table.insert(route(text, InterfaceId(id), None)?);
            }
        }
        for way in &self.routes {
            table.insert(route(&way.to, self.interface(&way.interface)?, way.via)?);
        }
        Ok(table)
    }
}

fn address(text: &str) -> Result<IpAddr, Fault> {
    let text = text.split('/').next().unwrap_or(text);
    text.parse().map_err(|error| format!("`{text}`: {error}"))
}

pub(crate) fn route(
    to: &str,
    interface: InterfaceId,
    gateway: Option<IpAddr>,
) -> Result<Route, Fault> {
    let prefix: Prefix = to.parse().map_err(|error| format!("`{to}`: {error}"))?;
    Ok(Route { prefix, metric: 0, hop: Hop { interface, gateway, source: None } })
}
