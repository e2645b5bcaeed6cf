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
use super::addressing::Addressing;
use super::admission::AdmissionRequest;
use super::api::Change;
use super::flow::flow_of;
use super::qspec;
use super::send::ReserveOptions;
use super::state::{Flags, FormerPeer, Index, OldBranch, PendingRequest};
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
            && direction == Direction::Downstream
        {
            // The receiver is the QNI, and the path to it has changed: a QUERY must show it the new path (section
            // 3.2.12). The previous peer of another session changes with its RESERVE.
            self.query_new_path(cx, index);
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
                    // An interface may have been gone for a while.
                    Some(known) if known == peer => self.follow_route(cx, index),
                    None if !was_last => {
                        self.store.set_on(index, Some(peer));
                        // The route may have changed since the claim was made.
                        self.follow_route(cx, index);
                    }
                    _ if session.is_former_next(peer, cx.now) => {
                        self.tear_former_next(cx, index, peer);
                    }
                    _ => self.change_next_peer(cx, index, peer),
                }
            }
            Notification::RoutingStatusChange { status: Validity::Bad, .. } => {
                // A summary would refresh the session without the routing state that follows its route.
                self.store.session_mut(index).flags.set(Flags::CONFIRMED, false);
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

    /// Learns the next node of a receiver-initiated session, which GIST knows from the QUERY before the session.
    #[cold] // receiver-initiated
    pub(super) fn learn_upstream_peer(&self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let Addressing { session, mri, nslpid, .. } = self.towards_qnr(index, None);
        cx.for_nslpid(nslpid, |cx| cx.report_routing_status(mri, session));
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

    /// Tears down the former next node of a receiver-initiated session again. GIST takes it for the latest one while it sends
    /// Queries, "until the state at that node is explicitly torn down or times out" (section 5.2.5.4).
    fn tear_former_next(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        peer: PeerHandle,
    ) {
        let session = self.store.session(index);
        let (mri, replaces) = (session.mri, session.flags.has(Flags::REPLACE));
        if replaces && !session.flags.has(Flags::REMOVED) {
            self.tear_branch(cx, index, &OldBranch { peer, mri });
        }
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
        let old = session.on;
        session.own_rsn = session.own_rsn.wrapping_add(2);
        session.flags.set(Flags::CONFIRMED | Flags::FULL_ONLY | Flags::LAST, false);
        self.leave_branch(index, old, peer);
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

    /// Remembers a next node that the path has left, for the tear after the response (section 5.2.5.2). If the path returns
    /// to the node that was left before, that one is on the path again.
    fn leave_branch(&mut self, index: Index, old: Option<PeerHandle>, peer: PeerHandle) {
        let session = self.store.session_mut(index);
        let mri = session.mri;
        if let Some(extra) = &mut session.extra {
            extra.former_next.take_if(|former| former.peer == peer);
        }
        let Some(old) = old.filter(|_| session.flags.has(Flags::REPLACE)) else { return };
        let branch = &mut session.extra().old_branch;
        if branch.is_none_or(|branch| branch.peer == peer && branch.mri == mri) {
            *branch = Some(OldBranch { peer: old, mri });
        }
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
        let old = session.on;
        if old == Some(peer) {
            return;
        }
        if old.is_some() && session.flags.has(Flags::REPLACE) {
            // The RESERVE was sent before GIST knew the change, with a number that the old branch does not take for
            // old.
            session.own_rsn = session.own_rsn.wrapping_add(2);
            session.flags.set(Flags::CONFIRMED, false);
            session.refresh_at = cx.now;
        }
        self.leave_branch(index, old, peer);
        self.store.set_on(index, Some(peer));
        if old.is_some() {
            self.follow_route(cx, index);
        }
        self.rearm(index);
    }

    /// Tears down the old branch after the new one was confirmed.
    pub(super) fn tear_old_branch(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = self.store.session_mut(index);
        let on = session.on;
        let Some(extra) = &mut session.extra else { return };
        let Some(branch) = extra.old_branch.take() else { return };
        session.trim();
        let until = cx.now + self.own_lifetime();
        let session = self.store.session_mut(index);
        let is_elsewhere = on != Some(branch.peer) || branch.mri != session.mri;
        if !is_elsewhere {
            return;
        }
        if session.direction() == Direction::Upstream && on.is_some() {
            session.extra().former_next = Some(FormerPeer { peer: branch.peer, until });
        }
        self.tear_branch(cx, index, &branch);
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
            session.extra().former = Some(FormerPeer { peer: old, until });
        }
        self.store.set_back(index, peer, arrival);
        // Only the old peer may be unaware of the change (section 5.2.5.3). Had GIST's notification told it before, its
        // Query could overtake this RESERVE. A receiver-initiated session follows the QUERY on the new path; its old
        // peer has no route to check.
        if old.is_some() && self.store.session(index).direction() == Direction::Downstream {
            self.notify_route_change(cx, index, old);
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
