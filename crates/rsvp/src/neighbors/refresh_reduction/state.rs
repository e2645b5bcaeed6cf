//! State of refresh reduction with all neighbours of a node.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::random::{RandomStreams, Stream};
use earmark_core::timer::TimerId;
use earmark_core::{Effects, InterfaceId, Interfaces, Neighbor, Outgoing, Time};

use super::bundle::{Bundled, Bundler, Envelope};
use super::hello_state::Liveness;
use super::peer::{BundleSupport, Peers};
use super::recent_ids::RecentMessages;
use super::retransmission::RetransmissionQueue;
use super::sent_message_ids::{DeliveryState, SentMessageIds};
use crate::config::{Config, Reduction};
use crate::records::{NeighborView, ReductionView};
use crate::state::{Index, NONE};
use crate::tolerated::Deviations;

/// State of refresh reduction of one node with all its neighbours.
#[derive(Debug)]
pub(crate) struct RefreshReduction {
    pub(super) settings: Reduction,
    pub(super) sent: SentMessageIds,
    pub(super) peers: Peers,
    pub(super) retransmissions: RetransmissionQueue,
    /// Messages without state, by Message_Identifier, until they are acknowledged.
    pub(super) copies: BTreeMap<u32, StoredMessage>,
    /// Errors and confirmations that were handled and may have come from other nodes than their peer.
    pub(super) handled_from_far: RecentMessages,
    /// Peers whose state is to be sent again.
    pub(super) peers_to_resend: Vec<Index>,
    /// Peers with pending acknowledgements.
    pub(super) peers_to_acknowledge: Vec<Index>,
    pub(super) acknowledgement_timer: Option<TimerId>,
    pub(super) retransmission_timer: Option<(TimerId, Time)>,
    /// Earliest time of the next burst of retransmissions.
    pub(super) next_burst: Time,
    /// Whether a message that can be bundled was sent since the last bundling step.
    pub(super) can_bundle: bool,
    pub(super) bundler: Bundler,
    /// Random delays of acknowledgements and summary refreshes.
    pub(super) jitter: Stream,
    /// Random instances of Hello.
    pub(super) instances: Stream,
}

/// Copy of a sent message without state.
#[derive(Debug)]
pub(super) struct StoredMessage {
    /// How it was sent; `neighbor` is the peer that acknowledges it, whether or not messages to it are bundled.
    pub(super) how: Outgoing,
    pub(super) octets: Box<[u8]>,
}

impl RefreshReduction {
    /// Creates the state of refresh reduction. Random numbers come from the streams `rsvp/epoch`, `rsvp/exchange` and
    /// `rsvp/hello`.
    pub(crate) fn new(config: &Config, random: &RandomStreams) -> RefreshReduction {
        RefreshReduction {
            settings: config.reduction.clone(),
            sent: SentMessageIds::new(random.stream("rsvp/epoch").next_u64()),
            peers: Peers::default(),
            retransmissions: RetransmissionQueue::new(&config.reduction.retransmission),
            copies: BTreeMap::new(),
            handled_from_far: RecentMessages::default(),
            peers_to_resend: Vec::new(),
            peers_to_acknowledge: Vec::new(),
            acknowledgement_timer: None,
            retransmission_timer: None,
            next_burst: Time::ZERO,
            can_bundle: false,
            bundler: Bundler::default(),
            jitter: random.stream("rsvp/exchange"),
            instances: random.stream("rsvp/hello"),
        }
    }

    /// Removes an entry because its state has ended, or continues without MESSAGE_ID.
    pub(crate) fn forget(&mut self, entry: Index) {
        if entry != NONE {
            self.unlist(entry);
            self.sent.remove(entry);
        }
    }

    /// Returns whether an entry is acknowledged and in summary refreshes, so that its state needs no refresh messages.
    pub(crate) fn is_listed(&self, entry: Index) -> bool {
        entry != NONE && matches!(self.sent.delivery_state(entry), DeliveryState::Listed { .. })
    }

