//! Connections with neighbours: streams of octets that arrive whole and in order, or not at all any more.
//!
//! The driver makes them of TCP, with TLS over it where that is asked for, and keeps what the neighbour has not yet
//! taken. It listens where the settings say; who is let in, and under which names, is its matter too, so that an engine
//! hears of nobody who could not prove who he is.

use core::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// Names a connection for as long as it lives; never used again. Those that an engine asks for have even numbers, which
/// the engine chooses; those that a neighbour opens have odd ones, which the driver chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ConnectionId(pub u64);

/// What a connection is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// TCP, which proves nothing and hides nothing.
    Tcp,
    /// TLS over TCP, in which both sides have proved who they are.
    Tls,
}

/// A connection that is to be opened. [`StreamEvent::Open`] or [`StreamEvent::Closed`] tells what became of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Connect {
    /// Names it from now on.
    pub connection: ConnectionId,
    /// With which of this node's addresses.
    pub source: IpAddr,
    /// To where; of the same family.
    pub destination: SocketAddr,
    /// Of what.
    pub transport: Transport,
}

/// What happens to connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum StreamEvent<'a> {
    /// It stands: one that was asked for, or one that a neighbour opened.
    Open {
        /// Which.
        connection: ConnectionId,
        /// This node's end.
        local: SocketAddr,
        /// The other end.
        peer: SocketAddr,
        /// Of what it is.
        transport: Transport,
    },
    /// Octets came, in their order.
    Data {
        /// Where.
        connection: ConnectionId,
        /// What; not necessarily whole messages.
        #[serde(serialize_with = "crate::record::hexadecimal")]
        octets: &'a [u8],
    },
    /// It is no more, or never was. Not told of those that the engine closes.
    Closed {
        /// Which.
        connection: ConnectionId,
        /// Why.
        reason: CloseReason,
    },
}

/// Why a connection is no more.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    thiserror::Error,
)]
#[serde(rename_all = "snake_case")]
pub enum CloseReason {
    /// Nobody listens there, or the neighbour is not to be reached.
    #[error("no connection could be opened")]
    Unreachable,
    /// Nothing was heard in time.
    #[error("the neighbour did not answer in time")]
    TimedOut,
    /// The neighbour has ended it.
    #[error("the neighbour ended it")]
    Ended,
    /// It broke.
    #[error("it broke")]
    Broken,
    /// One of both could not prove who he is, or is not one of those who are let in.
    #[error("a side could not prove who it is")]
    NotAuthenticated,
    /// The neighbour stopped reading, and too much waited for it.
    #[error("too much waited for the neighbour to read")]
    Backlog,
}
