//! Protocols that can be measured: their kinds of messages, and the goals for each.

use serde::{Deserialize, Serialize};

use super::message::{Message, Step};
use super::{boomerang, natfw, nsis, rsvp, yessir};

earmark_core::named_enum! {
    /// A protocol that can be measured.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
    #[serde(rename_all = "snake_case")]
    pub enum Protocol {
        /// RFC 2205.
        Rsvp = "RSVP",
        /// One loop of one message, both directions at once.
        Boomerang = "Boomerang",
        /// In RTCP sender reports.
        Yessir = "YESSIR",
        /// RFC 5971 and 5974, in datagrams.
        Nsis = "NSIS",
        /// RFC 5973, in datagrams: pinholes instead of reservations.
        Natfw = "NATFW NSLP",
    }
}

/// Goal for the memory of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct MemoryGoal {
    /// Largest number of octets.
    pub octets: u32,
    /// Whether the ledger's memory for the claims is included.
    pub with_claims: bool,
}

impl Protocol {
    /// The protocols that reserve.
    pub const RESERVING: [Protocol; 4] =
        [Protocol::Rsvp, Protocol::Boomerang, Protocol::Yessir, Protocol::Nsis];

    /// Returns whether a session has claims in the ledger.
    pub fn reserves(self) -> bool {
        self != Protocol::Natfw
    }

    /// Returns the kinds of messages in order: set-up, refresh, release.
    pub fn messages(self) -> &'static [Message] {
        match self {
            Protocol::Rsvp => &rsvp::MESSAGES,
            Protocol::Boomerang => &boomerang::MESSAGES,
            Protocol::Yessir => &yessir::MESSAGES,
            Protocol::Nsis => &nsis::MESSAGES,
            Protocol::Natfw => &natfw::MESSAGES,
        }
    }

    /// Returns the kinds of messages with releases of both ends, the receiver's first, if each end can release its
    /// part.
    pub fn messages_of_both_ends(self) -> Vec<Message> {
        let mut messages = self.messages().to_vec();
        if self == Protocol::Rsvp {
            let release = messages.iter().position(|message| message.step == Step::Release);
            messages.insert(release.unwrap_or(messages.len()), rsvp::RESV_TEAR);
        }
        messages
    }

    /// Returns the messages with this effect, in runs. Messages of one run can be written before any of them is
    /// delivered; those of the next run repeat what the router has sent about the previous run
    /// ([`Router::deliver_all`]).
    pub fn runs(self, step: Step) -> impl Iterator<Item = &'static [Message]> {
        let of_one_run =
            move |one: &Message, next: &Message| one.step == next.step && !self.repeats_answers();
        self.messages().chunk_by(of_one_run).filter(move |run| run[0].step == step)
    }

    /// Returns whether messages repeat fields that the router has sent before.
    pub(super) fn repeats_answers(self) -> bool {
        matches!(self, Protocol::Nsis | Protocol::Natfw)
    }

    /// Returns the goal for the memory of a session.
    pub fn memory_goal(self) -> MemoryGoal {
        match self {
            Protocol::Rsvp => MemoryGoal { octets: 600, with_claims: true },
            Protocol::Boomerang => MemoryGoal { octets: 160, with_claims: false },
            Protocol::Yessir => MemoryGoal { octets: 256, with_claims: true },
            Protocol::Nsis => MemoryGoal { octets: 1_000, with_claims: true },
            Protocol::Natfw => MemoryGoal { octets: 1_500, with_claims: true },
        }
    }
}
