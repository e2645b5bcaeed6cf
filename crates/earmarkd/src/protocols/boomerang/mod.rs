//! Boomerang: its settings, its requests, its events as text, and its offload to the kernel.

pub(crate) mod config;
pub(crate) mod describe;
mod keys;
mod log_entry;
mod node;
pub mod offload;
pub(crate) mod request;

use earmark_boomerang as boomerang;
use earmark_control::{ApplicationId, ListenRequest, Problem, ReservationRequest};
use earmark_core::{InterfaceId, Rate};
use earmark_node::{Command, Event};
use serde_json::{Map, Value};

use crate::protocol::{Detail, Host, LogFields, LogKind, Opening, Protocol, rejected};

pub use config::BoomerangConfig;

/// Boomerang.
pub(crate) struct Boomerang;

impl Protocol for Boomerang {
    fn name(&self) -> &'static str {
        "boomerang"
    }

    fn reserve(&self, request: ReservationRequest, host: &dyn Host) -> Result<Opening, Problem> {
        request::reserve(request, host)
    }

    fn listen(&self, _request: ListenRequest, _host: &dyn Host) -> Result<Opening, Problem> {
        Err(rejected(
            "Boomerang needs no listener".to_owned(),
            "every host that answers pings is a responder",
        ))
    }

    fn change(&self, request: ReservationRequest, host: &dyn Host) -> Result<Opening, Problem> {
        request::change(request, host)
    }

    fn set_rate(&self, options: &mut Map<String, Value>, rate: Rate) {
        request::set_forward_rate(options, rate);
    }

    /// The nodes that take part are counted after a grant, except in a group.
    fn is_preliminary(&self, event: &Event) -> bool {
        use boomerang::Event::{Changed, Established};
        matches!(event, Event::Boomerang(Changed { .. } | Established { confirmed: true, .. }))
    }

    fn changeable_options(&self) -> Option<&'static [&'static str]> {
        Some(&["rates"])
    }

    fn restores_refused_change(&self) -> bool {
        true
    }

    fn signals(&self, detail: Detail) -> bool {
        matches!(detail, Detail::Query | Detail::IpProtocol | Detail::Token)
    }

    fn release(&self, application: ApplicationId) -> Command {
        Command::Boomerang(boomerang::Command::Release { application })
    }

    fn describe(&self, event: &Event, on: &str) -> Option<String> {
        match event {
            Event::Boomerang(event) => Some(describe::event(event, on)),
            _ => None,
        }
    }

    fn log_kind(&self, event: &Event) -> Option<LogKind> {
        match event {
            Event::Boomerang(event) => Some(log_entry::kind(event)),
            _ => None,
        }
    }

    fn log_fields(&self, event: &Event) -> LogFields {
        match event {
            Event::Boomerang(event) => log_entry::fields(event),
            _ => LogFields::default(),
        }
    }

    fn interface_of(&self, event: &Event) -> Option<InterfaceId> {
        match event {
            Event::Boomerang(
                boomerang::Event::Reservation { interface, .. }
                | boomerang::Event::Dropped { interface, .. },
            ) => Some(*interface),
            _ => None,
        }
    }

    fn rejection(&self, event: &Event) -> Option<(String, &'static str)> {
        match event {
            Event::Boomerang(boomerang::Event::Rejected { reason, .. }) => {
                let (what, hint) = describe::rejection(*reason);
                Some((what.to_owned(), hint))
            }
            _ => None,
        }
    }

    fn is_instruction(&self, event: &Event) -> bool {
        use boomerang::Event::{Allowance, Expiring, Offload, Recall, Withhold};
        matches!(
            event,
            Event::Boomerang(
                Offload(_) | Allowance { .. } | Withhold { .. } | Recall { .. } | Expiring { .. }
            )
        )
    }

    /// Applications that were given up, or only queried, have no state that a release could end.
    fn ends(&self, event: &Event) -> bool {
        matches!(
            event,
            Event::Boomerang(boomerang::Event::Released { .. } | boomerang::Event::Offered { .. })
        )
    }
}
