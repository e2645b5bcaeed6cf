//! Slabs of state blocks and the indexes into them.
//!
//! | index | key | entries | source of the key |
//! |---|---|---|---|
//! | `senders` | (session, sender template) | each [`Psb`] | peers: SipHash with a random key |
//! | `sessions` | session | each [`SessionBlock`] | peers: SipHash with a random key |
//! | `destinations` | (address, protocol) | each destination, the first of its sessions | peers: SipHash with a random key |
//! | `message_ids` | (neighbour, MESSAGE_ID) | each [`Psb`] or [`Rsb`] from a message with MESSAGE_ID | peers: [`KeyedHash`] |
//! | `neighbors_by_address` | (interface, address) | each neighbour | ordered map |
//! | `blockades` | sender, or (pool, neighbour) | each request recently refused upstream | ordered map |
//!
//! No index is ever iterated; listings are in slab order, so no order depends on a hash.

mod blockades;
mod keys;
mod lists;
mod message_id_index;
mod message_ids;
mod neighbors;

use alloc::collections::BTreeMap;
use core::net::IpAddr;

use earmark_core::hash::KeyedHash;
use earmark_core::memory::octets;
use earmark_core::random::Stream;
use earmark_core::shares::Shares;
use earmark_core::timer::TimingWheel;
use earmark_core::{InterfaceId, growth};
use earmark_wire::intserv::{FlowSpec, Rspec};
use earmark_wire::rsvp::{SenderTemplate, Session};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use slab::Slab;

use self::keys::{
    hash_destination, hash_objects, hash_sender, hash_session, same_destination, same_session,
};
use self::message_id_index::MessageIdIndex;
use crate::state::message_id_key::MessageIdKey;
use crate::state::{
    Block, Blocked, Bsb, Digest, Index, NONE, Neighbor, Pool, Psb, Rsb, SessionBlock, Tcsb, Timer,
};

pub(crate) use self::lists::ExistingRequest;
pub(crate) use self::message_id_index::NamedBlock;

/// State blocks and indexes of one engine.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) session_blocks: Slab<SessionBlock>,
    pub(crate) psbs: Slab<Psb>,
    pub(crate) tcsbs: Slab<Tcsb>,
    pub(crate) rsbs: Slab<Rsb>,
    pub(crate) pools: Slab<Pool>,
    pub(crate) neighbors: Slab<Neighbor>,
    pub(crate) timers: TimingWheel<Timer>,
    message_ids: MessageIdIndex,
    sessions: HashTable<Index>,
    senders: HashTable<Index>,
    destinations: HashTable<Index>,
    neighbors_by_address: BTreeMap<(InterfaceId, IpAddr), Index>,
    /// Blocks by the interface of their neighbours, or [`earmark_core::shares::OWN`], for each [`crate::state::Block`].
    pub(crate) shares: [Shares; 2],
    /// Whether any neighbour is known to be on its link, so that the question is worth a lookup.
    any_near: bool,
    /// Neighbour of the last block of each kind. It may have been removed and its index reused.
    last_neighbors: [Index; 2],
    blockades: BTreeMap<Blocked, Bsb>,
    hash_key: (u64, u64),
    /// Hash of requests, for their digests.
    digests: KeyedHash,
}

impl Store {
    /// Returns the octets of the tables on the heap. O(1).
    pub(crate) fn table_octets(&self) -> usize {
        let blocks = octets([
            &self.session_blocks,
            &self.psbs,
            &self.tcsbs,
            &self.rsbs,
            &self.pools,
            &self.neighbors,
        ]);
        let indexes = octets([
            &self.timers,
            &self.sessions,
            &self.senders,
            &self.destinations,
            &self.neighbors_by_address,
            &self.blockades,
        ]);
        blocks + indexes + self.message_ids.table_octets()
    }

    /// Creates an empty store. The hash keys of the indexes are drawn from `keys`.
    pub(crate) fn new(keys: &mut Stream) -> Store {
        let hash_key = keys.hash_key();
        Store {
            session_blocks: Slab::new(),
            psbs: Slab::new(),
            tcsbs: Slab::new(),
            rsbs: Slab::new(),
            pools: Slab::new(),
            neighbors: Slab::new(),
            timers: TimingWheel::new(),
            message_ids: MessageIdIndex::new(KeyedHash::draw(keys)),
            sessions: HashTable::new(),
            senders: HashTable::new(),
            destinations: HashTable::new(),
            neighbors_by_address: BTreeMap::new(),
            shares: Default::default(),
            any_near: false,
            last_neighbors: [NONE; 2],
            blockades: BTreeMap::new(),
            hash_key,
            digests: KeyedHash::draw(keys),
        }
    }

