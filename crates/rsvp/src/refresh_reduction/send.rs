//! How messages leave: with the flag, with acknowledgements that go the same way, with a number where it is of use.

use core::net::IpAddr;

use earmark_core::timer::TimingWheel;
use earmark_core::{Context, Effects, Hop, InterfaceId, Neighbor, Outgoing, Time};
use earmark_wire::rsvp::{Body, List, Message, MessageId};

use super::sent_message_ids::Subject;
use super::{Copy, RefreshReduction};
use crate::counters::Counters;
use crate::instance::HandlerContext;
use crate::state::{Index, NONE, Timer, TimerKind};

/// Timers whose block is of no use have this one.
const NO_BLOCK: Index = NONE;

/// Room that is left in each packet for the IP header with its options, and for a signature, octets.
const HEADROOM: usize = 128;

/// Why a Path or Resv is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    /// It says something new.
    News,
    /// It repeats what was said.
    Refresh,
    /// It was not acknowledged, and has been sent so often already.
    Again(u8),
}

/// Where a message goes, and what goes with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OutgoingMessage {
    how: Outgoing,
    to: Receiver,
    message_id: Option<MessageId>,
}

/// Who gets a message.
#[derive(Clone, Copy, Debug)]
enum Receiver {
    /// A neighbour that takes no part, or nobody knows who.
    Anybody,
    /// A peer that takes up what is addressed to somebody further on.
    OnTheWay(Index),
    /// A peer, by its own address, so that acknowledgements for it can go along.
    Peer(Index),
}

impl OutgoingMessage {
    pub(crate) fn new(how: Outgoing) -> OutgoingMessage {
        OutgoingMessage { how, to: Receiver::Anybody, message_id: None }
    }

    /// It is addressed to this neighbour.
    pub(crate) fn to(self, peer: Option<Index>) -> OutgoingMessage {
        OutgoingMessage { to: peer.map_or(Receiver::Anybody, Receiver::Peer), ..self }
    }

    /// It passes this neighbour, who takes it up.
    pub(crate) fn past(self, peer: Option<Index>) -> OutgoingMessage {
        OutgoingMessage { to: peer.map_or(Receiver::Anybody, Receiver::OnTheWay), ..self }
    }

    pub(crate) fn named(self, message_id: Option<MessageId>) -> OutgoingMessage {
        OutgoingMessage { message_id, ..self }
    }

    /// The peer that will acknowledge it.
    fn receiver(&self) -> Option<Index> {
        match self.to {
            Receiver::Anybody => None,
            Receiver::OnTheWay(peer) | Receiver::Peer(peer) => Some(peer),
        }
    }
}

impl RefreshReduction {
    /// The neighbour at an address, if it takes part.
    #[inline]
    pub(crate) fn peer(&self, interface: InterfaceId, address: IpAddr) -> Option<Index> {
        let index = self.peers.find(interface, address)?;
        self.peers.get(index).filter(|peer| peer.capable).map(|_| index)
    }

    /// The next neighbour on the way to an address, if it takes part, and is behind this interface, if one is given. `hop`
    /// finds the way.
    pub(crate) fn peer_towards<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        outgoing: Option<InterfaceId>,
        destination: IpAddr,
        hop: impl FnOnce(&Context<'_>) -> Option<Hop>,
    ) -> Option<Index> {
        // Towards a group nobody knows how many there are.
        if self.is_alone() || destination.is_multicast() {
            return None;
        }
        let hop = hop(cx.context)?;
        if outgoing.is_some_and(|outgoing| outgoing != hop.interface) {
            return None;
        }
        self.peer(hop.interface, hop.gateway.unwrap_or(destination))
    }

    /// Whether nobody takes part, so that nothing has to be looked up.
    #[inline]
    pub(crate) fn is_alone(&self) -> bool {
        self.peers.is_empty()
    }

    /// The MESSAGE_ID of a Path or Resv to `peer`, which is waited for if need be. `told` is its entry in the book.
    #[allow(clippy::too_many_arguments)] // a message, whom to confirm it to, and where it waits
    pub(super) fn name(
        &mut self,
        timers: &mut TimingWheel<Timer>,
        now: Time,
        told: &mut Index,
        subject: Subject,
        peer: Option<Index>,
        confirm: Option<IpAddr>,
        sending: Sending,
    ) -> Option<MessageId> {
        let entry = *told;
        if peer.is_none() {
            self.forget(entry);
            *told = NONE;
            return None;
        }
        let new = entry == NONE;
        *told = match sending {
            _ if new => self.sent.insert(subject),
            Sending::News => {
                self.open(entry);
                self.sent.renumber(entry);
                entry
            }
            Sending::Again(_) => {
                self.open(entry);
                entry
            }
            Sending::Refresh => entry,
        };
        let flags = if self.is_listed(*told) { 0 } else { MessageId::ACK_DESIRED };
        let id = self.sent.id(*told);
        match sending {
            Sending::News => self.wait(timers, now, 0, id, confirm),
            Sending::Again(stage) => self.wait(timers, now, stage, id, confirm),
            Sending::Refresh if new => self.wait(timers, now, 0, id, confirm),
            Sending::Refresh => {}
        }
        Some(MessageId { flags, epoch: self.sent.epoch(), id })
    }

