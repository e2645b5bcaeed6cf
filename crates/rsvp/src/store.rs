//! The slabs of state blocks and the indexes into them.
//!
//! | index | key | cardinality | who chooses the key |
//! |---|---|---|---|
//! | `senders` | (session, sender template) | one a [`Psb`] | peers, so SipHash with a random key |
//! | `sessions` | session | one a [`SessionBlock`] | peers, likewise |
//! | `destinations` | (address, protocol) | one a destination | peers, likewise |
//! | `neighbors_by_address` | (interface, address) | one a neighbour | an ordered map |
//!
//! No index is ever walked; what is listed is listed in slab order, so that order never depends on a hash.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use core::net::IpAddr;

use earmark_core::timer::TimingWheel;
use earmark_core::{InterfaceId, Time};
use earmark_wire::rsvp::{Carried, SenderTemplate, Session, SourceSelector};
use hashbrown::HashTable;
use siphasher::sip::SipHasher13;
use slab::Slab;

use crate::state::{Index, NONE, Neighbor, Peer, Psb, Rsb, SessionBlock, Tcsb, Timer};

/// How the sessions of one destination use ports (RFC 2205 section 3.2, rule 1).
#[derive(Debug)]
struct Destination {
    address: IpAddr,
    protocol: u8,
    without_ports: u32,
    with_ports: u32,
}

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
    destinations: HashTable<Destination>,
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
    pub(crate) fn find_sender(&self, session: &Session, template: &SenderTemplate) -> Option<Index> {
        let hash = self.hash_sender(session, template);
        self.senders
            .find(hash, |&i| {
                let psb = self.psb(i);
                psb.template == *template
                    && same_session(&self.session(psb.session).session, session)
            })
            .copied()
    }

    /// Whether a new session would mix zero and non-zero destination ports.
    pub(crate) fn ports_conflict(&self, session: &Session) -> bool {
        let hash = self.hash_destination(session.destination, session.protocol);
        let found = self.destinations.find(hash, |d| {
            d.address == session.destination && d.protocol == session.protocol
        });
        found.is_some_and(|d| if session.port == 0 { d.with_ports > 0 } else { d.without_ports > 0 })
    }

    /// Enters a session that is not there yet.
    pub(crate) fn insert_session(&mut self, session: Session) -> Index {
        let block = SessionBlock { session, senders: NONE, sender_count: 0 };
        let index = self.session_blocks.insert(block) as Index;
        let hash = self.hash_session(&session);
        let (blocks, key) = (&self.session_blocks, self.hash_key);
        self.sessions.insert_unique(hash, index, |&i| {
            hash_session(key, &blocks[i as usize].session)
        });
        self.count_destination(&session, 1);
        index
    }

    /// Takes a session without senders out.
    pub(crate) fn remove_session(&mut self, index: Index) {
        let session = self.session_blocks.remove(index as usize).session;
        let hash = self.hash_session(&session);
        if let Ok(entry) = self.sessions.find_entry(hash, |&i| i == index) {
            entry.remove();
        }
        self.count_destination(&session, -1);
    }

    /// Enters a sender at the head of its session's list. Its timer is armed by the caller.
    pub(crate) fn insert_sender(&mut self, psb: Psb) -> Index {
        let block = psb.session;
        let head = self.session(block).senders;
        let hash = self.hash_sender(&self.session(block).session, &psb.template);
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
    pub(crate) fn find_rsb(&self, tcsb: Index, peer: Peer) -> Option<Index> {
        self.rsbs_of(tcsb).find(|&i| self.rsb(i).hop == peer)
    }

    /// The first traffic-control block of a sender.
    pub(crate) fn first_tcsb(&self, psb: Index) -> Option<Index> {
        Some(self.psb(psb).tcsbs).filter(|&index| index != NONE)
    }

    /// The first reservation request of a traffic-control block.
    pub(crate) fn first_rsb(&self, tcsb: Index) -> Option<Index> {
        Some(self.tcsb(tcsb).rsbs).filter(|&index| index != NONE)
    }

    /// Enters a traffic-control block at the head of its sender's list.
    pub(crate) fn insert_tcsb(&mut self, tcsb: Tcsb) -> Index {
        let psb = tcsb.psb;
        let next = self.psb(psb).tcsbs;
        let index = self.tcsbs.insert(Tcsb { next, ..tcsb }) as Index;
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

    /// The entry of a neighbour, made if it is new.
    pub(crate) fn neighbor(&mut self, interface: InterfaceId, address: IpAddr, now: Time) -> Index {
        let neighbors = &mut self.neighbors;
        *self.neighbors_by_address.entry((interface, address)).or_insert_with(|| {
            let new = Neighbor { interface, address, senders: 0, reservations: 0, heard: now };
            neighbors.insert(new) as Index
        })
    }

    /// Notes that a neighbour gave a sign of life.
    #[inline]
    pub(crate) fn heard(&mut self, neighbor: Index, now: Time) {
        if let Some(neighbor) = self.neighbors.get_mut(neighbor as usize) {
            neighbor.heard = now;
        }
    }

    /// Counts a sender (`senders`) or reservation of a neighbour in or out; one without any is forgotten.
    pub(crate) fn count_neighbor(&mut self, index: Index, senders: i32, reservations: i32) {
        let Some(neighbor) = self.neighbors.get_mut(index as usize) else { return };
        neighbor.senders = neighbor.senders.saturating_add_signed(senders);
        neighbor.reservations = neighbor.reservations.saturating_add_signed(reservations);
        if neighbor.senders == 0 && neighbor.reservations == 0 {
            let gone = self.neighbors.remove(index as usize);
            self.neighbors_by_address.remove(&(gone.interface, gone.address));
        }
    }

    /// Counts a session of a destination in or out; a destination without any is forgotten.
    fn count_destination(&mut self, session: &Session, by: i32) {
        let (address, protocol) = (session.destination, session.protocol);
        let hash = self.hash_destination(address, protocol);
        let key = self.hash_key;
        let entry = self.destinations.entry(
            hash,
            |d| d.address == address && d.protocol == protocol,
            |d| hash_destination(key, d.address, d.protocol),
        );
        let mut entry = entry.or_insert(Destination { address, protocol, without_ports: 0, with_ports: 0 });
        let destination = entry.get_mut();
        let count = if session.port == 0 {
            &mut destination.without_ports
        } else {
            &mut destination.with_ports
        };
        *count = count.saturating_add_signed(by);
        if destination.with_ports == 0 && destination.without_ports == 0 {
            entry.remove();
        }
    }

    fn hash_session(&self, session: &Session) -> u64 {
        hash_session(self.hash_key, session)
    }

    fn hash_sender(&self, session: &Session, template: &SenderTemplate) -> u64 {
        hash_sender(self.hash_key, session, template)
    }

    fn hash_destination(&self, address: IpAddr, protocol: u8) -> u64 {
        hash_destination(self.hash_key, address, protocol)
    }
}

/// Keeps objects that must be carried on, if there are any.
pub(crate) fn keep(objects: Carried<'_>) -> Option<Box<[u8]>> {
    let mut kept = alloc::vec::Vec::new();
    for object in objects.iter() {
        kept.extend_from_slice(object.bytes);
    }
    if kept.is_empty() { None } else { Some(kept.into_boxed_slice()) }
}

/// Whether what is kept to be carried on is just what a message carries.
#[inline]
pub(crate) fn is_kept(kept: Option<&[u8]>, objects: Carried<'_>) -> bool {
    let mut rest = kept.unwrap_or_default();
    for object in objects.iter() {
        match rest.strip_prefix(object.bytes) {
            Some(after) => rest = after,
            None => return false,
        }
    }
    rest.is_empty()
}

fn chain(head: Index, next: impl Fn(Index) -> Index) -> impl Iterator<Item = Index> {
    let here = |index: Index| if index == NONE { None } else { Some(index) };
    core::iter::successors(here(head), move |&index| here(next(index)))
}

fn same_session(a: &Session, b: &Session) -> bool {
    a.port == b.port && a.protocol == b.protocol && a.destination == b.destination
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

fn hash_destination(key: (u64, u64), address: IpAddr, protocol: u8) -> u64 {
    Octets::of_destination(address, protocol).hash(key)
}

fn hash_session(key: (u64, u64), session: &Session) -> u64 {
    Octets::of_session(session).hash(key)
}

#[inline]
fn hash_sender(key: (u64, u64), session: &Session, template: &SenderTemplate) -> u64 {
    Octets::of_sender(session, template).hash(key)
}
