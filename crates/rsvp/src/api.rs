//! Application interface of RFC 2205 section 3.11.1: calls and upcalls as values.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::InterfaceId;
use earmark_core::outcome::{Outcome, Translation};
use earmark_wire::intserv::{FlowSpec, SenderTspec};
use earmark_wire::rsvp::{Dscp, ErrorSpec, FilterSpec, SenderTemplate, Session, Style};
use serde::{Deserialize, Serialize};

use crate::counters::DropReason;
use crate::filters::Filters;
use crate::host::reload::Renewal;
use crate::neighbors::integrity::Key;
use crate::offer::Offer;
use crate::rules::diagnostics::{Trace, TraceEnd, TraceHop};
use crate::rules::policy::{Identity, User};

pub use earmark_core::ApplicationId as Application;

/// Commands of applications. Invalid parameters are reported by [`Event::Rejected`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// SESSION: opens the session of an application, which has exactly one. Repeated for the same session, it reports the
    /// known senders again.
    Session {
        /// Calling application.
        application: Application,
        /// Destination of the data.
        session: Session,
    },
    /// SENDER: starts sending Path messages, or changes them.
    Sender {
        /// Calling application; its session must be open.
        application: Application,
        /// Source address and port of the data. For an unspecified address the host's address on the route to the
        /// destination is used.
        template: SenderTemplate,
        /// Traffic of the data.
        tspec: SenderTspec,
        /// TTL of the data packets, which also limits the reach of Path messages.
        ttl: u8,
    },
    /// RESERVE: starts sending Resv messages, or changes them.
    Reserve {
        /// Calling application; its session must be open.
        application: Application,
        /// Style, senders and flowspec.
        request: ReserveRequest,
        /// Whether to request a ResvConf.
        confirm: bool,
    },
    /// Sets the POLICY_DATA of an application's messages (identity and priority), from its next call on. May precede
    /// SESSION.
    Identity {
        /// Calling application.
        application: Application,
        /// Identity and priority.
        identity: Identity,
    },
    /// RELEASE: tears down the application's sender and reservations, and closes its session.
    Release {
        /// Calling application.
        application: Application,
    },
    /// Requests the state of all nodes on a sender's path (RFC 2745); [`Event::Traced`] reports it. A trace needs no
    /// RELEASE.
    Trace {
        /// Calling application; it must have no other trace in progress.
        application: Application,
        /// Parameters of the trace.
        trace: Trace,
    },
    /// Replaces the keys (RFC 2747 section 5.2); no effect if no interface is secured. Associations with keys that
    /// remain are kept.
    Keys {
        /// All keys.
        keys: Vec<Key>,
    },
    /// Sets the wall clock, after it has jumped.
    WallClock {
        /// Wall-clock time at [`Time::ZERO`](earmark_core::Time::ZERO), nanoseconds since 1970.
        wall_clock: u64,
    },
    /// Replaces the settings that can change at run time. Existing reservations remain.
    Renew(Box<Renewal>),
}

/// Style-dependent part of RESERVE.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ReserveRequest {
    /// FF: a distinct reservation for one sender. Repeat the call for further senders.
    FixedFilter {
        /// Sender.
        filter: FilterSpec,
        /// Flowspec of the sender's reservation.
        flowspec: FlowSpec,
    },
    /// WF: one reservation shared by all senders of the session.
    Wildcard {
        /// Flowspec shared by all senders.
        flowspec: FlowSpec,
    },
    /// SE: one reservation shared by these senders. A further call replaces the list.
    SharedExplicit {
        /// Senders.
        filters: Vec<FilterSpec>,
        /// Flowspec shared by these senders.
        flowspec: FlowSpec,
    },
}

impl ReserveRequest {
    /// Returns the style of the reservation.
    pub fn style(&self) -> Style {
        match self {
            ReserveRequest::FixedFilter { .. } => Style::FixedFilter,
            ReserveRequest::Wildcard { .. } => Style::Wildcard,
            ReserveRequest::SharedExplicit { .. } => Style::SharedExplicit,
        }
    }

    /// Returns the requested flowspec.
    pub fn flowspec(&self) -> &FlowSpec {
        match self {
            ReserveRequest::FixedFilter { flowspec, .. }
            | ReserveRequest::Wildcard { flowspec }
            | ReserveRequest::SharedExplicit { flowspec, .. } => flowspec,
        }
    }
}

