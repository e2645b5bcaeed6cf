//! Connections that the kernel tracks: those of changed translations are forgotten, so that the translation that a
//! connection got with its first packet ends with its rule. (Linux: `net/netfilter/nf_conntrack_netlink.c`.)

use earmark_core::FilteredPackets;

use super::shape::octets;
use crate::netlink::{Connection, Message, NetlinkError};

/// `NFNL_SUBSYS_CTNETLINK`.
const SUBSYSTEM: u16 = 1;
/// `IPCTNL_MSG_CT_DELETE`.
const DELETE: u16 = 2;

/// Attributes of connections (`CTA_...`).
const TUPLE_ORIGINAL: u16 = 1;
const FILTER: u16 = 25;

/// Fields that a filter compares (`CTA_FILTER_F_...`).
const BY_SOURCE: u32 = 1;
const BY_DESTINATION: u32 = 1 << 1;
const BY_PROTOCOL: u32 = 1 << 3;
const BY_SOURCE_PORT: u32 = 1 << 4;
const BY_DESTINATION_PORT: u32 = 1 << 5;
const BY_ICMP_TYPE: u32 = 1 << 6;
const BY_ICMPV6_TYPE: u32 = 1 << 9;

/// Forgets the connections whose first packet is one of these: one by its key if all fields are given, else by a walk of the
/// kernel over all connections (Linux 6.10).
pub(super) fn forget(
    netlink: &mut Connection,
    packets: &FilteredPackets,
) -> Result<(), NetlinkError> {
    match netlink.request("end translated connections", delete(packets)) {
        Err(error) if error.is(libc::ENOENT) => Ok(()),
        outcome => outcome,
    }
}

fn delete(packets: &FilteredPackets) -> Message {
    let flow = &packets.flow;
    let ipv6 = flow.destination.is_ipv6();
    let family = if ipv6 { libc::AF_INET6 } else { libc::AF_INET };
    let (source, destination) = if ipv6 { (3, 4) } else { (1, 2) };
    let mut compared = BY_DESTINATION;
    let message = Message::new(SUBSYSTEM << 8 | DELETE, 0).fixed(&[family as u8, 0, 0, 0]);
    let message = message.nested(TUPLE_ORIGINAL, |m| {
        let m = m.nested(1, |mut m| {
            if let Some(address) = flow.source {
                compared |= BY_SOURCE;
                m = m.attribute(source, &octets(address));
            }
            m.attribute(destination, &octets(flow.destination))
        });
        if flow.protocol == 0 {
            return m;
        }
        m.nested(2, |m| {
            compared |= BY_PROTOCOL;
            let mut m = m.u8(1, flow.protocol);
            if flow.source_port != 0 {
                compared |= BY_SOURCE_PORT;
                m = m.be16(2, flow.source_port);
            }
            if flow.destination_port != 0 {
                compared |= BY_DESTINATION_PORT;
                m = m.be16(3, flow.destination_port);
            }
            match packets.icmp_type {
                Some(kind) if ipv6 => {
                    compared |= BY_ICMPV6_TYPE;
                    m.u8(8, kind)
                }
                Some(kind) => {
                    compared |= BY_ICMP_TYPE;
                    m.u8(5, kind)
                }
                None => m,
            }
        })
    });
    let is_whole = flow.source.is_some() && flow.source_port != 0 && flow.destination_port != 0;
    if is_whole { message } else { message.nested(FILTER, |m| m.u32(1, compared)) }
}
