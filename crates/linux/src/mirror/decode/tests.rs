//! Decoding of messages as the kernel sends them.

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
