//! The slabs of state blocks and the indexes into them.
//!
//! | index | key | cardinality | who chooses the key |
//! |---|---|---|---|
//! | `senders` | (session, sender template) | one a [`Psb`] | peers, so SipHash with a random key |
//! | `sessions` | session | one a [`SessionBlock`] | peers, likewise |
//! | `destinations` | (address, protocol) | one a destination, the first of its sessions | peers, likewise |
//! | `neighbors_by_address` | (interface, address) | one a neighbour | an ordered map |
//!
//! No index is ever walked; what is listed is listed in slab order, so that order never depends on a hash.

use alloc::collections::BTreeMap;
use core::net::IpAddr;

use earmark_core::timer::TimingWheel;
use earmark_core::{InterfaceId, Time};
use earmark_wire::rsvp::{RsvpHop, SenderTemplate, Session, SourceSelector};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use siphasher::sip::SipHasher13;
use slab::Slab;

use crate::state::{
    Block, Index, NONE, Neighbor, Origin, Peer, Psb, Rsb, SessionBlock, Tcsb, Timer,
};

/// All state of one engine.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) session_blocks: Slab<SessionBlock>,
    pub(crate) psbs: Slab<Psb>,
    pub(crate) tcsbs: Slab<Tcsb>,
    pub(crate) rsbs: Slab<Rsb>,
    pub(crate) neighbors: Slab<Neighbor>,
    pub(crate) timers: TimingWheel<Timer>,
    sessions: HashTable<Index>,
    senders: HashTable<Index>,
    destinations: HashTable<Index>,
    neighbors_by_address: BTreeMap<(InterfaceId, IpAddr), Index>,
    hash_key: (u64, u64),
}

impl Store {
    /// An empty store whose indexes hash with `hash_key`.
    pub(crate) fn new(hash_key: (u64, u64)) -> Store {
        Store {
            session_blocks: Slab::new(),
            psbs: Slab::new(),
            tcsbs: Slab::new(),
            rsbs: Slab::new(),
            neighbors: Slab::new(),
            timers: TimingWheel::new(),
            sessions: HashTable::new(),
            senders: HashTable::new(),
            destinations: HashTable::new(),
            neighbors_by_address: BTreeMap::new(),
            hash_key,
        }
    }

    pub(crate) fn session(&self, index: Index) -> &SessionBlock {
        &self.session_blocks[index as usize]
    }

    pub(crate) fn psb(&self, index: Index) -> &Psb {
        &self.psbs[index as usize]
    }

    pub(crate) fn psb_mut(&mut self, index: Index) -> &mut Psb {
        &mut self.psbs[index as usize]
    }

    pub(crate) fn tcsb(&self, index: Index) -> &Tcsb {
        &self.tcsbs[index as usize]
    }

    pub(crate) fn tcsb_mut(&mut self, index: Index) -> &mut Tcsb {
        &mut self.tcsbs[index as usize]
    }

    pub(crate) fn rsb(&self, index: Index) -> &Rsb {
        &self.rsbs[index as usize]
    }

    pub(crate) fn rsb_mut(&mut self, index: Index) -> &mut Rsb {
        &mut self.rsbs[index as usize]
    }

    /// The key of the session that a sender belongs to.
    pub(crate) fn session_of(&self, psb: Index) -> Session {
        self.session(self.psb(psb).session).session
    }

    /// The session with this key.
    pub(crate) fn find_session(&self, session: &Session) -> Option<Index> {
        let hash = self.hash_session(session);
        self.sessions.find(hash, |&i| same_session(&self.session(i).session, session)).copied()
    }

    /// The sender with this key.
    #[inline]
    pub(crate) fn find_sender(
        &self,
        session: &Session,
        template: &SenderTemplate,
    ) -> Option<Index> {
        let hash = self.hash_sender(session, template);
        self.senders
            .find(hash, |&i| {
                let psb = self.psb(i);
                psb.template == *template
                    && same_session(&self.session(psb.session).session, session)
            })
            .copied()
    }

