//! The outcome of a request for a reservation: how far it stands, by whose word, and what a node knows of the rest.
//!
//! Every protocol comes to the same kinds, so that a user reads one set of words and a program one object. An outcome
//! never claims more than its protocol can know: [`Kind::Unverified`] is a reservation of which one node has told, but
//! not how far it reaches.

use alloc::string::String;
use core::fmt;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Rate;

/// How a request for a reservation, or for an offer, stands. All members are always written, as `null` where nothing is
/// known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// Which kind.
    pub kind: Kind,
    /// Whether only an offer was asked for, and nothing is reserved.
    pub offer: bool,
    /// Who says so, and by which message.
    pub by: Option<Word>,
    /// The node where the reserved part begins, in the direction of the data.
    pub from: Option<IpAddr>,
    /// The last node known to take part, in the direction of the data.
    pub to: Option<IpAddr>,
    /// How many hops are known to take no part; `None` where their number is unknown.
    pub hops_without: Option<u16>,
    /// How many nodes take part beside the one that tells; `None` where they are not counted.
    pub nodes: Option<u16>,
    /// Of a part: a node that takes part and has refused.
    pub refused_by: Option<IpAddr>,
    /// The rate that is available where it was refused, bits per second.
    pub available_bps: Option<Rate>,
    /// Address translation that a node has seen on the path.
    pub translation: Option<Translation>,
}

/// How far a reservation stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The request was made, and nothing is known yet.
    Pending,
    /// On every hop of the path.
    Whole,
    /// On some hops; others take no part.
    Part,
    /// On this node only.
    OnlyHere,
    /// Somewhere beyond this node; the protocol does not tell whether every hop takes part.
    Unverified,
    /// Refused.
    Refused,
    /// Nobody has answered.
    Unanswered,
    /// The reservation stood once, and has ended.
    Ended,
}

impl Kind {
    /// Whether something is reserved.
    pub const fn stands(self) -> bool {
        matches!(self, Kind::Whole | Kind::Part | Kind::OnlyHere | Kind::Unverified)
    }

    /// The name of the kind in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Pending => "pending",
            Kind::Whole => "whole",
            Kind::Part => "part",
            Kind::OnlyHere => "only_here",
            Kind::Unverified => "unverified",
            Kind::Refused => "refused",
            Kind::Unanswered => "unanswered",
            Kind::Ended => "ended",
        }
    }
}

/// Whose word an outcome is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Word {
    /// The node, as far as its message names it.
    pub node: Option<Speaker>,
    /// The message that told.
    pub message: Message,
}

/// A node that has said something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Speaker {
    /// By an address.
    Address(IpAddr),
    /// By a name.
    Name(String),
}

impl fmt::Display for Speaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Speaker::Address(address) => address.fmt(f),
            Speaker::Name(name) => name.fmt(f),
        }
    }
}

/// The messages that tell of an outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// RSVP: a reservation has come up the path.
    Resv,
    /// RSVP: a reservation is confirmed.
    ResvConf,
    /// RSVP: a reservation is refused.
    ResvErr,
    /// RSVP: the path is refused.
    PathErr,
    /// RSVP: every node of the path was asked (RFC 2745).
    Trace,
    /// Boomerang: the loop is back, with the counts of the nodes that it has passed.
    EchoReply,
    /// YESSIR: the report of a receiver.
    ReceiverReport,
    /// YESSIR: the report of a sender, with the notes of the nodes on its way.
    SenderReport,
    /// NSIS: the last node of the path has answered.
    Response,
    /// NSIS: a node on the path tells of a change.
    Notify,
    /// NSIS: a reservation has come to the end of its path.
    Reserve,
    /// None: what this node itself knows of its routes, links and ledger.
    ThisNode,
}

impl Message {
    /// The name of the protocol, as its standard writes it.
    pub const fn name(self) -> &'static str {
        match self {
            Message::Resv => "Resv",
            Message::ResvConf => "ResvConf",
            Message::ResvErr => "ResvErr",
            Message::PathErr => "PathErr",
            Message::Trace => "a trace",
            Message::EchoReply => "echo reply",
            Message::ReceiverReport => "receiver report",
            Message::SenderReport => "sender report",
            Message::Response => "RESPONSE",
            Message::Notify => "NOTIFY",
            Message::Reserve => "RESERVE",
            Message::ThisNode => "this node",
        }
    }
}

impl fmt::Display for Word {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.node, self.message) {
            (_, Message::ThisNode) => f.write_str("this node"),
            (Some(node), message) => write!(f, "{node} ({})", message.name()),
            (None, message) => f.write_str(message.name()),
        }
    }
}

/// An address that a message names, and the one that it came from instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Translation {
    /// The address that the message names.
    pub named: IpAddr,
    /// The source of the IP packet; `None` where another node has seen it and does not say.
    pub seen: Option<IpAddr>,
}

impl fmt::Display for Translation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "address translation on the way: {} arrives as ", self.named)?;
        match self.seen {
            Some(seen) => seen.fmt(f),
            None => f.write_str("another address"),
        }
    }
}

impl Default for Outcome {
    fn default() -> Outcome {
        Outcome::of(Kind::Pending)
    }
}

impl Outcome {
    /// An outcome of a kind, of which nothing more is known.
    pub const fn of(kind: Kind) -> Outcome {
        Outcome {
            kind,
            offer: false,
            by: None,
            from: None,
            to: None,
            hops_without: None,
            nodes: None,
            refused_by: None,
            available_bps: None,
            translation: None,
        }
    }

    /// The outcome of a kind, as a node tells by a message.
    pub fn said(kind: Kind, node: Option<IpAddr>, message: Message) -> Outcome {
        let by = Some(Word { node: node.map(Speaker::Address), message });
        Outcome { by, ..Outcome::of(kind) }
    }

