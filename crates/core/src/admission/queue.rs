//! The retry queue of a link: refused requests that wait for bandwidth to come back.
//!
//! It is what Pan and Schulzrinne (*Lightweight Resource Reservation Signaling*, sections 2.4 and 2.5) call resource
//! grabbing: a router that had to refuse a request remembers it and retries as soon as another reservation ends, instead
//! of waiting for the next refresh. First come, first served, and the head blocks the line, so that a large request is
//! not starved by small ones. Under overload this lets too many flows hold parts of their paths. Hence the threshold T:
//! a request that was refused more than T times is not retried by the router any more, only by its own refreshes.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Demand, Owner};

/// Whose turn it is when bandwidth was given back. Of those that get turns: see [`Counting`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Discipline {
    /// The head's alone, as published: who asks for little does not pass who asks for much.
    #[default]
    HeadOfLine,
    /// That of the first who fits, of the [`LOOKAHEAD`] longest waiting: more is used, but who asks for much may starve.
    FirstFit,
    /// That of who asks for least, of the [`LOOKAHEAD`] longest waiting, where that fits: most are served.
    SmallestFirst,
    /// That of who came last, where that fits: some are served while they still care, and who waits long may starve.
    NewestFirst,
}

/// Requests that are looked at where it is not the head's turn alone, so that the work for one release has a bound.
pub const LOOKAHEAD: usize = 64;

/// What counts against the threshold T, of which the study says that it is "the maximum number of retries that a flow can
/// exercise during its entire duration at a single router". Refreshes do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counting {
    /// Each time that a request joins the line; it stands there until its turn comes, and who was refused more than T
    /// times may not join.
    #[default]
    Entries,
    /// Besides, each time that something was given back and it still was not enough for who stands there. A request of
    /// which more than T are counted gets no turn any more, and holds up nobody. Each release then costs a look at all
    /// who may still have a turn.
    Tries,
}

/// How eagerly refused requests are retried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryPolicy {
    /// The threshold T: requests refused more often than this do not wait in the queue. 0 switches it off.
    pub threshold: u32,
    /// How many requests may wait for one link.
    pub capacity: usize,
    /// Whose turn it is.
    pub discipline: Discipline,
    /// What counts against the threshold.
    pub counting: Counting,
}

impl Default for RetryPolicy {
    /// T = 1, which served best under high load in the study; 1024 requests.
    fn default() -> Self {
        let (discipline, counting) = (Discipline::HeadOfLine, Counting::Entries);
        RetryPolicy { threshold: 1, capacity: 1_024, discipline, counting }
    }
}

impl RetryPolicy {
    /// Whether a request that was refused so often may not wait.
    pub(super) fn shuts_out(&self, refusals: u32) -> bool {
        refusals > self.threshold && (self.counting == Counting::Entries || self.threshold == 0)
    }
}

/// A request that waits for bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Whom to tell.
    pub owner: Owner,
    /// What it wants.
    pub demand: Demand,
    /// How often this node has refused it, this time included: the counter c of the study. It counts over the whole
    /// life of the flow, also while nothing waits, and so belongs to the owner's state.
    pub refusals: u32,
}

/// Why a request may not wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnqueueError {
    /// The link is not known.
    #[error("the link is not known")]
    NoSuchLink,
    /// It was refused more than [`RetryPolicy::threshold`] times.
    #[error("refused more often than the retry threshold")]
    Threshold,
    /// The link could not grant it even if nothing were held; it would block the line for ever.
    #[error("more than the link can ever grant")]
    NeverFits,
    /// [`RetryPolicy::capacity`] requests wait already.
    #[error("the retry queue is full")]
    Full,
}

/// First in, first out, one place per owner. Ordered maps keep taking a place, leaving it and looking at the head at
/// O(log n).
#[derive(Clone, Debug, Default)]
pub(super) struct RetryQueue {
    by_ticket: BTreeMap<u64, Waiting>,
    tickets: BTreeMap<Owner, u64>,
    next_ticket: u64,
    /// Those that were tried more than T times in vain: they get no turn any more, but it must be known of them.
    spent: BTreeMap<Owner, Waiting>,
}

impl RetryQueue {
    pub(super) fn len(&self) -> usize {
        self.by_ticket.len() + self.spent.len()
    }

    /// Whether nobody waits who may have a turn.
    pub(super) fn is_idle(&self) -> bool {
        self.by_ticket.is_empty()
    }

    /// Enters a request. Who waits already keeps the place; what it wants is put right, and so is its count, unless that
    /// grows here.
    pub(super) fn enqueue(
        &mut self,
        mut waiting: Waiting,
        policy: &RetryPolicy,
    ) -> Result<(), EnqueueError> {
        if let Some(spent) = self.spent.get_mut(&waiting.owner) {
            spent.demand = waiting.demand;
            return Ok(());
        }
        if let Some(ticket) = self.tickets.get(&waiting.owner) {
            if let Some(before) = self.by_ticket.get_mut(ticket) {
                if policy.counting == Counting::Tries {
                    waiting.refusals = waiting.refusals.max(before.refusals);
                }
                *before = waiting;
            }
            return Ok(());
        }
        if self.len() >= policy.capacity {
            return Err(EnqueueError::Full);
        }
        self.tickets.insert(waiting.owner, self.next_ticket);
        self.by_ticket.insert(self.next_ticket, waiting);
        self.next_ticket += 1;
        Ok(())
    }

    pub(super) fn withdraw(&mut self, owner: Owner) -> bool {
        let ticket = self.tickets.remove(&owner);
        ticket.is_some_and(|ticket| self.by_ticket.remove(&ticket).is_some())
            || self.spent.remove(&owner).is_some()
    }

    /// Whose turn it is, of those that `fits` says can be served.
    pub(super) fn next(
        &self,
        discipline: Discipline,
        fits: impl Fn(&Waiting) -> bool,
    ) -> Option<Waiting> {
        let mut waiting = self.by_ticket.values();
        match discipline {
            Discipline::HeadOfLine => waiting.next().filter(|waiting| fits(waiting)),
            Discipline::NewestFirst => waiting.next_back().filter(|waiting| fits(waiting)),
            Discipline::FirstFit => waiting.take(LOOKAHEAD).find(|waiting| fits(waiting)),
            // Of those that ask for as much, the first.
            Discipline::SmallestFirst => {
                let fitting = waiting.take(LOOKAHEAD).filter(|waiting| fits(waiting));
                fitting.min_by_key(|waiting| waiting.demand.rate)
            }
        }
        .copied()
    }

    /// Something was given back, but not enough for those that still wait: counts that of each, who are given in order.
    pub(super) fn tried_in_vain(&mut self, threshold: u32) -> Vec<Waiting> {
        for waiting in self.by_ticket.values_mut() {
            waiting.refusals = waiting.refusals.saturating_add(1);
        }
        let tried = self.by_ticket.values().copied().collect();
        for (_, spent) in self.by_ticket.extract_if(.., |_, waiting| waiting.refusals > threshold) {
            self.tickets.remove(&spent.owner);
            self.spent.insert(spent.owner, spent);
        }
        tried
    }

    /// Takes out those of which `keep` says no.
    pub(super) fn retain(&mut self, keep: impl Fn(&Waiting) -> bool) {
        let tickets = &mut self.tickets;
        self.by_ticket.retain(|_, waiting| {
            let kept = keep(waiting);
            if !kept {
                tickets.remove(&waiting.owner);
            }
            kept
        });
        self.spent.retain(|_, waiting| keep(waiting));
    }

    /// All that wait: first come first, and then those that get no turn any more.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.by_ticket.values().chain(self.spent.values())
    }
}
