//! Peers of routing states, each with the interface that leads to it. All sessions share them; an SII-Handle, by which
//! applications name a peer, is its slot.
//!
//! A peer without routing state is kept for a while, so that an application can still notify it that the path has
//! changed (RFC 5971 section 7.1.4).

use alloc::boxed::Box;
use core::net::IpAddr;

use earmark_core::hash::KeyedHash;
use earmark_core::shares::{Bounds, Shares};
use earmark_core::timer::TimerId;
use earmark_core::{InterfaceId, Time};
use earmark_wire::gist::NetworkLayerInformation;
use hashbrown::HashTable;
use slab::Slab;

use super::state::{Index, NONE};
use crate::nslp::PeerHandle;
use crate::tolerated::TolerationCounts;

/// A peer.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// Peer-Identity.
    pub(crate) identity: Box<[u8]>,
    /// Interface-Address.
    pub(crate) address: IpAddr,
    /// Interface that leads to the peer.
    pub(crate) interface: InterfaceId,
    /// Whether the peer is on the link of the interface, and its datagrams have the largest TTL (RFC 5082).
    pub(crate) is_near: bool,
    /// UDP port on which the peer listens.
    pub(crate) port: u16,
    /// Path MTU, octets, as far as it is known.
    pub(crate) mtu: u32,
    /// Halves of routing states and associations with this peer.
    pub(crate) uses: u32,
    /// Generation of the slot.
    generation: u32,
    /// When its last Query, Response or Confirm was received.
    pub(crate) heard: Time,
    /// Deviations that were tolerated.
    pub(crate) tolerated: TolerationCounts,
    /// Removes the peer while nothing uses it.
    pub(crate) timer: Option<TimerId>,
}

impl Peer {
    /// Returns whether `nli` names this peer.
    #[inline]
    pub(crate) fn is(&self, nli: &NetworkLayerInformation<'_>) -> bool {
        self.address == nli.interface_address && *self.identity == *nli.peer_identity
    }
}

/// The peers of the node.
#[derive(Debug)]
pub(crate) struct Peers {
    pub(crate) slab: Slab<Peer>,
    /// Peers by identity, address and interface. The hash is keyed, because peers choose identity and address.
    by_name: HashTable<Index>,
    hash: KeyedHash,
    /// Peers by interface.
    shares: Shares,
    /// Halves of routing states that peers have queried for, by the interface of the peer.
    pub(crate) queried: Shares,
    /// Generation of the last inserted peer.
    generation: u32,
}

impl Peers {
    pub(crate) fn new(hash: KeyedHash) -> Peers {
        Peers {
            slab: Slab::new(),
            by_name: HashTable::new(),
            hash,
            shares: Shares::default(),
            queried: Shares::default(),
            generation: 0,
        }
    }

    pub(crate) fn get(&self, index: Index) -> Option<&Peer> {
        self.slab.get(index as usize)
    }

    pub(crate) fn get_mut(&mut self, index: Index) -> Option<&mut Peer> {
        self.slab.get_mut(index as usize)
    }

    /// Returns the known peer that a message names.
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

    /// Inserts the peer that a message names, which is unknown, if its interface has room.
    pub(crate) fn insert(
        &mut self,
        nli: &NetworkLayerInformation<'_>,
        interface: InterfaceId,
        mtu: u32,
        bounds: Bounds,
        now: Time,
    ) -> Option<Index> {
        if !self.shares.admits(interface, bounds) {
            return None;
        }
        self.shares.add(interface);
        self.generation = self.generation.wrapping_add(1);
        let index = self.slab.insert(Peer {
            identity: nli.peer_identity.into(),
            address: nli.interface_address,
            interface,
            is_near: false,
            port: crate::PORT,
            mtu,
            uses: 0,
            generation: self.generation,
            heard: now,
            tolerated: TolerationCounts::default(),
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
        self.shares.remove(peer.interface);
        let place = hash(&self.hash, &peer.identity, peer.address, peer.interface);
        if let Ok(entry) = self.by_name.find_entry(place, |&other| other == index) {
            entry.remove();
        }
        Some(peer)
    }

    /// Returns the handle of a peer for applications.
    #[inline]
    pub(crate) fn handle(&self, index: Index) -> Option<PeerHandle> {
        let peer = self.get(index)?;
        Some(PeerHandle { slot: index, generation: peer.generation })
    }

    /// Returns the peer of a handle.
    pub(crate) fn by_handle(&self, handle: PeerHandle) -> Option<Index> {
        let peer = self.get(handle.slot)?;
        (handle.slot != NONE && peer.generation == handle.generation).then_some(handle.slot)
    }
}

/// Hashes a peer, 24 octets of the identity at a time, usually all of it.
fn hash(key: &KeyedHash, identity: &[u8], address: IpAddr, interface: InterfaceId) -> u64 {
    let (address, is_six) = match address {
        IpAddr::V4(address) => (address.to_bits().into(), 0),
        IpAddr::V6(address) => (address.to_bits(), 1 << 63),
    };
    // Padding after the identity is zero, so the hash must include its length.
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
