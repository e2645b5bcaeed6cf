//! Commands of applications, and events of the engine.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::admission::Demand;
use earmark_core::outcome::{self, Kind, Outcome};
use earmark_core::{Flow, InterfaceId, Rate};
use earmark_token::Token;
use earmark_wire::udp;
use earmark_wire::yessir::{FailureNote, FailureReason, Flowspec, LinkInfo, Style};
use serde::{Deserialize, Serialize};

use crate::auth::Key;
use crate::counters::DropReason;

pub use earmark_core::ApplicationId as Application;

/// The data packets of one RTP sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stream {
    /// Source address.
    pub source: IpAddr,
    /// Destination address, unicast or group.
    pub destination: IpAddr,
    /// Source port; 0 if unknown, in which case any port matches.
    pub source_port: u16,
    /// Destination port of the data.
    pub destination_port: u16,
}

impl Stream {
    /// Returns the flow that a classifier matches.
    pub fn flow(&self) -> Flow {
        Flow {
            destination: self.destination,
            source: Some(self.source),
            protocol: udp::PROTOCOL,
            destination_port: self.destination_port,
            source_port: self.source_port,
            flow_label: 0,
            spi: 0,
            destination_open: 0,
            source_open: 0,
            dscp: 0,
        }
    }
}

/// Announcement of a stream of this host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attachment {
    /// The stream. An unspecified source address stands for the host's own address on the route to the destination.
    pub stream: Stream,
    /// SSRC of the stream; drawn at random if the application gives none.
    #[serde(default)]
    pub ssrc: Option<u32>,
    /// Canonical name of the source, `user@host`; at most 255 octets.
    pub cname: String,
    /// Whether reports use the ports of the data (rtcp-mux, RFC 5761).
    #[serde(default)]
    pub multiplexed: bool,
    /// Requested bandwidth; [`Flowspec::Measured`] needs [`Command::Statistics`].
    pub flowspec: Flowspec,
    /// Reservation style: individual, or shared with the other senders of the session.
    pub style: Style,
    /// Whether to query the path only, without reserving.
    #[serde(default)]
    pub passive: bool,
    /// Time between two reports, seconds; 0 for the node's setting.
    #[serde(default)]
    pub interval: u16,
    /// TTL of the data, which limits the reports as well.
    #[serde(default = "default_ttl")]
    pub ttl: u8,
    /// Token that proves the name of the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<Token>,
}

fn default_ttl() -> u8 {
    64
}

/// A command of an application.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// Announces an RTP stream of this host, or changes its announcement. Reserves its first link, too.
    Attach {
        /// The application; it has at most one stream.
        application: Application,
        /// The announcement.
        attachment: Attachment,
    },
    /// Reports how much of its stream an application has sent. Included in the next report.
    Statistics {
        /// The application.
        application: Application,
        /// Packets since the start.
        packets: u32,
        /// Octets of payload since the start.
        octets: u32,
        /// Current time in units of the media clock.
        rtp_timestamp: u32,
    },
    /// Answers streams that are announced to an address of this host, or to a group.
    Listen {
        /// The application.
        application: Application,
        /// Destination address; unspecified for any address of this host.
        destination: IpAddr,
        /// Destination port of the data.
        port: u16,
        /// Canonical name in the answers; at most 255 octets.
        cname: String,
    },
    /// Ends an announcement, or listening.
    Release {
        /// The application.
        application: Application,
    },
    /// Replaces the settings for tokens, except the wall clock. Reserved streams stay until their tokens end.
    Tokens {
        /// The settings.
        settings: earmark_token::Settings,
    },
    /// Replaces the keys.
    Keys {
        /// All keys; those that are missing are no longer used.
        keys: Vec<Key>,
    },
    /// Sets the wall clock after a jump: only the lifetimes of tokens depend on it.
    WallClock {
        /// Wall-clock time at [`Time::ZERO`](earmark_core::Time::ZERO), nanoseconds since 1970.
        wall_clock: u64,
    },
}

/// Answer of a receiver.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// LINK_INFO collected along the path.
    pub path: Option<LinkInfo>,
    /// Hops that have not reserved, in path order. Empty if the stream is reserved along the whole path.
    pub failures: Vec<FailureNote>,
}

