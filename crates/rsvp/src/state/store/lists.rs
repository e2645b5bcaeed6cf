//! Lists of blocks: senders of a session, traffic-control blocks of a sender or pool, requests of a traffic-control
//! block.

use earmark_core::{InterfaceId, Time, growth};
use earmark_wire::rsvp::{FilterSpec, Session, Style};

use super::message_id_index::NamedBlock;
use super::{Store, chain};
use crate::state::message_id_key::MessageIdKey;
use crate::state::{Block, Holder, Index, NONE, Origin, Pool, Rsb, Tcsb};

/// Existing blocks for a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ExistingRequest {
    /// Traffic-control block that the request is, or would be, merged into.
    pub(crate) tcsb: Option<Index>,
    /// Reservation state block of the request itself.
    pub(crate) rsb: Option<Index>,
}

impl Store {
    /// Returns the senders of a session.
    pub(crate) fn senders_of(&self, session: Index) -> impl Iterator<Item = Index> {
        let head = self.session(session).senders;
        chain(head, |i| self.psb(i).next)
    }

    /// Returns the traffic-control blocks of a sender or pool.
    #[inline]
    pub(crate) fn tcsbs_of(&self, holder: Holder) -> impl Iterator<Item = Index> {
        chain(self.head(holder), |i| self.tcsb(i).next)
    }

    /// Returns the reservation requests merged into a traffic-control block.
    #[inline]
    pub(crate) fn rsbs_of(&self, tcsb: Index) -> impl Iterator<Item = Index> {
        let head = self.tcsb(tcsb).rsbs;
        chain(head, |i| self.rsb(i).next)
    }

    /// Returns the traffic-control block of a sender or pool on an outgoing interface.
    #[inline]
    pub(crate) fn find_tcsb(&self, holder: Holder, outgoing: Option<InterfaceId>) -> Option<Index> {
        self.tcsbs_of(holder).find(|&i| self.tcsb(i).outgoing == outgoing)
    }

    /// Returns the reservation request of a next hop, or an application, in a traffic-control block.
    #[inline]
    pub(crate) fn find_rsb(&self, tcsb: Index, origin: Origin) -> Option<Index> {
        self.rsbs_of(tcsb).find(|&i| self.origin(self.rsb(i).hop) == origin)
    }

    /// Returns the existing blocks for a request to a sender or pool.
    #[inline]
    pub(crate) fn find_request(
        &self,
        holder: Holder,
        outgoing: Option<InterfaceId>,
        origin: Origin,
    ) -> ExistingRequest {
        let tcsb = self.find_tcsb(holder, outgoing);
        ExistingRequest { tcsb, rsb: tcsb.and_then(|tcsb| self.find_rsb(tcsb, origin)) }
    }

    /// Returns the first traffic-control block of a sender or pool.
    pub(crate) fn first_tcsb(&self, holder: Holder) -> Option<Index> {
        Some(self.head(holder)).filter(|&index| index != NONE)
    }

    /// Returns the traffic-control block after this one.
    pub(crate) fn next_tcsb(&self, tcsb: Index) -> Option<Index> {
        Some(self.tcsb(tcsb).next).filter(|&index| index != NONE)
    }

    /// Returns the first reservation request of a traffic-control block.
    pub(crate) fn first_rsb(&self, tcsb: Index) -> Option<Index> {
        Some(self.tcsb(tcsb).rsbs).filter(|&index| index != NONE)
    }

    /// Returns the reservation request after this one.
    pub(crate) fn next_rsb(&self, rsb: Index) -> Option<Index> {
        Some(self.rsb(rsb).next).filter(|&index| index != NONE)
    }

    /// Inserts a traffic-control block at the head of its holder's list.
    pub(crate) fn insert_tcsb(&mut self, mut tcsb: Tcsb) -> Index {
        let holder = tcsb.holder;
        tcsb.next = self.head(holder);
        let index = growth::insert(&mut self.tcsbs, tcsb);
        *self.head_mut(holder) = index;
        if let Holder::Sender(psb) = holder {
            let session = self.psb(psb).session;
            self.session_blocks[session as usize].distinct += 1;
        }
        index
    }

    /// Removes a traffic-control block without reservation requests.
    pub(crate) fn remove_tcsb(&mut self, index: Index) -> Tcsb {
        let tcsb = self.tcsbs.remove(index as usize);
        let holder = tcsb.holder;
        if self.head(holder) == index {
            *self.head_mut(holder) = tcsb.next;
        } else {
            let before = self.tcsbs_of(holder).find(|&i| self.tcsb(i).next == index);
            if let Some(before) = before {
                self.tcsb_mut(before).next = tcsb.next;
            }
        }
        match holder {
            Holder::Sender(psb) => {
                let session = self.psb(psb).session;
                self.session_blocks[session as usize].distinct -= 1;
            }
            Holder::Pool(pool) => {
                self.pools[pool as usize].filters.remove(&index);
            }
        }
        tcsb
    }

