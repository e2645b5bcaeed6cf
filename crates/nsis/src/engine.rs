//! The engine: takes an input to the part that treats it.

use earmark_core::{Context, Effects, Engine, HostEvent, Input, Time};

use crate::api::{Command, Event};
use crate::instance::Nsis;

/// Why the next deadline exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimerKind {
    /// Of GIST.
    Gist,
    /// Of an application.
    Application,
}

impl Engine for Nsis {
    type Command = Command;
    type Event = Event;
    type TimerKind = TimerKind;

    fn handle<E: From<Event>>(
        &mut self,
        _now: Time,
        input: Input<'_, Command>,
        _context: &mut Context<'_>,
        _out: &mut Effects<E>,
    ) {
        match input {
            Input::Datagram(_) | Input::Stream(_) | Input::Expire | Input::Command(_) => {}
            Input::Host(HostEvent::Grantable { .. }) => {}
            Input::Host(_) => {}
        }
    }

    fn next_deadline(&self) -> Option<(Time, TimerKind)> {
        None
    }
}
