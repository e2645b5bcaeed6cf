//! Three engines in a row with virtual time: a sending host, a router, and a receiving host that reserves for any
//! sender, on links that can lose, duplicate and delay messages.
//!
//! ```text
//!   [ left ] 10.0.1.1 ----- 10.0.1.2 [ middle ] 10.0.2.1 ----- 10.0.2.2 [ right ]
//!               eth2        eth1                eth2           eth1
//! ```
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use earmark_core::random::{RandomStreams, Stream};
use earmark_core::{
    Effect, Effects, Engine, HostEvent, Input, InterfaceId, Outgoing, Rate, Routes, Time,
};
use earmark_rsvp::{Application, Command, Config, Event, ReserveRequest, Rsvp};
use earmark_testkit::bench::{Arrival, Host};
use earmark_wire::rsvp::{Body, FilterSpec, Message, MessageType, Session, SourceSelector};

use crate::common::{ETH1, ETH2, flowspec, ip, tspec};

pub(crate) const LEFT: usize = 0;
pub(crate) const MIDDLE: usize = 1;
pub(crate) const RIGHT: usize = 2;

/// Delay of a message on a link.
const DELAY: Duration = Duration::from_millis(1);

pub(crate) struct Node {
    pub(crate) engine: Rsvp,
    pub(crate) config: Config,
    host: Host,
}

impl Node {
    fn new(config: Config, seed: u64, links: &[(InterfaceId, &str)]) -> Node {
        let mut host = Host::default();
        let bandwidth = Rate::from_mbps(100_000);
        for &(id, address) in links {
            host.set_link(id, &[address], bandwidth, bandwidth);
        }
        Node { engine: Rsvp::new(config.clone(), &RandomStreams::new(seed)), config, host }
    }
}

/// Result of sending a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Arrives,
    IsLost,
    ArrivesTwice,
    /// Delivered after later messages.
    IsLate,
}

/// A sent message, as the test records it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SentRecord {
    pub(crate) from: usize,
    pub(crate) at: Time,
    pub(crate) kind: MessageType,
}

/// A message in transit: receiving node, and the datagram.
type InTransit = (usize, Arrival);

pub(crate) struct Chain {
    pub(crate) nodes: [Node; 3],
    pub(crate) now: Time,
    pub(crate) fate: Box<dyn FnMut(SentRecord) -> Fate>,
    pub(crate) seen: Vec<SentRecord>,
    /// Applications of the right node whose reservation was confirmed.
    pub(crate) confirmed: BTreeSet<u64>,
    /// Applications of the left node that have got RESV_EVENT.
    pub(crate) reserved: BTreeSet<u64>,
    /// Number of times that a node has lost a neighbour.
    pub(crate) lost: usize,
    /// Whether several messages to one neighbour are sent in Bundles.
    pub(crate) bundles: bool,
    /// Pending effects of each node.
    effects: [Effects<Event>; 3],
    under_way: BTreeMap<(Time, u64), InTransit>,
    entered: u64,
}

impl Chain {
    pub(crate) fn new(config: Config) -> Chain {
        let mut left = Node::new(config.clone(), 1, &[(ETH2, "10.0.1.1")]);
        left.host.add_route("10.0.1.0/24", ETH2, None);
        left.host.add_route("10.0.2.0/24", ETH2, Some("10.0.1.2"));
        let mut right = Node::new(config.clone(), 3, &[(ETH1, "10.0.2.2")]);
        right.host.add_route("10.0.2.0/24", ETH1, None);
        right.host.add_route("10.0.1.0/24", ETH1, Some("10.0.2.1"));
        Chain {
            nodes: [left, Chain::middle(config, 2), right],
            now: Time::from_secs(1_000),
            fate: Box::new(|_| Fate::Arrives),
            seen: Vec::new(),
            confirmed: BTreeSet::new(),
            reserved: BTreeSet::new(),
            lost: 0,
            bundles: true,
            effects: std::array::from_fn(|_| Effects::new()),
            under_way: BTreeMap::new(),
            entered: 0,
        }
    }

