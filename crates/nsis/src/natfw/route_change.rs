//! Changes of the path of a session (RFC 5973 section 3.9).

use core::time::Duration;

use earmark_wire::natfw_nslp::iana::Informational;
use earmark_wire::natfw_nslp::{Extra, Info, Outcome};

use super::instance::NatfwNslp;
use super::state::{Flags, Index, Role, Stage};
use crate::nslp::{HandlerContext, NetworkNotification, Notification, Validity};

/// Minimum time that a transitory session is kept (section 3.2.8).
const HOLD: Duration = Duration::from_secs(30);

impl NatfwNslp {
    /// Handles a notification of GIST about the peers of a session.
    pub(super) fn handle_notification(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        notification: &NetworkNotification,
    ) {
        let Some(index) = self.store.find(notification.session) else { return };
        let session = self.store.session(index);
        if notification.mri != session.far || session.stage == Stage::Pending {
            return;
        }
        let other = match notification.what {
            Notification::RoutingStatusChange { status: Validity::Good, peer: Some(peer) } => {
                session.on.is_some_and(|on| on != peer).then_some(peer)
            }
            _ => None,
        };
        let Some(peer) = other else { return };
        match session.role {
            Role::Initiator(_) | Role::Proxy(_) => {
                self.store.set_on(index, Some(peer));
                self.send_again(cx, index);
            }
            Role::Forwarder => self.report_route_change(cx, index, peer),
            Role::Responder => {}
        }
    }

    /// Reports a changed path to both sides of a session. The old next node is on no path any more, so the message to it is
    /// explicitly routed (section 3.7.5).
    fn report_route_change(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        peer: crate::nslp::PeerHandle,
    ) {
        if self.store.session(index).stage == Stage::Transitory {
            return self.store.set_on(index, Some(peer));
        }
        let info = Info::new(Outcome::Informational(Informational::RouteChange));
        let old = self.store.session(index).on;
        let outbound = super::send::Addressing { to: old, ..self.towards_responder(index) };
        self.send_notify(cx, outbound, info, Extra::NONE);
        let inbound = self.towards_initiator(index);
        self.send_notify(cx, inbound, info, Extra::NONE);
        self.store.set_on(index, Some(peer));
        self.route_changed(cx, index);
    }

    /// Follows a changed path: the initiator asks again, and other nodes keep the session for a while.
    pub(super) fn route_changed(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = self.store.session_mut(index);
        if session.is_initiator() {
            return self.send_again(cx, index);
        }
        session.stage = Stage::Transitory;
        let hold = cx.now + HOLD;
        if hold < session.expires_at {
            session.expires_at = hold;
            if session.flags.has(Flags::INSTALLED) {
                self.install_rules(cx, index);
            }
            self.store.rearm(index);
        }
    }
}
