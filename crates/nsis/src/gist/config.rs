//! Settings of GIST.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::Prefix;
use serde::{Deserialize, Serialize};

use crate::nslp::Attributes;

/// Settings of GIST on one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Identity of this node, independent of its addresses (Peer-Identity), like a Router-ID; random if it is not set.
    pub identity: Option<IpAddr>,
    /// Routing state validity that this node proposes, and the longest that it grants (RS-validity-time).
    pub validity: Duration,
    /// Shortest routing state validity that this node grants.
    pub shortest_validity: Duration,
    /// Lifetime of routing state that no message uses, unless the application sets another one (T_Inactive_QNode).
    pub inactivity: Duration,
    /// T1: timeout of the first Query; it doubles with each retransmission.
    pub first_timeout: Duration,
    /// T2: longest timeout of a Query.
    pub longest_timeout: Duration,
    /// Limit of Queries without a Response.
    pub queries: u8,
    /// When routing state is installed for the Query of a peer.
    pub installation: Installation,
    /// Timeout of a Confirm, if state is kept for it.
    pub confirm_timeout: Duration,
    /// Time that a cookie secret is in use; cookies of the previous secret are still accepted.
    pub secret_lifetime: Duration,
    /// Time that a peer without routing state can still be addressed by its handle.
    pub peer_lifetime: Duration,
    /// GIST hop count of messages, unless the application sets another one.
    pub hops: u8,
    /// IP TTL of messages. With 255 a peer on the same link knows that no router has forwarded them (RFC 5082).
    pub ttl: u8,
    /// Queries have the address of this node as their source, not that of the flow. If `false`, only every second
    /// retransmission has it (RFC 5971 section 5.8.1.2).
    pub own_source: bool,
    /// Destinations to which Queries are sent without router alert, because all nodes on the path intercept them by
    /// port (RFC 5971 section 5.3.2.1). IPv4 only.
    pub without_router_alert: Vec<Prefix>,
    /// Names of interfaces that accept Queries without router alert, because neighbors behind them send such ones.
    pub by_port: BTreeSet<String>,
    /// When Queries are sent upstream (RFC 5971 section 5.8.1.3).
    pub upstream_queries: UpstreamQueries,
    /// The Confirm carries the first waiting message.
    pub piggyback: bool,
    /// Data without routing state, sent like a Query, is accepted.
    pub stateless_data: bool,
    /// Queries must arrive on the interface that leads to the source of their flow.
    pub ingress_filter: bool,
    /// Queries for flows with a shorter destination prefix are refused: they have no single path.
    pub shortest_prefix: u8,
    /// Refuse what deviates from the RFCs even if its meaning is unambiguous: see [`crate::Tolerated`].
    pub strict: bool,
    /// Report wrong cookies to the sender; only for debugging, because anybody can send one with any source address.
    pub report_cookies: bool,
    /// Settings of messaging associations.
    pub associations: Associations,
    /// Limits of resources.
    pub limits: Limits,
}

impl Default for Config {
    /// Values of the RFC where it has them (sections 4.4.4, 4.4.5, 5.3.3).
    fn default() -> Config {
        Config {
            identity: None,
            validity: Duration::from_secs(30),
            shortest_validity: Duration::from_secs(1),
            inactivity: Duration::from_secs(120),
            first_timeout: Duration::from_millis(500),
            longest_timeout: Duration::from_secs(32),
            queries: 4,
            installation: Installation::Delayed,
            confirm_timeout: Duration::from_secs(10),
            secret_lifetime: Duration::from_secs(30),
            peer_lifetime: Duration::from_secs(300),
            hops: 64,
            ttl: u8::MAX,
            own_source: false,
            without_router_alert: Vec::new(),
            by_port: BTreeSet::new(),
            upstream_queries: UpstreamQueries::OnLink,
            piggyback: true,
            stateless_data: false,
            ingress_filter: false,
            shortest_prefix: 8,
            strict: false,
            report_cookies: false,
            associations: Associations::default(),
            limits: Limits::default(),
        }
    }
}