    /// Enters a session that is not there yet; `None` where it would mix zero and non-zero destination ports. The
    /// sessions of a destination never do, so the first of them speaks for all.
    pub(crate) fn insert_session(&mut self, session: Session) -> Option<Index> {
        grow(&mut self.session_blocks);
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
        let block = SessionBlock { session, senders: NONE, sender_count: 0, next, previous: NONE };
        self.session_blocks.insert(block);
        if next != NONE {
            self.session_blocks[next as usize].previous = index;
        }
        let blocks = &self.session_blocks;
        self.sessions.insert_unique(hash_session(key, &session), index, |&i| {
            hash_session(key, &blocks[i as usize].session)
        });
        Some(index)
    }

    /// Takes a session without senders out.
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

    /// Enters a sender at the head of its session's list. Its timer is armed by the caller.
    pub(crate) fn insert_sender(&mut self, psb: Psb) -> Index {
        let block = psb.session;
        let head = self.session(block).senders;
        let hash = self.hash_sender(&self.session(block).session, &psb.template);
        grow(&mut self.psbs);
        let index = self.psbs.insert(Psb { next: head, previous: NONE, ..psb }) as Index;
        let (blocks, psbs, key) = (&self.session_blocks, &self.psbs, self.hash_key);
        self.senders.insert_unique(hash, index, |&i| {
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

    /// Takes a sender without traffic-control blocks out, its timer with it, and its session if it was the last.
    pub(crate) fn remove_sender(&mut self, index: Index) -> Psb {
        let psb = self.psbs.remove(index as usize);
        let session = self.session(psb.session).session;
        let hash = self.hash_sender(&session, &psb.template);
        if let Ok(entry) = self.senders.find_entry(hash, |&i| i == index) {
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

    /// The senders of a session.
    pub(crate) fn senders_of(&self, session: Index) -> impl Iterator<Item = Index> {
        let head = self.session(session).senders;
        chain(head, |i| self.psb(i).next)
    }

    /// The traffic-control blocks of a sender.
    pub(crate) fn tcsbs_of(&self, psb: Index) -> impl Iterator<Item = Index> {
        let head = self.psb(psb).tcsbs;
        chain(head, |i| self.tcsb(i).next)
    }

    /// The reservation requests merged into a traffic-control block.
    pub(crate) fn rsbs_of(&self, tcsb: Index) -> impl Iterator<Item = Index> {
        let head = self.tcsb(tcsb).rsbs;
        chain(head, |i| self.rsb(i).next)
    }

    /// The traffic-control block of a sender on an outgoing interface.
    #[inline]
    pub(crate) fn find_tcsb(&self, psb: Index, outgoing: Option<InterfaceId>) -> Option<Index> {
        self.tcsbs_of(psb).find(|&i| self.tcsb(i).outgoing == outgoing)
    }

    /// The reservation request of a next hop, or an application, in a traffic-control block.
    #[inline]
    pub(crate) fn find_rsb(&self, tcsb: Index, origin: Origin) -> Option<Index> {
        self.rsbs_of(tcsb).find(|&i| self.origin(self.rsb(i).hop) == origin)
    }

    /// The first traffic-control block of a sender.
    pub(crate) fn first_tcsb(&self, psb: Index) -> Option<Index> {
        Some(self.psb(psb).tcsbs).filter(|&index| index != NONE)
    }

    /// The first reservation request of a traffic-control block.
    pub(crate) fn first_rsb(&self, tcsb: Index) -> Option<Index> {
        Some(self.tcsb(tcsb).rsbs).filter(|&index| index != NONE)
    }

    /// The reservation request after this one.
    pub(crate) fn next_rsb(&self, rsb: Index) -> Option<Index> {
        Some(self.rsb(rsb).next).filter(|&index| index != NONE)
    }

    /// Enters a traffic-control block at the head of its sender's list.
    pub(crate) fn insert_tcsb(&mut self, mut tcsb: Tcsb) -> Index {
        let psb = tcsb.psb;
        tcsb.next = self.psb(psb).tcsbs;
        grow(&mut self.tcsbs);
        let index = self.tcsbs.insert(tcsb) as Index;
        self.psb_mut(psb).tcsbs = index;
        index
    }

    /// Takes a traffic-control block without reservation requests out.
    pub(crate) fn remove_tcsb(&mut self, index: Index) -> Tcsb {
        let tcsb = self.tcsbs.remove(index as usize);
        if self.psb(tcsb.psb).tcsbs == index {
            self.psb_mut(tcsb.psb).tcsbs = tcsb.next;
        } else {
            let before = self.tcsbs_of(tcsb.psb).find(|&i| self.tcsb(i).next == index);
            if let Some(before) = before {
                self.tcsb_mut(before).next = tcsb.next;
            }
        }
        tcsb
    }

    /// Enters a reservation request at the head of its traffic-control block's list.
    pub(crate) fn insert_rsb(&mut self, rsb: Rsb) -> Index {
        let tcsb = rsb.tcsb;
        let next = self.tcsb(tcsb).rsbs;
        grow(&mut self.rsbs);
        let index = self.rsbs.insert(Rsb { next, ..rsb }) as Index;
        self.tcsb_mut(tcsb).rsbs = index;
        index
    }

    /// Takes a reservation request out, its timer with it.
    pub(crate) fn remove_rsb(&mut self, index: Index) -> Rsb {
        let rsb = self.rsbs.remove(index as usize);
        if self.tcsb(rsb.tcsb).rsbs == index {
            self.tcsb_mut(rsb.tcsb).rsbs = rsb.next;
        } else {
            let before = self.rsbs_of(rsb.tcsb).find(|&i| self.rsb(i).next == index);
            if let Some(before) = before {
                self.rsb_mut(before).next = rsb.next;
            }
        }
        if let Some(timer) = rsb.timer {
            self.timers.cancel(timer);
        }
        rsb
    }

    /// Who a peer is.
    #[inline]
    pub(crate) fn origin(&self, peer: Peer) -> Origin {
        match peer {
            Peer::Neighbor { index, lih } => {
                let neighbor = &self.neighbors[index as usize];
                Origin::Neighbor(neighbor.interface, RsvpHop { address: neighbor.address, lih })
            }
            Peer::Local(application) => Origin::Local(application),
        }
    }

    /// The neighbour that a peer is, if it is one, and the interface it is behind.
    #[inline]
    pub(crate) fn neighbor_of(&self, peer: Peer) -> Option<(InterfaceId, RsvpHop)> {
        match self.origin(peer) {
            Origin::Neighbor(interface, hop) => Some((interface, hop)),
            Origin::Local(_) => None,
        }
    }

    /// A peer to be kept in a state block; a neighbour is entered if it is new, and one block more hangs on it.
    pub(crate) fn meet(&mut self, origin: Origin, block: Block, now: Time) -> Peer {
        let (interface, hop) = match origin {
            Origin::Neighbor(interface, hop) => (interface, hop),
            Origin::Local(application) => return Peer::Local(application),
        };
        let neighbors = &mut self.neighbors;
        let address = hop.address;
        let index = *self.neighbors_by_address.entry((interface, address)).or_insert_with(|| {
            let new = Neighbor { interface, address, senders: 0, reservations: 0, heard: now };
            neighbors.insert(new) as Index
        });
        let neighbor = &mut self.neighbors[index as usize];
        neighbor.heard = now;
        *neighbor.count(block) += 1;
        Peer::Neighbor { index, lih: hop.lih }
    }

    /// A block less hangs on a peer; a neighbour without any is forgotten.
    pub(crate) fn part(&mut self, peer: Peer, block: Block) {
        let Peer::Neighbor { index, .. } = peer else { return };
        let neighbor = &mut self.neighbors[index as usize];
        *neighbor.count(block) -= 1;
        if neighbor.senders == 0 && neighbor.reservations == 0 {
            let gone = self.neighbors.remove(index as usize);
            self.neighbors_by_address.remove(&(gone.interface, gone.address));
        }
    }

    /// Notes that a peer gave a sign of life.
    #[inline]
    pub(crate) fn heard(&mut self, peer: Peer, now: Time) {
        if let Peer::Neighbor { index, .. } = peer {
            self.neighbors[index as usize].heard = now;
        }
    }

    fn hash_session(&self, session: &Session) -> u64 {
        hash_session(self.hash_key, session)
    }

    fn hash_sender(&self, session: &Session, template: &SenderTemplate) -> u64 {
        hash_sender(self.hash_key, session, template)
    }
}

/// Makes room for one more block. A slab that doubled would leave half of a large memory empty, so it grows by an
/// eighth, and copies each block some eight times in all.
fn grow<T>(slab: &mut Slab<T>) {
    if slab.len() == slab.capacity() {
        slab.reserve_exact((slab.len() / 8).max(64));
    }
}

fn chain(head: Index, next: impl Fn(Index) -> Index) -> impl Iterator<Item = Index> {
    let here = |index: Index| if index == NONE { None } else { Some(index) };
    core::iter::successors(here(head), move |&index| here(next(index)))
}

fn same_session(a: &Session, b: &Session) -> bool {
    a.port == b.port && a.protocol == b.protocol && a.destination == b.destination
}

fn same_destination(a: &Session, b: &Session) -> bool {
    a.protocol == b.protocol && a.destination == b.destination
}

/// A key as octets: fixed places, so that different keys are different octets. IPv4 keys are short ones.
struct Octets {
    octets: [u8; 40],
    length: usize,
}

impl Octets {
    fn of_destination(address: IpAddr, protocol: u8) -> Octets {
        let mut key = Octets { octets: [0; 40], length: 0 };
        key.push(&[protocol]);
        key.push_address(address);
        key
    }

    fn of_session(session: &Session) -> Octets {
        let mut key = Octets::of_destination(session.destination, session.protocol);
        key.push(&session.port.to_be_bytes());
        key
    }

    fn of_sender(session: &Session, template: &SenderTemplate) -> Octets {
        let mut key = Octets::of_session(session);
        key.push_address(template.source);
        match template.selector {
            SourceSelector::Port(port) => key.push(&port.to_be_bytes()),
            SourceSelector::FlowLabel(label) => key.push(&label.to_be_bytes()[1..]),
        }
        key
    }

    fn push_address(&mut self, address: IpAddr) {
        match address {
            IpAddr::V4(address) => self.push(&address.octets()),
            IpAddr::V6(address) => self.push(&address.octets()),
        }
    }

    #[inline]
    fn push(&mut self, octets: &[u8]) {
        self.octets[self.length..self.length + octets.len()].copy_from_slice(octets);
        self.length += octets.len();
    }

    fn hash(&self, key: (u64, u64)) -> u64 {
        SipHasher13::new_with_keys(key.0, key.1).hash(&self.octets[..self.length])
    }
}

fn hash_destination(key: (u64, u64), session: &Session) -> u64 {
    Octets::of_destination(session.destination, session.protocol).hash(key)
}

fn hash_session(key: (u64, u64), session: &Session) -> u64 {
    Octets::of_session(session).hash(key)
}

#[inline]
fn hash_sender(key: (u64, u64), session: &Session, template: &SenderTemplate) -> u64 {
    Octets::of_sender(session, template).hash(key)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use core::mem::size_of;

    use super::*;

    /// What one unicast session with one reservation takes, block by block, without what it borrows on the heap
    /// (the ADSPEC, 92 octets) and without the slack of growing tables.
    #[test]
    fn blocks_stay_small() {
        for (block, size, limit) in [
            ("session", size_of::<SessionBlock>(), 40),
            ("psb", size_of::<Psb>(), 152),
            ("tcsb", size_of::<Tcsb>(), 64),
            ("rsb", size_of::<Rsb>(), 80),
        ] {
            assert!(size <= limit, "a {block} block has {size} octets, more than {limit}");
        }
    }
}
