//! What the engine counts: messages by kind, and what it did not act on, by reason.

use alloc::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Why a message was not acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// It could not be read; the kinds are told apart in [`Counters::malformed`]. It went on.
    Malformed,
    /// Its UDP checksum is wrong. It went on.
    Checksum,
    /// Its ports cannot be those of reports. It went on.
    Ports,
    /// It should prove whose it is, and does not. It went on.
    MissingAuth,
    /// It is signed with a key that is not known here. It went on.
    UnknownKey,
    /// Its digest is wrong. It went on.
    WrongDigest,
    /// Its sequence number was seen before. It went on.
    Replayed,
    /// A limit of this node is reached. It went on, and says so.
    Limit,
    /// It is about a stream that this node knows nothing of. It went on.
    NoState,
    /// It is for this host, but nobody here waits for it.
    NotForUs,
    /// Its TTL is used up.
    TtlExpired,
    /// There is no way to its destination.
    NoRoute,
    /// It came in where the multicast routes do not expect its sender.
    WrongInterface,
}

impl DropReason {
    /// All of them.
    pub const ALL: [DropReason; 13] = [
        DropReason::Malformed,
        DropReason::Checksum,
        DropReason::Ports,
        DropReason::MissingAuth,
        DropReason::UnknownKey,
        DropReason::WrongDigest,
        DropReason::Replayed,
        DropReason::Limit,
        DropReason::NoState,
        DropReason::NotForUs,
        DropReason::TtlExpired,
        DropReason::NoRoute,
        DropReason::WrongInterface,
    ];

    /// Its name in counters.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::Malformed => "malformed",
            DropReason::Checksum => "checksum",
            DropReason::Ports => "ports",
            DropReason::MissingAuth => "missing_auth",
            DropReason::UnknownKey => "unknown_key",
            DropReason::WrongDigest => "wrong_digest",
            DropReason::Replayed => "replayed",
            DropReason::Limit => "limit",
            DropReason::NoState => "no_state",
            DropReason::NotForUs => "not_for_us",
            DropReason::TtlExpired => "ttl_expired",
            DropReason::NoRoute => "no_route",
            DropReason::WrongInterface => "wrong_interface",
        }
    }
}

/// What was counted since the engine was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Messages that want a reservation.
    pub active: u64,
    /// Messages that only ask.
    pub passive: u64,
    /// Messages that release.
    pub release: u64,
    /// Answers of receivers.
    pub answers: u64,
    /// Sender reports of those who know nothing of YESSIR, where they are measured.
    pub measured: u64,
    /// Messages that were sent on.
    pub forwarded: u64,
    /// Reports and answers of this host.
    pub sent: u64,
    /// Streams that became known.
    pub created: u64,
    /// Messages that said nothing new.
    pub refreshed: u64,
    /// Streams that were released.
    pub released: u64,
    /// Streams that were not refreshed in time.
    pub expired: u64,
    /// Requests that a link of this node had not room for, each refresh counted.
    pub refused: u64,
    /// Reservations that a refresh completed.
    pub retried: u64,
    /// Reservations that were made as soon as others gave back.
    pub grabbed: u64,
    /// Notes of failure that were left out, because the message had no room for them.
    pub notes_left_out: u64,
    /// Messages that could not be read, by what is wrong with them.
    pub malformed: BTreeMap<&'static str, u64>,
    /// Messages that were not acted on.
    pub ignored: BTreeMap<DropReason, u64>,
}
