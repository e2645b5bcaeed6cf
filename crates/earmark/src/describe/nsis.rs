//! Events of NSIS in words.

use earmark_nsis::Event;

/// An event, in one line: the part of NSIS that tells it, and its fields.
pub(super) fn event(event: &Event) -> String {
    let (part, fields) = match event {
        Event::Gist(event) => ("GIST", serde_json::to_string(event)),
        Event::Qos(event) => ("QoS NSLP", serde_json::to_string(event)),
        Event::Ping(event) => ("Ping NSLP", serde_json::to_string(event)),
    };
    format!("{part}: {}", fields.unwrap_or_default())
}
