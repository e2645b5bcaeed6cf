//! On it goes: a message leaves as it came, but for what this node writes into LINK_INFO and FAILURE.

use core::net::IpAddr;

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Context, Interface, InterfaceId, Outgoing};
use earmark_wire::udp::Checksum;
use earmark_wire::yessir::{
    Edit, EditOffsets, FailureNote, LinkInfo, Message, OctetRate, fill_partial_checksum,
    update_link_info,
};

use crate::api::Event;
use crate::instance::{HandlerContext, PROTOCOL, Passing, Yessir};
use crate::reserve::Failure;

/// Room for an IP header with router alert, octets: the larger one, of IPv6.
const IP_HEADER: usize = 48;
/// In a note: the message has no LINK_INFO in which hops are counted.
pub(crate) const UNKNOWN_HOP: u16 = u16::MAX;

impl Yessir {
    /// Sends a message on through a link, to a router there if one is named. With `message`, this node speaks YESSIR there and writes into it; a failure is
    /// noted.
    #[inline]
    pub(crate) fn forward<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        message: Option<(&Message<'_>, &EditOffsets, &Interface)>,
        (interface, next_hop): (InterfaceId, Option<IpAddr>),
        failure: Option<Failure>,
    ) {
        let how = Outgoing {
            protocol: PROTOCOL,
            interface: Some(interface),
            source: passing.datagram.source,
            destination: passing.datagram.destination,
            ttl: if passing.incoming.is_some() {
                passing.datagram.ttl - 1
            } else {
                passing.datagram.ttl
            },
            router_alert: passing.datagram.router_alert,
            encapsulated: false,
            neighbor: None,
            next_hop,
        };
        if let (Some(message), Some(failure)) = (message, failure) {
            self.forward_noted(cx, passing, how, message, &failure);
        } else {
            let target = cx.out.send_copy(how, passing.packet.octets());
            if let Some((_, places, interface)) = message
                && let Some(at) = places.link_info()
            {
                let further = |info: &LinkInfo| further(info, cx.context, passing, interface);
                let done = update_link_info(target, at, further);
                debug_assert!(done.is_ok(), "its place was read of this packet");
            }
            complete(passing, target);
        }
        if passing.incoming.is_some() {
            self.counters.forwarded += 1;
        } else {
            self.counters.sent += 1;
        }
        mark(Checkpoint::Forward);
    }

    /// Sends on a message that has failed here, which says so if there is room for it.
    #[cold]
    fn forward_noted<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        passing: &Passing<'_>,
        how: Outgoing,
        (message, places, interface): (&Message<'_>, &EditOffsets, &Interface),
        failure: &Failure,
    ) {
        let link_info =
            message.link_info.map(|info| further(&info, cx.context, passing, interface));
        let note = note(passing, message, interface, failure);
        let octets = passing.packet.octets();
        let mut edit = Edit { link_info, note };
        if note.is_some() && IP_HEADER + octets.len() + edit.growth(places) > interface.mtu as usize
        {
            self.counters.notes_left_out += 1;
            edit.note = None;
        }
        let target = cx.out.send(how, octets.len() + edit.growth(places));
        if edit.write(octets, places, target).is_ok() {
            return complete(passing, target);
        }
        // There are as many notes as a message can hold: enough to tell that it failed.
        cx.out.take_back();
        self.counters.notes_left_out += 1;
        cx.out.send_copy(how, octets);
    }
}

/// LINK_INFO as it leaves, with what this node has to say of the way.
#[inline(always)]
fn further(
    info: &LinkInfo,
    context: &Context<'_>,
    passing: &Passing<'_>,
    interface: &Interface,
) -> LinkInfo {
    match passing.incoming {
        Some(_) => a_hop_further(info, passing.datagram.ttl, context, interface),
        None => composed(info, context, interface),
    }
}

/// What this node has to say of a failure, if it has an address to say it by.
fn note(
    passing: &Passing<'_>,
    message: &Message<'_>,
    interface: &Interface,
    failure: &Failure,
) -> Option<FailureNote> {
    let address = interface.address_like(passing.datagram.destination);
    let hop = message.link_info.map_or(UNKNOWN_HOP, |info| {
        // The hops before, and this one, if it is not the sender's own host.
        u16::from(info.hops) + u16::from(passing.incoming.is_some())
    });
    Some(FailureNote {
        reason: failure.reason,
        hop,
        available: OctetRate(failure.available.as_octets_per_second()),
        node: address.or(interface.addresses.first().copied())?,
    })
}

/// Makes the checksum of a message that leaves, where that was left to hardware which it will not meet any more.
#[inline]
fn complete(passing: &Passing<'_>, packet: &mut [u8]) {
    if passing.checksum == Checksum::Partial {
        let done =
            fill_partial_checksum(packet, passing.datagram.source, passing.datagram.destination);
        debug_assert!(done.is_ok(), "it was a packet when it came");
    }
}

/// LINK_INFO with a router more, this one, and the link behind it; the message came with this TTL.
#[inline]
pub(crate) fn a_hop_further(
    info: &LinkInfo,
    ttl: u8,
    context: &Context<'_>,
    interface: &Interface,
) -> LinkInfo {
    LinkInfo {
        other_hops: info.other_hops || skipped(Some(info), ttl),
        hops: info.hops.saturating_add(1),
        ..composed(info, context, interface)
    }
}

/// LINK_INFO with a link more.
#[inline(always)]
fn composed(info: &LinkInfo, context: &Context<'_>, interface: &Interface) -> LinkInfo {
    let left = context.ledger.left(interface.id).as_octets_per_second();
    LinkInfo {
        path_mtu: info.path_mtu.min(u16::try_from(interface.mtu).unwrap_or(u16::MAX)),
        // Written so that what is no number gives way.
        available: if info.available.0 <= left { info.available } else { OctetRate(left) },
        latency_us: info.latency_us.saturating_add(interface.latency_us),
        ..*info
    }
}

/// Whether a message has passed routers since it was sent that did not count themselves: each router takes one of its TTL,
/// those that speak YESSIR add one to its hops. Without the TTL that it was sent with nothing can be told.
pub(crate) fn skipped(info: Option<&LinkInfo>, ttl: u8) -> bool {
    info.is_some_and(|info| info.send_ttl != 0 && info.send_ttl.saturating_sub(ttl) > info.hops)
}

/// The address of this host that a destination is reached from.
pub(crate) fn own_address(context: &Context<'_>, destination: IpAddr) -> Option<IpAddr> {
    let hop = context.routes.lookup(destination)?;
    let interface = context.interfaces.by_id(hop.interface)?;
    hop.source.or_else(|| interface.address_like(destination))
}
