//! What a user of this node can ask for, and what the engine tells.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;

use earmark_core::outcome::Outcome;
use earmark_core::{Flow, InterfaceId, Prefix, Rate, Time};
use earmark_wire::boomerang::{Keys, Rates, Shape};
use serde::{Deserialize, Serialize};

use crate::counters::DropReason;

/// Names an application on this host, for as long as it lives; chosen by the driver, never reused while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Application(pub u64);

/// What an application asks for. Wrong parameters come back as [`Event::Rejected`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// Makes this node the initiating node of a session: sends a loop, repeats it until it comes back, and keeps what it
    /// set up alive until [`Command::Release`].
    Reserve {
        /// Who; it has no session yet.
        application: Application,
        /// What.
        request: Request,
    },
    /// Asks for other rates for the same flow; what is not granted leaves what there was.
    Modify {
        /// Who; it has a session.
        application: Application,
        /// The new rates, the most wanted first; see [`Request::wishes`].
        wishes: Vec<ReservationRequest>,
    },
    /// Gives everything back. [`Event::Released`] tells when the loop has come round, or when it has been repeated often
    /// enough without that.
    Release {
        /// Who.
        application: Application,
    },
    /// Finds out what could be had, and reserves nothing. [`Event::Offered`] tells.
    Query {
        /// Who; it has no session.
        application: Application,
        /// What. Of the wishes only the first counts.
        request: Request,
    },
    /// Changes which flows this node aggregates from now on, by the names of [`crate::AggregateRule`]. Flows join or
    /// leave with their next message.
    Aggregate {
        /// All rules.
        rules: Vec<crate::AggregateRule>,
    },
    /// Refreshes of an offloaded session that never came here: the answer to [`Event::Expiring`], but welcome at any time.
    Seen(Seen),
    /// Messages that others have sent on without a word; for the counters.
    Passed(Passed),
    /// A message that others have done what it asks for, as [`Event::Allowance`] lets them, and sent on.
    Settled(Settled),
}

/// The refreshes of an offloaded session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Which session.
    pub selector: Selector,
    /// Seconds between refreshes, as it was offloaded with.
    pub interval: u8,
    /// When the last message on the outward pass came by; `None` for none.
    pub forward: Option<Time>,
    /// When the last message on the return pass came by; `None` for none.
    pub reverse: Option<Time>,
}

/// Messages that never came to the engine, since it was last told of some.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passed {
    /// On their way out.
    pub requests: u64,
    /// On their way back.
    pub replies: u64,
    /// Of these, how many refreshed what their session has in their direction.
    pub refreshed: u64,
}

/// A message that others have treated.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settled {
    /// Its IP source.
    pub source: IpAddr,
    /// Its IP destination.
    pub destination: IpAddr,
    /// The ICMP message.
    pub message: Vec<u8>,
    /// What was done.
    pub outcome: Settlement,
}

/// What others have done about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Settlement {
    /// Reserved this, in the direction of the message, out of what they were lent of the link.
    Reserved(LinkRate),
    /// Ended the session: this was given back to what they were lent of its links.
    Released([Option<LinkRate>; 2]),
}

/// A session whose plain refreshes need not come to the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Offloaded {
    /// Which packets; [`Selector::keys`] has them as they stand in messages.
    pub selector: Selector,
    /// Source of its outward messages, and destination of its return messages.
    pub initiator: IpAddr,
    /// Seconds between refreshes, as its messages say.
    pub interval: u8,
    /// What it has in the forward direction.
    pub forward: Option<LinkRate>,
    /// What it has in the reverse direction.
    pub reverse: Option<LinkRate>,
}

/// A rate on a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkRate {
    /// Where the packets, and the messages of their pass, leave.
    pub interface: InterfaceId,
    /// How much is reserved, and what the messages say.
    pub rate: Rate,
}

/// What an initiating node asks for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Where the loop turns round: the other end of the flow, or a group, which nobody answers for.
    pub destination: IpAddr,
    /// Whose packets. The source is this host's for the way to the destination where it is unspecified (0.0.0.0/32, ::/128).
    pub selector: Selector,
    /// The rates, the most wanted first: one wish for a message with bitrates, several, up to 255, for one with downgrades.
    pub wishes: Vec<ReservationRequest>,
    /// Seconds between refreshes; `None` for the configured interval.
    pub interval: Option<u8>,
    /// What to do where not everything is granted.
    pub on_refusal: OnRefusal,
    /// As whom, where nodes on the way want to know.
    pub user: Option<User>,
    /// Whether to find out which nodes take part: with one more message, as soon as the first is back, in which they count
    /// themselves. [`Event::Reached`] tells. Not for groups, which nobody answers for.
    #[serde(default)]
    pub count_nodes: bool,
}

