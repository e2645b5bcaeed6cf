//! Counters of Ping NSLP.

use earmark_wire::ping_nslp::ErrorKind;

/// Messages by result.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Own messages sent.
    pub sent: u64,
    /// Own messages that returned in time.
    pub answered: u64,
    /// Own messages that did not return in time.
    pub lost: u64,
    /// Answers after the timeout.
    pub late: u64,
    /// Answers of nodes that may not answer: explicitly routed, for another flow, or in the clear for a secure request.
    pub foreign: u64,
    /// Messages of other nodes that were forwarded, in either direction.
    pub passed_on: u64,
    /// Messages of other nodes that were returned by this node.
    pub turned_round: u64,
    /// Messages of other nodes that could be neither forwarded nor returned.
    pub stuck: u64,
    /// Malformed messages, in the order of [`ErrorKind::ALL`].
    pub malformed: [u64; ErrorKind::ALL.len()],
}

impl Counters {
    pub(super) fn malformed(&mut self, kind: ErrorKind) {
        let place = ErrorKind::ALL.iter().position(|known| *known == kind);
        if let Some(count) = place.and_then(|place| self.malformed.get_mut(place)) {
            *count += 1;
        }
    }

    /// Returns all counters, with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let malformed = ErrorKind::ALL.iter().map(|kind| kind.name()).zip(self.malformed);
        [
            ("ping_sent", self.sent),
            ("ping_answered", self.answered),
            ("ping_lost", self.lost),
            ("ping_late", self.late),
            ("ping_foreign", self.foreign),
            ("ping_passed_on", self.passed_on),
            ("ping_turned_round", self.turned_round),
            ("ping_stuck", self.stuck),
        ]
        .into_iter()
        .chain(malformed)
    }
}
