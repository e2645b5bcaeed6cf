//! MESSAGE_IDs of Path and Resv messages that are about to be sent.

use core::net::IpAddr;

use earmark_core::{InterfaceId, Time};
use earmark_wire::rsvp::{MessageId, Style};

use super::send::SendReason;
use super::sent_message_ids::{DeliveryState, Subject};
use crate::context::HandlerContext;
use crate::instance::Rsvp;
use crate::state::{Blocked, FILTERS_PER_MESSAGE, Holder, Index, NONE, SentResv};

impl Rsvp {
    /// Returns the peer that receives the Path of a sender through an outgoing interface, and the MESSAGE_ID for it.
    #[inline]
    pub(crate) fn assign_path_message_id<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        sender: Index,
        outgoing: InterfaceId,
        reason: SendReason,
    ) -> (Option<Index>, Option<MessageId>) {
        if self.refresh_reduction.has_no_peers() {
            return (None, None);
        }
        let peer = self.peer_for_path(cx, sender, Some(outgoing));
        // A node that acts as receiver proxy retries refused reservations with each refresh of the Path.
        let peer = peer.filter(|_| self.config.proxies.receivers.is_empty());
        let mut entry = self.store.psb(sender).path_message_id;
        let was_listed = self.refresh_reduction.is_listed(entry);
        let (timers, subject) = (&mut self.store.timers, Subject::Path(sender));
        let id = self
            .refresh_reduction
            .message_id_for(timers, cx.now, &mut entry, subject, peer, None, reason);
        self.store.psb_mut(sender).path_message_id = entry;
        if was_listed && !self.refresh_reduction.is_listed(entry) {
            self.refresh_by_message(cx.now, subject);
        }
        (peer, id)
    }

    /// Returns the MESSAGE_ID of the Resv for a sender that is about to be sent to `peer`.
    #[inline]
    pub(crate) fn assign_resv_message_id(
        &mut self,
        now: Time,
        sender: Index,
        peer: Option<Index>,
        confirm: Option<IpAddr>,
        reason: SendReason,
    ) -> Option<MessageId> {
        if self.refresh_reduction.has_no_peers() {
            return None;
        }
        // A request held back by blockade state is retried by a later refresh, so it must not be in summary refreshes.
        let is_free = self.store.blockade(Blocked::Sender(sender), now).is_none();
        let mut entry = self.store.psb(sender).resv_message_id;
        let (timers, subject) = (&mut self.store.timers, Subject::Resv(sender));
        let peer = peer.filter(|_| is_free);
        let id = self
            .refresh_reduction
            .message_id_for(timers, now, &mut entry, subject, peer, confirm, reason);
        self.store.psb_mut(sender).resv_message_id = entry;
        id
    }

    /// Returns the MESSAGE_ID of the Resv that a pool is about to send to one previous hop.
    pub(crate) fn assign_shared_message_id(
        &mut self,
        now: Time,
        pool: Index,
        request: &mut SentResv,
        peer: Option<Index>,
        confirm: Option<IpAddr>,
        reason: SendReason,
    ) -> Option<MessageId> {
        if self.refresh_reduction.has_no_peers() {
            return None;
        }
        let wildcard = self.store.pool(pool).style == Style::Wildcard;
        // One MESSAGE_ID cannot stand for several messages.
        let is_whole = wildcard || request.filters.len() <= FILTERS_PER_MESSAGE;
        // Blockade state may reduce the request.
        let is_free = self.failures(now, Holder::Pool(pool), request.hop).is_empty();
        let peer = peer.filter(|_| is_whole && is_free);
        let (timers, subject) = (&mut self.store.timers, Subject::Shared(pool));
        self.refresh_reduction.message_id_for(
            timers,
            now,
            &mut request.message_id,
            subject,
            peer,
            confirm,
            reason,
        )
    }

    /// Removes the MESSAGE_ID of the Resv for a sender.
    pub(crate) fn forget_resv_message_id(&mut self, sender: Index) {
        let entry = core::mem::replace(&mut self.store.psb_mut(sender).resv_message_id, NONE);
        self.refresh_reduction.forget(entry);
    }

    /// Removes the MESSAGE_ID of the Resv for a sender and schedules refresh messages for it.
    pub(crate) fn refresh_resv_by_message(&mut self, now: Time, sender: Index) {
        if self.store.psb(sender).resv_message_id != NONE {
            self.forget_resv_message_id(sender);
            self.refresh_by_message(now, Subject::Resv(sender));
        }
    }

    /// Returns whether the Path of a sender was acknowledged by another neighbour than the current next hop.
    pub(crate) fn is_listed_for_another_peer<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        sender: Index,
    ) -> bool {
        let psb = self.store.psb(sender);
        if psb.path_message_id == NONE {
            return false;
        }
        let DeliveryState::Listed { peer, .. } =
            self.refresh_reduction.sent.delivery_state(psb.path_message_id)
        else {
            return false;
        };
        self.peer_for_path(cx, sender, None) != Some(peer)
    }

    /// Returns the peer that receives the Path of a sender, limited to those behind `outgoing` if it is given.
    pub(super) fn peer_for_path<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        sender: Index,
        outgoing: Option<InterfaceId>,
    ) -> Option<Index> {
        let data = self.sender_data(sender);
        let destination = data.session.destination;
        self.refresh_reduction.peer_towards(cx, outgoing, destination, |context| data.hop(context))
    }
}
