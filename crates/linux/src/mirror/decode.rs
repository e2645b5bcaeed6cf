//! Decoding of links, addresses and routes (Linux: `rtnetlink.h`, `if_link.h`, `if_addr.h`).

use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use earmark_core::{Hop, InterfaceId, MulticastRoute, Prefix};

use crate::netlink::{Attribute, Attributes, NetlinkError, Received};

/// Octets of `struct ifinfomsg`.
const LINK_HEADER: usize = 16;
/// Octets of `struct ifaddrmsg`.
const ADDRESS_HEADER: usize = 8;
/// Octets of `struct rtmsg`.
pub(super) const ROUTE_HEADER: usize = 12;
/// Octets of `struct rtnexthop`.
const NEXT_HOP_HEADER: usize = 8;
/// Flags of an unusable next hop: its device is down (`RTNH_F_DEAD`), or has lost its carrier (`RTNH_F_LINKDOWN`).
pub(crate) const NEXT_HOP_UNUSABLE: u8 = 1 | 16;

/// Families of multicast forwarding entries (Linux: `rtnetlink.h`).
pub(super) const RTNL_FAMILY_IPMR: i32 = 128;
pub(super) const RTNL_FAMILY_IP6MR: i32 = 129;

/// A link, without its addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    pub(super) id: InterfaceId,
    pub(super) name: String,
    pub(super) mtu: u32,
    pub(super) up: bool,
}

impl Link {
    /// Decodes a link. `None` for messages about a link as a bridge port, which do not describe the link itself.
    pub(super) fn decode(message: &Received<'_>) -> Result<Option<Link>, NetlinkError> {
        let fixed = message.fixed(LINK_HEADER, "link")?;
        if fixed[0] != libc::AF_UNSPEC as u8 {
            return Ok(None);
        }
        let flags = u32_at(fixed, 8);
        let usable = (libc::IFF_UP | libc::IFF_RUNNING) as u32;
        let id = InterfaceId(u32_at(fixed, 4));
        let mut link = Link { id, name: String::new(), mtu: 0, up: flags & usable == usable };
        for attribute in message.attributes(LINK_HEADER) {
            let attribute = attribute?;
            match attribute.kind {
                libc::IFLA_IFNAME => link.name = attribute.text(),
                libc::IFLA_MTU => link.mtu = attribute.u32("MTU")?,
                _ => {}
            }
        }
        Ok(Some(link))
    }
}

/// An address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub(super) interface: InterfaceId,
    pub(super) address: IpAddr,
    /// `false` during duplicate address detection, and after it has found a duplicate.
    pub(super) usable: bool,
}

impl Address {
    pub(super) fn decode(message: &Received<'_>) -> Result<Option<Address>, NetlinkError> {
        let fixed = message.fixed(ADDRESS_HEADER, "address")?;
        let mut flags = u32::from(fixed[2]);
        let (mut local, mut address) = (None, None);
        for attribute in message.attributes(ADDRESS_HEADER) {
            let attribute = attribute?;
            match attribute.kind {
                libc::IFA_LOCAL => local = Some(ip_address(&attribute)?),
                libc::IFA_ADDRESS => address = Some(ip_address(&attribute)?),
                libc::IFA_FLAGS => flags = attribute.u32("address flags")?,
                _ => {}
            }
        }
        // On a point-to-point link the plain address is that of the other end.
        let Some(address) = local.or(address) else {
            return Ok(None);
        };
        let usable = flags & (libc::IFA_F_TENTATIVE | libc::IFA_F_DADFAILED) == 0;
        Ok(Some(Address { interface: InterfaceId(u32_at(fixed, 4)), address, usable }))
    }
}

/// Identity of a route in the kernel: everything except its next hops.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct RouteKey {
    pub(super) prefix: Prefix,
    pub(super) metric: u32,
    pub(super) table: u32,
    pub(super) type_of_service: u8,
}

/// Next hops of a route.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The first usable next hop; `None` if a nexthop object defines it.
    pub(super) hop: Option<Hop>,
    /// Whether there are several next hops, of which the kernel selects one for each flow.
    pub(super) several: bool,
    /// A hash of all next hops, their states and weights.
    pub(super) detail: u64,
    /// ID of the nexthop object that the route refers to.
    pub(super) object: Option<u32>,
    /// Preferred source address of the route.
    pub(super) source: Option<IpAddr>,
}

/// A route in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KernelRoute {
    pub(super) key: RouteKey,
    pub(super) target: Target,
}

/// Relevance of a route message for the mirror.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decoded {
    /// A route that is mirrored.
    Kept(KernelRoute),
    /// A route to these destinations, in that table, that matters under policy rules only, or that leads to no single
    /// interface (`unreachable` and similar types).
    Other(Prefix, u32),
    /// A route that is not for unicast packets, or a cached one.
    Ignored,
}

