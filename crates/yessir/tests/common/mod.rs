//! A node with one YESSIR engine and its driver, and messages for it.
#![allow(dead_code, unreachable_pub)]

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};

use earmark_core::admission::{ClaimId, RetryPolicy};
use earmark_core::random::RandomStreams;
use earmark_core::{
    Effect, Flow, Hop, HostEvent, Input, Installation, InterfaceId, Outgoing, Rate, Route, Time,
};
pub use earmark_testkit::bench::{Arrival, ip as address};
use earmark_testkit::bench::{Bench, prefix};
use earmark_token::Token;
use earmark_wire::intserv::{FlowSpec, TokenBucket};
use earmark_wire::rtcp::{
    self, Application as App, CNAME_LEN, Chunks, Goodbye, Packet, ReceiverReport, SenderInfo,
    SenderReport,
};
use earmark_wire::udp;
use earmark_wire::yessir::{
    Auth, Command as Wire, FailureNote, Flowspec, Generic, LinkInfo, Message, NAME, Report, Style,
    VERSION,
};
use earmark_yessir::auth::{Covered, Key};
use earmark_yessir::{Attachment, Command, Config, Event, SessionView, Stream, Yessir};

/// Upstream interface.
pub const UP: InterfaceId = InterfaceId(1);
pub const DOWN: InterfaceId = InterfaceId(2);
/// Alternative downstream interface.
pub const SIDE: InterfaceId = InterfaceId(3);

/// A sent message with its octets.
#[derive(Clone, Debug, PartialEq)]
pub struct Sent {
    pub how: Outgoing,
    pub octets: Vec<u8>,
}

impl Sent {
    /// Returns its report; checks the checksum.
    pub fn report(&self) -> Report<'_> {
        let packet = udp::Packet::parse(&self.octets).expect("UDP");
        let checksum = packet.verify(self.how.source, self.how.destination);
        assert!(matches!(checksum, udp::Checksum::Valid | udp::Checksum::Absent), "{checksum:?}");
        Report::parse(packet.payload).expect("a report")
    }

    pub fn message(&self) -> Message<'_> {
        self.report().message.expect("a message").0
    }

    pub fn notes(&self) -> Vec<FailureNote> {
        self.message().failures.iter().collect()
    }

    /// Returns it as it arrives at the next node.
    pub fn arrival(&self, interface: InterfaceId) -> Arrival {
        Arrival::of(interface, self.how, &self.octets)
    }
}

/// A node. `UP` leads to 10.0.0.0/8, `DOWN` to 10.9.0.0/16 (and fd09::/16), 10 Mbit/s each, of which 5 may be
/// reserved.
pub struct Node {
    bench: Bench<Yessir>,
    pub events: Vec<Event>,
    pub sent: Vec<Sent>,
    /// Installations in traffic control.
    pub installed: BTreeMap<ClaimId, Installation>,
    /// Flows added to installed classes.
    pub added: BTreeMap<Flow, ClaimId>,
}

impl Deref for Node {
    type Target = Bench<Yessir>;

    fn deref(&self) -> &Bench<Yessir> {
        &self.bench
    }
}

impl DerefMut for Node {
    fn deref_mut(&mut self) -> &mut Bench<Yessir> {
        &mut self.bench
    }
}

impl Node {
    pub fn new() -> Node {
        Node::with(Config::default())
    }

    pub fn with(config: Config) -> Node {
        Node::seeded(config, 1)
    }

    pub fn seeded(config: Config, seed: u64) -> Node {
        let engine = Yessir::new(config, &RandomStreams::new(seed));
        let mut node = Node {
            bench: Bench::new(engine, Time::from_secs(1)),
            events: Vec::new(),
            sent: Vec::new(),
            installed: BTreeMap::new(),
            added: BTreeMap::new(),
        };
        node.set_link(UP, &["10.0.0.1", "fd00::1"], 5);
        node.set_link(DOWN, &["10.0.9.1", "fd00:9::1"], 5);
        node.set_link(SIDE, &["10.0.8.1"], 5);
        for (prefix, interface) in
            [("10.0.0.0/8", UP), ("10.9.0.0/16", DOWN), ("fd00::/16", UP), ("fd09::/16", DOWN)]
        {
            node.set_route(prefix, interface, 10);
        }
        node
    }

    pub fn set_link(&mut self, id: InterfaceId, addresses: &[&str], reservable: u64) {
        let reservable = Rate::from_mbps(reservable);
        self.bench.set_link(id, addresses, Rate::from_mbps(10), reservable);
    }

    pub fn set_route(&mut self, to: &str, interface: InterfaceId, metric: u32) {
        let hop = Hop { interface, gateway: None, source: None };
        assert!(self.routes.insert(Route { prefix: prefix(to), metric, hop }));
    }

    pub fn set_retries(&mut self, threshold: u32) {
        self.ledger.set_retry_policy(RetryPolicy { threshold, ..RetryPolicy::default() });
    }

