//! The end of what an application of this node has: a session, a QUERY, or a listener.

use earmark_wire::gist::SessionId;

use super::QosNslp;
use super::api::{Application, Change, Event, Rejection};
use super::role::Role;
use super::state::{Flags, Index};
use super::tear::Confirmation;
use crate::nslp::HandlerContext;

impl QosNslp {
    pub(super) fn release_application(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        application: Application,
    ) -> Result<(), Rejection> {
        match self.applications.get(&application) {
            None => Err(Rejection::NoSession),
            Some(Role::Initiator(session)) => {
                let index = self.store.find(*session).ok_or(Rejection::NoSession)?;
                self.release(cx, index);
                Ok(())
            }
            Some(Role::Querier(_) | Role::Listener(..)) => {
                match self.applications.remove(&application) {
                    Some(Role::Listener(_, sessions)) => self.drop_sessions(cx, &sessions),
                    Some(Role::Querier(own_query)) => {
                        self.forget_own_query(&own_query);
                        // The receiver ends the resulting session.
                        self.drop_sessions(cx, &[own_query.session]);
                    }
                    _ => {}
                }
                cx.report(Event::Released { application });
                Ok(())
            }
        }
    }

    /// Ends those sessions of a listener of which this node is the QNI, those of the reverse direction among them; the QNIs
    /// of the others end them.
    fn drop_sessions(&mut self, cx: &mut HandlerContext<'_, '_>, sessions: &[SessionId]) {
        for &session in sessions {
            let Some(index) = self.store.find(session) else { continue };
            if self.store.session(index).is_initiator() {
                self.end(cx, index, Change::Released, Confirmation::IfUnreliable);
            } else {
                let session = self.store.session_mut(index);
                session.extra().application = None;
                let reverse = session.extra().reverse.take();
                session.trim();
                if let Some(reverse) = reverse.and_then(|reverse| self.store.find(reverse)) {
                    self.end(cx, reverse, Change::Released, Confirmation::IfUnreliable);
                }
            }
        }
    }

    /// Tears a session of this node down, and waits for the response.
    pub(super) fn release(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        if self.store.session(index).flags.has(Flags::TORN) {
            return;
        }
        self.counters.released += 1;
        let rii = self.request_confirmation(cx.now, index);
        self.end(cx, index, Change::Released, Confirmation::Requested(rii));
    }

    /// Handles the end of the release of a session of this node: torn down on the whole path, as far as known.
    pub(super) fn finish_release(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = self.store.session(index);
        let (id, application) = (session.id, session.application());
        let Some(application) = application.filter(|_| session.is_initiator()) else { return };
        match self.applications.get_mut(&application) {
            Some(Role::Listener(_, sessions)) => sessions.retain(|&session| session != id),
            Some(Role::Initiator(session)) if *session == id => {
                self.applications.remove(&application);
                cx.report(Event::Released { application });
            }
            _ => {}
        }
    }
}
