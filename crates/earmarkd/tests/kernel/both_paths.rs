//! Comparison of a node with offload to the kernel and a node whose daemon does everything: for any sequence of messages,
//! replies, reservations, free bandwidth of each link and counters are equal.
//!
//! Both use the daemon's own driver over the real engines. One has the real kernel program before it, run by the kernel's
//! test runner as if its packets came through the loopback interface of a namespace with two more, one for each direction.
//! Time stands still, because the kernel's time cannot be set.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;

use earmark_boomerang as boomerang;
use earmark_core::admission::{ClaimId, LinkStatus, Protocol};
use earmark_core::{
    Datagram, Flow, Hop, Installation, Interface, InterfaceId, Outgoing, Prefix, Rate, Route, Time,
    Trust,
};
use earmark_linux::netns::Namespace;
use earmark_linux::{SignallingSocket, link};
use earmark_node::{Command, EngineSlots, Event, HostUpdate, Input, Node, NodeConfig, TrafficRow};
use earmark_wire::{icmp, ipv4};
use earmarkd::driver::{Arrival, Driver, Kernel, SendFailure, TrafficControlFailure};
use earmarkd::protocol::KernelOffload;
use earmarkd::protocols::boomerang::offload::OffloadTable;
use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestCaseResult, TestRunner};

use self::steps::{Message, Step};
use crate::host::Outcome;

#[path = "both_paths/steps.rs"]
mod steps;

const FAR_END: Ipv4Addr = Ipv4Addr::new(10, 77, 2, 1);
const LONGEST_INTERVAL: u8 = 30;
/// Reservable rate of each link, bits per second.
const CAPACITY: u64 = 10;
const NOW: Time = Time::from_secs(1_000);
/// Default seed of the random sequences, fixed so that each run tries the same ones; `PROPTEST_RNG_SEED` overrides it.
const SEED: u64 = 14;
/// Default number of random sequences; `PROPTEST_CASES` overrides it.
const CASES: u32 = 24;

/// Builds an IPv4 packet.
fn packet((source, destination): (Ipv4Addr, Ipv4Addr), octets: &[u8]) -> Vec<u8> {
    let header = ipv4::Repr {
        tos: 0,
        identification: 0,
        dont_fragment: false,
        ttl: 64,
        protocol: icmp::PROTOCOL_V4,
        source,
        destination,
        router_alert: None,
        payload_len: octets.len(),
    };
    let mut packet = vec![0; header.header_len()];
    header.emit(&mut packet).expect("fits");
    packet.extend(octets);
    packet
}

/// A sent message: source, destination, TTL and ICMP message.
type Sent = (IpAddr, IpAddr, u8, Vec<u8>);

/// The system below the driver, which only records; for one of the nodes it includes the kernel's program.
#[derive(Default)]
struct Paper {
    waiting: VecDeque<(Ipv4Addr, Ipv4Addr, Vec<u8>)>,
    sent: Vec<Sent>,
    installed: BTreeMap<ClaimId, (InterfaceId, Flow, Rate)>,
    kernel: Option<(SignallingSocket, OffloadTable)>,
    /// Number of messages that the kernel left to the daemon, and of those that it reported.
    taken: u32,
    settled: u32,
}

