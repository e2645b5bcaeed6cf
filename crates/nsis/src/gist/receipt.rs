//! How a message was received.

use core::net::IpAddr;

use earmark_core::InterfaceId;
use earmark_wire::gist::{Direction, Mri, PathCoupled};

use super::prefix_form::PrefixForm;
use super::state::Index;
use crate::nslp::Channel;

/// How a message was received.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receipt<'a> {
    /// The whole message, from its common header on.
    pub(crate) octets: &'a [u8],
    /// Incoming interface; for an association, the one that leads to the peer.
    pub(crate) interface: InterfaceId,
    /// IP source.
    pub(crate) source: IpAddr,
    /// UDP source port.
    pub(crate) source_port: u16,
    /// IP destination.
    pub(crate) destination: IpAddr,
    /// IP TTL; `None` over an association.
    pub(crate) ttl: Option<u8>,
    /// Association that carried the message; `NONE` for a datagram.
    pub(crate) association: Index,
    /// The channel that carried the message, as applications see it.
    pub(crate) channel: Channel,
    /// Whether the IP source is that of the peer.
    pub(crate) source_is_peer: bool,
    /// Whether the sender has marked the message as explicitly routed (E-flag).
    pub(crate) explicitly_routed: bool,
    /// NSLPID of the application.
    pub(crate) nslpid: u16,
    /// How the sender writes the prefixes of the flow.
    pub(crate) prefix_form: PrefixForm,
    /// The flow as the upstream side knows it, if this node translates its addresses.
    pub(crate) upstream: Option<PathCoupled>,
    /// GIST hop count, already decremented by this node.
    pub(crate) hops: u8,
}

impl Receipt<'_> {
    /// Returns whether the message is a datagram that no router has forwarded: its TTL is the largest (RFC 5082).
    pub(crate) fn is_from_this_link(&self) -> bool {
        self.ttl == Some(u8::MAX)
    }

    /// Returns an MRI of the flow as the peer on the side that it leads to names it.
    #[inline]
    pub(crate) fn peer_form(&self, mri: Mri) -> Mri {
        match &self.upstream {
            Some(flow) if mri.direction() == Direction::Upstream => {
                Mri::PathCoupled(PathCoupled { direction: Direction::Upstream, ..*flow })
            }
            _ => mri,
        }
    }

    /// Returns the IP hops from the sender of a message (RFC 5971 section 5.2.2): downstream the TTL that the packet
    /// has lost, upstream the distance that the peer has found. A neighbor on the same link has distance 1; its packets
    /// lose no TTL.
    pub(crate) fn ip_distance(&self, direction: Direction, ip_ttl: u8) -> Option<u8> {
        match direction {
            _ if ip_ttl == 0 => None,
            Direction::Downstream => {
                self.ttl.map(|ttl| ip_ttl.saturating_sub(ttl).saturating_add(1))
            }
            Direction::Upstream => Some(ip_ttl),
        }
    }
}
