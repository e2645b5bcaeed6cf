//! The initiating node: an application of this host asks, and this node sends a loop, repeats it until it comes back, and
//! keeps what it set up alive.
//!
//! All signalling state is here. A [`Loop`] is either waiting for its message to come back, and sends it again with
//! ever longer pauses, or at rest until the next refresh is due. What comes back is judged in [`judge`](self::judge).
//! Each message is also treated by the rules of a node that it passes by, because it leaves through a link of this host.

mod request;
mod returned;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::net::IpAddr;
use core::time::Duration;

use earmark_core::random::Stream;
use earmark_core::timer::TimerId;
use earmark_core::{Datagram, Time};
use earmark_wire::boomerang::iana::participation_flag::FORWARD_ENDS;
use earmark_wire::boomerang::{
    Flags, Keys, OptionFlags, OptionItem, Options, Participation, Qos, Rates, Reservation, Shape,
    UserId, Vector, View, iana,
};
use earmark_wire::icmp::{self, Echo, HEADER, Kind, PseudoHeader};
use slab::Slab;

use crate::api::{Application, Command, Direction, Event, OnRefusal, Rejection, Request, User};
use crate::counters::DropReason;
use crate::credential::credential;
use crate::instance::{Boomerang, HandlerContext, TTL, outgoing};
use crate::message::{Origin, Passing};
use crate::route::follow;
use crate::state::{Index, Timer, TimerKind};

/// This host's own sessions.
#[derive(Debug)]
pub(crate) struct Loops {
    pub(crate) list: Slab<Loop>,
    /// The driver chooses the key.
    by_application: BTreeMap<Application, Index>,
    /// This node chooses the key.
    by_transaction: BTreeMap<u32, Index>,
    /// Where transaction ids come from.
    names: Stream,
}

/// One session of this host's own.
#[derive(Debug)]
pub(crate) struct Loop {
    pub(crate) application: Application,
    /// Where the loop begins and ends.
    pub(crate) source: IpAddr,
    /// Where it turns round, or a group.
    pub(crate) destination: IpAddr,
    pub(crate) keys: Keys,
    pub(crate) shape: Shape,
    transaction_id: u32,
    user: Option<User>,
    on_refusal: OnRefusal,
    /// What is asked for, the most wanted first. For a session that is being released, nothing.
    pub(crate) wishes: Vec<Rates>,
    /// Whether that is written as a list of downgrades, even if one wish is left.
    is_vector: bool,
    /// What all nodes have granted, if they have.
    pub(crate) granted: Option<Rates>,
    pub(crate) phase: Phase,
    /// The interval that the application wants, seconds.
    asked_interval: u8,
    /// The one that the nodes on the way want.
    pub(crate) interval: u8,
    /// The product of the primes of those who have locked the session.
    key: u64,
    /// Sequence number of the next message.
    next_sequence: u16,
    /// That of the first message of what is asked for now; what is older answers another question.
    first_sequence: u16,
    /// How often the message was sent that has not come back; zero while none is waited for.
    attempts: u8,
    /// When something came back last, or the loop began.
    heard_at: Time,
    /// Whether the application was told that nothing comes back.
    lost: bool,
    /// Whether nodes are to count themselves, and whether the next message has a record for that.
    counts_nodes: bool,
    has_record: bool,
    timer: Option<TimerId>,
}

/// What a loop is there for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// To reserve, and to keep what is reserved.
    Reserve,
    /// To find out what could be had.
    Query,
    /// To give everything back.
    Release,
}

impl Loops {
    pub(crate) fn new(names: Stream) -> Loops {
        Loops {
            list: Slab::new(),
            by_application: BTreeMap::new(),
            by_transaction: BTreeMap::new(),
            names,
        }
    }

    /// A transaction id that no other loop has.
    fn name(&mut self) -> u32 {
        loop {
            let name = self.names.next_u64() as u32;
            if !self.by_transaction.contains_key(&name) {
                return name;
            }
        }
    }

    fn insert(&mut self, state: Loop) -> Index {
        let (application, transaction_id) = (state.application, state.transaction_id);
        let index = self.list.insert(state) as Index;
        self.by_application.insert(application, index);
        self.by_transaction.insert(transaction_id, index);
        index
    }

