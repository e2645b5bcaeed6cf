//! What the engine counts: messages by kind, and what it threw away by reason.

use earmark_wire::rsvp::MessageType;
use serde::{Deserialize, Serialize};

use crate::refresh_reduction::Bundled;

/// Why a message was thrown away.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// It could not be read; the kinds are told apart in [`Counters::malformed`].
    Malformed,
    /// Its refresh period is zero.
    ZeroRefreshPeriod,
    /// Its hop object names an address that cannot be a neighbour's.
    BadHop,
    /// It came through an interface that this node does not know.
    UnknownInterface,
    /// Its logical interface handle is none that this node gave out.
    BadLih,
    /// It is about a session or sender that this node knows nothing of.
    NoState,
    /// It came from another previous hop than the state did.
    OtherHop,
    /// There is no way to its destination.
    NoRoute,
    /// It came in where the multicast routes do not expect its sender.
    WrongInterface,
    /// Its TTL is used up.
    TtlExpired,
    /// Zero and non-zero ports do not go together (RFC 2205 section 3.2).
    Ports,
    /// A limit of this node is reached.
    Limit,
    /// It is from a neighbour to whom this node does not listen on that interface.
    UnknownNeighbor,
    /// A request was refused, and the refusal sent back.
    Refused,
    /// It is addressed to this node but nobody here waits for it.
    NotForUs,
    /// It carries no INTEGRITY, and came through an interface where it must (RFC 2747 section 4).
    MissingIntegrity,
    /// It is signed with a key that is not known here, or does not serve there.
    UnknownKey,
    /// It is signed with a key whose time has not come, or is over.
    KeyNotValid,
    /// Its digest has another length than those of its key.
    DigestLength,
    /// Its digest is wrong.
    WrongDigest,
    /// Its sequence number was seen before, or is too old.
    Replayed,
    /// Its sender has not answered our challenge yet.
    HandshakePending,
    /// It answers a challenge that is not ours, or was answered before.
    UnknownChallenge,
    /// It should leave signed, and there is no key for it.
    NotSigned,
    /// It asks for, or tells, the state of a session, which is switched off here (RFC 2745 section 7).
    DiagnosticsOff,
    /// A later message about the same state has overtaken it (RFC 2961 section 4.5).
    Overtaken,
}

impl DropReason {
    /// All of them.
    pub const ALL: [DropReason; 26] = [
        DropReason::Malformed,
        DropReason::ZeroRefreshPeriod,
        DropReason::BadHop,
        DropReason::UnknownInterface,
        DropReason::BadLih,
        DropReason::NoState,
        DropReason::OtherHop,
        DropReason::NoRoute,
        DropReason::WrongInterface,
        DropReason::TtlExpired,
        DropReason::Ports,
        DropReason::Limit,
        DropReason::UnknownNeighbor,
        DropReason::Refused,
        DropReason::NotForUs,
        DropReason::MissingIntegrity,
        DropReason::UnknownKey,
        DropReason::KeyNotValid,
        DropReason::DigestLength,
        DropReason::WrongDigest,
        DropReason::Replayed,
        DropReason::HandshakePending,
        DropReason::UnknownChallenge,
        DropReason::NotSigned,
        DropReason::DiagnosticsOff,
        DropReason::Overtaken,
    ];

    /// Its name in counters.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::Malformed => "malformed",
            DropReason::ZeroRefreshPeriod => "zero_refresh_period",
            DropReason::BadHop => "bad_hop",
            DropReason::UnknownInterface => "unknown_interface",
            DropReason::BadLih => "bad_lih",
            DropReason::NoState => "no_state",
            DropReason::OtherHop => "other_hop",
            DropReason::NoRoute => "no_route",
            DropReason::WrongInterface => "wrong_interface",
            DropReason::TtlExpired => "ttl_expired",
            DropReason::Ports => "ports",
            DropReason::Limit => "limit",
            DropReason::UnknownNeighbor => "unknown_neighbor",
            DropReason::Refused => "refused",
            DropReason::NotForUs => "not_for_us",
            DropReason::MissingIntegrity => "missing_integrity",
            DropReason::UnknownKey => "unknown_key",
            DropReason::KeyNotValid => "key_not_valid",
            DropReason::DigestLength => "digest_length",
            DropReason::WrongDigest => "wrong_digest",
            DropReason::Replayed => "replayed",
            DropReason::HandshakePending => "handshake_pending",
            DropReason::UnknownChallenge => "unknown_challenge",
            DropReason::NotSigned => "not_signed",
            DropReason::DiagnosticsOff => "diagnostics_off",
            DropReason::Overtaken => "overtaken",
        }
    }
}

