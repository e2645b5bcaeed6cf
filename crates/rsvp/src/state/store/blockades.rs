//! Blockade state by sender, or by pool and neighbour, with its end time (RFC 2205 section 3.5).
//!
//! There are few entries, so an ordered map is enough, and lookups are skipped while it is empty. Expired entries are
//! removed when they are found, or with the state they concern.

use core::ops::RangeInclusive;

use earmark_core::Time;
use earmark_wire::intserv::FlowSpec;

use super::Store;
use crate::state::{Blocked, Bsb, Index};

impl Store {
    /// Inserts blockade state, replacing that of an earlier message.
    pub(crate) fn block(&mut self, blocked: Blocked, bsb: Bsb) {
        let known = self.blockades.entry(blocked).or_insert(bsb);
        if !(bsb.message_id.is_some() && bsb.message_id.is_before(known.message_id)) {
            *known = bsb;
        }
    }

    /// Returns whether there may be blockade state.
    #[inline]
    pub(crate) fn has_blockades(&self) -> bool {
        !self.blockades.is_empty()
    }

    /// Returns Qb of blockade state in force.
    #[inline]
    pub(crate) fn blockade(&self, blocked: Blocked, now: Time) -> Option<&FlowSpec> {
        if self.blockades.is_empty() {
            return None;
        }
        self.blockades.get(&blocked).filter(|bsb| now < bsb.until).map(|bsb| &bsb.flowspec)
    }

    /// Removes the blockade state of a sender that has ended or has a new previous hop.
    #[inline]
    pub(crate) fn unblock_sender(&mut self, psb: Index) {
        if !self.blockades.is_empty() {
            self.blockades.remove(&Blocked::Sender(psb));
        }
    }

    /// Removes the blockade state of a pool.
    pub(super) fn unblock_pool(&mut self, pool: Index) {
        let all: RangeInclusive<Blocked> = Blocked::Hop(pool, 0)..=Blocked::Hop(pool, Index::MAX);
        while let Some((&blocked, _)) = self.blockades.range(all.clone()).next() {
            self.blockades.remove(&blocked);
        }
    }

    /// Removes the blockade state of a pool towards a neighbour, which may have been removed.
    pub(crate) fn unblock_hop(&mut self, pool: Index, neighbor: Index) {
        self.blockades.remove(&Blocked::Hop(pool, neighbor));
    }
}
