//! The TCP connections of a node: their ends, and the segments between them.

pub(crate) mod endpoint;
pub(crate) mod segment;

use alloc::collections::BTreeMap;
use core::net::SocketAddr;

use earmark_core::ConnectionId;

pub use self::endpoint::Welcome;
pub(crate) use self::endpoint::{Endpoint, Told, Wanted};
pub(crate) use self::segment::TCP;

/// A connection, by its two ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pair {
    /// Address and port of this node's end.
    pub(crate) local: SocketAddr,
    pub(crate) peer: SocketAddr,
}

/// The connections of a node.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) ends: BTreeMap<Pair, Endpoint>,
    /// Connections by the IDs of the daemon.
    pub(crate) names: BTreeMap<ConnectionId, Pair>,
    /// Number of accepted connections.
    pub(crate) accepted: u64,
    /// Number of requested connections.
    pub(crate) called: u16,
    pub(crate) welcome: Welcome,
    pub(crate) reads: bool,
}

impl Default for Streams {
    fn default() -> Streams {
        Streams {
            ends: BTreeMap::new(),
            names: BTreeMap::new(),
            accepted: 0,
            called: 0,
            welcome: Welcome::Everybody,
            reads: true,
        }
    }
}