    /// Returns the digest of a request for a flowspec with these objects.
    #[inline]
    pub(crate) fn digest(&self, flowspec: &FlowSpec, objects: &[u8]) -> Digest {
        let (bucket, service, rspec) = match flowspec {
            FlowSpec::ControlledLoad(bucket) => (bucket, 0, [0, 0]),
            FlowSpec::Guaranteed(bucket, Rspec { rate, slack_us }) => {
                (bucket, 1, [rate.to_bits(), *slack_us])
            }
        };
        let word = |high: u32, low: u32| u64::from(high) << 32 | u64::from(low);
        let objects = match objects {
            [] => 0, // as in most cases
            _ => hash_objects(self.hash_key, objects),
        };
        Digest::of_hash(self.digests.of_six([
            word(bucket.rate.to_bits(), bucket.depth.to_bits()),
            word(bucket.peak.to_bits(), bucket.min_policed_unit),
            word(bucket.max_packet_size, service),
            word(rspec[0], rspec[1]),
            objects,
            0,
        ]))
    }

    #[inline]
    pub(crate) fn session(&self, index: Index) -> &SessionBlock {
        &self.session_blocks[index as usize]
    }

    #[inline]
    pub(crate) fn psb(&self, index: Index) -> &Psb {
        &self.psbs[index as usize]
    }

    #[inline]
    pub(crate) fn psb_mut(&mut self, index: Index) -> &mut Psb {
        &mut self.psbs[index as usize]
    }

    #[inline]
    pub(crate) fn tcsb(&self, index: Index) -> &Tcsb {
        &self.tcsbs[index as usize]
    }

    #[inline]
    pub(crate) fn tcsb_mut(&mut self, index: Index) -> &mut Tcsb {
        &mut self.tcsbs[index as usize]
    }

    #[inline]
    pub(crate) fn rsb(&self, index: Index) -> &Rsb {
        &self.rsbs[index as usize]
    }

    #[inline]
    pub(crate) fn rsb_mut(&mut self, index: Index) -> &mut Rsb {
        &mut self.rsbs[index as usize]
    }

    /// Returns the key of the session of a sender.
    #[inline]
    pub(crate) fn session_of(&self, psb: Index) -> Session {
        self.session(self.psb(psb).session).session
    }

    /// Returns the session with this key.
    pub(crate) fn find_session(&self, session: &Session) -> Option<Index> {
        self.look_up_session(session).ok()
    }

    /// Returns the session with this key, or the place for a new one.
    #[inline]
    pub(crate) fn look_up_session(&self, session: &Session) -> Result<Index, Place> {
        let hash = self.hash_session(session);
        self.sessions
            .find(hash, |&i| same_session(&self.session(i).session, session))
            .copied()
            .ok_or(Place(hash))
    }

    /// Returns the sender with this key.
    #[inline]
    pub(crate) fn find_sender(
        &self,
        session: &Session,
        template: &SenderTemplate,
    ) -> Option<Index> {
        self.look_up_sender(session, template).ok()
    }

    /// Returns the sender with this key, or the place for a new one.
    #[inline]
    pub(crate) fn look_up_sender(
        &self,
        session: &Session,
        template: &SenderTemplate,
    ) -> Result<Index, Place> {
        let place = self.place_of_sender(session, template);
        self.sender_at(place, session, template).ok_or(place)
    }

    /// Returns the place of the sender with this key.
    #[inline]
    pub(crate) fn place_of_sender(&self, session: &Session, template: &SenderTemplate) -> Place {
        Place(hash_sender(self.hash_key, session, template))
    }

    /// Returns the sender with this key at a known place.
    #[inline]
    pub(crate) fn sender_at(
        &self,
        place: Place,
        session: &Session,
        template: &SenderTemplate,
    ) -> Option<Index> {
        let is_it = |&i: &Index| {
            let psb = self.psb(i);
            psb.template == *template && same_session(&self.session(psb.session).session, session)
        };
        self.senders.find(place.0, is_it).copied()
    }

