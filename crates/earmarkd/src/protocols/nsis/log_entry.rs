//! Lines of the log about events of GIST and QoS NSLP.

use earmark_nsis::{Event, gist, qos};

use super::describe::{flow_of, target};
use crate::log::kind::{self, Kind};
use crate::protocol::LogFields;

/// Returns the kind of the line about an event; `None` if another protocol has the event.
pub(super) fn kind(event: &Event) -> Option<&'static Kind> {
    match event {
        Event::Gist(event) => Some(of_gist(event)),
        Event::Qos(event) => Some(of_qos(event)),
        Event::Natfw(_) | Event::Ping(_) => None,
    }
}

fn of_gist(event: &gist::Event) -> &'static Kind {
    use gist::DropReason;
    match event {
        gist::Event::Ignored { reason: DropReason::NotSecured | DropReason::Downgrade, .. } => {
            &kind::AUTHENTICATION_FAILED
        }
        gist::Event::Ignored { reason: DropReason::Limit, .. } => &kind::LIMIT_REACHED,
        gist::Event::Ignored { .. } => &kind::MESSAGE_DROPPED,
        _ => &kind::EVENT,
    }
}

fn of_qos(event: &qos::Event) -> &'static Kind {
    use qos::{Change, DropReason};
    match event {
        qos::Event::Reservation { change, .. } => match change {
            Change::Created => &kind::RESERVATION_ADMITTED,
            Change::Changed => &kind::RESERVATION_CHANGED,
            Change::Preempted => &kind::RESERVATION_PREEMPTED,
            Change::Moved
            | Change::Released
            | Change::Expired
            | Change::Refused
            | Change::Failed => &kind::RESERVATION_ENDED,
        },
        qos::Event::Denied { .. } => &kind::RESERVATION_REFUSED,
        qos::Event::Dropped { reason: DropReason::NotSecured, .. } => &kind::AUTHENTICATION_FAILED,
        qos::Event::Dropped { reason: DropReason::Limit, .. } => &kind::LIMIT_REACHED,
        qos::Event::Dropped { .. } => &kind::MESSAGE_DROPPED,
        _ => &kind::EVENT,
    }
}

/// Returns the fields of the line about an event.
pub(super) fn fields(event: &Event) -> LogFields {
    match event {
        Event::Gist(gist::Event::Ignored { source, .. }) => LogFields::peer(*source),
        Event::Gist(gist::Event::AssociationClosed { remote, .. }) => LogFields::peer(remote.ip()),
        Event::Gist(gist::Event::RoutingState { mri, peer, .. }) => {
            LogFields { flow: Some(flow_of(mri)), peer: *peer }
        }
        Event::Qos(qos::Event::Reservation { flow, .. }) => LogFields::flow(target(flow)),
        _ => LogFields::default(),
    }
}
