//! What lies behind an interface: which peers it may replace.

use core::net::IpAddr;

use earmark_core::{Context, InterfaceId};

/// Returns whether a message through `arrival` may replace a peer at another interface: if it may concern that
/// interface, or if `end`, the end of the flow on the side of the peer, is behind `arrival` by the routes or settings
/// of this node.
pub(crate) fn may_replace(
    context: &Context<'_>,
    arrival: InterfaceId,
    at: InterfaceId,
    end: IpAddr,
) -> bool {
    context.may_concern(arrival, at) || has_behind(context, arrival, end)
}

/// Returns whether an address is behind an interface. Everything may be behind a core interface, so there the route
/// decides.
fn has_behind(context: &Context<'_>, interface: InterfaceId, address: IpAddr) -> bool {
    if context.is_core(interface) {
        return context.routes.leads_back(address, interface);
    }
    context.is_behind(address, interface)
}
