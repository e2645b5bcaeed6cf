//! RSVP: its settings, its requests, and its events as text.

mod access;
pub(crate) mod checks;
pub(crate) mod config;
mod consequence;
pub(crate) mod describe;
mod keys;
mod log_entry;
mod node;
mod notify;
pub(crate) mod policy;
pub(crate) mod proxy;
pub(crate) mod refresh_reduction;
pub(crate) mod request;
mod timing;
pub(crate) mod trace;

use std::net::IpAddr;

use earmark_control::protocols::rsvp::filter;
use earmark_control::{ApplicationId, ListenRequest, Problem, Request, ReservationRequest};
use earmark_core::InterfaceId;
use earmark_node::{Command, Event};
use earmark_rsvp as rsvp;

use crate::protocol::{Action, Consequence, Detail, Host, LogFields, LogKind, Opening, Protocol};

pub use config::{IntegrityConfig, Limits, RsvpConfig, RsvpInterface};

/// RSVP (RFC 2205).
pub(crate) struct Rsvp;

impl Protocol for Rsvp {
    fn name(&self) -> &'static str {
        "rsvp"
    }

    fn reserve(&self, request: ReservationRequest, host: &dyn Host) -> Result<Opening, Problem> {
        request::reserve(request, host)
    }

    fn listen(&self, request: ListenRequest, host: &dyn Host) -> Result<Opening, Problem> {
        request::listen(request, host)
    }

    fn signals(&self, detail: Detail) -> bool {
        !matches!(detail, Detail::Query)
    }

    fn request(&self, request: &Request, host: &dyn Host) -> Option<Result<Action, Problem>> {
        match request {
            Request::Trace(request) => Some(trace::begin(request, host).map(Action::Trace)),
            _ => None,
        }
    }

    fn release(&self, application: ApplicationId) -> Command {
        Command::Rsvp(rsvp::Command::Release { application })
    }

    fn describe(&self, event: &Event, on: &str) -> Option<String> {
        match event {
            Event::Rsvp(event) => Some(describe::event(event, on)),
            Event::NoAnswer { template, reason, .. } => {
                Some(format!("nothing was reserved for sender {}: {reason}", filter(template)))
            }
            _ => None,
        }
    }

    fn log_kind(&self, event: &Event) -> Option<LogKind> {
        match event {
            Event::Rsvp(event) => Some(log_entry::kind(event)),
            _ => None,
        }
    }

    fn log_fields(&self, event: &Event) -> LogFields {
        match event {
            Event::Rsvp(event) => log_entry::fields(event),
            _ => LogFields::default(),
        }
    }

    fn interface_of(&self, event: &Event) -> Option<InterfaceId> {
        match event {
            Event::Rsvp(
                rsvp::Event::Reservation { interface, .. }
                | rsvp::Event::Refused { interface, .. }
                | rsvp::Event::NeighborLost { interface, .. }
                | rsvp::Event::NeighborRestarting { interface, .. }
                | rsvp::Event::Dropped { interface, .. },
            ) => Some(*interface),
            _ => None,
        }
    }

    fn rejection(&self, event: &Event) -> Option<(String, &'static str)> {
        match event {
            Event::Rsvp(rsvp::Event::Rejected { reason, .. }) => {
                Some((reason.to_string(), describe::hint(*reason)))
            }
            _ => None,
        }
    }

    fn session_of(&self, command: &Command) -> Option<(ApplicationId, Option<IpAddr>)> {
        match command {
            Command::Rsvp(rsvp::Command::Session { application, session }) => {
                Some((*application, Some(session.destination)))
            }
            Command::Listen(listen) => Some((listen.application, Some(listen.session.destination))),
            Command::Rsvp(rsvp::Command::Release { application }) => Some((*application, None)),
            _ => None,
        }
    }

    fn consequence<'a>(&self, event: &'a Event) -> Option<Consequence<'a>> {
        consequence::of(event)
    }

    /// A trace ends with its result; senders and receivers stay until they are released.
    fn ends(&self, event: &Event) -> bool {
        matches!(event, Event::Rsvp(rsvp::Event::Traced { .. }))
    }
}