/// Names of the kinds of message.
pub const MESSAGES: [&str; 13] = [
    "path",
    "resv",
    "path_err",
    "resv_err",
    "path_tear",
    "resv_tear",
    "resv_conf",
    "dreq",
    "drep",
    "bundle",
    "ack",
    "srefresh",
    "hello",
];

/// Messages of each kind, by direction, and drops by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Received, in the order of [`MESSAGES`].
    pub received: [u64; MESSAGES.len()],
    /// Sent, likewise.
    pub sent: [u64; MESSAGES.len()],
    /// Messages of others, passed on as they were.
    pub relayed: u64,
    /// Reservations that gave way to more important ones, in whole or in part.
    pub preempted: u64,
    /// Senders whose first Path came with another IP source than it names: address translation on the way.
    pub translated: u64,
    /// What refresh reduction did.
    pub reduction: ReductionCounters,
    /// Thrown away, in the order of [`DropReason::ALL`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Messages that could not be read, by what was wrong; at most one entry a kind of error.
    pub malformed: alloc::collections::BTreeMap<&'static str, u64>,
}

/// What refresh reduction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReductionCounters {
    /// States that a summary refresh of a neighbour refreshed.
    pub refreshed: u64,
    /// Names in them that meant nothing here.
    pub unknown: u64,
    /// States that summary refreshes of this node named.
    pub named: u64,
    /// Of these, how many the neighbour no longer knew.
    pub forgotten: u64,
    /// Messages that were acknowledged.
    pub acknowledged: u64,
    /// Messages that were sent again.
    pub repeated: u64,
    /// Messages that were never acknowledged and left to their refreshes.
    pub given_up: u64,
    /// Messages that left in Bundles.
    pub bundled: u64,
    /// Messages that came in Bundles.
    pub unbundled: u64,
}

impl ReductionCounters {
    fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        [
            ("refreshed", self.refreshed),
            ("unknown", self.unknown),
            ("named", self.named),
            ("forgotten", self.forgotten),
            ("acknowledged", self.acknowledged),
            ("repeated", self.repeated),
            ("given_up", self.given_up),
            ("bundled", self.bundled),
            ("unbundled", self.unbundled),
        ]
        .into_iter()
        .map(|(name, n)| ("reduction", name, n))
    }
}

impl Counters {
    /// Counts a message in.
    #[inline]
    pub(crate) fn receive(&mut self, kind: MessageType) {
        if let Some(counter) = self.received.get_mut(place(kind)) {
            *counter += 1;
        }
    }

    /// Counts messages out that were brought together.
    pub(crate) fn bundle(&mut self, bundled: Bundled) {
        self.sent[place(MessageType::Bundle)] += bundled.bundles;
        self.reduction.bundled += bundled.messages;
    }

    /// Counts a message out.
    #[inline]
    pub(crate) fn send(&mut self, kind: MessageType) {
        if let Some(counter) = self.sent.get_mut(place(kind)) {
            *counter += 1;
        }
    }

    /// Counts a message away.
    pub(crate) fn drop(&mut self, reason: DropReason) {
        self.dropped[reason as usize] += 1;
    }

    /// Every counter with its name, those at zero too.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let received = MESSAGES.iter().zip(self.received).map(|(&name, n)| ("received", name, n));
        let sent = MESSAGES.iter().zip(self.sent).map(|(&name, n)| ("sent", name, n));
        let relayed = core::iter::once(("relayed", "messages", self.relayed));
        let preempted = core::iter::once(("preempted", "reservations", self.preempted));
        let translated = core::iter::once(("translated", "senders", self.translated));
        let dropped =
            DropReason::ALL.iter().zip(self.dropped).map(|(r, n)| ("dropped", r.name(), n));
        let malformed = self.malformed.iter().map(|(&name, &n)| ("malformed", name, n));
        received
            .chain(sent)
            .chain(relayed)
            .chain(preempted)
            .chain(translated)
            .chain(self.reduction.iter())
            .chain(dropped)
            .chain(malformed)
    }
}

fn place(kind: MessageType) -> usize {
    match kind {
        MessageType::Path => 0,
        MessageType::Resv => 1,
        MessageType::PathErr => 2,
        MessageType::ResvErr => 3,
        MessageType::PathTear => 4,
        MessageType::ResvTear => 5,
        MessageType::ResvConf => 6,
        MessageType::Dreq => 7,
        MessageType::Drep => 8,
        MessageType::Bundle => 9,
        MessageType::Ack => 10,
        MessageType::Srefresh => 11,
        MessageType::Hello => 12,
        _ => usize::MAX,
    }
}
