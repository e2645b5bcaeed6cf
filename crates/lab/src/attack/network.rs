//! Networks in which attacks are played: namespaces of this machine, or simulated.

mod namespaces;
mod simulated;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use anyhow::{Context, Result};
use earmark_core::Rate;
use earmark_scenario::attack::Packet;
use earmark_scenario::topology::Topology;

use super::variant::{Place, Setup, beside};
use crate::demo::protocol::Target;
use crate::demo::{DemoNetwork, Plan, Stream};

pub use self::namespaces::AttackedNamespaces;
pub use self::simulated::AttackedSimulator;

/// The demo's network with the attackers' hosts: `a` at r1, and `b` at r2. The link between the routers is a core link, all
/// others are access links; those of h1 and h2 have room for further addresses.
pub const TOPOLOGY: &str = r#"
name = "attacked"
ipv6 = true
node = [
    { name = "h1" }, { name = "r1" }, { name = "r2" }, { name = "h2" }, { name = "a" }, { name = "b" },
]
link = [
    { ends = ["h1", "r1"], bandwidth = "100Mbit", prefix = "192.0.2.0/29" },
    { ends = ["r1", "r2"], bandwidth = "10Mbit", reservable = "75%" },
    { ends = ["r2", "h2"], bandwidth = "100Mbit", prefix = "192.0.2.8/29" },
    { ends = ["a", "r1"], bandwidth = "100Mbit" },
    { ends = ["b", "r2"], bandwidth = "100Mbit" },
]
"#;

/// The routers whose state is watched.
const ROUTERS: [&str; 2] = ["r1", "r2"];
/// Group of the stream.
const GROUP: Ipv4Addr = Ipv4Addr::new(239, 1, 2, 3);

/// Rates of a stream's reservation at each router; `None` where nothing is reserved.
pub type Reserved = [Option<Rate>; 2];

/// A network of [`TOPOLOGY`] with attackers.
pub trait AttackNetwork {
    /// The network without the attackers.
    type Network: DemoNetwork;

    /// Returns the network without the attackers.
    fn demo(&mut self) -> &mut Self::Network;

    /// Returns the setup.
    fn setup(&self) -> Setup;

    /// Returns the signalling that has passed r1 since the last call, each packet once.
    ///
    /// # Errors
    /// The capture has failed.
    fn observed(&mut self) -> Result<Vec<Packet>>;

    /// Sends a packet from the attacker's place.
    ///
    /// # Errors
    /// The kernel refuses it for another reason than its content.
    fn send(&mut self, place: Place, packet: &Packet) -> Result<()>;

    /// Makes the daemon of r1 read its configuration again.
    ///
    /// # Errors
    /// There is none, or the network has no reloads.
    fn reload(&mut self) -> Result<()>;

    /// Returns how many messages the routers have dropped or refused so far, by protocol, group and reason.
    ///
    /// # Errors
    /// A router's daemon does not answer.
    fn reasons(&mut self) -> Result<BTreeMap<String, u64>>;

    /// Returns the rate that each router has reserved for a stream from h1 to h2.
    ///
    /// # Errors
    /// A router's daemon does not answer.
    fn reserved(&mut self, stream: Stream) -> Result<Reserved>;
}

/// Returns the plan of a network.
fn plan_of(setup: Setup, mut plan: Plan) -> Plan {
    plan.family = setup.family;
    plan.group = (setup.target == Target::Group).then_some(GROUP.into());
    plan
}

/// Returns the attacker's own address at a place, and that of the router of its link.
///
/// # Errors
/// The topology has no such place.
pub(super) fn addresses(topology: &Topology, setup: Setup, place: Place) -> Result<[IpAddr; 2]> {
    let find = || {
        let node = topology.node(place.node())?;
        let (own, link) = topology.interfaces(node).next()?;
        let router = link.ends.iter().find(|end| end.node != node)?;
        let own = match place {
            Place::Port(_) => own.address_in(setup.family)?,
            Place::Beside(_) => beside(link.prefix_in(setup.family)?),
        };
        Some([own, router.address_in(setup.family)?])
    };
    find().with_context(|| format!("no place for an attacker at {}", place.node()))
}

/// Returns whether a group of counters has reasons why messages had no effect.
fn is_reason(group: &str) -> bool {
    ["dropped", "ignored", "malformed", "refused", "suppressed", "untrusted"].contains(&group)
}

/// Returns the packets once each, in the order of their first appearance.
fn distinct(packets: impl IntoIterator<Item = Packet>) -> Vec<Packet> {
    let mut seen: Vec<Packet> = Vec::new();
    for packet in packets {
        if !seen.contains(&packet) {
            seen.push(packet);
        }
    }
    seen
}
