//! A network: nodes, links, addresses and routes. A network in one TOML file is for the simulator and for namespaces
//! alike; larger ones, published or random, are generated from the settings of a scenario ([`Choice`]), for the
//! simulator alone.
//!
//! The file names nodes and the links between them; everything else follows from rules, so that the same file always
//! gives the same network:
//!
//! | item | rule | setting |
//! |---|---|---|
//! | role | a node with two links or more is a router, the others are hosts | `role = "host"` or `"router"` |
//! | address range | link number n (from 0, in file order) is 10.x.y.0/30 with x = n / 256, y = n mod 256 | `prefix` |
//! | IPv6 | if the file says `ipv6 = true`, each link has a range of its own too, 2001:db8:0:n::/64 | |
//! | addresses | the first end of `ends` has the first address of the range, the second the next one | |
//! | interfaces | `eth0`, `eth1` ... at each node, in the order of its links in the file | |
//! | routes | fewest links; among equals the one whose first link comes first in the file; never through a host | |
//!
//! ```toml
//! name = "earmark"              # name of the network; its namespaces are earmark-h1 ...
//! ipv6 = true                   # default false
//!
//! [[node]]
//! name = "h1"
//!
//! [[node]]
//! name = "h2"
//!
//! [[link]]
//! ends = ["h1", "h2"]
//! bandwidth = "10Mbit"
//! delay = "5ms"                 # default 0; simulator only
//! reservable = "75%"            # a share or a rate; default 75%
//! queue_packets = 50            # best-effort queue of each end; default 50
//! prefix = "192.0.2.0/30"       # default: the rule above
//! ```

mod areas;
mod backbone;
mod choice;
mod error;
mod graphml;
mod hosts;
mod parse;
mod paths;
mod settings;
mod summary;
mod waxman;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use earmark_core::{Prefix, Rate};

pub use backbone::MAX_ROUTERS;
pub use choice::Choice;
pub use error::ChoiceError;
pub use graphml::{GraphmlError, GraphmlProblem};
pub use hosts::MAX_HOSTS;
pub use parse::{Problem, TopologyError};
pub use paths::{Paths, StaticRoute};
pub use settings::{Attach, Made, Reservable};
pub use summary::{Spread, Summary};
pub use waxman::Waxman;

/// The demo's topology, as shipped.
pub const DEMO: &str = include_str!("../../../../topologies/demo.toml");

/// Maximum number of nodes of a topology.
pub const MAX_NODES: usize = 1_024;
/// Maximum number of links of a topology.
pub const MAX_LINKS: usize = 4_096;

/// A valid network: every link has two different, known ends, and every node reaches every other.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// Name of the whole network.
    pub name: String,
    /// Nodes, in file order.
    pub nodes: Vec<Node>,
    /// Links, in file order.
    pub links: Vec<Link>,
    /// Metric of paths.
    pub metric: Metric,
}

/// Metric of paths. Among equals the one of fewer links is shorter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Number of links.
    #[default]
    Links,
    /// Propagation delay.
    Delay,
}

/// One host or router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Name: 1 to 32 of `a-z A-Z 0-9 _ -`, not starting with `-`.
    pub name: String,
    /// Whether it forwards packets.
    pub role: Role,
    /// Address range of a router for the links of its hosts and others, if it has its own; other nodes then need one
    /// route for all of them.
    pub area: Option<Prefix>,
    /// Position on a map, if any.
    pub place: Option<Place>,
}

/// A position on a plane, in millionths of the source's unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Distance to the right.
    pub east: i32,
    /// Distance upwards.
    pub north: i32,
}

/// Whether a node forwards packets of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Does not forward.
    Host,
    /// Forwards.
    Router,
}

/// One link between two nodes, the same in both directions.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Both ends.
    pub ends: [End; 2],
    /// Address range.
    pub prefix: Prefix,
    /// IPv6 address range, if the network has one.
    pub prefix6: Option<Prefix>,
    /// Bandwidth of each direction.
    pub bandwidth: Rate,
    /// Propagation delay of each direction.
    pub delay: Duration,
    /// Reservable rate of each direction.
    pub reservable: Rate,
    /// Limit of the best-effort queue at each end, packets.
    pub queue_packets: u32,
}

