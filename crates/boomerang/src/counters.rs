//! Counters of the engine.

use serde::{Deserialize, Serialize};

earmark_core::named_enum! {
    /// Reason why a message was dropped.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DropReason {
        /// The TTL expired.
        TtlExpired = "ttl_expired",
        /// No route to the destination.
        NoRoute = "no_route",
        /// The message arrived on an interface where the multicast routes do not expect its source.
        WrongInterface = "wrong_interface",
        /// The message is addressed to this node, and no application waits for it.
        NotForUs = "not_for_us",
        /// The source address is invalid, or this node's own.
        BadSource = "bad_source",
        /// The source is not behind the access interface that the message arrived through.
        SourceNotBehind = "source_not_behind",
        /// A reply without a request that passed here.
        UnsolicitedReply = "unsolicited_reply",
        /// A reply of another node than the far end of the request.
        WrongFarEnd = "wrong_far_end",
        /// The message arrived through another interface than those that made the session.
        WrongArrival = "wrong_arrival",
        /// A reply that repeats the nonce of no outstanding request of this host.
        UnknownNonce = "unknown_nonce",
        /// The access interface that the message arrived through has used up its share of the signalling class of the outgoing
        /// link.
        Limit = "limit",
        /// A request of this host leaves by an interface that requires a credential, and no key serves there. Not sent.
        NotSigned = "not_signed",
    }
}

earmark_core::named_enum! {
    /// Reason why a request was refused.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum RefusalReason {
        /// The link has not enough bandwidth left.
        Bandwidth = "bandwidth",
        /// The link takes no reservations.
        NoSuchLink = "no_such_link",
        /// A limit of this node is reached.
        Limit = "limit",
        /// The mask is invalid, or traffic control cannot match packets by it.
        Mask = "mask",
        /// The session belongs to another initiating node.
        Foreign = "foreign",
        /// The session is locked, and the key does not open it.
        Key = "key",
        /// The key would exceed 64 bits.
        KeyOverflow = "key_overflow",
        /// The credential is missing or wrong, its user is unknown, or its key is not valid.
        Credential = "credential",
        /// Traffic control refused what the ledger had granted.
        TrafficControl = "traffic_control",
        /// The packets do not come from behind the access interface that the message arrived through.
        FlowNotBehind = "flow_not_behind",
        /// The credential was used before.
        Replayed = "replayed",
        /// The token does not cover the request; [`Counters::tokens`] has the reasons.
        Token = "token",
        /// No token proves a name that may reserve.
        NotVerified = "not_verified",
    }
}

/// Messages by kind, drops and refusals by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages in transit on the outward pass.
    pub requests: u64,
    /// Messages in transit on the return pass.
    pub replies: u64,
    /// Messages to this host that it answered.
    pub bounced: u64,
    /// Messages of this host's own, repetitions included.
    pub sent: u64,
    /// Repetitions among them because no reply arrived.
    pub repeated: u64,
    /// Messages of this host's own that came back.
    pub returned: u64,
    /// Messages forwarded unchanged because they are not for this engine.
    pub relayed: u64,
    /// Half sessions created.
    pub created: u64,
    /// Half sessions refreshed without change.
    pub refreshed: u64,
    /// Half sessions that expired.
    pub expired: u64,
    /// Half sessions preempted by reservations of higher priority.
    pub preempted: u64,
    /// Refusals, in the order of [`RefusalReason::ALL`].
    pub refused: [u64; RefusalReason::ALL.len()],
    /// Drops, in the order of [`DropReason::ALL`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Refused tokens by reason, and sessions that ended with their token; at most one entry for each reason.
    pub tokens: alloc::collections::BTreeMap<&'static str, u64>,
    /// Malformed messages by kind of error; at most one entry for each kind.
    pub malformed: alloc::collections::BTreeMap<&'static str, u64>,
}

impl Counters {
    pub(crate) fn refuse(&mut self, reason: RefusalReason) {
        self.refused[reason as usize] += 1;
    }

    /// Counts a refused token, or one whose session has ended with it.
    pub(crate) fn refuse_token(&mut self, refused: earmark_token::Refused) {
        *self.tokens.entry(refused.name()).or_default() += 1;
    }

    pub(crate) fn drop(&mut self, reason: DropReason) {
        self.dropped[reason as usize] += 1;
    }

    pub(crate) fn malform(&mut self, name: &'static str) {
        *self.malformed.entry(name).or_default() += 1;
    }

    /// Returns every counter with its group and name, including those at zero.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let messages = [
            ("messages", "requests", self.requests),
            ("messages", "replies", self.replies),
            ("messages", "bounced", self.bounced),
            ("messages", "sent", self.sent),
            ("messages", "repeated", self.repeated),
            ("messages", "returned", self.returned),
            ("messages", "relayed", self.relayed),
            ("reservations", "created", self.created),
            ("reservations", "refreshed", self.refreshed),
            ("reservations", "expired", self.expired),
            ("reservations", "preempted", self.preempted),
        ];
        let refused = RefusalReason::ALL.iter().zip(self.refused);
        let dropped = DropReason::ALL.iter().zip(self.dropped);
        let malformed = self.malformed.iter().map(|(&name, &n)| ("malformed", name, n));
        messages
            .into_iter()
            .chain(refused.map(|(reason, n)| ("refused", reason.name(), n)))
            .chain(dropped.map(|(reason, n)| ("dropped", reason.name(), n)))
            .chain(self.tokens.iter().map(|(&name, &n)| ("tokens", name, n)))
            .chain(malformed)
    }
}
