//! Interface of a node: settings, inputs, commands, events.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_boomerang as boomerang;
use earmark_core::admission::{AdmissionMethod, ClaimId, Protocol, RetryPolicy};
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
    /// Name for display.
    pub name: String,
    /// Seed of all random streams.
    pub seed: u64,
    /// Settings of RSVP.
    pub rsvp: rsvp::Config,
    /// Names of interfaces without RSVP. Packets that pass through them are forwarded like any other.
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
    /// Borders by interface name: interfaces towards a core, which aggregates cross.
    #[serde(default)]
    pub borders: BTreeMap<String, Border>,
    /// Retry policy for refused requests after bandwidth is released.
    #[serde(default)]
    pub retry: RetryPolicy,
    /// Admission control of the links that `link_admission` does not name.
    #[serde(default)]
    pub admission: AdmissionMethod,
    /// Admission control by interface name.
    #[serde(default)]
    pub link_admission: BTreeMap<String, AdmissionMethod>,
}

/// An input of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Input<'a> {
    /// A received message of IP protocol `.0`: 46 for RSVP, 134 for RSVP hidden from a core, 1 and 58 for Boomerang, 17
    /// for YESSIR.
    Datagram(u8, Datagram<'a>),
    /// A GIST connection has changed.
    Stream(StreamEvent<'a>),
    /// The deadline of [`crate::Node::next_deadline`] has passed.
    Expire,
    /// The host has changed.
    Host(HostUpdate),
    /// A user's command.
    Command(Command),
}

/// Changes of the host that the driver reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum HostUpdate {
    /// An interface was added or has changed.
    Interface(Interface),
    /// An interface was removed.
    InterfaceGone(InterfaceId),
    /// Another program has taken over the queues of an interface: its reservations are void, and none are possible
    /// until the next [`HostUpdate::Interface`] for it.
    QueuesTaken(InterfaceId),
    /// A route was added.
    Route(Route),
    /// A route was removed.
    RouteGone(Route),
    /// The multipath state of a prefix's routes has changed: the host chooses among several next hops for each flow, or
    /// no longer does, or the next hops are different.
    NextHops {
        /// Destinations concerned.
        prefix: Prefix,
        /// Whether there are several next hops.
        several: bool,
    },
    /// Policy rules for tables other than the reported ones were added, removed or changed.
    PolicyRules {
        /// Whether IPv6 packets are concerned; otherwise IPv4.
        ipv6: bool,
        /// Whether such rules exist.
        apply: bool,
    },
    /// The host may route flows to these destinations differently.
    FlowRoutes(Prefix),
    /// Answers of the host to route queries during the next input, in a recording.
    FlowAnswers(Vec<FlowAnswer>),
    /// A multicast forwarding entry was added or has changed.
    MulticastRoute(MulticastRoute),
    /// A multicast forwarding entry was removed.
    MulticastRouteGone {
        /// Source address; `None` for every source.
        source: Option<IpAddr>,
        /// Group address.
        group: IpAddr,
    },
    /// Bandwidth of a link that is granted elsewhere without a request to this node (see
    /// [`Ledger::lend`](earmark_core::admission::Ledger::lend)), and may already be in use.
    Lent {
        /// Interface of the link.
        interface: InterfaceId,
        /// Bandwidth concerned.
        rate: Rate,
    },
    /// Sample of the traffic of a link's reservations, due as often as the link's admission control says
    /// ([`sample_interval`](earmark_core::admission::AdmissionControl::sample_interval)).
    Measured {
        /// Interface of the link.
        interface: InterfaceId,
        /// Count of IP octets that the reservations have sent.
        octets: u64,
    },
    /// Traffic control could not install a claim.
    TrafficControlRefused {
        /// Claim concerned.
        claim: ClaimId,
        /// Error number of the system.
        errno: u16,
    },
    /// Traffic control still has a reservation of a terminated daemon. Its bandwidth stays reserved until the flow is
    /// claimed, or until [`HostUpdate::AdoptedGone`].
    Adopted {
        /// Interface of the link.
        interface: InterfaceId,
        /// Flow of the reservation.
        flow: Flow,
        /// Reserved rate.
        rate: Rate,
        /// Protocol of the reservation, if known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        protocol: Option<Protocol>,
    },
    /// Traffic control has removed an adopted reservation that was not claimed.
    AdoptedGone {
        /// Interface of the link.
        interface: InterfaceId,
        /// Flow of the reservation.
        flow: Flow,
    },
}

/// Commands of a user.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// A call of an RSVP application.
    Rsvp(rsvp::Command),
    /// Answer the senders of a session automatically, by a policy.
    Listen(Listen),
    /// A command of a Boomerang initiator.
    Boomerang(boomerang::Command),
    /// A command of a YESSIR sender or receiver.
    Yessir(yessir::Command),
    /// A command of an NSIS application.
    Nsis(nsis::Command),
}

/// Events that a node reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "protocol", rename_all = "snake_case")]
pub enum Event {
    /// Event of RSVP.
    Rsvp(rsvp::Event),
    /// Event of Boomerang.
    Boomerang(boomerang::Event),
    /// Event of YESSIR.
    Yessir(yessir::Event),
    /// Event of NSIS.
    Nsis(nsis::Event),
    /// A receiver's policy cannot answer a sender.
    NoAnswer {
        /// Application of the receiver.
        application: rsvp::Application,
        /// Sender without an answer.
        template: SenderTemplate,
        /// Reason.
        reason: Unanswerable,
    },
    /// A reservation of a terminated daemon in traffic control cannot be kept; the driver should remove it.
    NotAdopted {
        /// Interface of the link.
        interface: InterfaceId,
        /// Flow of the reservation.
        flow: Flow,
        /// Reason.
        reason: String,
    },
    /// Enforcement of a reservation, or of all reservations of a link, has failed or is restored.
    Enforcement {
        /// Kind of change.
        change: EnforcementChange,
        /// Interface name of the link.
        interface: String,
        /// Flow of the reservation; `None` for all of the link.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        flow: Option<Flow>,
        /// Reason of the failure.
        reason: String,
    },
    /// An aggregate across a core has changed.
    Aggregate {
        /// Kind of change.
        change: AggregateChange,
        /// Far edge.
        to: IpAddr,
        /// Destinations behind the far edge.
        range: Prefix,
        /// Rate that the core has granted.
        granted: Rate,
        /// Total demand of the flows.
        need: Rate,
    },
}

/// Changes of a reservation's enforcement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnforcementChange {
    /// The kernel's state differed from the reservation.
    Unenforced,
    /// Traffic control was restored.
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
