//! Interface of a node: settings, inputs, commands, events.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_boomerang as boomerang;
use earmark_core::admission::{ClaimId, Protocol};
use earmark_core::outcome::Outcome;
use earmark_core::{
    Datagram, Flow, FlowAnswer, Interface, InterfaceId, MulticastRoute, Prefix, Rate, Route,
    StreamEvent,
};
use earmark_nsis as nsis;
use earmark_rsvp as rsvp;
use earmark_wire::rsvp::SenderTemplate;
use earmark_yessir as yessir;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::edge::AggregateChange;
use crate::protocols::rsvp::receiver::{Listen, Unanswerable};

/// An input of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Input<'a> {
    /// A received message of IP protocol `.0`; of UDP with its header.
    Datagram(u8, Datagram<'a>),
    /// A connection has changed.
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
    #[serde(rename = "Lent")]
    Delegated {
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
    /// A command for an engine that a program adds.
    Other(OtherCommand),
}

impl Command {
    /// Returns the name of the protocol whose engine carries out the command.
    pub fn protocol(&self) -> &str {
        match self {
            Command::Rsvp(_) | Command::Listen(_) => "rsvp",
            Command::Boomerang(_) => "boomerang",
            Command::Yessir(_) => "yessir",
            Command::Nsis(_) => "nsis",
            Command::Other(other) => &other.name,
        }
    }
}

/// A command for an engine that a program adds to the node; see [`crate::Engines`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OtherCommand {
    /// Name of the protocol.
    pub name: String,
    /// The command in the engine's own form.
    pub command: Value,
}

/// An event of an engine that a program adds to the node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OtherEvent {
    /// Name of the protocol.
    pub name: String,
    /// Application that the event concerns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub application: Option<u64>,
    /// Outcome of the application's request after the event; `None` if the event does not affect it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Box<Outcome>>,
    /// The event in the engine's own form.
    pub event: Value,
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
    /// Event of an engine that a program adds.
    Other(OtherEvent),
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

impl From<OtherEvent> for Event {
    fn from(event: OtherEvent) -> Event {
        Event::Other(event)
    }
}