    fn middle(config: Config, seed: u64) -> Node {
        let mut middle = Node::new(config, seed, &[(ETH1, "10.0.1.2"), (ETH2, "10.0.2.1")]);
        middle.host.add_route("10.0.1.0/24", ETH1, None);
        middle.host.add_route("10.0.2.0/24", ETH2, None);
        middle
    }

    /// Replaces the router by a new one without state.
    pub(crate) fn restart_middle(&mut self, seed: u64) {
        self.nodes[MIDDLE] = Chain::middle(self.nodes[MIDDLE].config.clone(), seed);
    }

    /// Random losses, duplicates and delays, each with this probability in percent.
    pub(crate) fn set_random_faults(&mut self, seed: u64, percent: u64) {
        let mut dice: Stream = RandomStreams::new(seed).stream("fate");
        self.fate = Box::new(move |_| match dice.next_u64() % 100 {
            n if n < percent => Fate::IsLost,
            n if n < percent * 2 => Fate::ArrivesTwice,
            n if n < percent * 3 => Fate::IsLate,
            _ => Fate::Arrives,
        });
    }

    /// Opens session `number`: the right waits for it, and the left starts to send.
    pub(crate) fn open(&mut self, number: u16) {
        self.open_together([number]);
    }

    /// Opens several sessions at once.
    pub(crate) fn open_together(&mut self, numbers: impl IntoIterator<Item = u16>) {
        for number in numbers {
            let application = Application(number.into());
            let open =
                || Input::Command(Command::Session { application, session: session(number) });
            self.engine_handles(RIGHT, open());
            self.engine_handles(LEFT, open());
            let (template, tspec) = (template(number), tspec(1));
            let send = Command::Sender { application, template, tspec, ttl: 63 };
            self.engine_handles(LEFT, Input::Command(send));
        }
        self.execute_effects(RIGHT);
        self.execute_effects(LEFT);
    }

    /// Closes session `number` at one end.
    pub(crate) fn close(&mut self, node: usize, number: u16) {
        self.close_together(node, [number]);
    }

    /// Closes several sessions at one end at once.
    pub(crate) fn close_together(&mut self, node: usize, numbers: impl IntoIterator<Item = u16>) {
        for number in numbers {
            let release = Command::Release { application: Application(number.into()) };
            self.engine_handles(node, Input::Command(release));
            if node == LEFT {
                // The end that closes gets no RESV_EVENT about it.
                self.reserved.remove(&number.into());
            }
        }
        self.execute_effects(node);
    }

    /// Tells a node of a change of its host.
    pub(crate) fn host(&mut self, at: usize, event: HostEvent) {
        self.handle(at, Input::Host(event));
    }

    /// Advances the time.
    pub(crate) fn pass(&mut self, duration: Duration) {
        let end = self.now + duration;
        loop {
            let timers = self.nodes.iter().enumerate().filter_map(|(node, it)| {
                it.engine.next_deadline().map(|(at, _)| (at.max(self.now), node))
            });
            let timer = timers.min();
            let arrival = self.under_way.keys().next().map(|&(at, _)| at);
            match (timer, arrival) {
                (Some((at, node)), _) if at <= end && arrival.is_none_or(|other| at < other) => {
                    self.now = at;
                    self.handle(node, Input::Expire);
                }
                (_, Some(at)) if at <= end => {
                    self.now = self.now.max(at);
                    self.deliver();
                }
                _ => break,
            }
        }
        self.now = end;
    }

    /// Delivers all messages that are due; the resulting messages of a node are sent together.
    fn deliver(&mut self) {
        while let Some(arrival) = self.under_way.first_entry()
            && arrival.key().0 <= self.now
        {
            let (node, arrival) = arrival.remove();
            self.engine_handles(node, Input::Datagram(arrival.datagram()));
        }
        for node in [LEFT, MIDDLE, RIGHT] {
            self.execute_effects(node);
        }
    }