impl KernelRoute {
    /// Decodes the route of a message; only the tables main and local are kept.
    pub(super) fn decode(message: &Received<'_>) -> Result<Decoded, NetlinkError> {
        let fixed = message.fixed(ROUTE_HEADER, "route")?;
        let (family, length, type_of_service) = (fixed[0], fixed[1], fixed[3]);
        let (route_type, flags) = (fixed[7], u32_at(fixed, 8));
        let unspecified = match i32::from(family) {
            libc::AF_INET => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            libc::AF_INET6 => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
            _ => return Ok(Decoded::Ignored),
        };
        let (mut destination, mut table, mut metric) = (unspecified, u32::from(fixed[4]), 0);
        let (mut interface, mut gateway, mut source, mut paths) = (None, None, None, None);
        let (mut object, mut detail) = (None, DefaultHasher::new());
        for attribute in message.attributes(ROUTE_HEADER) {
            let attribute = attribute?;
            match attribute.kind {
                libc::RTA_DST => destination = ip_address(&attribute)?,
                libc::RTA_TABLE => table = attribute.u32("table")?,
                libc::RTA_PRIORITY => metric = attribute.u32("metric")?,
                libc::RTA_OIF => interface = Some(InterfaceId(attribute.u32("interface")?)),
                libc::RTA_GATEWAY => gateway = Some(ip_address(&attribute)?),
                libc::RTA_VIA => gateway = via(&attribute)?,
                libc::RTA_PREFSRC => source = Some(ip_address(&attribute)?),
                libc::RTA_MULTIPATH => {
                    attribute.value.hash(&mut detail);
                    paths = Some(usable_path(&attribute)?);
                }
                RTA_NH_ID => object = Some(attribute.u32("nexthop id")?),
                _ => {}
            }
        }
        let ours = matches!(table as u8, libc::RT_TABLE_MAIN | libc::RT_TABLE_LOCAL) && table < 256;
        let kept = matches!(route_type, libc::RTN_UNICAST | libc::RTN_LOCAL);
        let prefix = Prefix::new(destination, length);
        if flags & libc::RTM_F_CLONED != 0 || !decides(route_type) {
            return Ok(Decoded::Ignored);
        }
        if !ours || !kept {
            return Ok(Decoded::Other(prefix, table));
        }
        let first = paths.flatten().or(interface.map(|interface| (interface, gateway)));
        let hop = first.map(|(interface, gateway)| Hop { interface, gateway, source });
        if hop.is_none() && object.is_none() {
            return Ok(Decoded::Ignored);
        }
        let key = RouteKey { prefix, metric, table, type_of_service };
        let (several, detail) = (paths.is_some(), detail.finish());
        Ok(Decoded::Kept(KernelRoute {
            key,
            target: Target { hop, several, detail, object, source },
        }))
    }
}

/// Decodes the kernel's answer to a query for one route: the destination prefix, and the hop, if it names an interface.
/// `None` for messages of another kind.
pub(crate) fn route_answer(
    message: &Received<'_>,
) -> Result<Option<(Prefix, Option<Hop>)>, NetlinkError> {
    if message.kind != libc::RTM_NEWROUTE {
        return Ok(None);
    }
    let fixed = message.fixed(ROUTE_HEADER, "route")?;
    let (mut destination, length) = (None, fixed[1]);
    let (mut interface, mut gateway, mut source) = (None, None, None);
    for attribute in message.attributes(ROUTE_HEADER) {
        let attribute = attribute?;
        match attribute.kind {
            libc::RTA_DST => destination = Some(ip_address(&attribute)?),
            libc::RTA_OIF => interface = Some(InterfaceId(attribute.u32("interface")?)),
            libc::RTA_GATEWAY => gateway = Some(ip_address(&attribute)?),
            libc::RTA_VIA => gateway = via(&attribute)?,
            libc::RTA_PREFSRC => source = Some(ip_address(&attribute)?),
            _ => {}
        }
    }
    let Some(destination) = destination else { return Ok(None) };
    let hop = interface.map(|interface| Hop { interface, gateway, source });
    Ok(Some((Prefix::new(destination, length), hop)))
}

/// ID of a nexthop object (Linux 5.3).
const RTA_NH_ID: u16 = 30;

/// Whether routes of a type apply to packets for other hosts.
fn decides(route_type: u8) -> bool {
    matches!(
        route_type,
        libc::RTN_UNICAST
            | libc::RTN_LOCAL
            | libc::RTN_BLACKHOLE
            | libc::RTN_UNREACHABLE
            | libc::RTN_PROHIBIT
            | libc::RTN_THROW
    )
}

