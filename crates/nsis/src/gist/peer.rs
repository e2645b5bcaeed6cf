//! The peers: nodes that routing state names, each with the interface it is behind. All sessions share them; what names one
//! to applications, an SII-Handle, is its place here.
//!
//! A peer that no routing state names any more is kept for a while, so that an application can still tell it that its path
//! is another one now (RFC 5971 section 7.1.4).

use alloc::boxed::Box;
use core::net::IpAddr;

use earmark_core::InterfaceId;
use earmark_core::hash::KeyedHash;
use earmark_core::timer::TimerId;
use earmark_wire::gist::NetworkLayerInformation;
use hashbrown::HashTable;
use slab::Slab;

use super::state::{Index, NONE};
use crate::nslp::PeerHandle;

/// A peer.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Peer-Identity.
    pub(crate) identity: Box<[u8]>,
    /// Interface-Address.
    pub(crate) address: IpAddr,
    /// Behind which interface.
    pub(crate) interface: InterfaceId,
    /// The UDP port that it listens on.
    pub(crate) port: u16,
    /// The largest IP packet that reaches it, octets, as far as that is known.
    pub(crate) mtu: u32,
    /// Halves of routing states that name it.
    pub(crate) uses: u32,
    /// How often its place was given away.
    generation: u32,
    /// Ends it, while nothing names it.
    pub(crate) timer: Option<TimerId>,
}

impl Peer {
    /// Whether it is who `nli` names.
    #[inline]
    pub(crate) fn is(&self, nli: &NetworkLayerInformation<'_>) -> bool {
        self.address == nli.interface_address && *self.identity == *nli.peer_identity
    }
}

/// All of them.
#[derive(Debug)]
pub(crate) struct Peers {
    pub(crate) slab: Slab<Peer>,
    /// By identity, address and interface; the first two are what peers say, so that the hash is keyed.
    by_name: HashTable<Index>,
    hash: KeyedHash,
    /// Of the next place that is given away.
    generation: u32,
}

impl Peers {
    pub(crate) fn new(hash: KeyedHash) -> Peers {
        Peers { slab: Slab::new(), by_name: HashTable::new(), hash, generation: 0 }
    }

    pub(crate) fn get(&self, index: Index) -> Option<&Peer> {
        self.slab.get(index as usize)
    }

    pub(crate) fn get_mut(&mut self, index: Index) -> Option<&mut Peer> {
        self.slab.get_mut(index as usize)
    }

    /// The peer that a message names, if it is known.
    pub(crate) fn find(
        &self,
        nli: &NetworkLayerInformation<'_>,
        interface: InterfaceId,
    ) -> Option<Index> {
        let same = |&index: &Index| {
            let peer = &self.slab[index as usize];
            peer.interface == interface && peer.is(nli)
        };
        let place = hash(&self.hash, nli.peer_identity, nli.interface_address, interface);
        self.by_name.find(place, same).copied()
    }

    /// The peer that a message names, which is entered if it is new and there are fewer than `limit`.
    pub(crate) fn obtain(
        &mut self,
        nli: &NetworkLayerInformation<'_>,
        interface: InterfaceId,
        port: Option<u16>,
        mtu: u32,
        limit: u32,
    ) -> Option<Index> {
        if let Some(index) = self.find(nli, interface) {
            let peer = &mut self.slab[index as usize];
            peer.port = port.unwrap_or(peer.port);
            return Some(index);
        }
        if self.slab.len() >= limit as usize {
            return None;
        }
        self.generation = self.generation.wrapping_add(1);
        let index = self.slab.insert(Peer {
            identity: nli.peer_identity.into(),
            address: nli.interface_address,
            interface,
            port: port.unwrap_or(crate::PORT),
            mtu,
            uses: 0,
            generation: self.generation,
            timer: None,
        }) as Index;
        let (slab, keyed) = (&self.slab, &self.hash);
        let place = hash(keyed, nli.peer_identity, nli.interface_address, interface);
        let hasher = |&other: &Index| {
            let peer: &Peer = &slab[other as usize];
            hash(keyed, &peer.identity, peer.address, peer.interface)
        };
        self.by_name.insert_unique(place, index, hasher);
        Some(index)
    }

    pub(crate) fn remove(&mut self, index: Index) -> Option<Peer> {
        let peer = self.slab.try_remove(index as usize)?;
        let place = hash(&self.hash, &peer.identity, peer.address, peer.interface);
        if let Ok(entry) = self.by_name.find_entry(place, |&other| other == index) {
            entry.remove();
        }
        Some(peer)
    }

    /// Its name for applications.
    #[inline]
    pub(crate) fn handle(&self, index: Index) -> Option<PeerHandle> {
        let peer = self.get(index)?;
        Some(PeerHandle { slot: index, generation: peer.generation })
    }

    /// The peer that an application names.
    pub(crate) fn by_handle(&self, handle: PeerHandle) -> Option<Index> {
        let peer = self.get(handle.slot)?;
        (handle.slot != NONE && peer.generation == handle.generation).then_some(handle.slot)
    }
}

/// Three words of an identity at a time, and as a rule all of it.
fn hash(key: &KeyedHash, identity: &[u8], address: IpAddr, interface: InterfaceId) -> u64 {
    let (address, is_six) = match address {
        IpAddr::V4(address) => (address.to_bits().into(), 0),
        IpAddr::V6(address) => (address.to_bits(), 1 << 63),
    };
    // What is behind the end of an identity counts as zeros, so that its length must count too.
    let mut hash = is_six | (identity.len() as u64) << 32 | u64::from(interface.0);
    let mut rest = identity;
    loop {
        let (now, later) = rest.split_at(rest.len().min(24));
        let mut words = [[0; 8]; 3];
        words.as_flattened_mut()[..now.len()].copy_from_slice(now);
        let [a, b, c] = words.map(u64::from_be_bytes);
        hash = key.of_six([(address >> 64) as u64, address as u64, hash, a, b, c]);
        if later.is_empty() {
            return hash;
        }
        rest = later;
    }
}
