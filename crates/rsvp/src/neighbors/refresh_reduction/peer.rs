//! Peers: neighbours that support refresh reduction or Hello, with their capabilities and pending messages.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr};

use earmark_core::shares::Shares;
use earmark_core::timer::TimerId;
use earmark_core::{Interface, InterfaceId, Interfaces, Neighbor, Rate, Time};
use earmark_wire::rsvp::{Acknowledgement, AcknowledgementKind};
use slab::Slab;

use super::hello_state::HelloState;
use super::recent_ids::RecentIds;
use super::summary_refresh_list::SummaryRefreshList;
use crate::state::Index;
use crate::tolerated::{Deviations, Tolerated};

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
    /// Errors and confirmations of this epoch that were handled.
    pub(crate) handled: RecentIds,
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
    pub(super) bundles: BundleSupport,
    /// Whether the peer has acknowledged a message in this epoch.
    pub(super) has_acknowledged: bool,
    /// Deviations from RFC 2961.
    pub(crate) deviations: Deviations,
    /// Numbers of summary refreshes sent and received.
    pub(crate) summary_counts: (u64, u64),
}

/// What is known of whether a peer reads Bundles. A node that claims refresh reduction must (RFC 2961 section 3.3), but
/// some do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BundleSupport {
    Untried,
    /// A message with this Message_Identifier was sent in a Bundle, and in no other way.
    Sent(u32),
    /// The peer has acknowledged a message that it has got only in a Bundle, or has sent Bundles.
    Read,
    /// Messages that were sent in a Bundle, or about that time, were not acknowledged. Messages are sent alone until the
    /// peer acknowledges this one, sends a Bundle, or restarts.
    Unread(Option<u32>),
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
            handled: RecentIds::default(),
            refresh_ms: 0,
            pending_acknowledgements: Vec::new(),
            summary_list: SummaryRefreshList::default(),
            local_end: None,
            to_resend: Vec::new(),
            summary_timer: None,
            hello: HelloState::default(),
            bundles: BundleSupport::Untried,
            has_acknowledged: false,
            deviations: Deviations::default(),
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

    /// Returns whether messages to the peer may be bundled.
    pub(super) fn may_bundle(&self) -> bool {
        !matches!(self.bundles, BundleSupport::Unread(_))
    }

    /// Records that a message was sent to the peer in a Bundle for the first time.
    pub(super) fn note_bundle(&mut self, id: u32) {
        if self.bundles == BundleSupport::Untried {
            self.bundles = BundleSupport::Sent(id);
        }
    }

    /// Records that the peer reads Bundles.
    pub(super) fn note_reads_bundles(&mut self) {
        self.bundles = BundleSupport::Read;
        self.deviations.remove(Tolerated::UnreadBundles);
    }

    /// Records that the peer has acknowledged a message.
    pub(super) fn note_acknowledgement(&mut self, id: u32) {
        self.has_acknowledged = true;
        self.deviations.remove(Tolerated::NoAcknowledgements);
        if matches!(self.bundles, BundleSupport::Sent(sent) | BundleSupport::Unread(Some(sent)) if sent == id)
        {
            self.note_reads_bundles();
        }
    }

    /// Records that a message was not acknowledged in time and is sent again. Returns whether this shows a new deviation.
    pub(super) fn note_retransmission(&mut self, id: u32) -> bool {
        let (BundleSupport::Sent(sent) | BundleSupport::Unread(Some(sent))) = self.bundles else {
            return false;
        };
        // An acknowledgement of a message that is sent alone shows nothing.
        self.bundles = BundleSupport::Unread(Some(sent).filter(|&sent| sent != id));
        self.deviations.insert(Tolerated::UnreadBundles)
    }

    /// Records that a message was never acknowledged. Returns whether this shows a new deviation.
    pub(super) fn note_given_up(&mut self) -> bool {
        !self.has_acknowledged && self.deviations.insert(Tolerated::NoAcknowledgements)
    }

    /// Forgets what was known of the previous run of the peer.
    pub(super) fn begin_epoch(&mut self, epoch: u32, refresh_ms: u32) {
        self.epoch = Some(epoch);
        self.handled = RecentIds::default();
        self.refresh_ms = refresh_ms;
        self.bundles = BundleSupport::Untried;
        self.has_acknowledged = false;
        self.deviations = Deviations::default();
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
    /// Peers of each interface.
    shares: Shares,
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

    /// Returns the peer at an address, inserting a new one if necessary. If the interface has no room for another one in a
    /// table of `limit` peers, an idle peer of an interface that is gone is replaced, or one of this interface; returns
    /// `None` if there is none.
    pub(crate) fn find_or_insert(
        &mut self,
        (interface, address): (InterfaceId, IpAddr),
        limit: u32,
        interfaces: &Interfaces,
    ) -> Option<Index> {
        if let Some(index) = self.find(interface, address) {
            return Some(index);
        }
        let count = interfaces.count();
        if !self.shares.has_room(interface, limit, count) {
            let is_of_gone = |peer: &Peer| interfaces.by_id(peer.interface).is_none();
            let mut idle = self.slab.iter().filter(|(_, peer)| peer.is_idle());
            let idle = idle.clone().find(|(_, peer)| is_of_gone(peer)).or_else(|| {
                idle.find(|(_, peer)| peer.interface == interface) // no other port loses a peer
            });
            let (idle, _) = idle?;
            let gone = self.slab.remove(idle);
            self.by_address.remove(&(gone.interface, gone.address));
            self.shares.remove(gone.interface);
            if !self.shares.has_room(interface, limit, count) {
                return None;
            }
        }
        let index = self.slab.insert(Peer::new(interface, address)) as Index;
        self.by_address.insert((interface, address), index);
        self.shares.add(interface);
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

#[cfg(test)]
mod tests {
    use earmark_core::Trust;
    use proptest::prelude::*;

    use super::*;

    fn interfaces(count: u32) -> Interfaces {
        let mut interfaces = Interfaces::default();
        for id in 1..=count {
            interfaces.set(Interface {
                id: InterfaceId(id),
                name: alloc::format!("eth{id}"),
                addresses: Vec::new(),
                mtu: 1_500,
                up: true,
                bandwidth: Rate::ZERO,
                reservable: Rate::ZERO,
                largest: None,
                overhead: 0,
                latency_us: 0,
                trust: Trust::default(),
            });
        }
        interfaces
    }

    fn key((port, host): (u32, u8)) -> (InterfaceId, IpAddr) {
        (InterfaceId(port), Ipv4Addr::new(10, 0, port as u8, host).into())
    }

    proptest! {
        /// A port below its reserve always gets its peer, the table keeps its limit, and a new peer of a port never removes
        /// one of another port, or one that is in use.
        #[test]
        fn new_peer_removes_none_of_another_port(
            steps in prop::collection::vec(((1_u32..5, 0_u8..40), any::<bool>()), 1..300),
            limit in 20_u32..60,
        ) {
            let interfaces = interfaces(4);
            let mut peers = Peers::default();
            let reserve = limit / 4 / 5;
            for ((port, host), is_used) in steps {
                let before: Vec<_> = peers.addresses().collect();
                let of_port = before.iter().filter(|(id, _)| id.0 == port).count() as u32;
                let new = key((port, host));
                let found = peers.find_or_insert(new, limit, &interfaces);
                prop_assert!(found.is_some() || of_port >= reserve);
                if let Some(peer) = found.and_then(|index| peers.get_mut(index)) {
                    prop_assert_eq!((peer.interface, peer.address), new);
                    if is_used {
                        peer.to_resend = alloc::vec![1];
                    }
                }
                prop_assert!(peers.slab.len() as u32 <= limit);
                prop_assert_eq!(peers.slab.len() as u32, peers.shares.total());
                let is_left = |key: &&(InterfaceId, IpAddr)| peers.find(key.0, key.1).is_some();
                let others = before.iter().filter(|key| key.0.0 != port);
                prop_assert!(others.clone().filter(is_left).count() == others.count());
                prop_assert!(before.iter().filter(is_left).count() + 1 >= before.len());
            }
        }
    }

    /// Peers of an interface that is gone leave their places to others.
    #[test]
    fn idle_peers_of_removed_interface_are_replaced() {
        let mut peers = Peers::default();
        for host in 0..20 {
            peers.find_or_insert(key((2, host)), 10, &interfaces(2));
        }
        let left = interfaces(1);
        for host in 0..10 {
            peers.find_or_insert(key((1, host)), 10, &left);
        }
        let of_gone = peers.addresses().filter(|(id, _)| id.0 == 2).count();
        assert!(of_gone <= 1, "{of_gone}");
    }
}
