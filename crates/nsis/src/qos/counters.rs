//! Counters of QoS NSLP: messages by type, and dropped messages by reason.

use alloc::collections::BTreeMap;

use earmark_token::Refused;
use serde::{Deserialize, Serialize};

earmark_core::named_enum! {
    /// Why a message was dropped.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DropReason {
        /// The message is malformed; [`Counters::malformed`] distinguishes the kinds.
        Malformed = "malformed",
        /// The message has no peer: there is no routing state for a response.
        NoPeer = "no_peer",
        /// The sequence number is older than the known one (RFC 5974 section 5.3.1).
        OldRsn = "old_rsn",
        /// The sender is not, or no longer, the peer of the session (sections 5.2.5.4 and 5.4.1).
        OtherPeer = "other_peer",
        /// The session is unknown.
        NoSession = "no_session",
        /// The response answers no request.
        Unasked = "unasked",
        /// The message refreshes a reservation that is gone (section 5.4.1).
        NoReservation = "no_reservation",
        /// A peer exceeds the limit of changes per second.
        TooOften = "too_often",
        /// A limit of this node is reached.
        Limit = "limit",
        /// The bound message did not arrive (section 4.6).
        NotBound = "not_bound",
        /// The message could not be written.
        TooLong = "too_long",
        /// The message was forwarded by as many nodes as its GIST hop count allows: the states of nodes form a circle.
        HopLimit = "hop_limit",
        /// The message is in the clear, but its session was secured.
        NotSecured = "not_secured",
        /// The message is an explicitly routed datagram, but its session is refreshed over an association.
        NotOverAssociation = "not_over_association",
        /// Another node wants to replace the previous one, and its interface does not lead to the end of the flow.
        WrongInterface = "wrong_interface",
    }
}

/// Counters since the engine was created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// RESERVEs received.
    pub reserves: u64,
    /// QUERYs received.
    pub queries: u64,
    /// RESPONSEs received.
    pub responses: u64,
    /// NOTIFYs received.
    pub notifies: u64,
    /// Messages sent.
    pub sent: u64,
    /// Retransmissions among them.
    pub repeated: u64,
    /// Sessions created.
    pub created: u64,
    /// Refreshes without change, including those in summaries.
    pub refreshed: u64,
    /// Sessions torn down.
    pub released: u64,
    /// Tears of this node that the end of the path has not answered.
    pub unanswered: u64,
    /// Sessions that expired without a refresh.
    pub expired: u64,
    /// Requests refused by this node.
    pub refused: u64,
    /// Reservations that were preempted.
    pub preempted: u64,
    /// Refused tokens by reason, and reservations that ended with their token; at most one entry for each reason.
    pub tokens: BTreeMap<&'static str, u64>,
    /// Malformed messages, by kind of error; at most one entry for each kind.
    pub malformed: BTreeMap<&'static str, u64>,
    /// Dropped messages, by reason.
    pub dropped: BTreeMap<DropReason, u64>,
}

impl Counters {
    /// Counts a refused token, or one whose reservation has ended with it.
    pub(super) fn refuse_token(&mut self, refused: Refused) {
        *self.tokens.entry(refused.name()).or_default() += 1;
    }

    pub(super) fn drop(&mut self, reason: DropReason) {
        *self.dropped.entry(reason).or_default() += 1;
    }

    pub(super) fn malform(&mut self, name: &'static str) {
        *self.malformed.entry(name).or_default() += 1;
        self.drop(DropReason::Malformed);
    }

    /// Returns every counter with its group and name, including those at zero.
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
            ("sessions", "unanswered", self.unanswered),
            ("sessions", "expired", self.expired),
            ("sessions", "refused", self.refused),
            ("sessions", "preempted", self.preempted),
        ];
        let dropped = |reason: DropReason| self.dropped.get(&reason).copied().unwrap_or(0);
        let dropped = DropReason::ALL
            .into_iter()
            .map(move |reason| ("dropped", reason.name(), dropped(reason)));
        let malformed = self.malformed.iter().map(|(&name, &n)| ("malformed", name, n));
        let tokens = self.tokens.iter().map(|(&name, &n)| ("tokens", name, n));
        messages.into_iter().chain(dropped).chain(tokens).chain(malformed)
    }
}
