//! Retry: refused requests wait in the queue of their link until enough is released.

use core::mem;

use super::Owner;
use super::journal::Attempt;
use super::ledger::{Ledger, mark_queue};
use super::queue::{Counting, EnqueueError, QueuedRequest, RetryPolicy};
use crate::InterfaceId;

/// The retry queues.
impl Ledger {
    /// Sets the retry policy. A lower threshold drops the requests over it; a smaller capacity leaves queued
    /// requests.
    pub fn set_retry_policy(&mut self, policy: RetryPolicy) {
        self.policy = policy;
        for (id, link) in self.links.iter_mut() {
            if policy.counting == Counting::Entries {
                link.queue.retain(|waiting| waiting.refusals <= policy.threshold);
            }
            mark_queue(&mut self.freed, id, link); // another may be the head now
        }
    }

    /// Returns the retry policy.
    pub fn retry_policy(&self) -> &RetryPolicy {
        &self.policy
    }

    /// Queues a refused request for bandwidth of `link`. A queued request keeps its position, with the new demand and
    /// count; if it may not wait any more, it is removed.
    pub fn enqueue(
        &mut self,
        link: InterfaceId,
        waiting: QueuedRequest,
    ) -> Result<(), EnqueueError> {
        let entry = self.links.get_mut(link).ok_or(EnqueueError::NoSuchLink)?;
        let result = if !entry.could_ever_grant(&waiting.demand) {
            Err(EnqueueError::NeverFits)
        } else if self.policy.excludes(waiting.refusals) {
            Err(EnqueueError::Threshold)
        } else {
            entry.queue.enqueue(waiting, &self.policy)
        };
        if result.is_err() {
            entry.queue.withdraw(waiting.owner);
        }
        mark_queue(&mut self.freed, link, entry); // the head may want less now, or have left
        result
    }

    /// Removes a queued request; `false` if there is none.
    pub fn withdraw(&mut self, link: InterfaceId, owner: Owner) -> bool {
        let Some(entry) = self.links.get_mut(link) else {
            return false;
        };
        let withdrawn = entry.queue.withdraw(owner);
        mark_queue(&mut self.freed, link, entry); // the next one may fit
        withdrawn
    }

    /// Removes and returns the owner of the next request of a link's queue ([`Discipline`](super::Discipline)), if
    /// the link can grant it now; the owner should claim at once. Call until it returns `None`.
    pub fn grantable(&mut self, link: InterfaceId) -> Option<Owner> {
        let entry = self.links.get_mut(link)?;
        let fits = |waiting: &QueuedRequest| entry.admit::<true>(None, &waiting.demand).is_ok();
        match entry.queue.next(self.policy.discipline, fits) {
            Some(next) => {
                entry.queue.withdraw(next.owner);
                Some(next.owner)
            }
            None => {
                self.freed.remove(&link);
                if mem::take(&mut entry.released) && self.policy.counting == Counting::Tries {
                    let tried = entry.queue.count_failed_tries(self.policy.threshold);
                    if let Some(journal) = &mut self.journal {
                        journal.extend(
                            tried.iter().map(|waiting| Attempt::failed_retry(link, waiting)),
                        );
                    }
                }
                None
            }
        }
    }

    /// Calls [`grantable`](Ledger::grantable) for all links where something changed; O(1) if nothing did.
    pub fn next_grantable(&mut self) -> Option<(InterfaceId, Owner)> {
        while let Some(&link) = self.freed.first() {
            if let Some(owner) = self.grantable(link) {
                return Some((link, owner));
            }
        }
        None
    }
}
