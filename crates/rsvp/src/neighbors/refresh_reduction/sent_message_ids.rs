//! MESSAGE_IDs that this node has sent: one entry for each Path or Resv that a neighbour has.
//!
//! Identifiers rise for as long as the node runs, under one epoch (RFC 2961 section 4.5). An entry gets a new
//! identifier with each change of its state, so that an acknowledgement of the state before means nothing.

use alloc::vec::Vec;

use earmark_core::growth;
use hashbrown::HashTable;

use crate::state::{Index, NONE};

/// State that the message of an entry describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Subject {
    /// The Path of this sender.
    Path(Index),
    /// The Resv for this sender, in the fixed-filter style.
    Resv(Index),
    /// The request of this pool to one previous hop.
    Shared(Index),
}

/// Whether the neighbour has acknowledged an entry's message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeliveryState {
    /// Not acknowledged: waiting for retransmission, or given up.
    Open,
    /// Acknowledged by this peer, and in its summary refresh list.
    Listed {
        /// Peer that acknowledged it.
        peer: Index,
        /// Position in the peer's summary refresh list.
        place: u32,
    },
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    /// Message_Identifier; in a vacant entry the next vacant one.
    id: u32,
    /// A [`Subject`] with its kind in the two highest bits.
    subject: u32,
    peer: Index,
    /// Position in the peer's summary refresh list; [`OPEN`] if in none, [`VACANT`] if the entry is vacant.
    place: u32,
}

const OPEN: u32 = u32::MAX;
const VACANT: u32 = u32::MAX - 1;
/// Kinds of subject. Blocks are so large that no index needs these bits.
const RESV: u32 = 1 << 30;
const SHARED: u32 = 2 << 30;
const KINDS: u32 = 3 << 30;

/// Entries of sent MESSAGE_IDs.
#[derive(Debug)]
pub(crate) struct SentMessageIds {
    epoch: u32,
    next: u32,
    /// First identifier that was assigned.
    first_id: u32,
    /// Whether all identifiers were assigned once, so that the next one may still be in use.
    has_wrapped: bool,
    /// Entries and vacant ones; the entries of a slab would be larger by half.
    entries: Vec<Entry>,
    /// First vacant entry.
    vacant: Index,
    /// Index from identifier to entry. This node chooses the identifiers, so any hash will do.
    by_id: HashTable<Index>,
}

impl SentMessageIds {
    /// Creates a table without entries. The epoch is the low 24 bits of `seed`, the first identifier its high half.
    pub(crate) fn new(seed: u64) -> SentMessageIds {
        SentMessageIds {
            epoch: seed as u32 & 0x00ff_ffff,
            next: (seed >> 32) as u32,
            first_id: (seed >> 32) as u32,
            has_wrapped: false,
            entries: Vec::new(),
            vacant: NONE,
            by_id: HashTable::new(),
        }
    }

    pub(crate) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Returns an unused identifier. After 2^32 of them they wrap, and those still in use are skipped.
    pub(crate) fn next_id(&mut self) -> u32 {
        loop {
            let id = self.next;
            self.next = self.next.wrapping_add(1);
            self.has_wrapped |= self.next == self.first_id;
            if !self.has_wrapped || self.find(id).is_none() {
                return id;
            }
        }
    }

    /// Inserts an entry for `subject` with a new identifier.
    pub(crate) fn insert(&mut self, subject: Subject) -> Index {
        let id = self.next_id();
        let subject = match subject {
            Subject::Path(sender) => sender,
            Subject::Resv(sender) => sender | RESV,
            Subject::Shared(pool) => pool | SHARED,
        };
        let stored = Entry { id, subject, peer: 0, place: OPEN };
        let entry = match self.entries.get_mut(self.vacant as usize) {
            Some(vacant) => {
                let next = core::mem::replace(vacant, stored).id;
                core::mem::replace(&mut self.vacant, next)
            }
            None => {
                growth::push(&mut self.entries, stored);
                (self.entries.len() - 1) as Index
            }
        };
        self.index(entry, id);
        entry
    }

