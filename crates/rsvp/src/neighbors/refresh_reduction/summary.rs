//! Summary refreshes: one Srefresh message refreshes all acknowledged state (RFC 2961 section 5).

use core::net::IpAddr;
use core::time::Duration;

use earmark_core::{Datagram, InterfaceId, Time};
use earmark_wire::rsvp::{AcknowledgementKind, Body, List, RefreshIds, RefreshList, Srefresh};

use super::send::OutgoingMessage;
use crate::api::Event;
use crate::context::HandlerContext;
use crate::counters::DropReason;
use crate::instance::Rsvp;
use crate::state::message_id_key::MessageIdKey;
use crate::state::store::NamedBlock;
use crate::state::{Block, Index, Timer, TimerKind};

/// Octets of a packet for the IP header with options, RSVP headers, INTEGRITY and some acknowledgements; identifiers
/// get the rest.
const OVERHEAD: u32 = 256;

impl Rsvp {
    /// Arms the summary refresh timer of a peer that has acknowledged a message, unless it is armed already.
    pub(super) fn arm_summary(&mut self, now: Time, index: Index) {
        let Some(peer) = self.refresh_reduction.peers.get(index) else { return };
        let refresh = self.config.timing(peer.interface).refresh_ms();
        self.begin_summaries(now, index, Duration::from_millis(refresh.into()));
    }

    /// Begins a round of summary refreshes of this length to a peer, unless one is in progress.
    pub(super) fn begin_summaries(&mut self, now: Time, index: Index, length: Duration) {
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        if peer.summary_timer.is_some() || peer.summary_list.is_empty() {
            return;
        }
        peer.summary_list.begin_round(now, length);
        let timer = Timer { kind: TimerKind::Summary, block: index };
        peer.summary_timer =
            Some(self.store.timers.arm(peer.summary_list.due(now, usize::MAX), timer));
    }

    /// Handles the summary refresh timer of a peer.
    pub(crate) fn summary_due<E>(&mut self, cx: &mut HandlerContext<'_, '_, E>, index: Index) {
        let now = cx.now;
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        peer.summary_timer = None;
        let (interface, address) = (peer.interface, peer.address);
        // Summaries to a neighbour that restarts begin again with its return, or its loss (RFC 3473 section 9.3).
        if peer.summary_list.is_empty() || self.graceful_restart.is_restarting((interface, address))
        {
            return;
        }
        let link = cx.context.interfaces.by_id(interface);
        if peer.summary_list.round_is_over(now) {
            let refresh = self.config.timing(interface).refresh_ms();
            let refresh = Duration::from_millis(refresh.into());
            // Never later than R after the last one, with a random part so that nodes are not synchronized.
            let length = self.refresh_reduction.jitter.uniform(refresh - refresh / 8, refresh);
            peer.summary_list.begin_round(now, length);
        }
        let most = link.map_or(1, |link| (link.mtu.saturating_sub(OVERHEAD) / 4).max(1)) as usize;
        if let Some(source) = link.and_then(|link| link.address_like(address)) {
            // Taken out while the message is written, which borrows the rest of the refresh reduction state.
            let mut list = core::mem::take(&mut peer.summary_list);
            let ids = list.next_chunk(most);
            if !ids.is_empty() {
                peer.summary_counts.0 += 1;
                self.counters.reduction.named += ids.len() as u64;
                let names = RefreshIds::Messages(List::Items(ids));
                let lists =
                    [RefreshList { epoch: self.refresh_reduction.sent.epoch(), ids: names }];
                let body = Body::Srefresh(Srefresh { lists: List::Items(&lists) });
                let how = self.to_neighbor(interface, source, address);
                let message = OutgoingMessage::new(how).to(Some(index));
                self.refresh_reduction.send(&mut self.counters, cx.out, message, &body);
            }
            if let Some(peer) = self.refresh_reduction.peers.get_mut(index) {
                peer.summary_list = list;
            }
        }
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        let timer = Timer { kind: TimerKind::Summary, block: index };
        peer.summary_timer = Some(self.store.timers.arm(peer.summary_list.due(now, most), timer));
    }

