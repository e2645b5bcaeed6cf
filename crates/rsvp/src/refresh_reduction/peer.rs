//! Peers: neighbours that support refresh reduction or Hello, with their capabilities and pending messages.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use earmark_core::timer::TimerId;
use earmark_core::{Interface, InterfaceId, Neighbor, Rate, Time};
use earmark_wire::rsvp::{Acknowledgement, AcknowledgementKind};
use slab::Slab;

use super::hello::HelloState;
use super::summary_refresh_list::SummaryRefreshList;
use crate::state::Index;

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) interface: InterfaceId,
    pub(crate) address: IpAddr,
    /// Time of the last message from the peer.
    pub(crate) last_message_at: Time,
    /// Whether the peer has sent a message with the largest TTL, so that it is on this link.
    pub(crate) is_near: bool,
    /// Whether the last message came inside UDP (RFC 2205 appendix C).
    pub(crate) encapsulated: bool,
    /// Whether the last message had the flag Refresh-Reduction-Capable.
    pub(crate) capable: bool,
    /// Epoch of the last message with MESSAGE_ID.
    pub(crate) epoch: Option<u32>,
    /// Longest R announced in this epoch, milliseconds. It determines the lifetime of state that a summary refresh
    /// refreshes.
    pub(crate) refresh_ms: u32,
    /// Pending acknowledgements.
    pub(crate) pending_acknowledgements: Vec<Acknowledgement>,
    /// Message_Identifiers that the peer has acknowledged and that summary refreshes contain.
    pub(crate) summary_list: SummaryRefreshList,
    /// Local end of the link, as the messages of the listed state describe it.
    pub(crate) local_end: Option<LinkEnd>,
    /// Message_Identifiers whose state is to be sent again, the last first.
    pub(crate) to_resend: Vec<u32>,
    /// Timer of the next summary refresh; `None` if the list is empty.
    pub(crate) summary_timer: Option<TimerId>,
    pub(crate) hello: HelloState,
    /// Numbers of summary refreshes sent and received.
    pub(crate) summary_counts: (u64, u64),
}

/// Interface properties that messages to a neighbour contain or depend on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LinkEnd {
    address: Option<IpAddr>,
    up: bool,
    mtu: u32,
    bandwidth: Rate,
    reservable: Rate,
    latency_us: u32,
}

impl LinkEnd {
    /// Returns the local end of the link for messages to a neighbour address.
    pub(crate) fn towards(neighbor: IpAddr, interface: &Interface) -> LinkEnd {
        LinkEnd {
            address: interface.address_like(neighbor),
            up: interface.up,
            mtu: interface.mtu,
            bandwidth: interface.bandwidth,
            reservable: interface.reservable,
            latency_us: interface.latency_us,
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up
    }

    /// Returns whether messages built for one end are valid for the other. Linux announces that a link is up some time
    /// after the link has begun to carry packets.
    pub(crate) fn is_equivalent(&self, other: &LinkEnd) -> bool {
        *self == LinkEnd { up: self.up, ..*other }
    }
}

impl Peer {
    fn new(interface: InterfaceId, address: IpAddr) -> Peer {
        Peer {
            interface,
            address,
            last_message_at: Time::ZERO,
            is_near: false,
            encapsulated: false,
            capable: false,
            epoch: None,
            refresh_ms: 0,
            pending_acknowledgements: Vec::new(),
            summary_list: SummaryRefreshList::default(),
            local_end: None,
            to_resend: Vec::new(),
            summary_timer: None,
            hello: HelloState::default(),
            summary_counts: (0, 0),
        }
    }

    /// Returns the location of the peer.
    pub(crate) fn location(&self) -> Neighbor {
        Neighbor { interface: self.interface, address: self.address }
    }

    /// Adds a pending acknowledgement unless the limit is reached, in which case the sender retransmits its message.
    /// Returns whether it is the first one.
    pub(crate) fn queue_acknowledgement(
        &mut self,
        kind: AcknowledgementKind,
        epoch: u32,
        id: u32,
    ) -> bool {
        if self.pending_acknowledgements.len() < MAX_PENDING {
            self.pending_acknowledgements.push(Acknowledgement { kind, epoch, id });
        }
        self.pending_acknowledgements.len() == 1
    }

    /// Removes the acknowledgement that was added last, if it is still pending. Returns whether none is pending now.
    pub(crate) fn cancel_acknowledgement(
        &mut self,
        kind: AcknowledgementKind,
        epoch: u32,
        id: u32,
    ) -> bool {
        self.pending_acknowledgements
            .pop_if(|last| *last == Acknowledgement { kind, epoch, id })
            .is_some()
            && self.pending_acknowledgements.is_empty()
    }

    /// Returns whether the peer has no state except its capabilities.
    pub(super) fn is_idle(&self) -> bool {
        self.summary_list.is_empty()
            && self.pending_acknowledgements.is_empty()
            && self.to_resend.is_empty()
            && self.summary_timer.is_none()
            && self.hello.is_idle()
    }
}

/// Limit of pending acknowledgements of one peer. An Srefresh of maximum length could cause four times as many.
const MAX_PENDING: usize = 4_096;

/// Peers by index, and by interface and address.
#[derive(Debug, Default)]
pub(crate) struct Peers {
    slab: Slab<Peer>,
    by_address: BTreeMap<(InterfaceId, IpAddr), Index>,
}

impl Peers {
    pub(crate) fn is_empty(&self) -> bool {
        self.slab.is_empty()
    }

    #[inline]
    pub(crate) fn find(&self, interface: InterfaceId, address: IpAddr) -> Option<Index> {
        if self.slab.is_empty() {
            return None;
        }
        self.by_address.get(&(interface, address)).copied()
    }

    /// Returns the peer at an address, inserting a new one if necessary. At the limit `most` the first idle peer is
    /// replaced; returns `None` if no peer is idle.
    pub(crate) fn find_or_insert(
        &mut self,
        interface: InterfaceId,
        address: IpAddr,
        most: usize,
    ) -> Option<Index> {
        if let Some(index) = self.find(interface, address) {
            return Some(index);
        }
        if self.slab.len() >= most {
            let idle = self.slab.iter().find(|(_, peer)| peer.is_idle()).map(|(i, _)| i)?;
            let gone = self.slab.remove(idle);
            self.by_address.remove(&(gone.interface, gone.address));
        }
        let index = self.slab.insert(Peer::new(interface, address)) as Index;
        self.by_address.insert((interface, address), index);
        Some(index)
    }

    pub(crate) fn addresses(&self) -> impl Iterator<Item = (InterfaceId, IpAddr)> {
        self.by_address.keys().copied()
    }

    /// Returns all peers in order of their addresses.
    pub(crate) fn all(&self) -> Vec<Index> {
        self.by_address.values().copied().collect()
    }

    /// Returns the peers behind an interface.
    pub(crate) fn behind(&self, interface: InterfaceId) -> Vec<Index> {
        let first = (interface, IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        let all = self.by_address.range(first..);
        all.take_while(|(key, _)| key.0 == interface).map(|(_, &index)| index).collect()
    }

    pub(crate) fn get(&self, index: Index) -> Option<&Peer> {
        self.slab.get(index as usize)
    }

    pub(crate) fn get_mut(&mut self, index: Index) -> Option<&mut Peer> {
        self.slab.get_mut(index as usize)
    }
}
