//! The engine: soft state for each flow with a reservation here, and the requests of this host's applications.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::time::Duration;

use earmark_core::admission::{ClaimId, Demand, Displaced, Owner, Protocol};
use earmark_core::outcome::{Kind as Extent, Message as ReportedBy, Outcome};
use earmark_core::random::{RandomStreams, Stream};
use earmark_core::{
    Context, Datagram, Effects, Flow, HostEvent, Installation, InterfaceId, Outgoing, Rate, Time,
};
use earmark_node::{Event, NodeConfig, OtherEvent};
use serde::{Deserialize, Serialize};

use crate::message::{Kind, LENGTH, Message, PROTOCOL, TTL};

/// Name of the protocol.
pub const NAME: &str = "tickets";
/// Number of the engine in the ledger.
pub const ID: Protocol = Protocol::new(200);

/// Most flows with state on one node.
const MAX_SESSIONS: usize = 100_000;
/// Number of missing requests after which a reservation ends, and of missing answers after which a request counts as
/// unanswered.
const MISSED: u32 = 3;

/// Settings: the value of [`NodeConfig::others`] under [`NAME`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Seconds between two requests.
    pub interval_s: u8,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings { interval_s: 30 }
    }
}

/// Command of an application on this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Command {
    /// Reserve for a flow from this host.
    Reserve {
        /// Number of the application.
        application: u64,
        /// The packets.
        flow: Flow,
        /// Rate, bucket and packet size.
        demand: Demand,
    },
    /// Release the reservation.
    Release {
        /// Number of the application.
        application: u64,
    },
}

/// State of a flow on this node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Session {
    pub(crate) ticket: u64,
    pub(crate) demand: Demand,
    pub(crate) claim: Option<(ClaimId, InterfaceId)>,
    pub(crate) expires_at: Time,
    /// Number of the owner in the ledger.
    block: u32,
}

/// A request of an application on this host.
#[derive(Clone, Copy, Debug)]
struct Request {
    application: u64,
    flow: Flow,
    demand: Demand,
    unanswered: u32,
    /// Time of the next repetition.
    next_at: Time,
}

/// A timer. It is not cancelled, but has no effect if it is not due any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// End of a flow's state.
    Expire(Flow),
    /// Repetition of the request with this ticket.
    Refresh(u64),
}

/// Tickets on one node.
#[derive(Debug)]
pub struct Tickets {
    settings: Settings,
    pub(crate) sessions: BTreeMap<Flow, Session>,
    /// Flows by the number of their owner in the ledger.
    pub(crate) blocks: BTreeMap<u32, Flow>,
    next_block: u32,
    /// Requests of this host by ticket.
    requests: BTreeMap<u64, Request>,
    /// Tickets by application.
    tickets: BTreeMap<u64, u64>,
    timers: BTreeSet<(Time, Timer)>,
    random: Stream,
    pub(crate) counters: BTreeMap<&'static str, u64>,
}

/// What an input needs: the time, the node, and the list of effects.
pub(crate) struct Input<'a, 'c> {
    pub(crate) now: Time,
    pub(crate) context: &'a mut Context<'c>,
    pub(crate) out: &'a mut Effects<Event>,
}

impl Tickets {
    /// Creates the engine with the settings of its node.
    pub fn new(config: &NodeConfig, random: &RandomStreams) -> Tickets {
        let settings = config.others.get(NAME).cloned().map(serde_json::from_value);
        Tickets {
            settings: settings.and_then(Result::ok).unwrap_or_default(),
            sessions: BTreeMap::new(),
            blocks: BTreeMap::new(),
            next_block: 0,
            requests: BTreeMap::new(),
            tickets: BTreeMap::new(),
            timers: BTreeSet::new(),
            random: random.stream("tickets"),
            counters: BTreeMap::new(),
        }
    }

