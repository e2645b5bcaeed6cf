//! Applications of this host that send and receive (RFC 2205 section 3.11.1).

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::IpAddr;

use earmark_core::{InterfaceId, Time};
use earmark_wire::intserv::{Adspec, FlowSpec, SenderTspec};
use earmark_wire::rsvp::{
    Carried, FilterSpec, List, SenderTemplate, Session, SourceSelector, Style,
};

use crate::api::{
    Application, BadSpecification, Change, Command, Event, Rejection, ReserveRequest,
};
use crate::context::HandlerContext;
use crate::counters::DropReason;
use crate::host::proxy::{SenderProxy, sender_proxy};
use crate::instance::Rsvp;
use crate::rules::fault::ResvFault;
use crate::rules::next_hops::{NextHops, SenderData};
use crate::rules::notify::notify_request;
use crate::rules::path::PathFault;
use crate::rules::request::Request;
use crate::state::{Block, Extra, Filter, Holder, Index, Kept, Origin, Peer, Psb, key};

impl Rsvp {
    /// Executes a command, or rejects it.
    pub(crate) fn command<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        command: Command,
    ) {
        let (application, done) = match command {
            Command::Session { application, session } => {
                (application, self.open_session(cx, application, session))
            }
            Command::Sender { application, template, tspec, ttl } => {
                (application, self.define_sender(cx, application, template, tspec, ttl))
            }
            Command::Reserve { application, request, confirm } => {
                (application, self.reserve_for(cx, application, &request, confirm))
            }
            Command::Identity { application, identity } => {
                let policy_data = identity.policy_data().map_err(|_| Rejection::Identity);
                (
                    application,
                    policy_data.map(|octets| self.applications.identify(application, octets)),
                )
            }
            Command::Release { application } => {
                (application, self.release_application(cx, application))
            }
            Command::Trace { application, trace } => {
                (application, self.trace(cx, application, &trace))
            }
            Command::Keys { keys } => return self.replace_keys(cx, keys),
            Command::WallClock { wall_clock } => return self.set_wall_clock(wall_clock),
            Command::Renew(renewal) => return self.reload(cx, *renewal),
        };
        if let Err(reason) = done {
            cx.out.notify(Event::Rejected { application, reason });
        }
    }

    /// SESSION: opens a session, and reports known senders at once.
    fn open_session<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        application: Application,
        session: Session,
    ) -> Result<(), Rejection> {
        if !session.is_valid() {
            return Err(Rejection::BadSession);
        }
        let session = key(session);
        match self.applications.open.get(&application) {
            Some(open) if open.session != session => return Err(Rejection::SessionOpen),
            Some(_) => {}
            None => self.applications.open(application, session),
        }
        let Some(index) = self.store.find_session(&session) else { return Ok(()) };
        let senders: Vec<Index> = self.store.senders_of(index).collect();
        for sender in senders {
            if session.destination.is_multicast() && !self.store.psb(sender).is_here() {
                self.set_here(cx, sender, true);
            } else {
                self.notify_of_sender(cx, application, sender);
            }
        }
        Ok(())
    }

    /// SENDER: creates or changes the application's sender.
    fn define_sender<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        application: Application,
        template: SenderTemplate,
        tspec: SenderTspec,
        ttl: u8,
    ) -> Result<(), Rejection> {
        let open = self.applications.open.get(&application).ok_or(Rejection::NoSession)?;
        let (session, before) = (open.session, open.sender);
        if tspec.validate().is_err() {
            return Err(Rejection::Specification(BadSpecification::TokenBucket));
        }
        if session.port == 0 && template.selector != SourceSelector::Port(0) {
            return Err(Rejection::Ports);
        }
        if !template.fits(&session) {
            let is_aggregate =
                session.is_aggregate() || template.selector == SourceSelector::Aggregator;
            return Err(if is_aggregate { Rejection::Aggregator } else { Rejection::Gpi });
        }
        let source = template.source;
        if !source.is_unspecified() && source.is_ipv4() != session.destination.is_ipv4() {
            return Err(Rejection::Families);
        }
        let template = if self.is_sender_proxy(application) {
            template
        } else {
            self.fill_in_source(cx, &session, template)?
        };
        let next_hops = NextHops::of_sender(cx.context, &SenderData::new(session, template, None));
        // A multicast destination may have no next hop yet, or end here; a unicast one must be reachable.
        let here = next_hops == NextHops::Here || session.destination.is_multicast();
        if !here && !matches!(next_hops, NextHops::Out(_)) {
            return Err(Rejection::NoRoute);
        }
        let outgoing = next_hops.outgoing(cx.context, None);
        if before == Some(template)
            && let Some(index) = self.store.find_sender(&session, &template)
        {
            self.change_own_sender(cx, index, tspec, ttl);
            return Ok(());
        }
        let Err(place) = self.store.look_up_sender(&session, &template) else {
            return Err(Rejection::SenderTaken);
        };
        if let Some(before) = before {
            self.stop_sending(cx, &session, &before);
        }
        let origin = Origin::Local(application);
        let session =
            self.admit_sender(cx, origin, &session, &template).map_err(|fault| match fault {
                PathFault::Report(DropReason::Limit, ..) => Rejection::Limit,
                PathFault::Silent(_) => Rejection::NoRoute,
                PathFault::Report(..) | PathFault::Token(_) => Rejection::Ports,
            })?;
        let hop = self.store.find_or_insert_hop(origin, Block::Sender, cx.now);
        let carried = self.sender_objects(cx, application, &template, outgoing.as_slice());
        let index = self.enter_sender(
            cx.now,
            place,
            Psb {
                outgoing,
                ttl,
                flags: Psb::E_POLICE | if here { Psb::HERE } else { 0 },
                adspec: sender_adspec(),
                carried,
                ..Psb::new(session, template, tspec, hop)
            },
        );
        if let Some(open) = self.applications.open.get_mut(&application) {
            open.sender = Some(template);
        }
        self.begin_sender(cx, index);
        Ok(())
    }

    /// Starts sending Path messages for a sender on another host.
    pub(crate) fn start_proxy<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        application: Application,
        proxy: &SenderProxy,
    ) {
        let SenderProxy { session, template, tspec, ttl } = *proxy;
        let opened = self.open_session(cx, application, session);
        let done = opened.and_then(|()| self.define_sender(cx, application, template, tspec, ttl));
        if let Err(reason) = done {
            cx.out.notify(Event::Rejected { application, reason });
        }
    }

    /// Stops sending Path messages for a sender on another host.
    pub(crate) fn end_proxy<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        application: Application,
    ) {
        // Without a route it was never started and has no session to release.
        let _ = self.release_application(cx, application);
    }

    /// Changes Tspec or TTL of a sender on another host.
    pub(crate) fn change_proxy<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        place: usize,
        proxy: &SenderProxy,
    ) {
        let SenderProxy { template, tspec, ttl, .. } = *proxy;
        let application = sender_proxy(place);
        if self.applications.open.contains_key(&application)
            && let Err(reason) = self.define_sender(cx, application, template, tspec, ttl)
        {
            cx.out.notify(Event::Rejected { application, reason });
        }
    }

    /// Handles a further SENDER call with the same template, which changes the sender.
    fn change_own_sender<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        tspec: SenderTspec,
        ttl: u8,
    ) {
        let psb = self.store.psb(index);
        let carried = match psb.hop {
            Peer::Local(application) => {
                self.sender_objects(cx, application, &psb.template, psb.outgoing.as_slice())
            }
            Peer::Neighbor { .. } => Kept::default(),
        };
        let psb = self.store.psb_mut(index);
        let changed = psb.tspec != tspec || psb.ttl != ttl || psb.carried != carried;
        psb.tspec = tspec;
        psb.ttl = ttl;
        psb.carried = carried;
        if changed {
            self.notify_path_state(cx, index, Change::Changed);
            self.notify_applications_of_sender(cx, index);
            self.path_refresh(cx, index);
            self.update_receiver_proxy(cx, index);
            self.update_reservations(cx, index);
        }
    }

    /// Returns the objects in the Path of a sender: NOTIFY_REQUEST with an address of this host, if the settings say so, and
    /// POLICY_DATA.
    fn sender_objects<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        application: Application,
        template: &SenderTemplate,
        outgoing: &[InterfaceId],
    ) -> Kept {
        let policy_data = self.applications.carried(application);
        let settings = &self.config.notify;
        if !settings.enabled || !settings.request {
            return Kept::of(policy_data);
        }
        let link = outgoing.first().and_then(|&id| cx.context.interfaces.by_id(id));
        let own = match cx.context.interfaces.is_local(template.source) {
            true => Some(template.source),
            false => link.and_then(|link| link.address_like(template.source)),
        };
        let mut octets = own.map_or_else(Vec::new, notify_request);
        policy_data.iter().for_each(|object| octets.extend_from_slice(object.bytes));
        Kept::of(Carried::Objects(&octets))
    }

    /// RESERVE: creates or changes the application's reservation.
    fn reserve_for<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        application: Application,
        request: &ReserveRequest,
        confirm: bool,
    ) -> Result<(), Rejection> {
        let open = self.applications.open.get_mut(&application).ok_or(Rejection::NoSession)?;
        open.wants_confirmation = confirm;
        let (key, is_unconfirmed) = (open.session, confirm);
        let (style, flowspec) = (request.style(), *request.flowspec());
        if flowspec.validate().is_err() {
            let bad = match flowspec {
                FlowSpec::ControlledLoad(_) => BadSpecification::TokenBucket,
                FlowSpec::Guaranteed(..) => BadSpecification::Rspec,
            };
            return Err(Rejection::Specification(bad));
        }
        let session = self.store.find_session(&key).ok_or(Rejection::NoSuchSender)?;
        let named = match request {
            ReserveRequest::FixedFilter { filter, .. } => core::slice::from_ref(filter),
            ReserveRequest::SharedExplicit { filters, .. } => filters,
            ReserveRequest::Wildcard { .. } => &[],
        };
        let mut specs = Vec::new();
        self.senders_towards(session, &key, style, List::Items(named), None, &mut specs)
            .map_err(|_| Rejection::NoSuchSender)?;
        self.change_own_style(cx, application, session, style)?;
        let carried = Kept::of(self.applications.carried(application));
        let mut request = Request {
            origin: Origin::Local(application),
            outgoing: None,
            flowspec,
            extra: Extra { carried: carried.clone(), is_unconfirmed, ..Extra::default() }.boxed(),
            confirm: self.own_address(cx, session, &specs).filter(|_| confirm),
            expires_at: Time::MAX,
        };
        if style != Style::FixedFilter {
            let filter = |spec| Filter { spec, expires_at: Time::MAX };
            let filters = specs.into_iter().map(filter).collect();
            request.extra = Extra { carried, filters, is_unconfirmed, ..Extra::default() }.boxed();
            let known = self.find_shared(session, None, request.origin);
            let done = self.reserve_shared(cx, session, style, known, request);
            return self.answer_reserve(cx, application, (style, named, flowspec), done);
        }
        let [filter] = specs[..] else { return Err(Rejection::NoSuchSender) };
        let psb = self.store.find_sender(&key, &filter).ok_or(Rejection::NoSuchSender)?;
        let known = self.store.find_request(Holder::Sender(psb), None, request.origin);
        let done = self.reserve(cx, Holder::Sender(psb), known, request);
        self.answer_reserve(cx, application, (style, named, flowspec), done)?;
        if let Some(open) = self.applications.open.get_mut(&application)
            && !open.reserved.contains(&filter)
        {
            open.reserved.push(filter);
        }
        Ok(())
    }

    /// Notifies an application of a request that is known to fail upstream, so that its older one stays; rejects what conflicts
    /// with other requests.
    fn answer_reserve<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        application: Application,
        (style, filters, flowspec): (Style, &[FilterSpec], FlowSpec),
        done: Result<Index, ResvFault>,
    ) -> Result<(), Rejection> {
        let Err(fault) = done else { return Ok(()) };
        let open = self.applications.open.get(&application);
        let session = open.map(|open| open.session).filter(|_| fault.in_place);
        let session = session.ok_or(Rejection::Conflict)?;
        let node = self
            .store
            .find_session(&session)
            .and_then(|index| self.own_address(cx, index, filters));
        cx.out.notify(Event::ResvError {
            application,
            session,
            error: fault.spec(node.unwrap_or(session.destination)),
            style,
            filters: filters.into(),
            flowspec: Some(flowspec),
            explanation: None,
        });
        Ok(())
    }

    /// Releases an application's reservation in another style before a new one, unless others have reserved in the old
    /// style.
    fn change_own_style<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        application: Application,
        session: Index,
        style: Style,
    ) -> Result<(), Rejection> {
        if self.check_style(session, style).is_err() {
            if self.others_have_reserved(session, application) {
                return Err(Rejection::Style);
            }
            self.release_reservations(cx, application);
        }
        Ok(())
    }

    /// Returns whether a neighbour or another application has a reservation in a session.
    fn others_have_reserved(&self, session: Index, application: Application) -> bool {
        let shared = self.store.pool_of(session).map(Holder::Pool);
        let distinct = self.store.senders_of(session).map(Holder::Sender);
        shared
            .into_iter()
            .chain(distinct)
            .flat_map(|holder| self.store.tcsbs_of(holder))
            .flat_map(|tcsb| self.store.rsbs_of(tcsb))
            .any(|rsb| self.store.rsb(rsb).hop != Peer::Local(application))
    }

    /// RELEASE: ends the application's sender and reservations, and closes its session.
    fn release_application<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        application: Application,
    ) -> Result<(), Rejection> {
        self.release_reservations(cx, application);
        let open = self.applications.close(application).ok_or(Rejection::NoSession)?;
        if let Some(template) = open.sender {
            self.stop_sending(cx, &open.session, &template);
        }
        if open.session.destination.is_multicast()
            && !self.applications.has_session(&open.session)
            && let Some(session) = self.store.find_session(&open.session)
        {
            let senders: Vec<Index> = self.store.senders_of(session).collect();
            for sender in senders {
                self.set_here(cx, sender, false);
            }
        }
        Ok(())
    }

    /// Releases an application's reservations of any style.
    fn release_reservations<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        application: Application,
    ) {
        let Some(open) = self.applications.open.get_mut(&application) else { return };
        let (key, reserved) = (open.session, core::mem::take(&mut open.reserved));
        let origin = Origin::Local(application);
        for filter in reserved {
            let Some(psb) = self.store.find_sender(&key, &filter) else { continue };
            let known = self.store.find_request(Holder::Sender(psb), None, origin);
            if let Some(rsb) = known.rsb {
                self.drop_reservation(cx, rsb, Change::Torn, Carried::NONE);
            }
        }
        let session = self.store.find_session(&key);
        if let Some(rsb) = session.and_then(|session| self.find_shared(session, None, origin).rsb) {
            self.drop_reservation(cx, rsb, Change::Torn, Carried::NONE);
        }
    }

    fn stop_sending<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        session: &Session,
        template: &SenderTemplate,
    ) {
        if let Some(index) = self.store.find_sender(session, template) {
            self.drop_sender(cx, index, Change::Torn);
        }
    }

    /// Fills in the source address of a sender without one: the address of this host on the route to the destination.
    fn fill_in_source<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        session: &Session,
        template: SenderTemplate,
    ) -> Result<SenderTemplate, Rejection> {
        if !template.source.is_unspecified() {
            return if cx.context.interfaces.is_local(template.source) {
                Ok(template)
            } else {
                Err(Rejection::NotOurAddress)
            };
        }
        let hop = cx.context.routes.lookup(session.destination).ok_or(Rejection::NoRoute)?;
        let own = || -> Option<IpAddr> {
            cx.context.interfaces.by_id(hop.interface)?.address_like(session.destination)
        };
        let source = hop.source.or_else(own).ok_or(Rejection::NoRoute)?;
        Ok(SenderTemplate { source, ..template })
    }
}

/// Returns the initial ADSPEC of a local sender, without its own link.
fn sender_adspec() -> Option<Arc<[u8]>> {
    let adspec = Adspec::for_sender();
    let mut body = alloc::vec![0; adspec.buffer_len()];
    let length = adspec.emit(&mut body).ok()?;
    body.truncate(length);
    Some(body.into())
}
