//! The host's side: applications that send and receive (RFC 2205 section 3.11.1).

use core::net::IpAddr;

use earmark_core::Time;
use earmark_wire::intserv::{Adspec, FlowSpec, SenderTspec};
use earmark_wire::rsvp::{FilterSpec, SenderTemplate, Session, SourceSelector};

use crate::api::{
    Application, BadSpecification, Change, Command, Event, Rejection, ReserveRequest,
};
use crate::counters::DropReason;
use crate::error::ResvFault;
use crate::instance::{Rsvp, Turn};
use crate::path::{PathFault, Way};
use crate::state::{Index, Kept, NONE, Origin, Peer, Psb, key};
use crate::traffic::Request;

impl Rsvp {
    /// Carries a command out, or says why not.
    pub(crate) fn command<E: From<Event>>(&mut self, turn: &mut Turn<'_, '_, E>, command: Command) {
        let (application, done) = match command {
            Command::Session { application, session } => {
                (application, self.open_session(turn, application, session))
            }
            Command::Sender { application, template, tspec, ttl } => {
                (application, self.define_sender(turn, application, template, tspec, ttl))
            }
            Command::Reserve { application, request, confirm } => {
                let ReserveRequest::FixedFilter { filter, flowspec } = request;
                (application, self.reserve_for(turn, application, filter, flowspec, confirm))
            }
            Command::Release { application } => {
                (application, self.release_application(turn, application))
            }
            Command::Keys { keys } => return self.replace_keys(turn, keys),
        };
        if let Err(reason) = done {
            turn.out.notify(Event::Rejected { application, reason });
        }
    }

    /// SESSION. Senders that are known already are announced at once.
    fn open_session<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        application: Application,
        session: Session,
    ) -> Result<(), Rejection> {
        if session.protocol == 0 || session.destination.is_unspecified() {
            return Err(Rejection::BadSession);
        }
        if self.applications.open.contains_key(&application) {
            return Err(Rejection::SessionOpen);
        }
        let session = key(session);
        self.applications.open(application, session);
        if let Some(index) = self.store.find_session(&session) {
            for sender in self.store.senders_of(index) {
                self.tell_of_sender(turn, application, sender);
            }
        }
        Ok(())
    }

    /// SENDER.
    fn define_sender<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
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
        let template = self.fill_in_source(turn, &session, template)?;
        let Way::Out(outgoing) = Way::of(turn.context, session.destination) else {
            return Err(Rejection::NoRoute);
        };
        if before == Some(template)
            && let Some(index) = self.store.find_sender(&session, &template)
        {
            self.change_own_sender(turn, index, tspec, ttl);
            return Ok(());
        }
        if self.store.find_sender(&session, &template).is_some() {
            return Err(Rejection::SenderTaken);
        }
        if let Some(before) = before {
            self.stop_sending(turn, &session, &before);
        }
        let session = self.admit_sender(&session, &template).map_err(|fault| match fault {
            PathFault::Silent(DropReason::Limit) => Rejection::Limit,
            PathFault::Silent(_) => Rejection::NoRoute,
            PathFault::Report(..) => Rejection::Ports,
        })?;
        let index = self.enter_sender(
            turn.now,
            Psb {
                session,
                template,
                tspec,
                hop: Peer::Local(application),
                outgoing: Some(outgoing),
                ttl,
                flags: Psb::E_POLICE,
                adspec: sender_adspec(),
                carried: Kept::default(),
                expires_at: Time::MAX,
                next: NONE,
                previous: NONE,
                tcsbs: NONE,
                path_refresh_at: Time::MAX,
                resv_refresh_at: Time::MAX,
                timer: None,
            },
        );
        if let Some(open) = self.applications.open.get_mut(&application) {
            open.sender = Some(template);
        }
        self.notify_path_state(turn, index, Change::Created);
        self.path_refresh(turn, index);
        Ok(())
    }

    /// A second SENDER call with the same template changes what the sender says.
    fn change_own_sender<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        index: Index,
        tspec: SenderTspec,
        ttl: u8,
    ) {
        let psb = self.store.psb_mut(index);
        let changed = psb.tspec != tspec || psb.ttl != ttl;
        psb.tspec = tspec;
        psb.ttl = ttl;
        if changed {
            self.notify_path_state(turn, index, Change::Changed);
            self.path_refresh(turn, index);
        }
    }

    /// RESERVE.
    fn reserve_for<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        application: Application,
        filter: FilterSpec,
        flowspec: FlowSpec,
        confirm: bool,
    ) -> Result<(), Rejection> {
        let open = self.applications.open.get(&application).ok_or(Rejection::NoSession)?;
        let session = open.session;
        if flowspec.validate().is_err() {
            let bad = match flowspec {
                FlowSpec::ControlledLoad(_) => BadSpecification::TokenBucket,
                FlowSpec::Guaranteed(..) => BadSpecification::Rspec,
            };
            return Err(Rejection::Specification(bad));
        }
        let psb = self.sender_for(&session, &filter, None).map_err(|_| Rejection::NoSuchSender)?;
        let request = Request {
            origin: Origin::Local(application),
            outgoing: None,
            flowspec,
            carried: Kept::default(),
            confirm: confirm.then_some(session.destination),
            expires_at: Time::MAX,
        };
        self.reserve(turn, psb, request).map_err(|ResvFault { .. }| Rejection::Conflict)?;
        if let Some(open) = self.applications.open.get_mut(&application)
            && !open.reserved.contains(&filter)
        {
            open.reserved.push(filter);
        }
        Ok(())
    }

    /// RELEASE.
    fn release_application<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        application: Application,
    ) -> Result<(), Rejection> {
        let open = self.applications.close(application).ok_or(Rejection::NoSession)?;
        if let Some(template) = open.sender {
            self.stop_sending(turn, &open.session, &template);
        }
        for filter in open.reserved {
            let Some(psb) = self.store.find_sender(&open.session, &filter) else { continue };
            let Some(tcsb) = self.store.find_tcsb(psb, None) else { continue };
            if let Some(rsb) = self.store.find_rsb(tcsb, Origin::Local(application)) {
                self.drop_reservation(turn, psb, rsb, Change::Torn);
            }
        }
        Ok(())
    }

    fn stop_sending<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        session: &Session,
        template: &SenderTemplate,
    ) {
        if let Some(index) = self.store.find_sender(session, template) {
            self.drop_sender(turn, index, Change::Torn);
        }
    }

    /// A sender without address gets the one that this host would send from.
    fn fill_in_source<E>(
        &self,
        turn: &Turn<'_, '_, E>,
        session: &Session,
        template: SenderTemplate,
    ) -> Result<SenderTemplate, Rejection> {
        if !template.source.is_unspecified() {
            return if turn.context.interfaces.is_local(template.source) {
                Ok(template)
            } else {
                Err(Rejection::NotOurAddress)
            };
        }
        let hop = turn.context.routes.lookup(session.destination).ok_or(Rejection::NoRoute)?;
        let own = || -> Option<IpAddr> {
            turn.context.interfaces.by_id(hop.interface)?.address_like(session.destination)
        };
        let source = hop.source.or_else(own).ok_or(Rejection::NoRoute)?;
        Ok(SenderTemplate { source, ..template })
    }
}

/// The ADSPEC that a sender of ours starts with, before its own link is added.
fn sender_adspec() -> Option<alloc::boxed::Box<[u8]>> {
    let adspec = Adspec::for_sender();
    let mut body = alloc::vec![0; adspec.buffer_len()];
    let length = adspec.emit(&mut body).ok()?;
    body.truncate(length);
    Some(body.into_boxed_slice())
}
