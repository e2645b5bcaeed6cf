//! What a user of this node can ask of Ping NSLP, and what it tells.

use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::Rate;
use earmark_wire::ping_nslp::Version;
use serde::{Deserialize, Serialize};

use crate::nslp::{Attributes, SendFailure};

/// Names an application on this host, for as long as it lives; chosen by the driver, never reused while it is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Application(pub u64);

/// What an application asks for.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Finds out who takes part in signalling on the way to a destination.
    Ping {
        /// Who; it has no request yet.
        application: Application,
        /// What.
        request: Request,
    },
    /// Ends a request before its time.
    Release {
        /// Whose.
        application: Application,
    },
}

/// What an initiator is to find out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Where the path ends.
    pub destination: IpAddr,
    /// The form of the messages.
    pub version: Version,
    /// How they travel.
    pub attributes: Attributes,
    /// Whether nodes are also asked what they could still reserve.
    pub bandwidth: bool,
    /// How many messages are sent, `None` for no end.
    pub count: Option<u32>,
    /// Between one message and the next; not less than [`Config::shortest_interval`](super::Config::shortest_interval).
    pub interval: Duration,
    /// How long an answer may take; `None` for the setting.
    pub timeout: Option<Duration>,
}

impl Request {
    /// One message in version 2, in datagrams, that asks for addresses and times.
    pub const fn new(destination: IpAddr) -> Request {
        Request {
            destination,
            version: Version::V2,
            attributes: Attributes { reliable: false, secure: false },
            bandwidth: false,
            count: Some(1),
            interval: Duration::from_secs(1),
            timeout: None,
        }
    }
}

/// What Ping NSLP tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A message has come back.
    Pong {
        /// For whom.
        application: Application,
        /// Which message; they are numbered from 1.
        sequence: u32,
        /// From the initiator to the last node and back.
        round_trip: Duration,
        /// Nodes on the path that take part, the initiator included; of some of them there may be no visit, since the
        /// message had no room any more.
        nodes: u16,
        /// What they said, the initiator first.
        visits: Vec<Visit>,
    },
    /// A message has not come back.
    Lost {
        /// For whom.
        application: Application,
        /// Which.
        sequence: u32,
        /// Why it could not be sent, where that is known.
        failure: Option<SendFailure>,
    },
    /// There is nothing more to come.
    Finished {
        /// For whom.
        application: Application,
    },
    /// A command was not carried out.
    Rejected {
        /// Whose.
        application: Application,
        /// Why.
        reason: Rejection,
    },
}

/// A node that a message has visited, and what it said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visit {
    /// Its address, of the side that faces the initiator.
    pub address: IpAddr,
    /// From the initiator to the node and back, by the clocks of both; `None` where the node's times do not tell.
    pub round_trip: Option<Duration>,
    /// What it could still reserve for packets that follow the flow, where that was asked for and is told.
    pub forward: Option<Rate>,
    /// Likewise for packets that go the other way.
    pub reverse: Option<Rate>,
}

/// Why a command was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Rejection {
    /// The application has a request already.
    #[error("there is a request already")]
    Open,
    /// The application has none.
    #[error("there is no request")]
    NotOpen,
    /// There is no route to the destination, or no address to send from.
    #[error("no route to the destination")]
    NoRoute,
    /// The destination is this node, or is nobody in particular.
    #[error("the destination is not another host")]
    Destination,
    /// The messages are too many, or too close to one another.
    #[error("the interval is too short")]
    Interval,
    /// No more requests are taken.
    #[error("a limit of this node is reached")]
    TooMany,
}
