//! Counters of the engine: messages by type, and drops by reason.

use earmark_token::Refused;
use earmark_wire::rsvp::MessageType;
use serde::{Deserialize, Serialize};

use crate::neighbors::refresh_reduction::Bundled;
use crate::tolerated::Tolerated;

earmark_core::named_enum! {
    /// Reason for dropping a message.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DropReason {
        /// The message is malformed; [`Counters::malformed`] has the kinds of error.
        Malformed = "malformed",
        /// The refresh period is zero.
        ZeroRefreshPeriod = "zero_refresh_period",
        /// The hop object has an address that cannot be a neighbour's.
        BadHop = "bad_hop",
        /// The incoming interface is unknown.
        UnknownInterface = "unknown_interface",
        /// The logical interface handle was not assigned by this node.
        BadLih = "bad_lih",
        /// The session or sender has no state here.
        NoState = "no_state",
        /// The previous hop is not that of the state.
        OtherHop = "other_hop",
        /// There is no route to the destination.
        NoRoute = "no_route",
        /// The incoming interface is not the one that multicast routing expects for the sender.
        WrongInterface = "wrong_interface",
        /// The TTL has expired.
        TtlExpired = "ttl_expired",
        /// Zero and non-zero ports would be mixed (RFC 2205 section 3.2).
        Ports = "ports",
        /// A limit of this node is reached.
        Limit = "limit",
        /// The neighbour is not accepted on that interface, or a Notify of that node is not believed (RFC 3473 section 12).
        UnknownNeighbor = "unknown_neighbor",
        /// The request was refused with an error message.
        Refused = "refused",
        /// The message is addressed to this node but nothing here expects it.
        NotForUs = "not_for_us",
        /// INTEGRITY is missing on an interface that requires it (RFC 2747 section 4).
        MissingIntegrity = "missing_integrity",
        /// The key is unknown, or not used on that interface or with that neighbour.
        UnknownKey = "unknown_key",
        /// The key is not valid yet, or not any more.
        KeyNotValid = "key_not_valid",
        /// The digest length differs from that of the key.
        DigestLength = "digest_length",
        /// The digest is wrong.
        WrongDigest = "wrong_digest",
        /// The sequence number was seen before, or is too old.
        Replayed = "replayed",
        /// The sender has not answered a challenge yet.
        HandshakePending = "handshake_pending",
        /// The response answers no pending challenge.
        UnknownChallenge = "unknown_challenge",
        /// The message must be signed, and there is no key for it.
        NotSigned = "not_signed",
        /// The message requests or reports session state, and diagnostics are disabled here (RFC 2745 section 7).
        DiagnosticsOff = "diagnostics_off",
        /// A later message about the same state arrived earlier (RFC 2961 section 4.5).
        Overtaken = "overtaken",
        /// An error or a confirmation that was handled before, sent again because its acknowledgement was lost (RFC 2961
        /// section 6).
        Repeated = "repeated",
        /// The message concerns state at another interface, and its own interface is not trusted with that.
        OtherInterface = "other_interface",
        /// The message concerns state at another interface, which accepts only messages signed with one of its keys.
        Unsigned = "unsigned",
        /// The message comes from another link, but the neighbour that it names is on this one (RFC 5082).
        FromFar = "from_far",
        /// The source of the data is not behind the incoming interface, which is an access interface.
        SourceElsewhere = "source_elsewhere",
        /// A Path, PathTear or ResvConf has no router alert (RFC 2205 section 3.3), so that routers may have passed it on
        /// unseen.
        NoRouterAlert = "no_router_alert",
    }
}

/// Names of the message types.
pub const MESSAGES: [&str; 15] = [
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
    "notify",
    "recovery_path",
];

