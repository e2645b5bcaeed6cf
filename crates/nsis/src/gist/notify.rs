//! Notifications of applications: changes of their routing state, and translated addresses.

use core::net::IpAddr;

use earmark_core::outcome::Translation;
use earmark_wire::gist::{Direction, Mri, SessionId};

use super::Gist;
use super::api::Event as GistEvent;
use super::machine::Event;
use super::receipt::Receipt;
use super::state::{HalfRef, Key, NONE};
use crate::input_context::InputContext;
use crate::nslp::{HandlerContext, NetworkNotification, Notification, Nslp, PeerHandle, Validity};

impl Gist {
    /// Notifies the application of a change of its routing state.
    pub(super) fn notify_application(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &HalfRef,
        what: Notification,
    ) {
        let notification = NetworkNotification { mri: at.mri(), session: at.key.session, what };
        cx.call(at.key.nslpid, |application, cx| application.notify(cx, &notification));
        if let Notification::RoutingStatusChange { status, .. } = what {
            let peer = self.store.get(at.half_id()).map_or(NONE, |half| half.peer);
            cx.report(GistEvent::RoutingState {
                nslpid: at.key.nslpid,
                session: at.key.session,
                mri: at.mri(),
                status,
                peer: self.peers.get(peer).map(|peer| peer.address),
            });
        }
    }

    /// Notifies the application that a half is removed or loses its peer, if its state was usable.
    pub(super) fn notify_removed(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &HalfRef,
        event: Event,
    ) {
        if event == Event::Expire {
            self.counters.expired += 1;
        }
        let Some(half) = self.store.get(at.half_id()) else { return };
        if half.validity == Validity::Bad {
            return;
        }
        self.notify_application(
            cx,
            at,
            Notification::RoutingStatusChange { status: Validity::Bad, peer: None },
        );
    }

    /// Notifies the application that routing state is good, and that the previous peer, if any, has left the path.
    pub(super) fn notify_installed(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        at: &HalfRef,
        old: Option<PeerHandle>,
    ) {
        self.counters.established += 1;
        self.notify_good(cx, at);
        if let Some(old) = old {
            self.counters.rerouted += 1;
            self.notify_application(cx, at, Notification::RouteDeletion(old));
        }
    }

    /// Notifies the application of the peer in a direction, if the routing state is good.
    pub(super) fn report_status(
        &mut self,
        cx: &mut InputContext<'_, '_>,
        key: Key,
        direction: Direction,
    ) {
        let at = self.at_recent(key, direction);
        let half = self.store.get(at.half_id());
        let Some(half) = half.filter(|half| half.validity == Validity::Good) else { return };
        let what = Notification::RoutingStatusChange {
            status: Validity::Good,
            peer: self.peers.handle(half.peer),
        };
        let notification = NetworkNotification { mri: at.mri(), session: key.session, what };
        cx.call(key.nslpid, |application, cx| application.notify(cx, &notification));
    }

    /// Notifies the application that routing state is good.
    pub(super) fn notify_good(&mut self, cx: &mut InputContext<'_, '_>, at: &HalfRef) {
        let peer = self.peers.handle(self.store.half(at.half_id()).peer);
        let status = Validity::Good;
        self.notify_application(cx, at, Notification::RoutingStatusChange { status, peer });
    }
}

/// Reports to the application that the address in a message differs from its source.
pub(super) fn report_translation(
    cx: &mut InputContext<'_, '_>,
    receipt: &Receipt<'_>,
    flow: (SessionId, Mri),
    named: IpAddr,
) {
    let translation = Translation { named, seen: Some(receipt.source) };
    let call = |application: &mut dyn Nslp, cx: &mut HandlerContext<'_, '_>| {
        application.translated(cx, flow, translation);
    };
    cx.call(receipt.nslpid, call);
}