impl Kernel for Paper {
    fn receive(&mut self, each: &mut dyn FnMut(Arrival<'_>)) -> io::Result<usize> {
        if let Some((socket, offload)) = &mut self.kernel {
            return socket.receive(|message| {
                each(match message.share_change {
                    Some(done) => {
                        self.settled += 1;
                        Arrival::Settled(offload.settled(&message.datagram, done))
                    }
                    None => {
                        self.taken += 1;
                        Arrival::Message(message.protocol, message.datagram)
                    }
                });
            });
        }
        let Some((source, destination, payload)) = self.waiting.pop_front() else { return Ok(0) };
        let datagram = Datagram {
            interface: InterfaceId(1),
            source: source.into(),
            destination: destination.into(),
            ttl: 64,
            router_alert: false,
            encapsulated: false,
            payload: &payload,
        };
        each(Arrival::Message(icmp::PROTOCOL_V4, datagram));
        Ok(1)
    }

    fn offload(&mut self, now: Time, event: &Event) -> Option<Command> {
        let (socket, offload) = self.kernel.as_mut()?;
        offload.carry_out(socket.offload_mut()?, now, event)
    }

    fn suspend_refreshes(&mut self) {
        if let Some((socket, offload)) = &mut self.kernel {
            offload.suspend(socket.offload().expect("BPF"));
        }
    }

    fn take_back(&mut self) -> Vec<(InterfaceId, Rate)> {
        let Some((socket, offload)) = &mut self.kernel else { return Vec::new() };
        offload.take_back(socket.offload_mut().expect("BPF"))
    }

    fn delegate(
        &mut self,
        now: Time,
        link: &dyn Fn(InterfaceId) -> Option<LinkStatus>,
    ) -> Vec<(InterfaceId, Rate)> {
        let Some((socket, offload)) = &mut self.kernel else { return Vec::new() };
        offload.delegate(socket.offload_mut().expect("BPF"), now, link)
    }

    fn has_copies(&self) -> bool {
        self.kernel.as_ref().is_some_and(|(socket, _)| socket.has_copies())
    }

    fn catch_up(&mut self, now: Time, node: &Node, slots: &EngineSlots) -> Vec<Command> {
        let Some((socket, offload)) = &mut self.kernel else { return Vec::new() };
        offload.catch_up(socket.offload().expect("BPF"), now, node, slots)
    }

    fn send<'a>(
        &mut self,
        messages: &mut dyn Iterator<Item = (&'a Outgoing, &'a [u8])>,
        _failed: &mut dyn FnMut(&Outgoing, SendFailure),
    ) {
        let sent = messages.map(|(how, m)| (how.source, how.destination, how.ttl, m.to_vec()));
        self.sent.extend(sent);
    }

    fn install(
        &mut self,
        _now: Time,
        _protocol: Option<Protocol>,
        installation: &Installation,
    ) -> Result<(), TrafficControlFailure> {
        let Installation { claim, interface, flow, demand } = *installation;
        self.installed.insert(claim, (interface, flow, demand.rate));
        Ok(())
    }

    fn add_flow(&mut self, _claim: ClaimId, _flow: Flow) -> Result<(), TrafficControlFailure> {
        Ok(())
    }

    fn remove_flow(&mut self, _claim: ClaimId, _flow: Flow) -> Result<(), TrafficControlFailure> {
        Ok(())
    }

    fn drop_adopted(
        &mut self,
        _interface: InterfaceId,
        _flow: Flow,
        _protocol: Option<Protocol>,
    ) -> Result<(), TrafficControlFailure> {
        Ok(())
    }

    fn remove(&mut self, claim: ClaimId) -> Result<(), TrafficControlFailure> {
        self.installed.remove(&claim).expect("it was there");
        Ok(())
    }

    fn traffic(&mut self, _claim: ClaimId) -> Option<TrafficRow> {
        None
    }

    fn join(&mut self, _group: IpAddr) {}

    fn leave(&mut self, _group: IpAddr) {}

    fn can_signal(&self, _destination: IpAddr) -> bool {
        true
    }

    fn counters(&self) -> Vec<(&'static str, &'static str, u64)> {
        Vec::new()
    }
}

/// A node under test.
struct Router {
    driver: Driver<Paper>,
    links: [InterfaceId; 2],
}

/// A session: selector, initiator, reserved rates in both directions, and whether it is locked.
type Row = (boomerang::Selector, IpAddr, [Option<(InterfaceId, Rate)>; 2], bool);

/// Observable state of a node.
#[derive(Debug, PartialEq)]
struct State {
    sessions: Vec<Row>,
    links: Vec<(InterfaceId, LinkStatus)>,
    traffic_control: Vec<(InterfaceId, Flow, Rate)>,
    counters: boomerang::Counters,
}

