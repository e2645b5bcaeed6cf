//! Events as text, one line each, for the daemon's listings and the command line.

use earmark_core::{Flow, InterfaceId};
use earmark_node::{AggregateChange, EnforcementChange, Event, OtherEvent};

use crate::protocols;

pub use earmark_control::text::{ip_protocol, with_port};

/// Describes an event in one line; `on` is the name of the interface that the event contains as an index ([`interface_of`]).
pub fn event(event: &Event, on: &str) -> String {
    let described = protocols::all().find_map(|protocol| protocol.describe(event, on));
    described.unwrap_or_else(|| of_node(event, on))
}

/// Returns the interface that an event contains as an index, if any.
pub fn interface_of(event: &Event) -> Option<InterfaceId> {
    match event {
        Event::NotAdopted { interface, .. } => Some(*interface),
        _ => protocols::all().find_map(|protocol| protocol.interface_of(event)),
    }
}

/// Describes an event of the node itself, or of an engine that a program has added.
fn of_node(event: &Event, on: &str) -> String {
    match event {
        Event::Other(OtherEvent { name, event, .. }) => format!("{name}: {event}"),
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
                AggregateChange::Released => "is no longer needed",
                AggregateChange::Refused => "cannot grow",
                AggregateChange::Failing => "is refused or no longer answered",
                AggregateChange::Lost => "is lost with the reservations of its flows",
            };
            format!("aggregate to {range} by {to} {what}: {need} of {granted} in use")
        }
        // Events of the protocols are described by them.
        _ => String::new(),
    }
}

/// Formats a flow with its addresses and ports.
pub(crate) fn flow_text(flow: &Flow) -> String {
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
