//! What can happen to an engine.

use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::admission::{ClaimId, Displaced, Owner};
use crate::{InterfaceId, Prefix, StreamEvent};

/// A message of the engine's protocol that arrived, without its IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Datagram<'a> {
    /// Through which interface it came.
    pub interface: InterfaceId,
    /// IP source address.
    pub source: IpAddr,
    /// IP destination address; not necessarily one of ours.
    pub destination: IpAddr,
    /// IP TTL or hop limit as received.
    pub ttl: u8,
    /// Whether it carried the router-alert option.
    pub router_alert: bool,
    /// Whether it travelled in a UDP packet (RFC 2205 appendix C).
    pub encapsulated: bool,
    /// The message.
    #[serde(serialize_with = "crate::record::hexadecimal")]
    pub payload: &'a [u8],
}

/// What the host tells its engines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HostEvent {
    /// The way to these destinations may have changed; [`crate::Routes`] already answers anew.
    RouteChanged(Prefix),
    /// The way of packets to a group may have changed; [`crate::Routes`] already answers anew.
    MulticastRouteChanged {
        /// Of this source; `None` for every source.
        source: Option<IpAddr>,
        /// To this group.
        group: IpAddr,
    },
    /// An interface came, went, or changed its addresses or link; [`crate::Interfaces`] already shows it.
    InterfaceChanged(InterfaceId),
    /// Traffic control could not do what an [`crate::Effect`] asked for; the reservation is not in place.
    TrafficControlRefused {
        /// The claim behind it.
        claim: ClaimId,
        /// Whose it is, or was where the link has gone.
        owner: Owner,
        /// The system's error number, for the error message of the protocol.
        errno: u16,
    },
    /// Bandwidth was given back, and a request that waited for it is the next in line; see
    /// [`crate::admission::Ledger::next_grantable`]. Its owner claims at once, or nobody does.
    Grantable {
        /// Of which link.
        interface: InterfaceId,
        /// Who waited.
        owner: Owner,
    },
    /// The ledger has displaced a claim for the sake of a more important one; see
    /// [`crate::admission::Ledger::next_displaced`].
    Displaced(Displaced),
}

/// One thing that happens to an engine.
///
/// [`crate::record::RecordedInput`] is its owned twin: it is written alike, and can be read.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub enum Input<'a, C> {
    /// A message arrived.
    Datagram(Datagram<'a>),
    /// Something happened to a connection.
    Stream(StreamEvent<'a>),
    /// The deadline that [`crate::Engine::next_deadline`] named has come.
    Expire,
    /// The host has changed.
    Host(HostEvent),
    /// A user of this node wants something.
    Command(C),
}
