//! Requests of this node: CREATE and EXTERNAL for its applications.

use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use earmark_core::{FilterAction, Time};
use earmark_wire::gist::{Direction, LooseEnd, Mri, PathCoupled, SessionId};
use earmark_wire::natfw_nslp::{DataTerminal, ExtendedFlow, Nonce, RuleAction, TransportSelector};

use super::api::{Application, Command, ExposeRequest, OpenRequest, Refusal, Rejection};
use super::flow::packets_of;
use super::instance::NatfwNslp;
use super::state::{Extra, Flags, Index, Kind, Role, Session, Stage, seconds};
use super::store::Ended;
use crate::auth_object;
use crate::nslp::{Attributes, HandlerContext};

/// Limit of the time between two attempts, in times of the first one.
const LONGER_WAITS: u32 = 12;

impl NatfwNslp {
    /// Returns the attributes of the transport that a command needs, and its application.
    pub(crate) fn wanted_transport(&self, command: &Command) -> Option<(Application, Attributes)> {
        let (application, attributes) = match command {
            Command::Open { application, request } => (application, request.attributes),
            Command::Expose { application, request } => (application, request.attributes),
            Command::Release { .. } => return None,
        };
        Some((*application, attributes.unwrap_or(self.config.attributes)))
    }

    /// Executes a command of an application.
    pub fn command(&mut self, cx: &mut HandlerContext<'_, '_>, command: Command) {
        let (application, result) = match command {
            Command::Open { application, request } => {
                (application, self.open(cx, application, &request))
            }
            Command::Expose { application, request } => {
                (application, self.expose(cx, application, &request))
            }
            Command::Release { application } => (application, self.release(cx, application)),
        };
        if let Err(reason) = result {
            cx.report(super::Event::Rejected { application, reason });
        }
    }

    fn open(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        application: Application,
        request: &OpenRequest,
    ) -> Result<(), Rejection> {
        let destination = request.destination;
        if destination.is_multicast()
            || destination.is_unspecified()
            || cx.context.interfaces.is_local(destination)
        {
            return Err(Rejection::Destination);
        }
        let source = match request.source {
            Some(source) if !cx.context.interfaces.is_local(source) => {
                return Err(Rejection::NotLocal);
            }
            Some(source) => source,
            None => own_address(cx, destination)?,
        };
        let has_ports = request.source_port.is_some() || request.destination_port.is_some();
        let all_bits = if destination.is_ipv4() { 32 } else { 128 };
        let mri = PathCoupled {
            source,
            destination,
            source_prefix: all_bits,
            destination_prefix: all_bits,
            protocol: request.protocol,
            ds_field: None,
            flow_label: None,
            spi: request.spi,
            source_port: has_ports.then_some(request.source_port.unwrap_or(0)),
            destination_port: has_ports.then_some(request.destination_port.unwrap_or(0)),
            direction: Direction::Downstream,
        };
        let is_odd = has_ports && (request.protocol.is_none() || request.spi.is_some());
        if source.is_ipv4() != destination.is_ipv4() || is_odd || packets_of(&mri).is_err() {
            return Err(Rejection::Packets);
        }
        let extra = Extra {
            proxy: request.proxy,
            icmp_types: request.icmp_types.clone(),
            auth: request.token.as_ref().map(auth_object::object_of).unwrap_or_default(),
            ..Extra::default()
        };
        let wanted = Wanted {
            kind: Kind::Create,
            mri: Mri::PathCoupled(mri),
            extended_flow: ExtendedFlow { action: RuleAction::Allow, next_port: request.next_port },
            lifetime: request.lifetime,
            attributes: request.attributes,
            extra,
        };
        self.begin_own(cx, application, wanted)
    }