    /// Assigns a new identifier to an entry whose state has changed; the entry must be [`DeliveryState::Open`].
    pub(crate) fn renumber(&mut self, entry: Index) -> u32 {
        let id = self.next_id();
        self.unindex(entry);
        self.entries[entry as usize].id = id;
        self.index(entry, id);
        id
    }

    /// Removes an entry, which must be [`DeliveryState::Open`].
    pub(crate) fn remove(&mut self, entry: Index) {
        self.unindex(entry);
        let stored = &mut self.entries[entry as usize];
        debug_assert_eq!(stored.place, OPEN, "the entry is open");
        (stored.id, stored.place) = (self.vacant, VACANT);
        self.vacant = entry;
    }

    /// Returns the entry with this identifier.
    pub(crate) fn find(&self, id: u32) -> Option<Index> {
        self.by_id.find(hash_id(id), |&entry| self.id(entry) == id).copied()
    }

    pub(crate) fn id(&self, entry: Index) -> u32 {
        self.entries[entry as usize].id
    }

    pub(crate) fn subject(&self, entry: Index) -> Subject {
        let subject = self.entries[entry as usize].subject;
        match subject & KINDS {
            0 => Subject::Path(subject),
            RESV => Subject::Resv(subject & !KINDS),
            _ => Subject::Shared(subject & !KINDS),
        }
    }

    pub(crate) fn delivery_state(&self, entry: Index) -> DeliveryState {
        let Entry { peer, place, .. } = self.entries[entry as usize];
        if place == OPEN { DeliveryState::Open } else { DeliveryState::Listed { peer, place } }
    }

    pub(crate) fn set_delivery_state(&mut self, entry: Index, delivery_state: DeliveryState) {
        let stored = &mut self.entries[entry as usize];
        match delivery_state {
            DeliveryState::Open => stored.place = OPEN,
            DeliveryState::Listed { peer, place } => (stored.peer, stored.place) = (peer, place),
        }
    }

    fn index(&mut self, entry: Index, id: u32) {
        let entries = &self.entries;
        let _ = self
            .by_id
            .insert_unique(hash_id(id), entry, |&entry| hash_id(entries[entry as usize].id));
    }

    fn unindex(&mut self, entry: Index) {
        let id = self.id(entry);
        if let Ok(found) = self.by_id.find_entry(hash_id(id), |&other| other == entry) {
            found.remove();
        }
    }
}

/// Spreads consecutive identifiers over all bits of the hash, above all the highest.
fn hash_id(id: u32) -> u64 {
    u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_is_found_by_latest_id_only() {
        let mut ids = SentMessageIds::new(0xffff_fffe_0012_3456);
        assert_eq!(ids.epoch(), 0x12_3456);
        let path = ids.insert(Subject::Path(9));
        let resv = ids.insert(Subject::Resv(9));
        let (first, second) = (ids.id(path), ids.id(resv));
        assert_eq!((first, second), (0xffff_fffe, 0xffff_ffff));
        assert_eq!(ids.renumber(path), 0, "numbers wrap");
        assert_eq!(
            (ids.find(first), ids.find(second), ids.find(0)),
            (None, Some(resv), Some(path))
        );
        assert_eq!((ids.subject(path), ids.subject(resv)), (Subject::Path(9), Subject::Resv(9)));
        ids.remove(resv);
        assert_eq!(ids.find(second), None);
        let entries = [Subject::Shared(1), Subject::Path(2)].map(|subject| ids.insert(subject));
        assert_eq!(entries, [resv, 2], "what is vacant is used first");
        assert_eq!(ids.subject(resv), Subject::Shared(1));
    }

    #[test]
    fn id_in_use_is_skipped_after_wrap() {
        let mut ids = SentMessageIds::new(5 << 32);
        let entry = ids.insert(Subject::Path(0));
        assert_eq!(ids.next_id(), 6);
        ids.next = 4; // after 2^32 identifiers
        assert_eq!([ids.next_id(), ids.next_id()], [4, 6]);
        assert_eq!(ids.find(5), Some(entry));
    }

    #[test]
    fn entry_size_is_limited() {
        assert!(size_of::<Entry>() <= 16);
    }
}
