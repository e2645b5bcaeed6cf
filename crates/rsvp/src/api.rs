//! The application interface of RFC 2205 section 3.11.1 as values: commands down, upcalls up.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::InterfaceId;
use earmark_core::outcome::{Outcome, Translation};
use earmark_wire::intserv::{Adspec, FlowSpec, SenderTspec};
use earmark_wire::rsvp::{Dscp, ErrorSpec, FilterSpec, SenderTemplate, Session, Style};
use serde::{Deserialize, Serialize};

use crate::counters::DropReason;
use crate::diagnostics::{Trace, TraceEnd, TraceHop};
use crate::integrity::Key;
use crate::policy::Identity;
use crate::reload::Renewal;

/// Names an application on this host, for as long as it lives; chosen by the driver, never reused while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Application(pub u64);

/// What an application asks for. Wrong parameters come back as [`Event::Rejected`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// SESSION: opens a session for upcalls. An application has exactly one.
    Session {
        /// Who.
        application: Application,
        /// Where the data goes.
        session: Session,
    },
    /// SENDER: starts sending Path messages, or changes what they say.
    Sender {
        /// Who; its session must be open.
        application: Application,
        /// Source address and port of the data; an unspecified address picks the host's own for the way to the destination.
        template: SenderTemplate,
        /// What the traffic looks like.
        tspec: SenderTspec,
        /// TTL of the data packets, and so the reach of the Path messages.
        ttl: u8,
    },
    /// RESERVE: starts sending Resv messages, or changes what they ask for.
    Reserve {
        /// Who; its session must be open.
        application: Application,
        /// For which senders, and how they share.
        request: ReserveRequest,
        /// Whether a ResvConf is wanted.
        confirm: bool,
    },
    /// What the messages for this application say about who asks and how important that is, from its next call on. May
    /// come before its session is opened.
    Identity {
        /// Who.
        application: Application,
        /// What to say.
        identity: Identity,
    },
    /// RELEASE: tears down what the application sent and reserved, and closes its session.
    Release {
        /// Who.
        application: Application,
    },
    /// Asks the nodes on a sender's way for what they know of it (RFC 2745); [`Event::Traced`] tells. Ends by itself.
    Trace {
        /// Who wants to know; no other trace of the same may be under way.
        application: Application,
        /// What.
        trace: Trace,
    },
    /// These are the keys from now on (RFC 2747 section 5.2); without effect where no interface is secured. Associations
    /// go on with the keys that stay.
    Keys {
        /// All of them.
        keys: Vec<Key>,
    },
    /// These are the settings from now on, as far as they may change. Reservations that stand are left alone.
    Renew(Box<Renewal>),
}

/// The style-dependent part of a reservation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum ReserveRequest {
    /// FF: one sender, its own pipe. Repeat the call for further senders.
    FixedFilter {
        /// Whose packets.
        filter: FilterSpec,
        /// What they get.
        flowspec: FlowSpec,
    },
    /// WF: one pipe that all senders of the session share.
    Wildcard {
        /// What they get together.
        flowspec: FlowSpec,
    },
    /// SE: one pipe that these senders share. A second call names all of them anew.
    SharedExplicit {
        /// Whose packets.
        filters: Vec<FilterSpec>,
        /// What they get together.
        flowspec: FlowSpec,
    },
}

impl ReserveRequest {
    /// Its style.
    pub fn style(&self) -> Style {
        match self {
            ReserveRequest::FixedFilter { .. } => Style::FixedFilter,
            ReserveRequest::Wildcard { .. } => Style::Wildcard,
            ReserveRequest::SharedExplicit { .. } => Style::SharedExplicit,
        }
    }

    /// What it asks for.
    pub fn flowspec(&self) -> &FlowSpec {
        match self {
            ReserveRequest::FixedFilter { flowspec, .. }
            | ReserveRequest::Wildcard { flowspec }
            | ReserveRequest::SharedExplicit { flowspec, .. } => flowspec,
        }
    }
}

/// The senders that a reservation is for, as its filter specs name them: one for FF, any number for SE, none for WF,
/// which means all of the session. Written as a list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Vec<FilterSpec>", into = "Vec<FilterSpec>")]
pub enum Filters {
    /// All senders.
    #[default]
    All,
    /// One.
    One(FilterSpec),
    /// Several.
    Several(Vec<FilterSpec>),
}

impl Filters {
    /// The filter specs; none stands for all senders.
    pub fn as_slice(&self) -> &[FilterSpec] {
        match self {
            Filters::All => &[],
            Filters::One(filter) => core::slice::from_ref(filter),
            Filters::Several(filters) => filters,
        }
    }

    /// Whether the reservation is for this sender too.
    pub fn match_sender(&self, template: &SenderTemplate) -> bool {
        matches!(self, Filters::All) || self.as_slice().contains(template)
    }
}

impl From<&[FilterSpec]> for Filters {
    fn from(filters: &[FilterSpec]) -> Filters {
        match *filters {
            [] => Filters::All,
            [one] => Filters::One(one),
            _ => Filters::Several(filters.to_vec()),
        }
    }
}

