//! Tests on nodes in a row; a lossless link replaces GIST between them. Each message is logged in one line, so that a
//! test reads like the figures of RFC 5974.

mod aggregates;
mod bindings;
mod completion;
mod dependents;
mod ended_requests;
mod errors;
mod examples;
mod path_extent;
mod preemption;
mod reload;
mod reservations;
mod routes;
mod sharing;
mod summaries;
mod tokens;

use std::collections::VecDeque;
use std::format;
use std::net::IpAddr;
use std::string::String;
use std::time::Duration;
use std::vec::Vec;

use earmark_core::admission::{Ledger, LinkCapacity};
use earmark_core::random::RandomStreams;
use earmark_core::{
    Context, Effect, Effects, Flow, Hop, HostEvent, Interface, InterfaceId, Interfaces, Prefix,
    Rate, Role, Route, RouteTable, Time, Trust,
};
use earmark_testkit::messages::gist::udp_flow;
use earmark_testkit::messages::qos_nslp::emit;
use earmark_wire::gist::{Direction, Mri, PathCoupled, SessionId};
use earmark_wire::qos_nslp::iana::NSLPID;
use earmark_wire::qos_nslp::{Message, Reserve};

use super::{Application, Command, Config, Event, Listen, QosNslp, Request, RequestedQos};
use crate::nslp::{
    HandlerContext, NetworkNotification, Notification, Nslp, Origin, PeerHandle, Received,
    Requests, SendFailure, SendMessage, Validity,
};

/// Interface towards lower numbers.
pub(super) const LEFT: InterfaceId = InterfaceId(1);
/// Interface towards higher numbers.
pub(super) const RIGHT: InterfaceId = InterfaceId(2);
/// A host behind the last node, without NSIS.
pub(super) const FAR: &str = "10.0.0.200";

/// A network behind the last node.
pub(super) const BEHIND: &str = "10.8.0.0/16";

pub(super) const APP: Application = Application(7);
pub(super) const PEER_APP: Application = Application(8);
pub(super) const SESSION: SessionId = SessionId(*b"session number 1");

pub(super) struct Node {
    pub(super) qos: QosNslp,
    pub(super) ledger: Ledger,
    interfaces: Interfaces,
    routes: RouteTable,
    pub(super) events: Vec<Event>,
    /// Changes of traffic control.
    pub(super) control: Vec<String>,
}

/// A message in transit.
struct InTransit {
    from: usize,
    nslpid: u16,
    message: SendMessage,
    data: Vec<u8>,
}

pub(super) struct Net {
    pub(super) nodes: Vec<Node>,
    pub(super) now: Time,
    wire: VecDeque<InTransit>,
    /// One line for each message.
    pub(super) log: Vec<String>,
    /// Next node on either side, by node.
    pub(super) left: Vec<Option<usize>>,
    pub(super) right: Vec<Option<usize>>,
    /// IP hops to the right neighbor.
    pub(super) distance: Vec<u8>,
    /// Nodes that receive no messages.
    pub(super) unreachable: Vec<usize>,
    /// Deviations that were accepted: the node, its peer, and the deviation.
    pub(super) tolerated: Vec<(usize, PeerHandle, crate::Tolerated)>,
}

pub(super) fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

/// Returns the address of a node.
pub(super) fn of_node(number: usize) -> IpAddr {
    address(&format!("10.0.0.{}", number + 1))
}

pub(super) fn mbps(mbps: u64) -> Rate {
    Rate::from_mbps(mbps)
}

