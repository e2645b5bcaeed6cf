//! The node under test and its surroundings, from `topology.toml`.

use std::net::IpAddr;

use earmark_core::random::RandomStreams;
use earmark_core::{Hop, Interface, InterfaceId, MulticastRoute, Prefix, Rate, Route};
use earmark_node::{HostUpdate, NodeConfig};
use earmark_rsvp::{Config, Rsvp};
use serde::Deserialize;

use crate::signing::SharedKey;
use crate::words::Fault;

/// Contents of `topology.toml`. Interfaces have indexes in the order of the file, from 1.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Topology {
    /// Name of the node under test.
    name: String,
    /// Seed of the random numbers.
    #[serde(default = "seed")]
    seed: u64,
    /// Settings that differ from the defaults.
    #[serde(default)]
    rsvp: Config,
    #[serde(rename = "interface")]
    interfaces: Vec<Link>,
    #[serde(default, rename = "route")]
    routes: Vec<StaticRoute>,
    #[serde(default)]
    branches: Vec<MulticastEntry>,
    /// Keys that the node shares with its neighbors.
    #[serde(default, rename = "key")]
    pub(crate) keys: Vec<SharedKey>,
}

/// An interface of the node under test.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Link {
    name: String,
    /// Addresses with the prefix length of the link: `10.0.1.2/24`.
    addresses: Vec<String>,
    /// Bandwidth, bits per second; 0 if the node does not take part.
    bandwidth: u64,
    /// Reservable bandwidth, bits per second.
    reservable: u64,
    #[serde(default = "mtu")]
    mtu: u32,
    #[serde(default)]
    latency_us: u32,
}

/// A route of the node under test.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StaticRoute {
    to: String,
    interface: String,
    via: Option<IpAddr>,
    /// Route metric; the lowest is preferred.
    #[serde(default)]
    metric: u32,
}

/// A multicast forwarding entry of the node under test.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MulticastEntry {
    group: IpAddr,
    /// Source address; every source if absent.
    source: Option<IpAddr>,
    r#in: Option<String>,
    out: Vec<String>,
}

fn seed() -> u64 {
    1
}

fn mtu() -> u32 {
    1_500
}

impl Topology {
    pub(crate) fn read(text: &str) -> Result<Topology, Fault> {
        let mut topology: Topology = toml::from_str(text).map_err(|error| error.to_string())?;
        // Most stories are about RFC 2205; those about RFC 2961 have the section for it.
        topology.rsvp.reduction.enabled &= text.contains("[rsvp.reduction]");
        Ok(topology)
    }

    pub(crate) fn config(&self) -> NodeConfig {
        let mut rsvp = self.rsvp.clone();
        rsvp.integrity.keys = self.keys.iter().map(SharedKey::key).collect();
        NodeConfig { name: self.name.clone(), seed: self.seed, rsvp, ..NodeConfig::default() }
    }

    /// Returns the updates of the node before the story begins.
    pub(crate) fn updates(&self) -> Result<Vec<HostUpdate>, Fault> {
        let mut updates = Vec::new();
        for link in &self.interfaces {
            let interface = self.interface(&link.name)?;
            updates.push(HostUpdate::Interface(interface.clone()));
            for address in &link.addresses {
                let prefix: Prefix = address.parse().map_err(|e| format!("{address}: {e}"))?;
                let hop = Hop { interface: interface.id, gateway: None, source: None };
                updates.push(HostUpdate::Route(Route { prefix, metric: 0, hop }));
            }
        }
        for way in &self.routes {
            let interface = self.id(&way.interface)?;
            let route = route(&way.to, interface, way.via)?;
            updates.push(HostUpdate::Route(Route { metric: way.metric, ..route }));
        }
        for tree in &self.branches {
            updates.push(HostUpdate::MulticastRoute(MulticastRoute {
                source: tree.source,
                group: tree.group,
                incoming: tree.r#in.as_ref().map(|name| self.id(name)).transpose()?,
                outgoing: tree.out.iter().map(|name| self.id(name)).collect::<Result<_, _>>()?,
            }));
        }
        Ok(updates)
    }

    /// Returns an interface of `topology.toml`.
    pub(crate) fn interface(&self, name: &str) -> Result<Interface, Fault> {
        let id = self.id(name)?;
        let link = &self.interfaces[id.0 as usize - 1];
        let address = |text: &String| {
            let (address, _) = text.split_once('/').ok_or(format!("{text}: no prefix length"))?;
            address.parse().map_err(|error| format!("{text}: {error}"))
        };
        Ok(Interface {
            id,
            name: link.name.clone(),
            addresses: link.addresses.iter().map(address).collect::<Result<_, Fault>>()?,
            mtu: link.mtu,
            up: true,
            bandwidth: Rate::from_bps(link.bandwidth),
            reservable: Rate::from_bps(link.reservable),
            latency_us: link.latency_us,
        })
    }

    pub(crate) fn id(&self, name: &str) -> Result<InterfaceId, Fault> {
        let place = self.interfaces.iter().position(|link| link.name == name);
        let place = place.ok_or_else(|| format!("there is no interface {name}"))?;
        u32::try_from(place + 1).map(InterfaceId).map_err(|error| error.to_string())
    }

    pub(crate) fn name(&self, id: InterfaceId) -> String {
        let place = (id.0 as usize).checked_sub(1);
        let link = place.and_then(|place| self.interfaces.get(place));
        link.map_or_else(|| format!("interface-{}", id.0), |link| link.name.clone())
    }

    /// Returns the logical interface handles of the node under test, with the names of their interfaces.
    pub(crate) fn handles(&self) -> Vec<(String, u32)> {
        let engine = Rsvp::new(self.rsvp.clone(), &RandomStreams::new(self.seed));
        let ids = (1..).map(InterfaceId);
        self.interfaces.iter().zip(ids).map(|(l, id)| (l.name.clone(), engine.lih(id))).collect()
    }
}

pub(crate) fn route(
    to: &str,
    interface: InterfaceId,
    gateway: Option<IpAddr>,
) -> Result<Route, Fault> {
    let prefix = to.parse().map_err(|error| format!("{to}: {error}"))?;
    Ok(Route { prefix, metric: 0, hop: Hop { interface, gateway, source: None } })
}
