//! Blockade state: what failed upstream, and until when it is held against requests that are as large (RFC 2205 section
//! 3.5). There is next to none of it, so an ordered map serves, and nobody has to look into it while it is empty. What
//! has run out is thrown away when it is met, or with the state it is about.

use core::ops::RangeInclusive;

use earmark_core::Time;
use earmark_wire::intserv::FlowSpec;

use super::Store;
use crate::state::{Blocked, Bsb, Index};

impl Store {
    /// Enters blockade state, in the place of older one.
    pub(crate) fn block(&mut self, blocked: Blocked, bsb: Bsb) {
        self.blockades.insert(blocked, bsb);
    }

    /// Qb, where blockade state is in force.
    #[inline]
    pub(crate) fn blockade(&self, blocked: Blocked, now: Time) -> Option<&FlowSpec> {
        if self.blockades.is_empty() {
            return None;
        }
        self.blockades.get(&blocked).filter(|bsb| now < bsb.until).map(|bsb| &bsb.flowspec)
    }

    /// A sender is gone, or comes from elsewhere.
    #[inline]
    pub(crate) fn unblock_sender(&mut self, psb: Index) {
        if !self.blockades.is_empty() {
            self.blockades.remove(&Blocked::Sender(psb));
        }
    }

    /// A pool is gone.
    pub(super) fn unblock_pool(&mut self, pool: Index) {
        let all: RangeInclusive<Blocked> = Blocked::Hop(pool, 0)..=Blocked::Hop(pool, Index::MAX);
        while let Some((&blocked, _)) = self.blockades.range(all.clone()).next() {
            self.blockades.remove(&blocked);
        }
    }

    /// A neighbour may be gone: what is blocked on the way to it in a pool is not any more.
    pub(crate) fn unblock_hop(&mut self, pool: Index, neighbor: Index) {
        self.blockades.remove(&Blocked::Hop(pool, neighbor));
    }
}