    /// Handles one input and its effects, as a driver does: released bandwidth goes to the next in the queue.
    pub fn handle(&mut self, input: Input<'_, Command>) {
        self.bench.forget_effects();
        self.give(input);
        while let Some((interface, owner)) = self.ledger.next_grantable() {
            self.give(Input::Host(HostEvent::Grantable { interface, owner }));
        }
        self.give_displaced();
        let out = std::mem::take(&mut self.bench.out);
        for effect in out.iter() {
            match effect {
                Effect::Send(how, range) => {
                    self.sent.push(Sent { how: *how, octets: out.octets(range).to_vec() });
                }
                Effect::Install(installation) => {
                    self.installed.insert(installation.claim, *installation);
                }
                Effect::Remove(claim, _) => {
                    assert!(self.installed.remove(claim).is_some(), "it was there");
                    self.added.retain(|_, of| of != claim);
                }
                Effect::AddFlow(claim, flow) => {
                    assert!(self.installed.contains_key(claim), "it is there");
                    assert_eq!(self.added.insert(*flow, *claim), None);
                }
                Effect::Notify(event) => self.events.push(event.clone()),
                other => panic!("not used: {other:?}"),
            }
        }
        for (claim, installation) in &self.installed {
            assert_eq!(self.ledger.demand(*claim), Some(installation.demand));
            assert_eq!(self.ledger.link_of(*claim), Some(installation.interface));
        }
        let held: u64 = self.ledger.links().map(|(_, link)| u64::from(link.claims)).sum();
        assert_eq!(held, self.installed.len() as u64, "ledger and traffic control agree");
    }

    pub fn arrive(&mut self, arrival: &Arrival) {
        self.handle(Input::Datagram(arrival.datagram()));
    }

    /// Handles a message and returns the one that is forwarded.
    pub fn pass(&mut self, arrival: &Arrival) -> Sent {
        let before = self.sent.len();
        self.arrive(arrival);
        assert_eq!(self.sent.len(), before + 1, "one goes on");
        self.sent.pop().expect("there is one")
    }

    pub fn command(&mut self, command: Command) {
        self.handle(Input::Command(command));
    }

    pub fn host(&mut self, event: HostEvent) {
        self.handle(Input::Host(event));
    }

    /// Advances time; timers fire when they are due.
    pub fn advance(&mut self, seconds: f64) {
        let end = Time::from_nanos(self.now.as_nanos() + (seconds * 1e9) as u64);
        while self.bench.advance(end) {
            self.handle(Input::Expire);
        }
    }

    /// Takes the events so far.
    pub fn take_events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    /// Returns the bandwidth held on a link, bits per second.
    pub fn held(&self, link: InterfaceId) -> u64 {
        self.held_on(link).as_bps()
    }

    pub fn session(&self, ask: &Ask) -> Option<SessionView> {
        self.engine.session(&ask.stream())
    }

    /// Returns the installed rate of a stream on one link.
    pub fn rate_of_on(&self, flow: &Flow, link: InterfaceId) -> Option<u64> {
        let mut all = self.installed.values();
        all.find(|installation| installation.flow == *flow && installation.interface == link)
            .map(|installation| installation.demand.rate.as_bps())
    }

    /// Returns the installed rate of a stream.
    pub fn rate_of(&self, flow: &Flow) -> Option<u64> {
        let mut all = self.installed.values().filter(|installation| installation.flow == *flow);
        let first = all.next().map(|installation| installation.demand.rate.as_bps());
        assert!(all.next().is_none(), "once");
        first
    }
}

/// Returns controlled load of so many Mbit/s, in packets of at most 1000 octets.
pub fn mbps(rate: f32) -> Flowspec {
    Flowspec::Intserv(FlowSpec::ControlledLoad(TokenBucket {
        rate: rate * 125_000.0,
        depth: 5_000.0,
        peak: f32::INFINITY,
        min_policed_unit: 64,
        max_packet_size: 1_000,
    }))
}

/// Returns the announcement of a stream of 1 Mbit/s from a node itself to port 5000 of a destination.
pub fn announcement(destination: IpAddr) -> Attachment {
    Attachment {
        stream: Stream {
            source: address("0.0.0.0"),
            destination,
            source_port: 4_000,
            destination_port: 5_000,
        },
        ssrc: None,
        cname: "sender@h1".into(),
        multiplexed: false,
        flowspec: mbps(1.0),
        style: Style::Individual,
        passive: false,
        interval: 10,
        ttl: 64,
        token: None,
    }
}

/// A request as it arrives; tests change its fields.
#[derive(Clone, Debug)]
pub struct Ask {
    pub source: IpAddr,
    pub destination: IpAddr,
    /// Ports of the data.
    pub ports: (u16, u16),
    pub ssrc: u32,
    pub generic: Generic,
    pub flowspec: Option<Flowspec>,
    pub link_info: Option<LinkInfo>,
    pub sent: SenderInfo,
    pub goodbye: bool,
    /// Whether the sender sends a receiver report, because it has sent no data of late.
    pub paused: bool,
    pub ttl: u8,
    /// Key and sequence number.
    pub sign: Option<(Key, u64)>,
    pub token: Option<Token>,
    /// Profile-specific extension of the report; with one, a message is not recognised as a refresh.
    pub extension: Vec<u8>,
}