    fn expose(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        application: Application,
        request: &ExposeRequest,
    ) -> Result<(), Rejection> {
        let target = request.from.or(self.config.signaling_destination);
        let address = match (request.address, target) {
            (Some(address), _) => address,
            (None, Some(target)) => own_address(cx, target)?,
            (None, None) => return Err(Rejection::NoSender),
        };
        if !cx.context.interfaces.is_local(address) {
            return Err(Rejection::NotLocal);
        }
        let action = match request.action {
            FilterAction::Allow => RuleAction::Allow,
            FilterAction::Deny => RuleAction::Deny,
        };
        let sender = match request.from {
            Some(IpAddr::V4(sender)) => sender,
            _ => Ipv4Addr::UNSPECIFIED,
        };
        let terminal = DataTerminal {
            sender,
            sender_prefix: if sender.is_unspecified() { 0 } else { 32 },
            transport: TransportSelector::Ports {
                protocol: request.protocol,
                destination: request.port,
                source: request.from_port.unwrap_or(0),
            },
        };
        let mri = external_mri(address, request, target)?;
        let data = super::external::data_of(&mri, &terminal);
        if data.source.is_ipv4() != data.destination.is_ipv4() || packets_of(&data).is_err() {
            return Err(Rejection::Packets);
        }
        let extra = Extra {
            terminal: Some(terminal),
            proxy: request.proxy,
            auth: request.token.as_ref().map(auth_object::object_of).unwrap_or_default(),
            ..Extra::default()
        };
        let wanted = Wanted {
            kind: Kind::External,
            mri,
            extended_flow: ExtendedFlow { action, next_port: request.next_port },
            lifetime: request.lifetime,
            attributes: request.attributes,
            extra,
        };
        self.begin_own(cx, application, wanted)
    }

    fn release(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        application: Application,
    ) -> Result<(), Rejection> {
        let found = self.store.applications.get(&application).copied();
        let index = found.ok_or(Rejection::NotInUse)?;
        let session = self.store.session(index);
        let ended = (session.kind == Kind::External).then_some(Ended::External(session.id));
        self.release_own(cx, index);
        if let Some(ended) = ended {
            self.end_dependents(cx, ended);
        }
        cx.report(super::Event::Ended { application, info: None });
        Ok(())
    }

    fn begin_own(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        application: Application,
        wanted: Wanted,
    ) -> Result<(), Rejection> {
        let lifetime = wanted.lifetime.unwrap_or(self.config.lifetime);
        if !self.config.enabled {
            return Err(Rejection::Off);
        }
        if self.store.applications.contains_key(&application) {
            return Err(Rejection::InUse);
        }
        if lifetime < self.config.shortest_lifetime.max(Duration::from_secs(1))
            || lifetime > self.config.longest_lifetime
        {
            return Err(Rejection::Lifetime);
        }
        if !self.has_own_room(cx) {
            return Err(Rejection::TooMany);
        }
        let id = self.ids.draw();
        let mut extra = wanted.extra;
        // Without proxy mode the nonce says nothing: "the absence of a NONCE object indicates a CREATE initiated by the DS"
        // (RFC 5973 section 3.7.6.1).
        extra.nonce = extra.proxy.is_proxy().then(|| Nonce::of_session(id));
        let attributes = wanted.attributes.unwrap_or(self.config.attributes);
        let index = self.start(
            cx,
            Session {
                extended_flow: wanted.extended_flow,
                attributes,
                extra: Some(alloc::boxed::Box::new(extra)),
                ..self.own_session(id, (wanted.kind, Role::Initiator(application)), wanted.mri)
            },
            seconds(lifetime),
        );
        self.enter_reservation(index);
        Ok(())
    }

    /// Returns a session that this node asks for, without its details.
    pub(super) fn own_session(
        &self,
        id: SessionId,
        (kind, role): (Kind, Role),
        mri: Mri,
    ) -> Session {
        Session {
            id,
            kind,
            stage: Stage::Pending,
            role,
            flags: Flags::default(),
            attributes: self.config.attributes,
            extended_flow: ExtendedFlow { action: RuleAction::Allow, next_port: false },
            near: mri,
            far: mri,
            back: None,
            on: None,
            arrival: earmark_core::shares::OWN,
            msn: 0,
            lifetime: 0,
            expires_at: Time::MAX,
            next_at: Time::MAX,
            timer: None,
            counted: self.policy.uncounted(),
            binding: None,
            extra: None,
        }
    }

    /// Stores a session that this node asks for, and sends its request.
    pub(super) fn start(
        &mut self,
        cx: &mut HandlerContext<'_, '_>,
        session: Session,
        lifetime: u32,
    ) -> Index {
        let msn = self.numbers.next_u64() as u32;
        let index = self.store.insert(Session { lifetime, msn, ..session });
        self.counters.created += 1;
        self.transmit(cx, index);
        index
    }

