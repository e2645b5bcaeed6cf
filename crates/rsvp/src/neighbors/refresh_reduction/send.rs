//! Transmission of messages with the capability flag, pending acknowledgements and MESSAGE_ID.

use core::net::IpAddr;

use earmark_core::timer::TimingWheel;
use earmark_core::{Context, Effects, Hop, InterfaceId, Neighbor, Outgoing, Time};
use earmark_wire::rsvp::{Acknowledgement, AcknowledgementKind, Body, List, Message, MessageId};

use super::peer::Peer;
use super::sent_message_ids::Subject;
use super::state::{RefreshReduction, StoredMessage};
use crate::context::HandlerContext;
use crate::counters::Counters;
use crate::instance::{NEIGHBOR_TTL, PROTOCOL};
use crate::state::{Index, NONE, Timer, TimerKind};

/// Block index of timers that concern no block.
const NO_BLOCK: Index = NONE;

/// Octets left free in each packet for the IP header with options and for INTEGRITY.
const HEADROOM: usize = 128;

/// Reason for sending a Path or Resv.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SendReason {
    /// A trigger message: its content is new.
    Trigger,
    /// A refresh of unchanged state.
    Refresh,
    /// A retransmission after this many transmissions.
    Retransmission(u8),
}

/// A message with its header and receiver.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutgoingMessage {
    how: Outgoing,
    to: Receiver,
    message_id: Option<MessageId>,
    /// Send_TTL in the common header.
    send_ttl: u8,
}

/// Receiver of a message.
#[derive(Clone, Copy, Debug)]
enum Receiver {
    /// A neighbour without refresh reduction, or an unknown one.
    NotPeer,
    /// A peer that forwards a message addressed to another node.
    Via(Index),
    /// A peer by its own address; acknowledgements can be included.
    Peer(Index),
}

impl OutgoingMessage {
    #[inline(always)]
    pub(crate) fn new(how: Outgoing) -> OutgoingMessage {
        OutgoingMessage { how, to: Receiver::NotPeer, message_id: None, send_ttl: how.ttl }
    }

    /// Sets the neighbour that the message is addressed to.
    pub(crate) fn to(self, peer: Option<Index>) -> OutgoingMessage {
        OutgoingMessage { to: peer.map_or(Receiver::NotPeer, Receiver::Peer), ..self }
    }

    /// Sets the neighbour that forwards the message.
    #[inline(always)]
    pub(crate) fn via(self, peer: Option<Index>) -> OutgoingMessage {
        OutgoingMessage { to: peer.map_or(Receiver::NotPeer, Receiver::Via), ..self }
    }

    /// Sets a Send_TTL that is not the TTL of the packet.
    pub(crate) fn with_send_ttl(self, send_ttl: u8) -> OutgoingMessage {
        OutgoingMessage { send_ttl, ..self }
    }

    #[inline(always)]
    pub(crate) fn with_message_id(self, message_id: Option<MessageId>) -> OutgoingMessage {
        OutgoingMessage { message_id, ..self }
    }

    /// Returns the peer that will acknowledge the message.
    pub(crate) fn receiver(&self) -> Option<Index> {
        match self.to {
            Receiver::NotPeer => None,
            Receiver::Via(peer) | Receiver::Peer(peer) => Some(peer),
        }
    }
}

impl RefreshReduction {
    /// Returns the peer at an address, if it supports refresh reduction.
    #[inline]
    pub(crate) fn peer(&self, interface: InterfaceId, address: IpAddr) -> Option<Index> {
        let index = self.peers.find(interface, address)?;
        self.peers.get(index).filter(|peer| peer.capable).map(|_| index)
    }

    /// Returns the next hop to an address if it supports refresh reduction and is behind `interface`, if that is given.
    /// `hop` looks up the next hop.
    pub(crate) fn peer_towards<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        outgoing: Option<InterfaceId>,
        destination: IpAddr,
        hop: impl FnOnce(&Context<'_>) -> Option<Hop>,
    ) -> Option<Index> {
        // The number of next hops towards a group is unknown.
        if self.has_no_peers() || destination.is_multicast() {
            return None;
        }
        let hop = hop(cx.context)?;
        if outgoing.is_some_and(|outgoing| outgoing != hop.interface) {
            return None;
        }
        self.peer(hop.interface, hop.gateway.unwrap_or(destination))
    }