impl Node {
    fn new(number: usize, nodes: usize, config: Config) -> Node {
        let mut interfaces = Interfaces::default();
        let mut ledger = Ledger::new();
        let mut routes = RouteTable::new();
        for (id, name, network) in [(LEFT, "left", 0), (RIGHT, "right", 1)] {
            interfaces.set(Interface {
                id,
                name: name.into(),
                addresses: [address(&format!("10.{network}.0.{}", number + 1))].into(),
                mtu: 1_500,
                up: true,
                bandwidth: mbps(10),
                reservable: mbps(8),
                largest: None,
                overhead: 0,
                latency_us: 100,
                trust: Trust::CORE,
            });
            let capacity = LinkCapacity { bandwidth: mbps(10), reservable: mbps(8), mtu: 1_500 };
            ledger.set_link(id, capacity);
        }
        let mut to = |destination: IpAddr, interface, gateway| {
            let hop = Hop { interface, gateway, source: None };
            routes.insert(Route { prefix: Prefix::host(destination), metric: 0, hop });
        };
        let behind = |other: usize, next: usize| (other != next).then(|| of_node(next));
        (0..number).for_each(|other| to(of_node(other), LEFT, behind(other, number - 1)));
        let others = number + 1..nodes;
        others.for_each(|other| to(of_node(other), RIGHT, behind(other, number + 1)));
        // Everything behind the last node is on its link.
        let gateway = behind(nodes, number + 1);
        to(address(FAR), RIGHT, gateway);
        let hop = Hop { interface: RIGHT, gateway, source: None };
        let range = BEHIND.parse().expect("a range");
        routes.insert(Route { prefix: range, metric: 0, hop });
        Node {
            qos: QosNslp::new(config, &RandomStreams::new(number as u64)),
            ledger,
            interfaces,
            routes,
            events: Vec::new(),
            control: Vec::new(),
        }
    }
}

impl Net {
    /// Creates nodes in a row with the default settings.
    pub(super) fn of(nodes: usize) -> Net {
        Net::with(nodes, &|_| Config::default())
    }

    pub(super) fn with(nodes: usize, config: &dyn Fn(usize) -> Config) -> Net {
        Net {
            nodes: (0..nodes).map(|number| Node::new(number, nodes, config(number))).collect(),
            now: Time::from_secs(100),
            wire: VecDeque::new(),
            log: Vec::new(),
            left: (0..nodes).map(|number| number.checked_sub(1)).collect(),
            right: (0..nodes).map(|number| Some(number + 1).filter(|n| *n < nodes)).collect(),
            distance: (0..nodes).map(|_| 1).collect(),
            unreachable: Vec::new(),
            tolerated: Vec::new(),
        }
    }

    /// Calls an application in its context, and sends the messages of its requests.
    fn call(&mut self, number: usize, act: impl FnOnce(&mut QosNslp, &mut HandlerContext<'_, '_>)) {
        let id = self.nodes[number].qos.id();
        self.call_as(number, id, act);
    }

    /// Calls an application with an NSLPID.
    fn call_as(
        &mut self,
        number: usize,
        id: u16,
        act: impl FnOnce(&mut QosNslp, &mut HandlerContext<'_, '_>),
    ) {
        let node = &mut self.nodes[number];
        let mut requests = Requests::default();
        let mut out = Effects::<crate::Event>::new();
        let mut context = Context {
            routes: &node.routes,
            interfaces: &node.interfaces,
            ledger: &mut node.ledger,
        };
        act(
            &mut node.qos,
            &mut HandlerContext::new(self.now, &mut context, &mut out, id, &mut requests),
        );
        for effect in out.iter() {
            match effect {
                Effect::Notify(crate::Event::Qos(event)) => node.events.push(event.clone()),
                Effect::Install(i) => {
                    node.control.push(format!("install {} {}", i.interface.0, i.demand.rate));
                }
                Effect::Remove(..) => node.control.push("remove".into()),
                Effect::AddFlow(_, flow) => {
                    node.control.push(format!("add {}", flow.destination_port));
                }
                _ => {}
            }
        }
        for (nslpid, request) in requests.iter() {
            if let crate::nslp::Request::Send(message, range) = request {
                let data = requests.octets(range).to_vec();
                let (nslpid, message) = (*nslpid, *message);
                self.wire.push_back(InTransit { from: number, nslpid, message, data });
            }
            if let crate::nslp::Request::Tolerated { peer, tolerated } = request {
                self.tolerated.push((number, *peer, *tolerated));
            }
        }
        let displaced: Vec<_> =
            core::iter::from_fn(|| self.nodes[number].ledger.next_displaced()).collect();
        for displaced in displaced {
            self.host(number, HostEvent::Displaced(displaced));
        }
    }

    pub(super) fn host(&mut self, number: usize, event: HostEvent) {
        self.call(number, |qos, cx| qos.host_changes(cx, &event));
    }

    pub(super) fn command(&mut self, number: usize, command: Command) {
        self.call(number, |qos, cx| qos.command(cx, command));
        self.run();
    }

    pub(super) fn reserve(&mut self, number: usize, request: Request) {
        self.command(number, Command::Reserve { application: APP, request });
    }

