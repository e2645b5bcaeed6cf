//! Hello: whether a neighbour is there, and still the one that it was (RFC 3209 section 5).
//!
//! Each side gives the other a number, its instance, and gets it back with every Hello. Whoever starts, or has lost the
//! other, takes a new number; so a number that changes, or that comes back wrong, tells that the neighbour knows nothing
//! of what it was told, and it is told again at once. Where this node does not ask, it answers.
//!
//! A Hello that is addressed to an address of the node rather than of an interface is answered from that address, so that
//! nodes can watch each other whatever links lie between (RFC 4558).

use core::time::Duration;

use earmark_core::timer::TimerId;
use earmark_core::{Datagram, Outgoing, Time};
use earmark_wire::rsvp::{Body, Hello, HelloKind};

use super::send::OutgoingMessage;
use crate::api::Event;
use crate::counters::DropReason;
use crate::instance::{HandlerContext, Rsvp};
use crate::refresh::to_neighbor;
use crate::state::{Index, Timer, TimerKind};

/// Hellos go to immediate neighbours only.
const HELLO_TTL: u8 = 1;
/// Rounds in which a neighbour may return a wrong instance before it counts as lost.
const WRONG_ALLOWED: u8 = 3;

/// What Hello knows of a neighbour.
#[derive(Debug, Default)]
pub(crate) struct HelloState {
    /// Src_Instance: our number for it; 0 before the first Hello.
    mine: u32,
    /// Dst_Instance: its number; 0 while there is none.
    theirs: u32,
    /// When it gave a sign of life last.
    heard: Time,
    /// When it last asked, which answers what we would ask.
    asked: Option<Time>,
    /// How often in a row it returned a number that is not ours.
    wrong: u8,
    /// When it is to be asked next.
    timer: Option<TimerId>,
}

/// What is known of a neighbour by Hello.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// No Hello has come from it.
    Unknown,
    /// It answers.
    Alive,
    /// It did, and does no longer.
    Lost,
}

impl HelloState {
    pub(super) fn is_idle(&self) -> bool {
        self.timer.is_none()
    }

    pub(crate) fn liveness(&self) -> Liveness {
        match (self.mine, self.theirs) {
            (_, 1..) => Liveness::Alive,
            (0, 0) => Liveness::Unknown,
            _ if self.heard == Time::ZERO => Liveness::Unknown,
            _ => Liveness::Lost,
        }
    }
}

impl Rsvp {
    /// A neighbour shows that it takes part: it is asked for signs of life, if any neighbour is.
    pub(super) fn greet(&mut self, now: Time, index: Index) {
        let Some(interval) = self.config.hello.interval else { return };
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        if peer.hello.timer.is_none() {
            let timer = Timer { kind: TimerKind::Hello, block: index };
            // At once, but not in step with others.
            let delay = self.refresh_reduction.jitter.uniform(Duration::ZERO, interval);
            peer.hello.timer = Some(self.store.timers.arm(now + delay, timer));
        }
    }

    /// It is time to ask a neighbour, or to find that it is lost.
    pub(crate) fn hello_is_due<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        let now = cx.now;
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        peer.hello.timer = None;
        let Some(interval) = self.config.hello.interval else { return };
        let interval = interval.max(SHORTEST);
        let patience =
            Duration::try_from_secs_f64(interval.as_secs_f64() * self.config.hello.lost_after)
                .unwrap_or(Duration::MAX);
        let hello = &mut peer.hello;
        let silent = hello.theirs != 0 && now.since(hello.heard) > patience;
        let asked = hello.asked.is_some_and(|asked| now.since(asked) < interval);
        let timer = Timer { kind: TimerKind::Hello, block: index };
        hello.timer = Some(self.store.timers.arm(now + interval, timer));
        if silent {
            self.lose_neighbor(cx, index);
        }
        if !asked {
            self.send_hello(cx, index, HelloKind::Request, None);
        }
    }

    pub(crate) fn hello_arrives<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        hello: &Hello,
    ) {
        let most = self.config.reduction.max_partners as usize;
        let peers = &mut self.refresh_reduction.peers;
        let Some(index) = peers.find_or_insert(datagram.interface, datagram.source, most) else {
            return self.drop(cx, datagram, DropReason::Limit);
        };
        let Some(peer) = peers.get_mut(index) else { return };
        peer.heard = cx.now;
        let state = &mut peer.hello;
        let request = hello.kind == HelloKind::Request;
        if request {
            state.asked = Some(cx.now);
        }
        let (mine, theirs) = (state.mine, state.theirs);
        let restarted =
            hello.source_instance == 0 || (theirs != 0 && hello.source_instance != theirs);
        let wrong =
            hello.destination_instance != mine && (!request || hello.destination_instance != 0);
        state.wrong = if wrong { state.wrong.saturating_add(1) } else { 0 };
        // In an answer a wrong number is final; in a request it may be one that has crossed ours.
        let mistaken = wrong && mine != 0 && (!request || state.wrong > WRONG_ALLOWED);
        if restarted || mistaken {
            self.lose_neighbor(cx, index);
        }
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        let state = &mut peer.hello;
        let first = state.theirs == 0 && state.heard != Time::ZERO;
        state.theirs = hello.source_instance;
        state.heard = cx.now;
        if first {
            // It is back, and may have lost what it was told.
            self.resend_all(cx.now, index);
        }
        if request {
            self.send_hello(cx, index, HelloKind::Ack, Some(datagram));
        }
        self.greet(cx.now, index);
    }

    /// Communication with a neighbour is lost: what it says next is a new beginning.
    fn lose_neighbor<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>, index: Index) {
        let instance = self.refresh_reduction.instances.next_u64() as u32 | 1;
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        let hello = &mut peer.hello;
        // A number that differs from the last one, and is not zero.
        hello.mine = if instance == hello.mine { instance ^ 2 } else { instance };
        hello.theirs = 0;
        hello.wrong = 0;
        cx.out.notify(Event::NeighborLost { interface: peer.interface, address: peer.address });
    }

    /// Sends a Hello; an answer leaves from where the request went to.
    fn send_hello<E>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        kind: HelloKind,
        answered: Option<&Datagram<'_>>,
    ) {
        let instance = self.refresh_reduction.instances.next_u64() as u32 | 1;
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        let (interface, address) = (peer.interface, peer.address);
        if peer.hello.mine == 0 {
            peer.hello.mine = instance;
        }
        let body = Body::Hello(Hello {
            kind,
            source_instance: peer.hello.mine,
            destination_instance: peer.hello.theirs,
        });
        let link = cx.context.interfaces.by_id(interface);
        let source = answered.map(|request| request.destination);
        let source = source.or_else(|| link.and_then(|link| link.address_like(address)));
        let Some(source) = source else { return };
        let how =
            Outgoing { ttl: HELLO_TTL, interface: Some(interface), ..to_neighbor(source, address) };
        self.refresh_reduction.send(&mut self.counters, cx.out, OutgoingMessage::new(how), &body);
    }
}

/// No neighbour is asked more often than this.
const SHORTEST: Duration = Duration::from_millis(5);