    /// Returns whether no peer supports refresh reduction, in which case lookups are skipped.
    #[inline]
    pub(crate) fn has_no_peers(&self) -> bool {
        self.peers.is_empty()
    }

    /// Returns the MESSAGE_ID of a Path or Resv to `peer` and queues it for acknowledgement if necessary.
    /// `stored_entry` is its entry in [`SentMessageIds`](super::sent_message_ids::SentMessageIds).
    #[allow(clippy::too_many_arguments)] // message, RESV_CONFIRM and queue
    pub(super) fn message_id_for(
        &mut self,
        timers: &mut TimingWheel<Timer>,
        now: Time,
        stored_entry: &mut Index,
        subject: Subject,
        peer: Option<Index>,
        confirm: Option<IpAddr>,
        reason: SendReason,
    ) -> Option<MessageId> {
        let entry = *stored_entry;
        if peer.is_none() {
            self.forget(entry);
            *stored_entry = NONE;
            return None;
        }
        let new = entry == NONE;
        *stored_entry = match reason {
            _ if new => self.sent.insert(subject),
            SendReason::Trigger => {
                self.unlist(entry);
                self.sent.renumber(entry);
                entry
            }
            SendReason::Retransmission(_) => {
                self.unlist(entry);
                entry
            }
            SendReason::Refresh => entry,
        };
        let flags = if self.is_listed(*stored_entry) { 0 } else { MessageId::ACK_DESIRED };
        let id = self.sent.id(*stored_entry);
        match reason {
            SendReason::Trigger => self.await_acknowledgement(timers, now, 0, id, confirm),
            SendReason::Retransmission(stage) => {
                self.await_acknowledgement(timers, now, stage, id, confirm);
            }
            SendReason::Refresh if new => self.await_acknowledgement(timers, now, 0, id, confirm),
            SendReason::Refresh => {}
        }
        Some(MessageId { flags, epoch: self.sent.epoch(), id })
    }

    /// Returns the neighbour that receives a message, if the message can be bundled.
    #[inline]
    fn bundle_neighbor(&mut self, message: &OutgoingMessage) -> Option<Neighbor> {
        let peer = message.receiver()?;
        if !self.settings.bundle || message.how.encapsulated {
            return None;
        }
        let peer = self.peers.get(peer).filter(|peer| peer.may_bundle())?;
        self.can_bundle = true;
        Some(peer.location())
    }

    /// Writes a message into the effects and counts it.
    pub(crate) fn send<E>(
        &mut self,
        counters: &mut Counters,
        out: &mut Effects<E>,
        mut message: OutgoingMessage,
        body: &Body<'_>,
    ) {
        message.how.neighbor = self.bundle_neighbor(&message);
        let OutgoingMessage { how, to, message_id, send_ttl } = message;
        let flags = self.settings.flags();
        let mut message = Message { flags, message_id, ..Message::new(send_ttl, *body) };
        let peer = match to {
            Receiver::Peer(peer) => self.peers.get_mut(peer),
            Receiver::NotPeer | Receiver::Via(_) => None,
        };
        let mut taken = 0;
        if let Some(peer) = &peer
            && !peer.pending_acknowledgements.is_empty()
        {
            let room = SMALLEST_MTU.saturating_sub(HEADROOM + message.buffer_len());
            taken = peer.pending_acknowledgements.len().min(room / ACKNOWLEDGEMENT);
            message.acknowledgements = List::Items(&peer.pending_acknowledgements[..taken]);
        }
        // Fails only if the message exceeds one datagram (64 KiB of unknown objects to be forwarded).
        match message.emit(out.send(how, message.buffer_len())) {
            Ok(_) => counters.send(message.body.message_type()),
            Err(_) => return out.discard_last(),
        }
        if let Some(peer) = peer {
            peer.pending_acknowledgements.drain(..taken);
        }
    }

    /// Sends a message without state: with MESSAGE_ID and retransmission to a peer, else once.
    pub(crate) fn send_reliably<E>(
        &mut self,
        timers: &mut TimingWheel<Timer>,
        counters: &mut Counters,
        cx: &mut HandlerContext<'_, '_, E>,
        message: OutgoingMessage,
        body: &Body<'_>,
    ) {
        let receiver = message.receiver();
        let is_full = self.copies.len() >= self.settings.max_copies as usize;
        let Some(receiver) = receiver.filter(|_| !is_full) else {
            return self.send(counters, cx.out, message, body);
        };
        let neighbor = self.peers.get(receiver).map(Peer::location);
        self.send_and_keep(timers, counters, cx, (message, neighbor), body);
    }

