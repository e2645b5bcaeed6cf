//! Retry queue of a link: refused requests that wait for released bandwidth.
//!
//! Pan and Schulzrinne (*Lightweight Resource Reservation Signaling*, sections 2.4 and 2.5) call this resource
//! grabbing: a router that had to refuse a request remembers it and retries as soon as another reservation ends,
//! instead of waiting for the next refresh. First come, first served, and the head blocks the queue, so that a large
//! request is not starved by small ones. Under overload this lets too many flows hold parts of their paths. Hence the
//! threshold T: a request that was refused more than T times is retried only by its own refreshes.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use serde::{Deserialize, Serialize};

use super::{Demand, Owner};

/// Order in which queued requests are granted after a release. [`Counting`] defines which requests take part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Discipline {
    /// Only the head, as published: a small request does not overtake a large one.
    #[default]
    HeadOfLine,
    /// The first that fits, of the [`LOOKAHEAD`] longest waiting: uses more bandwidth, but large requests may starve.
    FirstFit,
    /// The smallest of the [`LOOKAHEAD`] longest waiting, if it fits: serves the most requests.
    SmallestFirst,
    /// The newest, if it fits: serves requests while they are still wanted; old ones may starve.
    NewestFirst,
}

/// Maximum number of requests checked per release if not only the head counts.
pub const LOOKAHEAD: usize = 64;

/// What counts against the threshold T, defined by the study as "the maximum number of retries that a flow can
/// exercise during its entire duration at a single router". Refreshes do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Counting {
    /// Each entry of a request into the queue. A request stays there until it is granted, and may not enter if it was
    /// refused more than T times.
    #[default]
    Entries,
    /// Also each release that was not enough for a queued request. A request with a count above T is not granted any
    /// more, and blocks nobody. Each release then checks all requests that may still be granted.
    Tries,
}

/// Policy for the retry of refused requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RetryPolicy {
    /// The threshold T: requests refused more often than this are not queued. 0 turns the queue off.
    pub threshold: u32,
    /// Maximum number of queued requests per link.
    pub capacity: usize,
    /// Order of grants.
    pub discipline: Discipline,
    /// What counts against the threshold.
    pub counting: Counting,
}

impl Default for RetryPolicy {
    /// Returns T = 1, which served best under high load in the study, and 1024 requests.
    fn default() -> Self {
        let (discipline, counting) = (Discipline::HeadOfLine, Counting::Entries);
        RetryPolicy { threshold: 1, capacity: 1_024, discipline, counting }
    }
}

impl RetryPolicy {
    /// Returns whether a request that was refused so often may not be queued.
    pub(super) fn excludes(&self, refusals: u32) -> bool {
        refusals > self.threshold && (self.counting == Counting::Entries || self.threshold == 0)
    }
}

/// A request that waits for bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuedRequest {
    /// Owner, to be notified.
    pub owner: Owner,
    /// Requested demand.
    pub demand: Demand,
    /// Number of refusals by this node, including the last: the counter c of the study. It counts over the whole
    /// lifetime of the flow, also while nothing is queued, and so belongs to the owner's state.
    pub refusals: u32,
}

/// Reason why a request was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EnqueueError {
    /// The link is unknown.
    #[error("unknown link")]
    NoSuchLink,
    /// The request was refused more than [`RetryPolicy::threshold`] times.
    #[error("refused more often than the retry threshold")]
    Threshold,
    /// An empty link could not grant the request; it would block the queue for ever.
    #[error("more than the link's reservable bandwidth")]
    NeverFits,
    /// The queue holds [`RetryPolicy::capacity`] requests already.
    #[error("the retry queue is full")]
    Full,
}

/// Queued requests, first in, first out, one per owner. Ordered maps keep insertion, removal and the head at O(log
/// n).
#[derive(Clone, Debug, Default)]
pub(super) struct RetryQueue {
    by_ticket: BTreeMap<u64, QueuedRequest>,
    tickets: BTreeMap<Owner, u64>,
    next_ticket: u64,
    /// Requests with more than T tries: they are not granted any more, but must be remembered.
    spent: BTreeMap<Owner, QueuedRequest>,
}

impl RetryQueue {
    pub(super) fn len(&self) -> usize {
        self.by_ticket.len() + self.spent.len()
    }

    /// Returns whether no request may be granted.
    pub(super) fn is_idle(&self) -> bool {
        self.by_ticket.is_empty()
    }

    /// Queues a request. A queued request keeps its position; its demand and count are updated, unless counting
    /// happens here.
    pub(super) fn enqueue(
        &mut self,
        mut waiting: QueuedRequest,
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

    /// Returns the next request by the discipline, among those that `fits` accepts.
    pub(super) fn next(
        &self,
        discipline: Discipline,
        fits: impl Fn(&QueuedRequest) -> bool,
    ) -> Option<QueuedRequest> {
        let mut waiting = self.by_ticket.values();
        match discipline {
            Discipline::HeadOfLine => waiting.next().filter(|waiting| fits(waiting)),
            Discipline::NewestFirst => waiting.next_back().filter(|waiting| fits(waiting)),
            Discipline::FirstFit => waiting.take(LOOKAHEAD).find(|waiting| fits(waiting)),
            // Among equal requests, the first.
            Discipline::SmallestFirst => {
                let fitting = waiting.take(LOOKAHEAD).filter(|waiting| fits(waiting));
                fitting.min_by_key(|waiting| waiting.demand.rate)
            }
        }
        .copied()
    }

    /// Counts a release that was not enough for the queued requests. Returns them in order.
    pub(super) fn count_failed_tries(&mut self, threshold: u32) -> Vec<QueuedRequest> {
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

    /// Removes the requests that `keep` rejects.
    pub(super) fn retain(&mut self, keep: impl Fn(&QueuedRequest) -> bool) {
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

    /// Returns all queued requests in order, and then those that are not granted any more.
    pub(super) fn iter(&self) -> impl Iterator<Item = &QueuedRequest> {
        self.by_ticket.values().chain(self.spent.values())
    }
}
