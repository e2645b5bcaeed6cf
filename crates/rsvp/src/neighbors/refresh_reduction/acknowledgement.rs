//! Acknowledgements and NACKs, sent and received (RFC 2961 sections 4.3 and 4.6).

use core::net::IpAddr;

use earmark_core::{Datagram, Neighbor, Time};
use earmark_wire::rsvp::{Acknowledgement, AcknowledgementKind, Body, Message, MessageId};

use super::peer::LinkEnd;
use super::send::OutgoingMessage;
use super::sent_message_ids::{DeliveryState, Subject};
use super::state::StoredMessage;
use crate::api::Event;
use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::state::message_id_key::MessageIdKey;
use crate::state::{Holder, Index, NONE, Timer, TimerKind};

impl Rsvp {
    /// Queues the acknowledgement of the current message if its sender has requested it.
    #[inline]
    pub(super) fn acknowledge_if_asked<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        id: MessageId,
    ) {
        if id.flags & MessageId::ACK_DESIRED != 0 {
            self.acknowledge(cx.now, index, AcknowledgementKind::Ack, cx.message_id);
            cx.acknowledge_to = Some((index, cx.message_id));
        }
    }

    /// Counts the acknowledgements in a message that is not known to come from a peer.
    #[inline]
    pub(super) fn count_foreign_acknowledgements(&mut self, message: &Message<'_>) {
        let is_waiting = |ack: &Acknowledgement| self.refresh_reduction.is_waiting_for(ack);
        let foreign = message.acknowledgements.iter().filter(is_waiting).count();
        self.counters.foreign_acknowledgements += foreign as u64;
    }

    /// Queues an acknowledgement or NACK for a peer. It is sent with the next message to the peer, or after a short
    /// delay in an Ack message.
    pub(super) fn acknowledge(
        &mut self,
        now: Time,
        index: Index,
        kind: AcknowledgementKind,
        name: MessageIdKey,
    ) {
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        if !peer.queue_acknowledgement(kind, name.epoch, name.id) {
            return;
        }
        self.refresh_reduction.peers_to_acknowledge.push(index);
        if self.refresh_reduction.acknowledgement_timer.is_none() {
            // Random delay, so that several receivers of a message do not acknowledge it at once (section 4.7).
            let longest = self.config.reduction.acknowledge_within;
            let delay = self.refresh_reduction.jitter.uniform(longest / 2, longest);
            let timer = Timer { kind: TimerKind::Acknowledgement, block: NONE };
            self.refresh_reduction.acknowledgement_timer =
                Some(self.store.timers.arm(now + delay, timer));
        }
    }

    /// Removes the pending acknowledgement of the current Path or Resv because it was not accepted. Otherwise the
    /// sender would list it in summary refreshes that this node cannot process. If an error is sent, it ends the
    /// retransmission (section 4.5).
    #[cold]
    pub(crate) fn withhold_acknowledgement<E>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        let Some((index, name)) = cx.acknowledge_to.take() else { return };
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        let nothing_left =
            peer.cancel_acknowledgement(AcknowledgementKind::Ack, name.epoch, name.id);
        if nothing_left && self.refresh_reduction.peers_to_acknowledge.last() == Some(&index) {
            self.refresh_reduction.peers_to_acknowledge.pop();
        }
    }

    /// Sends pending acknowledgements in Ack messages.
    pub(crate) fn acknowledgements_due<E>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        self.refresh_reduction.acknowledgement_timer = None;
        while let Some(index) = self.refresh_reduction.peers_to_acknowledge.pop() {
            let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { continue };
            let (interface, address) = (peer.interface, peer.address);
            let link = cx.context.interfaces.by_id(interface);
            let Some(source) = link.and_then(|link| link.address_like(address)) else {
                peer.pending_acknowledgements.clear();
                continue;
            };
            let how = self.to_neighbor(interface, source, address);
            let message = OutgoingMessage::new(how).to(Some(index));
            while self.refresh_reduction.has_pending_acknowledgements(index) {
                self.refresh_reduction.send(&mut self.counters, cx.out, message, &Body::Ack);
            }
        }
    }

    /// Handles one acknowledgement, or a NACK for an identifier in a summary refresh.
    pub(super) fn receive_acknowledgement<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        sender: Index,
        acknowledgement: &Acknowledgement,
    ) {
        let &Acknowledgement { kind, epoch, id } = acknowledgement;
        if epoch != self.refresh_reduction.sent.epoch() {
            return; // of a previous run of this node
        }
        let Some(entry) = self.refresh_reduction.sent.find(id) else {
            // Without a copy the message was acknowledged before, or its state has changed.
            let Some(receiver) = self.refresh_reduction.receiver_of_copy(id) else { return };
            if !self.is_same_node(cx, datagram, sender, receiver) {
                self.counters.foreign_acknowledgements += 1;
            } else if kind == AcknowledgementKind::Ack {
                self.refresh_reduction.copies.remove(&id);
                self.note_acknowledgement(receiver, id);
            }
            return;
        };
        let Some(receiver) = self.receiver_of(cx, entry) else { return };
        if !self.is_same_node(cx, datagram, sender, receiver) {
            // While a route change waits to be announced, the former next hop may acknowledge what it has got.
            self.counters.foreign_acknowledgements += u64::from(self.repairs.is_idle());
            return;
        }
        match (kind, self.refresh_reduction.sent.delivery_state(entry)) {
            (AcknowledgementKind::Ack, DeliveryState::Open) => {
                self.add_to_summary(cx, entry, receiver);
            }
            (AcknowledgementKind::Nack, DeliveryState::Listed { peer: listed, .. })
                if listed == receiver =>
            {
                self.counters.reduction.forgotten += 1;
                self.resend_unknown(cx.now, entry);
            }
            _ => {}
        }
    }

    /// Handles the acknowledgements, by a node that need not be a neighbour, of messages that were addressed to it. Returns
    /// whether there were any, and no others.
    pub(crate) fn acknowledge_far(&mut self, node: IpAddr, message: &Message<'_>) -> bool {
        let (mut found_any, mut found_others) = (false, false);
        for Acknowledgement { kind, epoch, id } in message.acknowledgements {
            let copy = self.refresh_reduction.copies.get(&id);
            let is_far =
                |copy: &StoredMessage| copy.how.neighbor.is_none() && copy.how.destination == node;
            if kind == AcknowledgementKind::Ack
                && epoch == self.refresh_reduction.sent.epoch()
                && copy.is_some_and(is_far)
            {
                self.refresh_reduction.copies.remove(&id);
                self.counters.reduction.acknowledged += 1;
                found_any = true;
            } else {
                found_others = true;
            }
        }
        found_any && !found_others
    }

    /// Returns whether the peer that has sent a message is the receiver of what it acknowledges: that peer itself, or one
    /// with its address behind another interface, from which the message may act there.
    #[inline]
    fn is_same_node<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        sender: Index,
        receiver: Index,
    ) -> bool {
        if sender == receiver {
            return true;
        }
        let peers = &self.refresh_reduction.peers;
        let (Some(sender), Some(receiver)) = (peers.get(sender), peers.get(receiver)) else {
            return false;
        };
        let Neighbor { interface, address } = receiver.location();
        sender.address == address && self.is_trusted_at(cx, datagram, interface, address).is_ok()
    }

    /// Counts an acknowledged message.
    #[inline]
    fn note_acknowledgement(&mut self, index: Index, id: u32) {
        self.counters.reduction.acknowledged += 1;
        if let Some(peer) = self.refresh_reduction.peers.get_mut(index) {
            peer.note_acknowledgement(id);
        }
    }

    /// Adds an acknowledged entry to the summary refresh list of a peer.
    fn add_to_summary<E>(&mut self, cx: &HandlerContext<'_, '_, E>, entry: Index, index: Index) {
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        if !peer.capable {
            return;
        }
        if peer.summary_list.is_empty() {
            let link = cx.context.interfaces.by_id(peer.interface);
            peer.local_end = link.map(|link| LinkEnd::towards(peer.address, link));
        }
        let place = peer.summary_list.push(self.refresh_reduction.sent.id(entry));
        self.refresh_reduction
            .sent
            .set_delivery_state(entry, DeliveryState::Listed { peer: index, place });
        let id = self.refresh_reduction.sent.id(entry);
        self.note_acknowledgement(index, id);
        match self.refresh_reduction.sent.subject(entry) {
            Subject::Path(sender) => self.store.psb_mut(sender).path_refresh_at = Time::MAX,
            // No summary refresh asks for a confirmation.
            Subject::Resv(sender) if self.unconfirmed_request(Holder::Sender(sender)).is_some() => {
            }
            Subject::Resv(sender) => self.store.psb_mut(sender).resv_refresh_at = Time::MAX,
            // The pool's timer handler finds nothing to refresh once all previous hops have acknowledged.
            Subject::Shared(_) => {}
        }
        self.arm_summary(cx.now, index);
    }
}

impl super::RefreshReduction {
    /// Returns whether an acknowledgement names a message that its receiver may still acknowledge.
    fn is_waiting_for(&self, acknowledgement: &Acknowledgement) -> bool {
        let &Acknowledgement { epoch, id, .. } = acknowledgement;
        epoch == self.sent.epoch()
            && (self.sent.find(id).is_some() || self.copies.contains_key(&id))
    }

    /// Returns the peer that is to acknowledge a message without state.
    pub(super) fn receiver_of_copy(&self, id: u32) -> Option<Index> {
        let receiver = self.copies.get(&id)?.how.neighbor?;
        self.peers.find(receiver.interface, receiver.address)
    }

    /// Returns whether acknowledgements are pending.
    fn has_pending_acknowledgements(&self, peer: Index) -> bool {
        self.peers.get(peer).is_some_and(|peer| !peer.pending_acknowledgements.is_empty())
    }
}
