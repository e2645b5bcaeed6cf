//! Refresh reduction with all neighbours of a node (RFC 2961), and Hello (RFC 3209 section 5).
//!
//! # Sending
//!
//! A Path or Resv to a neighbour that supports refresh reduction has a MESSAGE_ID. [`SentMessageIds`] stores the state
//! that each identifier stands for. Changed state gets a new identifier and waits in the [`RetransmissionQueue`] for
//! its acknowledgement. A retransmission is built from the state, since no copy is stored. Once acknowledged, the
//! identifier is in the neighbour's [`SummaryRefreshList`](summary_refresh_list::SummaryRefreshList), the state has no
//! refresh messages any more, and in each refresh interval a few Srefresh messages contain the whole list. A neighbour
//! that answers with a MESSAGE_ID NACK, or shows by a new epoch that it has restarted, gets the state again. State
//! that was never acknowledged is refreshed as in RFC 2205.
//!
//! Tears, errors and confirmations have no state to build them from: a copy of each is stored until it is
//! acknowledged.
//!
//! Messages that several inputs cause for one neighbour can be sent in one datagram: see [`Bundler`].
//!
//! # Receiving
//!
//! State blocks store the MESSAGE_ID of the neighbour's last message about them, and the
//! [`MessageIdIndex`](message_id_key::MessageIdIndex) finds them by it. A message that arrives after a later one is
//! dropped. An identifier in an Srefresh counts like the message itself.
//!
//! # Odd cases
//!
//! - **The next hop** is known from the route. A Path to a next hop that has sent nothing yet has no MESSAGE_ID, since
//!   a node that does not know the class would reject it. Its first message shows what the node supports.
//! - **A neighbour stops refresh reduction**: its state is sent once more, without MESSAGE_ID, and refreshed as in RFC
//!   2205.
//! - **A refused message** is not acknowledged. The error shows that it arrived, and its state is refreshed by
//!   messages until it is accepted.
//! - **A Resv for several senders** of the fixed-filter style, from another implementation, has one identifier for several
//!   states, which all of them keep. When one of them ends or changes by another message, the identifier stands for none,
//!   so that the next Srefresh with it gets a NACK, and the whole message follows.
//! - **Path messages to groups** have no MESSAGE_ID: the nodes that would have to acknowledge them are unknown (RFC
//!   2961 section 4.7). Summary refreshes of other implementations that list them are processed.

mod acknowledgement;
mod assign_message_id;
mod bundle;
mod hello;
pub(crate) mod message_id_key;
mod peer;
mod receive;
mod recent_ids;
mod resend;
mod retransmission;
mod send;
mod sent_message_ids;
mod summary;
mod summary_refresh_list;

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::random::{RandomStreams, Stream};
use earmark_core::timer::TimerId;
use earmark_core::{Effects, InterfaceId, Interfaces, Neighbor, Outgoing, Time};

use crate::config::{Config, Reduction};
use crate::state::{Index, NONE};
use crate::tolerated::Deviations;
use crate::view::{NeighborView, ReductionView};
pub use bundle::{Bundled, Bundler, Envelope};
pub use hello::Liveness;
use peer::{BundleSupport, Peers};
pub(crate) use receive::unbundled;
use recent_ids::RecentMessages;
use retransmission::RetransmissionQueue;
pub(crate) use send::{OutgoingMessage, SendReason};
use sent_message_ids::{DeliveryState, SentMessageIds};

/// State of refresh reduction of one node with all its neighbours.
#[derive(Debug)]
pub(crate) struct RefreshReduction {
    settings: Reduction,
    sent: SentMessageIds,
    peers: Peers,
    retransmissions: RetransmissionQueue,
    /// Messages without state, by Message_Identifier, until they are acknowledged.
    copies: BTreeMap<u32, StoredMessage>,
    /// Errors and confirmations that were handled and may have come from other nodes than their peer.
    handled_from_far: RecentMessages,
    /// Peers whose state is to be sent again.
    peers_to_resend: Vec<Index>,
    /// Peers with pending acknowledgements.
    peers_to_acknowledge: Vec<Index>,
    acknowledgement_timer: Option<TimerId>,
    retransmission_timer: Option<(TimerId, Time)>,
    /// Earliest time of the next burst of retransmissions.
    next_burst: Time,
    /// Whether a message that can be bundled was sent since the last bundling step.
    can_bundle: bool,
    bundler: Bundler,
    /// Random delays of acknowledgements and summary refreshes.
    jitter: Stream,
    /// Random instances of Hello.
    instances: Stream,
}

/// Copy of a sent message without state.
#[derive(Debug)]
struct StoredMessage {
    /// How it was sent; `neighbor` is the peer that acknowledges it, whether or not messages to it are bundled.
    how: Outgoing,
    octets: Box<[u8]>,
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
    fn unlist(&mut self, entry: Index) {
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
