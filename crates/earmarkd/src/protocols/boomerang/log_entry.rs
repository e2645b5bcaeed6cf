//! Lines of the log about events of Boomerang.

use earmark_boomerang::{Change, DropReason, Event};

use crate::log::kind::{self, Kind};
use crate::protocol::LogFields;

/// Returns the kind of the line about an event.
pub(super) fn kind(event: &Event) -> &'static Kind {
    match event {
        Event::Reservation { change, .. } => match change {
            Change::Created => &kind::RESERVATION_ADMITTED,
            Change::Changed | Change::Unlocked | Change::Aggregated => &kind::RESERVATION_CHANGED,
            Change::Preempted => &kind::RESERVATION_PREEMPTED,
            Change::Moved | Change::Released | Change::Expired | Change::Orphaned => {
                &kind::RESERVATION_ENDED
            }
        },
        Event::LastKeyExpired { .. } => &kind::KEY_EXPIRED,
        Event::Dropped { reason, .. } => match reason {
            DropReason::NotSigned => &kind::AUTHENTICATION_FAILED,
            DropReason::Limit => &kind::LIMIT_REACHED,
            _ => &kind::MESSAGE_DROPPED,
        },
        _ => &kind::EVENT,
    }
}

/// Returns the fields of the line about an event.
pub(super) fn fields(event: &Event) -> LogFields {
    match event {
        Event::Reservation { selector, .. } => LogFields::flow(selector.to_string()),
        Event::Dropped { source, .. } => LogFields::peer(*source),
        _ => LogFields::default(),
    }
}
