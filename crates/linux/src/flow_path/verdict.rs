//! What the kernel does with packets, by which next hop, and by which rule.

use std::net::IpAddr;

use earmark_core::{Hop, InterfaceId};

/// What the kernel does with the packets of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Packets leave by this hop.
    Forwarded(Hop),
    /// Packets are delivered to this host.
    Local,
    /// Packets are broadcast on a link.
    Broadcast(InterfaceId),
    /// No route matches.
    NoRoute,
    /// A route or rule of type `unreachable` matches.
    Unreachable,
    /// A route or rule of type `prohibit` matches.
    Prohibited,
    /// A route or rule of type `blackhole` matches, or the source or destination is invalid for any packet.
    Blackhole,
    /// The reverse path filter drops the packets: their source must not use this incoming interface.
    WrongInterface,
    /// Forwarding is off on the incoming interface.
    NotForwarded,
}

/// A next hop of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextHop {
    /// Outgoing interface.
    pub interface: InterfaceId,
    /// The router on the link; `None` if the destination itself is on the link.
    pub gateway: Option<IpAddr>,
    /// Share of the flows, relative to the weights of the other next hops.
    pub weight: u32,
    /// Whether packets can currently leave by it.
    pub usable: bool,
}

/// The policy rule that selects the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MatchedRule {
    /// Priority.
    pub priority: u32,
    /// Selector, in the format of `ip rule`: `from 10.0.1.0/24 iif eth0`.
    pub selector: String,
    /// Action: `lookup 200`, `unreachable`.
    pub action: String,
    /// `false` if another rule may have matched, because its selector cannot be evaluated here.
    pub is_certain: bool,
}