    /// Delivers a notification of GIST about the peers of a session.
    pub(super) fn notify(&mut self, number: usize, mri: Mri, what: Notification) {
        let notification = NetworkNotification { mri, session: SESSION, what };
        self.call(number, |qos, cx| qos.notify(cx, &notification));
        self.run();
    }

    /// Returns the notification that GIST has found another next node.
    pub(super) fn good(peer: usize) -> Notification {
        let peer = Some(handle(peer));
        Notification::RoutingStatusChange { status: Validity::Good, peer }
    }

    /// Delivers a message to a node as if from another one.
    pub(super) fn deliver_from(&mut self, from: usize, to: usize, mri: Mri, data: &[u8]) {
        let id = self.nodes[to].qos.id();
        self.deliver((from, to, id), SESSION, mri, data, false);
        self.run();
    }

    /// Delivers messages until none is in transit.
    pub(super) fn run(&mut self) {
        let mut steps = 0;
        while let Some(InTransit { from, nslpid, message, data }) = self.wire.pop_front() {
            steps += 1;
            assert!(steps < 1_000, "it goes on for ever");
            let next = match message.to {
                Some(peer) => Some(peer.slot as usize),
                None => self.next(from, nslpid, &message.mri),
            };
            let Some(to) = next else {
                self.log.push(format!("{from}>- {}", line(&data)));
                self.call_as(from, nslpid, |qos, cx| {
                    qos.undelivered(cx, &message, &data, SendFailure::NoNextNode);
                });
                continue;
            };
            let explicit = message.to.is_some();
            // An explicitly routed response to the neighbor is not marked.
            let is_neighbour = self.next(from, nslpid, &message.mri) == Some(to);
            let mark = if explicit && !is_neighbour { "!" } else { "" };
            if self.unreachable.contains(&to) {
                self.log.push(format!("{from}>{to}{mark} lost {}", line(&data)));
                continue;
            }
            self.log.push(format!("{from}>{to}{mark} {}", line(&data)));
            let destination_key = (from, to, nslpid);
            self.deliver(destination_key, message.session, message.mri, &data, explicit);
        }
    }

    fn deliver(
        &mut self,
        (from, to, nslpid): (usize, usize, u16),
        session: SessionId,
        mri: Mri,
        data: &[u8],
        explicitly_routed: bool,
    ) {
        let between = (from.abs_diff(to) as u8).saturating_sub(1);
        let passed = if nslpid == NSLPID { 0 } else { between };
        let interface = if from < to { LEFT } else { RIGHT };
        let message = Received {
            data,
            session,
            mri,
            upstream: None,
            origin: Origin::datagram(Some(handle(from)), interface),
            explicitly_routed,
            ip_distance: Some(self.distance[from.min(to)] + passed),
            hops: 10,
            interface,
        };
        self.call_as(to, nslpid, |qos, cx| qos.receive(cx, &message));
    }

    /// Returns the next node with this NSLPID.
    fn next(&self, from: usize, nslpid: u16, mri: &Mri) -> Option<usize> {
        let (source, destination) = mri.addresses();
        let goes_right = destination > source;
        let is_right = goes_right == (mri.direction() == Direction::Downstream);
        let sides = if is_right { &self.right } else { &self.left };
        let beyond = core::iter::successors(sides[from], |&next| *sides.get(next)?);
        let mut there = beyond.take_while(|&next| next < self.nodes.len());
        there.find(|&next| self.nodes[next].qos.serves(nslpid))
    }

