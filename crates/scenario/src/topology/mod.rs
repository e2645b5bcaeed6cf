//! A network: nodes, links, addresses and routes. Where one TOML file says it, it is for the simulator and for namespaces alike;
//! larger ones, published or random, are made of what a scenario says ([`Choice`]), for the simulator alone.
//!
//! The file names nodes and the links between them; everything else has a rule, so that the same file always gives
//! the same network:
//!
//! | what | rule | setting |
//! |---|---|---|
//! | role | a node with two links or more is a router, the others are hosts | `role = "host"` or `"router"` |
//! | address range | link number n (from 0, in file order) is 10.x.y.0/30 with x = n / 256, y = n mod 256 | `prefix` |
//! | IPv6 | if the file says `ipv6 = true`, each link has a range of its own too, 2001:db8:0:n::/64, for namespaces only | |
//! | addresses | the first end of `ends` has the first address of the range, the second the next one | |
//! | interfaces | `eth0`, `eth1` ... at each node, in the order of its links in the file | |
//! | routes | fewest links; among equals the one whose first link stands first in the file; never through a host | |
//!
//! ```toml
//! name = "earmark"              # names the network; its namespaces are called earmark-h1 ...
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
//! delay = "5ms"                 # default 0; only the simulator can do it
//! reservable = "75%"            # a share or a rate; default 75%
//! queue_packets = 50            # best-effort queue of each end; default 50
//! prefix = "192.0.2.0/30"       # default: the rule above
//! ```

mod areas;
mod backbone;
mod choice;
mod graphml;
mod parse;
mod paths;
mod summary;
mod waxman;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use earmark_core::{Prefix, Rate};

pub use backbone::{MAX_HOSTS, MAX_ROUTERS};
pub use choice::{Attach, Choice, ChoiceError, Made, Reservable};
pub use graphml::{GraphmlError, GraphmlProblem};
pub use parse::{Problem, TopologyError};
pub use paths::{Paths, StaticRoute};
pub use summary::{Spread, Summary};
pub use waxman::Waxman;

/// The topology of the demo, as it is shipped.
pub const DEMO: &str = include_str!("../../../../topologies/demo.toml");

/// Most nodes of a topology.
pub const MAX_NODES: usize = 1_024;
/// Most links of a topology.
pub const MAX_LINKS: usize = 4_096;

/// A network that makes sense: every link has two different, known ends, and every node reaches every other.
#[derive(Clone, Debug, PartialEq)]
pub struct Topology {
    /// Name of the whole network.
    pub name: String,
    /// Nodes, in file order.
    pub nodes: Vec<Node>,
    /// Links, in file order.
    pub links: Vec<Link>,
    /// What makes a path short.
    pub metric: Metric,
}

/// What makes a path short. Among equals the one of fewer links is shorter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Few links.
    #[default]
    Links,
    /// Little propagation delay.
    Delay,
}

/// One host or router.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its name: 1 to 32 of `a-z A-Z 0-9 _ -`, not starting with `-`.
    pub name: String,
    /// Whether it forwards.
    pub role: Role,
    /// Of a router, the range of its hosts' links and of others, where it has one of its own; then others need one route
    /// for all of them.
    pub area: Option<Prefix>,
    /// Where it is drawn, if anywhere.
    pub place: Option<Place>,
}

/// A place on a plane, in millionths of what its maker measures in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// To the right.
    pub east: i32,
    /// Upwards.
    pub north: i32,
}

/// Whether a node forwards packets of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// It does not.
    Host,
    /// It does.
    Router,
}

/// One link between two nodes, the same in both directions.
#[derive(Clone, Debug, PartialEq)]
pub struct Link {
    /// Both ends.
    pub ends: [End; 2],
    /// Address range.
    pub prefix: Prefix,
    /// IPv6 address range, where the network has one.
    pub prefix6: Option<Prefix>,
    /// Bandwidth of each direction.
    pub bandwidth: Rate,
    /// Propagation delay of each direction.
    pub delay: Duration,
    /// What may be reserved of each direction.
    pub reservable: Rate,
    /// Limit of the best-effort queue at each end, packets.
    pub queue_packets: u32,
}

/// One end of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct End {
    /// Index of the node in [`Topology::nodes`].
    pub node: usize,
    /// Name of the interface there.
    pub interface: String,
    /// Its address.
    pub address: Ipv4Addr,
    /// Its IPv6 address, where the network has them.
    pub address6: Option<Ipv6Addr>,
}

impl Topology {
    /// Reads a topology.
    ///
    /// # Errors
    /// [`TopologyError`] with the line, the key and the reason, at the first thing that is wrong.
    pub fn parse(text: &str) -> Result<Topology, TopologyError> {
        parse::parse(text)
    }

    /// Gives the network another name.
    ///
    /// # Errors
    /// It is no name for a namespace.
    pub fn rename(&mut self, name: &str) -> Result<(), Problem> {
        if !parse::is_name(name) {
            return Err(Problem::BadName(name.to_owned()));
        }
        self.name = name.to_owned();
        Ok(())
    }

    /// The index of the node with this name.
    pub fn node(&self, name: &str) -> Option<usize> {
        self.nodes.iter().position(|n| n.name == name)
    }

    /// The interfaces of a node, in order: `eth0` first, each with its link.
    pub fn interfaces(&self, node: usize) -> impl Iterator<Item = (&End, &Link)> {
        self.links.iter().flat_map(move |link| {
            link.ends.iter().filter(move |end| end.node == node).map(move |end| (end, link))
        })
    }

    /// The address to reach a node by, see [`Paths::addresses`].
    pub fn address(&self, node: usize) -> Option<Ipv4Addr> {
        self.reached_by(node, self.interfaces(node).map(|(end, _)| end))
    }

    /// That of its first interface, and of a router that has a range of its own, the first from that.
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

    /// The name of the node that has this address.
    pub fn owner_of(&self, address: IpAddr) -> Option<&str> {
        self.links
            .iter()
            .flat_map(|link| &link.ends)
            .find(|end| IpAddr::V4(end.address) == address)
            .map(|end| self.nodes[end.node].name.as_str())
    }

    /// The paths through it.
    pub fn paths(&self) -> Paths<'_> {
        Paths::new(self)
    }

    /// See [`Paths::distance`], which is better for many.
    pub fn distance(&self, from: usize, to: usize) -> Option<usize> {
        self.paths().distance(from, to)
    }

    /// See [`Paths::routes`], which is better for many.
    pub fn routes(&self, node: usize) -> Vec<StaticRoute> {
        self.paths().routes(node)
    }
}
