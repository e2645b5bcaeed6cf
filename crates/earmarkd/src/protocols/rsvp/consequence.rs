//! What events of RSVP mean for applications of this host that they do not name.

use earmark_control::{ApplicationRow, SenderName};
use earmark_core::outcome::Outcome;
use earmark_node::{Event, outcome};
use earmark_rsvp as rsvp;
use earmark_wire::rsvp::{SenderTemplate, Session};

use super::Rsvp;
use super::checks::template_of;
use crate::protocol::{Consequence, Protocol as _};

pub(super) fn of(event: &Event) -> Option<Consequence<'_>> {
    match event {
        Event::Rsvp(rsvp::Event::Traced { session, sender, hops, end, .. }) => {
            Some(of_trace(session, sender, outcome::traced(hops, end)))
        }
        Event::Rsvp(rsvp::Event::Refused { session, filters, .. }) => {
            Some(of_refusal(event, session, filters))
        }
        _ => None,
    }
}

/// Applies the outcome of a trace to its applications: a trace covers all hops, a sender and a receiver know fewer.
fn of_trace<'a>(
    session: &'a Session,
    traced: &'a SenderTemplate,
    outcome: Option<Outcome>,
) -> Consequence<'a> {
    let stands = outcome.clone();
    let is_concerned = move |row: &ApplicationRow, sender: Option<&SenderName>| {
        let is_sender = sender.map(template_of).is_none_or(|template| {
            template.selector == traced.selector
                && (template.source.is_unspecified() || template.source == traced.source)
        });
        row.protocol == Rsvp.name()
            && is_sender
            && is_of(row, session)
            && row.outcome.kind.is_reserved()
    };
    Consequence {
        outcome,
        apply: Box::new(move |row, sender, _| {
            if let Some(stands) = &stands
                && is_concerned(row, sender)
            {
                row.outcome = Outcome { translation: row.outcome.translation, ..stands.clone() };
            }
            false
        }),
    }
}

/// Informs local senders whose reservation this node itself refused. RSVP reports that to the receiver only (RFC 2205
/// section 3.1.8), but a local sender that waits should not run into a timeout.
fn of_refusal<'a>(
    event: &'a Event,
    session: &'a Session,
    filters: &'a rsvp::Filters,
) -> Consequence<'a> {
    // A sender whose address the host chose is identified by its port.
    let is_filter = |template: SenderTemplate| {
        filters.match_sender(&template)
            || (template.source.is_unspecified()
                && filters.as_slice().iter().any(|f| f.selector == template.selector))
    };
    Consequence {
        outcome: None,
        apply: Box::new(move |row, sender, text| {
            let is_concerned =
                sender.map(template_of).is_some_and(is_filter) && is_of(row, session);
            if is_concerned {
                row.last = Some(text());
                if let Some(stands) = outcome::after(&row.outcome, event) {
                    row.outcome = stands;
                }
            }
            is_concerned
        }),
    }
}

/// Returns whether an application takes part in a session.
fn is_of(row: &ApplicationRow, session: &Session) -> bool {
    row.destination == session.destination
        && row.destination_port == session.port
        && row.ip_protocol == session.protocol
}
