//! The engine: takes an input to the rules that treat it.

use alloc::vec::Vec;

use earmark_core::checkpoint::{Checkpoint, mark};
use earmark_core::random::{RandomStreams, Stream};
use earmark_core::{
    Context, Datagram, Effects, Engine, HostEvent, Input, Interface, InterfaceId, Outgoing, Time,
};
use earmark_wire::rsvp::{Body, Message, ParseError};

use crate::api::{Command, Event};
use crate::config::Config;
use crate::counters::{Counters, DropReason};
use crate::host::Applications;
use crate::state::TimerKind;
use crate::store::Store;

/// Timers that one [`Input::Expire`] treats at most; the rest is due at once again.
const TIMERS_PER_TURN: usize = 256;

/// Effects past which no further flow of a message is treated, so that a message that repeats one flow a thousand times
/// does not bring about a thousand answers. Flows that are refreshed have no effect and so do not count: what is left
/// over has its turn when the message is refreshed.
pub(crate) const EFFECTS_PER_MESSAGE: usize = 1_024;

/// RSVP on one node.
#[derive(Debug)]
pub struct Rsvp {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) applications: Applications,
    pub(crate) counters: Counters,
    /// Spreads refreshes over [0.5 R, 1.5 R].
    pub(crate) jitter: Stream,
    /// Room to compose an ADSPEC in.
    pub(crate) scratch: Vec<u8>,
    /// What makes the logical interface handles of this engine's life differ from those of its last one.
    pub(crate) lih_offset: u32,
}

/// The surroundings of one input: when it is, what may be looked at, where consequences go.
pub(crate) struct Turn<'t, 'c, E> {
    pub(crate) now: Time,
    pub(crate) context: &'t mut Context<'c>,
    pub(crate) out: &'t mut Effects<E>,
}

impl Rsvp {
    /// An engine without state. It draws from the streams `rsvp/jitter`, `rsvp/hash` and `rsvp/lih`.
    pub fn new(config: Config, random: &RandomStreams) -> Rsvp {
        Rsvp {
            config,
            store: Store::new(random.stream("rsvp/hash").hash_key()),
            applications: Applications::default(),
            counters: Counters::default(),
            jitter: random.stream("rsvp/jitter"),
            scratch: Vec::new(),
            lih_offset: random.stream("rsvp/lih").next_u64() as u32,
        }
    }

    /// The logical interface handle (LIH) that names `interface` in this engine's hop objects.
    ///
    /// Handles differ from one life of a node to the next. A neighbour downstream sees a changed previous hop in the
    /// first Path after a restart, and by RFC 2209 answers at once with its Resv, instead of when its refresh is due:
    /// that is how reservations come back within one refresh period.
    #[inline]
    pub fn lih(&self, interface: InterfaceId) -> u32 {
        interface.0.wrapping_add(self.lih_offset)
    }

    /// What was counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
}

impl Engine for Rsvp {
    type Command = Command;
    type Event = Event;
    type TimerKind = TimerKind;

    fn handle<E: From<Event>>(
        &mut self,
        now: Time,
        input: Input<'_, Command>,
        context: &mut Context<'_>,
        out: &mut Effects<E>,
    ) {
        let mut turn = Turn { now, context, out };
        match input {
            Input::Datagram(datagram) => self.datagram_arrives(&mut turn, &datagram),
            Input::Expire => self.timers_expire(&mut turn),
            Input::Command(command) => self.command(&mut turn, command),
            Input::Host(HostEvent::TrafficControlRefused { claim, owner, errno }) => {
                self.traffic_control_refuses(&mut turn, claim, owner, errno);
            }
            // The next Path of each sender asks for its route anew (RFC 2209, "if there is no route change
            // notification in place"), and interfaces are looked at when they are used.
            Input::Host(HostEvent::RouteChanged(_) | HostEvent::InterfaceChanged(_)) => {}
        }
    }

    fn next_deadline(&self) -> Option<(Time, TimerKind)> {
        self.store.timers.peek().map(|(at, timer)| (at, timer.kind))
    }
}

