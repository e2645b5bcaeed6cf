//! The node: hands each input to whom it concerns.

use alloc::string::String;

use earmark_core::admission::ClaimId;
use earmark_core::{Datagram, Effects, Flow, Interface, InterfaceId, Rate, Route, Time};
use earmark_rsvp as rsvp;
use serde::{Deserialize, Serialize};

use crate::receiver::Listen;

/// Settings of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeConfig {
    /// Its name, for people.
    pub name: String,
    /// Where all its random streams start.
    pub seed: u64,
    /// Settings of RSVP.
    pub rsvp: rsvp::Config,
}

/// One thing that happens to a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Input<'a> {
    /// A message of IP protocol `.0` arrived.
    Datagram(u8, Datagram<'a>),
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
    /// A route is there.
    Route(Route),
    /// A route has gone.
    RouteGone(Route),
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
}

/// What a node reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "protocol", rename_all = "snake_case")]
pub enum Event {
    /// RSVP's.
    Rsvp(rsvp::Event),
}

impl From<rsvp::Event> for Event {
    fn from(event: rsvp::Event) -> Event {
        Event::Rsvp(event)
    }
}

/// One router or host.
#[derive(Debug)]
pub struct Node {}

impl Node {
    /// A node that knows no interface and no route yet.
    pub fn new(_config: NodeConfig) -> Node {
        Node {}
    }

    /// One input, all its consequences; see [`earmark_core::Engine`] for the contract.
    pub fn handle(&mut self, _now: Time, _input: Input<'_>, _out: &mut Effects<Event>) {}

    /// When [`Input::Expire`] is due next.
    pub fn next_deadline(&self) -> Option<Time> {
        None
    }
}
