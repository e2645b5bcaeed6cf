//! Route changes (RFC 5974 sections 3.2.12 and 5.2.5).
//!
//! A peer is known by its SII-Handle. If the next node changes, the session sends a RESERVE with a sequence number
//! increased by two, and requests a response. After the response, the old next node gets a tear with the number
//! between. If both are the same node, it ignores the tear as old. If the previous node changes, the old one gets a
//! NOTIFY about the route change, so that it queries for the new path itself.

use alloc::boxed::Box;

use earmark_core::InterfaceId;
use earmark_wire::gist::{Direction, PathCoupled};
use earmark_wire::qos_nslp::iana::{Informational, TransientFailure};
use earmark_wire::qos_nslp::{
    BoundSessions, Extra as Objects, GenericFlags, InfoSpec, Message, Notify, Outcome, Query,
};

use super::QosNslp;
use super::admission::AdmissionRequest;
use super::api::Change;
use super::flow::flow_of;
use super::qspec;
use super::send::ReserveOptions;
use super::state::{Flags, Index, OldBranch, PendingRequest};
use crate::nslp::{
    HandlerContext, NetworkNotification, Notification, PeerHandle, Received, Validity,
};

impl QosNslp {
    /// Handles a notification of GIST about the peers of a session.
    pub(super) fn handle_notification(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        notification: &NetworkNotification,
    ) {
        let Some(index) = self.store.find(notification.session) else { return };
        let session = self.store.session(index);
        if session.flags.has(Flags::TORN) {
            return;
        }
        let direction = notification.mri.direction();
        let is_next = direction == session.direction();
        // Others may have routing state with the same session identifier.
        let own = if is_next { session.towards_qnr() } else { session.towards_qni() };
        if notification.mri != own {
            return;
        }
        if is_next {
            self.handle_next_notification(cx, index, notification.what);
        } else if let Notification::RoutingStatusChange { status: Validity::Good, peer: Some(peer) } =
            notification.what
            && session.back.is_none_or(|back| back != peer)
        {
            self.handle_previous_change(cx, index, direction);
        }
    }

    /// Handles a notification about the next node.
    fn handle_next_notification(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        what: Notification,
    ) {
        let session = self.store.session(index);
        let (on, was_last) = (session.on, session.flags.has(Flags::LAST));
        if session.flags.has(Flags::ENDS_HERE) {
            return;
        }
        match what {
            Notification::LastNode => self.become_last(cx, index),
            Notification::RoutingStatusChange { status: Validity::Good, peer: Some(peer) } => {
                match on {
                    Some(known) if known == peer => {}
                    None if !was_last => self.store.set_on(index, Some(peer)),
                    _ => self.change_next_peer(cx, index, peer),
                }
            }
            Notification::CommunicationFailure(peer) if on == Some(peer) => {
                // Messages may be lost, so a full RESERVE follows.
                let session = self.store.session_mut(index);
                session.flags.set(Flags::CONFIRMED, false);
                session.refresh_at = cx.now + self.config.retry;
                self.rearm(index);
            }
            _ => {}
        }
    }

    /// Makes this node the last one: path truncation (section 3.2.12.1). Each refresh still looks for a next node.
    pub(super) fn become_last(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = self.store.session_mut(index);
        session.flags.set(Flags::LAST, true);
        let (old, mri) = (session.on, session.mri);
        let Some(peer) = old else { return };
        self.store.set_on(index, None);
        let session = self.store.session_mut(index);
        session.own_rsn = session.own_rsn.wrapping_add(2);
        if session.flags.has(Flags::REPLACE) {
            self.tear_branch(cx, index, &OldBranch { peer, mri });
        }
        self.follow_route(cx, index);
        self.report_truncation(cx, index);
    }

