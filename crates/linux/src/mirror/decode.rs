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
mod tests {
    use super::*;
    use crate::netlink::{Message, Messages};

    fn decoded(flags: [u8; 12], attributes: impl FnOnce(Message) -> Message) -> Decoded {
        let octets = attributes(Message::new(libc::RTM_NEWROUTE, 0).fixed(&flags)).finish(0);
        let message = Messages::new(&octets).next().expect("one").expect("well-formed");
        KernelRoute::decode(&message).expect("well-formed")
    }

    fn route(attributes: impl FnOnce(Message) -> Message) -> (RouteKey, Target, Hop) {
        let Decoded::Kept(KernelRoute { key, target }) = decoded(UNICAST, attributes) else {
            panic!("not kept")
        };
        (key, target, target.hop.expect("a hop"))
    }

    const UNICAST: [u8; 12] =
        [libc::AF_INET as u8, 24, 0, 0, libc::RT_TABLE_MAIN, 3, 0, libc::RTN_UNICAST, 0, 0, 0, 0];

    #[test]
    fn route_through_gateway_is_decoded() {
        let (key, target, hop) = route(|m| {
            m.attribute(libc::RTA_DST, &[10, 1, 2, 0])
                .attribute(libc::RTA_GATEWAY, &[10, 0, 0, 2])
                .u32(libc::RTA_OIF, 7)
                .u32(libc::RTA_PRIORITY, 100)
        });
        assert_eq!(key.prefix, "10.1.2.0/24".parse().expect("a prefix"));
        assert_eq!(key.metric, 100);
        assert!(!target.several);
        assert_eq!(hop.interface, InterfaceId(7));
        assert_eq!(hop.gateway, Some(IpAddr::from([10, 0, 0, 2])));
    }

    /// Of two next hops the first is dead: the second is used.
    #[test]
    fn first_usable_next_hop_is_used() {
        let mut paths = Vec::new();
        for (flags, index, gateway) in [(1_u8, 4_u32, 1_u8), (0, 5, 2)] {
            paths.extend([16, 0, flags, 0]);
            paths.extend(index.to_ne_bytes());
            paths.extend([8, 0, libc::RTA_GATEWAY as u8, 0, 10, 0, 0, gateway]);
        }
        let (_, target, hop) = route(|m| m.attribute(libc::RTA_MULTIPATH, &paths));
        assert!(target.several);
        assert_eq!(hop.interface, InterfaceId(5));
        assert_eq!(hop.gateway, Some(IpAddr::from([10, 0, 0, 2])));
        paths[2] = 0;
        let (_, revived, _) = route(|m| m.attribute(libc::RTA_MULTIPATH, &paths));
        assert_ne!(revived.detail, target.detail);
    }

    /// (S, G) with two branches, and (*, G) without any yet.
    #[test]
    fn multicast_entry_has_its_outgoing_interfaces() {
        let mut fixed = UNICAST;
        (fixed[0], fixed[4]) = (RTNL_FAMILY_IPMR as u8, libc::RT_TABLE_DEFAULT);
        let mut paths = Vec::new();
        for index in [9_u32, 4] {
            paths.extend([8, 0, 0, 1]);
            paths.extend(index.to_ne_bytes());
        }
        let decode = |attributes: &dyn Fn(Message) -> Message| {
            let message = Message::new(libc::RTM_NEWROUTE, 0).fixed(&fixed);
            let octets = attributes(message.attribute(libc::RTA_DST, &[239, 1, 1, 1])).finish(0);
            let message = Messages::new(&octets).next().expect("one").expect("well-formed");
            multicast_route(&message)
        };
        let group = IpAddr::from([239, 1, 1, 1]);
        let branches = decode(&|m| {
            m.attribute(libc::RTA_SRC, &[10, 0, 0, 1])
                .u32(libc::RTA_IIF, 7)
                .attribute(libc::RTA_MULTIPATH, &paths)
        });
        let expected = MulticastRoute {
            source: Some([10, 0, 0, 1].into()),
            group,
            incoming: Some(InterfaceId(7)),
            outgoing: vec![InterfaceId(4), InterfaceId(9)],
        };
        assert_eq!(branches.expect("well-formed"), Some(expected));
        let nowhere = decode(&|m| m.attribute(libc::RTA_SRC, &[0; 4])).expect("well-formed");
        let expected = MulticastRoute { source: None, group, incoming: None, outgoing: Vec::new() };
        assert_eq!(nowhere, Some(expected));
        assert_eq!(decode(&|m| m.u32(libc::RTA_TABLE, 100)).expect("well-formed"), None);
        assert!(decode(&|m| m.attribute(libc::RTA_MULTIPATH, &[7, 0, 0, 0, 1, 0, 0, 0])).is_err());
        assert!(decode(&|m| m.attribute(libc::RTA_MULTIPATH, &[9, 0, 0, 0, 1, 0, 0, 0])).is_err());
    }