impl Config {
    /// Returns how long to wait after an attempt, of which the first has number 1: binary exponential backoff (RFC 5971
    /// section 5.3.3).
    pub(super) fn timeout_after(&self, attempt: u8) -> Duration {
        let doublings = u32::from(attempt.saturating_sub(1)).min(16);
        self.first_timeout.saturating_mul(1 << doublings).min(self.longest_timeout)
    }

    /// Returns these settings with all values of `new` that may change while GIST runs. The identity of this node
    /// stays, as do values that peers rely on: when state is installed, and the ports and the hold time of
    /// associations.
    pub fn renewed(&self, new: Config) -> Config {
        let associations = Associations {
            require: new.associations.require,
            connect_timeout: new.associations.connect_timeout,
            ..self.associations
        };
        let (identity, installation) = (self.identity, self.installation);
        Config { identity, installation, associations, ..new }
    }
}

/// Messaging associations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Associations {
    /// TCP is supported, and accepted on this port. The driver listens on it.
    pub tcp_port: Option<u16>,
    /// TLS over TCP is supported, and accepted on this port; this node needs a certificate.
    pub tls_port: Option<u16>,
    /// Transport that all messages of applications need, in addition to their own attributes.
    pub require: Attributes,
    /// Time that this node keeps an association on which nothing is received (MA-Hold-Time).
    pub hold_time: Duration,
    /// Timeout for opening an association, and for the first Confirm on an association that a neighbor has opened.
    pub connect_timeout: Duration,
}

impl Default for Associations {
    fn default() -> Associations {
        Associations {
            tcp_port: Some(crate::PORT),
            tls_port: None,
            require: Attributes::default(),
            hold_time: Duration::from_secs(30),
            connect_timeout: Duration::from_secs(10),
        }
    }
}

/// When routing state is installed for the Query of a peer (RFC 5971 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Installation {
    /// With the Query, whoever sent it.
    Immediate,
    /// With the Query, but it is not used before the Confirm was received.
    Confirmed,
    /// With the Confirm. No state is kept before, so that nobody can fill the memory of this node from spoofed
    /// addresses.
    Delayed,
}

/// When Queries are sent upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamQueries {
    /// Never: the upstream peer is learned from its Queries.
    Never,
    /// If the source of the flow is on a link of this node.
    OnLink,
    /// If there is a route to the source; correct where routes are symmetric.
    Routed,
}

/// Limits of resources. Above a limit new state is refused; existing state is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Routing states of the node.
    pub states: u32,
    /// Routing states with one peer; each direction counts.
    pub states_per_peer: u32,
    /// Peers.
    pub peers: u32,
    /// Queries that are answered per second, of all peers.
    pub queries_per_second: u32,
    /// Queries that are answered per second, of all peers behind one interface: their addresses are only claimed.
    pub queries_per_second_of_a_peer: u32,
    /// Datagrams that this node sends per second (RFC 5971 section 5.3.3).
    pub datagrams_per_second: u32,
    /// Error messages per second to one address behind one interface; ten times as many through one interface.
    pub errors_per_second: u32,
    /// Messages that wait for one peer.
    pub waiting_messages: u32,
    /// Octets of the messages that wait for one peer.
    pub waiting_octets: u32,
    /// Octets of all waiting messages.
    pub waiting_octets_in_all: u32,
    /// Octets of one message of an application.
    pub message_octets: u32,
    /// Messaging associations.
    pub associations: u32,
    /// Half-open associations; a quarter of them for one address.
    pub half_open: u32,
    /// Longest message on a half-open association, octets.
    pub half_open_octets: u32,
    /// Part of the routing states, peers and associations that one interface may use, percent.
    pub share_of_interface: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            states: 1_000_000,
            states_per_peer: 200_000,
            peers: 65_536,
            queries_per_second: 100_000,
            queries_per_second_of_a_peer: 50_000,
            datagrams_per_second: 200_000,
            errors_per_second: 10,
            waiting_messages: 32,
            waiting_octets: 1_048_576,
            waiting_octets_in_all: 67_108_864,
            message_octets: 200_000,
            associations: 4_096,
            half_open: 64,
            half_open_octets: 65_536,
            share_of_interface: 75,
        }
    }
}
