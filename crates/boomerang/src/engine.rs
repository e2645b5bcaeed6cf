//! The engine: takes an input to the rules that treat it.

use core::net::{IpAddr, Ipv4Addr};

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Context, Datagram, Effects, Engine, HostEvent, Input, Time};
use earmark_wire::boomerang::{CommonForm, ErrorKind, View};
use earmark_wire::icmp::{Echo, Kind, PseudoHeader};

use crate::api::{Command, Event};
use crate::counters::DropReason;
use crate::instance::{Boomerang, HandlerContext};
use crate::state::TimerKind;

/// Timers that one [`Input::Expire`] treats at most; the rest is due at once again.
const TIMERS_PER_TURN: usize = 256;

impl Engine for Boomerang {
    type Command = Command;
    type Event = Event;
    type TimerKind = TimerKind;

    fn handle<E: From<Event>>(
        &mut self,
        now: Time,
        input: Input<'_, Command>,
        context: &mut Context<'_>,
        out: &mut Effects<E>,
    ) {
        let mut cx = HandlerContext { now, context, out };
        match input {
            Input::Datagram(datagram) => self.message_arrives(&mut cx, &datagram),
            // It has no connections.
            Input::Stream(_) => {}
            Input::Expire => self.timers_expire(&mut cx),
            Input::Command(command) => self.command(&mut cx, command),
            Input::Host(event) => self.host_changes(&mut cx, &event),
        }
    }

    fn next_deadline(&self) -> Option<(Time, TimerKind)> {
        self.store.timers.peek().map(|(at, timer)| (at, timer.kind()))
    }
}

impl Boomerang {
    #[inline]
    fn message_arrives<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
    ) {
        let local = cx.context.interfaces.is_local(datagram.destination);
        if !local
            && let Some(ends) = ends_of_plain(datagram)
            && let Some(plain) = CommonForm::read(datagram.payload)
        {
            mark(Checkpoint::Parse);
            return self.plain_passes_by(cx, datagram, ends, &plain);
        }
        let Some(ends) = PseudoHeader::of(datagram.source, datagram.destination) else {
            return self.drop(cx, datagram, DropReason::BadSource);
        };
        let echo = match Echo::parse(datagram.payload, ends) {
            Ok(echo) => echo,
            Err(error) => {
                self.counters.malform(error.name());
                return self.not_ours(cx, datagram, None, local);
            }
        };
        let view = match View::parse(echo.data) {
            Ok(view) => view,
            Err(error) => {
                // A ping of somebody, or a message of a kind that is to be left alone, is no mistake.
                if error.kind != ErrorKind::Magic {
                    self.counters.malform(error.kind.name());
                }
                return self.not_ours(cx, datagram, Some(&echo), local);
            }
        };
        mark(Checkpoint::Parse);
        match (local, echo.kind) {
            (false, Kind::Request) if datagram.destination.is_multicast() => {
                self.spread(cx, datagram, &view);
            }
            (false, kind) => self.pass_by(cx, datagram, kind, &view),
            (true, Kind::Request) => self.bounce(cx, datagram, ends, Some(&view)),
            (true, Kind::Reply) => self.loop_returns(cx, datagram, &echo, &view),
        }
    }

    /// What cannot be read, or is none of ours, goes on as it is; a ping to this host is answered.
    #[cold]
    fn not_ours<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        echo: Option<&Echo<'_>>,
        local: bool,
    ) {
        match (local, echo) {
            (false, _) if datagram.destination.is_multicast() => {
                self.spread_as_it_is(cx, datagram);
            }
            (false, _) => self.relay(cx, datagram),
            (true, Some(Echo { kind: Kind::Request, .. })) => {
                if let Some(ends) = PseudoHeader::of(datagram.source, datagram.destination) {
                    self.bounce(cx, datagram, ends, None);
                }
            }
            (true, _) => self.drop(cx, datagram, DropReason::NotForUs),
        }
    }

    fn host_changes<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        event: &HostEvent,
    ) {
        match *event {
            HostEvent::TrafficControlRefused { claim, owner, .. } => {
                self.traffic_control_refuses(cx, claim, owner);
            }
            HostEvent::Displaced(displaced) => self.give_way(cx, &displaced),
            // Sessions are checked against the routes when their next message comes.
            HostEvent::RouteChanged(_)
            | HostEvent::MulticastRouteChanged { .. }
            | HostEvent::InterfaceChanged(_) => self.epoch = self.epoch.wrapping_add(1),
            // Nothing waits here: who was refused asks again.
            HostEvent::Grantable { .. } => {}
        }
    }

    fn timers_expire<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        for _ in 0..TIMERS_PER_TURN {
            let Some((_, timer)) = self.store.timers.pop_due(cx.now) else { return };
            match timer.kind() {
                TimerKind::Expiry => self.session_is_due(cx, timer.block()),
                TimerKind::Loop => self.loop_is_due(cx, timer.block()),
            }
        }
    }
}

/// Between whom a message travels that may be a plain one: two hosts that speak IPv4.
#[inline]
fn ends_of_plain(datagram: &Datagram<'_>) -> Option<(Ipv4Addr, Ipv4Addr)> {
    match (datagram.source, datagram.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) if !destination.is_multicast() => {
            Some((source, destination))
        }
        _ => None,
    }
}
