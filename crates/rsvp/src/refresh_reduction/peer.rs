//! A peer: a neighbour that takes part in refresh reduction, or says Hello; what is known of it, and what waits to be
//! told to it.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use earmark_core::timer::TimerId;
use earmark_core::{Interface, InterfaceId, Rate, Time};
use earmark_wire::rsvp::{Acknowledgement, AcknowledgementKind};
use slab::Slab;

use super::hello::HelloState;
use super::summary_refresh_list::SummaryRefreshList;
use crate::state::Index;

#[derive(Debug)]
pub(crate) struct Peer {
    pub(crate) interface: InterfaceId,
    pub(crate) address: IpAddr,
    /// When it was heard last.
    pub(crate) heard: Time,
    /// Its last message had the flag Refresh-Reduction-Capable.
    pub(crate) capable: bool,
    /// The epoch of its last message that had one.
    pub(crate) epoch: Option<u32>,
    /// The longest R that it has announced in this epoch, milliseconds; what its summary refreshes refresh lives
    /// accordingly.
    pub(crate) refresh_ms: u32,
    /// Acknowledgements that wait to be sent.
    pub(crate) pending: Vec<Acknowledgement>,
    /// What it has acknowledged, and is to be reminded of.
    pub(crate) summary_list: SummaryRefreshList,
    /// Our end of the link, as the messages of the listed state say it.
    pub(crate) end: Option<LinkEnd>,
    /// Numbers that it has acknowledged and then forgotten; they are told anew, the last first.
    pub(crate) to_resend: Vec<u32>,
    /// When the next summary refresh is due; `None` while there is nothing to tell.
    pub(crate) summary: Option<TimerId>,
    pub(crate) hello: HelloState,
    /// Summary refreshes, sent and received.
    pub(crate) summaries: (u64, u64),
}

/// What messages to a neighbour say, or depend on, of the interface that it is behind.
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
    /// As it is for the neighbour at this address.
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

    /// Whether messages that were written for one are good for the other. Linux announces that a link is up some time
    /// after it has begun to carry packets.
    pub(crate) fn is_equivalent(&self, other: &LinkEnd) -> bool {
        *self == LinkEnd { up: self.up, ..*other }
    }
}

impl Peer {
    fn new(interface: InterfaceId, address: IpAddr) -> Peer {
        Peer {
            interface,
            address,
            heard: Time::ZERO,
            capable: false,
            epoch: None,
            refresh_ms: 0,
            pending: Vec::new(),
            summary_list: SummaryRefreshList::default(),
            end: None,
            to_resend: Vec::new(),
            summary: None,
            hello: HelloState::default(),
            summaries: (0, 0),
        }
    }

    /// Notes an acknowledgement to be sent, unless too many wait already: whoever misses it repeats its message.
    /// Gives whether it is the first.
    pub(crate) fn note(&mut self, kind: AcknowledgementKind, epoch: u32, id: u32) -> bool {
        if self.pending.len() < MOST_PENDING {
            self.pending.push(Acknowledgement { kind, epoch, id });
        }
        self.pending.len() == 1
    }

    /// Takes back an acknowledgement that has just been noted, if it still waits. Gives whether none waits now.
    pub(crate) fn retract(&mut self, kind: AcknowledgementKind, epoch: u32, id: u32) -> bool {
        self.pending.pop_if(|last| *last == Acknowledgement { kind, epoch, id }).is_some()
            && self.pending.is_empty()
    }

    /// Nothing would be lost with it but what it can do.
    fn is_idle(&self) -> bool {
        self.summary_list.is_empty()
            && self.pending.is_empty()
            && self.to_resend.is_empty()
            && self.summary.is_none()
            && self.hello.is_idle()
    }
}

/// Acknowledgements that wait for one peer at most. An Srefresh that fills a datagram could ask for four times as
/// many.
const MOST_PENDING: usize = 4_096;

/// All peers, by number and by where they are.
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

    /// The peer at an address, a new one if need be. Where there are `most` already, the first idle one makes room;
    /// `None` where there is none.
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

    /// Everybody, in the order of their addresses.
    pub(crate) fn all(&self) -> Vec<Index> {
        self.by_address.values().copied().collect()
    }

    /// The peers behind an interface.
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
