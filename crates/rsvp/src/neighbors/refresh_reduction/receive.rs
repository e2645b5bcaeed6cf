//! Objects in front of a message that concern only the last hop: capability flag, acknowledgements and MESSAGE_ID (RFC
//! 2961 sections 2, 4.5 and 4.6).

use core::net::IpAddr;

use earmark_core::{Datagram, InterfaceId};
use earmark_wire::rsvp::{Body, Bundle, Message};

use super::sent_message_ids::Subject;
use crate::api::Event;
use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::neighbors::address::is_neighbor;
use crate::state::message_id_key::MessageIdKey;
use crate::state::store::NamedBlock;
use crate::state::{Block, Index, NONE};

impl Rsvp {
    /// Handles the capability flag, acknowledgements and MESSAGE_ID of a message. A neighbour without refresh reduction
    /// sends none of them, but may have supported it before.
    #[inline]
    pub(crate) fn receive_leading_objects<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        message: &Message<'_>,
    ) {
        let takes_part = message.flags & Message::REFRESH_REDUCTION != 0;
        let silent = !takes_part && self.refresh_reduction.has_no_peers();
        if self.config.reduction.enabled && !silent {
            self.receive_from_peer(cx, datagram, message, takes_part);
        }
    }

    /// Returns the interface that a message of a neighbour concerns. One that is addressed to another core interface of this
    /// node has come by a route that is not the reverse of the route to the neighbour, and concerns that interface if it may
    /// act there.
    #[inline]
    pub(super) fn interface_of_peer<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        neighbor: IpAddr,
    ) -> InterfaceId {
        let interfaces = cx.context.interfaces;
        match interfaces.owner_of(datagram.destination) {
            Some(owner) if owner != datagram.interface => {
                self.other_interface_of_peer(cx, datagram, neighbor, owner)
            }
            _ => datagram.interface,
        }
    }

    #[cold]
    fn other_interface_of_peer<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        neighbor: IpAddr,
        owner: InterfaceId,
    ) -> InterfaceId {
        let arrival = cx.context.interfaces.by_id(datagram.interface);
        // Several interfaces may have one address.
        let is_here = arrival.is_some_and(|link| link.addresses.contains(&datagram.destination));
        match is_here || self.is_trusted_at(cx, datagram, owner, neighbor).is_err() {
            true => datagram.interface,
            false => owner,
        }
    }

    fn receive_from_peer<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        message: &Message<'_>,
        takes_part: bool,
    ) {
        let far = matches!(message.body, Body::ResvConf(_) | Body::Dreq(_) | Body::Drep(_));
        if far && message.message_id.is_none() {
            return; // its sender may be many hops away
        }
        let (maker, refresh_ms) = message_source(datagram, &message.body);
        if !is_neighbor(cx.context, maker) {
            return;
        }
        let interface = self.interface_of_peer(cx, datagram, maker);
        let is_far = self.is_of_this_link(cx, interface, maker).is_err();
        if is_far && is_between_neighbors(&message.body) {
            return; // not from the peer, which is on this link (RFC 5082)
        }
        let peer = if takes_part {
            let limit = self.config.reduction.max_peers;
            let interfaces = cx.context.interfaces;
            self.refresh_reduction.peers.find_or_insert((interface, maker), limit, interfaces)
        } else {
            self.refresh_reduction.peers.find(interface, maker)
        };
        let Some(index) = peer else {
            // Nothing with MESSAGE_ID was sent to a node that is no peer.
            return self.count_foreign_acknowledgements(message);
        };
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        peer.last_message_at = cx.now;
        peer.refresh_ms = peer.refresh_ms.max(refresh_ms);
        if let Some(id) = message.message_id {
            cx.message_id = MessageIdKey::from(id);
        }
        if is_far {
            // Another node may have sent it (RFC 5082), so it shows nothing of a peer that is known.
            if !peer.is_near {
                peer.capable |= takes_part;
                peer.epoch = peer.epoch.or(message.message_id.map(|id| id.epoch));
            }
            self.receive_message_id_from_far(cx, index, message);
            if takes_part {
                self.start_hello(cx.now, index);
            }
            return;
        }
        peer.is_near |= cx.is_from_this_link && interface == datagram.interface;
        // A peer that is on this link sends raw IP; in its name, others may send inside UDP.
        peer.encapsulated = datagram.encapsulated;
        let before = core::mem::replace(&mut peer.capable, takes_part);
        let mut has_new_epoch = false;
        if let Some(id) = message.message_id {
            if peer.epoch != Some(id.epoch) {
                // A new epoch: the neighbour has restarted and has lost its state.
                has_new_epoch = peer.epoch.is_some();
                peer.begin_epoch(id.epoch, refresh_ms);
            }
            cx.is_repeated = leaves_no_state(&message.body) && !peer.handled.record(id.id);
            self.acknowledge_if_asked(cx, index, id);
        }
        if has_new_epoch {
            self.epoch_changed(cx, index);
        } else if before && !takes_part {
            self.resend_all(cx.now, index);
        }
        if takes_part {
            self.start_hello(cx.now, index);
        }
        for acknowledgement in message.acknowledgements {
            self.receive_acknowledgement(cx, datagram, index, &acknowledgement);
        }
    }

    /// Handles MESSAGE_ID and acknowledgements of a message that another node may have sent in the name of a peer. No peer
    /// acknowledges anything with it: its destination is not the node that has sent what would be acknowledged (section
    /// 4.6).
    fn receive_message_id_from_far<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        message: &Message<'_>,
    ) {
        if let Some(id) = message.message_id {
            cx.is_repeated = leaves_no_state(&message.body)
                && !self.refresh_reduction.handled_from_far.record((index, cx.message_id));
            self.acknowledge_if_asked(cx, index, id);
        }
        self.count_foreign_acknowledgements(message);
    }

    /// Handles a PathErr from the next hop about the Path of a sender. The error acknowledges the Path: it is not
    /// retransmitted, but refreshed by messages, because the cause may pass (section 4.5).
    #[cold]
    pub(crate) fn refuse_path<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        sender: Index,
    ) {
        let entry = self.store.psb(sender).path_message_id;
        if entry == NONE {
            return;
        }
        let receiver = self.receiver_of(cx, entry);
        let receiver = receiver.and_then(|index| self.refresh_reduction.peers.get(index));
        if receiver.is_some_and(|peer| peer.address == datagram.source) {
            self.store.psb_mut(sender).path_message_id = NONE;
            self.refresh_reduction.forget(entry);
            self.refresh_by_message(cx.now, Subject::Path(sender));
        }
    }

    /// Returns the peer that an entry's message was sent to.
    pub(super) fn receiver_of<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        entry: Index,
    ) -> Option<Index> {
        let hop = match self.refresh_reduction.sent.subject(entry) {
            Subject::Path(sender) => {
                let outgoing = self.store.psb(sender).outgoing.as_slice().first().copied();
                return self.peer_for_path(cx, sender, outgoing);
            }
            Subject::Resv(sender) => self.store.psb(sender).hop,
            Subject::Shared(pool) => {
                let mut sent_resvs = self.store.pool(pool).sent_resvs.iter();
                sent_resvs.find(|sent_resv| sent_resv.message_id == entry)?.hop
            }
        };
        let (interface, hop) = self.store.neighbor_of(hop)?;
        self.refresh_reduction.peer(interface, hop.address)
    }

    /// Returns whether the current message was sent before the last message for this block.
    #[inline]
    pub(crate) fn is_overtaken<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        block: MessageIdKey,
    ) -> bool {
        cx.message_id.is_some() && cx.message_id.is_before(block)
    }

    /// Stores the MESSAGE_ID of a Path that differs from the last one of the sender. A previous hop that has restarted, or no
    /// longer names messages, has lost the reservation, which is sent again.
    pub(crate) fn store_path_message_id<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        sender: Index,
    ) {
        let before = self.store.psb(sender).message_id;
        self.store_message_id(cx, NamedBlock::new(Block::Sender, sender));
        if before.is_some() && before.epoch != cx.message_id.epoch {
            self.resend_resv_to_lost_hop(cx, sender);
        }
    }

    /// Sends the reservation of a sender again, because its Path shows that the previous hop has lost it. Another node may
    /// have sent the Path, so nothing else is sent again; a restart that the hop itself has shown sends everything again.
    #[cold]
    fn resend_resv_to_lost_hop<E>(&mut self, cx: &HandlerContext<'_, '_, E>, sender: Index) {
        let psb = self.store.psb(sender);
        let (hop, session, entry) = (psb.hop, psb.session, psb.resv_message_id);
        let neighbor = self.store.neighbor_of(hop);
        let peer = neighbor.and_then(|(interface, hop)| {
            let index = self.refresh_reduction.peers.find(interface, hop.address)?;
            self.refresh_reduction.peers.get(index)
        });
        let Some(peer) = peer else { return };
        let is_known = match cx.message_id.is_some() {
            true => peer.epoch == Some(cx.message_id.epoch),
            false => !peer.capable,
        };
        if is_known {
            return; // everything is sent again already
        }
        if entry != NONE {
            return self.resend_unknown(cx.now, entry);
        }
        let Some(pool) = self.store.pool_of(session) else { return };
        let mut sent_resvs = self.store.pool(pool).sent_resvs.iter();
        let entry = sent_resvs.find(|sent| sent.hop == hop).map(|sent| sent.message_id);
        if let Some(entry) = entry.filter(|entry| *entry != NONE) {
            self.resend_unknown(cx.now, entry);
        }
    }

    /// Stores the MESSAGE_ID of the current message in a block, so that summary refreshes can refresh it.
    #[inline]
    pub(crate) fn store_message_id<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        named: NamedBlock,
    ) {
        self.store.set_message_id(named, cx.message_id);
    }

    /// Records that a peer sends Bundles, and so reads them.
    fn note_bundle_of_peer<E>(&mut self, cx: &HandlerContext<'_, '_, E>, datagram: &Datagram<'_>) {
        let interface = self.interface_of_peer(cx, datagram, datagram.source);
        let index = self.refresh_reduction.peers.find(interface, datagram.source);
        if self.is_of_this_link(cx, interface, datagram.source).is_ok()
            && let Some(peer) = index.and_then(|index| self.refresh_reduction.peers.get_mut(index))
        {
            peer.note_reads_bundles();
        }
    }

    /// Handles each message of a Bundle as if it was received alone, except for the TTL, which is that of the Bundle
    /// (section 3.4).
    pub(crate) fn receive_bundle<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        send_ttl: u8,
        bundle: &Bundle<'_>,
    ) {
        self.note_bundle_of_peer(cx, datagram);
        for payload in bundle.iter() {
            (cx.message_id, cx.acknowledge_to, cx.is_repeated) = (MessageIdKey::NONE, None, false);
            self.counters.reduction.unbundled += 1;
            self.receive_message(cx, &Datagram { payload, ..*datagram }, Some(send_ttl));
        }
    }
}

