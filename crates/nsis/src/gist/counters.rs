//! What GIST counts: messages by type, and what it did not act on, by reason.

use alloc::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Why a message was not acted on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DropReason {
    /// It is no UDP packet to GIST's port, or does not begin with the magic number.
    NotGist,
    /// Its UDP checksum is wrong.
    Checksum,
    /// It could not be read; the kinds are told apart in [`Counters::malformed`].
    Malformed,
    /// Its hop count is used up.
    HopLimit,
    /// Its TTL is used up.
    TtlExpired,
    /// It is for a peer further on, but there is no route.
    NoRoute,
    /// It is too large for the next link.
    TooLarge,
    /// There were too many of its kind.
    Throttled,
    /// A limit of this node is reached.
    Limit,
    /// Nobody here knows its application.
    UnknownApplication,
    /// It is this node's own.
    Own,
    /// Its flow cannot be right.
    Mri,
    /// Addresses were translated on the way, and its objects were not.
    Untranslated,
    /// It came from too far to be trusted.
    TooFar,
    /// Its cookie is not one of this node's, or too old.
    Cookie,
    /// Nothing here waits for it.
    Unexpected,
    /// There is no routing state for it.
    NoRoutingState,
    /// Its sender is not the peer of the routing state.
    WrongPeer,
    /// It came over an association that its session does not use.
    WrongAssociation,
    /// What the Confirm repeats of the stack proposal is not what was proposed.
    Downgrade,
}

impl DropReason {
    /// All of them.
    pub const ALL: [DropReason; 20] = [
        DropReason::NotGist,
        DropReason::Checksum,
        DropReason::Malformed,
        DropReason::HopLimit,
        DropReason::TtlExpired,
        DropReason::NoRoute,
        DropReason::TooLarge,
        DropReason::Throttled,
        DropReason::Limit,
        DropReason::UnknownApplication,
        DropReason::Own,
        DropReason::Mri,
        DropReason::Untranslated,
        DropReason::TooFar,
        DropReason::Cookie,
        DropReason::Unexpected,
        DropReason::NoRoutingState,
        DropReason::WrongPeer,
        DropReason::WrongAssociation,
        DropReason::Downgrade,
    ];

    /// Its name in counters.
    pub fn name(self) -> &'static str {
        match self {
            DropReason::NotGist => "not_gist",
            DropReason::Checksum => "checksum",
            DropReason::Malformed => "malformed",
            DropReason::HopLimit => "hop_limit",
            DropReason::TtlExpired => "ttl_expired",
            DropReason::NoRoute => "no_route",
            DropReason::TooLarge => "too_large",
            DropReason::Throttled => "throttled",
            DropReason::Limit => "limit",
            DropReason::UnknownApplication => "unknown_application",
            DropReason::Own => "own",
            DropReason::Mri => "mri",
            DropReason::Untranslated => "untranslated",
            DropReason::TooFar => "too_far",
            DropReason::Cookie => "cookie",
            DropReason::Unexpected => "unexpected",
            DropReason::NoRoutingState => "no_routing_state",
            DropReason::WrongPeer => "wrong_peer",
            DropReason::WrongAssociation => "wrong_association",
            DropReason::Downgrade => "downgrade",
        }
    }
}

/// Messages of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Messages {
    /// That have come, and were well formed.
    pub received: u64,
    /// That were sent.
    pub sent: u64,
}

/// What was counted since the engine was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Query.
    pub query: Messages,
    /// Response.
    pub response: Messages,
    /// Confirm.
    pub confirm: Messages,
    /// Data.
    pub data: Messages,
    /// Error.
    pub error: Messages,
    /// MA-Hello.
    pub hello: Messages,
    /// Messages for others that were sent on.
    pub forwarded: u64,
    /// Queries that were sent again.
    pub repeated: u64,
    /// Routing states that became good.
    pub established: u64,
    /// Routing states that had another peer all at once.
    pub rerouted: u64,
    /// Routing states that were not used, or not refreshed, in time.
    pub expired: u64,
    /// Searches that found nobody.
    pub last_node: u64,
    /// Associations that this node has asked for and got.
    pub associations_opened: u64,
    /// Connections of neighbours that were ended at once.
    pub associations_refused: u64,
    /// Associations that ended.
    pub associations_closed: u64,
    /// Messages of applications that could not be sent.
    pub undelivered: u64,
    /// Messages of this node that were not sent, because there were too many.
    pub held_back: u64,
    /// What applications have asked for after too many rounds of question and answer.
    pub requests_left: u64,
    /// Messages that could not be read, by what is wrong with them.
    pub malformed: BTreeMap<&'static str, u64>,
    /// Messages that were not acted on.
    pub ignored: BTreeMap<DropReason, u64>,
}

impl Counters {
    /// Every counter with its group and name, those at zero too.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
        let types = [
            ("query", self.query),
            ("response", self.response),
            ("confirm", self.confirm),
            ("data", self.data),
            ("error", self.error),
            ("hello", self.hello),
        ];
        let received = types.map(|(name, count)| ("received", name, count.received));
        let sent = types.map(|(name, count)| ("sent", name, count.sent));
        let states = [
            ("routing", "forwarded", self.forwarded),
            ("routing", "repeated", self.repeated),
            ("routing", "established", self.established),
            ("routing", "rerouted", self.rerouted),
            ("routing", "expired", self.expired),
            ("routing", "last_node", self.last_node),
            ("routing", "undelivered", self.undelivered),
            ("routing", "held_back", self.held_back),
            ("routing", "requests_left", self.requests_left),
        ];
        let ignored = DropReason::ALL.into_iter().map(|reason| {
            ("ignored", reason.name(), self.ignored.get(&reason).copied().unwrap_or_default())
        });
        let malformed = self.malformed.iter().map(|(&name, &count)| ("malformed", name, count));
        received.into_iter().chain(sent).chain(states).chain(ignored).chain(malformed)
    }
}
