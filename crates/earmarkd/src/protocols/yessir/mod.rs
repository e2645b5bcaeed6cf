//! YESSIR: its settings, its requests, and its events as text.

pub(crate) mod config;
pub(crate) mod describe;
mod keys;
mod log_entry;
mod node;
pub(crate) mod request;

use std::net::IpAddr;

use earmark_control::{ApplicationId, ListenRequest, Problem, Request, ReservationRequest};
use earmark_core::{InterfaceId, Rate};
use earmark_node::{Command, Event};
use earmark_yessir as yessir;
use serde_json::{Map, Value};

use crate::protocol::{Action, Detail, Host, LogFields, LogKind, Opening, Protocol, rejected};

pub use config::{YessirConfig, YessirInterface};

/// YESSIR.
pub(crate) struct Yessir;

impl Protocol for Yessir {
    fn name(&self) -> &'static str {
        "yessir"
    }

    fn reserve(&self, request: ReservationRequest, host: &dyn Host) -> Result<Opening, Problem> {
        request::reserve(request, host)
    }

    fn listen(&self, request: ListenRequest, host: &dyn Host) -> Result<Opening, Problem> {
        request::listen(request, host)
    }

    fn change_listener(
        &self,
        _request: ListenRequest,
        _host: &dyn Host,
    ) -> Result<Opening, Problem> {
        Err(rejected(
            "a receiver of YESSIR has nothing to change".to_owned(),
            "with YESSIR the sender sets the rate: change it there",
        ))
    }

    fn set_rate(&self, options: &mut Map<String, Value>, _rate: Rate) {
        for instead in ["codec", "measured", "guaranteed"] {
            options.remove(instead);
        }
    }

    fn request(&self, request: &Request, _host: &dyn Host) -> Option<Result<Action, Problem>> {
        match request {
            Request::Statistics(request) => Some(Ok(request::statistics(*request))),
            _ => None,
        }
    }

    fn signals(&self, detail: Detail) -> bool {
        matches!(detail, Detail::Query | Detail::Token)
    }

    fn release(&self, application: ApplicationId) -> Command {
        Command::Yessir(yessir::Command::Release { application })
    }

    fn describe(&self, event: &Event, on: &str) -> Option<String> {
        match event {
            Event::Yessir(event) => Some(describe::event(event, on)),
            _ => None,
        }
    }

    fn log_kind(&self, event: &Event) -> Option<LogKind> {
        match event {
            Event::Yessir(event) => Some(log_entry::kind(event)),
            _ => None,
        }
    }

    fn log_fields(&self, event: &Event) -> LogFields {
        match event {
            Event::Yessir(event) => log_entry::fields(event),
            _ => LogFields::default(),
        }
    }

    fn interface_of(&self, event: &Event) -> Option<InterfaceId> {
        match event {
            Event::Yessir(
                yessir::Event::Reservation { interface, .. }
                | yessir::Event::Refused { interface, .. }
                | yessir::Event::Ignored { interface, .. },
            ) => Some(*interface),
            _ => None,
        }
    }

    fn rejection(&self, event: &Event) -> Option<(String, &'static str)> {
        match event {
            Event::Yessir(yessir::Event::Rejected { reason, .. }) => {
                Some((reason.to_string(), describe::hint(*reason)))
            }
            _ => None,
        }
    }

    fn session_of(&self, command: &Command) -> Option<(ApplicationId, Option<IpAddr>)> {
        match command {
            Command::Yessir(yessir::Command::Listen { application, destination, .. }) => {
                Some((*application, Some(*destination)))
            }
            Command::Yessir(yessir::Command::Release { application }) => Some((*application, None)),
            _ => None,
        }
    }
}
