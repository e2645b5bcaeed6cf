//! The initiating node: an application of this host asks, and this node sends a loop, repeats it until it comes back,
//! and refreshes the session.
//!
//! All signalling state is here. A [`Loop`] either waits for its message to come back, and sends it again with
//! growing intervals, or rests until the next refresh is due. [`returned`] processes what comes back.
//! Each message is also processed by the transit rules, because it leaves through a link of this host.

mod request;
mod returned;

use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::{Datagram, Time};
use earmark_token::Token;
use earmark_wire::boomerang::iana::participation_flag::FORWARD_ENDS;
use earmark_wire::boomerang::{
    Family, Flags, OptionFlags, OptionItem, Options, Participation, Qos, Rates, Reservation,
    UserId, Vector, View, iana,
};
use earmark_wire::icmp::{self, Echo, HEADER, Kind, PseudoHeader};

use crate::api::{Application, Event, OnRefusal, Rejection, Request};
use crate::context::HandlerContext;
use crate::counters::DropReason;
use crate::credential::{Unsigned, credential};
use crate::instance::{Boomerang, TTL, outgoing};
use crate::loops::{Loop, Nonces, Phase};
use crate::message::{Origin, TransitMessage};
use crate::route::{follow_flow_route, own_interface};
use crate::selector::{Direction, Selector};
use crate::state::{Index, Timer, TimerKind};

impl Boomerang {
    /// Returns the loop of an application.
    pub(crate) fn loop_of(&self, application: Application) -> Option<Index> {
        self.loops.by_application.get(&application).copied()
    }