impl Request {
    /// A request for one flow in one format, with the usual interval, to be repeated if it is refused.
    pub fn new(destination: IpAddr, selector: Selector, wish: ReservationRequest) -> Request {
        Request {
            destination,
            selector,
            wishes: [wish].into(),
            interval: None,
            on_refusal: OnRefusal::Retry,
            user: None,
            count_nodes: false,
        }
    }
}

/// Two rates that an application would like to have together. Each fits 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReservationRequest {
    /// From here to the far end.
    pub forward: Rate,
    /// From the far end to here.
    pub reverse: Rate,
}

/// What an initiating node does with a refusal.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnRefusal {
    /// Asks for the same again, once an interval. Nodes before the refusal keep what they have set aside.
    #[default]
    Retry,
    /// Asks for what was offered, if that is anything in each direction that was asked for; otherwise releases.
    TakeOffer,
    /// Releases.
    Release,
}

/// As whom an application asks: the user id and the secret that the nodes know, too.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct User {
    /// Eight octets; a shorter name is padded with zeros.
    pub id: [u8; 8],
    /// The secret.
    pub secret: crate::Secret,
}

impl fmt::Debug for User {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("User").field("id", &self.id).finish_non_exhaustive()
    }
}

/// Packets of the forward direction, as classifier and mask say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Selector {
    /// Where they come from.
    pub source: Prefix,
    /// Where they go.
    pub destination: Prefix,
    /// IP protocol number; `None` for any, and then there are no ports.
    pub protocol: Option<u8>,
    /// Source port; `None` for any.
    pub source_port: Option<u16>,
    /// Destination port; `None` for any.
    pub destination_port: Option<u16>,
}

impl Selector {
    /// One flow, or a range. A port that the flow does not look at does not matter here either.
    pub fn of_flow(flow: &Flow) -> Selector {
        let everything = match flow.destination {
            IpAddr::V4(_) => IpAddr::V4(core::net::Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED),
        };
        let port = |port: u16| (port != 0).then_some(port);
        Selector {
            source: flow.sources().unwrap_or(Prefix::new(everything, 0)),
            destination: flow.destinations(),
            protocol: (flow.protocol != 0).then_some(flow.protocol),
            source_port: port(flow.source_port),
            destination_port: port(flow.destination_port),
        }
    }

    /// Classifier and mask, as a message has them.
    pub fn keys(&self) -> (Keys, Shape) {
        let keys = Keys {
            source: self.source.address(),
            destination: self.destination.address(),
            source_port: self.source_port.unwrap_or(0),
            destination_port: self.destination_port.unwrap_or(0),
            protocol: self.protocol.unwrap_or(0),
            tos: 0,
            flags: 0,
        };
        let shape = Shape {
            source: self.source.length(),
            destination: self.destination.length(),
            source_port: self.source_port.is_some(),
            destination_port: self.destination_port.is_some(),
            protocol: self.protocol.is_some(),
            tos: false,
        };
        (keys, shape)
    }

    /// From what a message has. The type of service is left out.
    #[inline]
    pub(crate) fn of_keys(keys: &Keys, shape: &Shape) -> Selector {
        Selector {
            source: Prefix::new(keys.source, shape.source),
            destination: Prefix::new(keys.destination, shape.destination),
            protocol: shape.protocol.then_some(keys.protocol),
            source_port: shape.source_port.then_some(keys.source_port),
            destination_port: shape.destination_port.then_some(keys.destination_port),
        }
    }

    /// Whether the packets of a flow are among these.
    pub fn covers(&self, flow: &Flow) -> bool {
        let port = |wanted: Option<u16>, port: u16| wanted.is_none_or(|wanted| wanted == port);
        self.destination.covers(flow.destinations())
            && flow
                .sources()
                .map_or(self.source.length() == 0, |sources| self.source.covers(sources))
            && self.protocol.is_none_or(|protocol| protocol == flow.protocol)
            && port(self.source_port, flow.source_port)
            && port(self.destination_port, flow.destination_port)
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let port = |f: &mut fmt::Formatter<'_>, port: Option<u16>| match port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        };
        write!(f, "{}", self.source)?;
        port(f, self.source_port)?;
        write!(f, " > {}", self.destination)?;
        port(f, self.destination_port)?;
        match self.protocol {
            Some(protocol) => write!(f, " protocol {protocol}"),
            None => Ok(()),
        }
    }
}

