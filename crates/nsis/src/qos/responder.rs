//! The responder: applications that listen for sessions of flows to this node, and the responses for them.

use alloc::boxed::Box;
use alloc::vec::Vec;

use earmark_core::{Rate, Time};
use earmark_wire::gist::{Direction, PathCoupled};
use earmark_wire::qos_nslp::iana::{BindingCode, MessageType};
use earmark_wire::qos_nslp::{BoundSessionId, Query};

use super::QosNslp;
use super::api::{Application, Change, Event, Listen, Rejection, Request, RequestedQos, Scope};
use super::flow::flow_of;
use super::initiator::Initiation;
use super::path_extent;
use super::qspec::{self, Purpose};
use super::request::qspec_of;
use super::rmf;
use super::role::Role;
use super::send::ReserveOptions;
use super::session_auth;
use super::state::{Flags, Index};
use crate::auth_object;
use crate::nslp::{HandlerContext, Received};

impl QosNslp {
    pub(super) fn listen(
        &mut self,
        application: Application,
        listen: Listen,
    ) -> Result<(), Rejection> {
        if let Some(Role::Listener(known, _)) = self.applications.get_mut(&application) {
            *known = listen;
            return Ok(());
        }
        self.is_free(application)?;
        self.applications.insert(application, Role::Listener(listen, Vec::new()));
        Ok(())
    }

    /// Returns the listener of a flow, and its rate limit. Applications are few.
    pub(super) fn listener_for(&self, mri: &PathCoupled) -> Option<(Application, Rate)> {
        self.applications.iter().find_map(|(&application, role)| {
            let Role::Listener(listen, _) = role else { return None };
            let fits = listen.destination.is_none_or(|address| address == mri.destination)
                && listen.protocol.is_none_or(|protocol| mri.protocol == Some(protocol))
                && listen.port.is_none_or(|port| mri.destination_port == Some(port));
            fits.then(|| (application, listen.most.unwrap_or(Rate::MAX)))
        })
    }

    /// Reports a new or changed session that ends here to its application.
    pub(super) fn report_incoming(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = self.store.session(index);
        let (id, mri, breaks) = (session.id, session.mri, session.flags.has(Flags::BREAK));
        if session.interface.is_none() && !cx.context.interfaces.is_local(mri.destination) {
            // An aggregate ends here, and has no application.
            return;
        }
        let application = session
            .application()
            .or_else(|| self.querier_of(id).map(|(application, _)| application))
            .or_else(|| self.listener_for(&mri).map(|(application, _)| application));
        let (Some(application), Some(flow)) = (application, flow_of(&mri, session.classifier))
        else {
            return;
        };
        let wanted = rmf::evaluate(&session.qspec, MessageType::Reserve);
        let rate = wanted.map_or(Rate::ZERO, |wanted| wanted.demand.rate);
        self.store.session_mut(index).extra().application = Some(application);
        match self.applications.get_mut(&application) {
            Some(Role::Querier(own_query)) => {
                if let Some(timer) = own_query.timer.take() {
                    self.waits.cancel(timer);
                }
            }
            Some(Role::Listener(_, sessions)) if !sessions.contains(&id) => sessions.push(id),
            _ => {}
        }
        let reach = Box::new(path_extent::by_reserve(&mri, breaks));
        cx.report(Event::Incoming { application, session: id, flow, rate, reach });
        self.create_reverse_session(cx, index, application);
    }

    /// Reports the end of an incoming session. A sender that has asked for it asks again if it has expired, here or at a node
    /// on the path, which then tears it: the receiver may still want it. If the receiver has released it, the sender is told
    /// so by the answer.
    pub(super) fn report_gone(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        change: Change,
    ) {
        let session = self.store.session(index);
        let (id, reverse) = (session.id, session.extra.as_ref().and_then(|extra| extra.reverse));
        let Some(application) = session.application() else { return };
        match self.applications.get_mut(&application) {
            Some(Role::Listener(_, sessions)) => sessions.retain(|&session| session != id),
            Some(Role::Querier(_)) if matches!(change, Change::Expired | Change::Released) => {
                self.repeat_invitation(cx.now, application);
            }
            Some(Role::Querier(_)) => self.drop_own_query(application),
            _ => {}
        }
        cx.report(Event::Gone { application, session: id });
        if let Some(reverse) = reverse.and_then(|reverse| self.store.find(reverse)) {
            self.release(cx, reverse);
        }
    }

