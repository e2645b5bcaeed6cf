//! The `trace` request: queries the nodes on the path of a sender for a client (RFC 2745).

use std::time::Duration;

use earmark_node::{Command, Input};
use earmark_rsvp as rsvp;
use earmark_wire::rsvp::{SenderTemplate, Session, SourceSelector};
use serde_json::Value;

use super::request::{rejection, session};
use crate::control::requests::{RequestHandler, value};
use crate::driver::Kernel;
use crate::protocol::rejected;
use earmark_control::{ApplicationId, Problem, ProblemCode, SenderName, Trace, TraceBegun};

/// Most senders listed in the error if several match.
const SENDERS_NAMED: usize = 8;

impl<K: Kernel> RequestHandler<'_, K> {
    pub(crate) fn trace(&mut self, request: &Trace) -> Result<Value, Problem> {
        let session = session(request.to, request.ip_protocol, self)?;
        let sender = self.sender_to_trace(&session, request.from.as_ref())?;
        let mixed = [Some(sender.source), request.last_hop].into_iter().flatten();
        if mixed.into_iter().any(|other| other.is_ipv4() != session.destination.is_ipv4()) {
            return Err(rejected(
                "the session, its sender and the last hop are of different IP versions".to_owned(),
                "all IPv4 or all IPv6",
            ));
        }
        let RequestHandler { hub, driver, client, now } = self;
        // Earlier events must not be taken for the outcome of the command.
        hub.publish(*now, driver);
        hub.last_application += 1;
        let number = ApplicationId(hub.last_application);
        hub.traces.insert(number, *client);
        let command = rsvp::Command::Trace {
            application: number,
            trace: rsvp::diagnostics::Trace {
                session,
                sender: Some(sender),
                last_hop: request.last_hop,
                max_hops: request.max_hops,
                patience: Duration::from_millis(request.timeout_ms.into()),
            },
        };
        driver.handle(*now, Input::Command(Command::Rsvp(command)));
        let events = driver.take_events();
        if let Some(reason) = events.iter().find_map(|event| rejection(event, number)) {
            hub.traces.remove(&number);
            return Err(rejected(reason.to_string(), hint_for(reason)));
        }
        for event in &events {
            hub.publish_one(*now, event, driver.node());
        }
        Ok(value(TraceBegun {
            trace: number,
            sender: earmark_control::SenderName::from(&sender),
            at_s: now.as_secs_f64(),
        }))
    }

    /// The sender to trace: the named one, or the only one that this node knows.
    fn sender_to_trace(
        &self,
        session: &Session,
        named: Option<&SenderName>,
    ) -> Result<SenderTemplate, Problem> {
        let rsvp = self.driver.node().engine::<rsvp::Rsvp>().into_iter();
        let senders = rsvp.flat_map(|rsvp| rsvp.senders_of(session));
        let mut known = senders.filter(|s| named.is_none_or(|n| n.matches(s)));
        let first: Vec<SenderTemplate> = known.by_ref().take(SENDERS_NAMED).collect();
        match (&first[..], named) {
            ([one], _) => Ok(*one),
            ([], Some(named)) => Ok(SenderTemplate {
                source: named.address,
                selector: match named.flow_label {
                    Some(label) => SourceSelector::FlowLabel(label),
                    None => SourceSelector::Port(named.port),
                },
            }),
            ([], None) => Err(rejected(
                "this node knows of no sender of that session".to_owned(),
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
}

fn hint_for(reason: rsvp::Rejection) -> &'static str {
    match reason {
        rsvp::Rejection::NoRoute => {
            "there is no way from here to the last hop; name a node that can be reached (--last-hop ADDR)"
        }
        rsvp::Rejection::Limit => "other traces are under way; wait until they have ended",
        _ => "the sender and the last hop must be addresses of single nodes",
    }
}
