//! Connections that the kernel tracks: those of changed translations are forgotten, so that the translation that a
//! connection got with its first packet ends with its rule. (Linux: `net/netfilter/nf_conntrack_netlink.c`.)

use std::net::IpAddr;

use earmark_core::FilteredPackets;

use super::answers::find;
use super::messages::HEADER;
use super::shape::{address, octets};
use crate::netlink::{Attribute, Connection, Message, NetlinkError};

/// `NFNL_SUBSYS_CTNETLINK`.
const SUBSYSTEM: u16 = 1;
/// `IPCTNL_MSG_CT_GET` and `IPCTNL_MSG_CT_DELETE`.
const GET: u16 = 1;
const DELETE: u16 = 2;

/// Flag of nested attributes, which the kernel requires of some here.
const NESTED: u16 = 1 << 15;
/// Attributes of connections (`CTA_...`).
const ORIGINAL: u16 = 1;
const ID: u16 = 12;
const ZONE: u16 = 18;
const FILTER: u16 = 25;

/// Fields that a filter compares (`CTA_FILTER_F_...`).
const BY_SOURCE: u32 = 1;
const BY_DESTINATION: u32 = 1 << 1;
const BY_PROTOCOL: u32 = 1 << 3;
const BY_SOURCE_PORT: u32 = 1 << 4;
const BY_DESTINATION_PORT: u32 = 1 << 5;

/// Forgets the connections whose first packet is one of these: one by its key if all fields are given, else those that a
/// walk over all connections finds.
///
/// # Errors
/// The kernel refuses.
pub(super) fn forget(
    netlink: &mut Connection,
    packets: &FilteredPackets,
) -> Result<(), NetlinkError> {
    let flow = &packets.flow;
    if flow.source.is_some() && flow.source_port != 0 && flow.destination_port != 0 {
        let request = with_fields(message(DELETE, packets), packets, u32::MAX);
        return deleted(netlink.request("end a translated connection", request));
    }
    let mut compared = BY_DESTINATION | BY_PROTOCOL | BY_DESTINATION_PORT | BY_SOURCE_PORT;
    compared |= if flow.source.is_some() { BY_SOURCE } else { 0 };
    // The kernel's filter selects the IPv6 addresses that differ (Linux 6.18 and before).
    if flow.destination.is_ipv6() {
        compared &= !(BY_SOURCE | BY_DESTINATION);
    }
    if flow.protocol == 0 {
        compared &= !BY_PROTOCOL;
    }
    if flow.destination_port == 0 {
        compared &= !BY_DESTINATION_PORT;
    }
    if flow.source_port == 0 {
        compared &= !BY_SOURCE_PORT;
    }
    let mut request = with_fields(message(GET, packets), packets, compared);
    if compared != 0 {
        request = request.nested(FILTER | NESTED, |m| m.u32(1, compared));
    }
    // A kernel before Linux 5.8 returns every connection.
    for connection in &netlink.dump("list connections", request)? {
        let attributes = connection?.attributes(HEADER);
        let Some(original) = find(attributes.clone(), ORIGINAL)? else { continue };
        if !is_of(&original, packets)? {
            continue;
        }
        let mut request = message(DELETE, packets).attribute(ORIGINAL | NESTED, original.value);
        for kind in [ID, ZONE] {
            if let Some(attribute) = find(attributes.clone(), kind)? {
                request = request.attribute(kind, attribute.value);
            }
        }
        deleted(netlink.request("end a translated connection", request))?;
    }
    Ok(())
}

/// One that has ended already is no error.
fn deleted(outcome: Result<(), NetlinkError>) -> Result<(), NetlinkError> {
    match outcome {
        Err(error) if error.is(libc::ENOENT) => Ok(()),
        outcome => outcome,
    }
}

fn message(kind: u16, packets: &FilteredPackets) -> Message {
    let ipv6 = packets.flow.destination.is_ipv6();
    let family = if ipv6 { libc::AF_INET6 } else { libc::AF_INET };
    Message::new(SUBSYSTEM << 8 | kind, 0).fixed(&[family as u8, 0, 0, 0])
}

/// Appends the tuple of the first packet, with the fields that are compared.
fn with_fields(message: Message, packets: &FilteredPackets, compared: u32) -> Message {
    let flow = &packets.flow;
    let (source, destination) = if flow.destination.is_ipv6() { (3, 4) } else { (1, 2) };
    let has = |field| compared & field != 0;
    message.nested(ORIGINAL | NESTED, |m| {
        let m = m.nested(1 | NESTED, |mut m| {
            if let Some(address) = flow.source.filter(|_| has(BY_SOURCE)) {
                m = m.attribute(source, &octets(address));
            }
            match has(BY_DESTINATION) {
                true => m.attribute(destination, &octets(flow.destination)),
                false => m,
            }
        });
        if !has(BY_PROTOCOL) {
            return m;
        }
        m.nested(2 | NESTED, |mut m| {
            m = m.u8(1, flow.protocol);
            if has(BY_SOURCE_PORT) {
                m = m.be16(2, flow.source_port);
            }
            if has(BY_DESTINATION_PORT) { m.be16(3, flow.destination_port) } else { m }
        })
    })
}

/// Whether a tuple is that of some of the packets.
fn is_of(tuple: &Attribute<'_>, packets: &FilteredPackets) -> Result<bool, NetlinkError> {
    let flow = &packets.flow;
    let (Some(addresses), Some(protocol)) = (find(tuple.nested(), 1)?, find(tuple.nested(), 2)?)
    else {
        return Ok(false);
    };
    let (source, destination) = if flow.destination.is_ipv6() { (3, 4) } else { (1, 2) };
    let at = |kind| -> Result<Option<IpAddr>, NetlinkError> {
        Ok(find(addresses.nested(), kind)?.and_then(|found| address(found.value)))
    };
    let port = |kind| find(protocol.nested(), kind)?.map(|port| port.be16("port")).transpose();
    let octet = |kind| find(protocol.nested(), kind)?.map(|octet| octet.u8("type")).transpose();
    let icmp_type = if flow.destination.is_ipv6() { 8 } else { 5 };
    Ok(at(destination)? == Some(flow.destination)
        && (flow.source.is_none() || at(source)? == flow.source)
        && (flow.protocol == 0 || octet(1)? == Some(flow.protocol))
        && (flow.source_port == 0 || port(2)? == Some(flow.source_port))
        && (flow.destination_port == 0 || port(3)? == Some(flow.destination_port))
        && (packets.icmp_type.is_none() || octet(icmp_type)? == packets.icmp_type))
}
