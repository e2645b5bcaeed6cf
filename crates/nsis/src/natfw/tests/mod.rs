//! Tests on nodes in a row; a lossless link replaces GIST between them. Each message is logged in one line, so that a
//! test reads like the figures of RFC 5973.
//!
//! ```text
//!   client 0 --- firewall 1 --- translator 2 --- core 3 --- firewall 4 --- server 5
//!   10.0.0.1                    203.0.113.1                                198.51.100.9
//! ```
//!
//! A test has the nodes that it needs: node 0 is inside, the last one outside; [`Place`] says what is between.

mod create;
mod deletions;
mod external;
mod lifetimes;
mod messages;
mod node;
mod notifications;
mod origins;
mod policy;
mod proxy;
mod requests;
mod tokens;
mod translation;

use std::collections::{BTreeMap, VecDeque};
use std::format;
use std::net::IpAddr;
use std::string::{String, ToString};
use std::time::Duration;
use std::vec;
use std::vec::Vec;

use earmark_core::admission::Ledger;
use earmark_core::random::RandomStreams;
use earmark_core::{
    Context, Effect, Effects, Endpoint, FilterAction, FilterChange, FilterEvent, FilterRule,
    FilteredPackets, Hop, HostEvent, Interface, InterfaceId, Interfaces, Rate, Route, RouteTable,
    Time, Trust,
};
use earmark_testkit::messages::natfw_nslp::emit;
use earmark_wire::gist::{Direction, Mri, SessionId};
use earmark_wire::natfw_nslp::iana::{Informational, NSLPID};
use earmark_wire::natfw_nslp::{Info, Message, Outcome, ProxyMode};

use self::messages::*;
use self::node::Place;
use super::{
    Application, Command, Config, Event, ExposeRequest, NatfwNslp, OpenRequest, Responder, Rule,
    Translator,
};
use crate::nslp::{
    AssociationId, Attributes, Channel, HandlerContext, NetworkNotification, Notification, Nslp,
    Origin, PeerHandle, Received, Requests, SendFailure, SendMessage, Validity,
};

/// Interface towards lower numbers.
pub(super) const LEFT: InterfaceId = InterfaceId(1);
/// Interface towards higher numbers.
pub(super) const RIGHT: InterfaceId = InterfaceId(2);
pub(super) const APP: Application = Application(7);
pub(super) const OTHER_APP: Application = Application(8);
pub(super) const UDP: u8 = 17;
pub(super) const CLIENT: &str = "10.0.0.1";
pub(super) const PUBLIC: &str = "203.0.113.1";
pub(super) const SERVER: &str = "198.51.100.9";

pub(super) struct Node {
    pub(super) natfw: NatfwNslp,
    ledger: Ledger,
    pub(super) interfaces: Interfaces,
    pub(super) routes: RouteTable,
    pub(super) events: Vec<Event>,
    /// The packet filter: rules and their ends.
    pub(super) filter: BTreeMap<FilteredPackets, (FilterRule, Time)>,
    /// Error number with which the packet filter refuses rules.
    pub(super) refuse: Option<u16>,
}

/// A message in transit.
struct InTransit {
    from: usize,
    message: SendMessage,
    data: Vec<u8>,
}

pub(super) struct Net {
    pub(super) nodes: Vec<Node>,
    pub(super) now: Time,
    wire: VecDeque<InTransit>,
    /// One line for each message.
    pub(super) log: Vec<String>,
    /// Routing state: the peer of a node for a session and routing information.
    peers: BTreeMap<(usize, SessionId, String), usize>,
    /// First sequence number of each session, from which the log counts.
    first: BTreeMap<SessionId, u32>,
    /// Nodes that receive no messages.
    pub(super) unreachable: Vec<usize>,
    /// Nodes behind which GIST finds no other.
    pub(super) last: Vec<usize>,
}

pub(super) fn address(text: &str) -> IpAddr {
    text.parse().expect("an address")
}

pub(super) fn endpoint(text: &str, port: u16) -> Endpoint {
    Endpoint { address: address(text), port }
}

