//! Inputs of a node: messages, changes of the host, commands.

use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::admission::{ClaimId, Protocol};
use earmark_core::{
    Datagram, FilterEvent, Flow, FlowAnswer, Interface, InterfaceId, MulticastRoute, Prefix, Rate,
    Route, StreamEvent,
};
use serde::{Deserialize, Serialize};

use crate::protocols::Command;

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
    /// [`Ledger::set_aside`](earmark_core::admission::Ledger::set_aside)), and may already be in use.
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
    /// The packet filter has refused a rule, or still has one of a terminated daemon.
    Filter(FilterEvent),
}