    /// Inserts a new session; returns `None` if it would mix zero and non-zero destination ports. Existing sessions of
    /// a destination never mix them, so comparing with the first is enough.
    pub(crate) fn insert_session(&mut self, place: Place, session: Session) -> Option<Index> {
        let index = self.session_blocks.vacant_key() as Index;
        let (blocks, key) = (&self.session_blocks, self.hash_key);
        let next = match self.destinations.entry(
            hash_destination(key, &session),
            |&i| same_destination(&blocks[i as usize].session, &session),
            |&i| hash_destination(key, &blocks[i as usize].session),
        ) {
            Entry::Occupied(mut entry) => {
                let first = &blocks[*entry.get() as usize].session;
                if (first.port == 0) != (session.port == 0) {
                    return None;
                }
                core::mem::replace(entry.get_mut(), index)
            }
            Entry::Vacant(entry) => {
                entry.insert(index);
                NONE
            }
        };
        let block = SessionBlock {
            session,
            senders: NONE,
            sender_count: 0,
            distinct: 0,
            pool: NONE,
            next,
            previous: NONE,
        };
        growth::insert(&mut self.session_blocks, block);
        if next != NONE {
            self.session_blocks[next as usize].previous = index;
        }
        let blocks = &self.session_blocks;
        self.sessions
            .insert_unique(place.0, index, |&i| hash_session(key, &blocks[i as usize].session));
        Some(index)
    }

    /// Removes a session without senders.
    pub(crate) fn remove_session(&mut self, index: Index) {
        let SessionBlock { session, next, previous, .. } = *self.session(index);
        let hash = self.hash_session(&session);
        if let Ok(entry) = self.sessions.find_entry(hash, |&i| i == index) {
            entry.remove();
        }
        if next != NONE {
            self.session_blocks[next as usize].previous = previous;
        }
        if previous != NONE {
            self.session_blocks[previous as usize].next = next;
        } else if let Ok(mut entry) =
            self.destinations.find_entry(hash_destination(self.hash_key, &session), |&i| i == index)
        {
            if next == NONE {
                entry.remove();
            } else {
                *entry.get_mut() = next;
            }
        }
        self.session_blocks.remove(index as usize);
    }

    /// Inserts a sender at the head of its session's list. The caller arms its timer.
    #[inline]
    pub(crate) fn insert_sender(&mut self, place: Place, mut psb: Psb) -> Index {
        let block = psb.session;
        let head = self.session(block).senders;
        (psb.next, psb.previous) = (head, NONE);
        let index = growth::insert(&mut self.psbs, psb);
        let (blocks, psbs, key) = (&self.session_blocks, &self.psbs, self.hash_key);
        self.senders.insert_unique(place.0, index, |&i| {
            let psb = &psbs[i as usize];
            hash_sender(key, &blocks[psb.session as usize].session, &psb.template)
        });
        if head != NONE {
            self.psb_mut(head).previous = index;
        }
        let block = &mut self.session_blocks[block as usize];
        block.senders = index;
        block.sender_count += 1;
        index
    }

    /// Removes the sender at a place, which must have no traffic-control blocks, with its timer, and its session if it
    /// was the last.
    pub(crate) fn remove_sender(&mut self, place: Place, index: Index) -> Psb {
        self.set_message_id(NamedBlock::new(Block::Sender, index), MessageIdKey::NONE);
        let psb = self.psbs.remove(index as usize);
        self.unblock_sender(index);
        if let Ok(entry) = self.senders.find_entry(place.0, |&i| i == index) {
            entry.remove();
        }
        if psb.next != NONE {
            self.psb_mut(psb.next).previous = psb.previous;
        }
        if psb.previous != NONE {
            self.psb_mut(psb.previous).next = psb.next;
        }
        let block = &mut self.session_blocks[psb.session as usize];
        if block.senders == index {
            block.senders = psb.next;
        }
        block.sender_count -= 1;
        let empty = block.sender_count == 0;
        if empty {
            self.remove_session(psb.session);
        }
        if let Some(timer) = psb.timer {
            self.timers.cancel(timer);
        }
        psb
    }

    fn hash_session(&self, session: &Session) -> u64 {
        hash_session(self.hash_key, session)
    }
}

/// Hash of a key that was looked up, so that a following insertion need not compute it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place(u64);

fn chain(head: Index, next: impl Fn(Index) -> Index) -> impl Iterator<Item = Index> {
    let here = |index: Index| if index == NONE { None } else { Some(index) };
    core::iter::successors(here(head), move |&index| here(next(index)))
}

#[cfg(test)]
mod tests {
    extern crate std;
    use core::mem::size_of;

    use super::*;

    /// Memory of one unicast session with one reservation, block by block, without shared parts (the ADSPEC) and
    /// without the spare capacity of growing tables.
    #[test]
    fn block_sizes_are_limited() {
        for (block, size, limit) in [
            ("session", size_of::<SessionBlock>(), 48),
            ("psb", size_of::<Psb>(), 184),
            ("tcsb", size_of::<Tcsb>(), 68),
            ("rsb", size_of::<Rsb>(), 88),
        ] {
            assert!(size <= limit, "a {block} block has {size} octets, more than {limit}");
        }
    }
}
