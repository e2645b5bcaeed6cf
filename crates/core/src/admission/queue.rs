//! The retry queue of a link: refused requests that wait for bandwidth to come back.
//!
//! It is what Pan and Schulzrinne (*Lightweight Resource Reservation Signaling*, sections 2.4 and 2.5) call resource
//! grabbing: a router that had to refuse a request remembers it and retries as soon as another reservation ends, instead
//! of waiting for the next refresh. First come, first served, and the head blocks the line, so that a large request is
//! not starved by small ones. Under overload this lets too many flows hold parts of their paths. Hence the threshold T:
//! a request that was refused more than T times is not retried by the router any more, only by its own refreshes.

use alloc::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{Demand, Owner};

/// Whose turn it is when bandwidth was given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Discipline {
    /// The head's alone, as published: who asks for little does not pass who asks for much.
    #[default]
    HeadOfLine,
    /// That of the first who fits, of the [`LOOKAHEAD`] longest waiting: more is used, but who asks for much may starve.
    FirstFit,
}

/// Requests that [`Discipline::FirstFit`] looks at, so that the work for one release has a bound.
pub const LOOKAHEAD: usize = 64;

/// What the threshold T means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Exhausted {
    /// Who joins the line more often than T times may not wait any more. Refreshes that are refused meanwhile do not count.
    #[default]
    Leaves,
    /// As the algorithm of the study stands there: every refusal counts, those of refreshes too, and who has more than T of
    /// them keeps the place in the line, where nobody gets a turn who stands behind.
    Blocks,
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
    /// What becomes of those who were refused more often than T times.
    pub exhausted: Exhausted,
}

impl Default for RetryPolicy {
    /// T = 1, which served best under high load in the study; 1024 requests.
    fn default() -> Self {
        let (discipline, exhausted) = (Discipline::HeadOfLine, Exhausted::Leaves);
        RetryPolicy { threshold: 1, capacity: 1_024, discipline, exhausted }
    }
}

impl RetryPolicy {
    /// Whether a request that was refused so often may not wait.
    pub(super) fn shuts_out(&self, refusals: u32) -> bool {
        refusals > self.threshold && (self.exhausted == Exhausted::Leaves || self.threshold == 0)
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
}

impl RetryQueue {
    pub(super) fn len(&self) -> usize {
        self.by_ticket.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_ticket.is_empty()
    }

    /// Enters a request. Who waits already keeps the place; what it wants is put right.
    pub(super) fn enqueue(
        &mut self,
        waiting: Waiting,
        capacity: usize,
    ) -> Result<(), EnqueueError> {
        if let Some(ticket) = self.tickets.get(&waiting.owner) {
            self.by_ticket.insert(*ticket, waiting);
            return Ok(());
        }
        if self.len() >= capacity {
            return Err(EnqueueError::Full);
        }
        self.tickets.insert(waiting.owner, self.next_ticket);
        self.by_ticket.insert(self.next_ticket, waiting);
        self.next_ticket += 1;
        Ok(())
    }

    pub(super) fn withdraw(&mut self, owner: Owner) -> bool {
        self.tickets.remove(&owner).is_some_and(|t| self.by_ticket.remove(&t).is_some())
    }

    /// Whose turn it is, of those that `fits` says can be served.
    pub(super) fn next(
        &self,
        policy: &RetryPolicy,
        fits: impl Fn(&Waiting) -> bool,
    ) -> Option<Waiting> {
        let candidates = match policy.discipline {
            Discipline::HeadOfLine => 1,
            Discipline::FirstFit => LOOKAHEAD,
        };
        let may_go = |waiting: &&Waiting| waiting.refusals <= policy.threshold;
        self.iter().take(candidates).take_while(may_go).find(|waiting| fits(waiting)).copied()
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
    }

    /// All that wait, first come first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Waiting> {
        self.by_ticket.values()
    }
}