/// Returns the handle of a node.
pub(super) fn handle(number: usize) -> PeerHandle {
    PeerHandle { slot: number as u32, generation: 0 }
}

impl Net {
    /// Creates nodes in a row. The first is the client, the last the server.
    fn of(places: &[Place]) -> Net {
        Net::with(places, |_, config| config)
    }

    fn with(places: &[Place], change: impl Fn(usize, Config) -> Config) -> Net {
        let node =
            |number: usize| Node::new(number, places, change(number, places[number].config()));
        Net {
            nodes: (0..places.len()).map(node).collect(),
            now: Time::from_secs(100),
            wire: VecDeque::new(),
            log: Vec::new(),
            peers: BTreeMap::new(),
            first: BTreeMap::new(),
            unreachable: Vec::new(),
            last: Vec::new(),
        }
    }

    /// Calls an application in its context, and sends the messages of its requests.
    pub(super) fn call(
        &mut self,
        number: usize,
        act: impl FnOnce(&mut NatfwNslp, &mut HandlerContext<'_, '_>),
    ) {
        let node = &mut self.nodes[number];
        let mut requests = Requests::default();
        let mut out = Effects::<crate::Event>::new();
        let mut context = Context {
            routes: &node.routes,
            interfaces: &node.interfaces,
            ledger: &mut node.ledger,
        };
        let mut cx = HandlerContext::new(self.now, &mut context, &mut out, NSLPID, &mut requests);
        act(&mut node.natfw, &mut cx);
        let mut refused = Vec::new();
        for effect in out.iter() {
            match effect {
                Effect::Notify(crate::Event::Natfw(event)) => node.events.push(event.clone()),
                Effect::Filter(FilterChange::Install(rule, until)) => {
                    rule.check().expect("a rule that a packet filter can keep");
                    match node.refuse {
                        Some(errno) => refused.push((rule.packets, errno)),
                        None => {
                            node.filter.insert(rule.packets, (*rule, *until));
                        }
                    }
                }
                Effect::Filter(FilterChange::Remove(packets)) => {
                    assert!(node.filter.remove(packets).is_some(), "{packets:?} was installed");
                }
                other => panic!("unexpected {other:?}"),
            }
        }
        for (_, request) in requests.iter() {
            if let crate::nslp::Request::Send(message, range) = request {
                let data = requests.octets(range).to_vec();
                self.wire.push_back(InTransit { from: number, message: *message, data });
            }
        }
        for (packets, errno) in refused {
            self.host(number, HostEvent::Filter(FilterEvent::Refused { packets, errno }));
        }
    }

    pub(super) fn host(&mut self, number: usize, event: HostEvent) {
        self.call(number, |natfw, cx| natfw.host_changes(cx, &event));
    }

    pub(super) fn command(&mut self, number: usize, command: Command) {
        self.call(number, |natfw, cx| natfw.command(cx, command));
        self.run();
    }

    /// Opens the path of a flow from a node.
    pub(super) fn open(&mut self, number: usize, request: OpenRequest) {
        self.command(number, Command::Open { application: APP, request });
    }

    pub(super) fn expose(&mut self, number: usize, request: ExposeRequest) {
        self.command(number, Command::Expose { application: APP, request });
    }

    pub(super) fn release(&mut self, number: usize) {
        self.command(number, Command::Release { application: APP });
    }

    /// Delivers a notification of GIST about the next node of a session.
    pub(super) fn new_peer(&mut self, number: usize, session: SessionId, mri: Mri, peer: usize) {
        let what =
            Notification::RoutingStatusChange { status: Validity::Good, peer: Some(handle(peer)) };
        let notification = NetworkNotification { mri, session, what };
        self.call(number, |natfw, cx| natfw.notify(cx, &notification));
        self.run();
    }

