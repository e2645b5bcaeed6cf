//! The same messages to a node whose kernel does what it can, and to one whose daemon does everything: what they answer, what
//! they have reserved, what is left of each link and what they count is the same, however the messages follow each other.
//!
//! Both are the daemon's own driver over the real engines; one has the real program of the kernel before it, run by the
//! kernel's test runner as if its packets came through the loopback interface of a namespace with two more, one a
//! direction. Time stands still, for the kernel's cannot be moved.

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, Ipv4Addr};

use earmark::driver::{Arrival, Driver, Kernel, SendFailure, TrafficControlFailure};
use earmark::short_cut::{self, ShortCut};
use earmark_boomerang as boomerang;
use earmark_core::admission::{ClaimId, LinkStatus};
use earmark_core::{
    Datagram, Flow, Hop, Installation, Interface, InterfaceId, Outgoing, Prefix, Rate, Route, Time,
};
use earmark_linux::netns::Namespace;
use earmark_linux::{SignallingSocket, link};
use earmark_node::{HostUpdate, Input, NodeConfig, TrafficRow};
use earmark_wire::boomerang::{Flags, Keys, Options, Qos, Rates, Reservation, Shape, Vector};
use earmark_wire::icmp::{self, Ends, HEADER, Kind};
use earmark_wire::ipv4;
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

use crate::host::{Outcome, unique};

const INITIATORS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 77, 1, 1), Ipv4Addr::new(10, 77, 1, 3)];
const FAR_END: Ipv4Addr = Ipv4Addr::new(10, 77, 2, 1);
const LONGEST_INTERVAL: u8 = 30;
/// What can be reserved on each link, bits per second.
const CAPACITY: u64 = 10;
const FLOWS: u16 = 6;
const NOW: Time = Time::from_secs(1_000);

/// What happens.
#[derive(Clone, Copy, Debug)]
enum Step {
    Message(Message),
    /// The daemon looks what there is.
    Look,
    /// Somebody asks for a listing.
    Listing,
    RoutesChange,
    /// Somebody else takes so much of a link, or gives it back.
    Others(usize, Option<u64>),
}

#[derive(Clone, Copy, Debug)]
struct Message {
    is_reply: bool,
    initiator: usize,
    flow: u16,
    rates: Rates,
    interval: u8,
    key: u64,
    is_nack: bool,
    /// What else it is.
    kind: Form,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Plain,
    /// From any source port.
    Wide,
    /// With a list of one more pair.
    List,
    /// For other code points than zero.
    OddTos,
    /// Its checksum is wrong.
    Broken,
}

impl Message {
    fn ends(&self) -> (Ipv4Addr, Ipv4Addr) {
        match (INITIATORS[self.initiator], self.is_reply) {
            (initiator, false) => (initiator, FAR_END),
            (initiator, true) => (FAR_END, initiator),
        }
    }

    /// The ICMP message.
    fn octets(&self) -> Vec<u8> {
        let list = [self.rates, Rates { forward: 1, reverse: 1 }];
        let is_wide = self.kind == Form::Wide;
        let reservation = Reservation {
            transaction_id: 7,
            flags: Flags(u16::from(self.is_nack)),
            refresh_interval: self.interval,
            key: self.key,
            classifier: Keys {
                source: INITIATORS[0].into(),
                destination: FAR_END.into(),
                source_port: if is_wide { 0 } else { self.flow },
                destination_port: 5_000 + self.flow,
                protocol: 17,
                tos: if self.kind == Form::OddTos { 9 } else { 0 },
                flags: 0,
            },
            mask: Shape {
                source: 32,
                destination: 32,
                source_port: !is_wide,
                destination_port: true,
                protocol: true,
                tos: false,
            },
            qos: match self.kind {
                Form::List => Qos::Downgrade { policy: 0, vector: Vector::Items(&list) },
                _ => Qos::Bitrate(self.rates),
            },
            options: Options::Items(&[]),
        };
        let mut octets = vec![0; HEADER + reservation.buffer_len()];
        reservation.emit(&mut octets[HEADER..]).expect("it fits");
        let (source, destination) = self.ends();
        let ends = Ends::of(source.into(), destination.into()).expect("of one family");
        let kind = if self.is_reply { Kind::Reply } else { Kind::Request };
        icmp::seal(&mut octets, ends, kind, 0x1234, 1).expect("it fits");
        if self.kind == Form::Broken {
            octets[2] ^= 1;
        }
        octets
    }
}

/// An IPv4 packet.
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

/// What left: from where, where to, its TTL and the ICMP message.
type Sent = (IpAddr, IpAddr, u8, Vec<u8>);