    /// Sends a message without state to a node that need not be a neighbour: with MESSAGE_ID and retransmission, if refresh
    /// reduction is used (RFC 3473 section 4.3.2). The node acknowledges it by its address.
    pub(crate) fn send_far<E>(
        &mut self,
        timers: &mut TimingWheel<Timer>,
        counters: &mut Counters,
        cx: &mut HandlerContext<'_, '_, E>,
        how: Outgoing,
        body: &Body<'_>,
    ) {
        let message = OutgoingMessage::new(how);
        if !self.settings.enabled || self.copies.len() >= self.settings.max_copies as usize {
            return self.send(counters, cx.out, message, body);
        }
        self.send_and_keep(timers, counters, cx, (message, None), body);
    }

    /// Sends a message with a new MESSAGE_ID, and keeps a copy, which is sent again until it is acknowledged by this neighbour
    /// or, if there is none, by the destination.
    fn send_and_keep<E>(
        &mut self,
        timers: &mut TimingWheel<Timer>,
        counters: &mut Counters,
        cx: &mut HandlerContext<'_, '_, E>,
        (message, neighbor): (OutgoingMessage, Option<Neighbor>),
        body: &Body<'_>,
    ) {
        let (flags, epoch, id) = (MessageId::ACK_DESIRED, self.sent.epoch(), self.sent.next_id());
        let message_id = Some(MessageId { flags, epoch, id });
        self.send(counters, cx.out, OutgoingMessage { message_id, ..message }, body);
        let how = Outgoing { neighbor, ..message.how };
        let flags = self.settings.flags();
        let message = Message { flags, message_id, ..Message::new(message.send_ttl, *body) };
        let mut octets = alloc::vec![0; message.buffer_len()].into_boxed_slice();
        if message.emit(&mut octets).is_ok() {
            self.copies.insert(id, StoredMessage { how, octets });
            self.await_acknowledgement(timers, cx.now, 0, id, None);
        }
    }

    /// Acknowledges a message of a node that need not be a neighbour.
    pub(crate) fn send_far_ack<E>(
        &mut self,
        counters: &mut Counters,
        cx: &mut HandlerContext<'_, '_, E>,
        own: IpAddr,
        to: IpAddr,
        MessageId { epoch, id, .. }: MessageId,
    ) {
        let acknowledgements = [Acknowledgement { kind: AcknowledgementKind::Ack, epoch, id }];
        let how = Outgoing::new(PROTOCOL, own, to, NEIGHBOR_TTL);
        let message = Message {
            flags: self.settings.flags(),
            acknowledgements: List::Items(&acknowledgements),
            ..Message::new(how.ttl, Body::Ack)
        };
        match message.emit(cx.out.send(how, message.buffer_len())) {
            Ok(_) => counters.send(message.body.message_type()),
            Err(_) => cx.out.discard_last(),
        }
    }

    /// Queues a message after transmission number `stage`, counted from 0.
    fn await_acknowledgement(
        &mut self,
        timers: &mut TimingWheel<Timer>,
        now: Time,
        stage: u8,
        id: u32,
        confirm: Option<IpAddr>,
    ) {
        if self.retransmissions.len() < self.settings.max_unacknowledged as usize {
            self.retransmissions.push(now, stage, id, confirm);
            self.arm_retransmissions(timers);
        }
    }

    /// Arms the retransmission timer for the first queued message.
    pub(super) fn arm_retransmissions(&mut self, timers: &mut TimingWheel<Timer>) {
        let due = if self.peers_to_resend.is_empty() {
            self.retransmissions.due()
        } else {
            Some(Time::ZERO)
        };
        let Some(due) = due else { return };
        let due = due.max(self.next_burst);
        match self.retransmission_timer {
            Some((_, armed)) if armed <= due => {}
            Some((timer, _)) => {
                timers.rearm(timer, due);
                self.retransmission_timer = Some((timer, due));
            }
            None => {
                let timer = Timer { kind: TimerKind::Retransmission, block: NO_BLOCK };
                self.retransmission_timer = Some((timers.arm(due, timer), due));
            }
        }
    }
}

/// Minimum MTU assumed, octets: that of Ethernet links and most tunnels over them.
const SMALLEST_MTU: usize = 1_400;
/// Length of a MESSAGE_ID_ACK object, octets.
const ACKNOWLEDGEMENT: usize = 12;