    fn remove(&mut self, index: Index) -> Loop {
        let gone = self.list.remove(index as usize);
        self.by_application.remove(&gone.application);
        self.by_transaction.remove(&gone.transaction_id);
        gone
    }

    fn get(&self, index: Index) -> &Loop {
        &self.list[index as usize]
    }

    fn get_mut(&mut self, index: Index) -> &mut Loop {
        &mut self.list[index as usize]
    }
}

impl Boomerang {
    /// Carries a command out, or says why not.
    pub(crate) fn command<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        command: Command,
    ) {
        let (application, done) = match command {
            Command::Reserve { application, request } => {
                (application, self.begin(cx, application, request, Phase::Reserve))
            }
            Command::Query { application, request } => {
                (application, self.begin(cx, application, request, Phase::Query))
            }
            Command::Modify { application, wishes } => {
                (application, self.modify(cx, application, &wishes))
            }
            Command::Release { application } => match self.loop_of(application) {
                Some(index) => {
                    self.begin_release(cx, index);
                    return;
                }
                None => (application, Err(Rejection::NoSession)),
            },
            Command::Aggregate { rules } => return self.aggregates.replace(&rules),
            Command::Seen(seen) => return self.refreshes_seen(cx.now, &seen),
            Command::Passed(passed) => return self.counters.pass(passed),
            Command::Settled(settled) => return self.settled(cx, &settled),
        };
        if let Err(reason) = done {
            cx.out.notify(Event::Rejected { application, reason });
        }
    }

    fn loop_of(&self, application: Application) -> Option<Index> {
        self.loops.by_application.get(&application).copied()
    }

    fn begin<E: From<Event>>(
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
        let asked_interval = request.interval.unwrap_or(self.config.refresh_interval);
        if asked_interval == 0 {
            return Err(Rejection::BadInterval);
        }
        let wishes = request::rates(&request.wishes, request.destination.is_multicast())?;
        let source = source_of(cx, &request)?;
        let (keys, shape) = request::keys(&request, source)?;
        let transaction_id = self.loops.name();
        let index = self.loops.insert(Loop {
            application,
            source,
            destination: request.destination,
            keys,
            shape,
            transaction_id,
            user: request.user,
            on_refusal: request.on_refusal,
            is_vector: wishes.len() > 1 && phase == Phase::Reserve,
            wishes,
            granted: None,
            phase,
            asked_interval,
            interval: asked_interval,
            key: 1,
            next_sequence: 0,
            first_sequence: 0,
            attempts: 0,
            heard_at: cx.now,
            lost: false,
            counts_nodes: request.count_nodes && !request.destination.is_multicast(),
            has_record: request.count_nodes && phase == Phase::Query,
            timer: None,
        });
        self.ask(cx, index);
        Ok(())
    }

    fn modify<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        application: Application,
        wishes: &[crate::api::ReservationRequest],
    ) -> Result<(), Rejection> {
        let index = self.loop_of(application).ok_or(Rejection::NoSession)?;
        let state = self.loops.get_mut(index);
        if state.phase != Phase::Reserve {
            return Err(Rejection::NoSession);
        }
        state.wishes = request::rates(wishes, state.destination.is_multicast())?;
        state.is_vector = wishes.len() > 1;
        self.ask(cx, index);
        Ok(())
    }

    /// Starts giving back what a session has.
    fn begin_release<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>, index: Index) {
        let state = self.loops.get_mut(index);
        let (application, query) = (state.application, state.phase == Phase::Query);
        state.phase = Phase::Release;
        state.wishes = [Rates::ZERO].into();
        (state.is_vector, state.has_record) = (false, false);
        if query {
            self.end(index);
            cx.out.notify(Event::Released { application });
            return;
        }
        self.ask(cx, index);
        // Nobody answers for a group.
        if self.loops.list.get(index as usize).is_some_and(|state| state.destination.is_multicast())
        {
            self.end(index);
            cx.out.notify(Event::Released { application });
        }
    }

    /// Sends the loop with something new to ask for.
    fn ask<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>, index: Index) {
        let state = self.loops.get_mut(index);
        state.first_sequence = state.next_sequence;
        state.attempts = 0;
        self.send_loop(cx, index);
    }

    /// Sends the loop, and arms its timer for when that has to be done again.
    fn send_loop<E: From<Event>>(&mut self, cx: &mut HandlerContext<'_, '_, E>, index: Index) {
        let state = self.loops.get_mut(index);
        let sequence = state.next_sequence;
        state.next_sequence = sequence.wrapping_add(1);
        state.attempts = state.attempts.saturating_add(1);
        let (source, destination) = (state.source, state.destination);
        let Some(ends) = PseudoHeader::of(source, destination) else { return };
        let mut message = core::mem::take(&mut self.scratch);
        let near = cx.context.is_adjacent(destination);
        if self.compose(index, (ends, sequence, near), &mut message)
            && let Ok(view) = View::parse(&message[HEADER..])
        {
            let direction = Direction::Forward;
            let passing = Passing {
                view,
                direction,
                initiator: source,
                toward: destination,
                incoming: None,
                origin: Origin::Own,
            };
            self.counters.sent += 1;
            if destination.is_multicast() {
                self.send_to_group(cx, index, &passing, &message);
            } else {
                let outcome = self.treat(cx, &passing);
                let mut how = outgoing(source, destination);
                how.interface = outcome.interface;
                follow(cx, &passing, &mut how);
                let sent = cx.out.send_copy(how, &message);
                outcome.edits.apply(sent, &view);
            }
        }
        self.scratch = message;
        self.arm_loop(cx.now, index);
    }

    /// A copy leaves on each branch. What this node says of the first refusal is all that the application will hear.
    fn send_to_group<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
        passing: &Passing<'_>,
        message: &[u8],
    ) {
        let branches = group_branches(cx, passing);
        let edits = self.treat_branches(cx, passing, &branches);
        for (&branch, edits) in branches.iter().zip(&edits) {
            let mut how = outgoing(passing.initiator, passing.toward);
            how.interface = Some(branch);
            let sent = cx.out.send_copy(how, message);
            edits.apply(sent, &passing.view);
        }
        let refused = edits.iter().find(|edits| edits.nack);
        let state = self.loops.get_mut(index);
        state.attempts = 0;
        let wanted = state.wishes.first().copied().unwrap_or_default();
        let application = state.application;
        match refused {
            _ if state.phase == Phase::Release => {}
            Some(edits) => {
                let offer = edits.rates.unwrap_or_default();
                let reaction = OnRefusal::Retry;
                cx.out.notify(Event::Refused { application, offer, reaction });
            }
            None if state.granted != Some(wanted) => {
                state.granted = Some(wanted);
                let (rates, interval) = (wanted, state.interval);
                let confirmed = false;
                cx.out.notify(Event::Established { application, rates, interval, confirmed });
            }
            None => {}
        }
    }

    /// Writes the message of a loop; `false` where it cannot be written.
    /// `near` says that the far end is on a link of this node.
    fn compose(
        &self,
        index: Index,
        (ends, sequence, near): (PseudoHeader, u16, bool),
        message: &mut Vec<u8>,
    ) -> bool {
        let state = self.loops.get(index);
        let nack = if state.phase == Phase::Query { iana::flag::NACK } else { 0 };
        let group = state.destination.is_multicast();
        let no_echo = if group { iana::flag::NO_ECHO } else { 0 };
        let first = state.wishes.first().copied().unwrap_or_default();
        let mut record = Participation::new(state.source, TTL);
        record.set(FORWARD_ENDS, near);
        let flags = OptionFlags(0);
        let user = state.user.as_ref().map_or([0; 8], |user| user.id);
        // The proof of the user is written last, where the message ends.
        let options = [
            OptionItem::Participation(record),
            OptionItem::UserId(UserId { flags, user, credential: [0; 8] }),
        ];
        let begin = usize::from(!state.has_record);
        let end = 1 + usize::from(state.user.is_some());
        let reservation = Reservation {
            transaction_id: state.transaction_id,
            flags: Flags(nack | no_echo),
            refresh_interval: state.interval,
            key: state.key,
            classifier: state.keys,
            mask: state.shape,
            qos: if state.is_vector {
                Qos::Downgrade { policy: 0, vector: Vector::Items(&state.wishes) }
            } else {
                Qos::Bitrate(first)
            },
            options: Options::Items(options.get(begin..end).unwrap_or_default()),
        };
        message.clear();
        message.resize(HEADER + reservation.buffer_len(), 0);
        let (_, data) = message.split_at_mut(HEADER);
        if reservation.emit(data).is_err() {
            return false;
        }
        if let Some(user) = &state.user {
            let proof = View::parse(data).map(|view| credential(&user.secret, &user.id, &view));
            // It is the last thing in the message.
            if let (Ok(proof), Some(field)) = (proof, data.last_chunk_mut()) {
                *field = proof;
            }
        }
        icmp::seal(message, ends, Kind::Request, state.identifier(), sequence).is_ok()
    }

    /// Arms the timer of a loop: for a repetition while it waits, for the next refresh while it does not.
    fn arm_loop(&mut self, now: Time, index: Index) {
        let retry = self.config.retry;
        let Some(state) = self.loops.list.get_mut(index as usize) else { return };
        let interval = Duration::from_secs(state.interval.max(1).into());
        let pause = match state.attempts {
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

    /// The timer of a loop has gone off.
    pub(crate) fn loop_is_due<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        index: Index,
    ) {
        let most = self.config.release_attempts;
        let state = self.loops.get_mut(index);
        state.timer = None;
        if state.attempts == 0 {
            return self.ask(cx, index);
        }
        let (application, interval) = (state.application, state.interval);
        if state.phase != Phase::Reserve && state.attempts >= most {
            let event = match state.phase {
                Phase::Release => Event::Released { application },
                _ => Event::Lost { application },
            };
            self.end(index);
            cx.out.notify(event);
            return;
        }
        let state = self.loops.get_mut(index);
        if !state.lost && cx.now >= self.config.end_of_life(state.heard_at, interval) {
            state.lost = true;
            cx.out.notify(Event::Lost { application });
        }
        self.counters.repeated += 1;
        self.send_loop(cx, index);
    }

    /// A message of this host's own has come back, or one that says so.
    pub(crate) fn loop_returns<E: From<Event>>(
        &mut self,
        cx: &mut HandlerContext<'_, '_, E>,
        datagram: &Datagram<'_>,
        echo: &Echo<'_>,
        view: &View<'_>,
    ) {
        let index = self.loops.by_transaction.get(&view.transaction_id()).copied();
        let ours = index.filter(|&index| {
            let state = self.loops.get(index);
            let age = echo.sequence.wrapping_sub(state.first_sequence);
            let sent = state.next_sequence.wrapping_sub(state.first_sequence);
            state.source == datagram.destination
                && state.destination == datagram.source
                && state.identifier() == echo.identifier
                && age < sent
        });
        match ours {
            Some(index) => {
                self.counters.returned += 1;
                self.judge(cx, index, datagram, view);
            }
            None => self.drop(cx, datagram, DropReason::NotForUs),
        }
    }

    /// Forgets a loop.
    fn end(&mut self, index: Index) {
        if let Some(timer) = self.loops.remove(index).timer {
            self.store.timers.cancel(timer);
        }
    }
}

impl Loop {
    /// ICMP identifier of its messages.
    fn identifier(&self) -> u16 {
        self.transaction_id as u16
    }
}

/// From where this host sends a loop.
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

/// Where this host's packets to a group leave: as its forwarding entries say, or else as its routes do.
fn group_branches<E>(
    cx: &HandlerContext<'_, '_, E>,
    passing: &Passing<'_>,
) -> Vec<earmark_core::InterfaceId> {
    match cx.context.routes.multicast(passing.initiator, passing.toward) {
        Some(branches) => branches.outgoing.to_vec(),
        None => cx.context.routes.lookup(passing.toward).map(|h| h.interface).into_iter().collect(),
    }
}
