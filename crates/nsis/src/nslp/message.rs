//! Messages of applications: those that they send, those that they receive, and why one was not sent.

use core::net::IpAddr;
use core::time::Duration;

use earmark_core::InterfaceId;
use earmark_wire::gist::{Direction, Mri, PathCoupled, SessionId};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::origin::Origin;

/// A message that an application sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SendMessage {
    /// Name that the application gives the message, if it wants reports of failures.
    pub handle: Option<MessageHandle>,
    /// Session of the message.
    pub session: SessionId,
    /// Flow of the message, and the direction along the flow.
    pub mri: Mri,
    /// Destination peer, whatever the routing state: explicit routing by the SII-Handle.
    pub to: Option<PeerHandle>,
    /// Required transport.
    pub attributes: Attributes,
    /// Time that the message may wait for a peer to be found or for an association to be established.
    pub timeout: Duration,
    /// Limit of GIST nodes that may still handle the message; `None` for the setting.
    pub hops: Option<u8>,
}

/// Required transport of messages (Transfer-Attributes).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Attributes {
    /// Use an association: in order and without loss.
    pub reliable: bool,
    /// Use an encrypted association to an authenticated peer.
    pub secure: bool,
}

/// Name that an application gives a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MessageHandle(pub u64);

/// A peer and the interface that leads to it, as GIST names them (SII-Handle). Two handles are equal if the peer is the
/// same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PeerHandle {
    /// Slot in GIST's table.
    pub slot: u32,
    /// Number of times that the slot was reused.
    pub generation: u32,
}

/// A received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received<'a> {
    /// Data of the message; may be empty in a Query.
    pub data: &'a [u8],
    /// Session of the message.
    pub session: SessionId,
    /// Flow of the message, and the direction in which the message travels along the flow. At a translator, the addresses
    /// are those of the downstream side.
    pub mri: Mri,
    /// The flow as the upstream side knows it, if this node translates its addresses.
    pub upstream: Option<&'a PathCoupled>,
    /// Verified sender, and the channel that carried the message.
    pub origin: Origin,
    /// Whether the sender has marked the message as explicitly routed.
    pub explicitly_routed: bool,
    /// IP hops from the peer; `None` if unknown. A value above 1 means nodes without GIST in between.
    pub ip_distance: Option<u8>,
    /// Limit of GIST nodes that may still handle the message.
    pub hops: u8,
    /// Incoming interface; for an association, the one that leads to the peer.
    pub interface: InterfaceId,
}

impl Received<'_> {
    /// Returns the transfer attributes that the channel of the message provides.
    #[inline]
    pub const fn attributes(&self) -> Attributes {
        self.origin.channel.attributes()
    }

    /// Returns the hosts at both ends of the flow, each as its own side knows it: source and destination.
    pub fn ends(&self) -> (IpAddr, IpAddr) {
        let (source, destination) = self.mri.addresses();
        (self.upstream.map_or(source, |flow| flow.source), destination)
    }

    /// Returns the end of the flow towards which the message travels.
    pub fn end_ahead(&self) -> IpAddr {
        let (source, destination) = self.ends();
        match self.mri.direction() {
            Direction::Downstream => destination,
            Direction::Upstream => source,
        }
    }
}

/// Why a message was not sent, or not delivered.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Error,
)]
#[serde(rename_all = "snake_case")]
pub enum SendFailure {
    /// There is no route in this direction.
    #[error("no route")]
    NoRoute,
    /// No node on the path has answered: this node is the last one in this direction.
    #[error("no next node found")]
    NoNextNode,
    /// The peer of the handle does not exist any more.
    #[error("no such peer")]
    NoSuchPeer,
    /// The upstream peer is unknown, because no message from it was received.
    #[error("no routing state upstream")]
    NoUpstreamState,
    /// The message exceeds one datagram, and no association was requested for larger ones.
    #[error("too large for a datagram")]
    TooLarge,
    /// There is no association with these attributes, and none could be established.
    #[error("no association of the wanted kind")]
    NoAssociation,
    /// The message waited until its timeout, or until its routing state expired.
    #[error("timed out")]
    TimedOut,
    /// A limit of this node is reached.
    #[error("a limit of this node is reached")]
    Limit,
    /// The peer refused the message.
    #[error("refused by the peer")]
    Refused,
}
