//! Audit log: one line for each request that changes something, with its user and its outcome and without secrets.

use earmark_control::{ApplicationId, ConfigRequest, Identity, Problem, Release, Request};
use earmark_linux::PeerCredentials;
use serde_json::Value;
use tracing::info;

use super::hub::Hub;
use crate::log::kind::CONTROL_REQUEST;
use crate::user;

/// Target of the log lines.
pub const TARGET: &str = "earmark::audit";

/// A request that changes something.
#[derive(Debug)]
pub(super) struct Entry {
    request: &'static str,
    protocol: String,
    flow: String,
    application: Option<ApplicationId>,
}

/// Longest text of a client in a line, octets.
const LONGEST: usize = 128;

/// Formats the user that a request names. Nothing on this host verifies the name; routers do, by the token.
fn user(identity: &Identity) -> String {
    let proof = if identity.token.is_some() { "token" } else { "claimed" };
    match &identity.user {
        Some(name) => {
            let name: String = name.chars().filter(char::is_ascii_graphic).take(LONGEST).collect();
            format!(" user {name} ({proof})")
        }
        None if identity.token.is_some() => " user (token)".to_owned(),
        None => String::new(),
    }
}

/// Returns the end of a line about a request that only a token can name the user of.
fn by_token(token: Option<&String>) -> &'static str {
    if token.is_some() { " user (token)" } else { "" }
}

impl Entry {
    /// Describes a request before it is carried out; `None` if it changes nothing.
    pub(super) fn of(request: &Request, hub: &Hub) -> Option<Entry> {
        let new = |request, protocol: &str, flow| {
            let protocol = protocol.chars().take(LONGEST).collect();
            Some(Entry { request, protocol, flow, application: None })
        };
        let known = |request, application: ApplicationId| {
            let row = hub.applications.get(&application).map(|known| &known.row);
            let protocol = row.map(|row| row.protocol.clone()).unwrap_or_default();
            let to = |row: &earmark_control::ApplicationRow| {
                format!(
                    "to {}",
                    earmark_control::text::with_port(row.destination, row.destination_port)
                )
            };
            let flow = row.map(to).unwrap_or_default();
            Some(Entry { request, protocol, flow, application: Some(application) })
        };
        match request {
            Request::Show(_) | Request::Watch(_) | Request::Path(_) | Request::Version(_) => None,
            Request::Log(request) if !request.changes() => None,
            Request::Config(request) => match request {
                ConfigRequest::Compare {} => None,
                ConfigRequest::Apply(apply) => {
                    let within =
                        apply.confirm_within_ms.map(|ms| format!("confirm_within_ms {ms}"));
                    new("config apply", "", within.unwrap_or_default())
                }
                ConfigRequest::Confirm {} => new("config confirm", "", String::new()),
                ConfigRequest::RollBack {} => new("config rollback", "", String::new()),
            },
            // The log itself writes the levels.
            Request::Log(_) => new("log", "", String::new()),
            Request::Reserve(request) => {
                let from = request.from.map(|from| format!(" from {from}")).unwrap_or_default();
                let rate = request.rate_bps.map(|rate| format!(" rate {rate}")).unwrap_or_default();
                let flow =
                    format!("to {}{from} ip_protocol {}{rate}", request.to, request.ip_protocol);
                let flow = flow + &user(&request.identity);
                new("reserve", &request.protocol, flow)
            }
            Request::Listen(request) => {
                let flow = format!("on {} ip_protocol {}", request.on, request.ip_protocol);
                let flow = flow + &user(&request.identity);
                new("listen", &request.protocol, flow)
            }
            Request::Ping(request) => new("ping", "", format!("to {}", request.to)),
            Request::Open(request) => {
                let from = request.from.map(|from| format!(" from {from}")).unwrap_or_default();
                let flow = format!("to {}{from} ip_protocol {}", request.to, request.ip_protocol);
                new("open", "natfw", flow + by_token(request.token.as_ref()))
            }
            Request::Expose(request) => {
                let from = request.from.map(|from| format!(" from {from}")).unwrap_or_default();
                let deny = if request.deny { " deny" } else { "" };
                let flow = format!(
                    "port {}{from} ip_protocol {}{deny}",
                    request.port, request.ip_protocol
                );
                new("expose", "natfw", flow + by_token(request.token.as_ref()))
            }
            Request::Trace(request) => new("trace", "", format!("to {}", request.to)),
            Request::Statistics(request) => known("statistics", request.application),
            Request::Keep(request) => known("keep", request.application),
            Request::Change(request) => {
                let rate = request.rate_bps.map(|rate| format!(" rate {rate}")).unwrap_or_default();
                let entry = known("change", request.application);
                entry.map(|entry| Entry { flow: entry.flow + &rate, ..entry })
            }
            Request::Release(Release::Application(application)) => known("release", *application),
            Request::Release(Release::All {}) => new("release", "", "all".to_owned()),
        }
    }

    /// Writes the line, with whether the request came by the web page.
    pub(super) fn log(
        &self,
        peer: &PeerCredentials,
        is_page: bool,
        outcome: &Result<Value, Problem>,
    ) {
        let Entry { request, protocol, flow, application } = self;
        let opened = |answer: &Value| {
            let number = answer.get("application").or_else(|| answer.get("trace"))?.as_u64()?;
            Some(ApplicationId(number))
        };
        let (opened, result) = match outcome {
            Ok(answer) => (opened(answer), "ok"),
            Err(problem) => (None, problem.code.name()),
        };
        let application = application.or(opened).map(|number| number.to_string());
        let application = application.unwrap_or_default();
        let (uid, pid) = (peer.uid, peer.pid);
        let user = user::name_of(uid).unwrap_or_default();
        info!(
            target: TARGET,
            kind = CONTROL_REQUEST.name,
            uid,
            pid,
            user = %user,
            request,
            protocol = %protocol,
            flow = %flow,
            application = %application,
            outcome = result,
            via = is_page.then_some("web"),
            "control request"
        );
    }
}