    /// Sends the request of a session of this node again, as a new message: after a change of its path, or to refresh it.
    pub(super) fn send_again(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let session = self.store.session_mut(index);
        session.extra().sent = 0;
        session.msn = session.msn.wrapping_add(1);
        self.transmit(cx, index);
    }

    /// Sends the request of a session of this node, and waits for the RESPONSE: longer and longer after the usual attempts.
    fn transmit(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let (wait, attempts) = (self.config.response_timeout, self.config.attempts);
        let session = self.store.session_mut(index);
        let extra = session.extra();
        extra.sent = extra.sent.saturating_add(1);
        let more = extra.sent.saturating_sub(attempts).saturating_add(1);
        let until = cx.now + wait * more.min(LONGER_WAITS);
        let granted_until = extra.granted_until;
        session.next_at = if granted_until > cx.now { until.min(granted_until) } else { until };
        let lifetime = session.lifetime;
        self.store.rearm(index);
        self.send_request(cx, index, (lifetime, None), None);
    }

    /// Handles the time at which a session of this node is due: its refresh, or its missing RESPONSE.
    pub(super) fn request_due(&mut self, cx: &mut HandlerContext<'_, '_>, index: Index) {
        let extra = self.store.session(index).extra.as_ref();
        let (sent, granted_until) =
            extra.map_or((0, Time::ZERO), |extra| (extra.sent, extra.granted_until));
        if sent == 0 {
            return self.send_again(cx, index);
        }
        // A session is dead if nothing has refreshed it within its lifetime (section 3.2.8), and not before.
        if sent < self.config.attempts || cx.now < granted_until {
            self.counters.repeated += 1;
            let session = self.store.session_mut(index);
            session.msn = session.msn.wrapping_add(1);
            return self.transmit(cx, index);
        }
        match self.store.session(index).role {
            Role::Initiator(_) => self.fail(cx, index, Refusal::Unanswered),
            Role::Proxy(primary) => {
                self.release_own(cx, index);
                self.secondary_failed(cx, primary);
            }
            Role::Forwarder | Role::Responder => {}
        }
    }
}

/// What an application asks for.
struct Wanted {
    kind: Kind,
    mri: Mri,
    extended_flow: ExtendedFlow,
    lifetime: Option<Duration>,
    attributes: Option<Attributes>,
    extra: Extra,
}

/// Returns the address of this node from which packets to a destination leave.
pub(super) fn own_address(
    cx: &HandlerContext<'_, '_>,
    destination: IpAddr,
) -> Result<IpAddr, Rejection> {
    let hop = cx.context.routes.lookup(destination).ok_or(Rejection::NoRoute)?;
    let link = cx.context.interfaces.by_id(hop.interface);
    hop.source.or_else(|| link?.address_like(destination)).ok_or(Rejection::NoRoute)
}

/// Returns the routing of an EXTERNAL: path-coupled towards a known data sender, or if this node is behind firewalls only;
/// else towards the signalling destination (RFC 5973 section 3.7.2).
fn external_mri(
    address: IpAddr,
    request: &ExposeRequest,
    target: Option<IpAddr>,
) -> Result<Mri, Rejection> {
    let target = target.ok_or(Rejection::NoSender)?;
    if target.is_ipv4() != address.is_ipv4() {
        return Err(Rejection::Packets);
    }
    if request.from.is_none() && !request.untranslated {
        let direction = Direction::Downstream;
        return Ok(Mri::LooseEnd(LooseEnd { source: address, destination: target, direction }));
    }
    let all_bits = if address.is_ipv4() { 32 } else { 128 };
    Ok(Mri::PathCoupled(PathCoupled {
        source: target,
        destination: address,
        source_prefix: if request.from.is_some() { all_bits } else { 0 },
        destination_prefix: all_bits,
        protocol: Some(request.protocol),
        ds_field: None,
        flow_label: None,
        spi: None,
        source_port: Some(request.from_port.unwrap_or(0)),
        destination_port: Some(request.port),
        direction: Direction::Upstream,
    }))
}