    /// The outcome of a kind, as this node knows by itself.
    pub fn known_here(kind: Kind) -> Outcome {
        Outcome::said(kind, None, Message::ThisNode)
    }

    /// What stands on the whole path where no hop takes no part, and on a part of it otherwise.
    pub fn reaching(self, is_whole: bool) -> Outcome {
        Outcome { kind: if is_whole { Kind::Whole } else { Kind::Part }, ..self }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.offer { "offered" } else { "reserved" };
        match self.kind {
            Kind::Pending => f.write_str("nothing is known yet")?,
            Kind::Whole => {
                write!(f, "{what} on the whole path")?;
                self.write_nodes(f)?;
            }
            Kind::Part => {
                write!(f, "{what} on part of the path")?;
                self.write_ends(f)?;
                self.write_nodes(f)?;
                match self.hops_without {
                    None => f.write_str("; some hops take no part")?,
                    Some(0) => {}
                    Some(1) => f.write_str("; 1 hop takes no part")?,
                    Some(hops) => write!(f, "; {hops} hops take no part")?,
                }
                if let Some(node) = self.refused_by {
                    write!(f, "; {node} has refused")?;
                }
            }
            Kind::OnlyHere => {
                write!(f, "{what} on this node only; no router further on takes part")?;
            }
            Kind::Unverified => {
                write!(f, "{what}; not known whether every hop takes part")?;
            }
            Kind::Refused => f.write_str("refused")?,
            Kind::Unanswered => f.write_str("nobody has answered")?,
            Kind::Ended => f.write_str("ended")?,
        }
        if let Some(by) = self.by.as_ref().filter(|by| by.message != Message::ThisNode) {
            write!(f, ", says {by}")?;
        } else if self.kind == Kind::Refused && self.by.is_some() {
            f.write_str(" by this node")?;
        }
        if let Some(available) = self.available_bps {
            write!(f, "; {available} is available")?;
        }
        match &self.translation {
            Some(translation) => write!(f, "; {translation}"),
            None => Ok(()),
        }
    }
}

impl Outcome {
    fn write_nodes(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.nodes {
            None | Some(0) => Ok(()),
            Some(1) => f.write_str(", with 1 other node"),
            Some(nodes) => write!(f, ", with {nodes} other nodes"),
        }
    }

    fn write_ends(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(from) = self.from {
            write!(f, " from {from}")?;
        }
        self.to.map_or(Ok(()), |to| write!(f, " to {to}"))
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;
    use core::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 1, 1));
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 2, 2));

    #[test]
    fn every_kind_has_words_of_its_own() {
        let part = Outcome {
            from: Some(HERE),
            to: Some(THERE),
            hops_without: Some(2),
            nodes: Some(1),
            ..Outcome::said(Kind::Part, Some(THERE), Message::Response)
        };
        let refused = Outcome {
            available_bps: Some(Rate::from_mbps(2)),
            ..Outcome::said(Kind::Refused, Some(THERE), Message::ResvErr)
        };
        let translation = Some(Translation { named: HERE, seen: Some(THERE) });
        let translated = Outcome { translation, ..Outcome::of(Kind::Unanswered) };
        for (outcome, expected) in [
            (Outcome::of(Kind::Pending), "nothing is known yet"),
            (
                Outcome::said(Kind::Whole, Some(THERE), Message::ResvConf),
                "reserved on the whole path, says 10.0.2.2 (ResvConf)",
            ),
            (
                part,
                "reserved on part of the path from 10.0.1.1 to 10.0.2.2, with 1 other node; 2 hops take no part, says \
                 10.0.2.2 (RESPONSE)",
            ),
            (
                Outcome::known_here(Kind::OnlyHere),
                "reserved on this node only; no router further on takes part",
            ),
            (
                Outcome::said(Kind::Unverified, Some(HERE), Message::Resv),
                "reserved; not known whether every hop takes part, says 10.0.1.1 (Resv)",
            ),
            (refused, "refused, says 10.0.2.2 (ResvErr); 2 Mbit/s is available"),
            (Outcome::known_here(Kind::Refused), "refused by this node"),
            (
                translated,
                "nobody has answered; address translation on the way: 10.0.1.1 arrives as 10.0.2.2",
            ),
            (Outcome::of(Kind::Ended), "ended"),
            (
                Outcome { offer: true, ..Outcome::said(Kind::Whole, None, Message::Response) },
                "offered on the whole path, says RESPONSE",
            ),
        ] {
            assert_eq!(outcome.to_string(), expected);
        }
    }

    /// A program relies on the members and on the names of kinds and messages.
    #[test]
    fn json_has_all_members_whatever_is_known() {
        let outcome = Outcome {
            to: Some(THERE),
            available_bps: Some(Rate::from_bps(7)),
            ..Outcome::said(Kind::OnlyHere, Some(HERE), Message::EchoReply)
        };
        let text = serde_json::to_string(&outcome).unwrap();
        assert_eq!(
            text,
            "{\"kind\":\"only_here\",\"offer\":false,\"by\":{\"node\":\"10.0.1.1\",\"message\":\"echo_reply\"},\
             \"from\":null,\"to\":\"10.0.2.2\",\"hops_without\":null,\"nodes\":null,\"refused_by\":null,\"available_bps\":7,\
             \"translation\":null}"
        );
        assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome);
        for kind in [Kind::Pending, Kind::Unverified, Kind::Unanswered, Kind::OnlyHere] {
            let text = serde_json::to_string(&kind).unwrap();
            assert_eq!(text.trim_matches('"'), kind.name());
        }
    }
}
