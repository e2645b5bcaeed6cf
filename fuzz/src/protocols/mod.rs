//! What is the protocols' own: settings, commands and messages, drawn field by field. One module for each.

pub mod boomerang;
pub mod natfw;
pub mod nsis;
pub mod rsvp;
pub mod yessir;

use std::net::IpAddr;

use earmark_core::Rate;
use earmark_node::{Command, NodeConfig};

use crate::draw::Draw;
use crate::invariants::Limits;
use crate::network::Network;
use crate::packet::Packet;

/// Number of applications of each node.
pub const APPLICATIONS: u64 = 3;

/// A protocol.
pub trait Protocol {
    /// Draws settings; returns the limits of state that follow from them.
    fn configure(&self, draw: &mut Draw<'_>, config: &mut NodeConfig) -> Limits;

    /// Draws a command of an application.
    fn command(&self, draw: &mut Draw<'_>, at: usize, application: u64) -> Command;

    /// Returns the commands that release all of an application.
    fn release(&self, application: u64) -> Vec<Command>;

    /// Draws a message and where it arrives; `None` if it cannot be written.
    fn message(&self, draw: &mut Draw<'_>, network: &Network) -> Option<Packet>;

    /// Returns the IP protocol of messages to an address.
    fn ip_protocol(&self, destination: IpAddr) -> u8;

    /// Returns whether a packet that a node sends of its own is a message.
    fn is_message(&self, packet: &Packet) -> bool;

    /// Returns whether a node has forwarded what it received. Octets behind the length of UDP are padding of the link.
    fn is_forwarded(&self, received: &[u8], sent: &[u8]) -> bool {
        received.starts_with(sent)
    }

    /// Returns octets behind what all messages begin with.
    fn framed(&self, octets: &[u8]) -> Vec<u8> {
        octets.to_vec()
    }

    /// Draws octets of a connection.
    fn stream(&self, draw: &mut Draw<'_>, _network: &Network) -> Vec<u8> {
        draw.take(40).to_vec()
    }

    /// Returns the port on which connections are accepted.
    fn port(&self) -> u16 {
        0
    }
}

/// Draws a rate: some fit together, some alone, some not at all.
fn rate(draw: &mut Draw<'_>) -> Rate {
    match draw.below(8) {
        0 => Rate::ZERO,
        1 => Rate::from_mbps(100),
        2 => Rate::from_mbps(5),
        3 => Rate::from_bps(1),
        4 => Rate::from_bps(draw.u32().into()),
        _ => Rate::from_mbps(1 + draw.octet() as u64 % 3),
    }
}
