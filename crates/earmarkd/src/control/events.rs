//! Conversion of a node's events to those of the control protocol.

use earmark_boomerang as boomerang;
use earmark_control::Event as ClientEvent;
use earmark_core::Time;
use earmark_core::outcome::Outcome;
use earmark_node::{Event, Node};
use earmark_nsis::{self as nsis, ping, qos};
use earmark_rsvp as rsvp;
use earmark_yessir as yessir;
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
    let mut details = match serde_json::to_value(event) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(), // our own events always serialize, to objects
    };
    let mut name = |member: &str| match details.shift_remove(member) {
        Some(Value::String(name)) => name,
        _ => String::new(),
    };
    let (protocol, event_name) = (name("protocol"), name("event"));
    details.shift_remove("application");
    ClientEvent {
        at_s: now.as_secs_f64(),
        text: describe::event(event, interface.as_deref().unwrap_or("an interface without a name")),
        interface_name: interface,
        outcome: outcome.map(Box::new),
        protocol,
        event: event_name,
        application: application_of(event),
        details,
    }
}

/// Returns the event of a node that a client's event was converted from; `None` if it is of another version.
pub fn engine_event(event: &ClientEvent) -> Option<Event> {
    serde_json::from_value(serde_json::to_value(event).ok()?).ok()
}

/// The application that an event concerns, if any.
pub(super) fn application_of(event: &Event) -> Option<u64> {
    use rsvp::Event::*;
    let event = match event {
        Event::Rsvp(event) => event,
        Event::Boomerang(event) => return of_boomerang(event),
        Event::Yessir(event) => return of_yessir(event),
        Event::NoAnswer { application, .. } => return Some(application.0),
        Event::Nsis(nsis::Event::Qos(event)) => return of_qos(event),
        Event::Nsis(nsis::Event::Ping(event)) => return Some(of_ping(event)),
        Event::Nsis(nsis::Event::Gist(_)) => return None,
        Event::NotAdopted { .. } | Event::Aggregate { .. } | Event::Enforcement { .. } => {
            return None;
        }
    };
    match event {
        Path { application, .. }
        | PathGone { application, .. }
        | Resv { application, .. }
        | ResvGone { application, .. }
        | PathError { application, .. }
        | ResvError { application, .. }
        | Confirmed { application, .. }
        | Tracing { application, .. }
        | Traced { application, .. }
        | Rejected { application, .. } => Some(application.0),
        Translated { application, .. } => application.map(|application| application.0),
        PathState { .. }
        | Reservation { .. }
        | Refused { .. }
        | LastKeyExpired { .. }
        | NeighborLost { .. }
        | Dropped { .. } => None,
    }
}

fn of_boomerang(event: &boomerang::Event) -> Option<u64> {
    use boomerang::Event::*;
    match event {
        Established { application, .. }
        | Reached { application, .. }
        | Refused { application, .. }
        | Changed { application, .. }
        | Offered { application, .. }
        | Lost { application }
        | Released { application }
        | Rejected { application, .. } => Some(application.0),
        Reservation { .. } | Dropped { .. } => None,
        Offload(_) | Allowance { .. } => None,
        Withhold { .. } | Recall { .. } | Expiring { .. } => None,
    }
}

fn of_yessir(event: &yessir::Event) -> Option<u64> {
    use yessir::Event::*;
    match event {
        Answered { application, .. }
        | Announced { application, .. }
        | AnnouncementGone { application, .. }
        | Rejected { application, .. } => Some(application.0),
        Reservation { .. } | Refused { .. } | Ignored { .. } => None,
    }
}

fn of_qos(event: &qos::Event) -> Option<u64> {
    use qos::Event::*;
    match event {
        Reserved { application, .. }
        | Refused { application, .. }
        | Offered { application, .. }
        | TimedOut { application }
        | Lost { application, .. }
        | Released { application }
        | Incoming { application, .. }
        | Gone { application, .. }
        | Rejected { application, .. } => Some(application.0),
        Translated { application, .. } => application.map(|application| application.0),
        Reservation { .. } | Denied { .. } | Dropped { .. } => None,
    }
}

fn of_ping(event: &ping::Event) -> u64 {
    use ping::Event::*;
    match event {
        Pong { application, .. }
        | Lost { application, .. }
        | Finished { application }
        | Rejected { application, .. } => application.0,
    }
}