impl Rsvp {
    fn datagram_arrives<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        datagram: &Datagram<'_>,
    ) {
        let takes_part =
            turn.context.interfaces.by_id(datagram.interface).is_some_and(Interface::takes_part);
        let message = match Message::parse(datagram.payload) {
            Ok(message) => message,
            Err(error) => return self.malformed_arrives(turn, datagram, &error, takes_part),
        };
        mark(Checkpoint::Parse);
        // RFC 2209, MESSAGE ARRIVES: what is on its way to another node goes on, but for the kinds that every node
        // on the way must look at.
        let for_every_node =
            matches!(message.body, Body::Path(_) | Body::PathTear(_) | Body::ResvConf(_));
        if !takes_part
            || !(for_every_node || turn.context.interfaces.is_local(datagram.destination))
        {
            return self.relay(turn, datagram);
        }
        self.counters.receive(message.body.message_type());
        match &message.body {
            Body::Path(path) => self.path_arrives(turn, datagram, &message, path),
            Body::Resv(resv) => self.resv_arrives(turn, datagram, resv),
            Body::PathErr(error) => self.path_err_arrives(turn, datagram, error),
            Body::ResvErr(error) => self.resv_err_arrives(turn, datagram, error),
            Body::PathTear(tear) => self.path_tear_arrives(turn, datagram, tear),
            Body::ResvTear(tear) => self.resv_tear_arrives(turn, datagram, tear),
            Body::ResvConf(confirmation) => self.resv_conf_arrives(turn, datagram, confirmation),
        }
    }

    /// Counts a message that cannot be read, and answers it where RFC 2205 has an answer.
    fn malformed_arrives<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        datagram: &Datagram<'_>,
        error: &ParseError,
        takes_part: bool,
    ) {
        if !takes_part {
            return self.relay(turn, datagram);
        }
        *self.counters.malformed.entry(error.kind.name()).or_default() += 1;
        if let Some((code, value)) = error.report() {
            self.answer_malformed(turn, datagram, code, value);
        }
        self.drop(turn, datagram, DropReason::Malformed);
    }

    /// Passes a message on as a router would that does not speak RSVP.
    pub(crate) fn relay<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        datagram: &Datagram<'_>,
    ) {
        if turn.context.interfaces.is_local(datagram.destination) {
            return self.drop(turn, datagram, DropReason::UnknownInterface);
        }
        if datagram.ttl <= 1 {
            return self.drop(turn, datagram, DropReason::TtlExpired);
        }
        self.counters.relayed += 1;
        let how = Outgoing {
            protocol: PROTOCOL,
            interface: None,
            source: datagram.source,
            destination: datagram.destination,
            ttl: datagram.ttl - 1,
            router_alert: datagram.router_alert,
        };
        turn.out.send(how, datagram.payload.len()).copy_from_slice(datagram.payload);
    }

    /// Throws a message away and says so.
    pub(crate) fn drop<E: From<Event>>(
        &mut self,
        turn: &mut Turn<'_, '_, E>,
        datagram: &Datagram<'_>,
        reason: DropReason,
    ) {
        self.counters.drop(reason);
        turn.out.notify(Event::Dropped {
            reason,
            interface: datagram.interface,
            source: datagram.source,
        });
    }

    fn timers_expire<E: From<Event>>(&mut self, turn: &mut Turn<'_, '_, E>) {
        for _ in 0..TIMERS_PER_TURN {
            let Some((_, timer)) = self.store.timers.pop_due(turn.now) else { return };
            match timer.kind {
                TimerKind::Sender => self.sender_is_due(turn, timer.block),
                TimerKind::Reservation => self.reservation_is_due(turn, timer.block),
            }
        }
    }
}

/// RSVP's IP protocol number.
pub const PROTOCOL: u8 = 46;

/// TTL of messages from one neighbour to the next; routers in between that do not speak RSVP may take some of it.
pub(crate) const NEIGHBOR_TTL: u8 = 64;

/// Writes a message into the effects and counts it.
pub(crate) fn send<E>(
    counters: &mut Counters,
    out: &mut Effects<E>,
    how: Outgoing,
    body: Body<'_>,
) {
    let message = Message { flags: 0, send_ttl: how.ttl, integrity: None, body };
    // Only what is too long for one datagram (64 KiB of objects to be carried on) cannot be written.
    match message.emit(out.send(how, message.buffer_len())) {
        Ok(_) => counters.send(message.body.message_type()),
        Err(_) => out.take_back(),
    }
}
