//! What the engine counts.

use crate::api::Passed;
use serde::{Deserialize, Serialize};

/// Why a message was thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// Its TTL is used up.
    TtlExpired,
    /// There is no way to its destination.
    NoRoute,
    /// It came in where the multicast routes do not expect its sender.
    WrongInterface,
    /// It is addressed to this node, and no application here waits for it.
    NotForUs,
    /// Its source cannot be one.
    BadSource,
}

impl DropReason {
    /// All of them.
    pub const ALL: [DropReason; 5] = [
        DropReason::TtlExpired,
        DropReason::NoRoute,
        DropReason::WrongInterface,
        DropReason::NotForUs,
        DropReason::BadSource,
    ];

    /// Its name in counters.
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

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalReason {
    /// Not enough is left of the link.
    Bandwidth,
    /// The link takes no reservations.
    NoSuchLink,
    /// A limit of this node is reached.
    Limit,
    /// The mask makes no sense, or no packets can be told apart by it.
    Mask,
    /// The session is another initiating node's.
    Foreign,
    /// The session is locked, and the key does not open it.
    Key,
    /// The key would not fit 64 bits any more.
    KeyOverflow,
    /// No known user asks, or the credential is wrong.
    Credential,
    /// Traffic control could not do what was granted.
    TrafficControl,
}

impl RefusalReason {
    /// All of them.
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

    /// Its name in counters.
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

/// Messages by what they were, drops and refusals by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Messages of others on their way out.
    pub requests: u64,
    /// Messages of others on their way back.
    pub replies: u64,
    /// Messages to this host that it bounced.
    pub bounced: u64,
    /// Messages of this host's own that it sent, repetitions included.
    pub sent: u64,
    /// Of these, how many were repetitions because nothing came back.
    pub repeated: u64,
    /// Messages of this host's own that came back.
    pub returned: u64,
    /// Messages that went on untouched because they are none that this engine takes part in.
    pub relayed: u64,
    /// Half sessions that were made.
    pub created: u64,
    /// Half sessions that were refreshed without change.
    pub refreshed: u64,
    /// Half sessions that nobody refreshed any more.
    pub expired: u64,
    /// Half sessions that gave way to more important reservations.
    pub preempted: u64,
    /// Refused, in the order of [`RefusalReason::ALL`].
    pub refused: [u64; RefusalReason::ALL.len()],
    /// Thrown away, in the order of [`DropReason::ALL`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Messages that could not be read, by what was wrong; at most one entry a kind of error.
    pub malformed: alloc::collections::BTreeMap<&'static str, u64>,
}

impl Counters {
    /// Counts messages that never came here.
    pub(crate) fn pass(&mut self, passed: Passed) {
        self.requests += passed.requests;
        self.replies += passed.replies;
        self.refreshed += passed.refreshed;
    }

    pub(crate) fn refuse(&mut self, reason: RefusalReason) {
        self.refused[reason as usize] += 1;
    }

    pub(crate) fn drop(&mut self, reason: DropReason) {
        self.dropped[reason as usize] += 1;
    }

    pub(crate) fn malform(&mut self, name: &'static str) {
        *self.malformed.entry(name).or_default() += 1;
    }

    /// Every counter with its group and name, those at zero too.
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

    /// The arrays are indexed by the enums' numbers.
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