    /// The peer to which a message may travel together with others: the one that takes it up.
    #[inline]
    fn bundle_neighbor(&mut self, message: &OutgoingMessage) -> Option<Neighbor> {
        let peer = message.receiver()?;
        if !self.settings.bundle || message.how.encapsulated {
            return None;
        }
        let peer = self.peers.get(peer)?;
        self.has_company = true;
        Some(Neighbor { interface: peer.interface, address: peer.address })
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
        let OutgoingMessage { how, to, message_id } = message;
        let flags = self.settings.flags();
        let mut message = Message { flags, message_id, ..Message::new(how.ttl, *body) };
        let peer = match to {
            Receiver::Peer(peer) => self.peers.get_mut(peer),
            Receiver::Anybody | Receiver::OnTheWay(_) => None,
        };
        let mut taken = 0;
        if let Some(peer) = &peer
            && !peer.pending.is_empty()
        {
            let room = SMALLEST_MTU.saturating_sub(HEADROOM + message.buffer_len());
            taken = peer.pending.len().min(room / ACKNOWLEDGEMENT);
            message.acknowledgements = List::Items(&peer.pending[..taken]);
        }
        // Only what is too long for one datagram (64 KiB of objects to be carried on) cannot be written.
        match message.emit(out.send(how, message.buffer_len())) {
            Ok(_) => counters.send(message.body.message_type()),
            Err(_) => return out.discard_last(),
        }
        if let Some(peer) = peer {
            peer.pending.drain(..taken);
        }
    }

    /// Sends a message that has no state behind it: with a number, and again and again if need be, to a peer; once to
    /// anybody else.
    pub(crate) fn send_reliably<E>(
        &mut self,
        timers: &mut TimingWheel<Timer>,
        counters: &mut Counters,
        cx: &mut HandlerContext<'_, '_, E>,
        message: OutgoingMessage,
        body: &Body<'_>,
    ) {
        let peer = message.receiver();
        if peer.is_none() || self.copies.len() >= self.settings.max_copies as usize {
            return self.send(counters, cx.out, message, body);
        }
        let (flags, epoch, id) = (MessageId::ACK_DESIRED, self.sent.epoch(), self.sent.number());
        let message_id = Some(MessageId { flags, epoch, id });
        self.send(counters, cx.out, OutgoingMessage { message_id, ..message }, body);
        let how = Outgoing { neighbor: self.bundle_neighbor(&message), ..message.how };
        let flags = self.settings.flags();
        let message = Message { flags, message_id, ..Message::new(how.ttl, *body) };
        let mut octets = alloc::vec![0; message.buffer_len()].into_boxed_slice();
        if message.emit(&mut octets).is_ok() {
            self.copies.insert(id, Copy { how, octets });
            self.wait(timers, cx.now, 0, id, None);
        }
    }

    /// A message was sent for the time number `stage`, counted from 0.
    fn wait(
        &mut self,
        timers: &mut TimingWheel<Timer>,
        now: Time,
        stage: u8,
        id: u32,
        confirm: Option<IpAddr>,
    ) {
        if self.retries.len() < self.settings.max_unacknowledged as usize {
            self.retries.wait(now, stage, id, confirm);
            self.arm_retries(timers);
        }
    }

    /// Sees to it that the first message that waits is looked at in time.
    pub(super) fn arm_retries(&mut self, timers: &mut TimingWheel<Timer>) {
        let due =
            if self.peers_to_resend.is_empty() { self.retries.due() } else { Some(Time::ZERO) };
        let Some(due) = due else { return };
        let due = due.max(self.next_burst);
        match self.retry_timer {
            Some((_, armed)) if armed <= due => {}
            Some((timer, _)) => {
                timers.rearm(timer, due);
                self.retry_timer = Some((timer, due));
            }
            None => {
                let timer = Timer { kind: TimerKind::Retransmission, block: NO_BLOCK };
                self.retry_timer = Some((timers.arm(due, timer), due));
            }
        }
    }
}

/// Every Ethernet link, and most tunnels through them, take packets of this length, octets.
const SMALLEST_MTU: usize = 1_400;
/// Length of a MESSAGE_ID_ACK object, octets.
const ACKNOWLEDGEMENT: usize = 12;
