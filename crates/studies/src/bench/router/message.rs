//! Kinds of messages, and their effects on a session.

use super::{Arrival, Router};

/// Effect of a message on its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Sets up the session, or a part of it.
    SetUp,
    /// Refreshes the session.
    Refresh,
    /// Releases the session.
    Release,
}

/// A kind of message.
#[derive(Clone, Copy, Debug)]
pub struct Message {
    /// Name for tables.
    pub name: &'static str,
    /// Effect on the session.
    pub step: Step,
    /// Goal: largest number of instructions; `None` without a goal.
    pub goal: Option<u32>,
    /// Writes the message of a session in a round.
    pub(super) write: fn(router: &Router, session: u32, round: u32) -> Arrival,
}

impl Message {
    /// Returns the message of session `session`; in each `round` it has the content that a sender would send by then.
    /// New sessions of different rounds are different.
    pub fn of(&self, router: &Router, session: u32, round: u32) -> Arrival {
        (self.write)(router, session, round)
    }
}
