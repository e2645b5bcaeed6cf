//! Who may touch a session: the predicates for every message about it.
//!
//! GIST has checked the sender of a message against the routing state of the message. But a session has its identifier
//! alone, and others may have routing state with the same identifier for another flow, so the origin of a message is
//! checked against that of the session, too. A session that was reserved over a secured channel stays secured.

use earmark_core::{Flow, Prefix, Time};
use earmark_wire::gist::{Direction, Mri};
use earmark_wire::qos_nslp::Outcome;
use earmark_wire::qos_nslp::iana::{PermanentFailure, TransientFailure};

use super::QosNslp;
use super::admission::Refused;
use super::counters::DropReason;
use super::received_reserve::ReceivedReserve;
use super::role::OwnQuery;
use super::state::{Flags, Index, Session};
use crate::behind::may_replace;
use crate::nslp::{Attributes, Channel, HandlerContext, Received};

impl Session {
    /// Records the channel of a RESERVE that was accepted.
    #[inline]
    pub(super) fn record_channel(&mut self, channel: Channel) {
        let secured = u16::from(channel.is_secured()) * Flags::SECURED;
        self.flags.set(Flags::OVER_ASSOCIATION, channel.is_association());
        self.flags.set(secured, true);
    }

    /// Requires a transport for messages of the session, beside what it has required before.
    pub(super) fn require(&mut self, attributes: Attributes) {
        self.attributes.reliable |= attributes.reliable;
        self.attributes.secure |= attributes.secure;
    }

    /// Returns whether messages with this MRI travel towards the QNI, along a flow with the ends of that of the session:
    /// by the ends, GIST decides who may have routing state for it.
    #[inline]
    fn is_towards_qni(&self, mri: &Mri) -> bool {
        let Mri::PathCoupled(mri) = mri else { return false };
        let own = &self.mri;
        mri.direction != own.direction
            && mri.source == own.source
            && mri.destination == own.destination
            && mri.protocol == own.protocol
            && mri.source_port == own.source_port
            && mri.destination_port == own.destination_port
    }

    /// Checks whether the channel of a RESERVE may touch the session.
    #[inline]
    pub(super) fn check_channel(&self, message: &Received<'_>) -> Result<(), DropReason> {
        let channel = message.origin.channel;
        if self.flags.has(Flags::SECURED) && !channel.is_secured() {
            return Err(DropReason::NotSecured);
        }
        // GIST does not check explicitly routed messages against routing state.
        let is_weaker = self.flags.has(Flags::OVER_ASSOCIATION) && !channel.is_association();
        if message.explicitly_routed && is_weaker {
            return Err(DropReason::NotOverAssociation);
        }
        Ok(())
    }
}

impl QosNslp {
    /// Checks that the RESERVE of a receiver is not for an ended request of this node.
    ///
    /// # Errors
    /// The refusal, which is the same as that of a QUERY without a listener.
    pub(super) fn check_wanted(&self, received: &ReceivedReserve<'_>) -> Result<(), Refused> {
        let is_by_receiver = received.mri.direction == Direction::Upstream;
        match is_by_receiver && self.ended_requests.contains(received.message.session) {
            true => {
                let failure = TransientFailure::ReservationFailure;
                Err(Refused::of(Outcome::TransientFailure(failure)))
            }
            false => Ok(()),
        }
    }

    /// Checks whether the sender of a RESERVE may touch a session: the previous peer over a channel no weaker than that
    /// of the session, or a node that may replace the previous peer.
    ///
    /// # Errors
    /// Why the message is dropped.
    #[inline]
    pub(super) fn check_reserve(
        &self,
        cx: &HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
        index: Index,
    ) -> Result<(), DropReason> {
        let session = self.store.session(index);
        session.check_channel(received.message)?;
        if session.back == Some(received.peer) {
            return Ok(());
        }
        let end = match (session.direction(), received.message.upstream) {
            (Direction::Downstream, Some(flow)) if received.mri == session.mri => flow.source,
            (Direction::Downstream, _) => session.mri.source,
            (Direction::Upstream, _) => session.mri.destination,
        };
        match may_replace(cx.context, received.message.interface, session.arrival, end) {
            true => Ok(()),
            false => Err(DropReason::WrongInterface),
        }
    }

