//! Counters of GIST: messages by type, and ignored messages by reason.

use alloc::collections::BTreeMap;

use serde::{Deserialize, Serialize};

earmark_core::named_enum! {
    /// Why a message was ignored.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "snake_case")]
    pub enum DropReason {
        /// The packet is not UDP to GIST's port, or lacks the magic number.
        NotGist = "not_gist",
        /// The UDP checksum is wrong.
        Checksum = "checksum",
        /// The message is malformed; [`Counters::malformed`] distinguishes the kinds.
        Malformed = "malformed",
        /// The GIST hop count is zero.
        HopLimit = "hop_limit",
        /// The IP TTL is exhausted.
        TtlExpired = "ttl_expired",
        /// The message must be forwarded, but there is no route.
        NoRoute = "no_route",
        /// The message exceeds the MTU of the next link.
        TooLarge = "too_large",
        /// A rate limit was exceeded.
        Throttled = "throttled",
        /// A limit of this node is reached.
        Limit = "limit",
        /// No application of this node serves the NSLPID.
        UnknownApplication = "unknown_application",
        /// The message was sent by this node itself.
        Own = "own",
        /// The MRI is invalid.
        Mri = "mri",
        /// Addresses were translated on the path, but not the objects of the message.
        Untranslated = "untranslated",
        /// The sender is more hops away than allowed.
        TooFar = "too_far",
        /// The cookie is forged or expired.
        Cookie = "cookie",
        /// The Response answers a Query on a route that the flow has left since.
        OldRoute = "old_route",
        /// Nothing waits for the message.
        Unexpected = "unexpected",
        /// There is no routing state for the message.
        NoRoutingState = "no_routing_state",
        /// The sender is not the peer of the routing state.
        WrongPeer = "wrong_peer",
        /// The message arrived over an association that its session does not use.
        WrongAssociation = "wrong_association",
        /// The Confirm does not repeat the stack proposal of this node.
        Downgrade = "downgrade",
        /// The message is in the clear, but its routing state was secured, or the settings require it.
        NotSecured = "not_secured",
        /// The message is a datagram, but its routing state uses an association.
        NotOverAssociation = "not_over_association",
        /// The message arrived through an interface that may not concern its routing state.
        WrongInterface = "wrong_interface",
        /// A router has forwarded the datagram, but its peer is known to be on a link of this node.
        FromFar = "from_far",
        /// A message that nodes on the path intercept has no router alert (RFC 5971 section 5.3.2.1), so that they may have
        /// passed it on unseen.
        NoRouterAlert = "no_router_alert",
    }
}

/// Messages of one type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Messages {
    /// Well-formed messages received.
    pub received: u64,
    /// Messages sent.
    pub sent: u64,
}

/// Counters since the engine was created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Query messages.
    pub query: Messages,
    /// Response messages.
    pub response: Messages,
    /// Confirm messages.
    pub confirm: Messages,
    /// Data messages.
    pub data: Messages,
    /// Error messages.
    pub error: Messages,
    /// MA-Hello messages.
    pub hello: Messages,
    /// Messages of other nodes that were forwarded.
    pub forwarded: u64,
    /// Queries that were retransmitted.
    pub repeated: u64,
    /// Routing states that became good.
    pub established: u64,
    /// Routing states whose peer was replaced.
    pub rerouted: u64,
    /// Routing states that were removed without use or refresh.
    pub expired: u64,
    /// Searches for a peer that found none.
    pub last_node: u64,
    /// Associations opened by this node.
    pub associations_opened: u64,
    /// Connections of neighbors that were refused.
    pub associations_refused: u64,
    /// Associations that were closed.
    pub associations_closed: u64,
    /// Messages of applications that could not be sent.
    pub undelivered: u64,
    /// Messages of this node that a rate limit has suppressed.
    pub held_back: u64,
    /// Requests of applications dropped after too many rounds for one input.
    pub requests_left: u64,
    /// Malformed messages, by kind of error.
    pub malformed: BTreeMap<&'static str, u64>,
    /// Ignored messages, by reason.
    pub ignored: BTreeMap<DropReason, u64>,
}

impl Counters {
    /// Returns every counter with its group and name, including those at zero.
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
