//! Changes of the kernel's interfaces and routes, as a mirror reports them.

use std::net::IpAddr;

use earmark_core::{InterfaceId, MulticastRoute, Prefix, Route};

/// An interface in the kernel, without bandwidth and other values that the caller knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceState {
    /// Interface index.
    pub id: InterfaceId,
    /// Interface name.
    pub name: String,
    /// Usable addresses, the primary one first: of IPv4 in the kernel's order, then of IPv6, link-local ones last.
    pub addresses: Vec<IpAddr>,
    /// Largest IP packet, octets.
    pub mtu: u32,
    /// Whether packets can leave through it: administratively up, and with a carrier.
    pub up: bool,
}

/// One change of the kernel's state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// An interface is new, or has changed to this.
    Interface(InterfaceState),
    /// An interface was deleted.
    InterfaceGone(InterfaceId),
    /// A route was added. A changed route is first removed, then added.
    Route(Route),
    /// A route was removed; the value equals the one reported before.
    RouteGone(Route),
    /// A multicast forwarding entry is new, or has changed to this.
    MulticastRoute(MulticastRoute),
    /// A multicast forwarding entry was removed.
    MulticastRouteGone {
        /// Source; `None` for every source.
        source: Option<IpAddr>,
        /// Group.
        group: IpAddr,
    },
    /// A prefix now has a route with several next hops, of which the kernel selects one for each flow; or has none any
    /// more; or the next hops have changed.
    NextHops {
        /// Destinations.
        prefix: Prefix,
        /// Whether there are several next hops.
        several: bool,
    },
    /// Policy rules now select other tables than main and local, or no longer; or their content has changed.
    Rules {
        /// Whether the rules are for IPv6 instead of IPv4.
        ipv6: bool,
        /// Whether the rules select other tables.
        apply: bool,
    },
    /// Flows to these destinations may take other next hops than before.
    FlowRoutes(Prefix),
    /// The whole mirror was compared with the kernel; the updates before this one have corrected it.
    Resynced,
}