/// What is behind the driver: nothing but notes, and of one of them the kernel's program.
#[derive(Default)]
struct Paper {
    waiting: VecDeque<(Ipv4Addr, Ipv4Addr, Vec<u8>)>,
    sent: Vec<Sent>,
    installed: BTreeMap<ClaimId, (InterfaceId, Flow, Rate)>,
    kernel: Option<(SignallingSocket, ShortCut)>,
    /// How many messages the kernel left to the daemon, and of how many it left word.
    taken: u32,
    settled: u32,
}

impl Kernel for Paper {
    fn receive(&mut self, each: &mut dyn FnMut(Arrival<'_>)) -> io::Result<usize> {
        if let Some((socket, short_cut)) = &mut self.kernel {
            return socket.receive(|message| {
                each(match message.settled {
                    Some(done) => {
                        self.settled += 1;
                        Arrival::Settled(short_cut.settled(&message.datagram, done))
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

    fn offload(&mut self, now: Time, event: &boomerang::Event) -> Option<boomerang::Seen> {
        let (socket, short_cut) = self.kernel.as_mut()?;
        short_cut.carry_out(socket.fast_path_mut()?, now, event)
    }

    fn suspend_refreshes(&mut self) {
        if let Some((socket, short_cut)) = &mut self.kernel {
            short_cut.suspend(socket.fast_path().expect("BPF"));
        }
    }

    fn take_back(&mut self) -> Vec<(InterfaceId, Rate)> {
        let Some((socket, short_cut)) = &mut self.kernel else { return Vec::new() };
        short_cut.take_back(socket.fast_path_mut().expect("BPF"))
    }

    fn lend(
        &mut self,
        now: Time,
        link: &dyn Fn(InterfaceId) -> Option<LinkStatus>,
    ) -> Vec<(InterfaceId, Rate)> {
        let Some((socket, short_cut)) = &mut self.kernel else { return Vec::new() };
        short_cut.lend(socket.fast_path_mut().expect("BPF"), now, link)
    }

    fn has_copies(&self) -> bool {
        self.kernel.as_ref().is_some_and(|(socket, _)| socket.has_copies())
    }

    fn passed(&mut self) -> Option<boomerang::Command> {
        let (socket, short_cut) = self.kernel.as_mut()?;
        short_cut.passed(socket.fast_path()?)
    }

    fn seen(&self, now: Time, selector: &boomerang::Selector) -> Option<boomerang::Seen> {
        let (socket, _) = self.kernel.as_ref()?;
        short_cut::seen(socket.fast_path()?, now, selector).expect("an answer")
    }

    fn send<'a>(
        &mut self,
        messages: &mut dyn Iterator<Item = (&'a Outgoing, &'a [u8])>,
        _failed: &mut dyn FnMut(&Outgoing, SendFailure),
    ) {
        let sent = messages.map(|(how, m)| (how.source, how.destination, how.ttl, m.to_vec()));
        self.sent.extend(sent);
    }

    fn install(&mut self, installation: &Installation) -> Result<(), TrafficControlFailure> {
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

/// One of the nodes.
struct Router {
    driver: Driver<Paper>,
    links: [InterfaceId; 2],
}

/// Whose session it is, what it has in both directions, and whether it is locked.
type Row = (boomerang::Selector, IpAddr, [Option<(InterfaceId, Rate)>; 2], bool);

/// What can be seen of a node.
#[derive(Debug, PartialEq)]
struct State {
    sessions: Vec<Row>,
    links: Vec<(InterfaceId, LinkStatus)>,
    traffic_control: Vec<(InterfaceId, Flow, Rate)>,
    counters: boomerang::Counters,
}

impl Router {
    fn new(links: [InterfaceId; 2], socket: Option<SignallingSocket>) -> Router {
        let mut short_cut = ShortCut::default();
        if let Some(socket) = &socket {
            let path = socket.fast_path().expect("BPF");
            short_cut.set_part(path, 1.0, LONGEST_INTERVAL).expect("set");
        }
        let config = NodeConfig {
            boomerang: boomerang::Config {
                max_refresh_interval: LONGEST_INTERVAL,
                offload: socket.is_some(),
                ..boomerang::Config::default()
            },
            ..NodeConfig::default()
        };
        let kernel = socket.map(|socket| (socket, short_cut));
        let paper = Paper { kernel, ..Paper::default() };
        let mut router = Router { driver: Driver::new(config, paper, None), links };
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
                latency_us: 0,
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

    /// A message comes by; gives what goes on.
    fn treat(&mut self, message: &Message) -> Vec<Sent> {
        let (ends, octets) = (message.ends(), message.octets());
        let paper = self.driver.kernel();
        match &paper.kernel {
            None => paper.waiting.push_back((ends.0, ends.1, octets)),
            Some((socket, _)) => {
                let path = socket.fast_path().expect("BPF");
                if path.time(&packet(ends, &octets), 1).is_ok() {
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
            Step::Listing => self.driver.catch_up(NOW, 3),
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
                    destination_open: 0,
                    source_open: 0,
                };
                self.host(match rate.map(Rate::from_bps) {
                    Some(rate) => HostUpdate::Adopted { interface, flow, rate },
                    None => HostUpdate::AdoptedGone { interface, flow },
                });
            }
        }
    }

    fn state(&mut self) -> State {
        self.driver.catch_up(NOW, usize::MAX);
        let engine = self.driver.node().boomerang_engine();
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

/// The router of the kernel, between 10.77.1.0/24 and 10.77.2.0/24: its interfaces outward and back.
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

/// Mostly a flow's own initiating node with its usual rates, or with none.
fn any_message() -> impl Strategy<Value = Message> {
    let flow_and_rates = (1..=FLOWS).prop_flat_map(|flow| {
        let usual = [u32::from(flow % 4) + 1, u32::from(flow / 2)];
        let rates = prop_oneof![9 => Just(usual), 4 => Just([0, 0]), 1 => [0..5_u32, 0..5_u32]];
        (Just(flow), rates)
    });
    let initiator = prop_oneof![30 => Just(0_usize), 1 => Just(1)];
    let interval = prop_oneof![30 => Just(30_u8), 1 => Just(20), 1 => Just(40)];
    let key = prop_oneof![40 => Just(1_u64), 1 => Just(6), 1 => Just(0)];
    let kind = prop_oneof![
        40 => Just(Form::Plain),
        1 => Just(Form::Wide),
        1 => Just(Form::List),
        1 => Just(Form::OddTos),
        1 => Just(Form::Broken),
    ];
    let flags = prop::bool::weighted(0.02);
    (any::<bool>(), initiator, flow_and_rates, interval, key, flags, kind).prop_map(
        |(is_reply, initiator, (flow, [forward, reverse]), interval, key, is_nack, kind)| Message {
            is_reply,
            initiator,
            flow,
            rates: Rates { forward, reverse },
            interval,
            key,
            is_nack,
            kind,
        },
    )
}

fn any_step() -> impl Strategy<Value = Step> {
    let part = prop::option::weighted(0.6, 1..CAPACITY);
    prop_oneof![
        60 => any_message().prop_map(Step::Message),
        4 => Just(Step::Look),
        1 => Just(Step::Listing),
        1 => Just(Step::RoutesChange),
        2 => (0..2_usize, part).prop_map(|(link, rate)| Step::Others(link, rate)),
    ]
}

pub(crate) fn agree() -> Outcome {
    let namespace = Namespace::create(&unique("paths"))?;
    let links = links(&namespace)?;
    // Programs run in the namespace of whoever runs them.
    namespace.run_in(|| compare(links))?;
    Ok(())
}

fn compare(links: [InterfaceId; 2]) {
    let [all, taken, settled] = [0_u32; 3].map(Cell::new);
    let config = ProptestConfig {
        failure_persistence: None,
        max_shrink_iters: 100,
        ..ProptestConfig::with_cases(24)
    };
    let steps = prop::collection::vec(any_step(), 1..250);
    let outcome = TestRunner::new(config).run(&steps, |steps| {
        let mut alone = Router::new(links, None);
        let socket = SignallingSocket::open().expect("the sockets");
        let mut helped = Router::new(links, Some(socket));
        for step in &steps {
            alone.step(step);
            helped.step(step);
            if let Step::Message(message) = step {
                prop_assert_eq!(alone.treat(message), helped.treat(message), "{:?}", message);
                all.set(all.get() + 1);
            } else if let Step::Listing = step {
                prop_assert_eq!(alone.state(), helped.state());
            }
        }
        prop_assert_eq!(alone.state(), helped.state());
        taken.set(taken.get() + helped.driver.kernel_ref().taken);
        settled.set(settled.get() + helped.driver.kernel_ref().settled);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let (all, taken, settled) = (all.get(), taken.get(), settled.get());
    let both = format!("{all} messages: {taken} the daemon's, {settled} the kernel left word of");
    assert!(taken > all / 10 && taken < all * 2 / 3 && settled > all / 20, "{both}");
    println!("{both}");
}
