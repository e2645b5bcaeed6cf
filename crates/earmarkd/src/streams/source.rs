//! Where connections come from, for limits on each source.

use std::net::{IpAddr, Ipv6Addr};

/// Connections from one source.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Share {
    pub(super) connections: usize,
    pub(super) half_open: usize,
}

/// The source that an address belongs to: the address itself for IPv4; for IPv6 its /64, from which a host may choose any.
pub(super) fn source(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(six) => Ipv6Addr::from_bits(six.to_bits() & !u128::from(u64::MAX)).into(),
    }
}
