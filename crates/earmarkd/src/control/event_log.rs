//! Events of the node in the log: one line for those that an operator wants to know, and for all others if asked.

use earmark_node::{AggregateChange, Event, Node};

use crate::describe;
use crate::log::Log;
use crate::log::kind::{self, Kind};
use crate::protocol::{LogFields, Protocol};
use crate::protocols;

/// Target of events that no protocol of this daemon has.
const NODE: &str = "daemon";
/// Target of reservations.
const LEDGER: &str = "ledger";

/// Writes the line about an event, if its level is wanted. Returns the part of the daemon and the name of the line's kind; `None` if
/// the line is written where the event occurs.
pub(super) fn log_event(
    log: &Log,
    event: &Event,
    node: &Node,
) -> Option<(&'static str, &'static str)> {
    let of_protocol = protocols::all().find_map(|known| Some((known, known.log_kind(event)?)));
    let kind = of_protocol.map(|(_, kind)| kind).or_else(|| of_node(event))?;
    let protocol = of_protocol.map(|(protocol, _)| protocol);
    let name = protocol.map_or(NODE, Protocol::name);
    let is_reservation = kind::OF_RESERVATIONS.iter().any(|other| std::ptr::eq(*other, kind));
    let target = if is_reservation { LEDGER } else { name };
    let on = || describe::interface_of(event).map(|id| node.interface_name(id));
    let text = || describe::event(event, &on().unwrap_or_default());
    log.line(kind, target, text, |line| {
        if protocol.is_some() {
            line.add("protocol", &name);
        }
        if let Some(interface) = on() {
            line.add("interface", &interface);
        }
        let LogFields { flow, peer } = match protocol {
            Some(protocol) => protocol.log_fields(event),
            None => fields_of_node(event),
        };
        if let Some(flow) = flow {
            line.add("flow", &flow);
        }
        if let Some(peer) = peer {
            line.add("peer", &peer);
        }
    });
    Some((name, kind.name))
}

/// Returns the kind of the line about an event of the node itself; `None` if the line is written where it occurs.
fn of_node(event: &Event) -> Option<&'static Kind> {
    match event {
        Event::Enforcement { .. } => None,
        Event::NotAdopted { .. } => Some(&kind::RESERVATION_NOT_ADOPTED),
        Event::Aggregate {
            change: AggregateChange::Refused | AggregateChange::Failing, ..
        } => Some(&kind::AGGREGATE_FAILING),
        _ => Some(&kind::EVENT),
    }
}

fn fields_of_node(event: &Event) -> LogFields {
    match event {
        Event::NotAdopted { flow, .. } => LogFields::flow(describe::flow_text(flow)),
        Event::Aggregate { to, .. } => LogFields::peer(*to),
        _ => LogFields::default(),
    }
}
