//! NSIS: its settings, its requests, and its events as text.

pub(crate) mod config;
pub(crate) mod describe;
mod log_entry;
pub(crate) mod natfw;
mod node;
pub(crate) mod ping;
pub(crate) mod request;

use earmark_control::{ApplicationId, ListenRequest, Problem, ReservationRequest};
use earmark_core::InterfaceId;
use earmark_node::{Command, Event};
use earmark_nsis::{self as nsis, gist, qos};

use crate::protocol::{Detail, Host, LogFields, LogKind, Opening, Protocol};

pub use config::{NsisConfig, NsisInterface};
pub use natfw::config::NatfwSettings;

/// NSIS, with QoS NSLP for reservations.
pub(crate) struct Nsis;

impl Protocol for Nsis {
    fn name(&self) -> &'static str {
        "nsis"
    }

    fn reserve(&self, request: ReservationRequest, host: &dyn Host) -> Result<Opening, Problem> {
        request::reserve(request, host)
    }

    fn listen(&self, request: ListenRequest, host: &dyn Host) -> Result<Opening, Problem> {
        request::listen(request, host)
    }

    fn change(&self, request: ReservationRequest, host: &dyn Host) -> Result<Opening, Problem> {
        request::change(request, host)
    }

    fn changeable_options(&self) -> Option<&'static [&'static str]> {
        Some(&["minimum_bps"])
    }

    fn restores_refused_change(&self) -> bool {
        true
    }

    fn signals(&self, detail: Detail) -> bool {
        !matches!(detail, Detail::Name)
    }

    fn release(&self, application: ApplicationId) -> Command {
        Command::Nsis(nsis::Command::Qos(qos::Command::Release { application }))
    }

    fn describe(&self, event: &Event, on: &str) -> Option<String> {
        match event {
            Event::Nsis(event) => Some(describe::event(event, on)),
            _ => None,
        }
    }

    fn log_kind(&self, event: &Event) -> Option<LogKind> {
        match event {
            Event::Nsis(event) => log_entry::kind(event),
            _ => None,
        }
    }

    fn log_fields(&self, event: &Event) -> LogFields {
        match event {
            Event::Nsis(event) => log_entry::fields(event),
            _ => LogFields::default(),
        }
    }

    fn interface_of(&self, event: &Event) -> Option<InterfaceId> {
        match event {
            Event::Nsis(nsis::Event::Qos(
                qos::Event::Reservation { interface, .. } | qos::Event::Dropped { interface, .. },
            )) => Some(*interface),
            Event::Nsis(nsis::Event::Gist(gist::Event::Ignored { interface, .. })) => *interface,
            _ => None,
        }
    }

    fn rejection(&self, event: &Event) -> Option<(String, &'static str)> {
        match event {
            Event::Nsis(nsis::Event::Qos(qos::Event::Rejected { reason, .. })) => {
                let (what, hint) = describe::qos_rejection(*reason);
                Some((what.to_owned(), hint))
            }
            _ => None,
        }
    }

    fn ends(&self, event: &Event) -> bool {
        matches!(
            event,
            Event::Nsis(nsis::Event::Qos(qos::Event::Released { .. } | qos::Event::Offered { .. }))
        )
    }
}
