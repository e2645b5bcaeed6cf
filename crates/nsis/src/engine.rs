//! The engine: dispatches each input to the layer that handles it, and executes the requests of applications.

use core::mem;

use earmark_core::{Context, Effects, Engine, Input, Time};

use crate::api::{Command, Event};
use crate::input_context::{InputContext, Output};
use crate::instance::Nsis;
use crate::nslp::{HandlerContext, Nslp};
use crate::{natfw, qos};

/// The layer whose timer is due next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerKind {
    /// A timer of GIST.
    Gist,
    /// A timer of an application.
    Application,
}

/// Limit of rounds for one input in which applications may answer the results of their requests with new requests.
/// Without it, two applications that report every failure to each other would never end.
const MAX_REQUEST_ROUNDS: usize = 64;

impl Engine for Nsis {
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
        self.dispatch(now, input, context, out);
        self.execute_requests(now, context, out);
    }

    fn next_deadline(&self) -> Option<(Time, TimerKind)> {
        let gist = self.gist.next_deadline().map(|at| (at, TimerKind::Gist));
        let application = self.applications.next_deadline().map(|at| (at, TimerKind::Application));
        [gist, application].into_iter().flatten().min_by_key(|(at, _)| *at)
    }
}

impl Nsis {
    fn dispatch(
        &mut self,
        now: Time,
        input: Input<'_, Command>,
        context: &mut Context<'_>,
        out: &mut dyn Output,
    ) {
        let Nsis { gist, applications, requests, .. } = self;
        match input {
            Input::Command(command) => self.command(now, command, context, out),
            Input::Datagram(datagram) => {
                let mut cx = InputContext { now, context, out, applications, requests };
                gist.receive_datagram(&mut cx, &datagram);
            }
            Input::Stream(event) => {
                let mut cx = InputContext { now, context, out, applications, requests };
                gist.stream(&mut cx, &event);
            }
            Input::Expire => {
                let mut cx = InputContext { now, context, out, applications, requests };
                gist.expire_timers(&mut cx);
                cx.call_all(|application, cx| {
                    if application.next_deadline().is_some_and(|at| at <= cx.now) {
                        application.expire(cx);
                    }
                });
            }
            Input::Host(event) => {
                let mut cx = InputContext { now, context, out, applications, requests };
                gist.host_changes(&mut cx, &event);
                cx.call_all(|application, cx| application.host_changes(cx, &event));
            }
        }
    }

    /// Executes a command.
    #[inline(never)] // the dispatch of a message needs fewer registers without it
    fn command(
        &mut self,
        now: Time,
        command: Command,
        context: &mut Context<'_>,
        out: &mut dyn Output,
    ) {
        let Nsis { gist, applications, requests, .. } = self;
        match command {
            Command::Qos(command) => {
                let nslpid = applications.qos.id();
                let mut cx = HandlerContext { now, context, out, nslpid, requests };
                // Otherwise its messages would wait for a transport until nobody has answered.
                if let Some((application, wanted)) = applications.qos.wanted_transport(&command)
                    && !gist.has_transport(wanted)
                {
                    let reason = qos::Rejection::NoTransport;
                    return cx.report(qos::Event::Rejected { application, reason });
                }
                applications.qos.command(&mut cx, command);
            }
            Command::Natfw(command) => {
                let nslpid = applications.natfw.id();
                let mut cx = HandlerContext { now, context, out, nslpid, requests };
                if let Some((application, wanted)) = applications.natfw.wanted_transport(&command)
                    && !gist.has_transport(wanted)
                {
                    let reason = natfw::Rejection::NoTransport;
                    return cx.report(natfw::Event::Rejected { application, reason });
                }
                applications.natfw.command(&mut cx, command);
            }
            Command::Ping(command) => {
                let nslpid = applications.ping.id();
                let mut cx = HandlerContext { now, context, out, nslpid, requests };
                applications.ping.command(&mut cx, command);
            }
            Command::WallClock { wall_clock } => {
                applications.qos.set_wall_clock(wall_clock);
                applications.natfw.set_wall_clock(wall_clock);
            }
            Command::Renew(new) => {
                gist.reload(new.gist);
                applications.qos.reload(now, context.ledger, new.qos);
                applications.natfw.reload(new.natfw);
            }
        }
    }

    /// Executes the requests of applications, and those that result from them.
    fn execute_requests(&mut self, now: Time, context: &mut Context<'_>, out: &mut dyn Output) {
        for _ in 0..MAX_REQUEST_ROUNDS {
            if self.requests.list.is_empty() {
                return;
            }
            mem::swap(&mut self.requests, &mut self.round);
            let Nsis { gist, applications, requests, round } = self;
            let mut cx = InputContext { now, context, out, applications, requests };
            for (nslpid, request) in &round.list {
                gist.execute_request(&mut cx, *nslpid, request, &round.octets);
            }
            round.clear();
        }
        self.gist.counters.requests_left += self.requests.list.len() as u64;
        self.requests.list.clear();
        self.requests.octets.clear();
    }
}
