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
mod tests;
