//! Connections that the kernel tracks: those of changed translations are forgotten, so that the translation that a
//! connection got with its first packet ends with its rule. (Linux: `net/netfilter/nf_conntrack_netlink.c`.)

use std::collections::BTreeSet;
use std::net::IpAddr;

use earmark_core::{FilteredPackets, Flow, Prefix};

use super::answers::find;
use super::messages::HEADER;
use super::shape::{KeyShape, address, octets};
use crate::netlink::{Attribute, Connection, Message, NetlinkError};

/// The operation, for errors.
const DOING: &str = "end translated connections";
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

/// Forgets the connections whose first packet belongs to one of these rules: one by its key if a rule gives all fields, else those
/// that one walk over all connections of a family finds.
///
/// # Errors
/// The first refusal of the kernel; the others are forgotten nevertheless.
pub(super) fn forget(
    netlink: &mut Connection,
    rules: &BTreeSet<FilteredPackets>,
) -> Result<(), NetlinkError> {
    let mut outcome = Ok(());
    let mut wide: [Vec<&FilteredPackets>; 2] = Default::default();
    for packets in rules {
        let flow = &packets.flow;
        if flow.source.is_none() || flow.source_port == 0 || flow.destination_port == 0 {
            wide[usize::from(flow.destination.is_ipv6())].push(packets);
            continue;
        }
        let request = message(DELETE, flow.destination.is_ipv6());
        let request = with_fields(request, packets, u32::MAX);
        outcome = outcome.and(deleted(netlink.request(DOING, request)));
    }
    for (wide, ipv6) in wide.iter().zip([false, true]) {
        if !wide.is_empty() {
            outcome = outcome.and(forget_wide(netlink, wide, ipv6));
        }
    }
    outcome
}

/// Forgets the connections of rules that do not give all fields, all of one family.
fn forget_wide(
    netlink: &mut Connection,
    rules: &[&FilteredPackets],
    ipv6: bool,
) -> Result<(), NetlinkError> {
    let keys = rules.iter().filter_map(|rule| KeyShape::of(rule).map(|s| (s, s.key(rule))));
    let keys: BTreeSet<(KeyShape, Vec<u8>)> = keys.collect();
    let shapes: BTreeSet<KeyShape> = keys.iter().map(|(shape, _)| *shape).collect();
    let request = match rules {
        [rule] => filtered(message(GET, ipv6), rule),
        _ => message(GET, ipv6),
    };
    // A kernel before Linux 5.8 returns every connection.
    for connection in &netlink.dump("list connections", request)? {
        let attributes = connection?.attributes(HEADER);
        let Some(original) = find(attributes.clone(), ORIGINAL)? else { continue };
        let Some(first) = first_packet(&original, ipv6)? else { continue };
        if !shapes.iter().any(|&shape| keys.contains(&(shape, shape.key(&first)))) {
            continue;
        }
        let mut request = message(DELETE, ipv6).attribute(ORIGINAL | NESTED, original.value);
        for kind in [ID, ZONE] {
            if let Some(attribute) = find(attributes.clone(), kind)? {
                request = request.attribute(kind, attribute.value);
            }
        }
        deleted(netlink.request(DOING, request))?;
    }
    Ok(())
}

/// Lets the kernel select the connections of a rule, and maybe others.
fn filtered(request: Message, rule: &FilteredPackets) -> Message {
    let flow = &rule.flow;
    let given = [
        // The kernel's filter selects the IPv6 addresses that differ (Linux 6.18 and before).
        (flow.destination.is_ipv4(), BY_DESTINATION),
        (flow.source.is_some_and(|source| source.is_ipv4()), BY_SOURCE),
        (flow.protocol != 0, BY_PROTOCOL),
        (flow.source_port != 0, BY_SOURCE_PORT),
        (flow.destination_port != 0, BY_DESTINATION_PORT),
    ];
    let compared = given.iter().filter(|(is_given, _)| *is_given).map(|(_, field)| field).sum();
    if compared == 0 {
        return request;
    }
    with_fields(request, rule, compared).nested(FILTER | NESTED, |m| m.u32(1, compared))
}

/// One that has ended already is no error.
fn deleted(outcome: Result<(), NetlinkError>) -> Result<(), NetlinkError> {
    match outcome {
        Err(error) if error.is(libc::ENOENT) => Ok(()),
        outcome => outcome,
    }
}

fn message(kind: u16, ipv6: bool) -> Message {
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

/// Returns the packet of a tuple; `None` if it has no addresses or no protocol.
fn first_packet(
    tuple: &Attribute<'_>,
    ipv6: bool,
) -> Result<Option<FilteredPackets>, NetlinkError> {
    let (Some(addresses), Some(protocol)) = (find(tuple.nested(), 1)?, find(tuple.nested(), 2)?)
    else {
        return Ok(None);
    };
    let (source, destination) = if ipv6 { (3, 4) } else { (1, 2) };
    let at = |kind| -> Result<Option<IpAddr>, NetlinkError> {
        Ok(find(addresses.nested(), kind)?.and_then(|found| address(found.value)))
    };
    let port = |kind| find(protocol.nested(), kind)?.map(|port| port.be16("port")).transpose();
    let octet = |kind| find(protocol.nested(), kind)?.map(|octet| octet.u8("type")).transpose();
    let Some(destination) = at(destination)? else { return Ok(None) };
    let Some(number) = octet(1)? else { return Ok(None) };
    let all = if ipv6 { 128 } else { 32 };
    let flow = Flow {
        source: at(source)?,
        protocol: number,
        source_port: port(2)?.unwrap_or(0),
        destination_port: port(3)?.unwrap_or(0),
        ..Flow::to_range(Prefix::new(destination, all))
    };
    Ok(Some(FilteredPackets { flow, icmp_type: octet(if ipv6 { 8 } else { 5 })? }))
}
