//! Requests of other nodes: new sessions, updates, and what this node does with them.

use alloc::boxed::Box;
use core::time::Duration;

use earmark_core::{Endpoint, Time};
use earmark_wire::gist::PathCoupled;
use earmark_wire::natfw_nslp::iana::SignalingSessionFailure as Failure;
use earmark_wire::natfw_nslp::{Info, Outcome, RuleAction};

use super::api::{Change, Event};
use super::binding::following;
use super::candidate::Candidate;
use super::counters::DropReason;
use super::flow::{asking_end, packets_of, receiver_port};
use super::instance::NatfwNslp;
use super::origin::check_origin;
use super::outcome::{FULL, PROCESSED, failure};
use super::policy::PolicyRequest;
use super::received::{Request, is_newer};
use super::send::Addresses;
use super::state::{
    ALL_SESSIONS, Extra, Flags, Index, Kind, Role, Session, Stage, User, end_after, path_coupled,
};
use super::store::Reserved;
use crate::nslp::{Attributes, HandlerContext, Received};

impl NatfwNslp {
    /// Handles a CREATE or EXTERNAL of a peer.
    pub(super) fn receive_request(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        request: &Request<'_>,
    ) {
        let message = request.message;
        if message.session == ALL_SESSIONS {
            return self.receive_deletion(cx, request);
        }
        let Some(index) = self.store.find(message.session) else {
            return match request.lifetime {
                0 => self.ignore(cx, message, DropReason::NoSession),
                _ => self.begin(cx, request),
            };
        };
        if let Err(reason) = self.check_request(cx, message, (index, request.peer, request.kind)) {
            return self.ignore(cx, message, reason);
        }
        let session = self.store.session(index);
        if !is_newer(request.msn, session.msn) {
            return self.ignore(cx, message, DropReason::OldMsn);
        }
        if request.lifetime == 0 {
            self.store.session_mut(index).msn = request.msn;
            return self.release_by(cx, index, request);
        }
        if request.repeats(session) && self.policy.is_current(session.counted) {
            return self.refresh(cx, index, request);
        }
        self.update(cx, index, request);
    }

    /// Begins a session, or refuses it.
    fn begin(&mut self, cx: &mut HandlerContext<'_, '_>, request: &Request<'_>) {
        let evaluated = self
            .check_room(cx, request.message, request.peer)
            .and_then(|()| self.evaluate(cx, request, None));
        match evaluated {
            Ok(mut candidate) => {
                let session = self.session_of(cx.now, request, &mut candidate);
                let index = self.store.insert(session);
                self.counters.created += 1;
                self.attach(index, &mut candidate);
                self.act(cx, index, request);
            }
            Err(outcome) => self.refuse(cx, request, outcome),
        }
    }

    /// Changes the rules of a session (RFC 5973 section 3.10), or refuses that and leaves them as they are.
    fn update(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index, request: &Request<'_>) {
        let admitted = self.may_change(cx.now, &request.message.origin);
        let evaluated = match admitted {
            true => self.evaluate(cx, request, Some(index)),
            false => Err(FULL),
        };
        let was_current = self.policy.is_current(self.store.session(index).counted);
        let mut candidate = match evaluated {
            Ok(candidate) => candidate,
            Err(outcome) => {
                self.refuse(cx, request, outcome);
                // Rules that the administrator has withdrawn end at once.
                if !was_current && matches!(outcome, Outcome::PermanentFailure(_)) {
                    self.end_towards_responder(cx, index);
                }
                return;
            }
        };
        self.counters.updated += 1;
        self.detach(cx, index, Change::Updated);
        let old = self.store.session(index);
        if old.far != candidate.far {
            cx.set_state_lifetime(old.far, old.id, Duration::ZERO);
        }
        let new = self.session_of(cx.now, request, &mut candidate);
        let session = self.store.session_mut(index);
        // What the indices and the timer know of the session stays until they change with it.
        *session = Session {
            back: session.back,
            on: session.on,
            arrival: session.arrival,
            next_at: session.next_at,
            timer: session.timer,
            ..new
        };
        self.take_peer(index, request);
        self.store.rearm(index);
        self.attach(index, &mut candidate);
        self.act(cx, index, request);
    }

    /// Makes the sender of a request the peer of its session towards the initiator.
    pub(super) fn take_peer(&mut self, index: Index, request: &Request<'_>) {
        let (peer, arrival) = (request.peer, request.message.interface);
        let session = self.store.session_mut(index);
        session.record_channel(request.message.origin.channel);
        if session.back != Some(peer) || session.arrival != arrival {
            self.store.set_back(index, peer, arrival);
        }
    }

