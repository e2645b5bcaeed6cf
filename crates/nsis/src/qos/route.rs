//! Changes of route (RFC 5974 sections 3.2.12 and 5.2.5).
//!
//! A peer is known by the handle that GIST gives it. Where another node comes next, the reservation is made there with a
//! sequence number that is two more, and an answer is asked for; when that has come, the node before is told to tear down
//! with the number between. Should both be the same node, it takes that for an old message. Where another node asks, the
//! one before hears that the route has changed, so that it looks for the new way itself.

use earmark_core::InterfaceId;
use earmark_wire::gist::{Direction, PathCoupled};
use earmark_wire::qos_nslp::iana::{Informational, TransientFailure};
use earmark_wire::qos_nslp::{
    BoundSessions, Extra as Objects, GenericFlags, InfoSpec, Message, Notify, Outcome, Query,
};

use super::QosNslp;
use super::admission::AdmissionRequest;
use super::api::Change;
use super::rmf;
use super::send::Saying;
use super::state::{Asking, Flags, Index, OldBranch};
use crate::nslp::{
    HandlerContext, NetworkNotification, Notification, PeerHandle, Received, Validity,
};

/// Flows that may share a reservation.
const MOST_SHARING: usize = 8;

impl QosNslp {
    /// GIST has found out something about the neighbours of a session.
    pub(super) fn routing_changes(
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
        if direction == session.direction() {
            self.next_changes(cx, index, notification.what);
        } else if let Notification::RoutingStatusChange { status: Validity::Good, peer: Some(peer) } =
            notification.what
            && session.back.is_none_or(|back| back != peer)
        {
            self.asker_changes(cx, index, direction);
        }
    }

    /// About the node that comes next.
    fn next_changes(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index, what: Notification) {
        let session = self.store.session(index);
        let (on, was_last) = (session.on, session.flags.has(Flags::LAST));
        if session.flags.has(Flags::ENDS_HERE) {
            return;
        }
        match what {
            Notification::LastNode => self.becomes_last(cx, index),
            Notification::RoutingStatusChange { status: Validity::Good, peer: Some(peer) } => {
                match on {
                    Some(known) if known == peer => {}
                    None if !was_last => self.store.set_on(index, Some(peer)),
                    _ => self.next_is(cx, index, peer),
                }
            }
            Notification::CommunicationFailure(peer) if on == Some(peer) => {
                // What was said may be lost, so it is all said again.
                let session = self.store.session_mut(index);
                session.flags.set(Flags::CONFIRMED, false);
                session.refresh_at = cx.now + self.config.retry;
                self.rearm(index);
            }
            _ => {}
        }
    }

    /// Nobody comes after this node any more: path truncation (section 3.2.12.1). It goes on looking with each refresh.
    pub(super) fn becomes_last(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
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
        self.tell_of_truncation(cx, index);
    }

    /// Another node comes next.
    pub(super) fn next_is(
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
        let (at, wait_ms, until) = self.first_try(cx.now);
        let request = Asking { rii, at, wait_ms, until };
        let session = self.store.session_mut(index);
        let rii = session.extra().request.get_or_insert(request).rii;
        self.send_reserve(cx, index, &Saying { full: true, rii: Some(rii), ..Saying::default() });
        let wait = self.refresh_wait();
        self.store.session_mut(index).refresh_at = cx.now + wait;
        self.rearm(index);
    }

    /// An answer shows who comes next.
    pub(super) fn next_has_answered(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        index: Index,
    ) {
        let Some(peer) = message.peer.filter(|_| !message.explicitly_routed) else { return };
        let session = self.store.session_mut(index);
        session.flags.set(Flags::LAST, false);
        let (old, mri) = (session.on, session.mri);
        if old == Some(peer) {
            return;
        }
        if let Some(old) = old.filter(|_| session.flags.has(Flags::REPLACE)) {
            // It was told before GIST knew, with a number that the branch before does not take for old.
            session.own_rsn = session.own_rsn.wrapping_add(2);
            session.extra().old_branch.get_or_insert(OldBranch { peer: old, mri });
            session.flags.set(Flags::CONFIRMED, false);
            session.refresh_at = cx.now;
        }
        self.store.set_on(index, Some(peer));
        self.rearm(index);
    }

