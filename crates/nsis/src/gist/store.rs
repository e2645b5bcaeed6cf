//! The slab of routing states and its indices.
//!
//! | index | key | cardinality | who chooses the key |
//! |---|---|---|---|
//! | `by_key` | MRI, SID, NSLPID | one for each [`RoutingState`] | peers, so a [`KeyedHash`] |
//! | `by_destination` | destination of the flow | the first of a list for each destination | [`Destinations`], in order |

use core::net::IpAddr;

use earmark_core::growth;
use earmark_core::hash::KeyedHash;
use earmark_core::memory::octets;
use earmark_core::timer::TimingWheel;
use earmark_wire::gist::Mri;
use hashbrown::HashTable;
use slab::Slab;

use super::destinations::Destinations;
use super::state::{Half, HalfId, Index, Key, NONE, Queue, RoutingState, Timer};

/// All routing states.
#[derive(Debug)]
pub(crate) struct Store {
    pub(crate) states: Slab<RoutingState>,
    pub(crate) queues: Slab<Queue>,
    pub(crate) timers: TimingWheel<Timer>,
    by_key: HashTable<Index>,
    pub(crate) by_destination: Destinations,
    hash: KeyedHash,
    /// The routing state of the last lookup: a message, and the requests that it causes, are usually about one.
    recent: Index,
}

impl Store {
    /// Returns the octets of the tables on the heap. O(1).
    pub(crate) fn table_octets(&self) -> usize {
        octets([&self.states, &self.queues, &self.timers, &self.by_key])
            + self.by_destination.table_octets()
    }

    /// Creates an empty store whose index hashes with `hash`.
    pub(crate) fn new(hash: KeyedHash) -> Store {
        Store {
            states: Slab::new(),
            queues: Slab::new(),
            timers: TimingWheel::new(),
            by_key: HashTable::new(),
            by_destination: Destinations::default(),
            hash,
            recent: NONE,
        }
    }

    #[inline]
    pub(crate) fn state(&self, index: Index) -> &RoutingState {
        &self.states[index as usize]
    }

    #[inline]
    pub(crate) fn half(&self, place: HalfId) -> &Half {
        self.state(place.index).half(place.direction)
    }

    #[inline]
    pub(crate) fn half_mut(&mut self, place: HalfId) -> &mut Half {
        self.states[place.index as usize].half_mut(place.direction)
    }

    /// Returns a half, if its routing state exists.
    pub(crate) fn get(&self, place: HalfId) -> Option<&Half> {
        self.states.get(place.index as usize).map(|state| state.half(place.direction))
    }

    /// Returns the routing state with this key.
    #[inline]
    pub(crate) fn find(&mut self, key: &Key) -> Option<Index> {
        let same = |&index: &Index| self.state(index).key == *key;
        let found = self.by_key.find(hash(&self.hash, key), same).copied()?;
        self.recent = found;
        Some(found)
    }

    /// Returns the routing state with this key; fast if it is that of the last lookup.
    #[inline]
    pub(crate) fn find_recent(&mut self, key: &Key) -> Option<Index> {
        match self.states.get(self.recent as usize) {
            Some(state) if state.key == *key => Some(self.recent),
            _ => self.find(key),
        }
    }

    /// Inserts a routing state with a new key.
    pub(crate) fn insert(&mut self, key: Key) -> Index {
        if self.states.len() == self.states.capacity() {
            self.states.reserve_exact(growth::step(self.states.len()));
        }
        let index = self.states.insert(RoutingState::new(key)) as Index;
        self.recent = index;
        let (states, keyed) = (&self.states, &self.hash);
        let hasher = |&other: &Index| hash(keyed, &states[other as usize].key);
        self.by_key.insert_unique(hash(keyed, &key), index, hasher);
        let first = self.by_destination.set(key.mri.addresses().1, index).unwrap_or(NONE);
        self.states[index as usize].next = first;
        if let Some(first) = self.states.get_mut(first as usize) {
            first.previous = index;
        }
        index
    }

    /// Removes a routing state; both halves must be idle.
    pub(crate) fn remove(&mut self, index: Index) {
        let RoutingState { ref key, next, previous, .. } = self.states[index as usize];
        let place = hash(&self.hash, key);
        if let Ok(entry) = self.by_key.find_entry(place, |&other| other == index) {
            entry.remove();
        }
        let destination = key.mri.addresses().1;
        if let Some(next) = self.states.get_mut(next as usize) {
            next.previous = previous;
        }
        match self.states.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None if next == NONE => self.by_destination.remove(destination),
            None => {
                self.by_destination.set(destination, next);
            }
        }
        self.states.remove(index as usize);
    }
}

/// Hashes a key. Session identifiers should be random, but peers are not trusted: every field counts.
#[inline]
fn hash(hash: &KeyedHash, key: &Key) -> u64 {
    let session = u128::from_be_bytes(key.session.0);
    let [high, low] = halves(session);
    let (details, kind) = details(key);
    match key.mri.addresses() {
        (IpAddr::V4(source), IpAddr::V4(destination)) => {
            let addresses = u64::from(source.to_bits()) << 32 | u64::from(destination.to_bits());
            hash.of_six([high, low, addresses, details, kind, 0])
        }
        (source, destination) => {
            let [source, destination] = [source, destination].map(|address| match address {
                IpAddr::V4(address) => address.to_ipv6_mapped().to_bits(),
                IpAddr::V6(address) => address.to_bits(),
            });
            let ([a, b], [c, d]) = (halves(source), halves(destination));
            hash.of_six([hash.of_six([high, low, a, b, c, d]), details, kind, 0, 0, 1])
        }
    }
}

fn halves(bits: u128) -> [u64; 2] {
    [(bits >> 64) as u64, bits as u64]
}

/// Returns the fields of a key besides session and addresses. A missing field counts as zero.
fn details(key: &Key) -> (u64, u64) {
    let nslpid = u64::from(key.nslpid);
    let Mri::PathCoupled(mri) = &key.mri else { return (0, nslpid << 48 | 1) };
    let ports = u32::from(mri.source_port.unwrap_or_default()) << 16
        | u32::from(mri.destination_port.unwrap_or_default());
    // An SPI excludes ports.
    let selector = ports ^ mri.spi.unwrap_or_default();
    let kind = nslpid << 48
        | u64::from(mri.protocol.unwrap_or_default()) << 40
        | u64::from(mri.ds_field.unwrap_or_default()) << 32
        | u64::from(mri.source_prefix) << 24
        | u64::from(mri.destination_prefix) << 16;
    (u64::from(selector) << 32 | u64::from(mri.flow_label.unwrap_or_default()), kind)
}