    fn evaluate(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        request: &Request<'_>,
        own: Option<Index>,
    ) -> Result<Candidate, Outcome> {
        if request.icmp_types.len() > usize::from(self.config.limits.icmp_types) {
            return Err(failure(Failure::IcmpTypeNotPermitted));
        }
        let mut candidate = match request.kind {
            Kind::Create => self.evaluate_create(cx, request, own)?,
            Kind::External => self.evaluate_external(cx, request, own)?,
        };
        // The rules must be possible, and nobody else's.
        let trial = self.trial_of(cx.now, request, &candidate);
        let verdict =
            trial.check_rules().and_then(|()| match self.store.conflicts(own, trial.rules()) {
                true => Err(Failure::PolicyConflict),
                false => Ok(()),
            });
        if let Err(reason) = verdict {
            if let Some(binding) = candidate.binding.take() {
                self.bindings.release(cx.now, binding);
            }
            return Err(failure(reason));
        }
        Ok(candidate)
    }

    /// Checks origin, policy and lifetime of a request about `data`.
    ///
    /// # Errors
    /// The outcome for the peer.
    pub(super) fn authorize(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        request: &Request<'_>,
        (data, reserved): (&PathCoupled, bool),
        (own, candidate): (Option<Index>, &mut Candidate),
    ) -> Result<(), Outcome> {
        let message = request.message;
        check_origin(cx, message, request.kind, data)?;
        let packets = packets_of(data).map_err(failure)?;
        let verified = self.verify(cx, message, (request.extra, &packets.flow))?;
        let user = match &verified {
            Some(verified) => User::Name(verified.name.clone()),
            None => User::Host(asking_end(request.kind, request.near())),
        };
        let link = cx.context.interfaces.by_id(message.interface);
        let uncounted = self.policy.uncounted();
        let verdict = self.policy.evaluate(&PolicyRequest {
            interface: link.map_or("", |link| &link.name),
            packets: &packets,
            secure: message.origin.channel.is_secured(),
            verified: verified.as_ref().map(|verified| &*verified.name),
            reserved,
            deny: request.extended_flow.action == RuleAction::Deny,
            user: &user,
            counted: own.map_or(uncounted, |own| self.store.session(own).counted),
        })?;
        candidate.limit_lifetime(&self.config, verdict.longest_lifetime)?;
        candidate.counted = Some(verdict.counted);
        candidate.user = Some(user);
        candidate.verified = verified;
        Ok(())
    }

    /// Returns a session without what must be undone: to compute its rules before they are stored.
    fn trial_of(&self, now: Time, request: &Request<'_>, candidate: &Candidate) -> Session {
        let extra = Extra {
            terminal: candidate.terminal,
            icmp_types: candidate.icmp_types.clone(),
            ..Extra::default()
        };
        let extra = Some(Box::new(extra));
        Session { extra, ..self.bare_session(now, request, candidate) }
    }

    fn session_of(&self, now: Time, request: &Request<'_>, candidate: &mut Candidate) -> Session {
        let session = self.bare_session(now, request, candidate);
        Session { extra: candidate.take_extra(), ..session }
    }

    fn bare_session(&self, now: Time, request: &Request<'_>, candidate: &Candidate) -> Session {
        let message = request.message;
        let (own, theirs) = (self.config.attributes, message.attributes());
        let flags = Flags::default()
            .with(Flags::PASSES, candidate.passes && self.config.is_middlebox())
            .with(Flags::PROBED, candidate.is_probed)
            .with(Flags::SECURED, message.origin.channel.is_secured())
            .with(Flags::OVER_ASSOCIATION, message.origin.channel.is_association());
        Session {
            id: message.session,
            kind: request.kind,
            stage: Stage::Pending,
            role: candidate.role,
            flags,
            attributes: Attributes {
                reliable: own.reliable || theirs.reliable,
                secure: own.secure || theirs.secure,
            },
            extended_flow: candidate.extended_flow,
            near: message.mri,
            far: candidate.far,
            back: Some(request.peer),
            on: None,
            arrival: message.interface,
            msn: request.msn,
            lifetime: candidate.lifetime,
            expires_at: end_after(now, candidate.lifetime),
            next_at: Time::MAX,
            timer: None,
            counted: candidate.counted.unwrap_or(self.policy.uncounted()),
            binding: candidate.binding,
            extra: None,
        }
    }

    /// Enters a session into the indices of its rules, reservations, quotas and tokens.
    fn attach(&mut self, index: Index, candidate: &mut Candidate) {
        let session = self.store.session(index);
        if let Some(user) = session.extra.as_ref().and_then(|extra| extra.user.as_ref()) {
            self.policy.count(session.counted, user);
        }
        self.set_verified(index, candidate.verified.take());
        self.hold_rules(index);
        self.enter_reservation(index);
        self.enter_dependent(index);
    }