    /// The new way is confirmed, so the old one is given up.
    pub(super) fn give_up_old_branch(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
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

    /// A RESERVE has come from another peer than before, which is the one of the session from now on. The one before is
    /// not listened to for as long as its state could live (section 5.2.5.4).
    pub(super) fn asked_by_another(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        peer: PeerHandle,
    ) {
        let session = self.store.session_mut(index);
        let until = cx.now.after_millis(session.lifetime_ms.into());
        let old = session.back;
        if let Some(old) = old {
            session.extra().former = Some((old, until));
        }
        self.store.set_back(index, peer);
        if let Some(old) = old {
            self.tell_of_route(cx, index, Some(old));
        }
    }

    /// GIST says that somebody else is on the side of the QNI now.
    fn asker_changes(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        direction: Direction,
    ) {
        let session = self.store.session(index);
        if direction == Direction::Downstream {
            // The receiver asks, and the way to it has changed: the new one has to be shown to it (section 3.2.12).
            return self.invite_again(cx, index);
        }
        // This node's peer may be the only one who does not know (section 5.2.5.3).
        let back = session.back;
        if back.is_some() {
            self.tell_of_route(cx, index, back);
        }
    }

    /// A NOTIFY with "route change" for a peer, by name.
    pub(super) fn tell_of_route(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        to: Option<PeerHandle>,
    ) {
        let way = self.towards_qni(index, to);
        let flags = self.flags_of(way.session);
        let info = InfoSpec::new(Outcome::Informational(Informational::RouteChange));
        let notify = Notify { flags, info, qspec: None, extra: Objects::NONE };
        self.send(cx, way, &Message::Notify(notify));
    }

    /// Sends a QUERY with RESERVE-INIT along the new way to the receiver, up to where it meets the old one.
    fn invite_again(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = self.store.session(index);
        let Some(qspec) = rmf::as_query(&session.qspec) else { return };
        let bound = match &session.extra {
            Some(extra) => extra.bound.clone(),
            None => alloc::vec::Vec::new(),
        };
        let way = self.towards_qni(index, None);
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
        self.send_query(cx, way, query);
    }

    /// The RESERVE that has come is for other packets than those before.
    pub(super) fn flow_changed(&mut self, index: Index, old: PathCoupled, replace: bool) {
        let session = self.store.session_mut(index);
        let on = session.on;
        if !replace {
            let sharing = &mut session.extra().sharing;
            if sharing.len() < MOST_SHARING && !sharing.contains(&old) {
                sharing.push(old);
            }
            return;
        }
        if let Some(peer) = on {
            session.extra().old_branch.get_or_insert(OldBranch { peer, mri: old });
        }
        // With another destination it may be another node.
        self.store.set_on(index, None);
    }

    /// The packets leave through another interface, so the claim goes with them. What the new link has no room for is lost,
    /// and the QNI hears of it.
    pub(super) fn move_claim(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        interface: Option<InterfaceId>,
    ) {
        let session = self.store.session(index);
        let old = session.claim;
        let flow = super::admission::flow_of(&session.mri, session.classifier);
        let Some(flow) = flow else { return };
        let qspec = session.qspec.clone();
        let asked = AdmissionRequest {
            block: index,
            flow,
            interface,
            aggregate: self.aggregate_of(cx, &session.mri, interface),
            attributes: session.attributes,
            held: None,
            rule: session.rule,
            qspec: &qspec,
        };
        let held = old.and_then(|claim| cx.context.ledger.demand(claim));
        let granted = self.admit(cx, &asked);
        let Ok(granted) = granted else {
            self.give_back(cx, index, Change::Failed);
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
            // The node that comes next has to be found anew, at the other level.
            session.flags.set(Flags::IN_AGGREGATE, asked.aggregate.is_some());
            session.flags.set(Flags::CONFIRMED, false);
            self.store.set_on(index, None);
        }
        if let Some(number) = asked.aggregate {
            self.bind_to_aggregate(index, number);
        }
        self.install(cx, index, false);
        let demand = granted.claim.and_then(|claim| cx.context.ledger.demand(claim));
        self.tell(cx, index, Change::Moved, demand.unwrap_or(super::admission::NOTHING));
    }

    /// Whether a QUERY for a RESERVE meets a reservation here whose way towards the sender has changed: then this node
    /// answers it (section 3.2.12).
    pub(super) fn meets_reservation(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
    ) -> bool {
        let (Some(index), Some(peer)) = (self.store.find(message.session), message.peer) else {
            return false;
        };
        let session = self.store.session(index);
        let meets = session.direction() == Direction::Upstream
            && session.on.is_some_and(|on| on != peer)
            && !session.flags.has(Flags::TORN);
        if meets {
            self.next_is(cx, index, peer);
        }
        meets
    }
}