/// Address family.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Family {
    /// IPv4.
    #[default]
    Ipv4,
    /// IPv6, in networks that have it.
    Ipv6,
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Index of the node in [`Topology::nodes`].
    pub node: usize,
    /// Name of the interface there.
    pub interface: String,
    /// Address.
    pub address: Ipv4Addr,
    /// IPv6 address, if the network has one.
    pub address6: Option<Ipv6Addr>,
}

impl End {
    /// Returns the address of a family; `None` for IPv6 in a network without it.
    pub fn address_in(&self, family: Family) -> Option<IpAddr> {
        match family {
            Family::Ipv4 => Some(self.address.into()),
            Family::Ipv6 => self.address6.map(IpAddr::from),
        }
    }
}

impl Link {
    /// Returns the address range of a family; `None` for IPv6 in a network without it.
    pub fn prefix_in(&self, family: Family) -> Option<Prefix> {
        match family {
            Family::Ipv4 => Some(self.prefix),
            Family::Ipv6 => self.prefix6,
        }
    }
}

impl Topology {
    /// Parses a topology.
    ///
    /// # Errors
    /// [`TopologyError`] with the line, the key and the reason, at the first error.
    pub fn parse(text: &str) -> Result<Topology, TopologyError> {
        parse::parse(text)
    }

    /// Renames the network.
    ///
    /// # Errors
    /// The name is not valid for a namespace.
    pub fn rename(&mut self, name: &str) -> Result<(), Problem> {
        if !parse::is_name(name) {
            return Err(Problem::BadName(name.to_owned()));
        }
        self.name = name.to_owned();
        Ok(())
    }

    /// Returns the index of the node with this name.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|n| n.name == name)
    }

    /// Returns whether a link joins two routers.
    pub fn is_between_routers(&self, link: &Link) -> bool {
        link.ends.iter().all(|end| self.nodes[end.node].role == Role::Router)
    }

    /// Returns the interfaces of a node, in order: `eth0` first, each with its link.
    pub fn interfaces(&self, node: usize) -> impl Iterator<Item = (&End, &Link)> {
        self.links.iter().flat_map(move |link| {
            link.ends.iter().filter(move |end| end.node == node).map(move |end| (end, link))
        })
    }

    /// Returns the address of a node, see [`Paths::addresses`].
    pub fn address(&self, node: usize) -> Option<Ipv4Addr> {
        self.reached_by(node, self.interfaces(node).map(|(end, _)| end))
    }

    /// Returns the address of a node in a family: [`Topology::address`], or for IPv6 that of its first interface.
    pub fn address_in(&self, node: usize, family: Family) -> Option<IpAddr> {
        match family {
            Family::Ipv4 => self.address(node).map(IpAddr::from),
            Family::Ipv6 => self.interfaces(node).next()?.0.address_in(family),
        }
    }

    /// Returns the address of the first interface, or of the first one in the range of a router that has its own.
    fn reached_by<'a>(
        &self,
        node: usize,
        mut ends: impl Iterator<Item = &'a End>,
    ) -> Option<Ipv4Addr> {
        let Some(area) = self.nodes[node].area else { return Some(ends.next()?.address) };
        let mut addresses = ends.map(|end| end.address);
        let first = addresses.next()?;
        let own = |address: &Ipv4Addr| area.contains((*address).into());
        if own(&first) { Some(first) } else { addresses.find(own).or(Some(first)) }
    }

    /// Returns the name of the node that has this address.
    pub fn owner_of(&self, address: IpAddr) -> Option<&str> {
        self.links
            .iter()
            .flat_map(|link| &link.ends)
            .find(|end| IpAddr::V4(end.address) == address)
            .map(|end| self.nodes[end.node].name.as_str())
    }

    /// Returns the paths through the topology.
    pub fn paths(&self) -> Paths<'_> {
        Paths::new(self)
    }

    /// Returns [`Paths::distance`], which is more efficient for several calls.
    pub fn distance(&self, from: usize, to: usize) -> Option<usize> {
        self.paths().distance(from, to)
    }

    /// Returns [`Paths::routes`], which is more efficient for several calls.
    pub fn routes(&self, node: usize) -> Vec<StaticRoute> {
        self.paths().routes(node)
    }
}
