//! Path messages: new, refreshed and changed senders (RFC 2209, PATH MESSAGE ARRIVES).

mod adspec;
mod known_sender;

use alloc::boxed::Box;
use core::net::IpAddr;

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::{Context, Datagram, InterfaceId, Time};
use earmark_token::TokenError;
use earmark_wire::rsvp::iana::TrafficControlError;
use earmark_wire::rsvp::{
    ErrorCode, FilterSpec, Message, Path, SenderTemplate, Session, SourceSelector,
};

use crate::api::{Application, Change, Event};
use crate::context::HandlerContext;
use crate::counters::DropReason;
use crate::instance::Rsvp;
use crate::neighbors::address::is_unicast;
use crate::neighbors::origin::may_be_previous_hop;
use crate::rules::fault::ResvFault;
use crate::rules::next_hops::{NextHops, SenderData};
use crate::rules::policy::refused_token;
use crate::state::store::{NamedBlock, Place};
use crate::state::{
    Block, Holder, Index, Kept, Origin, OutInterfaces, Peer, Psb, Timer, TimerKind, key,
};

impl Rsvp {
    pub(crate) fn receive_path<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        message: &Message<'_>,
        path: &Path<'_>,
    ) {
        if path.refresh_ms == 0 {
            return self.drop_unacknowledged(cx, datagram, DropReason::ZeroRefreshPeriod);
        }
        let interface = datagram.interface;
        // UDP does not show the TTL with which a message arrived (RFC 2205 appendix C).
        let ttl = if datagram.encapsulated { message.send_ttl } else { datagram.ttl };
        let mut received = ReceivedPath {
            interface,
            ttl,
            flags: if message.send_ttl == ttl { 0 } else { Psb::NON_RSVP }
                | if path.session.flags & Session::E_POLICE == 0 { 0 } else { Psb::E_POLICE },
            expires_at: cx.now + self.lifetime(cx, interface, path.refresh_ms),
            next_hops: None,
        };
        let found = self.store.look_up_sender(&path.session, &path.sender.template);
        mark(Checkpoint::SearchPsb);
        let on_its_way =
            found.ok().filter(|&index| self.follows_route(index, path.session.destination));
        if let Some(index) = on_its_way {
            received.flags |= self.store.psb(index).flags & Psb::HERE;
        } else {
            let destination = path.session.destination;
            let next_hops = next_hops_of(cx.context, path, interface);
            let here = match next_hops {
                NextHops::WithoutRsvp => {
                    self.withhold_acknowledgement(cx);
                    return self.relay(cx, datagram);
                }
                NextHops::None => {
                    return self.drop_unacknowledged(cx, datagram, DropReason::NoRoute);
                }
                NextHops::Here => true,
                NextHops::Out(_) | NextHops::Branches(_) | NextHops::WrongInterface => {
                    destination.is_multicast() && self.applications.has_session(&path.session)
                }
            };
            received.flags |= if here { Psb::HERE } else { 0 };
            received.next_hops = Some(next_hops);
        }
        let restarting_hop = (!self.graceful_restart.is_idle()).then(|| found.ok()).flatten();
        let restarting_hop = restarting_hop.map(|index| self.store.psb(index).hop);
        let verdict = match found {
            Ok(index) => self.refresh_sender(cx, index, path, &received),
            Err(place) => {
                self.note_translation(cx, datagram, path);
                self.create_sender(cx, place, path, &received)
            }
        };
        match verdict {
            Ok(()) => {
                self.note_encapsulation(datagram, interface, path.hop.address);
                if !self.graceful_restart.is_idle() {
                    self.note_path(cx, path, restarting_hop);
                }
            }
            Err(PathFault::Silent(reason)) => self.drop_unacknowledged(cx, datagram, reason),
            Err(PathFault::Report(reason, code, value)) => {
                self.report_path_fault(cx, datagram, path, reason, &ResvFault::new(code, value));
            }
            Err(PathFault::Token(error)) => {
                let fault = refused_token(*error);
                self.report_path_fault(cx, datagram, path, DropReason::Refused, &fault);
            }
        }
    }

    /// Drops a Path with a PathErr.
    #[cold]
    fn report_path_fault<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        path: &Path<'_>,
        reason: DropReason,
        fault: &ResvFault,
    ) {
        self.withhold_acknowledgement(cx);
        self.send_path_err(cx, datagram, path, fault);
        self.drop(cx, datagram, reason);
    }

    /// Returns whether the outgoing interface of a sender's data is known without a route lookup. The session must be
    /// unicast, so that the route does not depend on the incoming interface, and no route may have changed since (RFC
    /// 2209, "if there is no route change notification in place").
    #[inline]
    fn follows_route(&self, index: Index, destination: IpAddr) -> bool {
        self.repairs.is_idle()
            && self.store.psb(index).flags & Psb::UNROUTED == 0
            && !destination.is_multicast()
    }

    /// Creates the state of a new sender after all checks, and forwards the Path.
    fn create_sender<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        place: Place,
        path: &Path<'_>,
        received: &ReceivedPath<'_>,
    ) -> Result<(), PathFault> {
        check_previous_hop(cx.context, path, received.interface)?;
        let is_core = cx.context.is_core(received.interface);
        if path.sender.tspec.validate().is_err() {
            return Err(bad_tspec());
        }
        self.check_adspec(path.sender.adspec)?;
        if !self.fits_object_limit(path) {
            return Err(too_large());
        }
        let origin = received.origin(path);
        if !self.admits_change(cx, origin, is_core, Some(Block::Sender)) {
            return Err(limit_reached());
        }
        if self.policy.is_some() {
            self.check_sender(cx, received.interface, path).map_err(policy_refused)?;
        }
        if !is_core && !self.may_announce(cx, path, received) {
            return Err(limit_reached());
        }
        let session = self.admit_sender(cx, origin, &path.session, &path.sender.template)?;
        let hop = self.store.find_or_insert_hop(origin, Block::Sender, cx.now);
        let adspec = self.keep_adspec(hop, path.sender.adspec);
        let index = self.enter_sender(
            cx.now,
            place,
            Psb {
                outgoing: received.outgoing(cx.context),
                ttl: received.ttl,
                flags: received.flags,
                adspec,
                carried: Kept::of(path.carried),
                expires_at: received.expires_at,
                ..Psb::new(session, path.sender.template, path.sender.tspec, hop)
            },
        );
        mark(Checkpoint::CreatePsb);
        self.store_message_id(cx, NamedBlock::new(Block::Sender, index));
        self.begin_sender(cx, index);
        Ok(())
    }

    /// Tells everybody concerned of a new sender.
    pub(crate) fn begin_sender<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        self.notify_path_state(cx, index, Change::Created);
        self.notify_applications_of_sender(cx, index);
        self.path_refresh(cx, index);
        self.update_receiver_proxy(cx, index);
        if let Some(pool) = self.store.pool_of(self.store.psb(index).session) {
            self.forget_incomplete_requests(pool);
            self.update_all_traffic_control(cx, Holder::Pool(pool));
            self.update_upstream(cx, Holder::Pool(pool));
        }
    }

    /// Recomputes all reservations that a sender takes part in, after it was added or has changed.
    pub(crate) fn update_reservations<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        self.update_all_traffic_control(cx, Holder::Sender(index));
        if let Some(pool) = self.store.pool_of(self.store.psb(index).session) {
            self.update_all_traffic_control(cx, Holder::Pool(pool));
        }
        self.update_requests_for(cx, index);
    }

    /// Returns whether a new sender from behind an access interface may be forwarded at once.
    #[cold]
    fn may_announce<E>(
        &self,
        cx: &mut HandlerContext<'_, '_, E>,
        path: &Path<'_>,
        received: &ReceivedPath<'_>,
    ) -> bool {
        let outgoing = received.outgoing(cx.context);
        self.may_forward(cx, received.interface, path.hop.address, outgoing.as_slice())
    }

    /// Returns whether ADSPEC and unknown objects of a Path are within the limit.
    #[inline]
    fn fits_object_limit(&self, path: &Path<'_>) -> bool {
        let adspec = path.sender.adspec.map_or(0, <[u8]>::len);
        adspec + Kept::length(path.carried) <= self.config.max_kept_octets as usize
    }

    /// Finds or creates the session of a new sender by the rules for ports (RFC 2205 section 3.2) and within the
    /// limits.
    pub(crate) fn admit_sender<E>(
        &mut self,
        cx: &HandlerContext<'_, '_, E>,
        origin: Origin,
        session: &Session,
        template: &SenderTemplate,
    ) -> Result<Index, PathFault> {
        let found = self.store.look_up_session(session);
        mark(Checkpoint::FindSession);
        if !self.has_room(cx, origin, Block::Sender) {
            return Err(limit_reached());
        }
        let place = match found {
            Ok(index) => return self.admit_another(index, session, template),
            Err(place) => place,
        };
        if !is_unicast(session.destination) && !session.destination.is_multicast() {
            return Err(PathFault::Silent(DropReason::NoRoute));
        }
        let conflict = ErrorCode::ConflictingDestPorts;
        let index = self.store.insert_session(place, key(*session)).ok_or(PathFault::Report(
            DropReason::Ports,
            conflict,
            0,
        ))?;
        mark(Checkpoint::CreateSession);
        Ok(index)
    }

    /// Checks that a known session may have another sender.
    fn admit_another(
        &self,
        index: Index,
        session: &Session,
        template: &SenderTemplate,
    ) -> Result<Index, PathFault> {
        if self.store.session(index).sender_count >= self.config.max_senders {
            return Err(limit_reached());
        }
        if self.sender_ports_conflict(index, session, template) {
            let code = ErrorCode::ConflictingSenderPorts;
            return Err(PathFault::Report(DropReason::Ports, code, 0));
        }
        Ok(index)
    }

    /// Returns whether the same host sends with and without a source port (RFC 2205 section 3.2, rule 3). Only a sender
    /// without port is compared with the others, and their number is limited.
    fn sender_ports_conflict(
        &self,
        index: Index,
        session: &Session,
        template: &SenderTemplate,
    ) -> bool {
        match template.selector {
            SourceSelector::FlowLabel(_) | SourceSelector::Spi(_) | SourceSelector::Aggregator => {
                false
            }
            SourceSelector::Port(0) => self.store.senders_of(index).any(|i| {
                let other = self.store.psb(i).template;
                other.source == template.source && other.selector != template.selector
            }),
            SourceSelector::Port(_) => {
                let selector = SourceSelector::Port(0);
                self.store.find_sender(session, &FilterSpec { selector, ..*template }).is_some()
            }
        }
    }

    /// Inserts a sender and arms its timer.
    #[inline(always)]
    pub(crate) fn enter_sender(&mut self, now: Time, place: Place, mut psb: Psb) -> Index {
        psb.path_refresh_at = self.next_path_refresh(now, &mut psb.outgoing);
        let due = psb.due();
        let index = self.store.insert_sender(place, psb);
        let timer = Timer { kind: TimerKind::Sender, block: index };
        let armed = self.store.timers.arm(due, timer);
        self.store.psb_mut(index).timer = Some(armed);
        index
    }

    /// Sets whether the data of a sender ends on this host, and notifies the applications of its session.
    pub(crate) fn set_here<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        here: bool,
    ) {
        if here {
            self.store.psb_mut(index).flags |= Psb::HERE;
            self.notify_applications_of_sender(cx, index);
        } else {
            self.notify_path_gone(cx, index);
            self.store.psb_mut(index).flags &= !Psb::HERE;
            self.remove_from_interface(cx, index, None);
        }
    }

    /// Sends PATH_EVENT to every application of this host that has the session open.
    pub(crate) fn notify_applications_of_sender<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        if self.applications.is_empty() {
            return;
        }
        let session = self.store.session_of(index);
        for application in self.applications.of_session(&session) {
            self.notify_of_sender(cx, application, index);
        }
    }

    /// Sends PATH_EVENT to one application, except about its own senders.
    pub(crate) fn notify_of_sender<E: From<Event>>(
        &self,
        cx: &mut HandlerContext<'_, '_, E>,
        application: Application,
        index: Index,
    ) {
        let psb = self.store.psb(index);
        if !psb.is_here() || psb.hop == Peer::Local(application) {
            return;
        }
        cx.out.notify(Event::Path {
            application,
            session: self.store.session_of(index),
            template: psb.template,
            tspec: psb.tspec,
            offer: psb.adspec.as_deref().and_then(|body| adspec::offer(body, psb.flags)),
        });
    }

    pub(crate) fn notify_path_state<E: From<Event>>(
        &self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        change: Change,
    ) {
        let session = self.store.session_of(index);
        let template = self.store.psb(index).template;
        cx.out.notify(Event::PathState { change, session, template });
    }
}

