//! The origin of a message: its sender, and the channel that carried it.
//!
//! GIST determines the origin once for each message, from what it has verified, and applications receive it with the
//! message. What the objects of a message claim is no part of it.

use earmark_core::InterfaceId;

use super::message::{Attributes, PeerHandle};

/// Sender of a message, and the channel that carried it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The verified sender: the peer of the routing state or of the association; `None` for a Query, and for a message
    /// without routing state.
    pub peer: Option<PeerHandle>,
    /// The channel.
    pub channel: Channel,
}

/// How a message was carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Channel {
    /// A datagram.
    Datagram {
        /// Interface through which it arrived.
        interface: InterfaceId,
        /// Encapsulation of the message.
        encapsulation: Encapsulation,
    },
    /// A messaging association.
    Association {
        /// The association.
        id: AssociationId,
        /// Whether the association is encrypted and its peer authenticated.
        secured: bool,
    },
}

/// Encapsulation of a message in a datagram (RFC 5971 sections 5.3 and 7.1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encapsulation {
    /// Q-mode: routed like a packet of the flow.
    Query,
    /// Normal: sent to the peer of the routing state.
    Normal,
    /// Normal, with the E-flag: sent to a peer whatever the routing state.
    ExplicitlyRouted,
}

/// A messaging association of this node; the number is used again after the association was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssociationId(pub u32);

impl Origin {
    /// Creates the origin of a message in a datagram with the normal encapsulation.
    pub const fn datagram(peer: Option<PeerHandle>, interface: InterfaceId) -> Origin {
        let encapsulation = Encapsulation::Normal;
        Origin { peer, channel: Channel::Datagram { interface, encapsulation } }
    }
}

impl Channel {
    /// Returns whether the channel is encrypted and its peer authenticated.
    #[inline]
    pub const fn is_secured(self) -> bool {
        matches!(self, Channel::Association { secured: true, .. })
    }

    /// Returns whether the channel is an association.
    #[inline]
    pub const fn is_association(self) -> bool {
        matches!(self, Channel::Association { .. })
    }

    /// Returns the transfer attributes that the channel provides.
    #[inline]
    pub const fn attributes(self) -> Attributes {
        Attributes { reliable: self.is_association(), secure: self.is_secured() }
    }
}
