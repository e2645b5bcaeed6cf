//! NOTIFY: events that other nodes report (RFC 5973 section 3.7.5).

use earmark_wire::natfw_nslp::iana::Informational;
use earmark_wire::natfw_nslp::{Extra, Info, Notify, Outcome};

use super::api::{Change, Event};
use super::counters::DropReason;
use super::instance::NatfwNslp;
use super::state::{ALL_SESSIONS, Index, Role, Stage};
use super::store::Ended;
use crate::nslp::{HandlerContext, Received};

/// Direction in which an event is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Towards {
    Initiator,
    Responder,
}

impl NatfwNslp {
    /// Handles a NOTIFY.
    pub(super) fn receive_notify(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        notify: &Notify<'_>,
    ) {
        if !message.origin.channel.is_association() {
            return self.ignore(cx, message, DropReason::NotOverAssociation);
        }
        if message.session == ALL_SESSIONS {
            return self.receive_end_of_peer(cx, message, notify);
        }
        let Some(index) = self.store.find(message.session) else {
            return self.ignore(cx, message, DropReason::NoSession);
        };
        let session = self.store.session(index);
        if let Err(reason) = session.check_channel(message.origin.channel) {
            return self.ignore(cx, message, reason);
        }
        let peer = message.origin.peer;
        let towards = match () {
            () if message.mri == session.far.inverted() && peer == session.on => Towards::Initiator,
            () if message.mri == session.near && peer == session.back && peer.is_some() => {
                Towards::Responder
            }
            () => return self.ignore(cx, message, DropReason::WrongDirection),
        };
        self.handle_event(cx, (index, towards), message, notify);
    }

    fn handle_event(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        (index, towards): (Index, Towards),
        message: &Received<'_>,
        notify: &Notify<'_>,
    ) {
        let Outcome::Informational(event) = notify.info.outcome else { return };
        match event {
            Informational::RouteChange => {
                if self.store.session(index).stage == Stage::Transitory {
                    return self.ignore(cx, message, DropReason::Transitory);
                }
                self.pass_on(cx, (index, towards), notify, message.hops);
                self.route_changed(cx, index);
            }
            Informational::ReauthenticationRequired => {
                if towards == Towards::Responder {
                    return self.ignore(cx, message, DropReason::InboundOnly);
                }
                self.pass_on(cx, (index, towards), notify, message.hops);
                if self.store.session(index).is_initiator() {
                    self.send_again(cx, index);
                }
            }
            Informational::LifetimeExpired | Informational::Terminated => {
                self.pass_on(cx, (index, towards), notify, message.hops);
                self.end_by_event(cx, index, notify.info);
            }
            Informational::GoingDown | Informational::Unknown(_) => {
                self.pass_on(cx, (index, towards), notify, message.hops);
                if let Role::Initiator(application) = self.store.session(index).role {
                    cx.report(Event::Notified { application, info: notify.info });
                }
            }
        }
    }

    /// Passes an event on in its direction, unless this node is the end there.
    fn pass_on(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        (index, towards): (Index, Towards),
        notify: &Notify<'_>,
        hops: u8,
    ) {
        let session = self.store.session(index);
        let addressing = match (towards, session.role) {
            (Towards::Initiator, Role::Forwarder | Role::Responder) => {
                self.towards_initiator(index)
            }
            (Towards::Responder, Role::Forwarder) => {
                // "The outbound NOTIFY message MUST be sent with explicit routing" (section 3.7.5): these nodes are on no path
                // any more.
                let is_route_change =
                    notify.info.outcome == Outcome::Informational(Informational::RouteChange);
                let to = session.on.filter(|_| is_route_change);
                super::send::Addressing { to, ..self.towards_responder(index) }
            }
            _ => return,
        };
        let addressing = super::send::Addressing { hops: Some(hops), ..addressing };
        self.send_notify(cx, addressing, notify.info, notify.extra);
    }

    /// Handles an event about all sessions of a peer: those whose path leads through it are void. The event travels towards the
    /// initiators, so the peer has no say about the sessions that it has asked for.
    fn receive_end_of_peer(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        notify: &Notify<'_>,
    ) {
        let is_end = matches!(
            notify.info.outcome,
            Outcome::Informational(Informational::Terminated | Informational::LifetimeExpired)
        );
        let (Some(peer), true) = (message.origin.peer, is_end) else {
            return self.ignore(cx, message, DropReason::NoSession);
        };
        self.end_dependents(cx, Ended::Peer(peer));
    }

    /// Ends a session whose path leads through a peer that has ended all sessions.
    pub(super) fn end_with_peer(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let info = Info::new(Outcome::Informational(Informational::Terminated));
        let session = self.store.session(index);
        if !session.is_initiator() {
            let inbound = self.towards_initiator(index);
            self.send_notify(cx, inbound, info, Extra::NONE);
        }
        self.end_by_event(cx, index, info);
    }

    /// Ends a session that another node has ended, and tells whom it serves at this node.
    fn end_by_event(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index, info: Info) {
        let role = self.store.session(index).role;
        if let Role::Initiator(application) = role {
            cx.report(Event::Ended { application, info: Some(info) });
        }
        self.end(cx, index, Change::Ended);
        if let Role::Proxy(primary) = role {
            self.secondary_failed(cx, primary);
        }
    }
}
