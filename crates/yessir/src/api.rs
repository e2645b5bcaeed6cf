//! What users of the engine can ask for, and what it tells them.

use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::admission::Demand;
use earmark_core::outcome::{self, Kind, Outcome};
use earmark_core::{Flow, InterfaceId, Rate};
use earmark_wire::udp;
use earmark_wire::yessir::{FailureNote, FailureReason, Flowspec, LinkInfo, Style};
use serde::{Deserialize, Serialize};

use crate::counters::DropReason;

/// An application of this host, by a number of the driver's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Application(pub u64);

/// The data packets of one RTP sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stream {
    /// Where they come from.
    pub source: IpAddr,
    /// Where they go.
    pub destination: IpAddr,
    /// Their source port; 0 where it is not known, and then not looked at.
    pub source_port: u16,
    /// Destination port of the packets.
    pub destination_port: u16,
}

impl Stream {
    /// As a classifier has it.
    pub fn flow(&self) -> Flow {
        Flow {
            destination: self.destination,
            source: Some(self.source),
            protocol: udp::PROTOCOL,
            destination_port: self.destination_port,
            source_port: self.source_port,
            flow_label: 0,
            destination_open: 0,
            source_open: 0,
        }
    }
}

/// How a stream of this host is to be announced.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attachment {
    /// Which. An unspecified source address picks the host's own for the way to the destination.
    pub stream: Stream,
    /// SSRC of the stream; drawn at random where the application does not tell.
    #[serde(default)]
    pub ssrc: Option<u32>,
    /// Canonical name of the source, `user@host`; at most 255 octets.
    pub cname: String,
    /// Reports use the ports of the data (rtcp-mux, RFC 5761).
    #[serde(default)]
    pub multiplexed: bool,
    /// How much; [`Flowspec::Measured`] needs [`Command::Statistics`].
    pub flowspec: Flowspec,
    /// With whom bandwidth is shared.
    pub style: Style,
    /// Only ask what the way offers, and reserve nothing.
    #[serde(default)]
    pub passive: bool,
    /// Time between two reports, seconds; 0 is the setting of the node.
    #[serde(default)]
    pub interval: u16,
    /// TTL of the data, and so the reach of the reports.
    #[serde(default = "usual_ttl")]
    pub ttl: u8,
    /// The key to sign with; see [`crate::auth`].
    #[serde(default)]
    pub key: Option<u32>,
}

fn usual_ttl() -> u8 {
    64
}

/// What an application wants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case")]
pub enum Command {
    /// Announce an RTP stream of this host, or announce it otherwise than before. Reserves its first link, too.
    Attach {
        /// Who; it has no more than one stream.
        application: Application,
        /// What.
        attachment: Attachment,
    },
    /// How much of its stream an application has sent. Goes out with the next report.
    Statistics {
        /// Who.
        application: Application,
        /// Packets since the beginning.
        packets: u32,
        /// Octets of payload in them.
        octets: u32,
        /// Time now in the units of the media clock.
        rtp_timestamp: u32,
    },
    /// Answer streams that are announced to an address of this host, or to a group.
    Listen {
        /// Who.
        application: Application,
        /// To which address; unspecified is any of this host.
        destination: IpAddr,
        /// To which port their data goes.
        port: u16,
        /// Canonical name of the answers; at most 255 octets.
        cname: String,
    },
    /// End what was attached, or listening.
    Release {
        /// Who.
        application: Application,
    },
}

/// What a receiver answers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// What the way offers.
    pub path: Option<LinkInfo>,
    /// The hops that have not reserved, in the order of the way. None: the stream has what it asked for, all the way.
    pub failures: Vec<FailureNote>,
}

