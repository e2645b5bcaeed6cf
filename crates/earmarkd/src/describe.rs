//! Events as text, one line each, for the daemon's listings and the command line.

mod interface;
mod light;
mod nsis;

use earmark_core::{Flow, Rate};
use earmark_node::{AggregateChange, EnforcementChange, Event, OtherEvent};
use earmark_rsvp::diagnostics::TraceEnd;
use earmark_rsvp::{self as rsvp, Change};
use earmark_wire::rsvp::Session;

pub use earmark_control::protocols::rsvp::filter;
use earmark_control::protocols::rsvp::{advice, error_text, rate, tracing};
pub use earmark_control::text::{ip_protocol, with_port};
pub use interface::interface_of;
pub use light::{boomerang_rejection, yessir_hint};
pub use nsis::{ping_hint, qos_rejection, qos_source};

/// Describes an event in one line; `on` is the name of the interface that the event contains as an index ([`interface_of`]).
pub fn event(event: &Event, on: &str) -> String {
    match event {
        Event::Rsvp(event) => of_rsvp(event, on),
        Event::Boomerang(event) => light::of_boomerang(event, on),
        Event::Yessir(event) => light::of_yessir(event, on),
        Event::Nsis(event) => nsis::event(event, on),
        Event::Other(OtherEvent { name, event, .. }) => format!("{name}: {event}"),
        Event::NoAnswer { template, reason, .. } => {
            format!("nothing was reserved for sender {}: {reason}", filter(template))
        }
        Event::NotAdopted { flow, reason, .. } => {
            let of = with_port(flow.destination, flow.destination_port);
            format!("reservation for {of} on {on} could not be adopted: {reason}")
        }
        Event::Enforcement { change, interface, flow, reason } => {
            let whose = match flow {
                Some(flow) => format!("the reservation for {}", flow_text(flow)),
                None => "what is reserved".to_owned(),
            };
            let what = match change {
                EnforcementChange::Unenforced => "is not enforced",
                EnforcementChange::EnforcedAgain => "is enforced again",
            };
            format!("{whose} on {interface} {what}: {reason}")
        }
        Event::Aggregate { change, to, range, granted, need } => {
            let what = match change {
                AggregateChange::Grown => "has grown",
                AggregateChange::Shrunk => "has shrunk",
                AggregateChange::Released => "is not needed any more",
                AggregateChange::Refused => "cannot grow",
                AggregateChange::Failing => "is refused or not answered any more",
                AggregateChange::Lost => "is lost, and its flows' reservations with it",
            };
            format!("aggregate to {range} by {to} {what}: {need} of {granted} in use")
        }
    }
}

/// Formats a flow with its addresses and ports.
fn flow_text(flow: &Flow) -> String {
    let source = match (flow.sources(), flow.source_port) {
        (None, _) => "all senders".to_owned(),
        (Some(source), 0) if flow.source_open == 0 => source.address().to_string(),
        (Some(source), 0) => source.to_string(),
        (Some(source), port) => with_port(source.address(), port),
    };
    let destination = match flow.destination_open {
        0 => with_port(flow.destination, flow.destination_port),
        _ => flow.destinations().to_string(),
    };
    format!("{source} to {destination}")
}

/// Describes an event of RSVP in one line.
fn of_rsvp(event: &rsvp::Event, on: &str) -> String {
    use rsvp::Event::*;
    match event {
        Path { session, template, tspec, offer, .. } => {
            let rate = Rate::from_octets_per_second(tspec.rate);
            let hops =
                offer.map_or(String::new(), |offer| format!(", {} RSVP hops away", offer.hops));
            format!("sender {} announces {rate} to {}{hops}", filter(template), to(session))
        }
        PathGone { session, template, .. } => {
            format!("sender {} to {} is gone", filter(template), to(session))
        }
        Resv { session, filter: of, flowspec, reach, .. } => {
            let (rate, of, to) = (rate(flowspec), filter(of), to(session));
            format!("reservation of {rate} from {of} to {to}: {reach}")
        }
        ResvGone { session, filter: of, .. } => {
            format!("reservation from {} to {} is gone", filter(of), to(session))
        }
        PathError { session, error, .. } => {
            format!("the path to {} failed: {}", to(session), error_text(error))
        }
        ResvError { session, error, .. } => {
            let advice = advice(error, None).map_or(String::new(), |advice| format!("; {advice}"));
            format!("the reservation for {} failed: {}{advice}", to(session), error_text(error))
        }
        Confirmed { session, node, filters: of, reach, .. } => {
            let (of, to) = (filters(of), to(session));
            format!("{node} confirms the reservation from {of} to {to}: {reach}")
        }
        Tracing { last_hop, known, attempt, reach, .. } => {
            tracing(*last_hop, *known, *attempt, *reach)
        }
        Traced { session, sender, hops, end, .. } => {
            let (from, to) = (filter(sender), to(session));
            format!(
                "the way from {from} to {to} was asked for: {} nodes, {}",
                hops.len(),
                trace_end(end)
            )
        }
        Rejected { reason, .. } => format!("not carried out: {reason}"),
        PathState { change, session, template } => {
            format!("path from {} to {} {}", filter(template), to(session), changed(*change))
        }
        Reservation { change, session, filters: of, flowspec, .. } => format!(
            "reservation of {} from {} to {} on {on} {}",
            rate(flowspec),
            filters(of),
            to(session),
            changed(*change)
        ),
        Refused { session, filters: of, error, available_bps, .. } => format!(
            "reservation from {} to {} refused on {on}: {}; {} could be had",
            filters(of),
            to(session),
            error_text(error),
            Rate::from_bps(*available_bps)
        ),
        Translated { template, translation, .. } => {
            format!("sender {}: {translation}", filter(template))
        }
        LastKeyExpired { key } => format!(
            "key {key} is used although its time is over, for there is no other; add a key that is valid"
        ),
        NeighborLost { address, .. } => {
            format!("neighbor {address} on {on} is silent or has restarted")
        }
        Dropped { reason, source, .. } => {
            format!("message from {source} dropped: {}", reason.name())
        }
    }
}

/// Describes why a trace ended.
pub fn trace_end(end: &TraceEnd) -> String {
    match end {
        TraceEnd::Sender => "up to the sender".to_owned(),
        TraceEnd::NoPathState => "the last of which knows nothing of it".to_owned(),
        TraceEnd::HopLimit => "and no more were wanted".to_owned(),
        TraceEnd::GaveUp => "the last of which passed the question on to nobody".to_owned(),
        TraceEnd::Silent { node } => format!("and {node} does not answer"),
        TraceEnd::Incomplete => "and parts of the answer are missing".to_owned(),
    }
}

fn to(session: &Session) -> String {
    with_port(session.destination, session.port)
}

/// Formats the senders that a reservation is for.
fn filters(filters: &rsvp::Filters) -> String {
    match filters.as_slice() {
        [] => "all senders".to_owned(),
        several => several.iter().map(filter).collect::<Vec<_>>().join(", "),
    }
}

fn changed(change: Change) -> &'static str {
    match change {
        Change::Created => "made",
        Change::Changed => "changed",
        Change::Torn => "torn down",
        Change::Expired => "expired",
        Change::Preempted => "gave way to a more important one",
        Change::Orphaned => "gone with what it hung on",
    }
}
