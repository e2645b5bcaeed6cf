//! The node: dispatches each input to the engines concerned.

use alloc::boxed::Box;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use earmark_boomerang as boomerang;
use earmark_boomerang::Boomerang;
use earmark_core::admission::{AdmissionMethod, Attempt, Ledger, Owner, Protocol};
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
use crate::edge::{Edge, RSVP_E2E_IGNORE};
use crate::receiver::{Listen, Receivers};

/// Maximum number of displaced claims and waiting requests that are served after one input; the rest is due
/// immediately.
const MAX_SETTLED_PER_INPUT: usize = 256;

/// Maximum number of removed interfaces whose names are kept.
const MAX_REMOVED_INTERFACES: usize = 64;

/// A router or host.
#[derive(Debug)]
pub struct Node {
    pub(crate) name: String,
    pub(crate) interfaces: Interfaces,
    /// Names of the interfaces removed last, which older state still refers to.
    removed_interfaces: VecDeque<(InterfaceId, String)>,
    /// Interfaces with the view of RSVP.
    pub(crate) rsvp_interfaces: Interfaces,
    /// Names of interfaces without RSVP.
    pub(crate) without_rsvp: BTreeSet<String>,
    pub(crate) routes: RouteTable,
    pub(crate) ledger: Ledger,
    /// Admission control of the links that `link_admission` does not name.
    pub(crate) admission: AdmissionMethod,
    /// Admission control by interface name.
    pub(crate) link_admission: BTreeMap<String, AdmissionMethod>,
    pub(crate) rsvp: Rsvp,
    pub(crate) boomerang: Boomerang,
    pub(crate) yessir: Yessir,
    pub(crate) nsis: Nsis,
    receivers: Receivers,
    pub(crate) edge: Edge,
    /// Time at which the rest is to be settled, if one input had too much.
    settle_again_at: Option<Time>,
}