    /// Changes the next node.
    pub(super) fn change_next_peer(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        peer: PeerHandle,
    ) {
        let session = self.store.session_mut(index);
        if session.flags.has(Flags::REMOVED) {
            return;
        }
        let (old, mri) = (session.on, session.mri);
        session.own_rsn = session.own_rsn.wrapping_add(2);
        session.flags.set(Flags::CONFIRMED | Flags::FULL_ONLY | Flags::LAST, false);
        if let Some(old) = old.filter(|_| session.flags.has(Flags::REPLACE)) {
            let branch = OldBranch { peer: old, mri };
            session.extra().old_branch.get_or_insert(branch);
        }
        self.store.set_on(index, Some(peer));
        self.follow_route(cx, index);
        let rii = self.draw_rii();
        let (at, wait_ms, until) = self.first_retry(cx.now);
        let request = PendingRequest { rii, at, wait_ms, until };
        let session = self.store.session_mut(index);
        let rii = session.extra().request.get_or_insert(request).rii;
        self.send_reserve(
            cx,
            index,
            &ReserveOptions { full: true, rii: Some(rii), ..ReserveOptions::default() },
        );
        let wait = self.refresh_wait();
        self.store.session_mut(index).refresh_at = cx.now + wait;
        self.rearm(index);
    }

    /// Learns the next node from a response.
    pub(super) fn learn_next_peer(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        index: Index,
    ) {
        let Some(peer) = message.origin.peer.filter(|_| !message.explicitly_routed) else { return };
        let session = self.store.session_mut(index);
        session.flags.set(Flags::LAST, false);
        let (old, mri) = (session.on, session.mri);
        if old == Some(peer) {
            return;
        }
        if let Some(old) = old.filter(|_| session.flags.has(Flags::REPLACE)) {
            // The RESERVE was sent before GIST knew the change, with a number that the old branch does not take for
            // old.
            session.own_rsn = session.own_rsn.wrapping_add(2);
            session.extra().old_branch.get_or_insert(OldBranch { peer: old, mri });
            session.flags.set(Flags::CONFIRMED, false);
            session.refresh_at = cx.now;
        }
        self.store.set_on(index, Some(peer));
        self.rearm(index);
    }

    /// Tears down the old branch after the new one was confirmed.
    pub(super) fn tear_old_branch(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = self.store.session_mut(index);
        let on = session.on;
        let Some(extra) = &mut session.extra else { return };
        let Some(branch) = extra.old_branch.take() else { return };
        session.trim();
        let is_elsewhere = on != Some(branch.peer) || branch.mri != self.store.session(index).mri;
        if is_elsewhere {
            self.tear_branch(cx, index, &branch);
        }
    }

    /// Changes the previous node to the sender of a RESERVE. The old one is ignored for the lifetime of its state
    /// (section 5.2.5.4).
    pub(super) fn change_previous_peer(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        peer: PeerHandle,
        arrival: InterfaceId,
    ) {
        let session = self.store.session_mut(index);
        let until = cx.now.after_millis(session.lifetime_ms.into());
        let old = session.back;
        if let Some(old) = old {
            session.extra().former = Some((old, until));
        }
        self.store.set_back(index, peer, arrival);
        if let Some(old) = old {
            self.notify_route_change(cx, index, Some(old));
        }
    }

    /// Handles a notification of GIST about a new peer towards the QNI.
    fn handle_previous_change(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        direction: Direction,
    ) {
        let session = self.store.session(index);
        if direction == Direction::Downstream {
            // The receiver is the QNI, and the path to it has changed: a QUERY must show it the new path (section
            // 3.2.12).
            return self.query_new_path(cx, index);
        }
        // Only the old peer may be unaware of the change (section 5.2.5.3).
        let back = session.back;
        if back.is_some() {
            self.notify_route_change(cx, index, back);
        }
    }

    /// Sends a NOTIFY "route change" to a peer, explicitly routed.
    pub(super) fn notify_route_change(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        to: Option<PeerHandle>,
    ) {
        let addressing = self.towards_qni(index, to);
        let flags = self.flags_of(addressing.session);
        let info = InfoSpec::new(Outcome::Informational(Informational::RouteChange));
        let notify = Notify { flags, info, qspec: None, extra: Objects::NONE };
        self.send(cx, addressing, &Message::Notify(notify));
    }

