//! The node: hands each input to whom it concerns.

use alloc::string::{String, ToString};
use core::net::IpAddr;

use earmark_core::admission::{ClaimId, Ledger, LinkCapacity};
use earmark_core::random::RandomStreams;
use earmark_core::{
    Context, Datagram, Effect, Effects, Engine, Flow, HostEvent, Interface, InterfaceId,
    Interfaces, MulticastRoute, Rate, Route, RouteTable, Time,
};
use earmark_rsvp as rsvp;
use earmark_rsvp::{Rejection, Rsvp};
use earmark_wire::rsvp::{SenderTemplate, Session};
use serde::{Deserialize, Serialize};

use crate::receiver::{Listen, Receivers, Unanswerable};

/// Settings of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NodeConfig {
    /// Its name, for people.
    pub name: String,
    /// Where all its random streams start.
    pub seed: u64,
    /// Settings of RSVP.
    pub rsvp: rsvp::Config,
}

/// One thing that happens to a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Input<'a> {
    /// A message of IP protocol `.0` arrived.
    Datagram(u8, Datagram<'a>),
    /// The deadline of [`Node::next_deadline`] has come.
    Expire,
    /// The host has changed.
    Host(HostUpdate),
    /// A user wants something.
    Command(Command),
}

/// What the driver reports of the host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum HostUpdate {
    /// An interface is there, or has changed.
    Interface(Interface),
    /// An interface has gone.
    InterfaceGone(InterfaceId),
    /// Somebody else has taken the queues of an interface over: what was reserved there is void, and nothing new can be
    /// reserved until [`HostUpdate::Interface`] tells of the interface again.
    QueuesTaken(InterfaceId),
    /// A route is there.
    Route(Route),
    /// A route has gone.
    RouteGone(Route),
    /// A multicast forwarding entry is there, or has changed.
    MulticastRoute(MulticastRoute),
    /// A multicast forwarding entry has gone.
    MulticastRouteGone {
        /// Of this source; `None` for every source.
        source: Option<IpAddr>,
        /// To this group.
        group: IpAddr,
    },
    /// Traffic control could not install this.
    TrafficControlRefused {
        /// What.
        claim: ClaimId,
        /// The system's error number.
        errno: u16,
    },
    /// Traffic control still holds a reservation that a dead daemon made; its bandwidth is kept until somebody claims
    /// the flow, or until [`HostUpdate::AdoptedGone`].
    Adopted {
        /// On which link.
        interface: InterfaceId,
        /// Whose packets.
        flow: Flow,
        /// What they get.
        rate: Rate,
    },
    /// Traffic control has taken back what nobody claimed.
    AdoptedGone {
        /// On which link.
        interface: InterfaceId,
        /// Whose packets.
        flow: Flow,
    },
}

/// What a user can ask of a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Command {
    /// An RSVP application's call.
    Rsvp(rsvp::Command),
    /// Answer senders of a session by itself, by a policy.
    Listen(Listen),
}

/// What a node reports.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "protocol", rename_all = "snake_case")]
pub enum Event {
    /// RSVP's.
    Rsvp(rsvp::Event),
    /// A receiver's policy has no answer to a sender.
    NoAnswer {
        /// For which application.
        application: rsvp::Application,
        /// To which sender.
        template: SenderTemplate,
        /// Why not.
        reason: Unanswerable,
    },
    /// What a dead daemon left in traffic control cannot be kept; the driver should take it out.
    NotAdopted {
        /// On which link.
        interface: InterfaceId,
        /// Whose packets.
        flow: Flow,
        /// Why not.
        reason: String,
    },
}

impl From<rsvp::Event> for Event {
    fn from(event: rsvp::Event) -> Event {
        Event::Rsvp(event)
    }
}

/// One router or host.
#[derive(Debug)]
pub struct Node {
    pub(crate) name: String,
    pub(crate) interfaces: Interfaces,
    pub(crate) routes: RouteTable,
    pub(crate) ledger: Ledger,
    pub(crate) rsvp: Rsvp,
    receivers: Receivers,
}

impl Node {
    /// A node that knows no interface and no route yet.
    pub fn new(config: NodeConfig) -> Node {
        let random = RandomStreams::new(config.seed);
        let mut ledger = Ledger::new();
        ledger.set_preemption(config.rsvp.policy.preemption);
        Node {
            name: config.name,
            interfaces: Interfaces::default(),
            routes: RouteTable::new(),
            ledger,
            rsvp: Rsvp::new(config.rsvp, &random),
            receivers: Receivers::default(),
        }
    }

