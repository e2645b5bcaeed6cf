//! The `trace` request: queries the nodes on the path of a sender for a client (RFC 2745).

use std::time::Duration;

use earmark_control::{ApplicationId, Problem, ProblemCode, SenderName, Trace};
use earmark_node::{Command, Event, Node};
use earmark_rsvp as rsvp;
use earmark_wire::rsvp::{SenderTemplate, Session};

use super::checks::template_of;
use super::request::{rejection, session};
use crate::protocol::{Host, Tracing, rejected};

/// Most senders listed in the error if several match.
const SENDERS_NAMED: usize = 8;

/// Returns the trace that a client asks for.
pub(super) fn begin(request: &Trace, host: &dyn Host) -> Result<Tracing, Problem> {
    let session = session(request.to, request.ip_protocol, host)?;
    let sender = sender_to_trace(host.node(), &session, request.from.as_ref())?;
    let mixed = [Some(sender.source), request.last_hop].into_iter().flatten();
    if mixed.into_iter().any(|other| other.is_ipv4() != session.destination.is_ipv4()) {
        return Err(rejected(
            "the session, its sender and the last hop are of different IP versions".to_owned(),
            "all IPv4 or all IPv6",
        ));
    }
    let trace = rsvp::diagnostics::Trace {
        session,
        sender: Some(sender),
        last_hop: request.last_hop,
        max_hops: request.max_hops,
        patience: Duration::from_millis(request.timeout_ms.into()),
    };
    Ok(Tracing {
        sender: sender.parts().into(),
        command: Box::new(move |application| {
            Command::Rsvp(rsvp::Command::Trace { application, trace })
        }),
        rejection: |event: &Event, number: ApplicationId| {
            let reason = rejection(event, number)?;
            Some(rejected(reason.to_string(), hint_for(reason)))
        },
    })
}

/// Returns the sender to trace: the named one, or the only one that this node knows.
fn sender_to_trace(
    node: &Node,
    session: &Session,
    named: Option<&SenderName>,
) -> Result<SenderTemplate, Problem> {
    let engine = node.engine::<rsvp::Rsvp>().into_iter();
    let senders = engine.flat_map(|engine| engine.senders_of(session));
    let mut known = senders.filter(|s| named.is_none_or(|n| n.matches(&s.parts().into())));
    let first: Vec<SenderTemplate> = known.by_ref().take(SENDERS_NAMED).collect();
    match (&first[..], named) {
        ([one], _) => Ok(*one),
        ([], Some(named)) => Ok(template_of(named)),
        ([], None) => Err(rejected(
            "this node knows no sender of that session".to_owned(),
            "name the sender (--from ADDR:PORT), or ask on a node that the data passes; \
             `earmark show sessions` lists those that it knows",
        )),
        (several, _) => {
            let names: Vec<String> =
                several.iter().map(earmark_control::protocols::rsvp::filter).collect();
            let more = if known.next().is_some() { " and others" } else { "" };
            Err(Problem::new(
                ProblemCode::Rejected,
                "several senders of that session are known here",
                format!("choose one with --from: {}{more}", names.join(", ")),
            ))
        }
    }
}

fn hint_for(reason: rsvp::Rejection) -> &'static str {
    match reason {
        rsvp::Rejection::NoRoute => {
            "no route to the last hop; name a reachable node (--last-hop ADDR)"
        }
        rsvp::Rejection::Limit => "too many traces are in progress; wait until they end",
        _ => "the sender and the last hop must be addresses of single nodes",
    }
}