impl Ask {
    /// Creates a request of sender `number` for 1 Mbit/s to a destination of its own.
    pub fn new(number: u16) -> Ask {
        let [high, low] = number.to_be_bytes();
        Ask {
            source: IpAddr::from([10, 1, high, low]),
            destination: IpAddr::from([10, 9, high, low]),
            ports: (4_000, 5_000),
            ssrc: 0x0100_0000 + u32::from(number),
            generic: Generic {
                command: Wire::Active,
                style: Style::Individual,
                interval: 30,
                reservation: 7,
                multiplexed: false,
            },
            flowspec: Some(mbps(1.0)),
            link_info: Some(LinkInfo::unknown(64)),
            sent: SenderInfo::default(),
            goodbye: false,
            paused: false,
            ttl: 64,
            sign: None,
            token: None,
            extension: Vec::new(),
        }
    }

    /// Creates a request of sender `number` for so many Mbit/s.
    pub fn rate(number: u16, rate: f32) -> Ask {
        Ask { flowspec: Some(mbps(rate)), ..Ask::new(number) }
    }

    pub fn release(&self) -> Ask {
        let generic = Generic { command: Wire::Release, ..self.generic };
        Ask { generic, ..self.clone() }
    }

    pub fn stream(&self) -> Stream {
        let (source_port, destination_port) = self.ports;
        let (source, destination) = (self.source, self.destination);
        Stream { source, destination, source_port, destination_port }
    }

    /// Returns the APP packet.
    pub fn app(&self) -> Vec<u8> {
        let auth = self.sign.as_ref().map(|(key, sequence)| Auth {
            key: key.id,
            sequence: *sequence,
            digest: [0; 16],
        });
        let mut message = Message {
            ssrc: self.ssrc,
            generic: self.generic,
            flowspec: self.flowspec,
            link_info: self.link_info,
            failures: Default::default(),
            auth,
            token: self.token.as_ref().map(Token::octets),
            others: &[],
        };
        let mut app = vec![0; message.buffer_len()];
        message.emit(&mut app).expect("it fits");
        if let (Some(auth), Some((key, sequence))) = (&mut message.auth, &self.sign) {
            let covered = Covered {
                stream: &self.stream(),
                ssrc: self.ssrc,
                sender: self.sent,
                goodbye: self.goodbye,
                data: &app[12..],
            };
            auth.digest = key.digest(&covered, *sequence);
            message.emit(&mut app).expect("it fits");
        }
        app
    }

    /// Returns the UDP packet; without `app` it is a report without YESSIR.
    pub fn packet(&self, app: Option<&[u8]>) -> Vec<u8> {
        let ssrc = self.ssrc;
        let extension = &self.extension[..];
        let report = match self.paused {
            true => Packet::ReceiverReport(ReceiverReport { ssrc, blocks: &[], extension }),
            false => {
                let sender = self.sent;
                Packet::SenderReport(SenderReport { ssrc, sender, blocks: &[], extension })
            }
        };
        let mut room = [0; CNAME_LEN];
        let chunks = Chunks::cname(ssrc, b"somebody@somewhere", &mut room).expect("short");
        let mut packets = vec![report, Packet::SourceDescription(chunks)];
        if let Some(app) = app {
            let data = &app[12..];
            packets.push(Packet::Application(App { subtype: VERSION, ssrc, name: NAME, data }));
        }
        let sources = [ssrc.to_be_bytes()];
        if self.goodbye {
            packets.push(Packet::Goodbye(Goodbye { sources: &sources, reason: None }));
        }
        let mut octets = vec![0; udp::HEADER + rtcp::buffer_len(&packets)];
        rtcp::emit(&packets, &mut octets[udp::HEADER..]).expect("it fits");
        let more = u16::from(!self.generic.multiplexed);
        let header = udp::Repr {
            source: self.source,
            destination: self.destination,
            source_port: self.ports.0 + more,
            destination_port: self.ports.1 + more,
        };
        header.emit(&mut octets).expect("it fits");
        octets
    }

    /// Returns the request as it arrives from upstream.
    pub fn arrival(&self) -> Arrival {
        self.with_octets(self.packet(Some(&self.app())))
    }

    /// Returns its report as it arrives, without YESSIR.
    pub fn plain(&self) -> Arrival {
        Arrival { router_alert: false, ..self.with_octets(self.packet(None)) }
    }

    pub fn with_octets(&self, octets: Vec<u8>) -> Arrival {
        Arrival {
            interface: UP,
            source: self.source,
            destination: self.destination,
            ttl: self.ttl,
            router_alert: true,
            octets,
        }
    }
}