    /// One input, all its consequences; see [`earmark_core::Engine`] for the contract.
    pub fn handle(&mut self, now: Time, input: Input<'_>, out: &mut Effects<Event>) {
        match input {
            Input::Datagram(rsvp::PROTOCOL, datagram) => {
                self.rsvp(now, earmark_core::Input::Datagram(datagram), out);
            }
            // Nobody here speaks it; drivers only hand over what they opened a socket for.
            Input::Datagram(..) => {}
            Input::Expire => self.rsvp(now, earmark_core::Input::Expire, out),
            Input::Host(update) => self.host_changes(now, update, out),
            Input::Command(Command::Rsvp(command)) => {
                match &command {
                    rsvp::Command::Release { application } => self.receivers.forget(*application),
                    rsvp::Command::Renew(renewal) => {
                        self.ledger.set_preemption(renewal.policy.preemption);
                    }
                    _ => {}
                }
                self.rsvp(now, earmark_core::Input::Command(command), out);
            }
            Input::Command(Command::Listen(listen)) => {
                self.listen(now, listen, out);
            }
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
        self.rsvp.next_deadline().map(|(at, _)| at)
    }

    /// Its name, for people.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its interfaces.
    pub fn interfaces(&self) -> &Interfaces {
        &self.interfaces
    }

    /// The senders of a session that it knows of.
    pub fn senders_of(&self, session: &Session) -> impl Iterator<Item = SenderTemplate> {
        self.rsvp.senders_of(session)
    }

    /// Where its packets go.
    pub fn routes(&self) -> &RouteTable {
        &self.routes
    }

    /// Hands RSVP an input, and answers the senders that appear for whom somebody listens.
    fn rsvp(
        &mut self,
        now: Time,
        input: earmark_core::Input<'_, rsvp::Command>,
        out: &mut Effects<Event>,
    ) {
        let before = out.len();
        let context = &mut Context {
            routes: &self.routes,
            interfaces: &self.interfaces,
            ledger: &mut self.ledger,
        };
        self.rsvp.handle(now, input, context, out);
        while let Some(displaced) = context.ledger.next_displaced() {
            let input = earmark_core::Input::Host(HostEvent::Displaced(displaced));
            self.rsvp.handle(now, input, context, out);
        }
        if self.receivers.is_empty() {
            return;
        }
        for answer in self.receivers.answers(out, before) {
            match answer {
                Ok(reserve) => {
                    let input = earmark_core::Input::Command(reserve);
                    self.rsvp.handle(now, input, context, out);
                }
                Err(event) => out.notify(event),
            }
        }
    }

    /// Opens a session and answers its senders from now on. Who cannot have the session answers nobody either.
    fn listen(&mut self, now: Time, listen: Listen, out: &mut Effects<Event>) {
        let (application, session) = (listen.application, listen.session);
        let before = self.receivers.listen(listen);
        let effects = out.len();
        let open = rsvp::Command::Session { application, session };
        self.rsvp(now, earmark_core::Input::Command(open), out);
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

    fn host_changes(&mut self, now: Time, update: HostUpdate, out: &mut Effects<Event>) {
        match update {
            HostUpdate::Interface(interface) => {
                let id = interface.id;
                self.routes.set_interface_up(id, interface.up);
                if interface.takes_part() {
                    let capacity = LinkCapacity {
                        bandwidth: interface.bandwidth,
                        reservable: interface.reservable,
                        mtu: interface.mtu,
                    };
                    self.ledger.set_link(id, capacity);
                }
                let takes_part = interface.takes_part();
                self.interfaces.set(interface);
                if !takes_part {
                    self.lose_link(now, id, ENODEV, out);
                }
                self.tell(now, HostEvent::InterfaceChanged(id), out);
            }
            HostUpdate::InterfaceGone(id) => {
                let prefixes = self.routes.remove_interface(id);
                // As long as the interface is known, those behind it can be told; another way may lead to them.
                self.lose_link(now, id, ENODEV, out);
                self.interfaces.remove(id);
                self.tell(now, HostEvent::InterfaceChanged(id), out);
                for prefix in prefixes {
                    self.tell(now, HostEvent::RouteChanged(prefix), out);
                }
            }
            HostUpdate::QueuesTaken(id) => {
                let Some(interface) = self.interfaces.by_id(id).cloned() else { return };
                self.lose_link(now, id, EBUSY, out);
                let interface = Interface { reservable: Rate::ZERO, ..interface };
                self.host_changes(now, HostUpdate::Interface(interface), out);
            }
            HostUpdate::Route(route) => {
                if self.routes.insert(route) {
                    self.tell(now, HostEvent::RouteChanged(route.prefix), out);
                }
            }
            HostUpdate::RouteGone(route) => {
                if self.routes.remove(&route) {
                    self.tell(now, HostEvent::RouteChanged(route.prefix), out);
                }
            }
            HostUpdate::MulticastRoute(route) => {
                let (source, group) = (route.source, route.group);
                if self.routes.insert_multicast(route) {
                    self.tell(now, HostEvent::MulticastRouteChanged { source, group }, out);
                }
            }
            HostUpdate::MulticastRouteGone { source, group } => {
                if self.routes.remove_multicast(source, group) {
                    self.tell(now, HostEvent::MulticastRouteChanged { source, group }, out);
                }
            }
            HostUpdate::TrafficControlRefused { claim, errno } => {
                if let Some(owner) = self.ledger.owner(claim) {
                    let event = HostEvent::TrafficControlRefused { claim, owner, errno };
                    self.tell(now, event, out);
                }
            }
            HostUpdate::Adopted { interface, flow, rate } => {
                if let Err(error) = self.ledger.adopt(interface, flow, rate) {
                    out.notify(Event::NotAdopted { interface, flow, reason: error.to_string() });
                }
            }
            HostUpdate::AdoptedGone { interface, flow } => {
                self.ledger.drop_adopted(interface, &flow);
            }
        }
    }

    /// Nothing can be reserved on a link any more: whoever holds something of it must know.
    fn lose_link(&mut self, now: Time, id: InterfaceId, errno: u16, out: &mut Effects<Event>) {
        for (claim, owner) in self.ledger.remove_link(id).claims {
            let event = HostEvent::TrafficControlRefused { claim, owner, errno };
            self.tell(now, event, out);
        }
    }

    fn tell(&mut self, now: Time, event: HostEvent, out: &mut Effects<Event>) {
        self.rsvp(now, earmark_core::Input::Host(event), out);
    }
}

/// "No such device" and "device or resource busy", in the numbers of every Unix.
const ENODEV: u16 = 19;
const EBUSY: u16 = 16;