    /// Returns the number of requests of this host.
    pub fn request_count(&self) -> usize {
        self.requests.len()
    }

    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.timers.first().map(|(at, _)| *at)
    }

    fn count(&mut self, name: &'static str) {
        *self.counters.entry(name).or_default() += 1;
    }

    /// Processes a received message.
    pub(crate) fn receive(&mut self, input: &mut Input<'_, '_>, datagram: &Datagram<'_>) {
        let Some(message) = Message::parse(datagram.payload) else {
            return self.count("malformed");
        };
        self.count("received");
        match message.kind {
            Kind::Request | Kind::Refused | Kind::Return => {
                let Some(source) = message.flow.source else { return };
                self.pass(input, message, (source, datagram.ttl), Some(datagram.interface));
            }
            Kind::Answer | Kind::Refusal => self.answered(input, &message),
        }
    }

    /// Processes a message that follows the data, and sends it on. The destination answers.
    fn pass(
        &mut self,
        input: &mut Input<'_, '_>,
        mut message: Message,
        (source, ttl): (IpAddr, u8),
        incoming: Option<InterfaceId>,
    ) {
        let destination = message.flow.destination;
        if input.context.interfaces.is_local(destination) {
            let kind = match message.kind {
                Kind::Request => Kind::Answer,
                Kind::Refused => Kind::Refusal,
                _ => return,
            };
            let hops = (TTL - ttl.min(TTL)).saturating_sub(message.hops);
            return self.send(
                input,
                &Message { kind, hops, ..message },
                None,
                (destination, source),
                TTL,
            );
        }
        let Some(hop) = input.context.routes.lookup_flow(&message.flow, incoming) else { return };
        match message.kind {
            Kind::Request => {
                if let Err(available) = self.reserve(input, &message, hop.interface) {
                    self.count("refused");
                    let interface = input.context.interfaces.by_id(hop.interface);
                    let own = interface.and_then(|interface| interface.address_like(source));
                    message.refused_by = own.unwrap_or(destination);
                    (message.kind, message.available) = (Kind::Refused, available);
                }
            }
            _ => self.release(input, &message.flow, Some(message.ticket)),
        }
        if incoming.is_some() {
            message.hops = message.hops.saturating_add(1);
            if ttl <= 1 {
                return;
            }
        }
        let ttl = if incoming.is_some() { ttl - 1 } else { ttl };
        self.send(input, &message, Some(hop.interface), (source, destination), ttl);
    }

    fn send(
        &mut self,
        input: &mut Input<'_, '_>,
        message: &Message,
        interface: Option<InterfaceId>,
        (source, destination): (IpAddr, IpAddr),
        ttl: u8,
    ) {
        self.count("sent");
        let next_hop = interface.and_then(|interface| {
            input.context.next_hop(destination, interface, || (message.flow, None))
        });
        let how = Outgoing {
            interface,
            router_alert: interface.is_some(),
            next_hop,
            ..Outgoing::new(PROTOCOL, source, destination, ttl)
        };
        input.out.send(how, LENGTH).copy_from_slice(&message.emit());
    }

    /// Reserves on an outgoing link, or refreshes. On refusal the flow has no reservation here; returns the rate
    /// available.
    fn reserve(
        &mut self,
        input: &mut Input<'_, '_>,
        message: &Message,
        interface: InterfaceId,
    ) -> Result<(), Rate> {
        let (flow, demand) = (message.flow, message.demand);
        if self.sessions.get(&flow).is_some_and(|known| known.ticket != message.ticket) {
            return Err(Rate::ZERO); // somebody else's reservation
        }
        if !self.sessions.contains_key(&flow) {
            if self.sessions.len() >= MAX_SESSIONS {
                return Err(Rate::ZERO);
            }
            let (block, claim, expires_at) = (self.next_block, None, input.now);
            self.next_block = self.next_block.wrapping_add(1);
            self.blocks.insert(block, flow);
            let ticket = message.ticket;
            self.sessions.insert(flow, Session { ticket, demand, claim, expires_at, block });
            self.timers.insert((input.now, Timer::Expire(flow)));
        }
        let lifetime = Duration::from_secs(message.interval_s.into()) * (MISSED + 1);
        let Some(session) = self.sessions.get_mut(&flow) else { return Err(Rate::ZERO) };
        session.expires_at = input.now + lifetime;
        let ledger = &mut *input.context.ledger;
        if let Some((claim, _)) = session.claim.take_if(|(_, link)| *link != interface) {
            ledger.release(claim); // the route has changed
            input.out.remove(claim);
        }
        let granted = match session.claim {
            Some(_) if session.demand == demand => return Ok(()),
            Some((claim, _)) => ledger.change(claim, demand).map(|()| claim),
            None => {
                let owner = Owner { protocol: ID, block: session.block };
                ledger.claim(interface, owner, &flow, demand)
            }
        };
        match granted {
            Ok(claim) => {
                (session.claim, session.demand) = (Some((claim, interface)), demand);
                input.out.install(Installation { claim, interface, flow, demand });
                self.count("reserved");
                Ok(())
            }
            Err(refusal) => {
                self.release(input, &flow, Some(message.ticket));
                Err(refusal.available)
            }
        }
    }

    /// Ends the state of a flow, if the ticket is its own; with `None` in any case.
    fn release(&mut self, input: &mut Input<'_, '_>, flow: &Flow, ticket: Option<u64>) {
        let own = |session: &Session| ticket.is_none_or(|ticket| ticket == session.ticket);
        if !self.sessions.get(flow).is_some_and(own) {
            return;
        }
        let Some(session) = self.sessions.remove(flow) else { return };
        self.blocks.remove(&session.block);
        if let Some((claim, _)) = session.claim {
            input.context.ledger.release(claim);
            input.out.remove(claim);
        }
        self.count("released");
    }

    /// Processes the answer to a request of this host. A refused request is released on the whole path, and repeated.
    fn answered(&mut self, input: &mut Input<'_, '_>, message: &Message) {
        let request = self.requests.get_mut(&message.ticket);
        let Some(request) = request.filter(|request| request.flow == message.flow) else {
            return self.count("foreign_answers");
        };
        request.unanswered = 0;
        let application = request.application;
        let reported = |kind, node| Outcome::reported(kind, Some(node), ReportedBy::new("answer"));
        let outcome = match message.kind {
            Kind::Answer => Outcome {
                hops_without: Some(message.hops.into()),
                ..reported(Extent::Whole, message.flow.destination).with_extent(message.hops == 0)
            },
            _ => {
                self.announce(input, Kind::Return, message.ticket);
                Outcome {
                    available_bps: Some(message.available),
                    ..reported(Extent::Refused, message.refused_by)
                }
            }
        };
        notify(input, application, outcome);
    }

    /// Carries out a command.
    pub(crate) fn command(&mut self, input: &mut Input<'_, '_>, command: Command) {
        match command {
            Command::Reserve { application, flow, demand } => {
                let local = flow.source.is_some_and(|at| input.context.interfaces.is_local(at));
                if !local || flow.check().is_err() || self.tickets.contains_key(&application) {
                    return notify(input, application, Outcome::known_locally(Extent::Refused));
                }
                let ticket = self.random.next_u64();
                let (unanswered, next_at) = (0, input.now);
                let request = Request { application, flow, demand, unanswered, next_at };
                self.requests.insert(ticket, request);
                self.tickets.insert(application, ticket);
                self.refresh(input, ticket);
            }
            Command::Release { application } => {
                let Some(ticket) = self.tickets.remove(&application) else { return };
                self.announce(input, Kind::Return, ticket);
                self.requests.remove(&ticket);
                notify(input, application, Outcome::of(Extent::Ended));
            }
        }
    }

    /// Sends the request of an application, and arms the timer of the next one: after 0.5 to 1.5 intervals.
    fn refresh(&mut self, input: &mut Input<'_, '_>, ticket: u64) {
        let interval = Duration::from_secs(self.settings.interval_s.max(1).into());
        let next_at = input.now + self.random.uniform(interval / 2, interval * 3 / 2);
        let Some(request) = self.requests.get_mut(&ticket) else { return };
        (request.next_at, request.unanswered) = (next_at, request.unanswered + 1);
        if request.unanswered == MISSED + 1 {
            notify(input, request.application, Outcome::of(Extent::Unanswered));
        }
        self.timers.insert((next_at, Timer::Refresh(ticket)));
        self.announce(input, Kind::Request, ticket);
    }

    /// Sends a message about a request of this host along the path, beginning at this node.
    fn announce(&mut self, input: &mut Input<'_, '_>, kind: Kind, ticket: u64) {
        let Some(&Request { flow, demand, .. }) = self.requests.get(&ticket) else { return };
        let Some(source) = flow.source else { return };
        let (interval_s, refused_by) = (self.settings.interval_s.max(1), source);
        let (hops, available) = (0, Rate::ZERO);
        let message =
            Message { kind, flow, demand, ticket, interval_s, hops, available, refused_by };
        self.pass(input, message, (source, TTL), None);
    }

    /// Serves the timers that are due.
    pub(crate) fn expire(&mut self, input: &mut Input<'_, '_>) {
        let now = input.now;
        let is_due = move |(at, _): &(Time, Timer)| *at <= now;
        while let Some((at, timer)) = self.timers.first().copied().filter(is_due) {
            self.timers.remove(&(at, timer));
            match timer {
                Timer::Refresh(ticket) => {
                    if self.requests.get(&ticket).is_some_and(|request| request.next_at == at) {
                        self.refresh(input, ticket);
                    }
                }
                Timer::Expire(flow) => match self.sessions.get(&flow).map(|s| s.expires_at) {
                    Some(expires_at) if expires_at > input.now => {
                        self.timers.insert((expires_at, timer));
                    }
                    _ => self.release(input, &flow, None),
                },
            }
        }
    }

    /// Processes a change of the host. A lost claim is claimed again with the next request.
    pub(crate) fn host(&mut self, input: &mut Input<'_, '_>, event: HostEvent) {
        match event {
            HostEvent::TrafficControlRefused { claim, owner, .. } => {
                self.lose(input, claim, owner);
            }
            HostEvent::Displaced(Displaced { claim, owner, .. }) => self.lose(input, claim, owner),
            HostEvent::RouteChanged(prefix) => {
                let moved = |request: &Request| prefix.contains(request.flow.destination);
                let moved = self.requests.iter().filter(|(_, request)| moved(request));
                for ticket in moved.map(|(&ticket, _)| ticket).collect::<Vec<_>>() {
                    self.refresh(input, ticket);
                }
            }
            _ => {}
        }
    }

    fn lose(&mut self, input: &mut Input<'_, '_>, claim: ClaimId, owner: Owner) {
        let flow = self.blocks.get(&owner.block).filter(|_| owner.protocol == ID);
        let Some(session) = flow.and_then(|flow| self.sessions.get_mut(flow)) else { return };
        if session.claim.take_if(|(held, _)| *held == claim).is_some() {
            input.context.ledger.release(claim);
            input.out.remove(claim);
        }
    }
}

fn notify(input: &mut Input<'_, '_>, application: u64, outcome: Outcome) {
    let event = serde_json::json!({ "event": outcome.kind.name() });
    let outcome = Some(Box::new(outcome));
    input.out.notify(OtherEvent {
        name: NAME.into(),
        application: Some(application),
        outcome,
        event,
    });
}

/// Reports a command that is none of this engine's: the application has no reservation by it.
pub(crate) fn reject(
    out: &mut Effects<Event>,
    application: Option<u64>,
    reason: &serde_json::Error,
) {
    let event = serde_json::json!({ "event": "rejected", "reason": reason.to_string() });
    let outcome = application.map(|_| Box::new(Outcome::known_locally(Extent::Refused)));
    out.notify(OtherEvent { name: NAME.into(), application, outcome, event });
}