    /// Delivers messages until none is in transit.
    pub(super) fn run(&mut self) {
        let mut steps = 0;
        while let Some(InTransit { from, message, data }) = self.wire.pop_front() {
            steps += 1;
            assert!(steps < 1_000, "it goes on for ever");
            let line = self.line(&message, &data);
            let Some(to) = self.next(from, &message) else {
                self.log.push(format!("{from}>- {line}"));
                self.call(from, |natfw, cx| {
                    natfw.undelivered(cx, &message, &data, SendFailure::NoNextNode);
                });
                continue;
            };
            if self.unreachable.contains(&to) {
                self.log.push(format!("{from}>{to} lost {line}"));
                continue;
            }
            self.log.push(format!("{from}>{to} {line}"));
            if message.to.is_none() {
                let back = format!("{:?}", message.mri.inverted());
                self.peers.insert((to, message.session, back), from);
                self.peers.insert((from, message.session, format!("{:?}", message.mri)), to);
            }
            let attributes = message.attributes;
            let channel = channel(attributes, if from < to { LEFT } else { RIGHT });
            self.deliver(to, &received(&message, &data, (from, to), channel));
        }
    }

    /// Delivers a message to a node.
    pub(super) fn deliver(&mut self, to: usize, message: &Received<'_>) {
        self.call(to, |natfw, cx| natfw.receive(cx, message));
    }

    /// Returns the next node that serves NATFW NSLP: the known peer, or the one on the route.
    fn next(&self, from: usize, message: &SendMessage) -> Option<usize> {
        if let Some(peer) = message.to {
            return Some(peer.slot as usize);
        }
        let key = (from, message.session, format!("{:?}", message.mri));
        if let Some(peer) = self.peers.get(&key) {
            return Some(*peer);
        }
        let (source, destination) = message.mri.addresses();
        let end = match message.mri.direction() {
            Direction::Downstream => destination,
            Direction::Upstream => source,
        };
        if self.nodes[from].interfaces.is_local(end) || self.last.contains(&from) {
            return None;
        }
        let hop = earmark_core::Routes::lookup(&self.nodes[from].routes, end)?;
        let next = if hop.interface == RIGHT { from + 1 } else { from.checked_sub(1)? };
        (next < self.nodes.len()).then_some(next)
    }

    /// Advances the time; all timers fire in their order, and rules of packet filters end.
    pub(super) fn advance(&mut self, time: Duration) {
        let until = self.now + time;
        loop {
            let due = (0..self.nodes.len())
                .filter_map(|number| Some((self.nodes[number].natfw.next_deadline()?, number)))
                .min()
                .filter(|(at, _)| *at <= until);
            let Some((at, number)) = due else { break };
            self.now = self.now.max(at);
            self.call(number, Nslp::expire);
            self.run();
        }
        self.now = until;
        let now = self.now;
        for node in &mut self.nodes {
            node.filter.retain(|_, (_, end)| *end > now);
        }
    }

    /// Returns the log since the last call.
    pub(super) fn log(&mut self) -> Vec<String> {
        core::mem::take(&mut self.log)
    }

    /// Returns the rules in the packet filter of a node, as text.
    pub(super) fn rules(&self, number: usize) -> Vec<String> {
        self.nodes[number].filter.values().map(|(rule, _)| rule_text(rule)).collect()
    }

    /// Returns when the rules of a node end, seconds from now.
    pub(super) fn ends(&self, number: usize) -> Vec<u64> {
        let ends = self.nodes[number].filter.values();
        ends.map(|(_, end)| end.since(self.now).as_secs()).collect()
    }

    /// Returns the session that a node's application has asked for.
    pub(super) fn session(&self, number: usize) -> SessionId {
        let mut sessions = self.nodes[number].natfw.sessions();
        sessions.find(|session| session.application.is_some()).expect("it has asked").session
    }

    /// Asserts that no node has a session, a rule or a binding.
    pub(super) fn assert_nothing_is_left(&self) {
        for (number, node) in self.nodes.iter().enumerate() {
            let left: Vec<_> = node.natfw.sessions().collect();
            assert!(left.is_empty(), "node {number} has {left:?}");
            assert!(node.filter.is_empty(), "node {number} has {:?}", node.filter);
            node.natfw.assert_empty();
        }
    }