/// Messages by type and direction, and drops by reason.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Received messages, in the order of [`MESSAGES`].
    pub received: [u64; MESSAGES.len()],
    /// Sent messages, in the order of [`MESSAGES`].
    pub sent: [u64; MESSAGES.len()],
    /// Messages of other nodes, forwarded unchanged.
    pub relayed: u64,
    /// Reservations preempted in whole or in part.
    pub preempted: u64,
    /// Senders whose first Path had another IP source address than its SENDER_TEMPLATE: address translation on the
    /// path.
    pub translated: u64,
    /// Neighbours with a deviation from the standards that was accepted, in the order of [`Tolerated::ALL`].
    pub tolerated: [u64; Tolerated::ALL.len()],
    /// Errors of this node that were not sent, because of the limit of an access interface.
    pub suppressed_errors: u64,
    /// Notify messages that were not sent, because of the limit for their receiver, or without a route.
    pub suppressed_notifications: u64,
    /// Acknowledgements of nodes that are not the receiver of the message; they have no effect.
    pub foreign_acknowledgements: u64,
    /// Counters of refresh reduction.
    pub reduction: ReductionCounters,
    /// Dropped messages, in the order of [`DropReason::ALL`].
    pub dropped: [u64; DropReason::ALL.len()],
    /// Refused tokens by reason, and reservations that ended with their token, with at most one entry for each reason.
    pub tokens: alloc::collections::BTreeMap<&'static str, u64>,
    /// Malformed messages by kind of error, with at most one entry for each kind.
    pub malformed: alloc::collections::BTreeMap<&'static str, u64>,
}

/// Counters of refresh reduction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReductionCounters {
    /// States refreshed by summary refreshes of neighbours.
    pub refreshed: u64,
    /// Identifiers in received summary refreshes without state here.
    pub unknown: u64,
    /// Identifiers in sent summary refreshes.
    pub named: u64,
    /// Identifiers in sent summary refreshes that the neighbour did not know.
    pub forgotten: u64,
    /// Messages that were acknowledged.
    pub acknowledged: u64,
    /// Retransmitted messages.
    pub repeated: u64,
    /// Messages that were never acknowledged and are left to their refreshes.
    pub given_up: u64,
    /// Messages sent in Bundles.
    pub bundled: u64,
    /// Messages received in Bundles.
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
    /// Counts a refused token, or one whose reservation has ended with it.
    pub(crate) fn refuse_token(&mut self, refused: Refused) {
        *self.tokens.entry(refused.name()).or_default() += 1;
    }

    /// Counts a received message.
    #[inline]
    pub(crate) fn receive(&mut self, kind: MessageType) {
        if let Some(counter) = self.received.get_mut(place(kind)) {
            *counter += 1;
        }
    }

    /// Counts messages sent in Bundles.
    pub(crate) fn bundle(&mut self, bundled: Bundled) {
        self.sent[place(MessageType::Bundle)] += bundled.bundles;
        self.reduction.bundled += bundled.messages;
    }

    /// Counts a sent message.
    #[inline]
    pub(crate) fn send(&mut self, kind: MessageType) {
        if let Some(counter) = self.sent.get_mut(place(kind)) {
            *counter += 1;
        }
    }

    /// Counts a dropped message.
    pub(crate) fn drop(&mut self, reason: DropReason) {
        self.dropped[reason as usize] += 1;
    }

    /// Returns every counter as group, name and value, including zeros.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let received = MESSAGES.iter().zip(self.received).map(|(&name, n)| ("received", name, n));
        let sent = MESSAGES.iter().zip(self.sent).map(|(&name, n)| ("sent", name, n));
        let relayed = core::iter::once(("relayed", "messages", self.relayed));
        let preempted = core::iter::once(("preempted", "reservations", self.preempted));
        let translated = core::iter::once(("translated", "senders", self.translated));
        let tolerated = Tolerated::ALL.iter().zip(self.tolerated);
        let tolerated = tolerated.map(|(deviation, n)| ("tolerated", deviation.name(), n));
        let suppressed = [
            ("suppressed", "errors", self.suppressed_errors),
            ("suppressed", "notifications", self.suppressed_notifications),
        ];
        let ignored =
            core::iter::once(("ignored", "acknowledgements", self.foreign_acknowledgements));
        let dropped =
            DropReason::ALL.iter().zip(self.dropped).map(|(r, n)| ("dropped", r.name(), n));
        let tokens = self.tokens.iter().map(|(&name, &n)| ("tokens", name, n));
        let malformed = self.malformed.iter().map(|(&name, &n)| ("malformed", name, n));
        received
            .chain(sent)
            .chain(relayed)
            .chain(preempted)
            .chain(translated)
            .chain(tolerated)
            .chain(suppressed)
            .chain(ignored)
            .chain(self.reduction.iter())
            .chain(dropped)
            .chain(tokens)
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
        MessageType::Notify => 13,
        MessageType::RecoveryPath => 14,
        _ => usize::MAX,
    }
}
