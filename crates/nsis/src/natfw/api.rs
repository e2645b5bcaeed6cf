//! Commands to NATFW NSLP, and its events.

use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::{Endpoint, FilterAction, FilterRule, InterfaceId};
use earmark_token::Token;
use earmark_wire::gist::SessionId;
use earmark_wire::natfw_nslp::{Info, ProxyMode};
use serde::{Deserialize, Serialize};

use super::counters::DropReason;
use crate::nslp::{Attributes, SendFailure};

pub use earmark_core::ApplicationId as Application;

/// Commands of applications.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Opens the path of a flow from this node (CREATE).
    Open {
        /// The application, without a request so far.
        application: Application,
        /// The request.
        request: OpenRequest,
    },
    /// Makes a port of this node reachable from outside, or blocks what comes to it (EXTERNAL).
    Expose {
        /// The application, without a request so far.
        application: Application,
        /// The request.
        request: ExposeRequest,
    },
    /// Ends the request of an application.
    Release {
        /// The application.
        application: Application,
    },
}

/// A request to open the path of a flow.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenRequest {
    /// Source address; `None` for that of the route.
    pub source: Option<IpAddr>,
    /// Source port; `None` for any.
    pub source_port: Option<u16>,
    /// Destination address.
    pub destination: IpAddr,
    /// Destination port; `None` for any, or of a protocol without ports.
    pub destination_port: Option<u16>,
    /// IP protocol; `None` for any.
    pub protocol: Option<u8>,
    /// SPI of ESP or AH.
    #[serde(default)]
    pub spi: Option<u32>,
    /// Whether the rule also applies to the port after the destination port (sub_ports).
    #[serde(default)]
    pub next_port: bool,
    /// ICMP types; all if empty.
    #[serde(default)]
    pub icmp_types: Vec<u8>,
    /// Whether the edge of the network answers for the destination, and whether the request goes on.
    #[serde(default)]
    pub proxy: ProxyMode,
    /// Lifetime; `None` for the setting.
    #[serde(default)]
    pub lifetime: Option<Duration>,
    /// Transport; `None` for the setting.
    #[serde(default)]
    pub attributes: Option<Attributes>,
    /// Token that proves the name of the user.
    #[serde(default)]
    pub token: Option<Token>,
}

impl OpenRequest {
    /// Creates a request for all packets from this node to a destination.
    pub fn new(destination: IpAddr) -> OpenRequest {
        OpenRequest {
            source: None,
            source_port: None,
            destination,
            destination_port: None,
            protocol: None,
            spi: None,
            next_port: false,
            icmp_types: Vec::new(),
            proxy: ProxyMode::Off,
            lifetime: None,
            attributes: None,
            token: None,
        }
    }
}

/// A request for a port of this node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExposeRequest {
    /// Address of this node; `None` for that of the route to the data sender or to the signalling destination.
    pub address: Option<IpAddr>,
    /// Port.
    pub port: u16,
    /// IP protocol.
    pub protocol: u8,
    /// Data sender; `None` for any.
    pub from: Option<IpAddr>,
    /// Source port; `None` for any.
    #[serde(default)]
    pub from_port: Option<u16>,
    /// Whether the request also counts for the next port (sub_ports).
    #[serde(default)]
    pub next_port: bool,
    /// Whether data may be let through, or is blocked.
    pub action: FilterAction,
    /// Whether this node is behind firewalls only, so that its address is the one that data senders use: an EXTERNAL whose
    /// data sender is unknown then travels by the path-coupled method (RFC 5973 section 3.7.2).
    #[serde(default)]
    pub untranslated: bool,
    /// Whether the edge of the network acts for a data sender without NSIS, and whether the request goes on.
    #[serde(default)]
    pub proxy: ProxyMode,
    /// Lifetime; `None` for the setting.
    #[serde(default)]
    pub lifetime: Option<Duration>,
    /// Transport; `None` for the setting.
    #[serde(default)]
    pub attributes: Option<Attributes>,
    /// Token that proves the name of the user.
    #[serde(default)]
    pub token: Option<Token>,
}

