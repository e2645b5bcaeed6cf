//! Inputs of an engine.

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::admission::{ClaimId, Displaced, Owner};
use crate::{FilterEvent, InterfaceId, Outgoing, Prefix, StreamEvent};

/// A received message of the engine's protocol, without its IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Datagram<'a> {
    /// Incoming interface.
    pub interface: InterfaceId,
    /// IP source address.
    pub source: IpAddr,
    /// IP destination address; not necessarily one of ours.
    pub destination: IpAddr,
    /// IP TTL or hop limit as received.
    pub ttl: u8,
    /// Whether the packet carried the router-alert option.
    pub router_alert: bool,
    /// Whether the packet was encapsulated in UDP (RFC 2205 appendix C).
    pub encapsulated: bool,
    /// The message.
    #[serde(serialize_with = "crate::octets::hexadecimal")]
    pub payload: &'a [u8],
}

impl Datagram<'_> {
    /// Returns how the message leaves if this node forwards it by the routes, unchanged but for its TTL.
    #[inline]
    pub const fn forwarded(&self, protocol: u8) -> Outgoing {
        Outgoing {
            router_alert: self.router_alert,
            ..Outgoing::new(protocol, self.source, self.destination, self.ttl.saturating_sub(1))
        }
    }
}

/// Events of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostEvent {
    /// Routes to these destinations may have changed; [`crate::Routes`] already returns the new ones.
    RouteChanged(Prefix),
    /// Routes of packets to a group may have changed; [`crate::Routes`] already returns the new ones.
    MulticastRouteChanged {
        /// The source; `None` for every source.
        source: Option<IpAddr>,
        /// The group.
        group: IpAddr,
    },
    /// An interface was added, removed, or changed its addresses or link; [`crate::Interfaces`] already shows it.
    InterfaceChanged(InterfaceId),
    /// Traffic control has refused an [`crate::Effect`]; the reservation is not installed.
    TrafficControlRefused {
        /// The claim.
        claim: ClaimId,
        /// Owner of the claim, also if its link was removed.
        owner: Owner,
        /// System error number, for the error message of the protocol.
        errno: u16,
    },
    /// Bandwidth was released, and a queued request is next; see [`crate::admission::Ledger::next_grantable`]. Its
    /// owner claims at once, or nobody does.
    Grantable {
        /// The link.
        interface: InterfaceId,
        /// Owner of the request.
        owner: Owner,
    },
    /// The ledger has displaced a claim for a more important one; see [`crate::admission::Ledger::next_displaced`].
    Displaced(Displaced),
    /// Traffic control has a reservation of an earlier run of this node, of the engine's protocol or of an unknown one, and
    /// the ledger holds its bandwidth until an engine claims it; see [`crate::admission::Ledger::adopt`].
    Adopted,
    /// The packet filter has refused a rule, or has one of an earlier run of this node.
    Filter(FilterEvent),
}

/// One input of an engine.
///
/// [`crate::record::RecordedInput`] is the owned form, with the same serialization; it can be deserialized as well.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Input<'a, C> {
    /// A message arrived.
    Datagram(Datagram<'a>),
    /// Something happened to a connection.
    Stream(StreamEvent<'a>),
    /// The deadline of [`crate::Engine::next_deadline`] has come.
    Expire,
    /// The host has changed.
    Host(HostEvent),
    /// A command of a user of this node.
    Command(C),
}

impl<'a, C> Input<'a, C> {
    /// Converts a command; other inputs stay as they are. `None` if the command is converted to nothing.
    #[inline]
    pub fn filter_map_command<D>(
        self,
        convert: impl FnOnce(C) -> Option<D>,
    ) -> Option<Input<'a, D>> {
        Some(match self {
            Input::Datagram(datagram) => Input::Datagram(datagram),
            Input::Stream(event) => Input::Stream(event),
            Input::Expire => Input::Expire,
            Input::Host(event) => Input::Host(event),
            Input::Command(command) => Input::Command(convert(command)?),
        })
    }
}
