//! What stands in front of a message, and is about the hop that it came over: what its maker can do, what it has got, and
//! how it names what it says (RFC 2961 sections 2, 4.5 and 4.6).

use core::net::IpAddr;

use earmark_core::{Datagram, Time};
use earmark_wire::rsvp::{Acknowledgement, AcknowledgementKind, Body, Bundle, Message, MessageId};

use super::message_id_key::{MessageIdKey, NamedBlock};
use super::peer::LinkEnd;
use super::send::OutgoingMessage;
use super::sent_message_ids::{DeliveryState, Subject};
use crate::api::Event;
use crate::instance::{HandlerContext, Rsvp};
use crate::path::is_neighbor;
use crate::refresh::to_neighbor;
use crate::state::{Index, NONE, Timer, TimerKind};

impl Rsvp {
    /// Treats what is about the hop. Messages whose maker takes no part have nothing of the kind, unless it did before.
    #[inline]
    pub(crate) fn receive_leading_objects<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        message: &Message<'_>,
    ) {
        let takes_part = message.flags & Message::REFRESH_REDUCTION != 0;
        let silent = !takes_part && self.refresh_reduction.is_alone();
        if self.config.reduction.enabled && !silent {
            self.receive_from_peer(cx, datagram, message, takes_part);
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
            return; // whoever made it may be many hops away
        }
        let (maker, refresh_ms) = message_source(datagram, &message.body);
        if !is_neighbor(cx.context, maker) {
            return;
        }
        let interface = datagram.interface;
        let peer = if takes_part {
            let most = self.config.reduction.max_partners as usize;
            self.refresh_reduction.peers.find_or_insert(interface, maker, most)
        } else {
            self.refresh_reduction.peers.find(interface, maker)
        };
        let Some(index) = peer else { return };
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        peer.heard = cx.now;
        let before = core::mem::replace(&mut peer.capable, takes_part);
        let mut again = before && !takes_part;
        if let Some(id) = message.message_id {
            if peer.epoch != Some(id.epoch) {
                // Its numbers begin anew: it has restarted, and knows nothing of what it was told.
                again |= peer.epoch.is_some();
                peer.epoch = Some(id.epoch);
                peer.refresh_ms = 0;
            }
            peer.refresh_ms = peer.refresh_ms.max(refresh_ms);
            cx.name = MessageIdKey::from(id);
            if id.flags & MessageId::ACK_DESIRED != 0 {
                self.acknowledge(cx.now, index, AcknowledgementKind::Ack, cx.name);
                cx.owed = Some((index, cx.name));
            }
        }
        if again {
            self.resend_all(cx.now, index);
        }
        if takes_part && !before {
            self.greet(cx.now, index);
        }
        for acknowledgement in message.acknowledgements {
            self.receive_acknowledgement(cx, index, acknowledgement);
        }
    }

    /// Notes that a peer is to be told that a message of its has arrived, or means nothing. It is told with the next
    /// message to it, or a little later in a message of its own.
    pub(super) fn acknowledge(
        &mut self,
        now: Time,
        index: Index,
        kind: AcknowledgementKind,
        name: MessageIdKey,
    ) {
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        if !peer.note(kind, name.epoch, name.id) {
            return;
        }
        self.refresh_reduction.peers_to_acknowledge.push(index);
        if self.refresh_reduction.answer_timer.is_none() {
            // At a random time, so that those who got the same message do not answer at once (section 4.7).
            let longest = self.config.reduction.acknowledge_within;
            let delay = self.refresh_reduction.jitter.uniform(longest / 2, longest);
            let timer = Timer { kind: TimerKind::Acknowledgement, block: NONE };
            self.refresh_reduction.answer_timer = Some(self.store.timers.arm(now + delay, timer));
        }
    }

    /// The Path or Resv that is treated was not taken up, so it is not acknowledged: its maker would name it in summaries
    /// that nobody here understands. Where it gets an error instead, that ends its retransmission (section 4.5).
    #[cold]
    pub(crate) fn withhold_acknowledgement<E>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        let Some((index, name)) = cx.owed.take() else { return };
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        let nothing_left = peer.retract(AcknowledgementKind::Ack, name.epoch, name.id);
        if nothing_left && self.refresh_reduction.peers_to_acknowledge.last() == Some(&index) {
            self.refresh_reduction.peers_to_acknowledge.pop();
        }
    }

    /// The next hop has refused the Path of a sender by an error, which is as good as an acknowledgement that it arrived:
    /// it is not sent again, but refreshed by itself, for whatever the trouble is may pass (section 4.5).
    #[cold]
    pub(crate) fn refuse_path<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        sender: Index,
    ) {
        let told = self.store.psb(sender).path_message_id;
        let peer = self.refresh_reduction.peer(datagram.interface, datagram.source);
        if told != NONE && peer.is_some_and(|peer| self.is_listed_for(cx, told, peer)) {
            self.store.psb_mut(sender).path_message_id = NONE;
            self.refresh_reduction.forget(told);
            self.refresh_by_itself(cx.now, Subject::Path(sender));
        }
    }

    /// Sends the acknowledgements that no message took along.
    pub(crate) fn acknowledgements_due<E>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        self.refresh_reduction.answer_timer = None;
        while let Some(index) = self.refresh_reduction.peers_to_acknowledge.pop() {
            let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { continue };
            let (interface, address) = (peer.interface, peer.address);
            let link = cx.context.interfaces.by_id(interface);
            let Some(source) = link.and_then(|link| link.address_like(address)) else {
                peer.pending.clear();
                continue;
            };
            let message = OutgoingMessage::new(to_neighbor(source, address)).to(Some(index));
            while self.refresh_reduction.is_owed(index) {
                self.refresh_reduction.send(&mut self.counters, cx.out, message, &Body::Ack);
            }
        }
    }

    /// A neighbour got a message of ours, or does not know one that a summary named.
    fn receive_acknowledgement<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        peer: Index,
        acknowledgement: Acknowledgement,
    ) {
        let Acknowledgement { kind, epoch, id } = acknowledgement;
        if epoch != self.refresh_reduction.sent.epoch() {
            return; // of an earlier life of this node
        }
        let Some(entry) = self.refresh_reduction.sent.find(id) else {
            if kind == AcknowledgementKind::Ack
                && self.refresh_reduction.copies.remove(&id).is_some()
            {
                self.counters.reduction.acknowledged += 1;
            }
            return;
        };
        if !self.is_listed_for(cx, entry, peer) {
            return;
        }
        match (kind, self.refresh_reduction.sent.delivery_state(entry)) {
            (AcknowledgementKind::Ack, DeliveryState::Open) => self.add_to_summary(cx, entry, peer),
            (AcknowledgementKind::Nack, DeliveryState::Listed { peer: listed, .. })
                if listed == peer =>
            {
                self.counters.reduction.forgotten += 1;
                self.retransmit_exhausted(cx.now, entry);
            }
            _ => {}
        }
    }

    /// A peer has got what an entry says: it is reminded of it in summaries from now on.
    fn add_to_summary<E>(&mut self, cx: &HandlerContext<'_, '_, E>, entry: Index, index: Index) {
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        if !peer.capable {
            return;
        }
        if peer.summary_list.is_empty() {
            let link = cx.context.interfaces.by_id(peer.interface);
            peer.end = link.map(|link| LinkEnd::towards(peer.address, link));
        }
        let place = peer.summary_list.push(self.refresh_reduction.sent.id(entry));
        self.refresh_reduction
            .sent
            .set_delivery_state(entry, DeliveryState::Listed { peer: index, place });
        self.counters.reduction.acknowledged += 1;
        match self.refresh_reduction.sent.subject(entry) {
            Subject::Path(sender) => self.store.psb_mut(sender).path_refresh_at = Time::MAX,
            Subject::Resv(sender) => self.store.psb_mut(sender).resv_refresh_at = Time::MAX,
            // Its timer finds that there is nothing to do, once all its hops have acknowledged.
            Subject::Shared(_) => {}
        }
        self.arm_summary(cx.now, index);
    }

    /// Whether a peer is who was told what an entry says.
    fn is_listed_for<E>(&self, cx: &HandlerContext<'_, '_, E>, entry: Index, peer: Index) -> bool {
        let hop = match self.refresh_reduction.sent.subject(entry) {
            Subject::Path(sender) => {
                let outgoing = self.store.psb(sender).outgoing.as_slice().first().copied();
                return self.peer_for_path(cx, sender, outgoing) == Some(peer);
            }
            Subject::Resv(sender) => self.store.psb(sender).hop,
            Subject::Shared(pool) => {
                let asked = &self.store.pool(pool).asked;
                let Some(asked) = asked.iter().find(|asked| asked.told == entry) else {
                    return false;
                };
                asked.hop
            }
        };
        self.store.neighbor_of(hop).is_some_and(|(interface, hop)| {
            self.refresh_reduction.peer(interface, hop.address) == Some(peer)
        })
    }

    /// Whether the message being treated was made before the one that named this block.
    #[inline]
    pub(crate) fn is_overtaken<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        block: MessageIdKey,
    ) -> bool {
        cx.name.is_some() && cx.name.is_before(block)
    }

    /// A block says what the message being treated says; by that name it can be refreshed from now on.
    #[inline]
    pub(crate) fn remember<E>(&mut self, cx: &HandlerContext<'_, '_, E>, named: NamedBlock) {
        self.store.set_name(named, cx.name);
    }

    /// The messages of a Bundle, each as if it had come alone, but for the TTL that the Bundle was sent with
    /// (section 3.4).
    pub(crate) fn receive_bundle<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        send_ttl: u8,
        bundle: &Bundle<'_>,
    ) {
        for payload in bundle.iter() {
            (cx.name, cx.owed) = (MessageIdKey::NONE, None);
            self.counters.reduction.unbundled += 1;
            self.message_arrives(cx, &Datagram { payload, ..*datagram }, Some(send_ttl));
        }
    }
}

impl super::RefreshReduction {
    /// Whether acknowledgements wait to be sent.
    fn is_owed(&self, peer: Index) -> bool {
        self.peers.get(peer).is_some_and(|peer| !peer.pending.is_empty())
    }
}

/// A message from a Bundle as it would have come alone: to whoever is at the end of its way.
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

/// The node that made what is in front of a message (section 4.5), and the R that it says to keep, or 0.
fn message_source(datagram: &Datagram<'_>, body: &Body<'_>) -> (IpAddr, u32) {
    match body {
        Body::Path(path) => (path.hop.address, path.refresh_ms),
        Body::Resv(resv) => (resv.hop.address, resv.refresh_ms),
        Body::PathTear(tear) => (tear.hop.address, 0),
        Body::ResvTear(tear) => (tear.hop.address, 0),
        Body::ResvErr(error) => (error.hop.address, 0),
        _ => (datagram.source, 0),
    }
}