    /// Removes a session from the indices of its rules, reservations, quotas and tokens, and releases its binding.
    pub(super) fn detach(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index, why: Change) {
        self.drop_rules(cx, index, why);
        for key in self.reserved_by(index).into_iter().flatten() {
            self.store.reservations.remove(&(key, index));
        }
        self.remove_dependent(index);
        self.set_verified(index, None);
        let session = self.store.session_mut(index);
        let (counted, binding) = (session.counted, session.binding.take());
        let user = session.extra.as_mut().and_then(|extra| extra.user.take());
        if let Some(user) = user {
            self.policy.discount(counted, &user);
        }
        if let Some(binding) = binding {
            self.bindings.release(cx.now, binding);
        }
    }

    /// Enters the address and port that an EXTERNAL session reserves or blocks.
    pub(super) fn enter_reservation(&mut self, index: Index) {
        for key in self.reserved_by(index).into_iter().flatten() {
            self.store.reservations.insert((key, index));
        }
    }

    /// Returns the address and port that an EXTERNAL session reserves or blocks, as CREATEs name them at this node, and those
    /// after it.
    fn reserved_by(&self, index: Index) -> [Option<Reserved>; 2] {
        let session = self.store.session(index);
        let terminal = session.extra.as_ref().and_then(|extra| extra.terminal);
        let (Kind::External, Some(terminal)) = (session.kind, terminal) else {
            return [None, None];
        };
        let outside = match session.binding {
            Some(binding) => self.bindings.get(binding).external,
            None => Endpoint {
                address: asking_end(Kind::External, &session.near),
                port: receiver_port(&terminal),
            },
        };
        let protocol = terminal.transport.protocol().unwrap_or(0);
        let next_port = session.extended_flow.next_port && outside.port != 0;
        [Some((protocol, outside)), next_port.then(|| (protocol, following(outside)))]
    }

    /// Answers the request of a new or changed session, or sends it on.
    fn act(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index, request: &Request<'_>) {
        let session = self.store.session(index);
        let (role, lifetime) = (session.role, session.lifetime);
        let hops = Some(request.message.hops);
        if role == Role::Responder {
            let session = self.store.session_mut(index);
            let was_pending = session.stage == Stage::Pending;
            session.stage = Stage::Established;
            self.install_rules(cx, index);
            self.grant(cx, index, request);
            if was_pending {
                self.report_admission(cx, index);
            }
        }
        if role == Role::Forwarder || self.store.session(index).flags.has(Flags::PROBED) {
            self.send_request(cx, index, (lifetime, hops), Some(request));
        }
        // This may end the session.
        self.serve_secondary(cx, index);
    }

    /// Answers the request of a session that this node grants.
    pub(super) fn grant(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        index: Index,
        request: &Request<'_>,
    ) {
        let lifetime = self.store.session(index).lifetime;
        let external = self.external_address(index).filter(|_| request.kind == Kind::External);
        // "MUST copy the NATFW_EXTERNAL_BINDING object to response message, if the object is included" (section 3.7.2).
        let addresses = Addresses { external, bindings: request.external_binding };
        self.answer(cx, request, (Some(lifetime), PROCESSED), addresses);
    }

    /// Tells users that data will arrive at this node.
    fn report_admission(&self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = self.store.session(index);
        let (Kind::Create, Some(flow)) = (session.kind, path_coupled(&session.near)) else {
            return;
        };
        if session.flags.has(Flags::PASSES) {
            return;
        }
        let nonce = session.extra.as_ref().and_then(|extra| extra.nonce);
        let exposed = self.reservation_for(flow, nonce).map(|index| self.store.session(index).role);
        let application = match exposed {
            Some(Role::Initiator(application)) => Some(application),
            _ => None,
        };
        cx.report(Event::Admitted {
            application,
            session: session.id,
            from: (flow.source_prefix != 0).then_some(flow.source),
            port: flow.destination_port.unwrap_or(0),
        });
    }

    /// Refuses a request.
    pub(super) fn refuse(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        request: &Request<'_>,
        outcome: Outcome,
    ) {
        self.counters.refused += 1;
        let (session, interface) = (request.message.session, request.message.interface);
        let info = Info::new(outcome);
        cx.report(Event::Denied { session, info, interface });
        self.answer(cx, request, (None, outcome), Addresses::default());
    }

    /// Counts a dropped message, and reports it.
    pub(super) fn ignore(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        message: &Received<'_>,
        reason: DropReason,
    ) {
        self.counters.drop(reason);
        let (session, interface) = (message.session, message.interface);
        cx.report(Event::Dropped { reason, session, interface });
    }
}
