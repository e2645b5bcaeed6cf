//! What Ping NSLP counts.

use earmark_wire::ping_nslp::ErrorKind;

/// Messages by what became of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Of this node's own, those that were sent.
    pub sent: u64,
    /// Of these, those that came back in time.
    pub answered: u64,
    /// Those that did not.
    pub lost: u64,
    /// Answers that nobody waited for any more.
    pub late: u64,
    /// Of others, those that went on along the path, in either direction.
    pub passed_on: u64,
    /// Those that turned round here.
    pub turned_round: u64,
    /// Those that could not go on, nor turn round.
    pub stuck: u64,
    /// What was none, in the order of [`ErrorKind::ALL`].
    pub malformed: [u64; ErrorKind::ALL.len()],
}

impl Counters {
    pub(super) fn malformed(&mut self, kind: ErrorKind) {
        let place = ErrorKind::ALL.iter().position(|known| *known == kind);
        if let Some(count) = place.and_then(|place| self.malformed.get_mut(place)) {
            *count += 1;
        }
    }

    /// All of them, with their names.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let malformed = ErrorKind::ALL.iter().map(|kind| kind.name()).zip(self.malformed);
        [
            ("ping_sent", self.sent),
            ("ping_answered", self.answered),
            ("ping_lost", self.lost),
            ("ping_late", self.late),
            ("ping_passed_on", self.passed_on),
            ("ping_turned_round", self.turned_round),
            ("ping_stuck", self.stuck),
        ]
        .into_iter()
        .chain(malformed)
    }
}
