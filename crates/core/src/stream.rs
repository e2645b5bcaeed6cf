//! Connections with neighbours: reliable, ordered streams of octets.
//!
//! The driver opens them over TCP, with TLS if requested, and buffers what the neighbour has not read yet. It listens
//! as configured; it also decides which peers are admitted, and under which names, so that an engine sees only
//! authenticated peers.

use core::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Identifier of a connection; never reused. Connections that an engine opens have even numbers, which the engine
/// chooses; those that a neighbour opens have odd ones, which the driver chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConnectionId(pub u64);

/// Transport of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// TCP, without authentication and encryption.
    Tcp,
    /// TLS over TCP, with both sides authenticated.
    Tls,
}

/// A connection to open. [`StreamEvent::Open`] or [`StreamEvent::Closed`] reports the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connect {
    /// The connection.
    pub connection: ConnectionId,
    /// Source address, one of this node's.
    pub source: IpAddr,
    /// Destination; of the same family.
    pub destination: SocketAddr,
    /// Transport.
    pub transport: Transport,
}

/// Events of connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum StreamEvent<'a> {
    /// A connection is open: one that was requested, or one that a neighbour opened.
    Open {
        /// The connection.
        connection: ConnectionId,
        /// Local end.
        local: SocketAddr,
        /// Remote end.
        peer: SocketAddr,
        /// Transport.
        transport: Transport,
    },
    /// Octets arrived, in order.
    Data {
        /// The connection.
        connection: ConnectionId,
        /// The octets; not necessarily whole messages.
        #[serde(serialize_with = "crate::octets::hexadecimal")]
        octets: &'a [u8],
    },
    /// The connection was closed, or could not be opened. Not reported for those that the engine closes.
    Closed {
        /// The connection.
        connection: ConnectionId,
        /// The reason.
        reason: CloseReason,
    },
}

/// Reason why a connection was closed.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, Error,
)]
#[serde(rename_all = "snake_case")]
pub enum CloseReason {
    /// The peer refuses connections, or is unreachable.
    #[error("connection failed")]
    Unreachable,
    /// A timeout expired.
    #[error("the neighbour did not answer in time")]
    TimedOut,
    /// The neighbour closed it.
    #[error("closed by the neighbour")]
    Ended,
    /// The connection failed.
    #[error("it broke")]
    Broken,
    /// One side failed to authenticate, or is not authorized.
    #[error("authentication failed")]
    NotAuthenticated,
    /// The neighbour stopped reading, and the backlog reached its limit.
    #[error("the neighbour does not read")]
    Backlog,
}
