//! The node: hands each input to whom it concerns.

use alloc::boxed::Box;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use earmark_boomerang as boomerang;
use earmark_boomerang::Boomerang;
use earmark_core::admission::{Attempt, Ledger, Owner, Protocol};
use earmark_core::hash::KeyedHash;
use earmark_core::random::RandomStreams;
use earmark_core::{
    Context, Datagram, Effect, Effects, Engine, FlowAnswer, FlowResolver, HostEvent,
    Input as EngineInput, InterfaceId, Interfaces, RouteTable, Time,
};
use earmark_nsis as nsis;
use earmark_nsis::Nsis;
use earmark_rsvp as rsvp;
use earmark_rsvp::{Rejection, Rsvp};
use earmark_wire::icmp;
use earmark_wire::rsvp::{SenderTemplate, Session};
use earmark_wire::udp;
use earmark_yessir as yessir;
use earmark_yessir::Yessir;

use crate::api::{Command, Event, Input, NodeConfig};
use crate::edge::{Edges, RSVP_E2E_IGNORE};
use crate::receiver::{Listen, Receivers};

/// Displaced claims and waiting requests that are served after one input at most; the rest is due at once again.
const SETTLED_PER_TURN: usize = 256;

/// Interfaces that have gone and whose names are remembered.
const REMEMBERED_NAMES: usize = 64;

/// One router or host.
#[derive(Debug)]
pub struct Node {
    pub(crate) name: String,
    pub(crate) interfaces: Interfaces,
    /// Names of interfaces that have gone, the last ones: state that was made through them names them a while longer.
    gone: VecDeque<(InterfaceId, String)>,
    /// The same, as RSVP is to see them.
    pub(crate) rsvp_interfaces: Interfaces,
    /// Names of interfaces where RSVP takes no part.
    pub(crate) without_rsvp: BTreeSet<String>,
    pub(crate) routes: RouteTable,
    pub(crate) ledger: Ledger,
    pub(crate) rsvp: Rsvp,
    pub(crate) boomerang: Boomerang,
    pub(crate) yessir: Yessir,
    pub(crate) nsis: Nsis,
    receivers: Receivers,
    pub(crate) edges: Edges,
    /// When there was more to settle than one turn may take.
    unsettled: Option<Time>,
}

impl Node {
    /// A node that knows no interface and no route yet.
    pub fn new(config: NodeConfig) -> Node {
        let random = RandomStreams::new(config.seed);
        let mut ledger = Ledger::new();
        ledger.set_preemption(config.rsvp.policy.preemption);
        ledger.set_retry_policy(config.retry);
        let mut routes = RouteTable::new();
        routes.set_flow_hash(KeyedHash::draw(&mut random.stream("routes/flows")));
        Node {
            name: config.name,
            interfaces: Interfaces::default(),
            gone: VecDeque::new(),
            rsvp_interfaces: Interfaces::default(),
            without_rsvp: config.without_rsvp,
            routes,
            ledger,
            rsvp: Rsvp::new(config.rsvp, &random),
            boomerang: Boomerang::new(config.boomerang, &random),
            yessir: Yessir::new(config.yessir, &random),
            nsis: Nsis::new(config.nsis, &random),
            receivers: Receivers::default(),
            edges: Edges::new(config.borders),
            unsettled: None,
        }
    }

