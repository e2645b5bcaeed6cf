//! Ping NSLP: finds the nodes on a path that take part, and reserves nothing.

use std::net::SocketAddr;
use std::time::Duration;

use earmark_control::{
    ApplicationId, ListenRequest, Ping as PingRequest, Problem, Request, ReservationRequest, Role,
};
use earmark_node::{Command, Event};
use earmark_nsis::{self as nsis, ping};

use super::describe;
use super::request::attributes;
use crate::protocol::{Action, Detail, Host, Opening, Protocol, ProtocolConfig, rejected, row};

/// Ping NSLP. Its events are described with those of NSIS.
pub(crate) struct Ping;

/// Sends Ping messages.
fn open(request: &PingRequest) -> Opening {
    let span = |milliseconds: u32| Duration::from_millis(milliseconds.into());
    let wanted = ping::Request {
        attributes: attributes(request.reliable, request.secure),
        bandwidth: request.qos,
        count: Some(request.count),
        interval: span(request.interval_ms),
        timeout: request.timeout_ms.map(span),
        ..ping::Request::new(request.to)
    };
    Opening {
        // GIST ignores the port of the data.
        row: row(&Ping, Role::Initiator, SocketAddr::new(request.to, 0), 0, request.hold),
        sender: None,
        follow: request.follow,
        commands: Box::new(move |application| {
            let command = ping::Command::Ping { application, request: wanted };
            vec![Command::Nsis(nsis::Command::Ping(command))]
        }),
    }
}

fn reserves_nothing() -> Problem {
    rejected("Ping NSLP reserves nothing".to_owned(), "`earmark ping` uses it; reserve with nsis")
}

impl ProtocolConfig for Ping {}

impl Protocol for Ping {
    fn name(&self) -> &'static str {
        "ping"
    }

    fn reserve(&self, _request: ReservationRequest, _host: &dyn Host) -> Result<Opening, Problem> {
        Err(reserves_nothing())
    }

    fn listen(&self, _request: ListenRequest, _host: &dyn Host) -> Result<Opening, Problem> {
        Err(reserves_nothing())
    }

    /// Requests to reserve are refused, whatever they have.
    fn signals(&self, _detail: Detail) -> bool {
        true
    }

    fn request(&self, request: &Request, _host: &dyn Host) -> Option<Result<Action, Problem>> {
        match request {
            Request::Ping(request) => Some(Ok(Action::Open(open(request)))),
            _ => None,
        }
    }

    fn release(&self, application: ApplicationId) -> Command {
        Command::Nsis(nsis::Command::Ping(ping::Command::Release { application }))
    }

    fn rejection(&self, event: &Event) -> Option<(String, &'static str)> {
        match event {
            Event::Nsis(nsis::Event::Ping(ping::Event::Rejected { reason, .. })) => {
                Some((reason.to_string(), describe::ping_hint(*reason)))
            }
            _ => None,
        }
    }

    fn ends(&self, event: &Event) -> bool {
        matches!(event, Event::Nsis(nsis::Event::Ping(ping::Event::Finished { .. })))
    }
}
