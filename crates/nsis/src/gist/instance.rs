//! One instance of GIST: its state and settings.

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::hash::KeyedHash;
use earmark_core::random::{RandomStreams, Stream};
use earmark_core::throttle::Throttle;

use super::association::Associations;
use super::changed_ranges::ChangedRanges;
use super::config::Config;
use super::cookie::Cookies;
use super::counters::Counters;
use super::identity::Identity;
use super::peer::Peers;
use super::state::millis;
use super::store::Store;

/// GIST on one node.
#[derive(Debug)]
pub struct Gist {
    pub(super) config: Config,
    pub(super) validities: Validities,
    pub(super) store: Store,
    pub(super) peers: Peers,
    pub(super) associations: Associations,
    pub(super) cookies: Cookies,
    pub(crate) counters: Counters,
    pub(super) identity: Identity,
    /// Randomizes the refresh intervals.
    pub(super) jitter: Stream,
    /// Hashes addresses and hops.
    pub(super) hash: KeyedHash,
    /// Rate limits of Queries per peer.
    pub(super) queries: Throttle,
    /// Rate limits of Errors per address.
    pub(super) errors: Throttle,
    /// Rate limits of all datagrams sent and of all Queries received.
    pub(super) totals: Throttle,
    /// Octets of all waiting messages.
    pub(super) waiting_octets: u64,
    /// Number of changes of interfaces; hops that were looked up with the same number are still right.
    pub(super) epoch: u32,
    /// Number of changes of routes and interfaces.
    pub(super) route_changes: u32,
    pub(super) changed_ranges: ChangedRanges,
    /// Number of the last MA-Hello that asked for a reply.
    pub(super) hello_number: u32,
    /// Buffer for the answer of an application to a Query.
    pub(super) scratch: Vec<u8>,
    /// Buffer for forwarded packets.
    pub(super) copy: Vec<u8>,
    /// Buffer for data in several objects.
    pub(super) assembly: Vec<u8>,
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
            route_changes: 0,
            changed_ranges: ChangedRanges::default(),
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
pub(super) struct Validities {
    /// Setting `validity`.
    pub(super) configured: u32,
    /// Setting `shortest_validity`.
    pub(super) shortest: u32,
}

impl Validities {
    fn of(config: &Config) -> Validities {
        Validities {
            configured: millis(config.validity),
            shortest: millis(config.shortest_validity),
        }
    }
}
