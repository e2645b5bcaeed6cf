//! Conformance cases: each folder of `conformance/<protocol>/` is a story that is played against one node in virtual
//! time.
//!
//! A case is a `README.md` (the rule, its source and a drawing), a `topology.toml` (the node under test) and a
//! `story.txt` (inputs and effects). `conformance/README.md` has what all stories share; the trait [`Protocol`] supplies
//! the rest: how the node is made, what a line of input means, and how an effect is written.

pub mod datagrams;
pub mod lists;
pub mod tables;
pub mod topology;
pub mod words;

mod cases;
mod story;

pub use cases::{CheckAll, run, run_listed};
pub use story::play;

use std::net::IpAddr;

use earmark_core::Time;
use serde::de::DeserializeOwned;

use topology::Topology;
use words::{Fault, Words};

/// Effects of a step, one text each, whose further lines are indented by five blanks; or what is wrong in its line.
pub type Lines = Result<Vec<String>, Fault>;

/// A protocol with conformance cases, and a node that runs it in a story.
pub trait Protocol: Sized {
    /// Folder of the cases, below `conformance/`.
    const FOLDER: &'static str;
    /// Text that the `README.md` of every case must have: how it cites the document that its rule is from.
    const CITATION: &'static str = "RFC ";
    /// Contents of `topology.toml` besides what every protocol has.
    type Settings: DeserializeOwned;

    /// Creates the node under test.
    ///
    /// # Errors
    /// What is wrong in the topology.
    fn new(topology: Topology<Self::Settings>) -> Result<Self, Fault>;

    /// Performs a step.
    ///
    /// # Errors
    /// What is wrong in the line.
    fn step(&mut self, now: Time, words: Words<'_>, body: &[&str]) -> Lines;

    /// Returns when the node's next timer is due.
    fn next_deadline(&self) -> Option<Time>;

    /// Fires the timers that are due; returns the effects.
    fn expire(&mut self, now: Time) -> Vec<String>;

    /// Returns the words in front of an effect that a timer has at this time.
    fn when(at: Time) -> String {
        format!("at {}s ", (at.as_secs_f64() * 1_000.0).round() / 1_000.0)
    }
}

/// IP header of a message that arrives, as a line of a story has it: `from A to B ttl=63 alert`.
#[derive(Clone, Copy, Debug)]
pub struct IpHeader {
    /// Source address.
    pub source: IpAddr,
    /// Destination address.
    pub destination: IpAddr,
    /// TTL on arrival.
    pub ttl: u8,
    /// Whether the router alert option is set.
    pub router_alert: bool,
}

impl IpHeader {
    /// Takes the words of a header. The TTL is 63 if the line has none.
    ///
    /// # Errors
    /// An address is missing, or a value is none.
    pub fn read(words: &mut Words<'_>) -> Result<IpHeader, Fault> {
        Ok(IpHeader {
            source: words.after("from")?.ok_or("`from` is missing")?,
            destination: words.after("to")?.ok_or("`to` is missing")?,
            ttl: words.maybe("ttl")?.unwrap_or(63),
            router_alert: words.flag("alert"),
        })
    }
}
