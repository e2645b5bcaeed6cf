//! The protocols that can be measured: the kinds of messages that each has, and what was set as its goal.

use serde::{Deserialize, Serialize};

use super::{Arrival, Router, boomerang, nsis, rsvp, yessir};

/// A protocol that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Protocol {
    /// RFC 2205.
    Rsvp,
    /// One loop of one message, both directions at once.
    Boomerang,
    /// In RTCP sender reports.
    Yessir,
    /// RFC 5971 and 5974, in datagrams.
    Nsis,
}

/// What a message does to its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sets it up, or its part of it.
    SetUp,
    /// Says what is known.
    Refresh,
    /// Gives it back.
    Release,
}

/// A kind of message.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Its name, for people.
    pub name: &'static str,
    /// What it does.
    pub step: Step,
    /// How many instructions it shall take at most, where a goal was set.
    pub goal: Option<u32>,
    /// The message of a session, of so many in a row.
    pub(super) write: fn(router: &Router, session: u32, round: u32) -> Arrival,
}

impl Message {
    /// The message of session `session`; in every `round` it says what a sender would say by then. New sessions of one round
    /// are not those of another.
    pub fn of(&self, router: &Router, session: u32, round: u32) -> Arrival {
        (self.write)(router, session, round)
    }
}

/// What a session shall take at most, octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryGoal {
    /// So much.
    pub octets: u32,
    /// Whether what the ledger keeps for its claims is in it.
    pub with_claims: bool,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Protocol; 4] =
        [Protocol::Rsvp, Protocol::Boomerang, Protocol::Yessir, Protocol::Nsis];

    /// Its name, for people.
    pub fn name(self) -> &'static str {
        match self {
            Protocol::Rsvp => "RSVP",
            Protocol::Boomerang => "Boomerang",
            Protocol::Yessir => "YESSIR",
            Protocol::Nsis => "NSIS",
        }
    }

    /// Its kinds of messages: those that set a session up, in their order; those that refresh it; those that release it.
    pub fn messages(self) -> &'static [Message] {
        match self {
            Protocol::Rsvp => &rsvp::MESSAGES,
            Protocol::Boomerang => &boomerang::MESSAGES,
            Protocol::Yessir => &yessir::MESSAGES,
            Protocol::Nsis => &nsis::MESSAGES,
        }
    }

    /// Likewise, and where receivers and senders can each release their part, both do so, the receiver first.
    pub fn messages_of_both_ends(self) -> Vec<Message> {
        let mut messages = self.messages().to_vec();
        if self == Protocol::Rsvp {
            let release = messages.iter().position(|message| message.step == Step::Release);
            messages.insert(release.unwrap_or(messages.len()), rsvp::RESV_TEAR);
        }
        messages
    }

    /// Those that do this, in runs. Messages of one run can be written before any of them is delivered; those of the next
    /// repeat what the router has sent about the one before ([`Router::deliver_all`]).
    pub fn runs(self, step: Step) -> impl Iterator<Item = &'static [Message]> {
        let of_one_run =
            move |one: &Message, next: &Message| one.step == next.step && !self.converses();
        self.messages().chunk_by(of_one_run).filter(move |run| run[0].step == step)
    }

    /// Whether messages repeat what the router has sent before.
    pub(super) fn converses(self) -> bool {
        self == Protocol::Nsis
    }

    /// What a session shall take at most.
    pub fn memory_goal(self) -> MemoryGoal {
        match self {
            Protocol::Rsvp => MemoryGoal { octets: 600, with_claims: true },
            Protocol::Boomerang => MemoryGoal { octets: 160, with_claims: false },
            Protocol::Yessir => MemoryGoal { octets: 256, with_claims: true },
            Protocol::Nsis => MemoryGoal { octets: 1_000, with_claims: true },
        }
    }
}