impl Answer {
    /// How far the reservation of a stream reaches, by what a message says that has come from `node`. Routers that speak
    /// no YESSIR are told by the TTL, and where they are nobody counts.
    pub(crate) fn reach(
        &self,
        stream: &Stream,
        node: IpAddr,
        message: outcome::Message,
    ) -> Outcome {
        let said = Outcome {
            from: Some(stream.source),
            ..Outcome::said(Kind::Unverified, Some(node), message)
        };
        let Some(path) = self.path else { return said };
        let others = path.other_hops;
        let counted =
            Outcome { nodes: Some(path.hops.into()), hops_without: (!others).then_some(0), ..said };
        let Some(first) = self.failures.first() else {
            let kind = match (others, path.hops) {
                (false, _) => Kind::Whole,
                (true, 0) => Kind::OnlyHere,
                (true, _) => Kind::Part,
            };
            return Outcome { kind, ..counted };
        };
        // The host of the sender and each router that speaks YESSIR could have reserved.
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

/// What an engine reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// A receiver has answered, otherwise than the last time.
    Answered {
        /// Who is attached.
        application: Application,
        /// Who answers.
        receiver: IpAddr,
        /// What.
        answer: Answer,
        /// How far the reservation reaches, by this.
        #[serde(default)]
        reach: Box<Outcome>,
    },
    /// A stream was announced to somebody who listens, otherwise than the last time.
    Announced {
        /// Who listens.
        application: Application,
        /// Which.
        stream: Stream,
        /// How much it wants.
        flowspec: Option<Flowspec>,
        /// What its way was like.
        answer: Answer,
        /// How far the reservation reaches, by this.
        #[serde(default)]
        reach: Box<Outcome>,
    },
    /// An announced stream has ended.
    AnnouncementGone {
        /// Who listens.
        application: Application,
        /// Which.
        stream: Stream,
    },
    /// A command could not be carried out.
    Rejected {
        /// Whose.
        application: Application,
        /// Why.
        reason: Rejection,
    },
    /// A reservation on a link of this node appeared, changed or went.
    Reservation {
        /// What happened to it.
        change: Change,
        /// Whose; with shared style, the source is unspecified, which means any.
        stream: Stream,
        /// Alone, or together with the other senders of the session.
        style: Style,
        /// On which link.
        interface: InterfaceId,
        /// What it gets.
        demand: Demand,
    },
    /// A reservation was refused here. Told once, until it was granted.
    Refused {
        /// Of which stream.
        stream: Stream,
        /// On which link.
        interface: InterfaceId,
        /// Why.
        reason: FailureReason,
        /// What could have been reserved.
        available: Rate,
        /// Whether it waits for others to give bandwidth back.
        waits: bool,
    },
    /// A message was not acted on.
    Ignored {
        /// Why.
        reason: DropReason,
        /// Where it came in.
        interface: InterfaceId,
        /// Who sent it.
        source: IpAddr,
    },
}

/// What happened to a reservation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// It is new.
    Created,
    /// It is new, because others gave back what it waited for.
    Grabbed,
    /// It gets something else now.
    Changed,
    /// It was given back.
    Released,
    /// It was not refreshed in time.
    Expired,
    /// Its stream takes another way now.
    Moved,
    /// Traffic control, or its link, has failed it.
    Failed,
    /// It gave way to a more important one, in part or in whole.
    Preempted,
}

/// Why a command was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum Rejection {
    /// It is attached or listening already, otherwise than now.
    #[error("this application is a sender or a receiver already, and cannot be the other as well")]
    Busy,
    /// Neither attached nor listening.
    #[error("this application has nothing here")]
    NoApplication,
    /// Neither does the node know the way, nor an address of its own for it.
    #[error("there is no route to the destination")]
    NoRoute,
    /// The source address is none of this host's.
    #[error("the source address is none of this host's")]
    NotOurAddress,
    /// A port is zero, or the data's is odd although reports do not use the same (RFC 3550 section 11).
    #[error("the ports of an RTP stream are not zero, and even unless reports use the same ones")]
    Ports,
    /// A name is longer than 255 octets.
    #[error("a canonical name has 1 to 255 octets")]
    Name,
    /// Nothing can be reserved by this flowspec, or an unknown style was given.
    #[error("the flowspec says nothing that can be reserved")]
    Flowspec,
    /// Another application announces this stream, or listens there.
    #[error("another application of this host has that stream or port already")]
    Taken,
    /// There is no such key.
    #[error("there is no such key")]
    NoKey,
    /// The node is full.
    #[error("a limit on applications is reached")]
    Limit,
}