    /// Handles an Srefresh message.
    pub(crate) fn receive_srefresh<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        srefresh: &Srefresh<'_>,
    ) {
        let limit = self.config.reduction.max_peers;
        let address = datagram.source;
        let interface = self.interface_of_peer(cx, datagram, address);
        let peers = &mut self.refresh_reduction.peers;
        let interfaces = cx.context.interfaces;
        let Some(index) = peers.find_or_insert((interface, address), limit, interfaces) else {
            return self.drop(cx, datagram, DropReason::Limit);
        };
        let Some(peer) = self.refresh_reduction.peers.get_mut(index) else { return };
        peer.summary_counts.1 += 1;
        let announced = Some(peer.refresh_ms).filter(|&refresh_ms| refresh_ms > 0);
        let refresh_ms = announced.unwrap_or_else(|| self.config.timing(interface).refresh_ms());
        let expires_at = cx.now + self.lifetime(cx, interface, refresh_ms);
        let neighbor = self.store.find_neighbor(interface, address);
        let mut reminder = SummaryRefresh { neighbor, expires_at, last: None };
        for list in srefresh.lists {
            let name = |id| MessageIdKey { epoch: list.epoch, id };
            match list.ids {
                RefreshIds::Messages(ids) => {
                    for id in ids {
                        if !self.refresh_named(&mut reminder, name(id)) {
                            self.nack(cx, index, name(id));
                        }
                    }
                }
                RefreshIds::Sources(items) => {
                    for item in items {
                        if !self.refresh_named(&mut reminder, name(item.id))
                            && forwards_multicast(cx, interface, item.source, datagram.destination)
                        {
                            self.nack(cx, index, name(item.id));
                        }
                    }
                }
                RefreshIds::Multicast(items) => {
                    for item in items {
                        if !self.refresh_named(&mut reminder, name(item.id))
                            && forwards_multicast(cx, interface, item.source, item.destination)
                        {
                            self.nack(cx, index, name(item.id));
                        }
                    }
                }
            }
        }
        if let Some(neighbor) = neighbor.filter(|_| reminder.last.is_some()) {
            self.store.neighbors[neighbor as usize].last_refresh_at = cx.now;
        }
    }

    /// Refreshes the state with this MESSAGE_ID; returns whether there is any.
    #[inline]
    fn refresh_named(&mut self, reminder: &mut SummaryRefresh, name: MessageIdKey) -> bool {
        let &mut SummaryRefresh { neighbor, expires_at, last } = reminder;
        let named =
            neighbor.and_then(|neighbor| self.store.find_by_message_id_after(last, neighbor, name));
        let Some(named) = named else {
            return self.refresh_joint(reminder, name);
        };
        reminder.last = Some(named);
        self.counters.reduction.refreshed += 1;
        self.refresh_block(named, expires_at);
        true
    }

    /// Refreshes the requests of a message that stands for several; returns whether there are any.
    #[cold]
    fn refresh_joint(&mut self, reminder: &mut SummaryRefresh, name: MessageIdKey) -> bool {
        let neighbor = reminder.neighbor;
        let requests =
            neighbor.map(|neighbor| self.store.requests_of_joint_message(neighbor, name));
        let requests = requests.unwrap_or_default();
        for &named in &requests {
            reminder.last = Some(named);
            self.refresh_block(named, reminder.expires_at);
        }
        let is_known = !requests.is_empty();
        self.counters.reduction.refreshed += u64::from(is_known);
        self.counters.reduction.unknown += u64::from(!is_known);
        is_known
    }

    #[inline]
    fn refresh_block(&mut self, named: NamedBlock, expires_at: Time) {
        match named.block() {
            (Block::Sender, index) => {
                let ends = &mut self.store.psb_mut(index).expires_at;
                *ends = expires_at.max(*ends);
                if !self.graceful_restart.is_idle() {
                    self.note_path_known(index);
                }
            }
            (Block::Reservation, index) => {
                let rsb = self.store.rsb_mut(index);
                rsb.expires_at = expires_at.max(rsb.expires_at);
                // A MESSAGE_ID covers all filters of a request or none.
                for filter in rsb.extra.iter_mut().flat_map(|extra| &mut extra.filters) {
                    filter.expires_at = expires_at.max(filter.expires_at);
                }
            }
        }
    }

    #[cold]
    fn nack<E>(&mut self, cx: &HandlerContext<'_, '_, E>, peer: Index, name: MessageIdKey) {
        self.acknowledge(cx.now, peer, AcknowledgementKind::Nack, name);
    }
}

/// Refresh of the blocks that an Srefresh lists.
struct SummaryRefresh {
    /// Sender of the Srefresh; `None` if it has no state here.
    neighbor: Option<Index>,
    expires_at: Time,
    /// Block refreshed last.
    last: Option<NamedBlock>,
}

/// Returns whether this node would forward multicast data of this source and group received on that interface (RFC 2961
/// section 5.3).
fn forwards_multicast<E>(
    cx: &HandlerContext<'_, '_, E>,
    interface: InterfaceId,
    source: IpAddr,
    group: IpAddr,
) -> bool {
    let branches = cx.context.routes.multicast(source, group);
    branches.is_some_and(|branches| branches.incoming == Some(interface))
}