impl From<Vec<FilterSpec>> for Filters {
    fn from(filters: Vec<FilterSpec>) -> Filters {
        match filters[..] {
            [] => Filters::All,
            [one] => Filters::One(one),
            _ => Filters::Several(filters),
        }
    }
}

impl From<Filters> for Vec<FilterSpec> {
    fn from(filters: Filters) -> Vec<FilterSpec> {
        match filters {
            Filters::Several(filters) => filters,
            few => few.as_slice().to_vec(),
        }
    }
}

/// What the path offers a receiver: an ADSPEC, as RFC 2210 section 3.3 has it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Offer {
    /// RSVP-capable hops so far.
    pub hops: u32,
    /// Smallest bandwidth of the path, octets per second.
    #[serde(with = "earmark_wire::intserv::exact")]
    pub path_bandwidth: f32,
    /// Latency of the path that queues do not cause, microseconds; `u32::MAX` where a hop could not say.
    pub min_latency_us: u32,
    /// Largest packet, octets.
    pub path_mtu: u32,
    /// Whether some hop did not take part, so that all this is only a bound.
    pub broken: bool,
    /// Guaranteed service: end-to-end C (octets) and D (microseconds), if every hop can do it.
    pub guaranteed: Option<(u32, u32)>,
    /// Whether every hop can do controlled load.
    pub controlled_load: bool,
}

impl Offer {
    /// What an ADSPEC says. With `broken` there is a hop that did not write into it.
    pub(crate) fn of(adspec: &Adspec<'_>, broken: bool) -> Offer {
        let general = &adspec.general;
        let guaranteed = adspec.guaranteed.as_ref().filter(|g| !g.break_bit);
        Offer {
            hops: general.hops,
            path_bandwidth: general.bandwidth,
            min_latency_us: general.latency_us,
            path_mtu: general.mtu,
            broken: broken || general.break_bit,
            guaranteed: guaranteed.and_then(|g| g.terms).map(|t| (t.c_total, t.d_total)),
            controlled_load: adspec.controlled_load.as_ref().is_some_and(|c| !c.break_bit),
        }
    }
}

/// What an engine reports: upcalls to applications, and what watchers want to see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// PATH_EVENT: a sender appeared or changed.
    Path {
        /// For whom.
        application: Application,
        /// Its session.
        session: Session,
        /// Who sends.
        template: SenderTemplate,
        /// What.
        tspec: SenderTspec,
        /// What the path offers.
        offer: Option<Offer>,
    },
    /// A sender that was announced is gone (not in RFC 2205, but receivers need it).
    PathGone {
        /// For whom.
        application: Application,
        /// Its session.
        session: Session,
        /// Who sent.
        template: SenderTemplate,
    },
    /// RESV_EVENT: a reservation for this host's data appeared or changed.
    Resv {
        /// For whom.
        application: Application,
        /// Its session.
        session: Session,
        /// For which sender.
        filter: FilterSpec,
        /// Alone (FF), or shared with others.
        style: Style,
        /// What it gets.
        flowspec: FlowSpec,
        /// The code points to mark the data with, if the network cares (DCLASS, RFC 2996).
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        dscp: Vec<Dscp>,
        /// How far it reaches, as far as this node can know.
        #[serde(default)]
        reach: Box<Outcome>,
    },
    /// The reservation for this host's data is gone.
    ResvGone {
        /// For whom.
        application: Application,
        /// Its session.
        session: Session,
        /// For which sender.
        filter: FilterSpec,
    },
    /// PATH_ERROR.
    PathError {
        /// For whom.
        application: Application,
        /// Its session.
        session: Session,
        /// What happened, and where.
        error: ErrorSpec,
        /// Which sender.
        template: SenderTemplate,
    },
    /// RESV_ERROR. The flags of `error` say whether an older reservation still stands.
    ResvError {
        /// For whom.
        application: Application,
        /// Its session.
        session: Session,
        /// What happened, and where.
        error: ErrorSpec,
        /// In which style.
        style: Style,
        /// For which senders.
        filters: Filters,
        /// What was asked for.
        flowspec: Option<FlowSpec>,
    },
    /// RESV_CONFIRM: the reservation stands, as far as the node in `error.node` knows.
    Confirmed {
        /// For whom.
        application: Application,
        /// Its session.
        session: Session,
        /// Which node confirmed.
        node: IpAddr,
        /// In which style.
        style: Style,
        /// For which senders.
        filters: Filters,
        /// How far it reaches, by this and by what Path messages have told.
        #[serde(default)]
        reach: Box<Outcome>,
    },
    /// A trace goes on: a question has left, and an answer is waited for.
    Tracing {
        /// For whom.
        application: Application,
        /// Where it starts.
        last_hop: IpAddr,
        /// How many nodes have answered for good.
        known: usize,
        /// How often the present question was asked.
        attempt: u8,
        /// How many nodes it goes to; 0 for all. After three questions to all in vain, the silent node is looked for by
        /// asking one further each time.
        reach: u8,
    },
    /// A trace has ended.
    Traced {
        /// For whom.
        application: Application,
        /// Of which session.
        session: Session,
        /// Of which sender.
        sender: SenderTemplate,
        /// Where it started.
        last_hop: IpAddr,
        /// The nodes that answered, from there towards the sender.
        hops: Vec<TraceHop>,
        /// Why there are no more.
        end: TraceEnd,
    },
    /// A command could not be carried out at all.
    Rejected {
        /// Whose.
        application: Application,
        /// Why.
        reason: Rejection,
    },
    /// Path state appeared, changed or went.
    PathState {
        /// What happened to it.
        change: Change,
        /// Of which session.
        session: Session,
        /// Of which sender.
        template: SenderTemplate,
    },
    /// A reservation on a link of this node appeared, changed or went.
    Reservation {
        /// What happened to it.
        change: Change,
        /// Of which session.
        session: Session,
        /// In which style.
        style: Style,
        /// For which senders.
        filters: Filters,
        /// On which link.
        interface: InterfaceId,
        /// What it gets.
        flowspec: FlowSpec,
    },
    /// A reservation was refused here.
    Refused {
        /// Of which session.
        session: Session,
        /// In which style.
        style: Style,
        /// For which senders.
        filters: Filters,
        /// On which link.
        interface: InterfaceId,
        /// The error that was sent downstream.
        error: ErrorSpec,
        /// What could have been granted, bits per second.
        available_bps: u64,
    },
    /// A Path has come from another IP source than the sender that it describes (RFC 2205 section 3.1.3): its address is
    /// translated on the way, and what is reserved for the address that it names serves no packet behind that. Told to
    /// each application of this node with the session open, or else once to nobody in particular.
    Translated {
        /// For whom.
        application: Option<Application>,
        /// Of which session.
        session: Session,
        /// Of which sender.
        template: SenderTemplate,
        /// The address that the message names, and the one that it came from.
        translation: Translation,
    },
    /// A key is used although its time is over, because there is no other for its purpose (RFC 2747 section 5.3). Told
    /// once a key.
    LastKeyExpired {
        /// Its Key Identifier.
        key: u64,
    },
    /// A neighbour that said Hello is silent now, or has restarted.
    NeighborLost {
        /// Behind which interface.
        interface: InterfaceId,
        /// Its address.
        address: IpAddr,
    },
    /// A message was thrown away.
    Dropped {
        /// Why.
        reason: DropReason,
        /// Where it came in.
        interface: InterfaceId,
        /// Who sent it.
        source: IpAddr,
    },
}

