//! Lines of the log about events of YESSIR.

use earmark_yessir::{Change, DropReason, Event};

use super::describe::stream;
use crate::log::kind::{self, Kind};
use crate::protocol::LogFields;

/// Returns the kind of the line about an event.
pub(super) fn kind(event: &Event) -> &'static Kind {
    use DropReason::*;
    match event {
        Event::Reservation { change, .. } => match change {
            Change::Created | Change::Grabbed => &kind::RESERVATION_ADMITTED,
            Change::Changed => &kind::RESERVATION_CHANGED,
            Change::Preempted => &kind::RESERVATION_PREEMPTED,
            Change::Released | Change::Expired | Change::Moved | Change::Failed => {
                &kind::RESERVATION_ENDED
            }
        },
        Event::Refused { .. } => &kind::RESERVATION_REFUSED,
        Event::LastKeyExpired { .. } => &kind::KEY_EXPIRED,
        Event::Ignored { reason, .. } => match reason {
            MissingAuth | UnknownKey | KeyNotValid | WrongDigest | Replayed | NotSigned | Token => {
                &kind::AUTHENTICATION_FAILED
            }
            Limit => &kind::LIMIT_REACHED,
            _ => &kind::MESSAGE_DROPPED,
        },
        _ => &kind::EVENT,
    }
}

/// Returns the fields of the line about an event.
pub(super) fn fields(event: &Event) -> LogFields {
    match event {
        Event::Reservation { stream: of, .. } | Event::Refused { stream: of, .. } => {
            LogFields::flow(stream(of))
        }
        Event::Ignored { source, .. } => LogFields::peer(*source),
        _ => LogFields::default(),
    }
}
