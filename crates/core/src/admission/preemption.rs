//! Priorities of claims, and the order in which they are displaced.

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::cmp::Reverse;

use serde::{Deserialize, Serialize};

use super::{ClaimId, Owner};
use crate::{InterfaceId, Rate};

/// Priority of a claim; higher is more important (RFC 3181 section 4). The default is the lowest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Priority {
    /// Preemption priority: compared with the defending priority of others when this claim requests bandwidth.
    pub preemption: u16,
    /// Defending priority: compared with the preemption priority of others.
    pub defending: u16,
}

impl Priority {
    /// Creates a priority that obeys RFC 3181: the defending priority is no lower than the preemption priority, or
    /// two flows would displace each other for ever.
    pub fn new(preemption: u16, defending: u16) -> Priority {
        Priority { preemption, defending: defending.max(preemption) }
    }
}

/// Policy of preemption.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PreemptionPolicy {
    /// Whether one of the displaced claims keeps what the new claim does not need, instead of losing all (RFC 4495).
    pub partial: bool,
}

/// A displaced claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Displaced {
    /// The claim. Removed from the ledger if it keeps nothing.
    pub claim: ClaimId,
    /// Owner of the claim.
    pub owner: Owner,
    /// Rate that it keeps.
    pub kept: Rate,
    /// Priority of the claim that displaced it.
    pub by: Priority,
}

/// Position in the order of displacement: by link, the least defended first, the newest among equals.
type Rank = (InterfaceId, u16, Reverse<u64>);

/// State of the ledger while preemption is on.
#[derive(Clone, Debug, Default)]
pub(super) struct Preemption {
    pub(super) policy: PreemptionPolicy,
    /// Claims in the order of displacement. An ordered map, so that the choice does not depend on a hash.
    pub(super) order: BTreeMap<Rank, ClaimId>,
    /// Positions by slot of the ledger.
    ranks: Vec<Option<Rank>>,
    /// Counter that gives the age of claims.
    next_ticket: u64,
    /// Displaced claims whose owners are not notified yet.
    pub(super) displaced: VecDeque<Displaced>,
}

impl Preemption {
    /// Creates the state without claims.
    pub(super) fn new(policy: PreemptionPolicy) -> Preemption {
        Preemption { policy, ..Preemption::default() }
    }

    /// Adds a claim, or changes its defending priority; it keeps its age.
    pub(super) fn insert(&mut self, link: InterfaceId, claim: ClaimId, defending: u16) {
        let slot = claim.slot as usize;
        if self.ranks.len() <= slot {
            self.ranks.resize(slot + 1, None);
        }
        let ticket = match self.ranks[slot].take() {
            Some(rank) => {
                self.order.remove(&rank);
                rank.2
            }
            None => {
                self.next_ticket += 1;
                Reverse(self.next_ticket)
            }
        };
        self.order.insert((link, defending, ticket), claim);
        self.ranks[slot] = Some((link, defending, ticket));
    }

    /// Removes a claim.
    pub(super) fn remove(&mut self, slot: u32) {
        if let Some(rank) = self.ranks.get_mut(slot as usize).and_then(Option::take) {
            self.order.remove(&rank);
        }
    }
}
