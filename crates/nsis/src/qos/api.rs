//! What an application of this node can ask for, and what QoS NSLP tells.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::admission::{Demand, Priority};
use earmark_core::outcome;
use earmark_core::{Flow, InterfaceId, Rate};
use earmark_wire::gist::SessionId;
use earmark_wire::qos_nslp::{BoundSessionId, ErrorSource, Outcome};
use earmark_wire::qspec::PhbField;
use serde::{Deserialize, Serialize};

use super::counters::DropReason;
use crate::nslp::Attributes;

/// Names an application on this host, for as long as it lives; chosen by the driver, never reused while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Application(pub u64);

/// What an application asks for. Wrong parameters come back as [`Event::Rejected`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Makes this node the QNI of a session: a RESERVE goes out and is kept alive until [`Command::Release`]. The flow
    /// begins at this node (sender-initiated).
    Reserve {
        /// Who; it has no session yet.
        application: Application,
        /// What.
        request: Request,
    },
    /// Asks for something else for the same flow; what is refused leaves what there was.
    Modify {
        /// Who; it has a session.
        application: Application,
        /// The new wish.
        wish: ReservationRequest,
    },
    /// Gives everything back; a listener or offer ends likewise. [`Event::Released`] tells when that is done.
    Release {
        /// Who.
        application: Application,
    },
    /// Finds out what could be had, and reserves nothing. [`Event::Offered`] or [`Event::Refused`] tells.
    Query {
        /// Who; it has no session.
        application: Application,
        /// What.
        request: Request,
    },
    /// Asks the receiver of a flow of this node to reserve (receiver-initiated): a QUERY with RESERVE-INIT.
    Invite {
        /// Who; it has no session.
        application: Application,
        /// What the flow will be.
        request: Request,
    },
    /// Waits for sessions of flows to this node: tells of their RESERVEs, and answers a QUERY that asks for one.
    Listen {
        /// Who; it has no session.
        application: Application,
        /// For what.
        listen: Listen,
    },
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Whose packets. The source is this node's where it is none.
    pub flow: Flow,
    /// How much.
    pub wish: ReservationRequest,
    /// The name of the session; drawn where it is none.
    #[serde(default)]
    pub session: Option<SessionId>,
    /// Other sessions that this one is bound to, and why.
    #[serde(default)]
    pub bound: Vec<BoundSessionId>,
    /// How far its messages go.
    #[serde(default)]
    pub scope: Scope,
    /// How they travel; the setting where it is none.
    #[serde(default)]
    pub attributes: Option<Attributes>,
    /// Whether what stands on an old branch stays there after a change of route (REPLACE not set).
    #[serde(default)]
    pub keep_old_branch: bool,
    /// What to do with a refusal.
    #[serde(default)]
    pub on_refusal: OnRefusal,
}

impl Request {
    /// A request for the whole path, to be released if it is refused.
    pub fn new(flow: Flow, wish: ReservationRequest) -> Request {
        Request {
            flow,
            wish,
            session: None,
            bound: Vec::new(),
            scope: Scope::Path,
            attributes: None,
            keep_old_branch: false,
            on_refusal: OnRefusal::Release,
        }
    }
}

/// How far the messages of a session go (RFC 5974 section 3.2.7).
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

/// What a QNI does with a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRefusal {
    /// Releases what nodes before the refusal have set aside; of a change, goes back to what there was.
    #[default]
    Release,
    /// Keeps asking, once a refresh period.
    Retry,
}

/// How much is asked for: a QSPEC of the default model.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ReservationRequest {
    /// The token rate r.
    pub rate: Rate,
    /// The bucket depth b, octets.
    pub burst: u32,
    /// The peak rate p; `None` where it is not known.
    #[serde(default)]
    pub peak: Option<Rate>,
    /// The largest packet, octets.
    pub max_packet: u32,
    /// The least token rate that will do. With it what is reserved may be less than `rate` (QoS Available and Minimum
    /// QoS); without, exactly that is reserved or nothing.
    #[serde(default)]
    pub minimum: Option<Rate>,
    /// Which per-hop behaviour.
    #[serde(default)]
    pub phb: Option<PhbField>,
    /// Whom it may displace, and who may displace it.
    #[serde(default)]
    pub priority: Option<Priority>,
}

impl ReservationRequest {
    /// A rate with room for two large packets.
    pub fn of(rate: Rate) -> ReservationRequest {
        ReservationRequest {
            rate,
            burst: 3_000,
            peak: None,
            max_packet: 1_500,
            minimum: None,
            phb: None,
            priority: None,
        }
    }
}

/// Which flows a listener answers for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Listen {
    /// Where they go; one of this node's addresses, or any of them where it is none.
    pub destination: Option<IpAddr>,
    /// Their IP protocol; any where it is none.
    pub protocol: Option<u8>,
    /// Their destination port; any where it is none.
    pub port: Option<u16>,
    /// The most that is reserved for one flow where its sender asks this node to; `None` for whatever it announces.
    #[serde(default)]
    pub most: Option<Rate>,
    /// What is reserved for the way back, in a session of its own that is bound to the one that has come
    /// (RFC 5974 section 4.4).
    #[serde(default)]
    pub reverse: Option<ReservationRequest>,
}

