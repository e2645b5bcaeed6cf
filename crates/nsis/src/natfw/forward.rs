//! Requests of other nodes: new sessions, updates, and what this node does with them.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::time::Duration;

use earmark_core::{Endpoint, InterfaceId, Time};
use earmark_token::Verified;
use earmark_wire::gist::{Mri, PathCoupled};
use earmark_wire::natfw_nslp::iana::{
    PermanentFailure, SignalingSessionFailure as Failure, Success,
};
use earmark_wire::natfw_nslp::{DataTerminal, ExtendedFlow, Info, Nonce, Outcome, ProxyMode};

use super::api::{Change, Event};
use super::binding::following;
use super::config::Config;
use super::counters::DropReason;
use super::flow::{packets_of, receiver_port};
use super::instance::NatfwNslp;
use super::origin::{asking_end, check_origin};
use super::policy::{Counted, PolicyRequest};
use super::received::{Request, is_newer};
use super::send::Addresses;
use super::state::{Extra, Flags, Index, Kind, Role, Session, Stage, User, path_coupled};
use super::store::Reserved;
use crate::nslp::{HandlerContext, Received};

/// What a request makes of its session at this node, before it is stored.
#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) role: Role,
    pub(super) far: Mri,
    /// Data of the session passes this node.
    pub(super) passes: bool,
    /// Interface by which the flow, or the EXTERNAL, leaves the network.
    pub(super) leaves: Option<InterfaceId>,
    /// This node answers, and sends the request on as well.
    pub(super) is_probed: bool,
    pub(super) lifetime: u32,
    pub(super) extended_flow: ExtendedFlow,
    pub(super) counted: Option<Counted>,
    pub(super) user: Option<User>,
    pub(super) verified: Option<Box<Verified>>,
    pub(super) binding: Option<Index>,
    pub(super) terminal: Option<DataTerminal>,
    pub(super) nonce: Option<Nonce>,
    pub(super) proxy: ProxyMode,
    pub(super) icmp_types: Vec<u8>,
}

/// Returns the outcome of a session that cannot be as requested.
pub(super) const fn failure(failure: Failure) -> Outcome {
    Outcome::SignalingSessionFailure(failure)
}

/// Returns the outcome of a request that will not succeed later.
pub(super) const fn permanent(failure: PermanentFailure) -> Outcome {
    Outcome::PermanentFailure(failure)
}

/// Outcome of a granted request.
pub(super) const PROCESSED: Outcome = Outcome::Success(Success::Processed);

impl Candidate {
    pub(super) fn new(request: &Request<'_>, far: Mri) -> Candidate {
        Candidate {
            role: Role::Forwarder,
            far,
            passes: false,
            leaves: None,
            is_probed: false,
            lifetime: request.lifetime,
            extended_flow: request.extended_flow,
            counted: None,
            user: None,
            verified: None,
            binding: None,
            terminal: request.terminal,
            nonce: request.nonce,
            proxy: request.proxy,
            icmp_types: request.icmp_types.into(),
        }
    }

    /// Makes this node, the edge, the responder in proxy mode.
    pub(super) fn answered_by_edge(self, proxy: ProxyMode) -> Candidate {
        let is_probed = proxy == ProxyMode::EdgeAndOnward;
        Candidate { role: Role::Responder, is_probed, ..self }
    }

    /// Lowers the lifetime to the longest that this node grants.
    ///
    /// # Errors
    /// The lifetime is too short then.
    pub(super) fn limit_lifetime(
        &mut self,
        config: &Config,
        longest: Option<Duration>,
    ) -> Result<(), Outcome> {
        let longest = longest.unwrap_or(Duration::MAX).min(config.longest_lifetime);
        self.lifetime = self.lifetime.min(seconds(longest));
        match self.lifetime < seconds(config.shortest_lifetime) {
            true => Err(failure(Failure::LifetimeTooSmall)),
            false => Ok(()),
        }
    }

    fn extra(&mut self) -> Option<Box<Extra>> {
        let is_plain = self.terminal.is_none()
            && self.nonce.is_none()
            && self.proxy == ProxyMode::Off
            && self.icmp_types.is_empty()
            && self.user.is_none();
        (!is_plain).then(|| {
            Box::new(Extra {
                terminal: self.terminal,
                proxy: self.proxy,
                nonce: self.nonce,
                icmp_types: core::mem::take(&mut self.icmp_types),
                user: self.user.take(),
                ..Extra::default()
            })
        })
    }
}

/// Returns a duration in whole seconds.
pub(super) fn seconds(duration: Duration) -> u32 {
    u32::try_from(duration.as_secs()).unwrap_or(u32::MAX)
}

/// Returns the end of a session after a lifetime in seconds.
pub(super) fn end_after(now: Time, lifetime: u32) -> Time {
    now + Duration::from_secs(lifetime.into())
}

impl NatfwNslp {
    /// Handles a CREATE or EXTERNAL of a peer.
    pub(super) fn receive_request(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        request: &Request<'_>,
    ) {
        let message = request.message;
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
            false => Err(super::limits::FULL),
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
        let Session { role, flags, attributes, extended_flow, near, far, msn, .. } = new;
        *session = Session {
            role,
            flags,
            attributes,
            extended_flow,
            near,
            far,
            msn,
            lifetime: new.lifetime,
            expires_at: new.expires_at,
            counted: new.counted,
            binding: new.binding,
            extra: new.extra,
            stage: new.stage,
            timer: session.timer,
            ..*session
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
            deny: request.extended_flow.action == earmark_wire::natfw_nslp::RuleAction::Deny,
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
        Session { extra: candidate.extra(), ..session }
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
            attributes: crate::nslp::Attributes {
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
    }

    /// Removes a session from the indices of its rules, reservations, quotas and tokens, and releases its binding.
    pub(super) fn detach(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index, why: Change) {
        self.drop_rules(cx, index, why);
        for key in self.reserved_by(index).into_iter().flatten() {
            self.store.reservations.remove(&(key, index));
        }
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
        let bindings = request.external_binding.filter(|binding| !binding.wire.is_empty());
        let addresses = Addresses { external, bindings };
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
