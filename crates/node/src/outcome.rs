//! Outcomes of an application's request, the same set for all protocols.

use earmark_core::outcome::{Kind, Outcome};

use crate::protocols::{Event, leaves_reservation};
pub use crate::protocols::{application_of, outcome_of, traced, translation_of};

/// Returns the outcome after an event, for the outcome `before` the event. A known address translation stays known, and
/// excludes an outcome for the whole path: behind the translator packets have other addresses.
pub fn after(before: &Outcome, event: &Event) -> Option<Outcome> {
    let translation = translation_of(event);
    let now = match outcome_of(event) {
        Some(now) if leaves_reservation(event) => now.after_refused_change(before).unwrap_or(now),
        Some(now) => now,
        None => {
            translation?;
            before.clone()
        }
    };
    let translation = now.translation.or(translation).or(before.translation);
    let kind = match now.kind {
        Kind::Whole if translation.is_some() => Kind::Part,
        kind => kind,
    };
    Some(Outcome { kind, translation, ..now })
}