/// Why a command was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rejection {
    /// The application has a session already.
    SessionOpen,
    /// The application has none.
    NoSession,
    /// There is no way to the destination.
    NoRoute,
    /// No packets can be told apart by this flow, or it does not begin here.
    BadFlow,
    /// A rate is zero, the minimum is above it, or the bucket has no room for a packet.
    BadWish,
    /// There is a session of this name.
    SessionTaken,
    /// No more sessions are taken.
    TooMany,
}

/// Why a reservation of this node changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is new.
    Created,
    /// It has another rate, or is for another flow.
    Changed,
    /// Its packets leave through another interface.
    Moved,
    /// It was given back.
    Released,
    /// Nobody has refreshed it.
    Expired,
    /// A node further on has refused, so that this part is of no use.
    Refused,
    /// A more important one took its place, wholly or in part.
    Preempted,
    /// Traffic control could not do it, or there is no link for it any more.
    Failed,
}

/// Who has said something, for people.
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

/// What QoS NSLP tells: answers to applications, and what watchers want to see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The path has reserved, as far as `reach` says. Told again where that changes.
    Reserved {
        /// For whom.
        application: Application,
        /// In which session.
        session: SessionId,
        /// How much.
        rate: Rate,
        /// There are routers on the path that do not take part (BREAK).
        breaks: bool,
        /// How far it reaches, and by whose word.
        #[serde(default)]
        reach: Box<outcome::Outcome>,
    },
    /// Something was refused. What the application had before, it still has.
    Refused {
        /// For whom.
        application: Application,
        /// Why. In JSON `answer`: `outcome` is what comes of the request.
        #[serde(rename = "answer")]
        outcome: Outcome,
        /// Who says so, where that is said.
        source: Option<Source>,
        /// What could be had, where that is said.
        available: Option<Rate>,
        /// What is done about it.
        reaction: OnRefusal,
    },
    /// The answer to [`Command::Query`]; the application has no session any more.
    Offered {
        /// For whom.
        application: Application,
        /// What could be had.
        rate: Rate,
        /// Smallest latency of the path, microseconds, where all nodes know theirs.
        latency_us: Option<u32>,
        /// There are routers on the path that do not take part.
        breaks: bool,
        /// How far the path was asked, and by whose word.
        #[serde(default)]
        reach: Box<outcome::Outcome>,
    },
    /// Nobody has answered in time.
    TimedOut {
        /// For whom.
        application: Application,
    },
    /// A part of the reservation is gone, by what a node on the path says.
    Lost {
        /// Whose.
        application: Application,
        /// Why.
        #[serde(rename = "answer")]
        outcome: Outcome,
        /// Who says so, where that is said.
        source: Option<Source>,
    },
    /// Addresses are translated on the way, so that nodes behind the translator cannot take part: what GIST names there
    /// are not the addresses of the packets (RFC 5971 section 7.2.1).
    Translated {
        /// Whose session it is, or who listens here; `None` where nobody is concerned.
        application: Option<Application>,
        /// Which session.
        session: SessionId,
        /// The address that a message names, and the one that it came from.
        translation: outcome::Translation,
    },
    /// The end of [`Command::Release`], or of what [`OnRefusal`] has released.
    Released {
        /// For whom.
        application: Application,
    },
    /// A session has come that ends here and that a listener waits for, or it has changed.
    Incoming {
        /// Who listens, or has invited.
        application: Application,
        /// Which session.
        session: SessionId,
        /// Whose packets.
        flow: Flow,
        /// How much is reserved.
        rate: Rate,
        /// How far it reaches, as the RESERVE tells that has come.
        #[serde(default)]
        reach: Box<outcome::Outcome>,
    },
    /// A session that had come is gone.
    Gone {
        /// Who listens, or has invited.
        application: Application,
        /// Which session.
        session: SessionId,
    },
    /// A command was wrong, or came at the wrong time.
    Rejected {
        /// Whose.
        application: Application,
        /// Why.
        reason: Rejection,
    },
    /// A reservation on a link of this node.
    Reservation {
        /// What happened.
        change: Change,
        /// In which session.
        session: SessionId,
        /// Whose packets.
        flow: Flow,
        /// Through which interface they leave.
        interface: InterfaceId,
        /// What they have, or had.
        demand: Demand,
    },
    /// This node has refused a request.
    Denied {
        /// In which session.
        session: SessionId,
        /// What was answered.
        #[serde(rename = "answer")]
        outcome: Outcome,
        /// What could be had.
        available: Option<Rate>,
    },
    /// A message was not acted on.
    Dropped {
        /// Why.
        reason: DropReason,
        /// In which session.
        session: SessionId,
        /// Through which interface it came.
        interface: InterfaceId,
    },
}
