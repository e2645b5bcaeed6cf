//! GIST: finds the next node on the path of a flow that takes part in signalling, and carries messages there (RFC 5971).
//!
//! # The life of a message
//! An application hands GIST a message for a flow, a session and a direction. Where nobody knows yet who is next in that
//! direction, the message waits, and a **Query** goes out that looks like a packet of the flow: to its destination, with
//! its source, and with an option that has routers look at it. The next node that knows GIST takes it up, asks its own
//! application whether it takes part, and sends a **Response** to the node that has asked. That one now knows its peer. Its
//! **Confirm** proves to the other side that it can be reached under its address; the message that waits travels in it. From
//! then on messages are **Data**, sent straight to the peer. Before the knowledge is stale it is asked for again, so that
//! the messages follow the flow when its path changes.
//!
//! # State
//! A routing state ([`state`]) belongs to a flow, a session and an application. It has two halves, one for each way along the
//! flow: the one that leads where this node has asked (querying node), and the one that leads to whoever has asked it
//! (responding node). What can happen to a half stands in tables ([`machine`]), which are those of RFC 5972. Peers are
//! shared by all sessions ([`peer`]).
//!
//! A node that is asked keeps nothing before the Confirm has come (the setting is `installation = "delayed"`). All that it
//! needs to know then is in the Confirm, and a [`cookie`] in it shows that this node has answered the Query.
//!
//! # Odd cases
//! - IP distance: the RFC stores the TTL that a packet has lost, and has 0 stand for "not known". Here a neighbour on the
//!   same link has distance 1, so that both can be told apart.
//! - A message whose peer has lost its state is not sent again: the application that wants it repeats it. The error brings a
//!   new handshake about, and what is sent meanwhile waits.
//! - The source of a first Query is that of the flow; each second one that is repeated has this node's own address.
//!
//! # Left out
//! The Diffserv codepoint and the flow label of the flow are not copied into Queries. Nobody but the source and the
//! destination of a flow is taken for an end of its path. NAT traversal objects are carried and repeated, not made.

mod api;
mod association;
mod change;
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
use self::change::Changes;
pub use self::config::{
    Associations as AssociationSettings, Config, Installation, Limits, UpstreamQueries,
};
use self::cookie::Cookies;
pub use self::counters::{Counters, DropReason, Messages};
use self::peer::Peers;
use self::querying::millis;
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
    /// Spreads refreshes.
    jitter: Stream,
    /// Hashes addresses and hops.
    hash: KeyedHash,
    /// Queries of each node that asks.
    queries: Throttle,
    /// Errors to each address.
    errors: Throttle,
    /// Datagrams sent, and Queries in all.
    totals: Throttle,
    /// Octets of all messages that wait.
    waiting_octets: u64,
    /// Counts the changes of interfaces: as long as it stays, hops stay as they were found.
    epoch: u32,
    changes: Changes,
    /// The number of the last MA-Hello that asked for a reply.
    hello_number: u32,
    /// Room for what an application answers to a Query,
    scratch: Vec<u8>,
    /// for what is sent on,
    copy: Vec<u8>,
    /// and for data that come in several objects.
    assembly: Vec<u8>,
}

impl Gist {
    /// GIST without state. It draws from streams whose names begin with `gist/`.
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

    /// Takes other settings: see [`Config::renewed`].
    pub(crate) fn renew(&mut self, new: Config) {
        self.config = self.config.renewed(new);
        self.validities = Validities::of(&self.config);
        self.cookies.renew(self.config.secret_lifetime);
    }

    /// What was counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

/// Settings as messages have them, milliseconds.
#[derive(Clone, Copy, Debug)]
struct Validities {
    /// `validity`.
    configured: u32,
    /// `shortest_validity`.
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
