//! Conversion of a node's events to those of the control protocol.

use earmark_control::{ApplicationId, Event as ClientEvent};
use earmark_core::Time;
use earmark_core::outcome::Outcome;
use earmark_node::outcome::application_of;
use earmark_node::{Event, Node};
use jiff::Timestamp;
use serde_json::{Map, Value};

use crate::describe;

/// Converts an event of a node for its clients.
pub(super) fn to_client(
    now: Time,
    event: &Event,
    outcome: Option<Outcome>,
    node: &Node,
) -> ClientEvent {
    let interface = describe::interface_of(event).map(|id| node.interface_name(id));
    let mut details = match event {
        // The engine's own form; its name is the protocol.
        Event::Other(other) => members(other.event.clone()),
        _ => members(serde_json::to_value(event).unwrap_or_default()),
    };
    let mut take = |member: &str| match details.shift_remove(member) {
        Some(Value::String(name)) => name,
        _ => String::new(),
    };
    let (protocol, event_name) = (take("protocol"), take("event"));
    let protocol = match event {
        Event::Other(other) => other.name.clone(),
        _ => protocol,
    };
    details.shift_remove("application");
    ClientEvent {
        at_s: now.as_secs_f64(),
        time: format!("{:.3}", Timestamp::now()),
        text: describe::event(event, interface.as_deref().unwrap_or("an interface without a name")),
        interface_name: interface,
        outcome: outcome.map(Box::new),
        protocol,
        event: event_name,
        application: application_of(event).map(ApplicationId),
        details,
    }
}

/// Returns the members of an event; events of this project are always objects.
fn members(event: Value) -> Map<String, Value> {
    match event {
        Value::Object(members) => members,
        Value::Null => Map::new(),
        other => Map::from_iter([("value".to_owned(), other)]),
    }
}
