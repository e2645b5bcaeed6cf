//! Commands of applications to QoS NSLP, and its events.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::admission::{Demand, Priority};
use earmark_core::outcome;
use earmark_core::{Flow, InterfaceId, Rate};
use earmark_token::{Token, User};
use earmark_wire::gist::SessionId;
use earmark_wire::qos_nslp::{BoundSessionId, ErrorSource, Outcome};
use earmark_wire::qspec::PhbField;
use serde::{Deserialize, Serialize};

use super::counters::DropReason;
use crate::nslp::Attributes;

pub use earmark_core::ApplicationId as Application;

/// Commands of applications. Invalid parameters result in [`Event::Rejected`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Makes this node the QNI of a session: sends a RESERVE, and refreshes it until [`Command::Release`]. The flow
    /// begins at this node (sender-initiated).
    Reserve {
        /// The application, without a session so far.
        application: Application,
        /// The request.
        request: Request,
    },
    /// Changes the reservation of a flow; if the change is refused, the old reservation stays.
    Modify {
        /// The application, with a session.
        application: Application,
        /// The new parameters.
        #[serde(rename = "wish")]
        qos: RequestedQos,
    },
    /// Releases everything of an application, including a listener or a query. [`Event::Released`] confirms it.
    Release {
        /// The application.
        application: Application,
    },
    /// Queries the available resources, and reserves nothing. [`Event::Offered`] or [`Event::Refused`] is the result.
    Query {
        /// The application, without a session.
        application: Application,
        /// The request.
        request: Request,
    },
    /// Asks the receiver of a flow of this node to reserve (receiver-initiated): a QUERY with RESERVE-INIT.
    Invite {
        /// The application, without a session.
        application: Application,
        /// Flow and parameters.
        request: Request,
    },
    /// Listens for sessions of flows to this node: reports their RESERVEs, and answers a QUERY that asks for one.
    Listen {
        /// The application, without a session. If it listens already, the filter is replaced, and sessions that have arrived
        /// stay.
        application: Application,
        /// Filter of the listener.
        listen: Listen,
    },
}

/// A request of an application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Packets of the reservation. The source defaults to an address of this node.
    pub flow: Flow,
    /// Traffic parameters.
    #[serde(rename = "wish")]
    pub qos: RequestedQos,
    /// Session identifier; `None` for a random one.
    #[serde(default)]
    pub session: Option<SessionId>,
    /// Sessions that this one is bound to, with the binding code.
    #[serde(default)]
    pub bound: Vec<BoundSessionId>,
    /// Scope of the messages.
    #[serde(default)]
    pub scope: Scope,
    /// Transport of the messages; `None` for the setting.
    #[serde(default)]
    pub attributes: Option<Attributes>,
    /// Whether the reservation on an old branch stays after a route change (REPLACE not set).
    #[serde(default)]
    pub keep_old_branch: bool,
    /// Reaction to a refusal.
    #[serde(default)]
    pub on_refusal: OnRefusal,
    /// Token that proves the name of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
}

impl Request {
    /// Creates a request for the whole path, which is released if it is refused.
    pub fn new(flow: Flow, qos: RequestedQos) -> Request {
        Request {
            flow,
            qos,
            session: None,
            bound: Vec::new(),
            scope: Scope::Path,
            attributes: None,
            keep_old_branch: false,
            on_refusal: OnRefusal::Release,
            token: None,
        }
    }
}

/// Scope of the messages of a session (RFC 5974 section 3.2.7).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// To the last node of the path.
    #[default]
    Path,
    /// To the next node.
    NextHop,
    /// To the proxy of the domain.
    Proxy,
}

/// Reaction of a QNI to a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRefusal {
    /// Release what nodes before the refusing one have reserved; after a refused change, restore the old reservation.
    #[default]
    Release,
    /// Repeat the request once a refresh period.
    Retry,
}

/// Traffic parameters: a QSPEC of the default model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RequestedQos {
    /// Token rate r.
    pub rate: Rate,
    /// Bucket depth b, octets.
    pub burst: u32,
    /// Peak rate p; `None` if unknown.
    #[serde(default)]
    pub peak: Option<Rate>,
    /// Minimum policed unit m, octets: smaller packets count as this large.
    #[serde(default = "default_min_packet")]
    pub min_packet: u32,
    /// Maximum packet size, octets.
    pub max_packet: u32,
    /// Minimum token rate. With it the reserved rate may be less than `rate` (QoS Available and Minimum QoS); without
    /// it, exactly `rate` is reserved or nothing.
    #[serde(default)]
    pub minimum: Option<Rate>,
    /// Per-hop behavior.
    #[serde(default)]
    pub phb: Option<PhbField>,
    /// Preemption and defending priority.
    #[serde(default)]
    pub priority: Option<Priority>,
}

const fn default_min_packet() -> u32 {
    64
}

impl RequestedQos {
    /// Returns parameters for a rate, with a bucket for two large packets.
    pub fn of(rate: Rate) -> RequestedQos {
        RequestedQos {
            rate,
            burst: 3_000,
            peak: None,
            min_packet: default_min_packet(),
            max_packet: 1_500,
            minimum: None,
            phb: None,
            priority: None,
        }
    }
}

/// Flows that a listener accepts; by default all flows to this node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Listen {
    /// Destination; `None` for every address of this node.
    pub destination: Option<IpAddr>,
    /// IP protocol; `None` for any.
    pub protocol: Option<u8>,
    /// Destination port; `None` for any.
    pub port: Option<u16>,
    /// Limit of the rate that is reserved for a flow at the request of its sender; `None` for no limit.
    #[serde(default)]
    pub most: Option<Rate>,
    /// Reservation for the reverse direction, in a separate session that is bound to the incoming one (RFC 5974 section
    /// 4.4).
    #[serde(default)]
    pub reverse: Option<RequestedQos>,
    /// Token for reservations at the request of a sender; without it, the sender's own token is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
}

