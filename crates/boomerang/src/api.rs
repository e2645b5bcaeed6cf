//! Commands of applications, and events of the engine.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::outcome::Outcome;
use earmark_core::{InterfaceId, Rate, Secret, Time};
use earmark_token::Token;
use earmark_wire::boomerang::Rates;
use serde::{Deserialize, Serialize};

use crate::counters::DropReason;
use crate::credential::Key;
use crate::selector::{Direction, Selector};

pub use earmark_core::ApplicationId as Application;

/// A command of an application. Invalid parameters are reported as [`Event::Rejected`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Makes this node the initiating node of a session: sends a loop, repeats it until it comes back, and refreshes
    /// the session until [`Command::Release`].
    Reserve {
        /// The application; it has no session yet.
        application: Application,
        /// The request.
        request: Request,
    },
    /// Requests other rates for the same flow. If they are refused, the current reservation stays.
    Modify {
        /// The application; it has a session.
        application: Application,
        /// New rates, in order of preference; see [`Request::rates`].
        #[serde(rename = "wishes")]
        rates: Vec<RequestedRates>,
    },
    /// Releases the session. [`Event::Released`] follows when the loop has come back, or after the last attempt.
    Release {
        /// The application.
        application: Application,
    },
    /// Queries the available rates without reserving. [`Event::Offered`] follows.
    Query {
        /// The application; it has no session.
        application: Application,
        /// The request. Only the first of its `rates` counts.
        request: Request,
    },
    /// Replaces the rules by which this node aggregates flows; see [`crate::AggregateRule`]. Flows join or leave with
    /// their next message.
    Aggregate {
        /// All rules.
        rules: Vec<crate::AggregateRule>,
    },
    /// Replaces the settings for tokens, except the wall clock. Granted sessions stay until their tokens end.
    Tokens(earmark_token::Settings),
    /// Replaces the keys of users.
    Keys {
        /// All keys; those that are missing are no longer used.
        keys: Vec<Key>,
    },
    /// Sets the wall clock after a jump: only the lifetimes of tokens depend on it.
    WallClock {
        /// Wall-clock time at [`Time::ZERO`], nanoseconds since 1970.
        wall_clock: u64,
    },
    /// Reports refreshes of an offloaded session: the answer to [`Event::Expiring`], but accepted at any time.
    Seen(Seen),
    /// Counts messages that the offload has forwarded without the engine.
    Passed(Passed),
    /// Reports a message that the offload has processed, as [`Event::Allowance`] permits, and forwarded.
    Settled(Settled),
}

/// Refreshes of an offloaded session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The session.
    pub selector: Selector,
    /// Seconds between refreshes, as in [`Offloaded::interval`].
    pub interval: u8,
    /// When the last message on the outward pass arrived; `None` for none.
    pub forward: Option<Time>,
    /// When the last message on the return pass arrived; `None` for none.
    pub reverse: Option<Time>,
}

/// Numbers of messages that the offload has handled since the last report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// Messages on the outward pass.
    pub requests: u64,
    /// Messages on the return pass.
    pub replies: u64,
    /// Messages among both that refreshed their half of a session.
    pub refreshed: u64,
}

/// A message that the offload has processed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// Arrival interface; 0 if that is unknown, as in recordings from before it was recorded.
    #[serde(default = "unknown_interface")]
    pub interface: InterfaceId,
    /// IP source.
    pub source: IpAddr,
    /// IP destination.
    pub destination: IpAddr,
    /// The ICMP message.
    pub message: Vec<u8>,
    /// Result.
    pub outcome: Settlement,
}

/// Returns the number of no interface.
fn unknown_interface() -> InterfaceId {
    InterfaceId(0)
}

/// Result of a message that the offload has processed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Settlement {
    /// A rate was reserved in the direction of the message, from the offload's share of the link.
    Reserved(LinkRate),
    /// The session was released: these rates went back to the offload's share of its links.
    Released([Option<LinkRate>; 2]),
}

