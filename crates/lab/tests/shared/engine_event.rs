//! Events of the control protocol as the engines' own types.

use earmark_control::Event as ClientEvent;
use earmark_node::Event;

/// Returns the event of a node that a client's event was converted from; `None` if it is of another version.
pub(crate) fn engine_event(event: &ClientEvent) -> Option<Event> {
    serde_json::from_value(serde_json::to_value(event).ok()?).ok()
}