/// Events of an engine: upcalls to applications, and reports for monitoring.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// PATH_EVENT: a new or changed sender.
    Path {
        /// Receiver of the upcall.
        application: Application,
        /// Session of the sender.
        session: Session,
        /// Address and port of the sender.
        template: SenderTemplate,
        /// Tspec of the sender.
        tspec: SenderTspec,
        /// Content of the ADSPEC.
        offer: Option<Offer>,
    },
    /// A reported sender has ended (not in RFC 2205, but receivers need it).
    PathGone {
        /// Receiver of the upcall.
        application: Application,
        /// Session of the sender.
        session: Session,
        /// Address and port of the sender.
        template: SenderTemplate,
    },
    /// RESV_EVENT: a new or changed reservation for data of this host.
    Resv {
        /// Receiver of the upcall.
        application: Application,
        /// Session of the reservation.
        session: Session,
        /// Sender with the reservation.
        filter: FilterSpec,
        /// Style: distinct (FF), or shared with other senders.
        style: Style,
        /// Reserved flowspec.
        flowspec: FlowSpec,
        /// Code points for the data packets, if the network uses any (DCLASS, RFC 2996).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        dscp: Vec<Dscp>,
        /// Extent of the reservation on the path, as far as this node knows.
        #[serde(default)]
        reach: Box<Outcome>,
    },
    /// A reservation for data of this host has ended.
    ResvGone {
        /// Receiver of the upcall.
        application: Application,
        /// Session of the reservation.
        session: Session,
        /// Sender without reservation now.
        filter: FilterSpec,
    },
    /// PATH_ERROR.
    PathError {
        /// Receiver of the upcall.
        application: Application,
        /// Session of the sender.
        session: Session,
        /// Error and the node that reports it.
        error: ErrorSpec,
        /// Sender that the error is about.
        template: SenderTemplate,
        /// Reason in the words of the policy node, if it gives one (RFC 3182 section 3.3.4).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        explanation: Option<Box<String>>,
    },
    /// A node other than the neighbours reports an error about a sender or its reservation (Notify, RFC 3473 section 4.3;
    /// RFC 5946 section 3.2).
    Notified {
        /// Receiver of the upcall.
        application: Application,
        /// Session of the sender.
        session: Session,
        /// Error and the node that has detected it.
        error: ErrorSpec,
        /// Sender that the error is about.
        template: SenderTemplate,
        /// Node that has sent the Notify.
        notifier: IpAddr,
        /// Reason in the words of the policy node, if it gives one (RFC 3182 section 3.3.4).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        explanation: Option<Box<String>>,
    },
    /// RESV_ERROR. The flags of `error` show whether an older reservation remains.
    ResvError {
        /// Receiver of the upcall.
        application: Application,
        /// Session of the reservation.
        session: Session,
        /// Error and the node that reports it.
        error: ErrorSpec,
        /// Style of the refused request.
        style: Style,
        /// Senders of the refused request.
        filters: Filters,
        /// Refused flowspec.
        flowspec: Option<FlowSpec>,
        /// Reason in the words of the policy node, if it gives one (RFC 3182 section 3.3.4).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        explanation: Option<Box<String>>,
    },
    /// RESV_CONFIRM: the reservation is in place, as far as the node in `node` knows.
    Confirmed {
        /// Receiver of the upcall.
        application: Application,
        /// Session of the reservation.
        session: Session,
        /// Node that sent the ResvConf.
        node: IpAddr,
        /// Style of the reservation.
        style: Style,
        /// Senders of the reservation.
        filters: Filters,
        /// Extent of the reservation on the path, from the ResvConf and from Path messages.
        #[serde(default)]
        reach: Box<Outcome>,
    },
    /// Progress of a trace: a DREQ was sent.
    Tracing {
        /// Application that requested the trace.
        application: Application,
        /// LAST-HOP of the trace.
        last_hop: IpAddr,
        /// Number of nodes whose answers are final.
        known: usize,
        /// Number of times that the current DREQ was sent.
        attempt: u8,
        /// Hop limit of the current DREQ; 0 for none. After three DREQs without limit and without answer, the silent
        /// node is searched with one hop more each time.
        reach: u8,
    },
    /// A trace has ended.
    Traced {
        /// Application that requested the trace.
        application: Application,
        /// Traced session.
        session: Session,
        /// Traced sender.
        sender: SenderTemplate,
        /// LAST-HOP of the trace.
        last_hop: IpAddr,
        /// Nodes that answered, from the LAST-HOP towards the sender.
        hops: Vec<TraceHop>,
        /// Reason for the end.
        end: TraceEnd,
    },
    /// A command was rejected.
    Rejected {
        /// Calling application.
        application: Application,
        /// Reason for the rejection.
        reason: Rejection,
    },
    /// Path state was created, changed or removed.
    PathState {
        /// Kind of change.
        change: Change,
        /// Session of the sender.
        session: Session,
        /// Address and port of the sender.
        template: SenderTemplate,
    },
    /// A reservation on a link of this node was created, changed or removed.
    Reservation {
        /// Kind of change.
        change: Change,
        /// Session of the reservation.
        session: Session,
        /// Style of the reservation.
        style: Style,
        /// Senders of the reservation.
        filters: Filters,
        /// Outgoing interface.
        interface: InterfaceId,
        /// Reserved flowspec.
        flowspec: FlowSpec,
        /// User who requested it, the first one of several.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        user: Option<Box<User>>,
    },
    /// A reservation was refused at this node.
    Refused {
        /// Session of the request.
        session: Session,
        /// Style of the request.
        style: Style,
        /// Senders of the request.
        filters: Filters,
        /// Outgoing interface.
        interface: InterfaceId,
        /// Error that was sent downstream.
        error: ErrorSpec,
        /// Available bandwidth, bits per second.
        available_bps: u64,
        /// Reason for refusing a token.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        explanation: Option<Box<String>>,
    },
    /// A Path has another IP source address than the sender in its SENDER_TEMPLATE (RFC 2205 section 3.1.3): the
    /// address is translated on the path, so a reservation for the address in the message matches no packets behind the
    /// translator. Reported to each application of this node with the session open, or else once without application.
    Translated {
        /// Receiver of the report.
        application: Option<Application>,
        /// Session of the sender.
        session: Session,
        /// Address and port of the sender.
        template: SenderTemplate,
        /// Address in the message, and IP source address.
        translation: Translation,
    },
    /// An expired key is in use because there is no other for its purpose (RFC 2747 section 5.3). Reported once for
    /// each key.
    LastKeyExpired {
        /// Key Identifier of the key.
        key: u64,
    },
    /// A neighbour that had sent Hello does not answer any more, or has restarted.
    NeighborLost {
        /// Interface towards the neighbour.
        interface: InterfaceId,
        /// Address of the neighbour.
        address: IpAddr,
    },
    /// A neighbour is silent and expected back, or has restarted and gets its state back (RFC 3473 section 9).
    NeighborRestarting {
        /// Interface towards the neighbour.
        interface: InterfaceId,
        /// Address of the neighbour.
        address: IpAddr,
        /// Time for which its state is kept, milliseconds.
        kept_ms: u64,
    },
    /// A message was dropped.
    Dropped {
        /// Reason for the drop.
        reason: DropReason,
        /// Incoming interface.
        interface: InterfaceId,
        /// IP source address.
        source: IpAddr,
    },
}