/// Properties of a received Path outside its objects.
struct ReceivedPath<'r> {
    interface: InterfaceId,
    ttl: u8,
    /// Flags of [`Psb`].
    flags: u8,
    expires_at: Time,
    /// Next hops of the data; `None` if unchanged.
    next_hops: Option<NextHops<'r>>,
}

impl ReceivedPath<'_> {
    /// Returns the previous hop of the Path.
    fn origin(&self, path: &Path<'_>) -> Origin {
        Origin::Neighbor(self.interface, path.hop)
    }

    /// Returns OutInterface_list.
    #[inline]
    fn outgoing(&self, context: &Context<'_>) -> OutInterfaces {
        self.next_hops.map_or(OutInterfaces::None, |next_hops| {
            next_hops.outgoing(context, Some(self.interface))
        })
    }

    /// Returns whether the data ends on this host.
    fn is_here(&self) -> bool {
        self.flags & Psb::HERE != 0
    }
}

/// Reason for rejecting a Path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PathFault {
    /// The Path is dropped.
    Silent(DropReason),
    /// The Path is dropped, and a PathErr reports the reason.
    Report(DropReason, ErrorCode, u16),
    /// The Path is dropped because of its token, and a PathErr reports the reason.
    Token(Box<TokenError>),
}

fn bad_tspec() -> PathFault {
    let value = TrafficControlError::BadTspec.code();
    PathFault::Report(DropReason::Refused, ErrorCode::TrafficControlError, value)
}

