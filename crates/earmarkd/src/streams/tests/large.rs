//! Two engines of NSIS whose associations are real connections: a message that is far larger than a packet is sent there and
//! back unchanged.
//!
//! Datagrams are passed from one engine to the other by the test. Data of associations pass through sockets and rustls.

use std::cell::RefCell;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::Duration;

use earmark_core::admission::Ledger;
use earmark_core::random::RandomStreams;
use earmark_core::{
    Context, Datagram, Effect, Effects, Engine, Hop, Input, Interface, InterfaceId, Interfaces,
    Outgoing, Rate, Route, RouteTable, Time, Transport, Trust,
};
use earmark_nsis::nslp::{
    Attributes, HandlerContext, MessageHandle, NetworkNotification, Nslp, Peering, Received,
    SendFailure, SendMessage,
};
use earmark_nsis::{Command, Config, Event, Nsis};
use earmark_wire::gist::{Direction, Mri, PathCoupled, SessionId};

use super::super::{Settings, Streams};
use super::secured::Authority;
use super::{PATIENCE, deaf, plain};

const NSLPID: u16 = 32_767;
const LINK: InterfaceId = InterfaceId(1);
const NEAR: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1));
const FAR: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
const OCTETS: usize = 100_000;

#[test]
fn large_message_is_carried_by_tcp() {
    let reliable = Attributes { reliable: true, secure: false };
    echoes([deaf(), plain()], reliable);
}

#[test]
fn large_message_is_carried_by_tls() {
    let authority = Authority::new("large");
    let settings = [authority.settings("near", &["far"]), authority.settings("far", &["near"])];
    echoes(settings, Attributes { reliable: true, secure: true });
}

/// Sends the message to the far node, which returns it over the same association.
fn echoes(settings: [Settings; 2], attributes: Attributes) {
    let message: Vec<u8> = (0..OCTETS).map(|n| (n / 7) as u8).collect();
    let [near, far] = settings;
    let mut near = Node::new(1, NEAR, FAR, &near);
    let mut far = Node::new(2, FAR, NEAR, &far);
    near.mailbox.borrow_mut().outgoing = Some((message.clone(), attributes));
    let start = std::time::Instant::now();
    near.handle(Input::Expire);
    while near.mailbox.borrow().incoming.is_empty() {
        assert!(start.elapsed() < PATIENCE, "it does not come back");
        near.exchange(&mut far);
        far.exchange(&mut near);
        std::thread::sleep(Duration::from_micros(200));
    }
    for node in [&near, &far] {
        let mailbox = node.mailbox.borrow();
        let [(octets, how)] = &mailbox.incoming[..] else { panic!("one message for each") };
        assert!(*octets == message && *how == attributes, "{how:?}, {} octets", octets.len());
        assert!(mailbox.failures.is_empty(), "{:?}", mailbox.failures);
        assert_eq!(node.engine.gist().associations().count(), 1);
        assert_eq!(node.streams.connections.len(), 1);
    }
}

/// Messages received by an application, and the one to send.
#[derive(Debug, Default)]
struct Mailbox {
    outgoing: Option<(Vec<u8>, Attributes)>,
    incoming: Vec<(Vec<u8>, Attributes)>,
    failures: Vec<SendFailure>,
}

/// An application that sends the message in its mailbox, and returns a message that comes down the path.
#[derive(Debug)]
struct Echo(Rc<RefCell<Mailbox>>);

impl Nslp for Echo {
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

    fn receive(&mut self, turn: &mut HandlerContext<'_, '_>, message: &Received<'_>) {
        self.0.borrow_mut().incoming.push((message.data.to_vec(), message.attributes()));
        if message.mri.direction() == Direction::Downstream {
            let back = sending(message.mri.inverted(), message.attributes());
            turn.send(back, message.data.len()).copy_from_slice(message.data);
        }
    }

    fn status(&mut self, _: &mut HandlerContext<'_, '_>, _: MessageHandle, failure: SendFailure) {
        self.0.borrow_mut().failures.push(failure);
    }

    fn notify(&mut self, _: &mut HandlerContext<'_, '_>, _: &NetworkNotification) {}

    fn expire(&mut self, turn: &mut HandlerContext<'_, '_>) {
        if let Some((octets, attributes)) = self.0.borrow_mut().outgoing.take() {
            turn.send(sending(flow(), attributes), octets.len()).copy_from_slice(&octets);
        }
    }

    fn next_deadline(&self) -> Option<Time> {
        self.0.borrow().outgoing.as_ref().map(|_| Time::ZERO)
    }
}

