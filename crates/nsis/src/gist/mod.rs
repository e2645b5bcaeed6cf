//! GIST: finds the next signalling node on the path of a flow, and carries messages there (RFC 5971).
//!
//! # The life of a message
//! An application passes GIST a message for a flow, a session and a direction. If the next node in that direction is
//! unknown, the message waits, and GIST sends a **Query** that looks like a packet of the flow: with its destination,
//! with its source, and with an option that has routers examine it. The next node with GIST intercepts it, asks its own
//! application whether it takes part, and sends a **Response** to the querying node, which now knows its peer. The
//! **Confirm** proves to the responding node that the querying node can be reached under its address; it carries the
//! waiting message. From then on messages are **Data**, sent directly to the peer. The querying node repeats the Query
//! before the state expires, so that messages follow the flow when its path changes.
//!
//! # State
//! A routing state ([`state`]) belongs to a flow, a session and an application. It has two halves, one for each
//! direction along the flow: that of the querying node and that of the responding node. The transitions of a half are
//! tables ([`machine`]), which are those of RFC 5972. All sessions share the peers ([`peer`]).
//!
//! A responding node keeps nothing before the Confirm (the setting is `installation = "delayed"`). The Confirm has all
//! values that it needs, and a [`cookie`] that proves that this node has answered the Query.
//!
//! # Odd cases
//! - IP distance: the RFC stores the TTL that a packet has lost, and 0 means "not known". Here a neighbor on the same
//!   link has distance 1, so that both can be told apart.
//! - A message whose peer has lost its state is not retransmitted: its application repeats it. The error causes a new
//!   handshake, and messages sent meanwhile wait.
//! - The source of a first Query is that of the flow; every second retransmission has the address of this node.
//!
//! # Left out
//! The Diffserv codepoint and the flow label of the flow are not copied into Queries. Only the source and the
//! destination of a flow count as ends of its path. NAT traversal objects are carried and repeated, not created.

mod api;
mod association;
mod config;
mod confirm;
mod connect;
mod cookie;
mod counters;
mod data;
mod destinations;
mod error;
mod expire;
pub mod machine;
mod peer;
mod querying;
mod queue;
mod receive;
mod responding;
mod route_change;
mod state;
mod step;
mod store;
mod stream;
mod transmit;
mod view;

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::hash::KeyedHash;
use earmark_core::random::{RandomStreams, Stream};
use earmark_core::throttle::Throttle;

pub use self::api::Event;
use self::association::Associations;
pub use self::config::{
    Associations as AssociationSettings, Config, Installation, Limits, UpstreamQueries,
};
use self::cookie::Cookies;
pub use self::counters::{Counters, DropReason, Messages};
use self::peer::Peers;
use self::querying::millis;
use self::route_change::Changes;
use self::store::Store;
use self::transmit::Identity;
pub use self::view::{AssociationView, PeerView, RoutingStateView};

/// GIST on one node.
#[derive(Debug)]
pub struct Gist {
    config: Config,
    validities: Validities,
    store: Store,
    peers: Peers,
    associations: Associations,
    cookies: Cookies,
    pub(crate) counters: Counters,
    identity: Identity,
    /// Randomizes the refresh intervals.
    jitter: Stream,
    /// Hashes addresses and hops.
    hash: KeyedHash,
    /// Rate limits of Queries per peer.
    queries: Throttle,
    /// Rate limits of Errors per address.
    errors: Throttle,
    /// Rate limits of all datagrams sent and of all Queries received.
    totals: Throttle,
    /// Octets of all waiting messages.
    waiting_octets: u64,
    /// Number of changes of interfaces; hops that were looked up with the same number are still right.
    epoch: u32,
    changes: Changes,
    /// Number of the last MA-Hello that asked for a reply.
    hello_number: u32,
    /// Buffer for the answer of an application to a Query.
    scratch: Vec<u8>,
    /// Buffer for forwarded packets.
    copy: Vec<u8>,
    /// Buffer for data in several objects.
    assembly: Vec<u8>,
}

impl Gist {
    /// Creates GIST without state. It draws from streams whose names begin with `gist/`.
    pub(crate) fn new(config: Config, random: &RandomStreams) -> Gist {
        let mut keys = random.stream("gist/hash");
        let drawn = random.stream("gist/identity").next_u64().to_be_bytes();
        let identity = match config.identity {
            Some(IpAddr::V4(address)) => Identity::new(&address.octets()),
            Some(IpAddr::V6(address)) => Identity::new(&address.octets()),
            None => Identity::new(&drawn),
        };
        let lifetime = config.secret_lifetime;
        Gist {
            validities: Validities::of(&config),
            config,
            store: Store::new(KeyedHash::draw(&mut keys)),
            peers: Peers::new(KeyedHash::draw(&mut keys)),
            associations: Associations::default(),
            cookies: Cookies::new(random.stream("gist/cookies"), lifetime),
            counters: Counters::default(),
            identity,
            jitter: random.stream("gist/jitter"),
            hash: KeyedHash::draw(&mut keys),
            queries: Throttle::default(),
            errors: Throttle::default(),
            totals: Throttle::default(),
            waiting_octets: 0,
            epoch: 0,
            changes: Changes::default(),
            hello_number: 0,
            scratch: Vec::new(),
            copy: Vec::new(),
            assembly: Vec::new(),
        }
    }

    /// Replaces the settings: see [`Config::renewed`].
    pub(crate) fn reload(&mut self, new: Config) {
        self.config = self.config.renewed(new);
        self.validities = Validities::of(&self.config);
        self.cookies.reload(self.config.secret_lifetime);
    }

    /// Returns the counters.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// Validities of the settings as in messages, milliseconds.
#[derive(Clone, Copy, Debug)]
struct Validities {
    /// Setting `validity`.
    configured: u32,
    /// Setting `shortest_validity`.
    shortest: u32,
}

impl Validities {
    fn of(config: &Config) -> Validities {
        Validities {
            configured: millis(config.validity),
            shortest: millis(config.shortest_validity),
        }
    }
}
