//! Settings of NATFW NSLP, with the defaults of RFC 5973.

use alloc::string::String;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use earmark_core::Prefix;
use earmark_token::Required;
use serde::{Deserialize, Serialize};

use crate::nslp::Attributes;

/// Settings of NATFW NSLP on one node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// Whether this node takes part: its applications may ask and answer, and it is a firewall or a translator by the
    /// other settings.
    pub enabled: bool,
    /// Whether the packet filter of this node gets a rule for each session.
    pub firewall: bool,
    /// Names of the interfaces on the external side of this node.
    pub external: Vec<String>,
    /// Whether the external side is outside of the network, so that this node is its edge. A translator within the network
    /// has other firewalls or translators on its external side.
    pub edge: bool,
    /// Translation of the addresses of IPv4 packets that cross into or out of the network.
    pub translator: Option<Translator>,
    /// Which sessions this node accepts as their responder.
    pub responder: Responder,
    /// Signalling destination address of EXTERNAL messages whose data sender is unknown (section 3.7.2, appendix A).
    pub signaling_destination: Option<IpAddr>,
    /// Lifetime that requests of this node ask for: 5.25 times the recommended refresh period of 300 s (section 3.4).
    pub lifetime: Duration,
    /// Longest lifetime that this node grants; longer requests are lowered to it.
    pub longest_lifetime: Duration,
    /// Shortest lifetime that this node accepts.
    pub shortest_lifetime: Duration,
    /// K: number of consecutive refreshes that may be lost (section 3.4).
    pub lost_refreshes: u32,
    /// Time that a request waits for its RESPONSE before it is sent again.
    pub response_timeout: Duration,
    /// Number of times that a request is sent.
    pub attempts: u32,
    /// Time after which GIST gives up to send a message. GIST needs 7.5 s to find out that a node is the last one on a path.
    pub give_up: Duration,
    /// Transport of messages, unless the application sets another one. NOTIFY messages travel over associations only.
    pub attributes: Attributes,
    /// Policy rules: the first match decides. A request of another node without a match is refused.
    pub rules: Vec<Rule>,
    /// Tokens that prove the names of users (RFC 5981).
    pub tokens: earmark_token::Settings,
    /// Limits of resources.
    pub limits: Limits,
}

impl Default for Config {
    fn default() -> Config {
        Config {
            enabled: false,
            firewall: false,
            external: Vec::new(),
            edge: true,
            translator: None,
            responder: Responder::Exposed,
            signaling_destination: None,
            lifetime: Duration::from_secs(1_575),
            longest_lifetime: Duration::from_secs(3_600),
            shortest_lifetime: Duration::from_secs(1),
            lost_refreshes: 3,
            response_timeout: Duration::from_secs(5),
            attempts: 3,
            give_up: Duration::from_secs(10),
            attributes: Attributes { reliable: true, secure: false },
            rules: Vec::new(),
            tokens: earmark_token::Settings::default(),
            limits: Limits::default(),
        }
    }
}

impl Config {
    /// Returns these settings with all values of `new` that may change while NATFW NSLP runs: all except what this node is,
    /// on which the rules of its sessions depend.
    pub fn renewed(&self, new: Config) -> Config {
        Config {
            enabled: self.enabled,
            firewall: self.firewall,
            external: self.external.clone(),
            edge: self.edge,
            translator: self.translator.clone(),
            ..new
        }
    }

    /// Returns whether this node acts on data: only then it joins the sessions of others.
    pub(super) fn is_middlebox(&self) -> bool {
        self.firewall || self.translator.is_some()
    }
}

/// Addresses and ports for translation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Translator {
    /// External addresses; if empty, those of the external interface that the packets pass.
    pub addresses: Vec<Ipv4Addr>,
    /// Internal addresses that are translated; if empty, the private ones (RFC 1918, RFC 6598).
    pub sources: Vec<Prefix>,
    /// First port that is given away.
    pub first_port: u16,
    /// Last port that is given away.
    pub last_port: u16,
}

impl Default for Translator {
    /// All ports that are not privileged.
    fn default() -> Translator {
        Translator {
            addresses: Vec::new(),
            sources: Vec::new(),
            first_port: 1_024,
            last_port: u16::MAX,
        }
    }
}

/// Which sessions a node accepts as their responder.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Responder {
    /// Sessions to a port that an application of this node has exposed.
    Exposed,
    /// All sessions that end here.
    Any,
}

/// A policy rule: what it matches, and what it allows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Rule {
    /// Names of interfaces through which the request arrives; any if empty.
    pub interfaces: Vec<String>,
    /// Sources of the data; `None` for any.
    pub from: Option<Prefix>,
    /// Destinations of the data; `None` for any.
    pub to: Option<Prefix>,
    /// IP protocols of the data; any if empty.
    pub protocols: Vec<u8>,
    /// First and last destination port of the data, before any translation. The default leaves out privileged ports.
    pub ports: (u16, u16),
    /// Match only messages over an association with an authenticated peer.
    pub secure: bool,
    /// Match only requests with these proven names.
    pub required: Required,
    /// Match only data for which its receiver has a reservation at this node (section 5.3).
    pub reserved: bool,
    /// Refuse every request.
    pub refuse: bool,
    /// Whether the data may come from any address or port, or go to any port or by any protocol.
    pub wildcards: bool,
    /// Whether packets may be blocked, beside allowed.
    pub deny: bool,
    /// Longest lifetime; `None` for that of the node.
    pub longest_lifetime: Option<Duration>,
    /// Limit of the sessions of one user: a proven name, or else the address of the host that asks.
    pub per_user: Option<u32>,
    /// Limit of all sessions under this rule.
    pub total: Option<u32>,
}

impl Default for Rule {
    fn default() -> Rule {
        Rule {
            interfaces: Vec::new(),
            from: None,
            to: None,
            protocols: Vec::new(),
            ports: (1_024, u16::MAX),
            secure: false,
            required: Required::default(),
            reserved: false,
            refuse: false,
            wildcards: false,
            deny: false,
            longest_lifetime: None,
            per_user: None,
            total: None,
        }
    }
}

/// Limits of resources. Above a limit new requests are refused, and existing ones are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Limits {
    /// Sessions.
    pub sessions: u32,
    /// Part of the sessions that may arrive through one interface, percent.
    pub share_of_interface: u32,
    /// Sessions from one peer.
    pub sessions_per_peer: u32,
    /// New and changed sessions per second of one peer.
    pub changes_per_second: u32,
    /// ICMP types of one session, each of which is a rule of its own.
    pub icmp_types: u8,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            sessions: 1_000_000,
            share_of_interface: 75,
            sessions_per_peer: 1_000_000,
            changes_per_second: 10_000,
            icmp_types: 8,
        }
    }
}
