//! What QoS NSLP counts: messages by type, and what it did not act on, by reason.

use alloc::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Why a message was not acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// It could not be read; the kinds are told apart in [`Counters::malformed`].
    Malformed,
    /// It came from nobody: there is no routing state to answer by.
    NoPeer,
    /// Its sequence number is older than what is known (RFC 5974 section 5.3.1).
    OldRsn,
    /// It comes from a peer that is not, or no more, the one of the session (sections 5.2.5.4 and 5.4.1).
    OtherPeer,
    /// It is about a session that this node knows nothing of.
    NoSession,
    /// Nobody has asked for this answer.
    Unasked,
    /// It refreshes a reservation that is gone (section 5.4.1).
    NoReservation,
    /// A peer asks for changes too often.
    TooOften,
    /// A limit of this node is reached.
    Limit,
    /// It waited for another message that did not come (section 4.6).
    NotBound,
    /// It could not be written.
    TooLong,
}

impl DropReason {
    /// All of them.
    pub const ALL: [DropReason; 11] = [
        DropReason::Malformed,
        DropReason::NoPeer,
        DropReason::OldRsn,
        DropReason::OtherPeer,
        DropReason::NoSession,
        DropReason::Unasked,
        DropReason::NoReservation,
        DropReason::TooOften,
        DropReason::Limit,
        DropReason::NotBound,
        DropReason::TooLong,
    ];

    /// Its name in counters.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::Malformed => "malformed",
            DropReason::NoPeer => "no_peer",
            DropReason::OldRsn => "old_rsn",
            DropReason::OtherPeer => "other_peer",
            DropReason::NoSession => "no_session",
            DropReason::Unasked => "unasked",
            DropReason::NoReservation => "no_reservation",
            DropReason::TooOften => "too_often",
            DropReason::Limit => "limit",
            DropReason::NotBound => "not_bound",
            DropReason::TooLong => "too_long",
        }
    }
}

/// What was counted since the engine was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// RESERVEs that came.
    pub reserves: u64,
    /// QUERYs that came.
    pub queries: u64,
    /// RESPONSEs that came.
    pub responses: u64,
    /// NOTIFYs that came.
    pub notifies: u64,
    /// Messages that were sent.
    pub sent: u64,
    /// Of these, repetitions because no answer came.
    pub repeated: u64,
    /// Sessions that became known.
    pub created: u64,
    /// Sessions that were refreshed without change, those in summaries too.
    pub refreshed: u64,
    /// Sessions that were torn down.
    pub released: u64,
    /// Sessions that nobody refreshed any more.
    pub expired: u64,
    /// Requests that this node has refused.
    pub refused: u64,
    /// Reservations that gave way to more important ones.
    pub preempted: u64,
    /// Messages that could not be read, by what is wrong with them; at most one entry a kind of error.
    pub malformed: BTreeMap<&'static str, u64>,
    /// Messages that were not acted on.
    pub dropped: BTreeMap<DropReason, u64>,
}

impl Counters {
    pub(super) fn drop(&mut self, reason: DropReason) {
        *self.dropped.entry(reason).or_default() += 1;
    }

    pub(super) fn malform(&mut self, name: &'static str) {
        *self.malformed.entry(name).or_default() += 1;
        self.drop(DropReason::Malformed);
    }

    /// Every counter with its group and name, those at zero too.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let messages = [
            ("messages", "reserves", self.reserves),
            ("messages", "queries", self.queries),
            ("messages", "responses", self.responses),
            ("messages", "notifies", self.notifies),
            ("messages", "sent", self.sent),
            ("messages", "repeated", self.repeated),
            ("sessions", "created", self.created),
            ("sessions", "refreshed", self.refreshed),
            ("sessions", "released", self.released),
            ("sessions", "expired", self.expired),
            ("sessions", "refused", self.refused),
            ("sessions", "preempted", self.preempted),
        ];
        let dropped = |reason: DropReason| self.dropped.get(&reason).copied().unwrap_or(0);
        let dropped = DropReason::ALL
            .into_iter()
            .map(move |reason| ("dropped", reason.name(), dropped(reason)));
        let malformed = self.malformed.iter().map(|(&name, &n)| ("malformed", name, n));
        messages.into_iter().chain(dropped).chain(malformed)
    }
}