    fn handle(&mut self, at: usize, input: Input<'_, Command>) {
        self.engine_handles(at, input);
        self.execute_effects(at);
    }

    fn engine_handles(&mut self, at: usize, input: Input<'_, Command>) {
        let node = &mut self.nodes[at];
        let context = &mut node.host.context();
        node.engine.handle(self.now, input, context, &mut self.effects[at]);
    }

    /// Executes the effects of a node, and their consequences.
    fn execute_effects(&mut self, at: usize) {
        while !self.effects[at].is_empty() {
            let mut out = std::mem::take(&mut self.effects[at]);
            let node = &mut self.nodes[at];
            if self.bundles {
                node.engine.bundle(&node.host.interfaces, &mut out);
            }
            for effect in out.iter() {
                match effect {
                    Effect::Send(how, range) => self.transmit(at, *how, out.octets(range)),
                    Effect::Notify(event) => self.record_event(at, event),
                    _ => {}
                }
            }
        }
    }

    fn record_event(&mut self, at: usize, event: &Event) {
        match event {
            Event::Path { application, template, .. } if at == RIGHT => {
                let request =
                    ReserveRequest::FixedFilter { filter: *template, flowspec: flowspec(1) };
                let application = *application;
                let reserve = Command::Reserve { application, request, confirm: true };
                self.engine_handles(RIGHT, Input::Command(reserve));
            }
            Event::Confirmed { application, .. } => {
                self.confirmed.insert(application.0);
            }
            Event::Resv { application, .. } => {
                self.reserved.insert(application.0);
            }
            Event::NeighborLost { .. } => self.lost += 1,
            Event::ResvGone { application, .. } => {
                self.reserved.remove(&application.0);
            }
            _ => {}
        }
    }

    fn transmit(&mut self, from: usize, how: Outgoing, octets: &[u8]) {
        let message = Message::parse(octets).expect("what we send can be read");
        let sight = SentRecord { from, at: self.now, kind: message.body.message_type() };
        self.seen.push(sight);
        if let Body::Bundle(bundle) = message.body {
            assert!(octets.len() <= 1_480, "a packet of the link holds it");
            assert!(bundle.iter().count() > 1, "no need for one");
            self.seen.extend(bundle.iter().map(|octets| {
                let message = Message::parse(octets).expect("what we send can be read");
                SentRecord { kind: message.body.message_type(), ..sight }
            }));
        }
        let hop = || self.nodes[from].host.routes.lookup(how.destination).expect("a route");
        let interface = how.interface.unwrap_or_else(|| hop().interface);
        let (node, arriving) = match (from, interface) {
            (LEFT, _) => (MIDDLE, ETH1),
            (MIDDLE, ETH1) => (LEFT, ETH2),
            (MIDDLE, _) => (RIGHT, ETH1),
            _ => (MIDDLE, ETH2),
        };
        let delays: &[u32] = match (self.fate)(sight) {
            Fate::Arrives => &[1],
            Fate::IsLost => &[],
            Fate::ArrivesTwice => &[1, 2],
            Fate::IsLate => &[25],
        };
        for &times in delays {
            let key = (self.now + DELAY * times, self.entered);
            self.entered += 1;
            self.under_way.insert(key, (node, Arrival::of(arriving, how, octets)));
        }
    }

    /// Senders and reservations at each node.
    pub(crate) fn population(&self) -> [(usize, usize); 3] {
        self.nodes.each_ref().map(|node| {
            let (_, senders, reservations) = node.engine.population();
            (senders, reservations)
        })
    }

    /// Number of messages of a type sent since `since`.
    pub(crate) fn count(&self, kind: MessageType, since: Time) -> usize {
        self.seen.iter().filter(|sight| sight.at >= since && sight.kind == kind).count()
    }
}

pub(crate) fn session(number: u16) -> Session {
    Session { destination: ip("10.0.2.2"), protocol: 17, flags: 0, port: number }
}

pub(crate) fn template(number: u16) -> FilterSpec {
    FilterSpec { source: ip("10.0.1.1"), selector: SourceSelector::Port(number) }
}
