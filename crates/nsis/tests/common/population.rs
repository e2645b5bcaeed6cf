//! A router between two neighbors, with many sessions: for benchmarks and memory tests.
#![allow(dead_code, unreachable_pub)]

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use earmark_core::random::RandomStreams;
use earmark_core::{Engine, Input, InterfaceId, Outgoing, Rate, Time};
use earmark_nsis::gist::Installation;
use earmark_nsis::nslp::{
    Attributes, HandlerContext, MessageHandle, NetworkNotification, Nslp, Peering, Received,
    SendFailure, SendMessage,
};
use earmark_nsis::{Command, Config, Nsis};
pub use earmark_testkit::bench::Arrival;
use earmark_testkit::bench::Bench;
use earmark_testkit::messages::gist::udp_flow;
use earmark_wire::gist::{Mri, SessionId};

const NSLPID: u16 = 32_767;

/// What the application of a node does with received messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    /// Nothing.
    Sink,
    /// Forwards them.
    Relay,
}

#[derive(Debug)]
struct Application {
    role: Rc<Cell<Role>>,
    /// Next session to be sent.
    next: Rc<Cell<Option<u32>>>,
}

impl Nslp for Application {
    fn id(&self) -> u16 {
        NSLPID
    }

    fn may_peer(
        &mut self,
        _: &mut HandlerContext<'_, '_>,
        _: &Received<'_>,
        _: &mut Vec<u8>,
    ) -> Peering {
        Peering::Accept
    }

    fn receive(&mut self, cx: &mut HandlerContext<'_, '_>, message: &Received<'_>) {
        if self.role.get() == Role::Relay {
            let on = send(message.session, message.mri);
            cx.send(on, message.data.len()).copy_from_slice(message.data);
        }
    }

    fn status(&mut self, _: &mut HandlerContext<'_, '_>, _: MessageHandle, _: SendFailure) {}

    fn notify(&mut self, _: &mut HandlerContext<'_, '_>, _: &NetworkNotification) {}

