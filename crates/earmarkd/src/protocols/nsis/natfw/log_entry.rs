//! Lines of the log about events of NATFW NSLP.

use earmark_nsis::natfw::{DropReason, Event, RuleChange};

use super::describe::Shown;
use crate::log::kind::{self, Kind};
use crate::protocol::LogFields;

/// Returns the kind of the line about an event.
pub(super) fn kind(event: &Event) -> &'static Kind {
    match event {
        Event::Rule { change: RuleChange::Installed, .. } => &kind::PINHOLE_INSTALLED,
        Event::Rule { change: RuleChange::Removed(_), .. } => &kind::PINHOLE_REMOVED,
        Event::Denied { .. } => &kind::PINHOLE_REFUSED,
        Event::Dropped { reason: DropReason::NotSecured, .. } => &kind::AUTHENTICATION_FAILED,
        Event::Dropped { .. } => &kind::MESSAGE_DROPPED,
        _ => &kind::EVENT,
    }
}

/// Returns the fields of the line about an event.
pub(super) fn fields(event: &Event) -> LogFields {
    match event {
        Event::Rule { rule, .. } => LogFields::flow(Shown(rule).to_string()),
        _ => LogFields::default(),
    }
}
