//! Log of a network, in order.

use core::net::IpAddr;

use earmark_core::admission::{Attempt, ClaimId};
use earmark_core::{
    CloseReason, ConnectionId, FilterChange, FilteredPackets, Flow, Installation, InterfaceId,
    Time, Transport,
};
use earmark_node::{Command, Event};
use serde::Serialize;

use crate::ids::NodeId;

/// One event at one node. The fate of data packets is in [`crate::Trace`] instead.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LogEntry {
    /// Time of the event.
    pub at: Time,
    /// Node of the event.
    pub node: NodeId,
    /// The event.
    pub what: LogEvent,
}

/// Kinds of events.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum LogEvent {
    /// A user gave a command.
    Command(Command),
    /// The node sent a message.
    Sent {
        /// Outgoing interface.
        interface: InterfaceId,
        /// Source address in the IP header.
        source: IpAddr,
        /// Destination address.
        destination: IpAddr,
        /// Octets of the IP packet.
        octets: u32,
    },
    /// A signalling message was lost here.
    Lost(Loss),
    /// The node installed a reservation in traffic control, or changed it there.
    Installed(Installation),
    /// Traffic control refused an installation, with this error number.
    Refused(Installation, u16),
    /// The node removed a reservation from traffic control.
    Removed(ClaimId),
    /// An earlier daemon's reservation for a flow was removed, since no one has claimed it.
    Reaped(InterfaceId, Flow),
    /// The node changed a rule of its packet filter.
    Filter(FilterChange),
    /// The packet filter refused the rule for these packets, with this error number.
    FilterRefused(FilteredPackets, u16),
    /// An attempt to reserve bandwidth of a link of the node; only if that is enabled
    /// ([`Network::watch_attempts`](crate::Network::watch_attempts)).
    Attempt(Attempt),
    /// A connection of the node was opened or closed.
    Connection(ConnectionId, Result<Transport, CloseReason>),
    /// The node reported an event.
    Event(Event),
    /// The daemon of the node died.
    Killed,
    /// A new daemon started.
    Restarted,
}

/// Why a signalling message was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Loss {
    /// There is no route to its destination.
    NoRoute,
    /// The TTL expired.
    TimeToLive,
    /// The message reached a host that is not its destination.
    NotForwarding,
    /// The message arrived at an interface that is not on the tree of its source and group.
    WrongInterface,
    /// The packet filter dropped it.
    PacketFilter,
    /// A fault of the link.
    Fault,
    /// A queue was full.
    QueueFull,
    /// The receive buffer of its socket was full, because the processor of the daemon was busy.
    BufferFull,
    /// No process receives its protocol here.
    NobodyListens,
}
