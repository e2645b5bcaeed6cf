//! Capture of a run's signalling as IP packets, at a node or on one of its links.

use std::str::FromStr;

use earmark_sim::CapturedPacket;

use crate::outcome::Outcome;
use crate::play::{PlayError, play_prepared};
use crate::scenario::Scenario;
use crate::topology::Topology;

/// Capture point: `r1`, all links of a node, or `r1:r2`, the links between two nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tap {
    /// The node.
    pub node: String,
    /// Node at the other end of the link; `None` for all links.
    pub peer: Option<String>,
}

impl FromStr for Tap {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Tap, Self::Err> {
        let (node, peer) = match text.split_once(':') {
            Some((node, peer)) => (node, Some(peer.to_owned())),
            None => (text, None),
        };
        Ok(Tap { node: node.to_owned(), peer })
    }
}

/// Plays a scenario like [`play`](crate::play()), and captures the signalling at a capture point, oldest first. A
/// message in transit through a node passes two of its links, and is captured twice.
///
/// # Errors
/// The scenario does not match its topology, or the node or link does not exist.
pub fn play_tapped(
    scenario: &Scenario,
    topology: &Topology,
    seed: u64,
    tap: &Tap,
) -> Result<(Outcome, Vec<CapturedPacket>), PlayError> {
    let place = place(topology, &tap.node)?;
    let peer =
        tap.peer.as_ref().map(|peer| place_of_peer(topology, place, tap, peer)).transpose()?;
    let (outcome, mut network, (node, peer)) =
        play_prepared(scenario, topology, seed, |network, nodes| {
            network.capture(nodes[place]);
            (nodes[place], peer.map(|peer| nodes[peer]))
        })?;
    let mut tapped = network.take_captured(node);
    if peer.is_some() {
        tapped.retain(|tapped| network.peer(node, tapped.interface) == peer);
    }
    Ok((outcome, tapped))
}

fn place(topology: &Topology, name: &str) -> Result<usize, PlayError> {
    topology.node(name).ok_or_else(|| PlayError::NoSuchNode(name.to_owned()))
}

fn place_of_peer(
    topology: &Topology,
    node: usize,
    tap: &Tap,
    peer: &str,
) -> Result<usize, PlayError> {
    let peer = place(topology, peer)?;
    let joins = |ends: [usize; 2]| ends == [node, peer] || ends == [peer, node];
    if topology.links.iter().any(|link| joins([link.ends[0].node, link.ends[1].node])) {
        return Ok(peer);
    }
    let [node, peer] = [&tap.node, &topology.nodes[peer].name].map(Clone::clone);
    Err(PlayError::NoSuchLink { node, peer })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::play;

    const TOPOLOGY: &str = r#"
        node = [{ name = "a" }, { name = "r1", role = "router" }, { name = "r2", role = "router" }, { name = "b" }]
        link = [
            { ends = ["a", "r1"], bandwidth = "10Mbit", delay = "5ms" },
            { ends = ["r1", "r2"], bandwidth = "10Mbit", delay = "5ms" },
            { ends = ["r2", "b"], bandwidth = "10Mbit", delay = "5ms" },
        ]"#;
    const SCENARIO: &str = r#"
        name = "tapped"
        topology = "line.toml"
        protocol = "rsvp"
        duration = "10s"

        [[flows]]
        name = "only"
        between = [["a", "b"]]
        rate = "100kbit"
        reserves = "0s"
        "#;

    #[test]
    fn link_capture_has_half_of_router_capture() {
        let topology = Topology::parse(TOPOLOGY).expect("a topology");
        let scenario = Scenario::parse(SCENARIO).expect("a scenario");
        let tapped = |tap: &str| {
            let Ok(tap) = tap.parse::<Tap>();
            play_tapped(&scenario, &topology, 1, &tap)
        };
        let (outcome, all) = tapped("r1").expect("it is there");
        assert_eq!(
            outcome,
            play(&scenario, &topology, 1).expect("it fits"),
            "a tap disturbs nothing"
        );
        let (_, before) = tapped("r1:a").expect("it is there");
        let (_, behind) = tapped("r1:r2").expect("it is there");
        assert!(all.is_sorted_by_key(|tapped| tapped.at) && behind.len() >= 2);
        assert_eq!(all.len(), before.len() + behind.len());
        assert!(behind.iter().all(|tapped| all.contains(tapped) && !before.contains(tapped)));
        let wrong = [tapped("r3"), tapped("r1:r3"), tapped("r1:b")].map(|result| match result {
            Ok(_) => String::new(),
            Err(why) => why.to_string(),
        });
        assert_eq!(wrong[0], "there is no node `r3` in the topology");
        assert_eq!(wrong[1], wrong[0]);
        assert_eq!(wrong[2], "there is no link between `r1` and `b` in the topology");
    }
}