    /// One input, all its consequences; see [`earmark_core::Engine`] for the contract.
    pub fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Effects<Event>) {
        let before = out.len();
        match input {
            Input::Datagram(protocol @ (rsvp::PROTOCOL | RSVP_E2E_IGNORE), datagram)
                if !self.edges.is_empty() =>
            {
                self.rsvp_at_edge(now, protocol, datagram, out);
            }
            Input::Datagram(rsvp::PROTOCOL, datagram) => {
                self.rsvp(now, EngineInput::Datagram(datagram), out);
            }
            Input::Datagram(icmp::PROTOCOL_V4 | icmp::PROTOCOL_V6, datagram) => {
                self.boomerang(now, EngineInput::Datagram(datagram), out);
            }
            Input::Datagram(udp::PROTOCOL, datagram) if is_gist(&datagram) => {
                self.nsis(now, EngineInput::Datagram(datagram), out);
            }
            Input::Datagram(yessir::PROTOCOL, datagram) => {
                self.yessir(now, EngineInput::Datagram(datagram), out);
            }
            // Nobody here speaks it; drivers only hand over what they opened a socket for.
            Input::Datagram(..) => {}
            Input::Stream(event) => self.nsis(now, EngineInput::Stream(event), out),
            Input::Expire => self.expire(now, out),
            Input::Host(update) => self.host_changes(now, update, out),
            Input::Command(Command::Rsvp(command)) => {
                match &command {
                    rsvp::Command::Release { application } => self.receivers.forget(*application),
                    rsvp::Command::Renew(renewal) => {
                        self.ledger.set_preemption(renewal.policy.preemption);
                    }
                    _ => {}
                }
                self.rsvp(now, EngineInput::Command(command), out);
            }
            Input::Command(Command::Listen(listen)) => self.listen(now, listen, out),
            Input::Command(Command::Boomerang(command)) => {
                if let boomerang::Command::Settled(settled) = &command {
                    self.follow_loans(settled);
                }
                self.boomerang(now, EngineInput::Command(command), out);
            }
            Input::Command(Command::Yessir(command)) => {
                self.yessir(now, EngineInput::Command(command), out);
            }
            Input::Command(Command::Nsis(command)) => {
                self.nsis(now, EngineInput::Command(command), out);
            }
        }
        self.settle(now, out);
        if !self.receivers.is_empty() && self.answer(now, before, out) {
            self.settle(now, out);
        }
        if !self.edges.is_empty() {
            self.tend_edges(now, before, out);
        }
    }

    /// A last step over the effects of one input, or of several in their order, before they are carried out: messages
    /// that go to the same neighbour leave together, where it understands that ([`Rsvp::bundle`]). Left out, each leaves
    /// by itself.
    pub fn bundle(&mut self, out: &mut Effects<Event>) {
        self.rsvp.bundle(&self.interfaces, out);
    }

    /// When [`Input::Expire`] is due next.
    pub fn next_deadline(&self) -> Option<Time> {
        let deadlines = [
            self.rsvp.next_deadline().map(|(at, _)| at),
            self.boomerang.next_deadline().map(|(at, _)| at),
            self.yessir.next_deadline().map(|(at, _)| at),
            self.nsis.next_deadline().map(|(at, _)| at),
            self.unsettled,
            self.edges.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Its name, for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its interfaces.
    pub fn interfaces(&self) -> &Interfaces {
        &self.interfaces
    }

    /// The name of an interface, or of the link of an aggregate across a core; of one that has gone, the last name. Its index
    /// where that is forgotten, too.
    pub fn interface_name(&self, id: InterfaceId) -> String {
        let id = self.edges.interface_of(id).unwrap_or(id);
        if let Some(interface) = self.interfaces.by_id(id) {
            return interface.name.clone();
        }
        let gone = self.gone.iter().rev().find(|(gone, _)| *gone == id);
        gone.map_or_else(|| id.0.to_string(), |(_, name)| name.clone())
    }

    /// Takes an interface out, but for its name.
    pub(crate) fn remove_interface(&mut self, id: InterfaceId) {
        self.rsvp_interfaces.remove(id);
        if let Some(interface) = self.interfaces.remove(id) {
            if self.gone.len() == REMEMBERED_NAMES {
                self.gone.pop_front();
            }
            self.gone.push_back((id, interface.name));
        }
    }

    /// The senders of a session that it knows of.
    pub fn senders_of(&self, session: &Session) -> impl Iterator<Item = SenderTemplate> {
        self.rsvp.senders_of(session)
    }

    /// Asks this host where flows go, where their destinations alone do not tell. What it answers is kept for
    /// [`Node::take_flow_answers`] if it is to be recorded.
    pub fn ask_for_flows(&mut self, host: Box<dyn FlowResolver>, record: bool) {
        self.routes.set_resolver(host);
        if record {
            self.routes.keep_flow_answers();
        }
    }

    /// What the host has answered since the last call. [`HostUpdate::FlowAnswers`](crate::HostUpdate::FlowAnswers) gives it
    /// to another node, before the inputs that it was asked for.
    pub fn take_flow_answers(&mut self) -> Vec<FlowAnswer> {
        self.routes.take_flow_answers()
    }

    /// Where its packets go.
    pub fn routes(&self) -> &RouteTable {
        &self.routes
    }

    /// What its links can bear, and who holds how much of it.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// See [`Ledger::keep_journal`].
    pub fn keep_journal(&mut self, keep: bool) {
        self.ledger.keep_journal(keep);
    }

    /// See [`Ledger::take_attempts`].
    pub fn take_attempts(&mut self) -> Vec<Attempt> {
        self.ledger.take_attempts()
    }

    /// Its engine of RSVP, to be looked at.
    pub fn rsvp_engine(&self) -> &Rsvp {
        &self.rsvp
    }

    /// Its engine of Boomerang, to be looked at.
    pub fn boomerang_engine(&self) -> &Boomerang {
        &self.boomerang
    }

    /// Its engine of NSIS, to be looked at.
    pub fn nsis_engine(&self) -> &Nsis {
        &self.nsis
    }

    /// Its engine of NSIS, for drivers that add applications of their own ([`Nsis::add`]).
    pub fn nsis_engine_mut(&mut self) -> &mut Nsis {
        &mut self.nsis
    }

    /// Its engine of YESSIR, to be looked at.
    pub fn yessir_engine(&self) -> &Yessir {
        &self.yessir
    }

    /// Serves the timers that are due.
    fn expire(&mut self, now: Time, out: &mut Effects<Event>) {
        let is_due = |deadline: Option<Time>| deadline.is_some_and(|at| at <= now);
        if is_due(self.rsvp.next_deadline().map(|(at, _)| at)) {
            self.rsvp(now, EngineInput::Expire, out);
        }
        if is_due(self.boomerang.next_deadline().map(|(at, _)| at)) {
            self.boomerang(now, EngineInput::Expire, out);
        }
        if is_due(self.yessir.next_deadline().map(|(at, _)| at)) {
            self.yessir(now, EngineInput::Expire, out);
        }
        if is_due(self.nsis.next_deadline().map(|(at, _)| at)) {
            self.nsis(now, EngineInput::Expire, out);
        }
    }

    pub(crate) fn rsvp(
        &mut self,
        now: Time,
        input: EngineInput<'_, rsvp::Command>,
        out: &mut Effects<Event>,
    ) {
        let Node { rsvp, routes, rsvp_interfaces: interfaces, ledger, .. } = self;
        rsvp.handle(now, input, &mut Context { routes, interfaces, ledger }, out);
    }

    pub(crate) fn boomerang(
        &mut self,
        now: Time,
        input: EngineInput<'_, boomerang::Command>,
        out: &mut Effects<Event>,
    ) {
        let Node { boomerang, routes, interfaces, ledger, .. } = self;
        boomerang.handle(now, input, &mut Context { routes, interfaces, ledger }, out);
    }

    fn yessir(
        &mut self,
        now: Time,
        input: EngineInput<'_, yessir::Command>,
        out: &mut Effects<Event>,
    ) {
        let Node { yessir, routes, interfaces, ledger, .. } = self;
        yessir.handle(now, input, &mut Context { routes, interfaces, ledger }, out);
    }

    fn nsis(&mut self, now: Time, input: EngineInput<'_, nsis::Command>, out: &mut Effects<Event>) {
        let Node { nsis, routes, interfaces, ledger, .. } = self;
        nsis.handle(now, input, &mut Context { routes, interfaces, ledger }, out);
    }

    /// What was granted out of a loan is lent no more, and claimed next; what was given back is.
    fn follow_loans(&mut self, settled: &boomerang::Settled) {
        let lent = |ledger: &Ledger, interface| ledger.rate_set_aside(interface);
        let ledger = &mut self.ledger;
        match settled.outcome {
            boomerang::Settlement::Reserved(share) => {
                let rest = lent(ledger, share.interface).saturating_sub(share.rate);
                ledger.set_aside(share.interface, rest);
            }
            boomerang::Settlement::Released(shares) => {
                for share in shares.into_iter().flatten() {
                    ledger.set_aside(share.interface, lent(ledger, share.interface) + share.rate);
                }
            }
        }
    }

    /// Tells all engines what has become of the host.
    pub(crate) fn tell(&mut self, now: Time, event: HostEvent, out: &mut Effects<Event>) {
        self.rsvp(now, EngineInput::Host(event), out);
        self.boomerang(now, EngineInput::Host(event), out);
        self.yessir(now, EngineInput::Host(event), out);
        self.nsis(now, EngineInput::Host(event), out);
    }

    /// Tells the engine that a claim, or a request that waits, belongs to.
    pub(crate) fn tell_owner(
        &mut self,
        now: Time,
        owner: Owner,
        event: HostEvent,
        out: &mut Effects<Event>,
    ) {
        match owner.protocol {
            Protocol::Rsvp => self.rsvp(now, EngineInput::Host(event), out),
            Protocol::Boomerang => self.boomerang(now, EngineInput::Host(event), out),
            Protocol::Yessir => self.yessir(now, EngineInput::Host(event), out),
            Protocol::Nsis => self.nsis(now, EngineInput::Host(event), out),
        }
    }

    /// What one protocol took, another may have lost; what one gave back, another may be waiting for. First those learn
    /// of it that have lost something, for what they give up on other links is there to be had.
    pub(crate) fn settle(&mut self, now: Time, out: &mut Effects<Event>) {
        self.unsettled = None;
        for _ in 0..SETTLED_PER_TURN {
            if let Some(displaced) = self.ledger.next_displaced() {
                self.tell_owner(now, displaced.owner, HostEvent::Displaced(displaced), out);
            } else if let Some((interface, owner)) = self.ledger.next_grantable() {
                self.tell_owner(now, owner, HostEvent::Grantable { interface, owner }, out);
            } else {
                return;
            }
        }
        self.unsettled = Some(now);
    }

    /// Answers the senders of RSVP that the effects from place `from` on announce, and for whom somebody listens; gives
    /// whether there were any.
    fn answer(&mut self, now: Time, from: usize, out: &mut Effects<Event>) -> bool {
        let answers = self.receivers.answers(out, from);
        let any = !answers.is_empty();
        for answer in answers {
            match answer {
                Ok(reserve) => self.rsvp(now, EngineInput::Command(reserve), out),
                Err(event) => out.notify(*event),
            }
        }
        any
    }

    /// Opens a session and answers its senders from now on. Who cannot have the session answers nobody either.
    fn listen(&mut self, now: Time, listen: Listen, out: &mut Effects<Event>) {
        let (application, session) = (listen.application, listen.session);
        let before = self.receivers.listen(listen);
        let effects = out.len();
        let open = rsvp::Command::Session { application, session };
        self.rsvp(now, EngineInput::Command(open), out);
        let rejected = out.iter().skip(effects).any(|effect| {
            matches!(
                effect,
                Effect::Notify(Event::Rsvp(rsvp::Event::Rejected { reason, .. }))
                    if matches!(reason, Rejection::SessionOpen | Rejection::BadSession)
            )
        });
        if rejected {
            self.receivers.restore(application, before);
        }
    }
}

/// Whether a UDP packet is for GIST: by its destination port.
fn is_gist(datagram: &Datagram<'_>) -> bool {
    datagram.payload.get(2..4) == Some(&nsis::PORT.to_be_bytes())
}