/// Returns the next hops of the data that a Path from behind an interface announces.
#[inline]
fn next_hops_of<'r>(
    context: &Context<'r>,
    path: &Path<'_>,
    interface: InterfaceId,
) -> NextHops<'r> {
    let (session, template) = (path.session, path.sender.template);
    let (incoming, previous) = (Some(interface), Some(path.hop.address));
    NextHops::of_sender(context, &SenderData { session, template, incoming, previous })
}

/// Checks that a Path may come from a new previous hop behind an interface.
#[inline(never)] // known hops need no check
fn check_previous_hop(
    context: &Context<'_>,
    path: &Path<'_>,
    interface: InterfaceId,
) -> Result<(), PathFault> {
    let source = path.sender.template.source;
    may_be_previous_hop(context, interface, path.hop.address, source).map_err(PathFault::Silent)?;
    if path.session.is_aggregate() && !context.is_core(interface) {
        return Err(policy_refused(ResvFault::policy_rejected()));
    }
    Ok(())
}

/// Returns the error for a limit of this node that is reached.
fn limit_reached() -> PathFault {
    PathFault::Report(DropReason::Limit, ErrorCode::RsvpSystemError, 0)
}

/// Returns the error for a Path that policy refuses.
fn policy_refused(fault: ResvFault) -> PathFault {
    match fault.token {
        Some(error) => PathFault::Token(Box::new(error)),
        None => PathFault::Report(DropReason::Refused, fault.code, fault.value),
    }
}

/// Returns the error for a Path above [`crate::Config::max_kept_octets`], whose state would need too much memory.
fn too_large() -> PathFault {
    PathFault::Silent(DropReason::Limit)
}
