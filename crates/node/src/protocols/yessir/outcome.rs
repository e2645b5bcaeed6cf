//! Outcomes of YESSIR events.

use earmark_core::outcome::{Kind, Outcome};
use earmark_yessir::Event;

/// Returns the application that an event concerns.
pub(crate) fn application(event: &Event) -> Option<u64> {
    use Event::*;
    match event {
        Answered { application, .. }
        | Announced { application, .. }
        | AnnouncementGone { application, .. }
        | Rejected { application, .. } => Some(application.0),
        Reservation { .. } | Refused { .. } | LastKeyExpired { .. } | Ignored { .. } => None,
    }
}

/// Returns the outcome of a request after an event; `None` if the event does not affect it.
pub(crate) fn outcome(event: &Event) -> Option<Outcome> {
    use Event::*;
    match event {
        Answered { reach, .. } | Announced { reach, .. } => Some((**reach).clone()),
        AnnouncementGone { .. } => Some(Outcome::of(Kind::Ended)),
        _ => None,
    }
}