/// A session whose plain refreshes the offload may handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offloaded {
    /// Packets of the session; [`Selector::keys`] gives them as in messages.
    pub selector: Selector,
    /// Source of its outward messages, and destination of its return messages.
    pub initiator: IpAddr,
    /// Destination of its outward messages, and source of its return messages.
    pub far_end: IpAddr,
    /// Arrival interfaces of its outward and of its return messages; 0 for a pass that has not come by.
    pub arrivals: [InterfaceId; 2],
    /// Seconds between refreshes, from its messages.
    pub interval: u8,
    /// Reservation in the forward direction.
    pub forward: Option<LinkRate>,
    /// Reservation in the reverse direction.
    pub reverse: Option<LinkRate>,
}

/// A rate on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRate {
    /// Outgoing link of the packets, and of the messages of their pass.
    pub interface: InterfaceId,
    /// Reserved rate, equal to the rate in the messages.
    pub rate: Rate,
}

/// A request of an initiating node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Far end of the loop: the other end of the flow, or a group, for which nobody replies.
    pub destination: IpAddr,
    /// Packets to reserve for. An unspecified source (0.0.0.0/32, ::/128) stands for this host's address on the route
    /// to the destination.
    pub selector: Selector,
    /// Rates in order of preference: one for a message with bitrates, several, up to 255, for one with downgrades.
    #[serde(rename = "wishes")]
    pub rates: Vec<RequestedRates>,
    /// Seconds between refreshes; `None` for the configured interval.
    pub interval: Option<u8>,
    /// Reaction to a refusal.
    pub on_refusal: OnRefusal,
    /// User id and secret, if nodes on the path require them.
    pub user: Option<User>,
    /// Token that proves the name of the user, if nodes on the path require one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
    /// Whether to count the nodes that take part: one more message, sent as soon as the first is back, carries a
    /// record in which they count themselves. [`Event::Reached`] follows. Not for groups, for which nobody replies.
    #[serde(default)]
    pub count_nodes: bool,
}

impl Request {
    /// Creates a request for one flow at one pair of rates, with the configured interval, repeated if it is refused.
    pub fn new(destination: IpAddr, selector: Selector, pair: RequestedRates) -> Request {
        Request {
            destination,
            selector,
            rates: [pair].into(),
            interval: None,
            on_refusal: OnRefusal::Retry,
            user: None,
            token: None,
            count_nodes: false,
        }
    }
}

/// A pair of rates that an application requests together. Each fits 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestedRates {
    /// Rate from this host to the far end.
    pub forward: Rate,
    /// Rate from the far end to this host.
    pub reverse: Rate,
}

/// Reaction of an initiating node to a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRefusal {
    /// Requests the same rates again, once per interval. Nodes before the refusal keep what they have reserved.
    #[default]
    Retry,
    /// Requests the offered rates, if they are non-zero in each requested direction; otherwise releases.
    TakeOffer,
    /// Releases the session.
    Release,
}

/// User id and secret of an application; the nodes know the secret, too.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Eight octets; a shorter name is padded with zeros.
    pub id: [u8; 8],
    /// The secret.
    pub secret: Secret,
}

/// Cause of a change of a reservation on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The reservation is new.
    Created,
    /// The rate changed.
    Changed,
    /// The packets leave through another interface.
    Moved,
    /// The key has arrived: a reservation set aside is now in force.
    Unlocked,
    /// The initiating node released it.
    Released,
    /// The initiating node sent no refresh in time.
    Expired,
    /// A reservation of higher priority preempted it, in whole or in part.
    Preempted,
    /// Traffic control refused it.
    Orphaned,
    /// The reservation was folded into an aggregate.
    Aggregated,
}

/// Reason why a command was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rejection {
    /// The application has a session already.
    SessionOpen,
    /// The application has no session.
    NoSession,
    /// No route to the destination.
    NoRoute,
    /// The selector is of another family than the destination, or has ports without a protocol.
    BadSelector,
    /// No rates, more than 255 pairs, or pairs that do not decrease.
    #[serde(rename = "bad_wishes")]
    BadRateList,
    /// A rate does not fit 32 bits, or all are zero.
    BadRate,
    /// A reverse rate for a group.
    Multicast,
    /// The interval is zero.
    BadInterval,
    /// The limit of sessions is reached.
    TooMany,
}