/// Why a command was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rejection {
    /// The application has a session already.
    SessionOpen,
    /// The application has no session.
    NoSession,
    /// There is no route to the destination.
    NoRoute,
    /// The flow selects no packets, or does not begin here.
    BadFlow,
    /// A rate is zero, the minimum exceeds it, or the bucket is smaller than a packet.
    #[serde(rename = "bad_wish")]
    BadQos,
    /// The session identifier is in use.
    SessionTaken,
    /// The limit of sessions is reached.
    TooMany,
    /// This node has no transport with the wanted attributes.
    NoTransport,
}

/// Why a reservation of this node changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The reservation is new.
    Created,
    /// The rate or the flow has changed.
    Changed,
    /// The packets leave through another interface.
    Moved,
    /// The reservation was released.
    Released,
    /// The reservation was not refreshed.
    Expired,
    /// A node further along the path has refused, which makes this reservation useless.
    Refused,
    /// A reservation of higher priority has preempted it, entirely or in part.
    Preempted,
    /// Traffic control has failed, or the link is gone.
    Failed,
}

/// Origin of a report, for people.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// An address.
    Address(IpAddr),
    /// A name.
    Name(String),
}

impl Source {
    pub(super) fn of(source: ErrorSource<'_>) -> Option<Source> {
        match source {
            ErrorSource::Ipv4(address) => Some(Source::Address(address.into())),
            ErrorSource::Ipv6(address) => Some(Source::Address(address.into())),
            ErrorSource::Fqdn(name) => Some(Source::Name(name.into())),
            ErrorSource::Unknown { .. } => None,
        }
    }
}

/// Events of QoS NSLP: for applications, and for monitoring.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The path has reserved, as far as `reach` says. Reported again when that changes.
    Reserved {
        /// The application.
        application: Application,
        /// The session.
        session: SessionId,
        /// The reserved rate.
        rate: Rate,
        /// Whether routers on the path do not take part (BREAK).
        breaks: bool,
        /// Extent of the reservation, and its origin.
        #[serde(default)]
        reach: Box<outcome::Outcome>,
    },
    /// A request was refused. The application keeps what it had before.
    Refused {
        /// The application.
        application: Application,
        /// Reason. In JSON `answer`: `outcome` is the result of the request.
        #[serde(rename = "answer")]
        outcome: Outcome,
        /// Node that has refused, if known.
        source: Option<Source>,
        /// Available rate, if known.
        available: Option<Rate>,
        /// Reaction of the QNI.
        reaction: OnRefusal,
    },
    /// Response to [`Command::Query`]; the application has no session any more.
    Offered {
        /// The application.
        application: Application,
        /// The available rate.
        rate: Rate,
        /// Minimum latency of the path, microseconds, if all nodes know theirs.
        latency_us: Option<u32>,
        /// Whether routers on the path do not take part.
        breaks: bool,
        /// Extent of the queried path, and its origin.
        #[serde(default)]
        reach: Box<outcome::Outcome>,
    },
    /// A request had no response in time.
    TimedOut {
        /// The application.
        application: Application,
    },
    /// A node on the path has reported the loss of part of the reservation.
    Lost {
        /// The application.
        application: Application,
        /// Reason.
        #[serde(rename = "answer")]
        outcome: Outcome,
        /// Node that has reported it, if known.
        source: Option<Source>,
    },
    /// Addresses are translated on the path, so that nodes behind the translator cannot take part: the addresses in
    /// GIST are not those of the packets there (RFC 5971 section 7.2.1).
    Translated {
        /// The application of the session, or its listener; `None` if there is neither.
        application: Option<Application>,
        /// The session.
        session: SessionId,
        /// The address in a message, and its actual source.
        translation: outcome::Translation,
    },
    /// [`Command::Release`] is complete, or the release after a refusal.
    Released {
        /// The application.
        application: Application,
    },
    /// A session for a listener has arrived, or has changed.
    Incoming {
        /// The application that listens, or has asked for the RESERVE.
        application: Application,
        /// The session.
        session: SessionId,
        /// Packets of the reservation.
        flow: Flow,
        /// The reserved rate.
        rate: Rate,
        /// Extent of the reservation, as the RESERVE reports it.
        #[serde(default)]
        reach: Box<outcome::Outcome>,
    },
    /// An incoming session has ended.
    Gone {
        /// The application that listens, or has asked for the RESERVE.
        application: Application,
        /// The session.
        session: SessionId,
    },
    /// A command was invalid, or in the wrong state.
    Rejected {
        /// The application.
        application: Application,
        /// Reason.
        reason: Rejection,
    },
    /// A reservation on a link of this node has changed.
    Reservation {
        /// Kind of change.
        change: Change,
        /// The session.
        session: SessionId,
        /// Packets of the reservation.
        flow: Flow,
        /// Outgoing interface.
        interface: InterfaceId,
        /// Reserved resources, or those released.
        demand: Demand,
        /// User that the request names.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<Box<User>>,
    },
    /// This node has refused a request.
    Denied {
        /// The session.
        session: SessionId,
        /// Outcome in the response.
        #[serde(rename = "answer")]
        outcome: Outcome,
        /// Available rate.
        available: Option<Rate>,
        /// Why the token of the request is refused, as text.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        explanation: Option<Box<String>>,
    },
    /// A message was dropped.
    Dropped {
        /// Reason.
        reason: DropReason,
        /// The session.
        session: SessionId,
        /// Incoming interface.
        interface: InterfaceId,
    },
}
