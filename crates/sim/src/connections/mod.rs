//! The TCP connections of a node: their ends, and the segments between them.

pub(crate) mod endpoint;
pub(crate) mod segment;

use alloc::collections::BTreeMap;
use core::net::SocketAddr;

use earmark_core::ConnectionId;

pub use self::endpoint::AcceptPolicy;
pub(crate) use self::endpoint::{ConnectionEvent, Endpoint, EndpointOutput};
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
    pub(crate) by_id: BTreeMap<ConnectionId, Pair>,
    /// Number of accepted connections.
    pub(crate) accepted: u64,
    /// Number of requested connections.
    pub(crate) requested: u16,
    pub(crate) accept_policy: AcceptPolicy,
    pub(crate) reads: bool,
}

impl Streams {
    /// Removes all connections without a word to the other ends. The ports of later ones are new.
    pub(crate) fn forget_connections(&mut self) {
        self.ends.clear();
        self.by_id.clear();
    }
}

impl Default for Streams {
    fn default() -> Streams {
        Streams {
            ends: BTreeMap::new(),
            by_id: BTreeMap::new(),
            accepted: 0,
            requested: 0,
            accept_policy: AcceptPolicy::Everyone,
            reads: true,
        }
    }
}