fn sending(mri: Mri, attributes: Attributes) -> SendMessage {
    SendMessage {
        handle: Some(MessageHandle(1)),
        session: SessionId([7; 16]),
        mri,
        to: None,
        attributes,
        timeout: PATIENCE,
        hops: None,
    }
}

fn flow() -> Mri {
    Mri::PathCoupled(PathCoupled {
        source: NEAR,
        destination: FAR,
        source_prefix: 32,
        destination_prefix: 32,
        protocol: Some(17),
        ds_field: None,
        flow_label: None,
        spi: None,
        source_port: Some(5_000),
        destination_port: Some(5_000),
        direction: Direction::Downstream,
    })
}

/// An engine with its connections and its only link.
struct Node {
    engine: Nsis,
    streams: Streams,
    interfaces: Interfaces,
    routes: RouteTable,
    mailbox: Rc<RefCell<Mailbox>>,
    /// Datagrams sent and not delivered yet.
    sent: Vec<(Outgoing, Vec<u8>)>,
    start: std::time::Instant,
}

impl Node {
    fn new(seed: u64, own: IpAddr, other: IpAddr, settings: &Settings) -> Node {
        let streams = Streams::open(settings).expect("settings that can be");
        let port = |transport| {
            let listener = streams.listeners.iter().find(|it| it.transport == transport)?;
            Some(listener.socket.local_addr().ok()?.as_socket()?.port())
        };
        let mut config = Config::default();
        // A node without a listener initiates the connection.
        config.gist.associations.tcp_port = port(Transport::Tcp).or(Some(earmark_nsis::PORT));
        config.gist.associations.tls_port = port(Transport::Tls);
        let mut engine = Nsis::new(config, &RandomStreams::new(seed));
        let mailbox = Rc::new(RefCell::new(Mailbox::default()));
        engine.add(Box::new(Echo(mailbox.clone())));
        let mut interfaces = Interfaces::default();
        interfaces.set(Interface {
            id: LINK,
            name: "link".to_owned(),
            addresses: vec![own],
            mtu: 1_500,
            up: true,
            bandwidth: Rate::from_mbps(100),
            reservable: Rate::from_mbps(75),
            largest: None,
            overhead: 0,
            latency_us: 10,
            trust: Trust::CORE,
        });
        let mut routes = RouteTable::new();
        let hop = Hop { interface: LINK, gateway: None, source: None };
        let prefix = earmark_core::Prefix::host(other);
        routes.insert(Route { prefix, metric: 0, hop });
        let start = std::time::Instant::now();
        Node { engine, streams, interfaces, routes, mailbox, sent: Vec::new(), start }
    }

    fn now(&self) -> Time {
        Time::from_secs(1) + self.start.elapsed()
    }

    /// Passes an input to the engine and carries out its effects.
    fn handle(&mut self, input: Input<'_, Command>) {
        let mut effects = Effects::<Event>::new();
        let now = self.now();
        let Node { engine, interfaces, routes, .. } = self;
        let ledger = &mut Ledger::new();
        engine.handle(now, input, &mut Context { routes, interfaces, ledger }, &mut effects);
        self.perform(now, &effects);
    }

    fn perform(&mut self, now: Time, effects: &Effects<Event>) {
        for effect in effects.iter() {
            match effect {
                Effect::Send(how, range) => {
                    self.sent.push((*how, effects.octets(range).to_vec()));
                }
                Effect::Connect(connect) => self.streams.connect(now, connect),
                Effect::Write(connection, range) => {
                    self.streams.write(*connection, effects.octets(range));
                }
                Effect::Close(connection) => self.streams.close(now, *connection),
                _ => {}
            }
        }
        self.streams.flush();
    }

    /// Serves timers and connections, and delivers the sent datagrams to the other node.
    fn exchange(&mut self, other: &mut Node) {
        let now = self.now();
        let mut effects = Effects::<Event>::new();
        let Node { engine, streams, interfaces, routes, .. } = self;
        let served = streams.serve(now, &mut |event| {
            let ledger = &mut Ledger::new();
            let context = &mut Context { routes, interfaces, ledger };
            engine.handle(now, Input::Stream(event), context, &mut effects);
        });
        served.expect("served");
        self.perform(now, &effects);
        if self.engine.next_deadline().is_some_and(|(at, _)| at <= now) {
            self.handle(Input::Expire);
        }
        for (how, payload) in std::mem::take(&mut self.sent) {
            other.handle(Input::Datagram(Datagram {
                interface: LINK,
                source: how.source,
                destination: how.destination,
                ttl: how.ttl,
                router_alert: how.router_alert,
                encapsulated: false,
                payload: &payload,
            }));
        }
    }
}