/// Which way, seen from the initiating node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// To the far end; reserved by the echo request.
    Forward,
    /// From the far end; reserved by the echo reply.
    Reverse,
}

/// Why a reservation of this node changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is new.
    Created,
    /// It has another rate.
    Changed,
    /// Its packets leave through another interface.
    Moved,
    /// It was set aside until a key came; now it is in force.
    Unlocked,
    /// The initiating node gave it back.
    Released,
    /// The initiating node has not been heard of for too long.
    Expired,
    /// A more important one took its place, wholly or in part.
    Preempted,
    /// Traffic control could not do it.
    Orphaned,
    /// It went into an aggregate.
    Aggregated,
}

/// Why a command was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rejection {
    /// The application has a session already.
    SessionOpen,
    /// The application has none.
    NoSession,
    /// There is no way to the destination.
    NoRoute,
    /// The selector is of another family than the destination, or has ports without a protocol.
    BadSelector,
    /// There is no wish, there are more than 255, or they do not decrease.
    BadWishes,
    /// A rate does not fit 32 bits, or all are zero.
    BadRate,
    /// A reverse rate to a group.
    Multicast,
    /// The interval is zero.
    BadInterval,
    /// No more sessions are taken.
    TooMany,
}

/// What an engine reports: answers to applications, and what watchers want to see.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The loop came round, and no node on the way has refused; or it was sent to a group, and this node has reserved.
    /// Whether any node takes part, [`Event::Reached`] tells.
    Established {
        /// For whom.
        application: Application,
        /// What was granted.
        rates: Rates,
        /// Seconds between refreshes, as the nodes on the way want it.
        interval: u8,
        /// Whether anybody has answered; false for groups.
        confirmed: bool,
    },
    /// The nodes that take part have counted themselves. Told where [`Request::count_nodes`] asks for it, after
    /// [`Event::Established`] and [`Event::Changed`].
    Reached {
        /// For whom.
        application: Application,
        /// How far the reservation reaches.
        reach: Box<Outcome>,
    },
    /// The loop came round, and something was refused. What this application had before, it still has.
    Refused {
        /// For whom.
        application: Application,
        /// What could be had: by what all nodes say, zero where nobody says.
        offer: Rates,
        /// What is done about it.
        reaction: OnRefusal,
    },
    /// What is granted has changed without being asked for: a node has taken more of the wishes away, or given more.
    Changed {
        /// For whom.
        application: Application,
        /// What is granted.
        rates: Rates,
    },
    /// The answer to [`Command::Query`]; the application has no session any more.
    Offered {
        /// For whom.
        application: Application,
        /// What could be had.
        offer: Rates,
        /// How far the path was asked, where [`Request::count_nodes`] asks for it.
        #[serde(default)]
        reach: Box<Outcome>,
    },
    /// Nothing has come back for as long as reservations live. It is tried on.
    Lost {
        /// For whom.
        application: Application,
    },
    /// The end of [`Command::Release`], or of what [`OnRefusal`] has released.
    Released {
        /// For whom.
        application: Application,
    },
    /// A command was wrong, or came at the wrong time.
    Rejected {
        /// Whose.
        application: Application,
        /// Why.
        reason: Rejection,
    },
    /// A reservation on a link of this node.
    Reservation {
        /// What happened.
        change: Change,
        /// The session.
        selector: Selector,
        /// Which half of it.
        direction: Direction,
        /// On which link.
        interface: InterfaceId,
        /// What it has, or had.
        rate: Rate,
    },
    /// Plain refreshes of this session need not come here from now on; in the place of what was said of it before. Only
    /// with [`crate::Config::offload`].
    Offload(Offloaded),
    /// So many set-ups of half sessions others may treat for an initiating node before they come here again, in the place
    /// of what was said of it before, if they fit what they are lent of the link: sessions that name all five keys, and
    /// whose refreshes would be plain. Each is to be told by [`Command::Settled`]. Only with [`crate::Config::offload`].
    Allowance {
        /// Whose.
        initiator: IpAddr,
        /// How many.
        changes: u32,
    },
    /// All messages of this session have to come here (again), and none may be treated as a set-up.
    Withhold {
        /// Which session.
        selector: Selector,
    },
    /// This session is no more, and a set-up may be treated again.
    Recall {
        /// Which session.
        selector: Selector,
    },
    /// A session ends in a second, unless [`Command::Seen`] says that it was refreshed.
    Expiring {
        /// Which session.
        selector: Selector,
    },
    /// A message was thrown away.
    Dropped {
        /// Why.
        reason: DropReason,
        /// Where it came in.
        interface: InterfaceId,
        /// From whom.
        source: IpAddr,
    },
}