    /// Inserts a reservation request at the head of its traffic-control block's list.
    pub(crate) fn insert_rsb(&mut self, mut rsb: Rsb) -> Index {
        let tcsb = rsb.tcsb;
        rsb.next = self.tcsb(tcsb).rsbs;
        let index = growth::insert(&mut self.rsbs, rsb);
        self.tcsb_mut(tcsb).rsbs = index;
        index
    }

    /// Returns the reservation request before this one; `None` for the first.
    pub(crate) fn rsb_before(&self, index: Index) -> Option<Index> {
        let tcsb = self.rsb(index).tcsb;
        if self.tcsb(tcsb).rsbs == index {
            return None;
        }
        self.rsbs_of(tcsb).find(|&i| self.rsb(i).next == index)
    }

    /// Removes a reservation request and its timer; `before` is the request before it.
    pub(crate) fn remove_rsb(&mut self, before: Option<Index>, index: Index) -> Rsb {
        self.set_message_id(NamedBlock::new(Block::Reservation, index), MessageIdKey::NONE);
        let rsb = self.rsbs.remove(index as usize);
        match before {
            Some(before) => self.rsb_mut(before).next = rsb.next,
            None => self.tcsb_mut(rsb.tcsb).rsbs = rsb.next,
        }
        if let Some(timer) = rsb.timer {
            self.timers.cancel(timer);
        }
        rsb
    }

    /// Returns the session of a sender or pool.
    #[inline]
    pub(crate) fn session_index(&self, holder: Holder) -> Index {
        match holder {
            Holder::Sender(psb) => self.psb(psb).session,
            Holder::Pool(pool) => self.pool(pool).session,
        }
    }

    /// Returns the key of the session of a sender or pool.
    #[inline]
    pub(crate) fn session_key(&self, holder: Holder) -> Session {
        self.session(self.session_index(holder)).session
    }

    /// Returns the reservation style of a sender or pool.
    #[inline]
    pub(crate) fn style(&self, holder: Holder) -> Style {
        match holder {
            Holder::Sender(_) => Style::FixedFilter,
            Holder::Pool(pool) => self.pool(pool).style,
        }
    }

    pub(crate) fn pool(&self, index: Index) -> &Pool {
        &self.pools[index as usize]
    }

    pub(crate) fn pool_mut(&mut self, index: Index) -> &mut Pool {
        &mut self.pools[index as usize]
    }

    /// Returns the pool of a session.
    #[inline]
    pub(crate) fn pool_of(&self, session: Index) -> Option<Index> {
        Some(self.session(session).pool).filter(|&index| index != NONE)
    }

    /// Inserts a pool for a session without one.
    pub(crate) fn insert_pool(&mut self, session: Index, style: Style) -> Index {
        let index = self.pools.insert(Pool {
            session,
            style,
            tcsbs: NONE,
            filters: Default::default(),
            sent_resvs: Default::default(),
            refresh_at: Time::MAX,
            timer: None,
        }) as Index;
        self.session_blocks[session as usize].pool = index;
        index
    }

    /// Removes a pool without traffic-control blocks, with its timer and blockade state.
    pub(crate) fn remove_pool(&mut self, index: Index) {
        let pool = self.pools.remove(index as usize);
        self.session_blocks[pool.session as usize].pool = NONE;
        self.unblock_pool(index);
        if let Some(timer) = pool.timer {
            self.timers.cancel(timer);
        }
    }

    /// Returns TC_Filter_Spec* of a pool's traffic-control block.
    pub(crate) fn filters_of(&self, pool: Index, tcsb: Index) -> &[FilterSpec] {
        self.pool(pool).filters.get(&tcsb).map_or(&[], |filters| filters)
    }

    #[inline]
    fn head(&self, holder: Holder) -> Index {
        match holder {
            Holder::Sender(psb) => self.psb(psb).tcsbs,
            Holder::Pool(pool) => self.pool(pool).tcsbs,
        }
    }

    #[inline]
    fn head_mut(&mut self, holder: Holder) -> &mut Index {
        match holder {
            Holder::Sender(psb) => &mut self.psb_mut(psb).tcsbs,
            Holder::Pool(pool) => &mut self.pool_mut(pool).tcsbs,
        }
    }
}
