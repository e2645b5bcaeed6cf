//! Lines of the log about events of RSVP.

use earmark_control::protocols::rsvp::filter;
use earmark_rsvp::{Change, DropReason, Event};

use super::describe::{filters, to};
use crate::log::kind::{self, Kind};
use crate::protocol::LogFields;

/// Returns the kind of the line about an event.
pub(super) fn kind(event: &Event) -> &'static Kind {
    use DropReason::*;
    match event {
        Event::Reservation { change, .. } => match change {
            Change::Created => &kind::RESERVATION_ADMITTED,
            Change::Changed => &kind::RESERVATION_CHANGED,
            Change::Preempted => &kind::RESERVATION_PREEMPTED,
            Change::Torn | Change::Expired | Change::Orphaned => &kind::RESERVATION_ENDED,
        },
        Event::Refused { .. } => &kind::RESERVATION_REFUSED,
        Event::NeighborLost { .. } => &kind::NEIGHBOR_LOST,
        Event::NeighborRestarting { .. } => &kind::NEIGHBOR_RESTARTING,
        Event::LastKeyExpired { .. } => &kind::KEY_EXPIRED,
        Event::Dropped { reason, .. } => match reason {
            MissingIntegrity | UnknownKey | KeyNotValid | DigestLength | WrongDigest | Replayed => {
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
        Event::Reservation { session, filters: of, .. }
        | Event::Refused { session, filters: of, .. } => {
            LogFields::flow(format!("{} to {}", filters(of), to(session)))
        }
        Event::PathState { session, template, .. } => {
            LogFields::flow(format!("{} to {}", filter(template), to(session)))
        }
        Event::NeighborLost { address, .. } | Event::NeighborRestarting { address, .. } => {
            LogFields::peer(*address)
        }
        Event::Dropped { source, .. } => LogFields::peer(*source),
        _ => LogFields::default(),
    }
}
