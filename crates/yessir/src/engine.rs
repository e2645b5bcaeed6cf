//! The engine: dispatches each input to its handler.

use earmark_core::admission::Displaced;
use earmark_core::{Context, Effects, Engine, HostEvent, Input, Time};
use earmark_wire::rtcp::SenderInfo;

use crate::api::{Application, Command, Event, Rejection};
use crate::instance::{HandlerContext, Yessir};
use crate::roles::Role;
use crate::state::TimerKind;

/// Maximum number of timers that one [`Input::Expire`] handles; the rest is due again at once.
const MAX_TIMERS_PER_INPUT: usize = 256;

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
            Input::Datagram(datagram) => self.handle_message(&mut cx, &datagram),
            // YESSIR has no connections.
            Input::Stream(_) => {}
            Input::Expire => self.timers_expire(&mut cx),
            Input::Command(command) => self.command(&mut cx, command),
            Input::Host(event) => self.handle_host_event(&mut cx, &event),
        }
    }

    fn next_deadline(&self) -> Option<(Time, TimerKind)> {
        self.store.timers.peek().map(|(at, timer)| (at, timer.kind))
    }
}

impl Yessir {
    fn handle_host_event<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        event: &HostEvent,
    ) {
        match *event {
            HostEvent::TrafficControlRefused { claim, owner, .. } => {
                self.handle_traffic_control_refusal(cx, claim, owner);
            }
            HostEvent::Displaced(Displaced { claim, owner, kept, .. }) => {
                self.handle_preemption(cx, claim, owner, kept);
            }
            HostEvent::Grantable { interface, owner } => self.grab(cx, interface, owner),
            HostEvent::Adopted | HostEvent::Filter(_) => {}
            // Streams in transit follow a new route when they are refreshed. Those of this host are announced on it
            // at once, so that downstream routers need not wait.
            HostEvent::RouteChanged(prefix) => {
                self.invalidate_routes();
                self.announce_again(cx, |destination| prefix.contains(destination));
            }
            HostEvent::MulticastRouteChanged { group, .. } => {
                self.invalidate_routes();
                self.announce_again(cx, |destination| destination == group);
            }
            HostEvent::InterfaceChanged(_) => {
                self.invalidate_routes();
                self.announce_again(cx, |_| true);
            }
        }
    }

    /// Invalidates the routes found for streams. Zero is the version of a session without a route.
    fn invalidate_routes(&mut self) {
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
            Command::Tokens { settings } => return self.tokens.reload(settings),
            Command::Keys { keys } => return self.auth.replace_keys(keys),
            Command::WallClock { wall_clock } => return self.set_wall_clock(wall_clock),
        };
        if let Err(reason) = result {
            cx.out.notify(Event::Rejected { application, reason });
        }
    }

    /// Ends the role of an application.
    fn leave<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        application: Application,
    ) -> Result<(), Rejection> {
        let role = self.roles.by_application.remove(&application);
        match role.ok_or(Rejection::NoApplication)? {
            Role::Sender(sender) => self.detach(cx, sender),
            Role::Listener(listener) => self.stop_listening(listener),
        }
        Ok(())
    }

    fn timers_expire<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>) {
        for _ in 0..MAX_TIMERS_PER_INPUT {
            let Some((_, timer)) = self.store.timers.pop_due(cx.now) else { return };
            match timer.kind {
                TimerKind::Session => self.handle_session_timer(cx, timer.block),
                TimerKind::Report => self.handle_report_timer(cx, timer.block),
                TimerKind::Announcement => self.handle_announcement_timer(cx, timer.block),
                TimerKind::Token => self.end_with_token(cx),
            }
        }
    }
}