    /// Returns whether a peer is known to be on this link.
    pub(crate) fn is_near(&self, interface: InterfaceId, address: IpAddr) -> bool {
        let peer = self.peers.find(interface, address).and_then(|index| self.peers.get(index));
        peer.is_some_and(|peer| peer.is_near)
    }

    /// Returns whether a peer uses UDP encapsulation; `None` without a peer at this address.
    pub(crate) fn is_encapsulated(&self, interface: InterfaceId, address: IpAddr) -> Option<bool> {
        let index = self.peers.find(interface, address)?;
        self.peers.get(index).map(|peer| peer.encapsulated)
    }

    /// Returns what refresh reduction knows of a neighbour that has no state.
    pub(crate) fn view(&self, interface: InterfaceId, address: IpAddr) -> NeighborView {
        let peer = self.peers.find(interface, address).and_then(|i| self.peers.get(i));
        NeighborView {
            address,
            interface,
            senders: 0,
            reservations: 0,
            heard: peer.map_or(Time::ZERO, |peer| peer.last_message_at),
            reduction: peer.filter(|peer| peer.capable).map(|peer| ReductionView {
                epoch: peer.epoch,
                summarized: peer.summary_list.len(),
                to_repeat: peer.to_resend.len(),
                summaries_sent: peer.summary_counts.0,
                summaries_received: peer.summary_counts.1,
            }),
            hello: peer.map_or(Liveness::Unknown, |peer| peer.hello.liveness()),
            restart: None,
            tolerated: peer.map_or(Deviations::default(), |peer| peer.deviations),
        }
    }

    /// Returns interface and address of each peer.
    pub(crate) fn addresses(&self) -> impl Iterator<Item = (InterfaceId, IpAddr)> {
        self.peers.addresses()
    }

    /// Returns our epoch and the number of messages waiting for acknowledgement.
    pub(crate) fn epoch_and_unacknowledged(&self) -> (u32, usize) {
        (self.sent.epoch(), self.retransmissions.len())
    }

    /// Bundles messages that were sent to peers.
    pub(crate) fn bundle<E>(&mut self, interfaces: &Interfaces, out: &mut Effects<E>) -> Bundled {
        if !core::mem::take(&mut self.can_bundle) {
            return Bundled::default();
        }
        let (peers, flags) = (&self.peers, self.settings.flags());
        let bundled = self.bundler.bundle(out, |Neighbor { interface, address }| {
            // The peer may have been removed since the message was sent.
            let peer = peers.find(interface, address).and_then(|index| peers.get(index));
            let peer = peer.filter(|peer| peer.capable)?;
            let link = interfaces.by_id(interface)?;
            let (source, mtu) = (link.address_like(address)?, link.mtu);
            Some(Envelope { source, flags, mtu, is_first: peer.bundles == BundleSupport::Untried })
        });
        for (neighbor, id) in self.bundler.first_bundles() {
            let index = self.peers.find(neighbor.interface, neighbor.address);
            if let Some(peer) = index.and_then(|index| self.peers.get_mut(index)) {
                peer.note_bundle(id);
            }
        }
        bundled
    }

    /// Removes an entry from the summary refresh list that it is in.
    pub(super) fn unlist(&mut self, entry: Index) {
        let DeliveryState::Listed { peer, place } = self.sent.delivery_state(entry) else {
            return;
        };
        self.sent.set_delivery_state(entry, DeliveryState::Open);
        let id = self.sent.id(entry);
        let Some(list) = self.peers.get_mut(peer).map(|peer| &mut peer.summary_list) else {
            return;
        };
        for (moved, place) in list.remove(id, place).into_iter().flatten() {
            if let Some(entry) = self.sent.find(moved) {
                self.sent.set_delivery_state(entry, DeliveryState::Listed { peer, place });
            }
        }
    }
}
