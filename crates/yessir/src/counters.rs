//! Counters of the engine: messages by kind, and ignored messages by reason.

use alloc::collections::BTreeMap;

use serde::{Deserialize, Serialize};

earmark_core::named_enum! {
    /// Reason why a message was ignored.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DropReason {
        /// The message is malformed; [`Counters::malformed`] has the kinds. Forwarded.
        Malformed = "malformed",
        /// The UDP checksum is wrong. Forwarded.
        Checksum = "checksum",
        /// The ports cannot be those of reports. Forwarded.
        Ports = "ports",
        /// AUTH is required and missing. Forwarded.
        MissingAuth = "missing_auth",
        /// The message is signed with an unknown key. Forwarded.
        UnknownKey = "unknown_key",
        /// The key is not valid now. Forwarded.
        KeyNotValid = "key_not_valid",
        /// The digest is wrong. Forwarded.
        WrongDigest = "wrong_digest",
        /// The sequence number was seen before. Forwarded.
        Replayed = "replayed",
        /// A limit of this node is reached. Forwarded with a note, unless the access interface that the message arrived through
        /// has used up its share of the signalling class of an outgoing link.
        Limit = "limit",
        /// The message is about an unknown stream. Forwarded.
        NoState = "no_state",
        /// The message is for this host, and no application waits for it.
        NotForUs = "not_for_us",
        /// The TTL expired.
        TtlExpired = "ttl_expired",
        /// No route to the destination.
        NoRoute = "no_route",
        /// The message arrived on an interface where the multicast routes do not expect its source.
        WrongInterface = "wrong_interface",
        /// The source is not behind the access interface that the message arrived through, or is this node's own.
        SourceNotBehind = "source_not_behind",
        /// The SSRC is not that of the first reporter of the stream. Forwarded.
        ForeignSsrc = "foreign_ssrc",
        /// The message arrived through another interface than those of the stream's first reporter. Forwarded.
        WrongArrival = "wrong_arrival",
        /// The answer is not of the receiver that the stream is for.
        ForeignReceiver = "foreign_receiver",
        /// The token does not cover the request; [`Counters::tokens`] has the reasons. Forwarded with a note.
        Token = "token",
        /// No token proves a name that may reserve. Forwarded with a note.
        NotVerified = "not_verified",
        /// A report of this host leaves by an interface that requires a signature, and no key serves there. Not sent.
        NotSigned = "not_signed",
    }
}

/// Counters since the engine was created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Messages that request a reservation.
    pub active: u64,
    /// Messages that only query.
    pub passive: u64,
    /// Messages that release.
    pub release: u64,
    /// Answers of receivers.
    pub answers: u64,
    /// Sender reports without YESSIR on interfaces where they are measured.
    pub measured: u64,
    /// Messages forwarded.
    pub forwarded: u64,
    /// Reports and answers sent by this host.
    pub sent: u64,
    /// Streams created.
    pub created: u64,
    /// Refreshes without a change.
    pub refreshed: u64,
    /// Streams released.
    pub released: u64,
    /// Streams that expired.
    pub expired: u64,
    /// Requests that a link of this node had no room for, each refresh counted.
    pub refused: u64,
    /// Reservations completed by a refresh.
    pub retried: u64,
    /// Reservations granted from released bandwidth.
    pub grabbed: u64,
    /// Failure notes left out for lack of room in the message.
    pub notes_left_out: u64,
    /// Refused tokens by reason, and streams that ended with their token; at most one entry for each reason.
    pub tokens: BTreeMap<&'static str, u64>,
    /// Malformed messages by kind of error.
    pub malformed: BTreeMap<&'static str, u64>,
    /// Ignored messages by reason.
    pub ignored: BTreeMap<DropReason, u64>,
}

impl Counters {
    /// Counts a refused token, or one whose stream has ended with it.
    pub(crate) fn refuse_token(&mut self, refused: earmark_token::Refused) {
        *self.tokens.entry(refused.name()).or_default() += 1;
    }
}
