//! Networks in which attacks are played: namespaces of this machine, or simulated.

mod namespaces;
mod simulated;

use std::collections::BTreeMap;
use std::net::IpAddr;

use anyhow::Result;
use earmark_core::Rate;

use crate::demo::{DemoNetwork, Stream};
use earmark_scenario::attack::Packet;

pub use self::namespaces::AttackedNamespaces;
pub use self::simulated::AttackedSimulator;

/// The demo's network, and the attacker's host `a` at r1. The link between the routers is a core link, all others are access
/// links.
pub const TOPOLOGY: &str = r#"
name = "attacked"
node = [{ name = "h1" }, { name = "r1" }, { name = "r2" }, { name = "h2" }, { name = "a" }]
link = [
    { ends = ["h1", "r1"], bandwidth = "100Mbit" },
    { ends = ["r1", "r2"], bandwidth = "10Mbit", reservable = "75%" },
    { ends = ["r2", "h2"], bandwidth = "100Mbit" },
    { ends = ["a", "r1"], bandwidth = "100Mbit" },
]
"#;

/// A network of [`TOPOLOGY`] with an attacker.
pub trait AttackNetwork {
    /// The network without the attacker.
    type Network: DemoNetwork;

    /// Returns the network without the attacker.
    fn demo(&mut self) -> &mut Self::Network;

    /// Returns the address of a node.
    ///
    /// # Errors
    /// There is no such node.
    fn address_of(&self, node: &str) -> Result<IpAddr>;

    /// Returns the signalling that has passed r1 since the last call, each packet once.
    ///
    /// # Errors
    /// The capture has failed.
    fn observed(&mut self) -> Result<Vec<Packet>>;

    /// Sends a packet from the attacker's host.
    ///
    /// # Errors
    /// The kernel refuses it for another reason than its content.
    fn send(&mut self, packet: &Packet) -> Result<()>;

    /// Returns how many messages r1 has dropped or refused so far, by protocol, group and reason.
    ///
    /// # Errors
    /// r1's daemon does not answer.
    fn reasons(&mut self) -> Result<BTreeMap<String, u64>>;

    /// Returns the rate that r1 has reserved for a stream towards r2; `None` if nothing is reserved.
    ///
    /// # Errors
    /// r1's daemon does not answer.
    fn reserved(&mut self, stream: Stream) -> Result<Option<Rate>>;
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
