//! The engine: takes an input to the rules that treat it.

use earmark_core::admission::Displaced;
use earmark_core::{Context, Effects, Engine, HostEvent, Input, Time};
use earmark_wire::rtcp::SenderInfo;

use crate::api::{Command, Event};
use crate::instance::{HandlerContext, Yessir};
use crate::state::TimerKind;

/// Timers that one [`Input::Expire`] treats at most; the rest is due at once again.
const TIMERS_PER_TURN: usize = 256;

impl Engine for Yessir {
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
        self.store.timers.peek().map(|(at, timer)| (at, timer.kind))
    }
}

impl Yessir {
    fn host_changes<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        event: &HostEvent,
    ) {
        match *event {
            HostEvent::TrafficControlRefused { claim, owner, .. } => {
                self.traffic_control_refuses(cx, claim, owner);
            }
            HostEvent::Displaced(Displaced { claim, owner, kept, .. }) => {
                self.give_way(cx, claim, owner, kept);
            }
            HostEvent::Grantable { interface, owner } => self.grab(cx, interface, owner),
            // Streams that pass through take their new way when they are refreshed. Those of this host are announced on
            // it at once, so that routers further on need not wait.
            HostEvent::RouteChanged(prefix) => {
                self.forget_ways();
                self.announce_anew(cx, |destination| prefix.contains(destination));
            }
            HostEvent::MulticastRouteChanged { group, .. } => {
                self.forget_ways();
                self.announce_anew(cx, |destination| destination == group);
            }
            HostEvent::InterfaceChanged(_) => {
                self.forget_ways();
                self.announce_anew(cx, |_| true);
            }
        }
    }

    /// Ways must be looked up again. Zero is the version of no routes.
    fn forget_ways(&mut self) {
        self.routes_version = self.routes_version.checked_add(1).unwrap_or(1);
    }

    fn command<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>, command: Command) {
        let (application, result) = match command {
            Command::Attach { application, attachment } => {
                (application, self.attach(cx, application, attachment))
            }
            Command::Statistics { application, packets, octets, rtp_timestamp } => {
                let sent = SenderInfo { ntp: 0, rtp_timestamp, packets, octets };
                (application, self.statistics(application, sent))
            }
            Command::Listen { application, destination, port, cname } => {
                (application, self.listen(application, destination, port, cname))
            }
            Command::Release { application } => (application, self.leave(cx, application)),
        };
        if let Err(reason) = result {
            cx.out.notify(Event::Rejected { application, reason });
        }
    }

    fn timers_expire<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        for _ in 0..TIMERS_PER_TURN {
            let Some((_, timer)) = self.store.timers.pop_due(cx.now) else { return };
            match timer.kind {
                TimerKind::Session => self.session_is_due(cx, timer.block),
                TimerKind::Report => self.report_is_due(cx, timer.block),
                TimerKind::Announcement => self.announcements_are_due(cx, timer.block),
            }
        }
    }
}
