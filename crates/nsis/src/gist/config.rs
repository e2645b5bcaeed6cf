//! Settings of GIST.

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
    /// What names this node whichever its addresses (Peer-Identity), as routers have a Router-ID; drawn at random where
    /// it is not set.
    pub identity: Option<IpAddr>,
    /// How long routing state holds without a refresh, as this node proposes and at most grants (RS-validity-time).
    pub validity: Duration,
    /// The shortest that it grants.
    pub shortest_validity: Duration,
    /// How long routing state is kept that no message uses, where the application does not say (T_Inactive_QNode).
    pub inactivity: Duration,
    /// T1: how long the first Query waits for its Response; each further one waits twice as long,
    pub first_timeout: Duration,
    /// T2: up to this.
    pub longest_timeout: Duration,
    /// How many Queries are sent before nobody is taken to be there.
    pub queries: u8,
    /// When routing state for a peer's Query is installed.
    pub installation: Installation,
    /// How long this node waits for a Confirm, where it keeps state until then.
    pub confirm_timeout: Duration,
    /// How long a secret makes cookies; those of the one before are still taken.
    pub secret_lifetime: Duration,
    /// How long a peer that no routing state names can still be reached by its handle.
    pub peer_lifetime: Duration,
    /// By how many nodes with GIST a message is handled at most, where the application does not say.
    pub hops: u8,
    /// IP TTL of messages.
    pub ttl: u8,
    /// Queries have this node's address as their source, not that of the flow. Otherwise only every second one that is
    /// repeated has (RFC 5971 section 5.8.1.2).
    pub own_source: bool,
    /// Destinations to which Queries go without router alert, where all that is on the way intercepts them by port (RFC
    /// 5971 section 5.3.2.1). Of IPv4 only.
    pub without_router_alert: Vec<Prefix>,
    /// When a peer against the flow is asked for (RFC 5971 section 5.8.1.3).
    pub upstream_queries: UpstreamQueries,
    /// The first message that waits travels in the Confirm.
    pub piggyback: bool,
    /// Data that needs no routing state, since it was sent like a Query, is taken.
    pub stateless_data: bool,
    /// Queries must come in through the interface that leads to the source of their flow.
    pub ingress_filter: bool,
    /// Flows with a destination of fewer leading bits have no path to be followed.
    pub shortest_prefix: u8,
    /// Who sent a cookie that is wrong is told: only to look for errors, since anybody can send one under any address.
    pub report_cookies: bool,
    /// Of messaging associations.
    pub associations: Associations,
    /// How much there may be.
    pub limits: Limits,
}

impl Default for Config {
    /// The RFC's values where it has some (sections 4.4.4, 4.4.5, 5.3.3).
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
            ttl: 64,
            own_source: false,
            without_router_alert: Vec::new(),
            upstream_queries: UpstreamQueries::OnLink,
            piggyback: true,
            stateless_data: false,
            ingress_filter: false,
            shortest_prefix: 8,
            report_cookies: false,
            associations: Associations::default(),
            limits: Limits::default(),
        }
    }
}

impl Config {
    /// These settings, with all of `new` that may change while GIST runs. What neighbours know this node by stays, and what
    /// they and it have agreed on: when state is installed, and of associations the ports and the hold time.
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
    /// TCP is spoken, and accepted on this port. The driver listens there.
    pub tcp_port: Option<u16>,
    /// TLS over TCP is spoken, and accepted on this port: where this node can prove who it is.
    pub tls_port: Option<u16>,
    /// What all messages of applications need, whatever these ask for.
    pub require: Attributes,
    /// How long this node holds an association open on which nothing comes (MA-Hold-Time).
    pub hold_time: Duration,
    /// How long opening one may take; and how long one that a neighbour has opened may be without a Confirm.
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

/// When routing state for a peer's Query is installed (RFC 5971 section 6.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Installation {
    /// With the Query, whoever sent it.
    Immediate,
    /// With the Query, but it is not used before the Confirm has come.
    Confirmed,
    /// With the Confirm: until then nothing is kept, and nobody can fill this node's memory under addresses not his.
    Delayed,
}

/// When a peer against the flow is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum UpstreamQueries {
    /// Never: who is upstream is learned from its Queries.
    Never,
    /// Where the source of the flow is on a link of this node.
    OnLink,
    /// Where there is a route to it: right where routes are the same both ways.
    Routed,
}

/// How much there may be. Past a limit what is new is refused; what is there goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Routing states of the node.
    pub states: u32,
    /// Routing states with one peer, each direction counted.
    pub states_per_peer: u32,
    /// Peers that are remembered.
    pub peers: u32,
    /// Queries that are answered in a second, of all,
    pub queries_per_second: u32,
    /// and of each node that says it asks.
    pub queries_per_second_of_a_peer: u32,
    /// Messages that this node sends in datagrams in a second (RFC 5971 section 5.3.3).
    pub datagrams_per_second: u32,
    /// Error messages to one address in a second.
    pub errors_per_second: u32,
    /// Messages that wait for one peer to be found,
    pub waiting_messages: u32,
    /// and their octets.
    pub waiting_octets: u32,
    /// Octets of all messages that wait.
    pub waiting_octets_in_all: u32,
    /// Octets of one message of an application.
    pub message_octets: u32,
    /// Messaging associations.
    pub associations: u32,
    /// Those of neighbours who have not said yet who they are; a quarter of them for one address.
    pub half_open: u32,
    /// The longest message on one of these, octets.
    pub half_open_octets: u32,
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
        }
    }
}