    /// Starts a session, or a query.
    pub(crate) fn begin<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        application: Application,
        request: Request,
        phase: Phase,
    ) -> Result<(), Rejection> {
        if self.loop_of(application).is_some() {
            return Err(Rejection::SessionOpen);
        }
        if self.loops.list.len() >= self.config.limits.applications as usize {
            return Err(Rejection::TooMany);
        }
        let requested_interval = request.interval.unwrap_or(self.config.refresh_interval);
        if requested_interval == 0 {
            return Err(Rejection::BadInterval);
        }
        let requested = request::rates(&request.rates, request.destination.is_multicast())?;
        let source = source_of(cx, &request)?;
        let (keys, shape) = request::keys(&request, source)?;
        let transaction_id = self.loops.new_transaction_id();
        let index = self.loops.insert(Loop {
            application,
            source,
            destination: request.destination,
            keys,
            shape,
            transaction_id,
            user: request.user,
            token: request.token,
            on_refusal: request.on_refusal,
            is_vector: requested.len() > 1 && phase == Phase::Reserve,
            requested,
            granted: None,
            is_refused: false,
            phase,
            requested_interval,
            interval: requested_interval,
            key: 1,
            sequence: transaction_id as u16,
            nonces: Nonces::default(),
            attempts: 0,
            repeated: false,
            last_reply_at: cx.now,
            lost: false,
            counts_nodes: request.count_nodes && !request.destination.is_multicast(),
            has_record: request.count_nodes && phase == Phase::Query,
            timer: None,
        });
        self.send_request(cx, index);
        Ok(())
    }

    /// Requests other rates.
    pub(crate) fn modify<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        application: Application,
        rates: &[crate::api::RequestedRates],
    ) -> Result<(), Rejection> {
        let index = self.loop_of(application).ok_or(Rejection::NoSession)?;
        let state = self.loops.get_mut(index);
        if state.phase != Phase::Reserve {
            return Err(Rejection::NoSession);
        }
        state.requested = request::rates(rates, state.destination.is_multicast())?;
        state.is_vector = rates.len() > 1;
        self.send_request(cx, index);
        Ok(())
    }

    /// Starts the release of a session.
    pub(crate) fn begin_release<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        let state = self.loops.get_mut(index);
        let (application, query) = (state.application, state.phase == Phase::Query);
        state.phase = Phase::Release;
        state.requested = [Rates::ZERO].into();
        (state.is_vector, state.has_record) = (false, false);
        if query {
            self.remove_loop(index);
            cx.out.notify(Event::Released { application });
            return;
        }
        self.send_request(cx, index);
        // Nobody replies for a group.
        if self.loops.list.get(index as usize).is_some_and(|state| state.destination.is_multicast())
        {
            self.remove_loop(index);
            cx.out.notify(Event::Released { application });
        }
    }

    /// Sends the loop with a new request.
    fn send_request<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>, index: Index) {
        let state = self.loops.get_mut(index);
        state.nonces.clear();
        state.attempts = 0;
        state.repeated = state.granted.is_some();
        self.send_loop(cx, index);
    }

    /// Sends the loop, and arms its timer for the next transmission.
    fn send_loop<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>, index: Index) {
        let Some(state) = self.loops.list.get_mut(index as usize) else { return };
        let sequence = state.nonces.draw(&mut self.loops.nonces);
        state.sequence = state.sequence.wrapping_add(1);
        state.attempts = state.attempts.saturating_add(1);
        let (source, destination) = (state.source, state.destination);
        let Some(ends) = PseudoHeader::of(source, destination) else { return };
        let Ok(signer) = self.signer(cx, index) else {
            self.counters.drop(DropReason::NotSigned);
            return self.arm_loop(cx.now, index);
        };
        let mut message = core::mem::take(&mut self.scratch);
        let near = cx.context.is_adjacent(destination);
        if self.compose(index, signer, (ends, sequence, near), &mut message)
            && let Ok(view) = View::parse(&message[HEADER..])
        {
            let direction = Direction::Forward;
            let transit = TransitMessage {
                view,
                direction,
                initiator: source,
                far_end: destination,
                is_reply: false,
                arrival: crate::arrival::OWN,
                from_core: true,
                differs_by_flow: cx.context.routes.differs_by_flow(destination),
                incoming: None,
                origin: Origin::Own,
            };
            self.counters.sent += 1;
            if destination.is_multicast() {
                self.send_to_group(cx, index, &transit, &message);
            } else {
                let outcome = self.process(cx, &transit);
                let mut how = outgoing(source, destination);
                how.interface = outcome.interface;
                follow_flow_route(cx, &transit, &mut how);
                let sent = cx.out.send_copy(how, &message);
                outcome.edits.apply(sent, &view);
            }
        }
        self.scratch = message;
        self.arm_loop(cx.now, index);
    }

    /// Returns the key of this node with which to sign the messages of a loop, if its application has no secret and the
    /// interface requires one.
    fn signer<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) -> Result<Option<usize>, Unsigned> {
        let state = self.loops.get(index);
        if state.user.is_some() || !self.credentials.sign() {
            return Ok(None);
        }
        let selector = Selector::of_keys(&state.keys, &state.shape);
        let interface = own_interface(cx.context, state.destination, selector);
        self.credentials.signer(cx, interface)
    }

    /// Sends a copy on each branch. The first refusal of this node is all that the application receives.
    fn send_to_group<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        transit: &TransitMessage<'_>,
        message: &[u8],
    ) {
        let branches = group_branches(cx, transit);
        let edits = self.process_branches(cx, transit, &branches);
        for (&branch, edits) in branches.iter().zip(&edits) {
            let mut how = outgoing(transit.initiator, transit.toward());
            how.interface = Some(branch);
            let sent = cx.out.send_copy(how, message);
            edits.apply(sent, &transit.view);
        }
        let refused = edits.iter().find(|edits| edits.nack);
        let state = self.loops.get_mut(index);
        state.attempts = 0;
        let wanted = state.requested.first().copied().unwrap_or_default();
        let application = state.application;
        match refused {
            _ if state.phase == Phase::Release => {}
            Some(edits) => {
                let offer = edits.rates.unwrap_or_default();
                let reaction = OnRefusal::Retry;
                state.is_refused = true;
                cx.out.notify(Event::Refused { application, offer, reaction });
            }
            None if state.granted != Some(wanted) || state.is_refused => {
                (state.granted, state.is_refused) = (Some(wanted), false);
                let (rates, interval) = (wanted, state.interval);
                let confirmed = false;
                cx.out.notify(Event::Established { application, rates, interval, confirmed });
            }
            None => {}
        }
    }

    /// Writes the message of a loop; returns `false` if it cannot be written. `near`: the far end is on a
    /// link of this node.
    fn compose(
        &self,
        index: Index,
        signer: Option<usize>,
        (ends, sequence, near): (PseudoHeader, u16, bool),
        message: &mut Vec<u8>,
    ) -> bool {
        let state = self.loops.get(index);
        let nack = if state.phase == Phase::Query { iana::flag::NACK } else { 0 };
        let group = state.destination.is_multicast();
        let no_echo = if group { iana::flag::NO_ECHO } else { 0 };
        let first = state.requested.first().copied().unwrap_or_default();
        let mut record = Participation::new(state.source, TTL);
        record.set(FORWARD_ENDS, near);
        let flags = OptionFlags(state.sequence);
        let user = match (&state.user, signer.map(|index| self.credentials.own_key(index))) {
            (Some(user), _) => Some((user.id, &user.secret)),
            (None, key) => key.and_then(|key| Some((key.user_id()?, &key.secret))),
        };
        let name = user.map_or([0; 8], |(id, _)| id);
        let user_id = UserId { flags, user: name, credential: [0; 8] };
        // The user's credential is written last, because it covers the message.
        let token = state.token.as_ref().map_or(&[][..], Token::octets);
        // A node that does not know tokens reads no option behind one.
        let all = [
            state.has_record.then_some(OptionItem::Participation(record)),
            user.map(|_| OptionItem::UserId(user_id)),
            state.token.as_ref().map(|_| OptionItem::Token(token)),
        ];
        let mut options = [OptionItem::Token(&[]); 3];
        let mut count = 0;
        for option in all.into_iter().flatten() {
            options[count] = option;
            count += 1;
        }
        let reservation = Reservation {
            transaction_id: state.transaction_id,
            flags: Flags(nack | no_echo),
            refresh_interval: state.interval,
            key: state.key,
            classifier: state.keys,
            mask: state.shape,
            qos: if state.is_vector {
                Qos::Downgrade { policy: 0, vector: Vector::Items(&state.requested) }
            } else {
                Qos::Bitrate(first)
            },
            options: Options::Items(&options[..count]),
        };
        message.clear();
        message.resize(HEADER + reservation.buffer_len(), 0);
        let (_, data) = message.split_at_mut(HEADER);
        if reservation.emit(data).is_err() {
            return false;
        }
        if let Some((_, secret)) = user {
            let proof = View::parse(data).map(|view| credential(secret, &user_id, &view));
            // The credential is the last field in front of the token.
            let behind = all[2].map_or(0, |token| token.buffer_len(Family::V4));
            let end = data.len() - behind;
            if let (Ok(proof), Some(field)) = (proof, data[..end].last_chunk_mut()) {
                *field = proof;
            }
        }
        icmp::seal(message, ends, Kind::Request, state.identifier(), sequence).is_ok()
    }

    /// Arms the timer of a loop: for a repetition while a reply is awaited, otherwise for the next refresh.
    fn arm_loop(&mut self, now: Time, index: Index) {
        let retry = self.config.retry;
        let Some(state) = self.loops.list.get_mut(index as usize) else { return };
        let interval = Duration::from_secs(state.interval.max(1).into());
        let soon = self.config.unproven_lifetime / 2;
        let pause = match state.attempts {
            // Nodes that no reply passes keep what one request has made for a short time only.
            0 if state.granted.is_some() && !state.repeated && soon < interval => {
                self.jitter.uniform(soon / 2, soon)
            }
            0 => self.jitter.uniform(interval / 2, interval + interval / 2),
            attempts => retry.saturating_mul(1 << u32::from(attempts - 1).min(20)).min(interval),
        };
        let at = now + pause;
        if let Some(timer) = state.timer
            && self.store.timers.rearm(timer, at)
        {
            return;
        }
        state.timer = Some(self.store.timers.arm(at, Timer::new(TimerKind::Loop, index)));
    }

    /// Handles the timer of a loop.
    pub(crate) fn handle_loop_timer<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        let most = self.config.release_attempts;
        let state = self.loops.get_mut(index);
        state.timer = None;
        if state.attempts == 0 {
            return self.send_request(cx, index);
        }
        let (application, interval) = (state.application, state.interval);
        if state.phase != Phase::Reserve && state.attempts >= most {
            let event = match state.phase {
                Phase::Release => Event::Released { application },
                _ => Event::Lost { application },
            };
            self.remove_loop(index);
            cx.out.notify(event);
            return;
        }
        let state = self.loops.get_mut(index);
        if !state.lost && cx.now >= self.config.expiry_time(state.last_reply_at, interval) {
            state.lost = true;
            cx.out.notify(Event::Lost { application });
        }
        self.counters.repeated += 1;
        self.send_loop(cx, index);
    }

    /// Handles a reply that claims to be a message of this host's own.
    pub(crate) fn handle_reply<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        echo: &Echo<'_>,
        view: &View<'_>,
    ) {
        match self.requested(cx, datagram, echo, view) {
            Ok(index) => {
                self.counters.returned += 1;
                self.process_reply(cx, index, datagram, view);
            }
            Err(reason) => self.drop(cx, datagram, reason),
        }
    }

    /// Returns the loop whose outstanding request a reply answers: the reply repeats its nonce, and comes from the far
    /// end that the request was sent to, through an interface that the far end is behind.
    fn requested<E>(
        &self,
        cx: &HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        echo: &Echo<'_>,
        view: &View<'_>,
    ) -> Result<Index, DropReason> {
        let index = self.loops.by_transaction.get(&view.transaction_id()).copied();
        let index = index.ok_or(DropReason::NotForUs)?;
        let state = self.loops.get(index);
        if state.source != datagram.destination {
            return Err(DropReason::NotForUs);
        }
        if state.destination != datagram.source {
            return Err(DropReason::WrongFarEnd);
        }
        if !cx.context.is_behind(datagram.source, datagram.interface) {
            return Err(DropReason::SourceNotBehind);
        }
        match state.identifier() == echo.identifier && state.nonces.contains(echo.sequence) {
            true => Ok(index),
            false => Err(DropReason::UnknownNonce),
        }
    }

    /// Removes a loop.
    fn remove_loop(&mut self, index: Index) {
        if let Some(timer) = self.loops.remove(index).timer {
            self.store.timers.cancel(timer);
        }
    }
}