/// Events of the engine: answers to applications, and reports for watchers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The loop came back and no node on the path refused; or it was sent to a group, and this node has reserved.
    /// [`Event::Reached`] tells whether any node takes part.
    Established {
        /// The application.
        application: Application,
        /// Granted rates.
        rates: Rates,
        /// Seconds between refreshes, as the nodes on the path require.
        interval: u8,
        /// Whether a reply arrived; false for groups.
        confirmed: bool,
    },
    /// The nodes that take part have counted themselves. Follows [`Event::Established`] and [`Event::Changed`] if
    /// [`Request::count_nodes`] is set.
    Reached {
        /// The application.
        application: Application,
        /// Extent of the reservation along the path.
        reach: Box<Outcome>,
    },
    /// The loop came back with a refusal. The application keeps its previous reservation.
    Refused {
        /// The application.
        application: Application,
        /// Available rates: the minimum over all nodes, or zero if no node states one.
        offer: Rates,
        /// Reaction of this node.
        reaction: OnRefusal,
    },
    /// The granted rates changed without a request: a node has removed more of the list of downgrades, or granted
    /// more.
    Changed {
        /// The application.
        application: Application,
        /// Granted rates.
        rates: Rates,
    },
    /// Answer to [`Command::Query`]; the application has no session any more.
    Offered {
        /// The application.
        application: Application,
        /// Available rates.
        offer: Rates,
        /// How far the query reached, if [`Request::count_nodes`] is set.
        #[serde(default)]
        reach: Box<Outcome>,
    },
    /// No reply arrived for the lifetime of a reservation. The node continues to try.
    Lost {
        /// The application.
        application: Application,
    },
    /// End of [`Command::Release`], or of a release by [`OnRefusal`].
    Released {
        /// The application.
        application: Application,
    },
    /// A command was invalid, or invalid in the current state.
    Rejected {
        /// The application.
        application: Application,
        /// The reason.
        reason: Rejection,
    },
    /// A key was used after its end because no other one is valid. Reported once.
    LastKeyExpired {
        /// Number of the key.
        key: u64,
    },
    /// A reservation on a link of this node changed.
    Reservation {
        /// Cause of the change.
        change: Change,
        /// The session.
        selector: Selector,
        /// Half of the session.
        direction: Direction,
        /// The link.
        interface: InterfaceId,
        /// Current or last rate.
        rate: Rate,
    },
    /// Allows the offload to handle the plain refreshes of this session. Replaces earlier information about it. Only
    /// with [`crate::Config::offload`].
    Offload(Offloaded),
    /// Allows the offload to process set-ups of half sessions for an initiating node, if they fit its share of the
    /// link: sessions that name all five keys, and whose refreshes would be plain. Replaces an earlier allowance.
    /// Each is reported by [`Command::Settled`]. Only with [`crate::Config::offload`].
    Allowance {
        /// The initiating node.
        initiator: IpAddr,
        /// Interface that its requests arrive through.
        interface: InterfaceId,
        /// Maximum number of set-ups.
        changes: u32,
    },
    /// Ends the offload of this session: all its messages come to the engine, and none is processed as a set-up.
    Withhold {
        /// The session.
        selector: Selector,
    },
    /// The session ended; the offload may process a set-up for it again.
    Recall {
        /// The session.
        selector: Selector,
    },
    /// The session expires in one second, unless [`Command::Seen`] reports a refresh.
    Expiring {
        /// The session.
        selector: Selector,
    },
    /// A message was dropped.
    Dropped {
        /// The reason.
        reason: DropReason,
        /// Incoming interface.
        interface: InterfaceId,
        /// IP source.
        source: IpAddr,
    },
}