/// Returns the datagram that a message from a Bundle would have arrived in alone, with its final destination.
pub(crate) fn unbundled<'d>(datagram: &Datagram<'d>, body: &Body<'_>) -> Datagram<'d> {
    let on_the_way =
        |source, destination| Datagram { source, destination, router_alert: true, ..*datagram };
    match body {
        Body::Path(path) => on_the_way(path.sender.template.source, path.session.destination),
        Body::PathTear(tear) => on_the_way(tear.template.source, tear.session.destination),
        Body::ResvConf(confirmation) => on_the_way(datagram.source, confirmation.confirm),
        _ => *datagram,
    }
}

/// Returns the sender of the objects in front of a message (section 4.5), and the refresh period R in it, or 0.
fn message_source(datagram: &Datagram<'_>, body: &Body<'_>) -> (IpAddr, u32) {
    match body {
        Body::Path(path) => (path.hop.address, path.refresh_ms),
        Body::RecoveryPath(path) => (path.hop.address, 0),
        Body::Resv(resv) => (resv.hop.address, resv.refresh_ms),
        Body::PathTear(tear) => (tear.hop.address, 0),
        Body::ResvTear(tear) => (tear.hop.address, 0),
        Body::ResvErr(error) => (error.hop.address, 0),
        _ => (datagram.source, 0),
    }
}

/// Returns whether a message with MESSAGE_ID leaves no state that would recognize it if it came again.
fn leaves_no_state(body: &Body<'_>) -> bool {
    matches!(body, Body::PathErr(_) | Body::ResvErr(_) | Body::ResvConf(_))
}

/// Returns whether only the neighbour itself sends a message, with the largest TTL. Other messages have the TTL of the data's
/// path, or stand in a Bundle with such messages; that of a Hello is 1 (RFC 3209 section 5).
fn is_between_neighbors(body: &Body<'_>) -> bool {
    matches!(
        body,
        Body::Resv(_)
            | Body::ResvTear(_)
            | Body::ResvErr(_)
            | Body::PathErr(_)
            | Body::Srefresh(_)
            | Body::Ack
            | Body::RecoveryPath(_)
    )
}