    /// Advances the time; all timers fire in their order.
    pub(super) fn advance(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            let due = (0..self.nodes.len())
                .filter_map(|number| Some((self.nodes[number].qos.next_deadline()?, number)))
                .min();
            let Some((at, number)) = due.filter(|(at, _)| *at <= until) else { break };
            self.now = self.now.max(at);
            self.call(number, Nslp::expire);
            self.run();
        }
        self.now = until;
    }

    /// Returns the lines since the last call.
    pub(super) fn lines(&mut self) -> Vec<String> {
        std::mem::take(&mut self.log)
    }

    /// Returns the events of a node since the last call, except those of the reservations on its links.
    pub(super) fn events(&mut self, number: usize) -> Vec<Event> {
        let mut events = std::mem::take(&mut self.nodes[number].events);
        events.retain(|event| !matches!(event, Event::Reservation { .. } | Event::Dropped { .. }));
        events
    }

    /// Returns the reserved rate of a link.
    pub(super) fn held(&self, number: usize, link: InterfaceId) -> Rate {
        self.nodes[number].ledger.link(link).expect("a link").held
    }

    /// Returns the reserved rates of the right links of all nodes.
    pub(super) fn all_held(&self) -> Vec<u64> {
        (0..self.nodes.len()).map(|n| self.held(n, RIGHT).as_bps() / 1_000_000).collect()
    }

    pub(super) fn assert_nothing_left(&self) {
        for (number, node) in self.nodes.iter().enumerate() {
            assert_eq!(node.qos.session_count(), 0, "sessions of node {number}");
            for peer in 0..self.nodes.len() {
                assert_eq!(
                    node.qos.sessions_of(handle(peer)),
                    (0, 0),
                    "node {number}, peer {peer}"
                );
            }
            for (link, status) in node.ledger.links() {
                assert_eq!(status.claims, 0, "node {number}, link {link:?}");
            }
        }
    }
}

pub(super) fn handle(node: usize) -> PeerHandle {
    PeerHandle { slot: node as u32, generation: 0 }
}

/// Returns a UDP flow from a node to an address.
pub(super) fn flow(from: usize, to: IpAddr) -> Flow {
    Flow {
        destination: to,
        source: Some(of_node(from)),
        protocol: 17,
        destination_port: 5_000,
        source_port: 6_000,
        flow_label: 0,
        spi: 0,
        destination_open: 0,
        source_open: 0,
        dscp: 0,
    }
}

pub(super) fn mri(from: usize, to: IpAddr, direction: Direction) -> Mri {
    let flow = udp_flow((of_node(from), 6_000), (to, 5_000));
    Mri::PathCoupled(PathCoupled { direction, ..flow })
}

pub(super) fn listen() -> Listen {
    Listen { protocol: Some(17), port: Some(5_000), ..Listen::default() }
}

/// Changes who is behind the left interface of node 1.
pub(super) fn set_role(net: &mut Net, role: Role) {
    let mut interface = net.nodes[1].interfaces.by_id(LEFT).expect("an interface").clone();
    interface.trust = Trust { role, sources: [Prefix::everything(false)].into() };
    net.nodes[1].interfaces.set(interface);
}

/// Returns a request for the session of all tests.
pub(super) fn request(from: usize, to: IpAddr, rate: Rate) -> Request {
    Request { session: Some(SESSION), ..Request::new(flow(from, to), RequestedQos::of(rate)) }
}

/// Returns the octets of a RESERVE.
pub(super) fn octets(reserve: Reserve<'_>) -> Vec<u8> {
    emit(&Message::Reserve(reserve))
}

/// Returns a message as one line: type, flags, sequence number, and its objects.
fn line(data: &[u8]) -> String {
    let yes = |yes: bool, text: &str| if yes { format!(" {text}") } else { String::new() };
    match Message::parse(data).expect("a message") {
        Message::Reserve(reserve) => format!(
            "RESERVE {}{}{}{}{}{}{}{}{}",
            reserve.rsn.number,
            yes(reserve.tear, "tear"),
            yes(reserve.qspec.is_some(), "qspec"),
            yes(reserve.rii.is_some(), "rii"),
            yes(reserve.flags.ack_req, "ack"),
            yes(reserve.flags.breaks, "break"),
            yes(reserve.flags.proxy, "proxy"),
            yes(reserve.bound.iter().next().is_some(), "bound"),
            reserve.summary.map_or(String::new(), |s| format!(" and {}", s.sessions.len())),
        ),
        Message::Query(query) => format!(
            "QUERY{}{}{}",
            yes(query.reserve_init, "reserve"),
            yes(query.rii.is_some(), "rii"),
            yes(query.flags.breaks, "break"),
        ),
        Message::Response(response) => {
            format!(
                "RESPONSE {}{}",
                response.info.outcome.name(),
                yes(response.flags.breaks, "break")
            )
        }
        Message::Notify(notify) => format!("NOTIFY {}", notify.info.outcome.name()),
    }
}

#[test]
fn lines_describe_messages() {
    let mut net = Net::of(2);
    net.reserve(0, request(0, of_node(1), mbps(1)));
    let expected = ["0>1 RESERVE 0 qspec rii", "1>0 RESPONSE reservation successful"];
    assert_eq!(net.lines(), expected);
}
