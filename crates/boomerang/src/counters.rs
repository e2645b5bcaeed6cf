//! Counters of the engine.

use serde::{Deserialize, Serialize};

/// Reason why a message was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// The TTL expired.
    TtlExpired,
    /// No route to the destination.
    NoRoute,
    /// The message arrived on an interface where the multicast routes do not expect its source.
    WrongInterface,
    /// The message is addressed to this node, and no application waits for it.
    NotForUs,
    /// The source address is invalid.
    BadSource,
}

impl DropReason {
    /// All reasons.
    pub const ALL: [DropReason; 5] = [
        DropReason::TtlExpired,
        DropReason::NoRoute,
        DropReason::WrongInterface,
        DropReason::NotForUs,
        DropReason::BadSource,
    ];

    /// Returns the name in counters.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::TtlExpired => "ttl_expired",
            DropReason::NoRoute => "no_route",
            DropReason::WrongInterface => "wrong_interface",
            DropReason::NotForUs => "not_for_us",
            DropReason::BadSource => "bad_source",
        }
    }
}

/// Reason why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalReason {
    /// The link has not enough bandwidth left.
    Bandwidth,
    /// The link takes no reservations.
    NoSuchLink,
    /// A limit of this node is reached.
    Limit,
    /// The mask is invalid, or traffic control cannot match packets by it.
    Mask,
    /// The session belongs to another initiating node.
    Foreign,
    /// The session is locked, and the key does not open it.
    Key,
    /// The key would exceed 64 bits.
    KeyOverflow,
    /// Unknown user or wrong credential.
    Credential,
    /// Traffic control refused what the ledger had granted.
    TrafficControl,
}

impl RefusalReason {
    /// All reasons.
    pub const ALL: [RefusalReason; 9] = [
        RefusalReason::Bandwidth,
        RefusalReason::NoSuchLink,
        RefusalReason::Limit,
        RefusalReason::Mask,
        RefusalReason::Foreign,
        RefusalReason::Key,
        RefusalReason::KeyOverflow,
        RefusalReason::Credential,
        RefusalReason::TrafficControl,
    ];

    /// Returns the name in counters.
    pub fn name(self) -> &'static str {
        match self {
            RefusalReason::Bandwidth => "bandwidth",
            RefusalReason::NoSuchLink => "no_such_link",
            RefusalReason::Limit => "limit",
            RefusalReason::Mask => "mask",
            RefusalReason::Foreign => "foreign",
            RefusalReason::Key => "key",
            RefusalReason::KeyOverflow => "key_overflow",
            RefusalReason::Credential => "credential",
            RefusalReason::TrafficControl => "traffic_control",
        }
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
    /// Malformed messages by kind of error; at most one entry for each kind.
    pub malformed: alloc::collections::BTreeMap<&'static str, u64>,
}

impl Counters {
    pub(crate) fn refuse(&mut self, reason: RefusalReason) {
        self.refused[reason as usize] += 1;
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
            .chain(malformed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The arrays are indexed by the discriminants.
    #[test]
    fn lists_are_complete_and_in_order() {
        for (number, reason) in DropReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
        }
        for (number, reason) in RefusalReason::ALL.into_iter().enumerate() {
            assert_eq!(reason as usize, number);
        }
    }
}