    #[test]
    fn other_tables_and_unreachable_routes_are_not_kept() {
        let everything = |table| Decoded::Other(Prefix::new([0, 0, 0, 0].into(), 24), table);
        let mut other = UNICAST;
        other[4] = 100;
        assert_eq!(decoded(other, |m| m.u32(libc::RTA_OIF, 7)), everything(100));
        let mut unreachable = UNICAST;
        unreachable[7] = libc::RTN_UNREACHABLE;
        assert_eq!(decoded(unreachable, |m| m.u32(libc::RTA_OIF, 7)), everything(254));
        // Table 0x1fe equals main in its lowest octet only.
        let not_main = decoded(UNICAST, |m| m.u32(libc::RTA_OIF, 7).u32(libc::RTA_TABLE, 0x1fe));
        assert_eq!(not_main, everything(0x1fe));
        let mut broadcast = UNICAST;
        broadcast[7] = libc::RTN_BROADCAST;
        assert_eq!(decoded(broadcast, |m| m.u32(libc::RTA_OIF, 7)), Decoded::Ignored);
    }

    #[test]
    fn route_with_only_a_nexthop_object_is_decoded() {
        let Decoded::Kept(route) = decoded(UNICAST, |m| m.u32(RTA_NH_ID, 10)) else {
            panic!("not kept")
        };
        assert_eq!((route.target.object, route.target.hop), (Some(10), None));
    }

    /// A newer kernel may send other content: cut at any length, and with each bit flipped, a message of each kind is
    /// decoded, ignored, or refused with the offset of the error.
    #[test]
    fn malformed_message_is_refused_with_its_offset() {
        let hop = [16, 0, 0, 0, 5, 0, 0, 0, 8, 0, libc::RTA_GATEWAY as u8, 0, 10, 0, 0, 2];
        let via = [libc::AF_INET as u8, 0, 10, 0, 0, 3];
        let route = |fixed: &[u8; 12]| {
            Message::new(libc::RTM_NEWROUTE, 0)
                .fixed(fixed)
                .attribute(libc::RTA_DST, &[10, 1, 2, 0])
                .attribute(libc::RTA_SRC, &[10, 0, 0, 1])
                .attribute(libc::RTA_VIA, &via)
                .u32(libc::RTA_OIF, 7)
                .u32(libc::RTA_IIF, 8)
                .attribute(libc::RTA_MULTIPATH, &hop)
        };
        let mut multicast = UNICAST;
        (multicast[0], multicast[4]) = (RTNL_FAMILY_IPMR as u8, libc::RT_TABLE_DEFAULT);
        let link = Message::new(libc::RTM_NEWLINK, 0).fixed(&[0; LINK_HEADER]);
        let link = link.text(libc::IFLA_IFNAME, "eth0").u32(libc::IFLA_MTU, 1_500);
        let address = Message::new(libc::RTM_NEWADDR, 0).fixed(&[2, 24, 0, 0, 7, 0, 0, 0]);
        let address = address.attribute(libc::IFA_LOCAL, &[10, 0, 0, 1]).u32(libc::IFA_FLAGS, 128);
        let mut refused = 0;
        for message in [route(&UNICAST), route(&multicast), link, address] {
            let valid = message.finish(0);
            refused += try_all(&valid);
            for cut in 0..valid.len() {
                // Once as if the kernel had sent no more, once as if the rest had been lost.
                let mut short = valid[..cut].to_vec();
                refused += try_all(&short);
                if cut >= 4 {
                    short[..4].copy_from_slice(&(cut as u32).to_ne_bytes());
                    refused += try_all(&short);
                }
            }
            for bit in 0..valid.len() * 8 {
                let mut changed = valid.clone();
                changed[bit / 8] ^= 1 << (bit % 8);
                refused += try_all(&changed);
            }
        }
        assert!(refused > 500, "{refused}");
    }

    /// Decodes messages as every possible kind; returns how often that was refused.
    fn try_all(octets: &[u8]) -> usize {
        let mut refused = 0;
        let mut note = |error: Option<NetlinkError>| {
            if let Some(error) = error {
                let NetlinkError::Malformed { offset, .. } = error else { panic!("{error}") };
                assert!(offset <= octets.len(), "{error}");
                refused += 1;
            }
        };
        for message in Messages::new(octets) {
            match message {
                Ok(message) => {
                    note(Link::decode(&message).err());
                    note(Address::decode(&message).err());
                    note(KernelRoute::decode(&message).err());
                    note(route_answer(&message).err());
                    note(super::super::next_hops::NextHopObject::decode(&message).err());
                    note(super::super::rules::default_table(&message).err());
                    note(multicast_route(&message).err());
                }
                Err(error) => note(Some(error)),
            }
        }
        refused
    }
}
