//! Numbers that the control layer counts for the metrics.

use std::collections::BTreeMap;
use std::time::Duration;

use earmark_core::outcome::Kind;

use super::histogram::Histogram;

/// Events and set-ups, by protocol.
#[derive(Debug, Default)]
pub(crate) struct Statistics {
    /// Events by protocol (`daemon` for those of none) and by kind of their line in the log.
    pub(crate) events: BTreeMap<(&'static str, &'static str), u64>,
    /// Time from a request of an application to its reservation, by protocol.
    pub(crate) setups: BTreeMap<String, Histogram>,
    /// First outcomes of requests by protocol.
    pub(crate) outcomes: BTreeMap<(String, Kind), u64>,
}

impl Statistics {
    /// Counts an event.
    pub(crate) fn count_event(&mut self, part: &'static str, kind: &'static str) {
        *self.events.entry((part, kind)).or_default() += 1;
    }

    /// Counts the first outcome of a request, `after` the request.
    pub(crate) fn count_outcome(&mut self, protocol: &str, outcome: Kind, after: Duration) {
        *self.outcomes.entry((protocol.to_owned(), outcome)).or_default() += 1;
        if outcome.is_reserved() {
            self.setups.entry(protocol.to_owned()).or_default().observe(after);
        }
    }
}