/// Returns the address that this host sends a loop from.
fn source_of<E>(cx: &HandlerContext<'_, '_, E>, request: &Request) -> Result<IpAddr, Rejection> {
    let interfaces = cx.context.interfaces;
    if interfaces.is_local(request.destination) {
        return Err(Rejection::NoRoute);
    }
    let named = request.selector.source.address();
    if interfaces.is_local(named) && named.is_ipv4() == request.destination.is_ipv4() {
        return Ok(named);
    }
    let hop = cx.context.routes.lookup(request.destination).ok_or(Rejection::NoRoute)?;
    let own = || interfaces.by_id(hop.interface)?.address_like(request.destination);
    hop.source.or_else(own).ok_or(Rejection::NoRoute)
}

/// Returns the outgoing interfaces of this host's packets to a group: by its forwarding entries, or else by its
/// unicast routes.
fn group_branches<E>(
    cx: &HandlerContext<'_, '_, E>,
    transit: &TransitMessage<'_>,
) -> Vec<earmark_core::InterfaceId> {
    match cx.context.routes.multicast(transit.initiator, transit.toward()) {
        Some(branches) => branches.outgoing.to_vec(),
        None => {
            cx.context.routes.lookup(transit.toward()).map(|h| h.interface).into_iter().collect()
        }
    }
}