impl Router {
    fn new(links: [InterfaceId; 2], socket: Option<SignallingSocket>) -> Router {
        let mut offload = OffloadTable::default();
        if let Some(socket) = &socket {
            let path = socket.offload().expect("BPF");
            offload.set_part(path, 1.0, LONGEST_INTERVAL).expect("set");
        }
        let config = NodeConfig {
            boomerang: boomerang::Config {
                max_refresh_interval: LONGEST_INTERVAL,
                offload: socket.is_some(),
                ..boomerang::Config::default()
            },
            ..NodeConfig::default()
        };
        let kernel = socket.map(|socket| (socket, offload));
        let paper = Paper { kernel, ..Paper::default() };
        let mut router = Router { driver: Driver::new(config, paper, None), links };
        // The messages arrive through the loopback interface, on which nothing is reserved.
        router.host(HostUpdate::Interface(Interface {
            id: InterfaceId(1),
            name: "lo".to_owned(),
            addresses: Vec::new(),
            mtu: 1_500,
            up: true,
            bandwidth: Rate::ZERO,
            reservable: Rate::ZERO,
            largest: None,
            overhead: 0,
            latency_us: 0,
            trust: Trust::CORE,
        }));
        for (number, id) in links.into_iter().enumerate() {
            let address = IpAddr::from([10, 77, 2 - number as u8, 2]);
            router.host(HostUpdate::Interface(Interface {
                id,
                name: format!("eth{number}"),
                addresses: vec![address],
                mtu: 1_500,
                up: true,
                bandwidth: Rate::from_bps(2 * CAPACITY),
                reservable: Rate::from_bps(CAPACITY),
                largest: None,
                overhead: 0,
                latency_us: 0,
                trust: Trust::CORE,
            }));
            let hop = Hop { interface: id, gateway: None, source: Some(address) };
            let route = Route { prefix: Prefix::new(address, 24), metric: 0, hop };
            router.host(HostUpdate::Route(route));
        }
        router
    }

    fn host(&mut self, update: HostUpdate) {
        self.driver.handle(NOW, Input::Host(update));
    }

    /// Passes a message to the node. Returns the forwarded messages.
    fn treat(&mut self, message: &Message) -> Vec<Sent> {
        let (ends, octets) = (message.ends(), message.octets());
        let paper = self.driver.kernel();
        match &paper.kernel {
            None => paper.waiting.push_back((ends.0, ends.1, octets)),
            Some((socket, _)) => {
                let path = socket.offload().expect("BPF");
                if path.measure(&packet(ends, &octets), 1).is_ok() {
                    return vec![(ends.0.into(), ends.1.into(), 63, octets)];
                }
            }
        }
        while self.driver.receive(NOW).expect("received") > 0 {}
        std::mem::take(&mut self.driver.kernel().sent)
    }

    fn step(&mut self, step: &Step) {
        match *step {
            Step::Message(_) => {}
            Step::Look => self.driver.look(NOW).expect("looked"),
            Step::Listing => self.driver.catch_up(NOW, &slots(0..3)),
            Step::RoutesChange => {
                let hop = Hop { interface: self.links[0], gateway: None, source: None };
                let prefix = Prefix::new(IpAddr::from([10, 99, 0, 0]), 16);
                let route = Route { prefix, metric: 0, hop };
                self.host(HostUpdate::Route(route));
                self.host(HostUpdate::RouteGone(route));
            }
            Step::Others(link, rate) => {
                let interface = self.links[link];
                let flow = Flow {
                    destination: FAR_END.into(),
                    source: None,
                    protocol: 6,
                    destination_port: 1,
                    source_port: 0,
                    flow_label: 0,
                    spi: 0,
                    destination_open: 0,
                    source_open: 0,
                    dscp: 0,
                };
                self.host(match rate.map(Rate::from_bps) {
                    Some(rate) => HostUpdate::Adopted { interface, flow, rate, protocol: None },
                    None => HostUpdate::AdoptedGone { interface, flow },
                });
            }
        }
    }

    fn state(&mut self) -> State {
        self.driver.catch_up(NOW, &slots(0..u64::MAX));
        let engine = self
            .driver
            .node()
            .engine::<earmark_boomerang::Boomerang>()
            .expect("a node with Boomerang");
        let half = |half: boomerang::HalfView| (half.interface, half.rate);
        let session = |s: boomerang::SessionView| {
            (s.selector, s.initiator, [s.forward.map(half), s.reverse.map(half)], s.locked)
        };
        let mut sessions: Vec<_> = engine.sessions().map(session).collect();
        sessions.sort();
        let mut traffic_control: Vec<_> =
            self.driver.kernel_ref().installed.values().copied().collect();
        traffic_control.sort();
        State {
            sessions,
            links: self.driver.node().ledger().links().collect(),
            traffic_control,
            counters: engine.counters().clone(),
        }
    }
}

