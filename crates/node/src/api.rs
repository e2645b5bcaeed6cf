//! What goes into a node and what comes out of it: settings, inputs, commands, events.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_boomerang as boomerang;
use earmark_core::admission::{ClaimId, Protocol, RetryPolicy};
use earmark_core::{
    Datagram, Flow, FlowAnswer, Interface, InterfaceId, MulticastRoute, Prefix, Rate, Route,
    StreamEvent,
};
use earmark_nsis as nsis;
use earmark_rsvp as rsvp;
use earmark_wire::rsvp::SenderTemplate;
use earmark_yessir as yessir;
use serde::{Deserialize, Serialize};

use crate::edge::{AggregateChange, Border};
use crate::receiver::{Listen, Unanswerable};

/// Settings of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeConfig {
    /// Its name, for people.
    pub name: String,
    /// Where all its random streams start.
    pub seed: u64,
    /// Settings of RSVP.
    pub rsvp: rsvp::Config,
    /// Names of interfaces where RSVP takes no part. What passes through them is sent on like any packet.
    #[serde(default)]
    pub without_rsvp: BTreeSet<String>,
    /// Settings of Boomerang.
    #[serde(default)]
    pub boomerang: boomerang::Config,
    /// Settings of YESSIR.
    #[serde(default)]
    pub yessir: yessir::Config,
    /// Settings of NSIS.
    #[serde(default)]
    pub nsis: nsis::Config,
    /// Interfaces that face a core, by name, and what crosses it in aggregates.
    #[serde(default)]
    pub borders: BTreeMap<String, Border>,
    /// How eagerly refused requests are retried when bandwidth is given back.
    #[serde(default)]
    pub retry: RetryPolicy,
}

/// One thing that happens to a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Input<'a> {
    /// A message of IP protocol `.0` arrived: 46 for RSVP, 134 for what of it was hidden from a core,
    /// 1 and 58 for Boomerang, 17 for YESSIR.
    Datagram(u8, Datagram<'a>),
    /// Something happened to a connection of GIST.
    Stream(StreamEvent<'a>),
    /// The deadline of [`Node::next_deadline`] has come.
    Expire,
    /// The host has changed.
    Host(HostUpdate),
    /// A user wants something.
    Command(Command),
}

/// What the driver reports of the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum HostUpdate {
    /// An interface is there, or has changed.
    Interface(Interface),
    /// An interface has gone.
    InterfaceGone(InterfaceId),
    /// Somebody else has taken the queues of an interface over: what was reserved there is void, and nothing new can be
    /// reserved until [`HostUpdate::Interface`] tells of the interface again.
    QueuesTaken(InterfaceId),
    /// A route is there.
    Route(Route),
    /// A route has gone.
    RouteGone(Route),
    /// The routes to a prefix have several next hops, among which the host chooses for each flow, or no longer; or these are
    /// not what they were.
    NextHops {
        /// To these destinations.
        prefix: Prefix,
        /// Whether they have.
        several: bool,
    },
    /// Policy rules lead to other tables than those whose routes are reported, or no longer; or they say something else.
    PolicyRules {
        /// For packets of IPv6, or of IPv4.
        ipv6: bool,
        /// Whether they do.
        apply: bool,
    },
    /// The host may send flows to these destinations elsewhere than before.
    FlowRoutes(Prefix),
    /// What the host answered while the next input was treated, at the time of a recording.
    FlowAnswers(Vec<FlowAnswer>),
    /// A multicast forwarding entry is there, or has changed.
    MulticastRoute(MulticastRoute),
    /// A multicast forwarding entry has gone.
    MulticastRouteGone {
        /// Of this source; `None` for every source.
        source: Option<IpAddr>,
        /// To this group.
        group: IpAddr,
    },
    /// This much of a link is with somebody who grants parts of it without asking (see
    /// [`Ledger::lend`](earmark_core::admission::Ledger::lend)), and may be granted already.
    Lent {
        /// Of which link.
        interface: InterfaceId,
        /// How much.
        rate: Rate,
    },
    /// Traffic control could not install this.
    TrafficControlRefused {
        /// What.
        claim: ClaimId,
        /// The system's error number.
        errno: u16,
    },
    /// Traffic control still holds a reservation that a dead daemon made; its bandwidth is kept until somebody claims
    /// the flow, or until [`HostUpdate::AdoptedGone`].
    Adopted {
        /// On which link.
        interface: InterfaceId,
        /// Whose packets.
        flow: Flow,
        /// What they get.
        rate: Rate,
        /// The protocol that reserved it, if that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        protocol: Option<Protocol>,
    },
    /// Traffic control has taken back what nobody claimed.
    AdoptedGone {
        /// On which link.
        interface: InterfaceId,
        /// Whose packets.
        flow: Flow,
    },
}

/// What a user can ask of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// An RSVP application's call.
    Rsvp(rsvp::Command),
    /// Answer senders of a session by itself, by a policy.
    Listen(Listen),
    /// What an initiating node of Boomerang can ask for.
    Boomerang(boomerang::Command),
    /// What senders and receivers of YESSIR can ask for.
    Yessir(yessir::Command),
    /// Of NSIS.
    Nsis(nsis::Command),
}

/// What a node reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "protocol", rename_all = "snake_case")]
pub enum Event {
    /// RSVP's.
    Rsvp(rsvp::Event),
    /// Boomerang's.
    Boomerang(boomerang::Event),
    /// YESSIR's.
    Yessir(yessir::Event),
    /// From NSIS.
    Nsis(nsis::Event),
    /// A receiver's policy has no answer to a sender.
    NoAnswer {
        /// For which application.
        application: rsvp::Application,
        /// To which sender.
        template: SenderTemplate,
        /// Why not.
        reason: Unanswerable,
    },
    /// What a dead daemon left in traffic control cannot be kept; the driver should take it out.
    NotAdopted {
        /// On which link.
        interface: InterfaceId,
        /// Whose packets.
        flow: Flow,
        /// Why not.
        reason: String,
    },
    /// The packets of a reservation, or of all of a link, do not get what is reserved for them, or get it again.
    Enforcement {
        /// What happened.
        change: EnforcementChange,
        /// On which link: the name of its interface.
        interface: String,
        /// Whose packets; `None` for all of the link.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        flow: Option<Flow>,
        /// What was wrong.
        reason: String,
    },
    /// An aggregate across a core has changed.
    Aggregate {
        /// What happened.
        change: AggregateChange,
        /// The far edge.
        to: IpAddr,
        /// The destinations behind it.
        range: Prefix,
        /// What the core has granted.
        granted: Rate,
        /// What its flows need together.
        need: Rate,
    },
}

/// What has become of the enforcement of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnforcementChange {
    /// The kernel did not have it as it should.
    Unenforced,
    /// Traffic control was put right.
    EnforcedAgain,
}

impl From<rsvp::Event> for Event {
    fn from(event: rsvp::Event) -> Event {
        Event::Rsvp(event)
    }
}

impl From<boomerang::Event> for Event {
    fn from(event: boomerang::Event) -> Event {
        Event::Boomerang(event)
    }
}

impl From<yessir::Event> for Event {
    fn from(event: yessir::Event) -> Event {
        Event::Yessir(event)
    }
}

impl From<nsis::Event> for Event {
    fn from(event: nsis::Event) -> Event {
        Event::Nsis(event)
    }
}
