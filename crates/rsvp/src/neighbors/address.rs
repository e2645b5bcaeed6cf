//! Addresses of nodes in messages.

use core::net::{IpAddr, Ipv4Addr};

use earmark_core::Context;

/// Returns whether an address can belong to a neighbour: unicast, specified, and not local.
#[inline]
pub(crate) fn is_neighbor(context: &Context<'_>, address: IpAddr) -> bool {
    is_unicast(address) && !context.interfaces.is_local(address)
}

/// Returns whether an address is a unicast address of one node.
#[inline]
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    !address.is_unspecified()
        && !address.is_multicast()
        && !address.is_loopback()
        && address != IpAddr::V4(Ipv4Addr::BROADCAST)
}