/// Decodes a multicast forwarding entry (`RTNL_FAMILY_IPMR` and `RTNL_FAMILY_IP6MR`).
///
/// `None` for messages about other routes, entries of other tables than the default one, and those for every group. An
/// unresolved entry, where packets wait for a decision of a routing daemon, has no outgoing interfaces.
pub(super) fn multicast_route(
    message: &Received<'_>,
) -> Result<Option<MulticastRoute>, NetlinkError> {
    let fixed = message.fixed(ROUTE_HEADER, "multicast route")?;
    let (unspecified, default_table) = match i32::from(fixed[0]) {
        RTNL_FAMILY_IPMR => (IpAddr::V4(Ipv4Addr::UNSPECIFIED), libc::RT_TABLE_DEFAULT),
        RTNL_FAMILY_IP6MR => (IpAddr::V6(Ipv6Addr::UNSPECIFIED), libc::RT_TABLE_MAIN),
        _ => return Ok(None),
    };
    let mut table = u32::from(fixed[4]);
    let (mut source, mut group) = (unspecified, unspecified);
    let (mut incoming, mut outgoing) = (None, Vec::new());
    for attribute in message.attributes(ROUTE_HEADER) {
        let attribute = attribute?;
        match attribute.kind {
            libc::RTA_TABLE => table = attribute.u32("table")?,
            libc::RTA_SRC => source = ip_address(&attribute)?,
            libc::RTA_DST => group = ip_address(&attribute)?,
            libc::RTA_IIF => incoming = Some(InterfaceId(attribute.u32("incoming interface")?)),
            libc::RTA_MULTIPATH => outgoing = interfaces(&attribute)?,
            _ => {}
        }
    }
    if table != u32::from(default_table) || group == unspecified {
        return Ok(None);
    }
    let source = (source != unspecified).then_some(source);
    Ok(Some(MulticastRoute { source, group, incoming, outgoing }))
}

/// Returns the interfaces of all next hops, in ascending order.
fn interfaces(paths: &Attribute<'_>) -> Result<Vec<InterfaceId>, NetlinkError> {
    let mut interfaces = Vec::new();
    let mut rest = paths.value;
    while let Some((header, _, after)) =
        next_hop(rest).ok_or_else(|| paths.malformed("next hop"))?
    {
        interfaces.push(InterfaceId(u32_at(header, 4)));
        rest = after;
    }
    interfaces.sort_unstable();
    interfaces.dedup();
    Ok(interfaces)
}

/// A next hop at the start of a list: its header, its attributes, and the rest of the list. Inner `None` at the end of
/// the list, outer `None` if its length is invalid.
pub(crate) type NextHop<'a> = (&'a [u8; NEXT_HOP_HEADER], &'a [u8], &'a [u8]);

pub(crate) fn next_hop(list: &[u8]) -> Option<Option<NextHop<'_>>> {
    let Some(header) = list.first_chunk::<NEXT_HOP_HEADER>() else {
        return Some(None);
    };
    let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
    let attributes = list.get(NEXT_HOP_HEADER..length)?;
    Some(Some((header, attributes, &list[length.next_multiple_of(4).min(list.len())..])))
}

/// Returns the gateway among the attributes of a next hop.
pub(crate) fn gateway_in(attributes: &[u8]) -> Result<Option<IpAddr>, NetlinkError> {
    let mut gateway = None;
    for attribute in Attributes::new(attributes) {
        let attribute = attribute?;
        match attribute.kind {
            libc::RTA_GATEWAY => gateway = Some(ip_address(&attribute)?),
            libc::RTA_VIA => gateway = via(&attribute)?,
            _ => {}
        }
    }
    Ok(gateway)
}

/// Returns the first usable next hop of a route with several, else its first. Only the kernel knows the one of a flow.
fn usable_path(
    paths: &Attribute<'_>,
) -> Result<Option<(InterfaceId, Option<IpAddr>)>, NetlinkError> {
    let mut first = None;
    let mut rest = paths.value;
    while let Some((header, attributes, after)) =
        next_hop(rest).ok_or_else(|| paths.malformed("next hop"))?
    {
        let gateway = gateway_in(attributes)?;
        let path = (InterfaceId(u32_at(header, 4)), gateway);
        if header[2] & NEXT_HOP_UNUSABLE == 0 {
            return Ok(Some(path));
        }
        first = first.or(Some(path));
        rest = after;
    }
    Ok(first)
}

/// Decodes a gateway of another family than the route (`struct rtvia`): the family in two octets, then the address.
pub(crate) fn via(attribute: &Attribute<'_>) -> Result<Option<IpAddr>, NetlinkError> {
    let malformed = || attribute.malformed("gateway");
    let (family, address) = attribute.value.split_first_chunk().ok_or_else(malformed)?;
    match i32::from(u16::from_ne_bytes(*family)) {
        libc::AF_INET | libc::AF_INET6 => {
            octets_to_address(address).ok_or_else(malformed).map(Some)
        }
        _ => Ok(None),
    }
}

pub(crate) fn ip_address(attribute: &Attribute<'_>) -> Result<IpAddr, NetlinkError> {
    octets_to_address(attribute.value).ok_or_else(|| attribute.malformed("IP address"))
}

fn octets_to_address(octets: &[u8]) -> Option<IpAddr> {
    match octets.len() {
        4 => <[u8; 4]>::try_from(octets).ok().map(IpAddr::from),
        16 => <[u8; 16]>::try_from(octets).ok().map(IpAddr::from),
        _ => None,
    }
}

/// Reads the number at an offset that the caller has checked.
fn u32_at(octets: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([octets[at], octets[at + 1], octets[at + 2], octets[at + 3]])
}

#[cfg(test)]
mod tests;
