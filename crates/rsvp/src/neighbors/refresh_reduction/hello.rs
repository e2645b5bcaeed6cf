//! Hello: detection of lost and restarted neighbours (RFC 3209 section 5).
//!
//! A neighbour that is silent is lost, and is asked on while this node has state of it or for it. Otherwise it is asked
//! for as long again, and then no more until its next message: its place among the peers is free for others, because
//! anybody may send a Hello from any address.
//!
//! Each side assigns an instance number to the other and gets it back in every Hello. A node that starts, or has lost
//! the other, takes a new number. A changed instance, or a wrong one in return, therefore shows that the neighbour has
//! lost its state, and the state is sent again at once. A node that sends no requests still answers them.
//!
//! A changed instance of the neighbour does not change that of this node, because Hellos are still exchanged ("this value
//! MUST NOT change while the agent is exchanging Hellos", section 5.3). The neighbour has learned the old one after its
//! restart: a new one would look like a restart of this node, the neighbour would take a new one in turn, and so on for
//! ever.
//!
//! A neighbour with a RESTART_CAP is not lost at once: see [`graceful_restart`](crate::neighbors::graceful_restart).
//!
//! A Hello to an address of the node rather than of an interface is answered from that address, so that nodes can
//! monitor each other across any links between them (RFC 4558).

use core::time::Duration;

use earmark_core::{Datagram, Outgoing, Time};
use earmark_wire::rsvp::{Body, Capability, Hello, HelloKind, HelloMessage};

use super::send::OutgoingMessage;
use crate::api::Event;
use crate::context::HandlerContext;
use crate::counters::DropReason;
use crate::instance::Rsvp;
use crate::state::{Block, Index, Timer, TimerKind};

/// TTL of Hello messages, which are sent to immediate neighbours only.
const HELLO_TTL: u8 = 1;
/// Limit of consecutive wrong instances in requests of a neighbour; above it the neighbour is lost.
const MAX_WRONG_INSTANCES: u8 = 3;

impl Rsvp {
    /// Starts Hello with a neighbour that supports it, if Hello is configured.
    pub(super) fn start_hello(&mut self, now: Time, index: Index) {
        let Some(interval) = self.config.hello.interval else { return };
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        if peer.hello.timer.is_none() {
            let timer = Timer { kind: TimerKind::Hello, block: index };
            // Random delay, so that requests to several neighbours are not synchronized.
            let delay = self.refresh_reduction.jitter.uniform(Duration::ZERO, interval);
            peer.hello.timer = Some(self.store.timers.arm(now + delay, timer));
        }
    }