    /// Checks whether the sender of a RESERVE may reserve for packets: they all come from behind the interface that it
    /// arrived through, or go there if their receiver asks for them.
    ///
    /// # Errors
    /// The refusal.
    pub(super) fn check_packets(
        cx: &HandlerContext<'_, '_>,
        received: &ReceivedReserve<'_>,
        flow: &Flow,
    ) -> Result<(), Refused> {
        let ends = match received.mri.direction {
            Direction::Downstream => {
                let sources = match received.message.upstream {
                    Some(upstream) => {
                        flow.source.map(|_| Prefix::new(upstream.source, upstream.source_prefix))
                    }
                    None => flow.sources(),
                };
                sources.unwrap_or(Prefix::everything(flow.destination.is_ipv6()))
            }
            Direction::Upstream => flow.destinations(),
        };
        match cx.context.is_range_behind(ends, received.message.interface) {
            true => Ok(()),
            false => Err(Refused::of(Outcome::PermanentFailure(PermanentFailure::Authorization))),
        }
    }

    /// Checks whether the sender of a summary may touch one of its sessions: only the previous peer.
    ///
    /// # Errors
    /// Why the session is left out; `None` if it is not one of the peer.
    pub(super) fn check_summarized(
        &self,
        received: &ReceivedReserve<'_>,
        index: Index,
    ) -> Result<(), Option<DropReason>> {
        let session = self.store.session(index);
        let peer = received.peer;
        let is_peer =
            session.back == Some(peer) || session.sharing().iter().any(|flow| flow.is_from(peer));
        if !is_peer || session.direction() != received.mri.direction {
            return Err(None);
        }
        session.check_channel(received.message).map_err(Some)
    }

    /// Checks whether the sender of a RESPONSE or NOTIFY speaks for the next node of a session: it is this node, or the
    /// peer of the routing state of the session, or, explicitly routed, the next node of an old branch.
    ///
    /// # Errors
    /// Why the message is dropped.
    pub(super) fn check_answer(
        &self,
        message: &Received<'_>,
        index: Index,
    ) -> Result<(), DropReason> {
        let session = self.store.session(index);
        let (peer, channel) =
            (message.origin.peer.ok_or(DropReason::NoPeer)?, message.origin.channel);
        if session.attributes.secure && !channel.is_secured() {
            return Err(DropReason::NotSecured);
        }
        let is_next = session.on == Some(peer);
        if !message.explicitly_routed {
            let is_of_session = is_next
                || session.is_towards_qni(&message.mri)
                || session.is_towards_qni_of_sharing(&message.mri);
            return if is_of_session { Ok(()) } else { Err(DropReason::OtherPeer) };
        }
        let old = session.extra.as_ref().and_then(|extra| extra.old_branch);
        if !is_next && old.is_none_or(|branch| branch.peer != peer) {
            return Err(DropReason::OtherPeer);
        }
        if session.attributes.reliable && !channel.is_association() {
            return Err(DropReason::NotOverAssociation);
        }
        Ok(())
    }

    /// Checks whether the sender of a RESPONSE or NOTIFY is not a next node that the path has left.
    ///
    /// # Errors
    /// Why the message is dropped.
    pub(super) fn check_on_path(
        &self,
        now: Time,
        message: &Received<'_>,
        index: Index,
    ) -> Result<(), DropReason> {
        let peer = message.origin.peer.filter(|_| !message.explicitly_routed);
        match peer.is_some_and(|peer| self.store.session(index).is_former_next(peer, now)) {
            true => Err(DropReason::OtherPeer),
            false => Ok(()),
        }
    }

    /// Checks whether the sender of a RESPONSE or NOTIFY speaks for the next node of a QUERY of this node.
    ///
    /// # Errors
    /// Why the message is dropped.
    pub(super) fn check_query_answer(
        &self,
        message: &Received<'_>,
        own_query: &OwnQuery,
    ) -> Result<(), DropReason> {
        let attributes = own_query.request.attributes.unwrap_or(self.config.attributes);
        if attributes.secure && !message.origin.channel.is_secured() {
            return Err(DropReason::NotSecured);
        }
        let is_of_flow = message.mri == Mri::PathCoupled(own_query.mri).inverted();
        if message.explicitly_routed || !is_of_flow {
            return Err(DropReason::OtherPeer);
        }
        Ok(())
    }
}