/// Change of a state block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The block was created.
    Created,
    /// The content of the block changed.
    Changed,
    /// A tear message removed the block.
    Torn,
    /// The block expired without refresh.
    Expired,
    /// The state that the block depended on was removed.
    Orphaned,
    /// The reservation was preempted, in part or in whole (RFC 3181, RFC 4495).
    Preempted,
}

/// Reason for rejecting a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Rejection {
    /// The application has a session already.
    #[error("this application has a session already")]
    SessionOpen,
    /// The application has no session.
    #[error("this application has no open session")]
    NoSession,
    /// There is no route to the destination, or no local address on it.
    #[error("there is no route to the destination")]
    NoRoute,
    /// The source address does not belong to this host.
    #[error("the source address is not an address of this host")]
    NotOurAddress,
    /// Sender and destination have addresses of different families.
    #[error("the addresses of sender and destination are of different families")]
    Families,
    /// Zero and non-zero ports would be mixed (RFC 2205 section 3.2).
    #[error("ports conflict with the session's (RFC 2205 section 3.2)")]
    Ports,
    /// The sender has an SPI, and its session is not one of ESP or AH with a port; or the reverse (RFC 2207 section 4.1).
    #[error(
        "an SPI needs ESP or AH and a destination port, which tells sessions apart and is in no packet; without an SPI \
         leave the port out (RFC 2207)"
    )]
    Gpi,
    /// The session is that of an aggregate, and the sender has more than an address; or the reverse (RFC 4860 section 3.1).
    #[error(
        "an aggregate, which is known by its DSCP, has a sender with an address alone (RFC 3175)"
    )]
    Aggregator,
    /// The Tspec or flowspec is invalid.
    #[error("invalid traffic or service specification: {0}")]
    Specification(BadSpecification),
    /// No sender of this session matches, so there is nothing to reserve yet.
    #[error("no Path message of that sender has arrived")]
    NoSuchSender,
    /// The session has several senders, and none was given.
    #[error("the session has several senders; one must be named")]
    SeveralSenders,
    /// Another application already sends with this address and port.
    #[error("another application of this host is already that sender")]
    SenderTaken,
    /// Another application of this host has requested another service for the same sender.
    #[error("another application of this host has reserved another service for that sender")]
    Conflict,
    /// The session has reservations in another style (RFC 2205 section 1.3: styles do not merge).
    #[error("the session has reservations in another style")]
    Style,
    /// The limit of the session or of the node is reached.
    #[error("a limit on sessions or senders is reached")]
    Limit,
    /// The name of a user or application cannot be encoded in a message.
    #[error("a name of a user or application is 1 to 512 printable ASCII letters")]
    Identity,
    /// The protocol is 0 or the destination unspecified.
    #[error("a session needs a destination address and a protocol")]
    BadSession,
}

/// Reason why a Tspec or flowspec is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum BadSpecification {
    /// Token rate, bucket or peak is negative, NaN or out of range.
    #[error("a rate or bucket is negative, infinite or not a number")]
    TokenBucket,
    /// R is less than r, or another parameter of the Rspec is invalid.
    #[error("the reserved rate is below the token rate, or not a number")]
    Rspec,
}

/// Events are copied often; rare parts are boxed.
const _: () = assert!(size_of::<Event>() <= 128);