impl Node {
    /// Creates a node without interfaces and routes.
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
            removed_interfaces: VecDeque::new(),
            rsvp_interfaces: Interfaces::default(),
            without_rsvp: config.without_rsvp,
            routes,
            ledger,
            admission: config.admission,
            link_admission: config.link_admission,
            rsvp: Rsvp::new(config.rsvp, &random),
            boomerang: Boomerang::new(config.boomerang, &random),
            yessir: Yessir::new(config.yessir, &random),
            nsis: Nsis::new(config.nsis, &random),
            receivers: Receivers::default(),
            edge: Edge::new(config.borders),
            settle_again_at: None,
        }
    }

    /// Processes one input with all its consequences; see [`earmark_core::Engine`] for the contract.
    pub fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Effects<Event>) {
        let before = out.len();
        match input {
            Input::Datagram(protocol @ (rsvp::PROTOCOL | RSVP_E2E_IGNORE), datagram)
                if !self.edge.is_empty() =>
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
            // No engine supports the protocol; drivers deliver only protocols for which they opened a socket.
            Input::Datagram(..) => {}
            Input::Stream(event) => self.nsis(now, EngineInput::Stream(event), out),
            Input::Expire => self.expire(now, out),
            Input::Host(update) => self.update_host(now, update, out),
            Input::Command(Command::Rsvp(command)) => {
                match &command {
                    rsvp::Command::Release { application } => self.receivers.remove(*application),
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
                    self.update_lent_bandwidth(settled);
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
        if !self.receivers.is_empty() && self.answer_senders(now, before, out) {
            self.settle(now, out);
        }
        if !self.edge.is_empty() {
            self.update_aggregates(now, before, out);
        }
    }

    /// Bundles messages to the same neighbor if the neighbor supports this ([`Rsvp::bundle`]). Optional last step over
    /// the effects of one or more inputs before they are executed.
    pub fn bundle(&mut self, out: &mut Effects<Event>) {
        self.rsvp.bundle(&self.interfaces, out);
    }

    /// Time at which [`Input::Expire`] is due next.
    pub fn next_deadline(&self) -> Option<Time> {
        let deadlines = [
            self.rsvp.next_deadline().map(|(at, _)| at),
            self.boomerang.next_deadline().map(|(at, _)| at),
            self.yessir.next_deadline().map(|(at, _)| at),
            self.nsis.next_deadline().map(|(at, _)| at),
            self.settle_again_at,
            self.edge.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// Name for display.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Interfaces of the node.
    pub fn interfaces(&self) -> &Interfaces {
        &self.interfaces
    }

    /// Name of an interface, or of the interface behind which an aggregate's link is; the last name of a removed one,
    /// or its index if the name is no longer kept.
    pub fn interface_name(&self, id: InterfaceId) -> String {
        let id = self.edge.interface_of(id).unwrap_or(id);
        if let Some(interface) = self.interfaces.by_id(id) {
            return interface.name.clone();
        }
        let gone = self.removed_interfaces.iter().rev().find(|(gone, _)| *gone == id);
        gone.map_or_else(|| id.0.to_string(), |(_, name)| name.clone())
    }

    /// Removes an interface and keeps its name.
    pub(crate) fn remove_interface(&mut self, id: InterfaceId) {
        self.rsvp_interfaces.remove(id);
        if let Some(interface) = self.interfaces.remove(id) {
            if self.removed_interfaces.len() == MAX_REMOVED_INTERFACES {
                self.removed_interfaces.pop_front();
            }
            self.removed_interfaces.push_back((id, interface.name));
        }
    }

    /// Iterates over the known senders of a session.
    pub fn senders_of(&self, session: &Session) -> impl Iterator<Item = SenderTemplate> {
        self.rsvp.senders_of(session)
    }

    /// Sets the resolver of this host's routes for flows, used if the destination alone does not determine the route.
    /// With `record`, the answers are kept for [`Node::take_flow_answers`].
    pub fn ask_for_flows(&mut self, host: Box<dyn FlowResolver>, record: bool) {
        self.routes.set_resolver(host);
        if record {
            self.routes.keep_flow_answers();
        }
    }

    /// Returns the host's answers since the last call. [`HostUpdate::FlowAnswers`](crate::HostUpdate::FlowAnswers)
    /// passes them to another node, before the inputs that they belong to.
    pub fn take_flow_answers(&mut self) -> Vec<FlowAnswer> {
        self.routes.take_flow_answers()
    }

    /// Route table of the node.
    pub fn routes(&self) -> &RouteTable {
        &self.routes
    }

    /// Ledger: bandwidth of the links, and the claims on it.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Switches the journal of the ledger on or off; see [`Ledger::keep_journal`].
    pub fn keep_journal(&mut self, keep: bool) {
        self.ledger.keep_journal(keep);
    }

    /// Returns the attempts in the journal; see [`Ledger::take_attempts`].
    pub fn take_attempts(&mut self) -> Vec<Attempt> {
        self.ledger.take_attempts()
    }

    /// RSVP engine, read-only.
    pub fn rsvp_engine(&self) -> &Rsvp {
        &self.rsvp
    }

    /// Boomerang engine, read-only.
    pub fn boomerang_engine(&self) -> &Boomerang {
        &self.boomerang
    }

    /// NSIS engine, read-only.
    pub fn nsis_engine(&self) -> &Nsis {
        &self.nsis
    }

    /// NSIS engine, for drivers that add their own applications ([`Nsis::add`]).
    pub fn nsis_engine_mut(&mut self) -> &mut Nsis {
        &mut self.nsis
    }

    /// YESSIR engine, read-only.
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

    /// Updates the lent bandwidth: a granted part is no longer lent, and will be claimed; a released part is lent
    /// again.
    fn update_lent_bandwidth(&mut self, settled: &boomerang::Settled) {
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

    /// Notifies all engines of a change of the host.
    pub(crate) fn notify_engines(&mut self, now: Time, event: HostEvent, out: &mut Effects<Event>) {
        self.rsvp(now, EngineInput::Host(event), out);
        self.boomerang(now, EngineInput::Host(event), out);
        self.yessir(now, EngineInput::Host(event), out);
        self.nsis(now, EngineInput::Host(event), out);
    }

    /// Notifies the engine that owns a claim or a waiting request.
    pub(crate) fn notify_owner(
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

    /// Notifies engines of displaced claims and of requests that can be granted now. Displaced claims come first,
    /// because their owners release bandwidth on other links.
    pub(crate) fn settle(&mut self, now: Time, out: &mut Effects<Event>) {
        self.settle_again_at = None;
        for _ in 0..MAX_SETTLED_PER_INPUT {
            if let Some(displaced) = self.ledger.next_displaced() {
                self.notify_owner(now, displaced.owner, HostEvent::Displaced(displaced), out);
            } else if let Some((interface, owner)) = self.ledger.next_grantable() {
                self.notify_owner(now, owner, HostEvent::Grantable { interface, owner }, out);
            } else {
                return;
            }
        }
        self.settle_again_at = Some(now);
    }

    /// Answers the RSVP senders that the effects from `from` on announce and that have a listener; returns whether
    /// there were any.
    fn answer_senders(&mut self, now: Time, from: usize, out: &mut Effects<Event>) -> bool {
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

    /// Opens a session and answers its senders from now on. Without the session there are no answers.
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

/// Whether a UDP packet is for GIST, by its destination port.
fn is_gist(datagram: &Datagram<'_>) -> bool {
    datagram.payload.get(2..4) == Some(&nsis::PORT.to_be_bytes())
}
