//! The engine: dispatches each input to its handler.

use core::net::{IpAddr, Ipv4Addr};

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Context, Datagram, Effects, EndReason, Engine, HostEvent, Input, Time};
use earmark_wire::boomerang::{CommonForm, ErrorKind, View};
use earmark_wire::icmp::{Echo, Kind, PseudoHeader};

use crate::api::{Command, Event, Rejection};
use crate::context::HandlerContext;
use crate::counters::DropReason;
use crate::instance::Boomerang;
use crate::loops::Phase;
use crate::state::TimerKind;

/// Maximum number of timers that one [`Input::Expire`] handles; the rest is due again at once.
const MAX_TIMERS_PER_INPUT: usize = 256;

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
            Input::Datagram(datagram) => self.handle_message(&mut cx, &datagram),
            // Boomerang has no connections.
            Input::Stream(_) => {}
            Input::Expire => self.handle_timers(&mut cx),
            Input::Command(command) => self.handle_command(&mut cx, command),
            Input::Host(event) => self.handle_host_event(&mut cx, &event),
        }
    }

    fn next_deadline(&self) -> Option<(Time, TimerKind)> {
        self.store.timers.peek().map(|(at, timer)| (at, timer.kind()))
    }
}

impl Boomerang {
    #[inline]
    fn handle_message<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
    ) {
        let local = cx.context.interfaces.is_local(datagram.destination);
        if !local
            && let Some(ends) = plain_addresses(datagram)
            && let Some(plain) = CommonForm::read(datagram.payload)
        {
            mark(Checkpoint::Parse);
            return self.transit_plain(cx, datagram, ends, &plain);
        }
        let Some(ends) = PseudoHeader::of(datagram.source, datagram.destination) else {
            return self.drop(cx, datagram, DropReason::BadSource);
        };
        let echo = match Echo::parse(datagram.payload, ends) {
            Ok(echo) => echo,
            Err(error) => {
                self.counters.malform(error.name());
                return self.forward_unchanged(cx, datagram, None, local);
            }
        };
        let view = match View::parse(echo.data) {
            Ok(view) => view,
            Err(error) => {
                // An ordinary ping, or a message of a kind to be left alone, is no error.
                if error.kind != ErrorKind::Magic {
                    self.counters.malform(error.kind.name());
                }
                return self.forward_unchanged(cx, datagram, Some(&echo), local);
            }
        };
        mark(Checkpoint::Parse);
        match (local, echo.kind) {
            (false, Kind::Request) if datagram.destination.is_multicast() => {
                self.transit_multicast(cx, datagram, &view);
            }
            (false, kind) => self.transit(cx, datagram, kind, &view),
            (true, Kind::Request) => self.respond(cx, datagram, ends, Some(&view)),
            (true, Kind::Reply) => self.handle_reply(cx, datagram, &echo, &view),
        }
    }

    /// Forwards a message unchanged that is malformed or not for this engine; a ping to this host is answered.
    #[cold]
    fn forward_unchanged<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        echo: Option<&Echo<'_>>,
        local: bool,
    ) {
        match (local, echo) {
            (false, _) if datagram.destination.is_multicast() => {
                self.relay_multicast(cx, datagram);
            }
            (false, _) => self.relay(cx, datagram),
            (true, Some(Echo { kind: Kind::Request, .. })) => {
                if let Some(ends) = PseudoHeader::of(datagram.source, datagram.destination) {
                    self.respond(cx, datagram, ends, None);
                }
            }
            (true, _) => self.drop(cx, datagram, DropReason::NotForUs),
        }
    }

    /// Handles a command, or notifies of its rejection.
    fn handle_command<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        command: Command,
    ) {
        let (application, done) = match command {
            Command::Reserve { application, request } => {
                (application, self.begin(cx, application, request, Phase::Reserve))
            }
            Command::Query { application, request } => {
                (application, self.begin(cx, application, request, Phase::Query))
            }
            Command::Modify { application, rates } => {
                (application, self.modify(cx, application, &rates))
            }
            Command::Release { application } => match self.loop_of(application) {
                Some(index) => {
                    self.begin_release(cx, index);
                    return;
                }
                None => (application, Err(Rejection::NoSession)),
            },
            Command::Aggregate { rules } => return self.aggregates.replace(&rules),
            Command::Tokens(settings) => return self.tokens.reload(settings),
            Command::Keys { keys } => return self.credentials.replace_keys(keys),
            Command::WallClock { wall_clock } => return self.set_wall_clock(wall_clock),
            Command::Seen(seen) => return self.apply_seen_refreshes(cx.now, &seen),
            Command::Passed(passed) => return self.count_passed(passed),
            Command::Settled(settled) => {
                // The kernel reports what it has done at a message of a neighbor.
                cx.out.set_end_reason(EndReason::TornDown);
                return self.settled(cx, &settled);
            }
        };
        if let Err(reason) = done {
            cx.out.notify(Event::Rejected { application, reason });
        }
    }

    fn handle_host_event<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        event: &HostEvent,
    ) {
        match *event {
            HostEvent::TrafficControlRefused { claim, owner, .. } => {
                self.handle_traffic_control_refusal(cx, claim, owner);
            }
            HostEvent::Displaced(displaced) => self.handle_preemption(cx, &displaced),
            // Sessions are checked against the routes with their next message.
            HostEvent::RouteChanged(_)
            | HostEvent::MulticastRouteChanged { .. }
            | HostEvent::InterfaceChanged(_) => self.epoch = self.epoch.wrapping_add(1),
            // Nothing is queued here: a refused initiating node asks again.
            HostEvent::Grantable { .. } => {}
            HostEvent::Adopted | HostEvent::Filter(_) => {}
        }
    }

    fn handle_timers<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        for _ in 0..MAX_TIMERS_PER_INPUT {
            let Some((_, timer)) = self.store.timers.pop_due(cx.now) else { return };
            match timer.kind() {
                TimerKind::Expiry => self.handle_expiry_timer(cx, timer.block()),
                TimerKind::Loop => self.handle_loop_timer(cx, timer.block()),
                TimerKind::Token => self.end_with_token(cx),
            }
        }
    }
}

/// Returns source and destination of a message that may be a plain one: two IPv4 hosts.
#[inline]
fn plain_addresses(datagram: &Datagram<'_>) -> Option<(Ipv4Addr, Ipv4Addr)> {
    match (datagram.source, datagram.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) if !destination.is_multicast() => {
            Some((source, destination))
        }
        _ => None,
    }
}
