//! Commands to Ping NSLP, and its events.

use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::Rate;
use earmark_wire::ping_nslp::Version;
use serde::{Deserialize, Serialize};

use crate::nslp::{Attributes, SendFailure};

pub use earmark_core::ApplicationId as Application;

/// Commands of applications.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Finds the signalling nodes on the path to a destination.
    Ping {
        /// The application, without a request so far.
        application: Application,
        /// The request.
        request: Request,
    },
    /// Ends a request early.
    Release {
        /// The application.
        application: Application,
    },
}

/// A request of an initiator.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// Destination of the path.
    pub destination: IpAddr,
    /// Version of the messages.
    pub version: Version,
    /// Transport of the messages.
    pub attributes: Attributes,
    /// Whether nodes also report their reservable bandwidth.
    pub bandwidth: bool,
    /// Number of messages; `None` for no limit.
    pub count: Option<u32>,
    /// Interval between messages; at least [`Config::shortest_interval`](super::Config::shortest_interval).
    pub interval: Duration,
    /// Timeout of an answer; `None` for the setting.
    pub timeout: Option<Duration>,
}

impl Request {
    /// Creates a request for one message of version 2, in datagrams, for addresses and times.
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

/// Events of Ping NSLP.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A message has returned.
    Pong {
        /// The application.
        application: Application,
        /// Number of the message, from 1.
        sequence: u32,
        /// Time from the initiator to the last node and back.
        round_trip: Duration,
        /// Number of signalling nodes on the path, including the initiator. Visits may be fewer, if the message was
        /// full.
        nodes: u16,
        /// Records of the nodes, the initiator first.
        visits: Vec<Visit>,
    },
    /// A message has not returned.
    Lost {
        /// The application.
        application: Application,
        /// Number of the message.
        sequence: u32,
        /// Why it could not be sent, if known.
        failure: Option<SendFailure>,
    },
    /// The request is complete.
    Finished {
        /// The application.
        application: Application,
    },
    /// A command was rejected.
    Rejected {
        /// The application.
        application: Application,
        /// Reason.
        reason: Rejection,
    },
}

/// A node on the path of a message, with its record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Visit {
    /// Address of the node, towards the initiator.
    pub address: IpAddr,
    /// Time from the initiator to the node and back, by the clocks of both; `None` if the times of the node are missing
    /// or inconsistent.
    pub round_trip: Option<Duration>,
    /// Reservable rate in the direction of the flow, if requested and reported.
    pub forward: Option<Rate>,
    /// Reservable rate in the opposite direction, if requested and reported.
    pub reverse: Option<Rate>,
}

/// Why a command was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Rejection {
    /// The application has a request already.
    #[error("a request is in progress")]
    Open,
    /// The application has no request.
    #[error("no request is in progress")]
    NotOpen,
    /// There is no route to the destination, or no address to send from.
    #[error("no route to the destination")]
    NoRoute,
    /// The destination is this node, or not a unicast address.
    #[error("the destination is not another host")]
    Destination,
    /// The messages are too many, or their interval is too short.
    #[error("the interval is too short")]
    Interval,
    /// The limit of requests is reached.
    #[error("a limit of this node is reached")]
    TooMany,
}