/// Creates the links of the router with the kernel's program, between 10.77.1.0/24 and 10.77.2.0/24: outward and back.
fn links(namespace: &Namespace) -> Result<[InterfaceId; 2], io::Error> {
    let mut links = [InterfaceId(0); 2];
    for (id, (name, address)) in links.iter_mut().zip([("out", "10.77.2.2"), ("back", "10.77.1.2")])
    {
        let other = format!("{name}-other");
        let pair = link::create_veth(namespace, name, namespace, &other);
        *id = pair.expect("a veth pair").0;
        let address = address.parse().expect("an address");
        link::add_address(namespace, name, address, 24).expect("added");
        for name in [name, &other] {
            link::set_up(namespace, name, true).expect("up");
        }
    }
    link::sysctl(namespace, "net.ipv4.ip_forward", "1")?;
    Ok(links)
}

/// Compares both nodes for random sequences. Others than the default ones are tried by
/// `PROPTEST_RNG_SEED=1 PROPTEST_CASES=2000 cargo test -p earmarkd --test kernel kernel_and_daemon_agree`.
pub(crate) fn agree() -> Outcome {
    between(compare)
}

/// Compares both nodes for sequences after which they once differed.
pub(crate) fn agree_where_they_did_not() -> Outcome {
    between(|links| {
        for (name, steps) in steps::found() {
            play(links, &steps, &Counts::default())
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    })
}

/// Runs a test in a namespace with the router's links. BPF programs run in the namespace of their caller.
fn between(test: impl FnOnce([InterfaceId; 2]) + Send) -> Outcome {
    let namespace = Namespace::unnamed()?;
    let links = links(&namespace)?;
    namespace.run_in(|| test(links))?;
    Ok(())
}

/// Number of all messages, of those that the kernel left to the daemon, and of those that it reported.
#[derive(Default)]
struct Counts {
    all: Cell<u32>,
    taken: Cell<u32>,
    settled: Cell<u32>,
}

fn compare(links: [InterfaceId; 2]) {
    let config = ProptestConfig::default();
    let config = ProptestConfig {
        failure_persistence: None,
        max_shrink_iters: 10_000,
        cases: if std::env::var_os("PROPTEST_CASES").is_some() { config.cases } else { CASES },
        rng_seed: match config.rng_seed {
            RngSeed::Random => RngSeed::Fixed(SEED),
            fixed @ RngSeed::Fixed(_) => fixed,
        },
        ..config
    };
    let counts = Counts::default();
    let sequences = prop::collection::vec(steps::any_step(), 1..250);
    let outcome = TestRunner::new(config).run(&sequences, |steps| play(links, &steps, &counts));
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let [all, taken, settled] = [&counts.all, &counts.taken, &counts.settled].map(Cell::get);
    let both = format!("{all} messages: {taken} the daemon's, {settled} the kernel left word of");
    // The first reply of each session is the daemon's, because it arrives through another interface than requests leave by.
    assert!(taken > all / 10 && taken < all * 9 / 10 && settled > all / 20, "{both}");
    println!("{both}");
}

/// Plays a sequence to both nodes and compares them.
fn play(links: [InterfaceId; 2], steps: &[Step], counts: &Counts) -> TestCaseResult {
    let mut alone = Router::new(links, None);
    let socket = SignallingSocket::open().expect("the sockets");
    let mut helped = Router::new(links, Some(socket));
    for step in steps {
        alone.step(step);
        helped.step(step);
        if let Step::Message(message) = step {
            prop_assert_eq!(alone.treat(message), helped.treat(message), "{:?}", message);
            counts.all.set(counts.all.get() + 1);
        } else if let Step::Listing = step {
            prop_assert_eq!(alone.state(), helped.state());
        }
    }
    prop_assert_eq!(alone.state(), helped.state());
    let helped = helped.driver.kernel_ref();
    counts.taken.set(counts.taken.get() + helped.taken);
    counts.settled.set(counts.settled.get() + helped.settled);
    Ok(())
}

/// Returns slots of Boomerang's sessions.
fn slots(slots: Range<u64>) -> EngineSlots {
    EngineSlots { engine: "boomerang", slots }
}