    /// One line for a message: `CREATE lt=60 msn=0`. Sequence numbers count from the first one of the session.
    fn line(&mut self, message: &SendMessage, data: &[u8]) -> String {
        let parsed = Message::parse(data).expect("a node sends well-formed messages");
        let (msn, text) = match parsed {
            Message::Create(create) => {
                let flags = flags(create.proxy, create.nonce.is_some());
                (Some(create.msn), format!("CREATE{flags} lt={}", create.lifetime))
            }
            Message::External(external) => {
                let flags = flags(external.proxy, external.nonce.is_some());
                (Some(external.msn), format!("EXTERNAL{flags} lt={}", external.lifetime))
            }
            Message::Response(response) => {
                let lifetime = response.lifetime.map_or(String::new(), |lt| format!(" lt={lt}"));
                let external = response.external_address;
                let external =
                    external.map_or(String::new(), |it| format!(" at {}:{}", it.address, it.port));
                let outcome = code(&response.info);
                (Some(response.msn), format!("RESPONSE {outcome}{lifetime}{external}"))
            }
            Message::Notify(notify) => (None, format!("NOTIFY {}", code(&notify.info))),
        };
        let Some(msn) = msn else { return text };
        let first = *self.first.entry(message.session).or_insert(msn);
        format!("{text} msn={}", msn.wrapping_sub(first))
    }
}

fn flags(proxy: ProxyMode, nonce: bool) -> String {
    let proxy = match proxy {
        ProxyMode::Off => "",
        ProxyMode::Edge => "-PROXY",
        ProxyMode::EdgeAndOnward => "-PROXY(E)",
    };
    format!("{proxy}{}", if nonce { "(nonce)" } else { "" })
}

/// Class and code: `2/0x01`.
fn code(info: &Info) -> String {
    format!("{}/{:#04x}", info.outcome.class().code(), info.outcome.code())
}

/// Returns the channel with these attributes.
pub(super) fn channel(attributes: Attributes, interface: InterfaceId) -> Channel {
    match attributes.reliable || attributes.secure {
        true => Channel::Association { id: AssociationId(0), secured: attributes.secure },
        false => Origin::datagram(None, interface).channel,
    }
}

/// Returns a message as received from another node.
pub(super) fn received<'a>(
    message: &SendMessage,
    data: &'a [u8],
    (from, to): (usize, usize),
    channel: Channel,
) -> Received<'a> {
    Received {
        data,
        session: message.session,
        mri: message.mri,
        upstream: None,
        origin: Origin { peer: Some(handle(from)), channel },
        explicitly_routed: message.to.is_some(),
        ip_distance: Some(1),
        hops: 10,
        interface: if from < to { LEFT } else { RIGHT },
    }
}

fn rule_text(rule: &FilterRule) -> String {
    let flow = &rule.packets.flow;
    let action = match rule.action {
        FilterAction::Allow => "allow",
        FilterAction::Deny => "deny",
    };
    let source = flow.source.map_or("any".to_string(), |address| {
        Endpoint { address, port: flow.source_port }.to_string()
    });
    let to = Endpoint { address: flow.destination, port: flow.destination_port };
    let kind = rule.packets.icmp_type.map_or(String::new(), |kind| format!(" type {kind}"));
    let as_source = rule.source.map_or(String::new(), |to| format!(" as {to}"));
    let inside = rule.destination.map_or(String::new(), |to| format!(" forwarded to {to}"));
    format!("{action} {source} to {to}{kind}{as_source}{inside}")
}

impl Net {
    /// Returns the first sequence number of a session.
    pub(super) fn first_msn(&self, session: SessionId) -> u32 {
        self.first[&session]
    }
}

impl Net {
    /// Makes another node the next one of a node in a session, and tells it so.
    pub(super) fn reroute(&mut self, number: usize, session: SessionId, mri: Mri, next: usize) {
        self.peers.insert((number, session, format!("{mri:?}")), next);
        self.new_peer(number, session, mri, next);
    }
}