    /// Sends a QUERY with RESERVE-INIT along the new path to the receiver, up to where it joins the old one.
    fn query_new_path(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = self.store.session(index);
        let Some(qspec) = qspec::as_query(&session.qspec) else { return };
        let bound = match &session.extra {
            Some(extra) => extra.bound.clone(),
            None => alloc::vec::Vec::new(),
        };
        let addressing = self.towards_qni(index, None);
        let flags = GenericFlags { scoping: false, ..self.flags_of(session.id) };
        let query = Query {
            flags,
            reserve_init: true,
            rii: None,
            bound: BoundSessions::Items(&bound),
            classifier: session.classifier,
            info: None,
            qspec: &qspec,
            second_qspec: None,
            extra: Objects::NONE,
        };
        self.send_query(cx, addressing, query);
    }

    /// Handles a RESERVE that replaces the packets of the one before.
    pub(super) fn flow_replaced(&mut self, index: Index, old: PathCoupled) {
        let session = self.store.session_mut(index);
        let on = session.on;
        if let Some(peer) = on {
            session.extra().old_branch.get_or_insert(OldBranch { peer, mri: old });
        }
        // Another destination may have another next node.
        self.store.set_on(index, None);
    }

    /// Moves the claim to a new outgoing interface. A rate that the new link cannot admit is lost, and the QNI is
    /// notified.
    pub(super) fn move_claim(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        interface: Option<InterfaceId>,
    ) {
        let session = self.store.session(index);
        let old = session.claim;
        let flow = flow_of(&session.mri, session.classifier);
        let Some(flow) = flow else { return };
        let qspec = session.qspec.clone();
        let asked = AdmissionRequest {
            block: index,
            flow,
            interface,
            aggregate: self.aggregate_of(cx, &session.mri, interface),
            secure: session.is_secure_request(),
            verified: session.verified().cloned().map(Box::new),
            held: None,
            rule: session.rule,
            qspec: &qspec,
        };
        let held = old.and_then(|claim| cx.context.ledger.demand(claim));
        let granted = self.admit(cx, &asked);
        let Ok(granted) = granted else {
            self.release_claim(cx, index, Change::Failed);
            self.store.session_mut(index).interface = interface;
            let outcome = Outcome::TransientFailure(TransientFailure::ReservationFailure);
            return self.notify_qni(cx, index, outcome);
        };
        if let (Some(old), Some(held)) = (old, held) {
            cx.context.ledger.release(old);
            self.uninstall(cx, index, old);
            self.policy.account(
                self.store.session(index).rule,
                held.rate,
                earmark_core::Rate::ZERO,
            );
        }
        let session = self.store.session_mut(index);
        (session.claim, session.interface) = (granted.claim, interface);
        session.rule = granted.rule;
        if session.flags.has(Flags::IN_AGGREGATE) != asked.aggregate.is_some() {
            // The next node must be discovered again, at the other level.
            session.flags.set(Flags::IN_AGGREGATE, asked.aggregate.is_some());
            session.flags.set(Flags::CONFIRMED, false);
            self.store.set_on(index, None);
        }
        if let Some(number) = asked.aggregate {
            self.bind_to_aggregate(index, number);
        }
        self.install(cx, index, false);
        let demand = granted.claim.and_then(|claim| cx.context.ledger.demand(claim));
        self.report_change(cx, index, Change::Moved, demand.unwrap_or(super::admission::NO_DEMAND));
    }

    /// Answers a QUERY with RESERVE-INIT at a node whose path towards the sender has changed (section 3.2.12); returns
    /// whether this node is one.
    pub(super) fn joins_reservation(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
    ) -> bool {
        let (Some(index), Some(peer)) = (self.store.find(message.session), message.origin.peer)
        else {
            return false;
        };
        let session = self.store.session(index);
        let meets = session.direction() == Direction::Upstream
            && self.check_answer(message, index).is_ok()
            && !message.explicitly_routed
            && session.on.is_some_and(|on| on != peer)
            && !session.flags.has(Flags::TORN);
        if meets {
            self.change_next_peer(cx, index, peer);
        }
        meets
    }
}
