//! Outcome of a request for a reservation: its extent along the path, the node and message that reported it, and what
//! is unknown.
//!
//! Every protocol reports the same kinds, so that users and programs need only one form. An outcome never claims more
//! than its protocol can know: [`Kind::Unverified`] is a reservation that one node has reported, of unknown extent.

use alloc::borrow::Cow;
use alloc::string::String;
use core::fmt;
use core::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::Rate;

/// Outcome of a request for a reservation, or for an offer. All members are always written, as `null` if unknown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Outcome {
    /// The kind.
    pub kind: Kind,
    /// Whether this is an offer only, with nothing reserved.
    pub offer: bool,
    /// Node and message that reported it.
    pub by: Option<OutcomeSource>,
    /// First node of the reserved part, in the direction of the data.
    pub from: Option<IpAddr>,
    /// Last node known to take part, in the direction of the data.
    pub to: Option<IpAddr>,
    /// Number of hops that take no part; `None` if unknown.
    pub hops_without: Option<u16>,
    /// Number of nodes that take part besides the reporting one; `None` if not counted.
    pub nodes: Option<u16>,
    /// Node that takes part and has refused, if only a part is reserved, or if a change or a further message was refused.
    pub refused_by: Option<IpAddr>,
    /// Rate available where the request was refused, bits per second.
    pub available_bps: Option<Rate>,
    /// Address translation detected on the path.
    pub translation: Option<Translation>,
}

crate::named_enum! {
    /// Extent of a reservation.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
    #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
    #[serde(rename_all = "snake_case")]
    pub enum Kind {
        /// The request was sent; no result is known.
        Pending = "pending",
        /// Reserved on every hop of the path.
        Whole = "whole",
        /// Reserved on some hops; others take no part.
        Part = "part",
        /// Reserved on this node only.
        OnlyHere = "only_here",
        /// Reserved beyond this node; the protocol does not tell whether every hop takes part.
        Unverified = "unverified",
        /// The request was refused.
        Refused = "refused",
        /// No answer has arrived.
        Unanswered = "unanswered",
        /// The reservation has ended.
        Ended = "ended",
    }
}

impl Outcome {
    /// Returns the outcome of a refused change, which leaves what was reserved before: the outcome before the change, with
    /// the node and the available rate of the refusal. `None` if this is no refusal of a change, or nothing was reserved.
    pub fn after_refused_change(&self, before: &Outcome) -> Option<Outcome> {
        let is_refusal = match self.kind {
            Kind::Refused => true,
            _ => self.refused_by.is_some() && before.refused_by.is_none(),
        };
        let node = self.by.as_ref().and_then(|by| match by.node {
            Some(NodeName::Address(address)) => Some(address),
            _ => None,
        });
        (is_refusal && before.kind.is_reserved()).then(|| Outcome {
            refused_by: self.refused_by.or(node),
            available_bps: self.available_bps,
            translation: self.translation.or(before.translation),
            ..before.clone()
        })
    }
}

impl Kind {
    /// Returns whether something is reserved.
    pub const fn is_reserved(self) -> bool {
        matches!(self, Kind::Whole | Kind::Part | Kind::OnlyHere | Kind::Unverified)
    }
}

/// Origin of an outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct OutcomeSource {
    /// The reporting node, as named in its message.
    pub node: Option<NodeName>,
    /// The message.
    pub message: Message,
}

/// Name of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum NodeName {
    /// An address.
    Address(IpAddr),
    /// A host name.
    Name(String),
}

impl fmt::Display for NodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            NodeName::Address(address) => address.fmt(f),
            NodeName::Name(name) => name.fmt(f),
        }
    }
}

/// Message that reports an outcome, by its name in the standard: `ResvConf`, `echo reply`, `RESPONSE`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Message(Cow<'static, str>);

impl Message {
    /// No message: known from this node's own routes, links and ledger.
    pub const THIS_NODE: Message = Message::new("this node");

    /// Creates the message of a name.
    pub const fn new(name: &'static str) -> Message {
        Message(Cow::Borrowed(name))
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for OutcomeSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) if self.message != Message::THIS_NODE => {
                write!(f, "{node} ({})", self.message.name())
            }
            _ => f.write_str(self.message.name()),
        }
    }
}