impl Answer {
    /// Returns how far the reservation of a stream reaches, by a message from `node`. Routers without YESSIR are
    /// detected by the TTL; their number is unknown.
    pub(crate) fn reach(
        &self,
        stream: &Stream,
        node: IpAddr,
        message: outcome::Message,
    ) -> Outcome {
        let base = Outcome {
            from: Some(stream.source),
            ..Outcome::reported(Kind::Unverified, Some(node), message)
        };
        let Some(path) = self.path else { return base };
        let others = path.other_hops;
        let counted =
            Outcome { nodes: Some(path.hops.into()), hops_without: (!others).then_some(0), ..base };
        let Some(first) = self.failures.first() else {
            let kind = match (others, path.hops) {
                (false, _) => Kind::Whole,
                (true, 0) => Kind::OnlyHere,
                (true, _) => Kind::Part,
            };
            return Outcome { kind, ..counted };
        };
        // The host of the sender and each router with YESSIR could have reserved.
        let all = self.failures.len() > usize::from(path.hops);
        let available =
            self.failures.iter().map(|note| note.available.0).fold(f32::INFINITY, f32::min);
        Outcome {
            kind: if all { Kind::Refused } else { Kind::Part },
            refused_by: Some(first.node),
            available_bps: Some(Rate::from_octets_per_second(available)),
            ..counted
        }
    }
}

/// An event of the engine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A receiver's answer has changed.
    Answered {
        /// The application that announced the stream.
        application: Application,
        /// The receiver.
        receiver: IpAddr,
        /// The answer.
        answer: Answer,
        /// Extent of the reservation according to the answer.
        #[serde(default)]
        reach: Box<Outcome>,
    },
    /// A stream was announced to a listener, or its announcement changed.
    Announced {
        /// The listening application.
        application: Application,
        /// The stream.
        stream: Stream,
        /// Requested bandwidth.
        flowspec: Option<Flowspec>,
        /// Path information, also sent to the sender as answer.
        answer: Answer,
        /// Extent of the reservation according to the announcement.
        #[serde(default)]
        reach: Box<Outcome>,
    },
    /// An announced stream has ended.
    AnnouncementGone {
        /// The listening application.
        application: Application,
        /// The stream.
        stream: Stream,
    },
    /// A command was rejected.
    Rejected {
        /// The application.
        application: Application,
        /// The reason.
        reason: Rejection,
    },
    /// A reservation on a link of this node was created, changed or removed.
    Reservation {
        /// Cause of the change.
        change: Change,
        /// The stream; with shared style, the source is unspecified, which means any.
        stream: Stream,
        /// Individual, or shared with the other senders of the session.
        style: Style,
        /// The link.
        interface: InterfaceId,
        /// The reserved demand.
        demand: Demand,
    },
    /// A reservation was refused by this node. Reported once, until it is granted.
    Refused {
        /// The stream.
        stream: Stream,
        /// The link.
        interface: InterfaceId,
        /// The reason.
        reason: FailureReason,
        /// Rate that is available.
        available: Rate,
        /// Whether the request waits in the queue for released bandwidth.
        waits: bool,
    },
    /// A key was used after its end because no other one is valid. Reported once.
    LastKeyExpired {
        /// Number of the key.
        key: u64,
    },
    /// A message was ignored.
    Ignored {
        /// The reason.
        reason: DropReason,
        /// Incoming interface.
        interface: InterfaceId,
        /// IP source.
        source: IpAddr,
    },
}

/// Cause of a change of a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The reservation is new.
    Created,
    /// The reservation is new, granted from released bandwidth.
    Grabbed,
    /// The demand changed.
    Changed,
    /// The reservation was released.
    Released,
    /// The reservation was not refreshed in time.
    Expired,
    /// The stream takes another route.
    Moved,
    /// Traffic control, or the link, failed.
    Failed,
    /// A reservation of higher priority preempted it, in part or in whole.
    Preempted,
}

/// Reason why a command was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Rejection {
    /// The application is attached or listening already, with other parameters.
    #[error("this application is a sender or a receiver already, and cannot be the other as well")]
    Busy,
    /// The application is neither attached nor listening.
    #[error("this application has no stream")]
    NoApplication,
    /// No route to the destination, or no own address for it.
    #[error("there is no route to the destination")]
    NoRoute,
    /// The source address is not one of this host.
    #[error("the source address is not an address of this host")]
    NotOurAddress,
    /// A port is zero, or the data port is odd although reports use their own (RFC 3550 section 11).
    #[error("the ports of an RTP stream are not zero, and even unless reports use the same ones")]
    Ports,
    /// A canonical name is empty or longer than 255 octets.
    #[error("a canonical name has 1 to 255 octets")]
    Name,
    /// The flowspec is invalid, or the style is unknown.
    #[error("the flowspec has no rate")]
    Flowspec,
    /// Another application announces this stream, or listens on this port.
    #[error("another application of this host uses that stream or port")]
    Taken,
    /// A limit of the node is reached.
    #[error("a limit on applications is reached")]
    Limit,
}
