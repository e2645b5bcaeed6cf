//! Counters of NATFW NSLP: messages by type, and dropped messages by reason.

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
        /// The message sequence number is not newer than the known one (RFC 5973 section 3.5).
        OldMsn = "old_msn",
        /// The message answers no request (section 3.5).
        OtherMsn = "other_msn",
        /// The session is unknown.
        NoSession = "no_session",
        /// The session is of another kind than the message, or this node is its initiator (sections 3.7.1 and 3.7.2).
        OtherRole = "other_role",
        /// The message comes from the wrong side of the session.
        WrongDirection = "wrong_direction",
        /// Another node wants to replace the previous one, and its interface does not lead to the end of the flow.
        WrongInterface = "wrong_interface",
        /// The message is in the clear, but its session was secured.
        NotSecured = "not_secured",
        /// The message is a datagram, but its kind or its session requires an association (section 3.7.5).
        NotOverAssociation = "not_over_association",
        /// The event may only be reported towards the initiator (section 3.7.5).
        InboundOnly = "inbound_only",
        /// The event changes nothing, because the session is transitory already (section 3.7.5).
        Transitory = "transitory",
        /// A peer refreshes its sessions too often.
        TooOften = "too_often",
        /// The message could not be written.
        TooLong = "too_long",
        /// The message was forwarded by as many nodes as its GIST hop count allows.
        HopLimit = "hop_limit",
    }
}

/// Counters since the engine was created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// CREATEs received.
    pub creates: u64,
    /// EXTERNALs received.
    pub externals: u64,
    /// RESPONSEs received.
    pub responses: u64,
    /// NOTIFYs received.
    pub notifies: u64,
    /// Messages sent.
    pub sent: u64,
    /// Requests of this node that were sent again.
    pub repeated: u64,
    /// Sessions created.
    pub created: u64,
    /// Refreshes without change.
    pub refreshed: u64,
    /// Updates of the rules of a session.
    pub updated: u64,
    /// Sessions deleted.
    pub released: u64,
    /// Sessions that expired without a refresh.
    pub expired: u64,
    /// Requests refused by this node.
    pub refused: u64,
    /// Rules that the packet filter has refused.
    pub filter_refused: u64,
    /// Refused tokens by reason, and sessions that ended with their token; at most one entry for each reason.
    pub tokens: BTreeMap<&'static str, u64>,
    /// Malformed messages, by kind of error; at most one entry for each kind.
    pub malformed: BTreeMap<&'static str, u64>,
    /// Dropped messages, by reason.
    pub dropped: BTreeMap<DropReason, u64>,
}

impl Counters {
    /// Counts a refused token, or one whose session has ended with it.
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
        let counts = [
            ("messages", "creates", self.creates),
            ("messages", "externals", self.externals),
            ("messages", "responses", self.responses),
            ("messages", "notifies", self.notifies),
            ("messages", "sent", self.sent),
            ("messages", "repeated", self.repeated),
            ("sessions", "created", self.created),
            ("sessions", "refreshed", self.refreshed),
            ("sessions", "updated", self.updated),
            ("sessions", "released", self.released),
            ("sessions", "expired", self.expired),
            ("sessions", "refused", self.refused),
            ("sessions", "filter_refused", self.filter_refused),
        ];
        let dropped = |reason: DropReason| self.dropped.get(&reason).copied().unwrap_or(0);
        let dropped = DropReason::ALL
            .into_iter()
            .map(move |reason| ("dropped", reason.name(), dropped(reason)));
        let malformed = self.malformed.iter().map(|(&name, &n)| ("malformed", name, n));
        let tokens = self.tokens.iter().map(|(&name, &n)| ("tokens", name, n));
        counts.into_iter().chain(dropped).chain(malformed).chain(tokens)
    }
}