/// A translated address: the one in a message and the one in the IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Translation {
    /// Address in the message.
    pub named: IpAddr,
    /// Source of the IP packet; `None` if another node has detected it and does not report it.
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
    /// Creates an outcome of a kind without further information.
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

    /// Creates an outcome of a kind as a node has reported it by a message.
    pub fn reported(kind: Kind, node: Option<IpAddr>, message: Message) -> Outcome {
        let by = Some(OutcomeSource { node: node.map(NodeName::Address), message });
        Outcome { by, ..Outcome::of(kind) }
    }

    /// Creates an outcome of a kind that this node knows by itself.
    pub fn known_locally(kind: Kind) -> Outcome {
        Outcome::reported(kind, None, Message::THIS_NODE)
    }

    /// Sets the kind to whole path or part of it.
    pub fn with_extent(self, is_whole: bool) -> Outcome {
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
            }
            Kind::OnlyHere => {
                write!(f, "{what} on this node only; no router further on takes part")?;
            }
            Kind::Unverified => {
                write!(f, "{what}; not known whether every hop takes part")?;
            }
            Kind::Refused => f.write_str("refused")?,
            Kind::Unanswered => f.write_str("no answer")?,
            Kind::Ended => f.write_str("ended")?,
        }
        if let Some(node) = self.refused_by {
            write!(f, "; {node} has refused")?;
        }
        if let Some(by) = self.by.as_ref().filter(|by| by.message != Message::THIS_NODE) {
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
    fn every_kind_has_its_own_text() {
        let part = Outcome {
            from: Some(HERE),
            to: Some(THERE),
            hops_without: Some(2),
            nodes: Some(1),
            ..Outcome::reported(Kind::Part, Some(THERE), Message::new("RESPONSE"))
        };
        let refused = Outcome {
            available_bps: Some(Rate::from_mbps(2)),
            ..Outcome::reported(Kind::Refused, Some(THERE), Message::new("ResvErr"))
        };
        let translation = Some(Translation { named: HERE, seen: Some(THERE) });
        let translated = Outcome { translation, ..Outcome::of(Kind::Unanswered) };
        for (outcome, expected) in [
            (Outcome::of(Kind::Pending), "nothing is known yet"),
            (
                Outcome::reported(Kind::Whole, Some(THERE), Message::new("ResvConf")),
                "reserved on the whole path, says 10.0.2.2 (ResvConf)",
            ),
            (
                part,
                "reserved on part of the path from 10.0.1.1 to 10.0.2.2, with 1 other node; 2 \
                 hops take no part, says \
                 10.0.2.2 (RESPONSE)",
            ),
            (
                Outcome::known_locally(Kind::OnlyHere),
                "reserved on this node only; no router further on takes part",
            ),
            (
                Outcome::reported(Kind::Unverified, Some(HERE), Message::new("Resv")),
                "reserved; not known whether every hop takes part, says 10.0.1.1 (Resv)",
            ),
            (refused, "refused, says 10.0.2.2 (ResvErr); 2 Mbit/s is available"),
            (Outcome::known_locally(Kind::Refused), "refused by this node"),
            (translated, "no answer; address translation on the way: 10.0.1.1 arrives as 10.0.2.2"),
            (Outcome::of(Kind::Ended), "ended"),
            (
                Outcome {
                    offer: true,
                    ..Outcome::reported(Kind::Whole, None, Message::new("RESPONSE"))
                },
                "offered on the whole path, says RESPONSE",
            ),
        ] {
            assert_eq!(outcome.to_string(), expected);
        }
    }

    /// Programs rely on the members and on the names of kinds.
    #[test]
    fn json_always_has_all_members() {
        let outcome = Outcome {
            to: Some(THERE),
            available_bps: Some(Rate::from_bps(7)),
            ..Outcome::reported(Kind::OnlyHere, Some(HERE), Message::new("echo reply"))
        };
        let text = serde_json::to_string(&outcome).unwrap();
        assert_eq!(
            text,
            "{\"kind\":\"only_here\",\"offer\":false,\"by\":{\"node\":\"10.0.1.1\",\"message\":\"echo reply\"},\
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