    /// Creates the session of the reverse direction, bound to the incoming one (section 4.4).
    fn create_reverse_session(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        application: Application,
    ) {
        let session = self.store.session(index);
        let (id, mri, attributes) = (session.id, session.mri, session.attributes);
        let extra = session.extra.as_ref();
        let Some(Role::Listener(listen, _)) = self.applications.get(&application) else { return };
        let Some(qos) = listen.reverse.filter(|_| extra.is_none_or(|e| e.reverse.is_none())) else {
            return;
        };
        let named = extra.into_iter().flat_map(|extra| &extra.bound);
        let named = named
            .filter(|bound| bound.binding == BindingCode::Bidirectional)
            .map(|bound| bound.session)
            .find(|&session| self.store.find(session).is_none());
        let back = PathCoupled {
            source: mri.destination,
            destination: mri.source,
            source_prefix: mri.destination_prefix,
            destination_prefix: mri.source_prefix,
            source_port: mri.destination_port,
            destination_port: mri.source_port,
            ..mri
        };
        let (Some(flow), Ok(qspec)) = (flow_of(&back, None), qspec_of(&qos, Purpose::Reserve))
        else {
            return;
        };
        let session = match named {
            Some(session) => session,
            None => self.ids.draw(),
        };
        let Err(place) = self.store.look_up(session) else { return };
        let binding = BindingCode::Bidirectional;
        let request = Request {
            bound: [BoundSessionId { binding, session: id }].into(),
            attributes: Some(attributes),
            ..Request::new(flow, qos)
        };
        let (qspec, classifier, breaks) = (&qspec[..], None, false);
        let application = Some(application);
        let auth = &[];
        let initiation =
            Initiation { application, session, mri: back, place, qspec, classifier, breaks, auth };
        if self.initiate(cx, &initiation, &request).is_ok() {
            self.store.session_mut(index).extra().reverse = Some(session);
        }
    }

    /// Answers a QUERY with RESERVE-INIT; returns whether that was possible.
    pub(super) fn answer_invitation(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        mri: &PathCoupled,
        query: &Query<'_>,
        application: Application,
        most: Rate,
    ) -> bool {
        let place = match self.store.look_up(message.session) {
            // The RESERVE is sent again.
            Ok(index) => {
                let session = self.store.session_mut(index);
                if session.is_initiator() {
                    session.require(message.attributes());
                    let flags = session.flags;
                    if flags.has(Flags::TORN) {
                        return self.reserve_after_tear(cx, index, query, application, most);
                    }
                    if flags.has(Flags::CONFIRMED) {
                        // No retransmission: the sender has lost it.
                        self.reserve_anew(cx, index);
                    } else {
                        let options = ReserveOptions { full: true, ..ReserveOptions::default() };
                        self.send_reserve(cx, index, &options);
                    }
                }
                return true;
            }
            Err(place) => place,
        };
        let Some(qspec) = qspec::answer(query.qspec, most) else { return false };
        let Some(flow) = flow_of(mri, query.classifier) else { return false };
        let upstream = PathCoupled { direction: Direction::Upstream, ..*mri };
        let request = Request {
            bound: query.bound.iter().collect(),
            attributes: Some(message.attributes()),
            scope: if query.flags.proxy { Scope::Proxy } else { Scope::Path },
            ..Request::new(flow, RequestedQos::of(Rate::ZERO))
        };
        let session = message.session;
        let (qspec, classifier, breaks) = (&qspec[..], query.classifier, query.flags.breaks);
        let initiator = Some(application);
        let auth = self.auth_for(application, query);
        let initiation = Initiation {
            application: initiator,
            session,
            mri: upstream,
            place,
            qspec,
            classifier,
            breaks,
            auth: &auth,
        };
        if self.initiate(cx, &initiation, &request).is_err() {
            return false;
        }
        if let Some(Role::Listener(_, sessions)) = self.applications.get_mut(&application) {
            sessions.push(session);
        }
        if let Some(index) = self.store.find(session) {
            self.store.set_on(index, message.origin.peer);
        }
        true
    }

    /// Answers a QUERY with RESERVE-INIT for a session whose tear has no response so far: reserves anew in the same session,
    /// with a number that is newer than that of the tear. Returns whether that was possible.
    #[cold]
    fn reserve_after_tear(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        query: &Query<'_>,
        application: Application,
        most: Rate,
    ) -> bool {
        let Some(qspec) = qspec::answer(query.qspec, most) else { return false };
        let auth = self.auth_for(application, query);
        let extra = self.store.session_mut(index).extra();
        (extra.kept, extra.auth_at) = (auth, 0);
        if self.change_reservation(cx, index, &qspec).is_err() {
            return false;
        }
        let wait = self.refresh_wait();
        let session = self.store.session_mut(index);
        session.flags.set(Flags::TORN | Flags::CONFIRMED, false);
        (session.expires_at, session.refresh_at) = (Time::MAX, cx.now + wait);
        session.extra().application = Some(application);
        let id = session.id;
        self.rearm(index);
        if let Some(Role::Listener(_, sessions)) = self.applications.get_mut(&application)
            && !sessions.contains(&id)
        {
            sessions.push(id);
        }
        true
    }

    /// Returns the SESSION_AUTH objects for the answer of a listener to a QUERY: those of the listener, or else those of the
    /// QUERY (RFC 5981 section 6.2.1).
    fn auth_for(&self, application: Application, query: &Query<'_>) -> Vec<u8> {
        if let Some(Role::Listener(Listen { token: Some(token), .. }, _)) =
            self.applications.get(&application)
        {
            return auth_object::object_of(token);
        }
        let mut auth = Vec::new();
        session_auth::keep_auth(&mut auth, query.extra);
        auth
    }
}