    /// Handles the Hello timer: sends a request, or detects that the neighbour is lost.
    pub(crate) fn hello_due<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        let now = cx.now;
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        peer.hello.timer = None;
        let Some(interval) = self.config.hello.interval else { return };
        let interval = interval.max(MIN_INTERVAL);
        let patience =
            Duration::try_from_secs_f64(interval.as_secs_f64() * self.config.hello.lost_after)
                .unwrap_or(Duration::MAX);
        let hello = &mut peer.hello;
        let silent = hello.neighbor_instance != 0 && now.since(hello.last_hello_at) > patience;
        let is_forgotten = now.since(peer.last_message_at) > patience.saturating_mul(2)
            && peer.is_idle()
            && !self.graceful_restart.is_restarting((peer.interface, peer.address))
            && [Block::Sender, Block::Reservation].into_iter().all(|block| {
                self.store.blocks_of_neighbor(peer.interface, peer.address, block) == 0
            });
        let hello = &mut peer.hello;
        let recently_asked = hello.last_request_at.is_some_and(|at| now.since(at) < interval);
        if !is_forgotten {
            let timer = Timer { kind: TimerKind::Hello, block: index };
            hello.timer = Some(self.store.timers.arm(now + interval, timer));
        }
        if silent && !self.await_return(cx, index) {
            self.lose_neighbor(cx, index);
        }
        if !recently_asked && !is_forgotten {
            self.send_hello(cx, index, HelloKind::Request, None);
        }
    }

    pub(crate) fn receive_hello<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        message: &HelloMessage,
    ) {
        let hello = &message.hello;
        let limit = self.config.reduction.max_peers;
        let peers = &mut self.refresh_reduction.peers;
        let address = (datagram.interface, datagram.source);
        let Some(index) = peers.find_or_insert(address, limit, cx.context.interfaces) else {
            return self.drop(cx, datagram, DropReason::Limit);
        };
        let Some(peer) = peers.get_mut(index) else { return };
        peer.last_message_at = cx.now;
        let state = &mut peer.hello;
        let request = hello.kind == HelloKind::Request;
        if request {
            state.last_request_at = Some(cx.now);
        }
        state.restart_cap = message.restart_cap;
        state.capability = message.capability.map_or(0, |capability| capability.flags);
        let (mine, theirs) = (state.own_instance, state.neighbor_instance);
        let waits_for = self.graceful_restart.waits_for(address);
        let before = waits_for.unwrap_or(theirs);
        let restarted =
            hello.source_instance == 0 || (before != 0 && hello.source_instance != before);
        let wrong =
            hello.destination_instance != mine && (!request || hello.destination_instance != 0);
        state.wrong_instances = if wrong { state.wrong_instances.saturating_add(1) } else { 0 };
        // A wrong instance in an acknowledgement is final; one in a request may have crossed ours.
        let mistaken =
            wrong && mine != 0 && (!request || state.wrong_instances > MAX_WRONG_INSTANCES);
        let is_known = state.last_hello_at != Time::ZERO;
        let has_lost_state = if restarted && hello.source_instance != 0 {
            let recovers = self.begin_recovery(cx, index);
            if !recovers {
                self.report_lost_neighbor(cx, index);
            }
            !recovers
        } else if restarted || mistaken {
            self.lose_neighbor(cx, index);
            true
        } else if waits_for.is_some() {
            self.restore_channel(cx.now, index);
            false
        } else {
            theirs == 0 // it is back, and may have lost its state
        };
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        peer.hello.neighbor_instance = hello.source_instance;
        peer.hello.last_hello_at = cx.now;
        if has_lost_state && is_known {
            self.resend_all(cx.now, index);
        }
        if request {
            self.send_hello(cx, index, HelloKind::Ack, Some(datagram));
        }
        self.start_hello(cx.now, index);
    }

    /// Handles the loss of a neighbour: the next Hello starts with a new instance.
    pub(super) fn lose_neighbor<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        let instance = self.refresh_reduction.instances.next_u64() as u32 | 1;
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        let hello = &mut peer.hello;
        // The new instance must differ from the last one and must not be zero.
        hello.own_instance = if instance == hello.own_instance { instance ^ 2 } else { instance };
        self.report_lost_neighbor(cx, index);
    }

    /// Reports a neighbour that has lost its state.
    fn report_lost_neighbor<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        (peer.hello.neighbor_instance, peer.hello.wrong_instances) = (0, 0);
        let (interface, address) = (peer.interface, peer.address);
        self.graceful_restart.remove((interface, address));
        self.arm_summary(cx.now, index);
        cx.out.notify(Event::NeighborLost { interface, address });
    }

    /// Sends a Hello. An acknowledgement has the address that the request was sent to as its source.
    pub(super) fn send_hello<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        kind: HelloKind,
        answered: Option<&Datagram<'_>>,
    ) {
        let instance = self.refresh_reduction.instances.next_u64() as u32 | 1;
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        let (interface, address) = (peer.interface, peer.address);
        if peer.hello.own_instance == 0 {
            peer.hello.own_instance = instance;
        }
        let hello = Hello {
            kind,
            source_instance: peer.hello.own_instance,
            destination_instance: peer.hello.neighbor_instance,
        };
        let is_recovering = self.graceful_restart.is_recovering(cx.now);
        let restart_cap = self.config.hello.restart.restart_cap(is_recovering);
        // RecoveryPath messages are wanted in the Recovery Period only (RFC 5063 section 4.4.2).
        let desired = if is_recovering { Capability::RECOVERY_PATH_DESIRED } else { 0 };
        let flags = Capability::RECOVERY_PATH_TRANSMIT | desired;
        let capability = restart_cap.map(|_| Capability { flags });
        let body = Body::Hello(HelloMessage { hello, restart_cap, capability });
        let link = cx.context.interfaces.by_id(interface);
        let source = answered.map(|request| request.destination);
        let source = source.or_else(|| link.and_then(|link| link.address_like(address)));
        let Some(source) = source else { return };
        let to_neighbor = self.to_neighbor(interface, source, address);
        let how = Outgoing { ttl: HELLO_TTL, interface: Some(interface), ..to_neighbor };
        self.refresh_reduction.send(&mut self.counters, cx.out, OutgoingMessage::new(how), &body);
    }
}

/// Minimum interval between requests to one neighbour.
const MIN_INTERVAL: Duration = Duration::from_millis(5);
