//! Hook for the signalling messages on the links: a program of its own sees each message, and may drop or replace it.

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::{InterfaceId, Time};

use crate::ids::NodeId;

/// Direction of a message at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// The message has arrived, and the node has not processed it so far.
    In,
    /// The link has begun to transmit the message.
    Out,
}

/// A signalling message at an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HookedMessage<'a> {
    /// Time.
    pub at: Time,
    /// Node.
    pub node: NodeId,
    /// Interface of the node.
    pub interface: InterfaceId,
    /// Direction.
    pub direction: Direction,
    /// Source address of the IP packet.
    pub source: IpAddr,
    /// Destination address of the IP packet.
    pub destination: IpAddr,
    /// IP protocol number.
    pub ip_protocol: u8,
    /// The whole IP packet; `None` if no valid one exists for the message.
    pub packet: Option<&'a [u8]>,
    /// The message: what follows the IP header.
    pub octets: &'a [u8],
}

/// What becomes of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MessageAction {
    /// The message continues unchanged.
    Pass,
    /// The message is lost, as by a fault of the link.
    Drop,
    /// These octets continue in its place, in an IP packet with the same header fields except the length.
    Replace(Vec<u8>),
}

/// A program that sees the signalling messages on all links.
///
/// A message that a router forwards is seen four times on two links: out and in at the ends of each. Messages that are not
/// sent over a link are not seen.
pub trait MessageHook {
    /// Returns what becomes of a message.
    fn message(&mut self, message: &HookedMessage<'_>) -> MessageAction;
}
