//! Where the data of a session passes this node: into the network, out of it, or within.

use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use earmark_core::{Context, InterfaceId, Prefix};

use super::config::{Config, Translator};
use crate::nslp::HandlerContext;

/// Private addresses, which are translated by default: RFC 1918 section 3 and RFC 6598 section 7.
const PRIVATE: [(Ipv4Addr, u8); 4] = [
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(100, 64, 0, 0), 10),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
];

/// Direction in which something crosses the border of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Crossing {
    /// Not at all.
    Within,
    /// Out of the network.
    Outward,
    /// Into the network.
    Inward,
}

impl Config {
    /// Returns whether an interface leads out of the network.
    pub(super) fn is_external(&self, context: &Context<'_>, interface: InterfaceId) -> bool {
        let link = context.interfaces.by_id(interface);
        link.is_some_and(|link| self.external.contains(&link.name))
    }

    /// Returns the crossing between two interfaces; `None` stands for this node itself, which is within the network.
    pub(super) fn crossing(
        &self,
        cx: &HandlerContext<'_, '_>,
        arrival: Option<InterfaceId>,
        outgoing: InterfaceId,
    ) -> Crossing {
        let comes_from_outside =
            arrival.is_some_and(|arrival| self.is_external(cx.context, arrival));
        match (comes_from_outside, self.is_external(cx.context, outgoing)) {
            (false, true) => Crossing::Outward,
            (true, false) => Crossing::Inward,
            _ => Crossing::Within,
        }
    }
}

impl Translator {
    /// Returns whether packets from an address are translated when they leave the network.
    pub(super) fn translates(&self, source: IpAddr) -> bool {
        if source.is_ipv6() {
            return false;
        }
        match self.sources.as_slice() {
            [] => PRIVATE
                .iter()
                .any(|&(range, length)| Prefix::new(range.into(), length).contains(source)),
            sources => sources.iter().any(|range| range.contains(source)),
        }
    }

    /// Returns the external addresses of packets that pass an external interface.
    pub(super) fn addresses_of(
        &self,
        cx: &HandlerContext<'_, '_>,
        external: InterfaceId,
    ) -> Vec<Ipv4Addr> {
        if !self.addresses.is_empty() {
            return self.addresses.clone();
        }
        let link = cx.context.interfaces.by_id(external);
        let addresses = link.into_iter().flat_map(|link| &link.addresses);
        let ipv4 = addresses.filter_map(|address| match address {
            IpAddr::V4(address) if !address.is_link_local() => Some(*address),
            _ => None,
        });
        ipv4.collect()
    }

    /// Returns whether an address is one of the external ones.
    pub(super) fn has_address(
        &self,
        cx: &HandlerContext<'_, '_>,
        external: InterfaceId,
        address: IpAddr,
    ) -> bool {
        self.addresses_of(cx, external).iter().any(|own| IpAddr::V4(*own) == address)
    }
}