impl ExposeRequest {
    /// Creates a request that lets the data of all senders through to a port.
    pub fn new(protocol: u8, port: u16) -> ExposeRequest {
        ExposeRequest {
            address: None,
            port,
            protocol,
            from: None,
            from_port: None,
            next_port: false,
            action: FilterAction::Allow,
            untranslated: false,
            proxy: ProxyMode::Off,
            lifetime: None,
            attributes: None,
            token: None,
        }
    }
}

/// Events of NATFW NSLP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The request of an application is granted along the path, for the first time or after a change.
    Granted {
        /// The application.
        application: Application,
        /// External address and port at the edge, of an exposed port behind a translator.
        external: Option<Endpoint>,
        /// External addresses at all translators on the path, nearest to this node first, if they were asked for.
        bindings: Vec<Endpoint>,
        /// Granted lifetime, seconds.
        lifetime: u32,
    },
    /// The request of an application was refused; it has ended.
    Refused {
        /// The application.
        application: Application,
        /// Why.
        refusal: Refusal,
    },
    /// The request of an application has ended.
    Ended {
        /// The application.
        application: Application,
        /// What the node that ended it says; `None` at the application's own wish.
        info: Option<Info>,
    },
    /// A node on the path of an application's request reports an event that does not end it.
    Notified {
        /// The application.
        application: Application,
        /// The event.
        info: Info,
    },
    /// A session of another node ends here: data will arrive at an exposed port.
    Admitted {
        /// The application that has exposed the port, if one did.
        application: Option<Application>,
        /// The session.
        session: SessionId,
        /// Data sender; `None` for any.
        from: Option<IpAddr>,
        /// Destination port; 0 for any.
        port: u16,
    },
    /// A rule of a session was installed or removed at this node.
    Rule {
        /// The session.
        session: SessionId,
        /// The rule.
        rule: FilterRule,
        /// What happened.
        change: RuleChange,
    },
    /// The session of another node was refused here.
    Denied {
        /// The session.
        session: SessionId,
        /// Why.
        info: Info,
        /// Interface that the request came through.
        interface: InterfaceId,
    },
    /// A message was dropped.
    Dropped {
        /// Reason.
        reason: DropReason,
        /// Session of the message.
        session: SessionId,
        /// Incoming interface.
        interface: InterfaceId,
    },
    /// A command was rejected.
    Rejected {
        /// The application.
        application: Application,
        /// Reason.
        reason: Rejection,
    },
}

/// Change of a rule in the packet filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleChange {
    /// Installed.
    Installed,
    /// Removed.
    Removed(Change),
    /// Refused by the packet filter, with the error number of the system.
    Refused(u16),
}

/// Why a session ended at this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The initiator deleted the session.
    Released,
    /// The lifetime ended.
    Expired,
    /// The responder, or another node on the path, refused the request or ended the session.
    Ended,
    /// The session has another flow now.
    Updated,
}

/// Why a request of this node was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// A node on the path has answered.
    Answered(Info),
    /// A message could not be sent.
    Unsent(SendFailure),
    /// No answer has arrived.
    Unanswered,
}

/// Why a command was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Rejection {
    /// NATFW NSLP is off.
    #[error("NATFW NSLP is off on this node; set enabled = true in the table [natfw]")]
    Off,
    /// The application has a request already.
    #[error("a request is in progress")]
    InUse,
    /// The application has no request.
    #[error("no request is in progress")]
    NotInUse,
    /// There is no route to the destination, or no address to send from.
    #[error("no route to the destination")]
    NoRoute,
    /// The destination is this node, or not a unicast address.
    #[error("the destination is not another host")]
    Destination,
    /// The address that data arrives at is not this node's.
    #[error("the address is not one of this node")]
    NotLocal,
    /// The fields contradict each other.
    #[error("the packets cannot be matched: ports need a protocol that has them")]
    Packets,
    /// Addresses in these messages are those of IPv4 (RFC 5973 section 4.2.8).
    #[error("reserving an address at the edge is defined for IPv4 only")]
    NoIpv4,
    /// Neither a data sender nor a signalling destination is known.
    #[error("say who sends, or set signaling_destination in the table [natfw]")]
    NoSender,
    /// The lifetime is outside of the limits of this node.
    #[error("the lifetime is outside of the limits of this node")]
    Lifetime,
    /// No transport provides what the request asks for.
    #[error("secured associations are not set up on this node")]
    NoTransport,
    /// The limit of sessions is reached.
    #[error("a limit of this node is reached")]
    TooMany,
}