/// What happened to a state block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is new.
    Created,
    /// It says something else now.
    Changed,
    /// It was torn down.
    Torn,
    /// It was not refreshed in time.
    Expired,
    /// The state it hung on went away.
    Orphaned,
    /// It gave way to a more important one, in part or in whole (RFC 3181, RFC 4495).
    Preempted,
}

/// Why a command was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Rejection {
    /// The application has a session already.
    #[error("this application has a session already")]
    SessionOpen,
    /// The application has no session.
    #[error("this application has no open session")]
    NoSession,
    /// Neither does the node know the way, nor an address of its own for it.
    #[error("there is no route to the destination")]
    NoRoute,
    /// The source address is none of this host's.
    #[error("the source address is none of this host's")]
    NotOurAddress,
    /// RFC 2205 section 3.2: zero and non-zero ports do not go together.
    #[error("ports conflict with the session's (RFC 2205 section 3.2)")]
    Ports,
    /// The Tspec or flowspec cannot be.
    #[error("the traffic or service specification makes no sense: {0}")]
    Specification(BadSpecification),
    /// No sender of this session matches: nothing to reserve for yet.
    #[error("no Path message of that sender has arrived")]
    NoSuchSender,
    /// The session has several senders, and none was named.
    #[error("the session has several senders; one must be named")]
    SeveralSenders,
    /// Another application sends with this address and port already.
    #[error("another application of this host is that sender already")]
    SenderTaken,
    /// Another application of this host has asked for another service for the same sender.
    #[error("another application of this host has reserved another service for that sender")]
    Conflict,
    /// The session has reservations in another style (RFC 2205 section 1.3: styles do not merge).
    #[error("the session has reservations in another style")]
    Style,
    /// The session is full, or the node is.
    #[error("a limit on sessions or senders is reached")]
    Limit,
    /// The name of a user or application cannot be put into a message.
    #[error("a name of a user or application is 1 to 512 printable ASCII letters")]
    Identity,
    /// Protocol 0 or an unspecified destination.
    #[error("a session needs a destination address and a protocol")]
    BadSession,
}

/// What is wrong with a Tspec or flowspec.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum BadSpecification {
    /// Token rate, bucket or peak is negative, NaN or out of range.
    #[error("a rate or bucket is negative, infinite or not a number")]
    TokenBucket,
    /// R below r, or the like.
    #[error("the reserved rate is below the token rate, or not a number")]
    Rspec,
}
