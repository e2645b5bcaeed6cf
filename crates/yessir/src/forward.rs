//! Forwarding: a message leaves unchanged except for LINK_INFO and FAILURE, which this node edits.

use core::net::IpAddr;

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Context, Interface, InterfaceId, Outgoing};
use earmark_wire::udp::Checksum;
use earmark_wire::yessir::{
    Edit, EditOffsets, FailureNote, LinkInfo, Message, OctetRate, fill_partial_checksum,
    update_link_info,
};

use crate::api::Event;
use crate::instance::{HandlerContext, PROTOCOL, Received, Yessir};
use crate::reserve::Failure;

/// Room for an IP header with router alert, octets: that of IPv6, the larger one.
const IP_HEADER: usize = 48;
/// Hop number of a failure note if the message has no LINK_INFO to count hops in.
pub(crate) const UNKNOWN_HOP: u16 = u16::MAX;

impl Yessir {
    /// Forwards a message on a link, to a router there if one is given. With `message`, this node takes part on the
    /// link and edits the message; a failure is noted.
    #[inline]
    pub(crate) fn forward<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        received: &Received<'_>,
        message: Option<(&Message<'_>, &EditOffsets, &Interface)>,
        (interface, next_hop): (InterfaceId, Option<IpAddr>),
        failure: Option<Failure>,
    ) {
        let mut how = Outgoing {
            interface: Some(interface),
            next_hop,
            ..received.datagram.forwarded(PROTOCOL)
        };
        if received.incoming.is_none() {
            how.ttl = received.datagram.ttl;
        }
        if let (Some(message), Some(failure)) = (message, failure) {
            self.forward_with_note(cx, received, how, message, &failure);
        } else {
            let target = cx.out.send_copy(how, received.packet.octets());
            if let Some((_, places, interface)) = message
                && let Some(at) = places.link_info()
            {
                let updated_link_info =
                    |info: &LinkInfo| updated_link_info(info, cx.context, received, interface);
                let done = update_link_info(target, at, updated_link_info);
                debug_assert!(done.is_ok(), "its place was read of this packet");
            }
            complete_checksum_if_left(received, target);
        }
        if received.incoming.is_some() {
            self.counters.forwarded += 1;
        } else {
            self.counters.sent += 1;
        }
        mark(Checkpoint::Forward);
    }

    /// Forwards a message with a note of its failure here, if the note fits.
    #[cold]
    fn forward_with_note<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        received: &Received<'_>,
        how: Outgoing,
        (message, places, interface): (&Message<'_>, &EditOffsets, &Interface),
        failure: &Failure,
    ) {
        let link_info =
            message.link_info.map(|info| updated_link_info(&info, cx.context, received, interface));
        let note = note(received, message, interface, failure);
        let octets = received.packet.octets();
        let mut edit = Edit { link_info, note };
        if note.is_some() && IP_HEADER + octets.len() + edit.growth(places) > interface.mtu as usize
        {
            self.counters.notes_left_out += 1;
            edit.note = None;
        }
        let target = cx.out.send(how, octets.len() + edit.growth(places));
        if edit.write(octets, places, target).is_ok() {
            return complete_checksum_if_left(received, target);
        }
        // The message is full of notes, so the receiver learns that it failed.
        cx.out.discard_last();
        self.counters.notes_left_out += 1;
        cx.out.send_copy(how, octets);
    }
}

/// Returns the outgoing LINK_INFO, updated by this node.
#[inline(always)]
fn updated_link_info(
    info: &LinkInfo,
    context: &Context<'_>,
    received: &Received<'_>,
    interface: &Interface,
) -> LinkInfo {
    match received.incoming {
        Some(_) => link_info_after_hop(info, received.datagram.ttl, context, interface),
        None => link_info_after_link(info, context, interface),
    }
}

/// Returns the note of a failure at this node, if the node has an address to name in it.
fn note(
    received: &Received<'_>,
    message: &Message<'_>,
    interface: &Interface,
    failure: &Failure,
) -> Option<FailureNote> {
    let address = interface.address_like(received.datagram.destination);
    let hop = message.link_info.map_or(UNKNOWN_HOP, |info| {
        // The hops before, and this one, if it is not the sender's own host.
        u16::from(info.hops) + u16::from(received.incoming.is_some())
    });
    Some(FailureNote {
        reason: failure.reason,
        hop,
        available: OctetRate(failure.available.as_octets_per_second()),
        node: address.or(interface.addresses.first().copied())?,
    })
}

/// Completes the checksum of a message if the sender left it to hardware that the forwarded copy does not pass.
#[inline]
fn complete_checksum_if_left(received: &Received<'_>, packet: &mut [u8]) {
    if received.checksum == Checksum::Partial {
        let done =
            fill_partial_checksum(packet, received.datagram.source, received.datagram.destination);
        debug_assert!(done.is_ok(), "it was a packet when it came");
    }
}

/// Returns LINK_INFO extended by this router and the link behind it; `ttl` is that of the received message.
#[inline]
pub(crate) fn link_info_after_hop(
    info: &LinkInfo,
    ttl: u8,
    context: &Context<'_>,
    interface: &Interface,
) -> LinkInfo {
    LinkInfo {
        other_hops: info.other_hops || passed_other_routers(Some(info), ttl),
        hops: info.hops.saturating_add(1),
        ..link_info_after_link(info, context, interface)
    }
}

/// Returns LINK_INFO extended by a link.
#[inline(always)]
fn link_info_after_link(info: &LinkInfo, context: &Context<'_>, interface: &Interface) -> LinkInfo {
    let left = context.ledger.available(interface.id).as_octets_per_second();
    LinkInfo {
        path_mtu: info.path_mtu.min(u16::try_from(interface.mtu).unwrap_or(u16::MAX)),
        // Written so that NaN is replaced.
        available: if info.available.0 <= left { info.available } else { OctetRate(left) },
        latency_us: info.latency_us.saturating_add(interface.latency_us),
        ..*info
    }
}

/// Returns whether a message has passed routers without YESSIR: each router decrements the TTL, those with YESSIR
/// also count a hop. Unknown without the initial TTL, hence `false`.
pub(crate) fn passed_other_routers(info: Option<&LinkInfo>, ttl: u8) -> bool {
    info.is_some_and(|info| info.send_ttl != 0 && info.send_ttl.saturating_sub(ttl) > info.hops)
}

/// Returns the address of this host on the route to a destination.
pub(crate) fn own_address(context: &Context<'_>, destination: IpAddr) -> Option<IpAddr> {
    let hop = context.routes.lookup(destination)?;
    let interface = context.interfaces.by_id(hop.interface)?;
    hop.source.or_else(|| interface.address_like(destination))
}
