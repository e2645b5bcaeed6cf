//! A journal of the attempts to claim something, for those who study how reservations come about.

use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Ledger, Owner, Waiting};
use crate::{Flow, InterfaceId, Rate};

/// Somebody has asked a link for something that was not held before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attempt {
    /// Which link, or which lane of one.
    pub link: InterfaceId,
    /// Who.
    pub owner: Owner,
    /// For whose packets. Not said of one that waits in line, for whom what was given back was not enough
    /// ([`Counting::Tries`](super::Counting::Tries)).
    pub flow: Option<Flow>,
    /// How much.
    pub rate: Rate,
    /// Whether it was granted.
    pub granted: bool,
}

impl Attempt {
    /// One that waits, and for whom what was given back was not enough.
    pub(super) fn in_vain(link: InterfaceId, waiting: &Waiting) -> Attempt {
        let Waiting { owner, demand, .. } = *waiting;
        Attempt { link, owner, flow: None, rate: demand.rate, granted: false }
    }
}

impl Ledger {
    /// From now on keeps a journal, or none any more. Who has it kept must take what is in it
    /// ([`take_attempts`](Ledger::take_attempts)), since it grows with each attempt.
    pub fn keep_journal(&mut self, keep: bool) {
        self.journal = keep.then(Vec::new);
    }

    /// Takes the attempts that were made since this was last asked, in order; nothing where no journal is kept. An attempt
    /// for which room is made by preemption is there twice: refused, then granted.
    pub fn take_attempts(&mut self) -> Vec<Attempt> {
        self.journal.as_mut().map(core::mem::take).unwrap_or_default()
    }
}
