//! What happened in a network, in order.

use core::net::IpAddr;

use earmark_core::admission::{Attempt, ClaimId};
use earmark_core::{CloseReason, ConnectionId, Flow, Installation, InterfaceId, Time, Transport};
use earmark_node::{Command, Event};
use serde::Serialize;

use crate::NodeId;

/// One thing that happened at one node. The fate of data packets is in [`crate::Trace`] instead.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// When.
    pub at: Time,
    /// Where.
    pub node: NodeId,
    /// What.
    pub what: What,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// A user asked for something.
    Command(Command),
    /// The node sent a message.
    Sent {
        /// Through which interface.
        interface: InterfaceId,
        /// From whom, as the IP header has it.
        source: IpAddr,
        /// To whom.
        destination: IpAddr,
        /// Octets of the IP packet.
        octets: u32,
    },
    /// A signalling message got lost here.
    Lost(Loss),
    /// The node put a reservation into traffic control, or changed it there.
    Installed(Installation),
    /// Traffic control refused an installation, with this error number.
    Refused(Installation, u16),
    /// The node took a reservation out of traffic control.
    Removed(ClaimId),
    /// What an earlier daemon had reserved for a flow was taken out, since nobody has claimed it.
    Reaped(InterfaceId, Flow),
    /// Somebody asked a link of the node for a reservation; only where that is wanted
    /// ([`Network::watch_attempts`](crate::Network::watch_attempts)).
    Attempt(Attempt),
    /// A connection of the node stands, or is no more.
    Connection(ConnectionId, Result<Transport, CloseReason>),
    /// The node reported something.
    Event(Event),
    /// The daemon of the node died.
    Killed,
    /// A new daemon started.
    Restarted,
}

/// Why a signalling message got lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// There is no route to its destination.
    NoRoute,
    /// Its TTL ran out.
    TimeToLive,
    /// It came to a host that it is not for.
    NotForwarding,
    /// It came in where the tree of its source and group does not lead.
    WrongInterface,
    /// A fault of the link.
    Fault,
    /// A queue was full.
    QueueFull,
    /// Nobody listens here for its protocol.
    NobodyListens,
}