    fn expire(&mut self, cx: &mut HandlerContext<'_, '_>) {
        if let Some(number) = self.next.take() {
            cx.send(send(session(number), mri(number)), DATA.len()).copy_from_slice(DATA);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        let next = self.next.get();
        next.map(|_| Time::ZERO)
    }
}

/// Data with the length of a small QoS NSLP message.
const DATA: &[u8] = &[0xa5; 64];

fn send(session: SessionId, mri: Mri) -> SendMessage {
    SendMessage {
        handle: None,
        session,
        mri,
        to: None,
        attributes: Attributes::default(),
        timeout: Duration::from_secs(10),
        hops: None,
    }
}

fn session(number: u32) -> SessionId {
    // Distributed like random numbers.
    let word = u64::from(number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    SessionId((u128::from(word) << 64 | u128::from(!word)).to_be_bytes())
}

/// Returns the flow of a session, each with its own destination.
fn mri(number: u32) -> Mri {
    let destination = Ipv4Addr::from_bits(0x0b00_0000 + number);
    Mri::PathCoupled(udp_flow((Ipv4Addr::new(10, 0, 0, 9), 5_000), (destination, 6_000)))
}

struct Node {
    bench: Bench<Nsis>,
    role: Rc<Cell<Role>>,
    next: Rc<Cell<Option<u32>>>,
}

impl Node {
    fn new(seed: u64, role: Role, config: Config) -> Node {
        let (role, next) = (Rc::new(Cell::new(role)), Rc::new(Cell::new(None)));
        let mut engine = Nsis::new(config, &RandomStreams::new(seed));
        engine.add(Box::new(Application { role: role.clone(), next: next.clone() }));
        Node { bench: Bench::new(engine, Time::ZERO), role, next }
    }

    fn link(&mut self, id: u32, address: &str) {
        let (bandwidth, reservable) = (Rate::from_mbps(1_000), Rate::from_mbps(800));
        self.bench.set_link(InterfaceId(id), &[address], bandwidth, reservable);
    }

    fn route(&mut self, prefix: &str, interface: u32) {
        self.bench.add_route(prefix, InterfaceId(interface), None);
    }

    fn handle(&mut self, now: Time, input: Input<'_, Command>) {
        self.bench.forget_effects();
        self.bench.now = now;
        self.bench.give(input);
    }

    fn arrive(&mut self, now: Time, arrival: &Arrival) {
        self.handle(now, Input::Datagram(arrival.datagram()));
    }

    /// Returns the sent messages as they arrive at the other end of the link.
    fn sent(&self, there: u32) -> Vec<Arrival> {
        let arrival =
            |(how, octets): (Outgoing, &[u8])| Arrival::of(InterfaceId(there), how, octets);
        self.bench.sent().map(arrival).collect()
    }
}

/// The router, with the node `before` and the node `behind` it.
pub struct Population {
    before: Node,
    router: Node,
    behind: Node,
    pub now: Time,
    /// Octets that the router has allocated on the heap.
    pub heap: Option<fn() -> usize>,
    pub octets: isize,
}

impl Population {
    pub fn empty() -> Population {
        Population::with(Installation::Delayed)
    }

    fn with(installation: Installation) -> Population {
        let mut config = Config::default();
        config.gist.installation = installation;
        config.gist.validity = Duration::from_secs(180);
        config.gist.inactivity = Duration::from_secs(10_000);
        // All sessions are set up at once.
        let limits = &mut config.gist.limits;
        limits.datagrams_per_second = u32::MAX;
        limits.queries_per_second = u32::MAX;
        limits.queries_per_second_of_a_peer = u32::MAX;
        let node = |seed, role| Node::new(seed, role, config.clone());
        let mut population = Population {
            before: node(1, Role::Sink),
            router: node(2, Role::Relay),
            behind: node(3, Role::Sink),
            now: Time::from_secs(1),
            heap: None,
            octets: 0,
        };
        population.before.link(1, "10.0.0.9");
        population.before.route("0.0.0.0/0", 1);
        population.router.link(1, "10.0.0.1");
        population.router.link(2, "10.0.1.1");
        population.router.route("10.0.0.0/24", 1);
        population.router.route("10.0.1.0/24", 2);
        population.router.route("11.0.0.0/8", 2);
        population.behind.link(1, "10.0.1.2");
        population.behind.route("0.0.0.0/0", 1);
        population.behind.route("11.0.0.0/8", 1);
        population
    }

    /// Creates a router with this number of sessions.
    pub fn new(sessions: u32) -> Population {
        let mut population = Population::empty();
        (0..sessions).for_each(|number| population.set_up(number));
        population
    }

    /// Sets up a session from one neighbor to the other.
    pub fn set_up(&mut self, number: u32) {
        let query = self.query(number);
        self.exchange(&query);
    }

    /// Returns the Query that starts or refreshes a session.
    pub fn query(&mut self, number: u32) -> Arrival {
        self.before.next.set(Some(number));
        self.before.handle(self.now, Input::Expire);
        self.before.sent(1).pop().expect("a message")
    }

    /// Returns the Queries that refresh existing sessions, up to 256 of them, in the order of their deadlines.
    pub fn refreshes(&mut self) -> Vec<Arrival> {
        let due = self.now + Duration::from_secs(180);
        self.before.handle(due, Input::Expire);
        self.before.sent(1)
    }

    /// Returns Data of an existing session.
    pub fn data(&mut self, number: u32) -> Arrival {
        self.query(number)
    }

    /// Delivers messages until none is sent.
    fn exchange(&mut self, first: &Arrival) {
        self.handle(first);
        for _ in 0..8 {
            let (mut left, mut right) = (Vec::new(), Vec::new());
            for sent in self.router.sent(1) {
                let towards = u32::from_be_bytes(match sent.destination {
                    IpAddr::V4(address) => address.octets(),
                    IpAddr::V6(_) => [0; 4],
                });
                (if towards >> 8 == 0x0a_0000 { &mut left } else { &mut right }).push(sent);
            }
            let mut back = Vec::new();
            for sent in left {
                self.before.arrive(self.now, &sent);
                back.extend(self.before.sent(1));
            }
            for sent in right {
                self.behind.arrive(self.now, &sent);
                back.extend(self.behind.sent(2));
            }
            if back.is_empty() {
                return;
            }
            for arrival in back {
                self.handle(&arrival);
            }
        }
    }

    /// Passes a message to the router; returns the number of effects.
    pub fn handle(&mut self, arrival: &Arrival) -> usize {
        let before = self.heap.map_or(0, |heap| heap());
        self.router.arrive(self.now, arrival);
        let after = self.heap.map_or(0, |heap| heap());
        self.octets += after as isize - before as isize;
        self.router.bench.out.len()
    }

    /// Returns the Confirm of a session whose Query was answered.
    pub fn confirm(&mut self, number: u32) -> Arrival {
        let query = self.query(number);
        self.handle(&query);
        let response = self.router.sent(1).pop().expect("a Response");
        self.before.arrive(self.now, &response);
        self.before.sent(1).pop().expect("a Confirm")
    }

    /// Returns the Response to a Query of the router.
    pub fn response(&mut self, number: u32) -> Arrival {
        let confirm = self.confirm(number);
        self.handle(&confirm);
        let query = self.router.sent(1).pop().expect("a Query");
        self.behind.arrive(self.now, &query);
        self.behind.sent(2).pop().expect("a Response")
    }

    /// Makes the application of the router keep received messages.
    pub fn sink(&mut self) {
        self.router.role.set(Role::Sink);
    }

    /// Drops the effects of the setup, so that they do not count for the measured message.
    pub fn forget_effects(&mut self) {
        self.router.bench.forget_effects();
    }

    pub fn routing_states(&self) -> usize {
        self.router.bench.engine.gist().routing_state_count()
    }

    pub fn engine(&self) -> &Nsis {
        &self.router.bench.engine
    }

    /// Expires all timers of the router that are due at a time.
    pub fn expire(&mut self, now: Time) -> usize {
        self.now = now;
        let mut sent = 0;
        while self.router.bench.engine.next_deadline().is_some_and(|(at, _)| at <= now) {
            self.router.handle(now, Input::Expire);
            sent += self.router.sent(1).len();
        }
        sent
    }
}
