//! Tests of Ping NSLP on a line of nodes with separate clocks; a test driver carries messages between them instead of
//! GIST:
//!
//! ```text
//! n0 ---- n1 ---- n2 ---- ...      1 ms each; the links have 10, 20, 30, ... Mbit/s, all of it reservable
//! ```

use alloc::vec::Vec;
use core::mem;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::time::Duration;
use std::boxed::Box;

use earmark_core::admission::{Ledger, LinkCapacity};
use earmark_core::random::RandomStreams;
use earmark_core::{
    Context, Effect, Effects, Hop, Interface, InterfaceId, Interfaces, Prefix, Rate, Route,
    RouteTable, Time, Trust,
};
use earmark_wire::gist::{Direction, Mri, PathCoupled};
use earmark_wire::ping_nslp::Version;
use earmark_wire::ping_nslp::iana::NSLPID;

use super::*;
use crate::nslp::{
    AssociationId, Attributes, Channel, HandlerContext, Nslp, Origin, Received,
    Request as GistRequest, Requests, SendFailure, SendMessage,
};

const APP: Application = Application(7);
const DELAY: Duration = Duration::from_millis(1);

struct Node {
    ping: PingNslp,
    interfaces: Interfaces,
    routes: RouteTable,
    ledger: Ledger,
    /// How much earlier the clock of this node began.
    ahead: Duration,
}

struct Line {
    nodes: Vec<Node>,
    now: Time,
    v6: bool,
    events: Vec<Event>,
    /// First node that does not take part.
    ends_at: usize,
}

impl Line {
    fn new(length: usize, v6: bool) -> Line {
        let random = RandomStreams::new(5);
        let mut line = Line {
            nodes: Vec::new(),
            now: Time::from_secs(1),
            v6,
            events: Vec::new(),
            ends_at: length,
        };
        for number in 0..length {
            let node = line.node(number, length, &random);
            line.nodes.push(node);
        }
        line
    }

    /// Creates a node. Interface 1 leads to the previous node, 2 to the next one.
    fn node(&self, number: usize, length: usize, random: &RandomStreams) -> Node {
        let (mut interfaces, mut routes) = (Interfaces::default(), RouteTable::new());
        let mut ledger = Ledger::new();
        let mut side = |id: u32, link: usize, at: u8, range: core::ops::Range<usize>| {
            let id = InterfaceId(id);
            let bandwidth = Rate::from_mbps(10 * (link as u64 + 1));
            interfaces.set(Interface {
                id,
                name: if at == 1 { "right" } else { "left" }.into(),
                addresses: [self.address(link, at)].into(),
                mtu: 1_500,
                up: true,
                bandwidth,
                reservable: bandwidth,
                largest: None,
                overhead: 0,
                latency_us: 0,
                trust: Trust::CORE,
            });
            ledger.set_link(id, LinkCapacity { bandwidth, reservable: bandwidth, mtu: 1_500 });
            for link in range {
                let length = if self.v6 { 64 } else { 24 };
                let prefix = Prefix::new(self.address(link, 0), length);
                let hop = Hop { interface: id, gateway: None, source: None };
                routes.insert(Route { prefix, metric: 1, hop });
            }
        };
        if number > 0 {
            side(1, number - 1, 2, 0..number);
        }
        if number + 1 < length {
            side(2, number, 1, number..length);
        }
        let ahead = Duration::from_secs(100 * number as u64);
        let ping =
            PingNslp::new(Config::default(), &random.part(if number == 0 { "0" } else { "n" }));
        Node { ping, interfaces, routes, ledger, ahead }
    }

    fn address(&self, link: usize, at: u8) -> IpAddr {
        let link = link as u8;
        if self.v6 {
            Ipv6Addr::new(0x2001, 0xdb8, 0, link.into(), 0, 0, 0, at.into()).into()
        } else {
            Ipv4Addr::new(10, 0, link, at).into()
        }
    }

    /// Returns the address of the last node.
    fn end(&self) -> IpAddr {
        self.address(self.nodes.len() - 2, 2)
    }

    /// Calls a node, and returns its requests to GIST.
    fn call(
        &mut self,
        at: usize,
        call: impl FnOnce(&mut PingNslp, &mut HandlerContext<'_, '_>),
    ) -> (Requests, Vec<Event>) {
        let Node { ping, interfaces, routes, ledger, ahead } = &mut self.nodes[at];
        let mut context = Context { routes, interfaces, ledger };
        let mut requests = Requests::default();
        let mut effects = Effects::<crate::Event>::new();
        let mut cx = HandlerContext {
            now: self.now + *ahead,
            context: &mut context,
            out: &mut effects,
            nslpid: NSLPID,
            requests: &mut requests,
        };
        call(ping, &mut cx);
        let event = |effect: &Effect<crate::Event>| match effect {
            Effect::Notify(crate::Event::Ping(event)) => event.clone(),
            other => panic!("{other:?}"),
        };
        (requests, effects.iter().map(event).collect())
    }

    /// Calls a node, and carries messages from node to node until none is sent.
    fn run(&mut self, at: usize, call: impl FnOnce(&mut PingNslp, &mut HandlerContext<'_, '_>)) {
        let mut at = at;
        let (mut requests, events) = self.call(at, call);
        self.events.extend(events);
        while let Some((message, data)) = sent(&requests) {
            let step = match message.mri.direction() {
                Direction::Downstream if at + 1 < self.ends_at => Some((at + 1, InterfaceId(1))),
                Direction::Downstream => None,
                Direction::Upstream => Some((at - 1, InterfaceId(2))),
            };
            let (next, events) = match step {
                Some((there, interface)) => {
                    self.now = self.now + DELAY;
                    at = there;
                    let received = received(&message, &data, interface);
                    self.call(at, |ping, cx| ping.receive(cx, &received))
                }
                None => self.call(at, |ping, cx| {
                    ping.undelivered(cx, &message, &data, SendFailure::NoNextNode);
                }),
            };
            requests = next;
            self.events.extend(events);
        }
    }

    fn ping(&mut self, request: Request) {
        self.run(0, |ping, cx| {
            ping.command(cx, Command::Ping { application: APP, request });
        });
    }

    /// Advances the time of the initiator.
    fn wait(&mut self, until: Time) {
        while let Some(due) = self.nodes[0].ping.next_deadline().filter(|due| *due <= until) {
            self.now = due;
            self.run(0, PingNslp::expire);
        }
        self.now = until;
    }

    fn events(&mut self) -> Vec<Event> {
        mem::take(&mut self.events)
    }

    /// Returns the answer to the only message.
    fn pong(&mut self) -> (Duration, u16, Vec<Visit>) {
        match &self.events()[..] {
            [
                Event::Pong { application: APP, sequence: 1, round_trip, nodes, visits },
                finished,
            ] => {
                assert_eq!(*finished, Event::Finished { application: APP });
                (*round_trip, *nodes, visits.clone())
            }
            other => panic!("{other:?}"),
        }
    }
}

/// Returns the message that was sent, if any.
fn sent(requests: &Requests) -> Option<(SendMessage, Box<[u8]>)> {
    let mut messages = requests.list.iter().filter_map(|(_, request)| match request {
        GistRequest::Send(message, range) => {
            Some((*message, requests.octets[range.clone()].into()))
        }
        _ => None,
    });
    let first = messages.next();
    assert!(messages.next().is_none(), "one at a time");
    first
}

fn received<'a>(message: &SendMessage, data: &'a [u8], interface: InterfaceId) -> Received<'a> {
    assert_eq!(data.len() % 4, 0, "whole words");
    Received {
        data,
        session: message.session,
        mri: message.mri,
        upstream: None,
        origin: Origin { peer: None, channel: channel(message.attributes, interface) },
        explicitly_routed: false,
        ip_distance: Some(1),
        hops: message.hops.unwrap_or(32) - 1,
        interface,
    }
}

/// Returns a channel with these attributes.
fn channel(attributes: Attributes, interface: InterfaceId) -> Channel {
    match attributes.reliable {
        true => Channel::Association { id: AssociationId(1), secured: attributes.secure },
        false => Origin::datagram(None, interface).channel,
    }
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// Distances do not depend on the clocks of the nodes.
#[test]
fn every_node_is_listed_with_its_distance() {
    for v6 in [false, true] {
        let mut line = Line::new(4, v6);
        line.ping(Request::new(line.end()));
        let (round_trip, nodes, visits) = line.pong();
        assert_eq!((round_trip, nodes), (ms(6), 4));
        let expected: Vec<Visit> = (0..4)
            .map(|number| Visit {
                address: match number {
                    0 => line.address(0, 1),
                    _ => line.address(number - 1, 2),
                },
                round_trip: Some(ms(2 * number as u64)),
                forward: None,
                reverse: None,
            })
            .collect();
        assert_eq!(visits, expected);
        assert_eq!(line.nodes[0].ping.applications(), 0);
        let counters = |number: usize| line.nodes[number].ping.counters().clone();
        assert_eq!(counters(0), Counters { sent: 1, answered: 1, ..Counters::default() });
        assert_eq!(counters(1), Counters { passed_on: 2, ..Counters::default() });
        assert_eq!(counters(3), Counters { turned_round: 1, ..Counters::default() });
    }
}

/// For each link, the node before it reports the forward rate, and the node behind it the reverse rate.
#[test]
fn every_node_reports_its_reservable_rate() {
    let mut line = Line::new(4, false);
    line.ping(Request { bandwidth: true, ..Request::new(line.end()) });
    let (_, _, visits) = line.pong();
    let reported: Vec<_> = visits.iter().map(|visit| (visit.forward, visit.reverse)).collect();
    let mbps = |rate| Some(Rate::from_mbps(rate));
    assert_eq!(
        reported,
        [(mbps(10), None), (mbps(20), mbps(10)), (mbps(30), mbps(20)), (None, None)]
    );
}

/// Where GIST finds no next node, the last node returns the message, which already has its record.
#[test]
fn last_node_before_the_destination_returns_messages() {
    let mut line = Line::new(4, false);
    line.ends_at = 3;
    line.ping(Request { bandwidth: true, ..Request::new(line.end()) });
    let (round_trip, nodes, visits) = line.pong();
    assert_eq!((round_trip, nodes), (ms(4), 3));
    assert_eq!(visits[2].address, line.address(1, 2));
    assert_eq!((visits[2].round_trip, visits[2].forward), (Some(ms(4)), Some(Rate::from_mbps(30))));
    assert_eq!(line.nodes[2].ping.counters().turned_round, 1);
}

#[test]
fn initiator_without_next_node_fails_at_once() {
    let mut line = Line::new(3, false);
    line.ends_at = 1;
    line.ping(Request::new(line.end()));
    let failure = Some(SendFailure::NoNextNode);
    let lost = Event::Lost { application: APP, sequence: 1, failure };
    assert_eq!(line.events(), [lost, Event::Finished { application: APP }]);
}

/// Version 1 holds nine records; the hop count includes the nodes without one.
#[test]
fn version_one_lists_nine_nodes_and_counts_all() {
    let mut line = Line::new(8, false);
    line.ping(Request { version: Version::V1, ..Request::new(line.end()) });
    let (_, nodes, visits) = line.pong();
    assert_eq!((nodes, visits.len()), (8, 8));
    let known: Vec<_> = visits.iter().map(|visit| visit.round_trip).collect();
    let none = [None; 5];
    assert_eq!(known[..], [&[Some(ms(0))][..], &none, &[Some(ms(12)), Some(ms(14))]].concat());
    let mut line = Line::new(12, false);
    line.ping(Request { version: Version::V1, ..Request::new(line.end()) });
    let (_, nodes, visits) = line.pong();
    assert_eq!((nodes, visits.len()), (12, 9));
}

#[test]
fn messages_are_sent_at_their_interval_and_in_one_session() {
    let mut line = Line::new(3, false);
    let request = Request { count: Some(3), interval: ms(500), ..Request::new(line.end()) };
    line.ping(request);
    let begun = line.now;
    line.wait(begun + ms(2_000));
    let sequences: Vec<_> = line
        .events()
        .iter()
        .map(|event| match event {
            Event::Pong { sequence, round_trip, .. } => Some((*sequence, *round_trip)),
            Event::Finished { .. } => None,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(sequences, [Some((1, ms(4))), Some((2, ms(4))), Some((3, ms(4))), None]);
    assert_eq!(line.nodes[0].ping.counters().sent, 3);
    assert_eq!(line.nodes[0].ping.next_deadline(), None);
}

/// An answer after the timeout is not reported.
#[test]
fn late_answer_is_lost() {
    let mut line = Line::new(3, false);
    let (timeout, end) = (Some(ms(40)), line.end());
    let request = Request { timeout, ..Request::new(end) };
    let (requests, events) = line.call(0, |ping, cx| {
        ping.command(cx, Command::Ping { application: APP, request });
    });
    assert_eq!(events, []);
    let begun = line.now;
    let (message, data) = sent(&requests).expect("a message");
    assert_eq!(message.timeout, ms(40), "it need not wait for longer");
    line.wait(begun + ms(39));
    assert_eq!(line.events(), []);
    line.wait(begun + ms(40));
    let lost = Event::Lost { application: APP, sequence: 1, failure: None };
    assert_eq!(line.events(), [lost, Event::Finished { application: APP }]);
    let back = SendMessage { mri: message.mri.inverted(), ..message };
    let late = received(&back, &data, InterfaceId(2));
    let (requests, events) = line.call(0, |ping, cx| ping.receive(cx, &late));
    assert_eq!(events, []);
    // The session is not known here any more, so the message is forwarded; GIST must know its application.
    assert!(sent(&requests).is_some());
}

#[test]
fn duplicate_answer_counts_once() {
    let mut line = Line::new(3, false);
    let request = Request { count: Some(2), interval: ms(500), ..Request::new(line.end()) };
    let (requests, _) = line.call(0, |ping, cx| {
        ping.command(cx, Command::Ping { application: APP, request });
    });
    let (message, data) = sent(&requests).expect("a message");
    let back = SendMessage { mri: message.mri.inverted(), ..message };
    let answer = received(&back, &data, InterfaceId(2));
    for (answered, late) in [(1, 0), (1, 1)] {
        let (requests, _) = line.call(0, |ping, cx| ping.receive(cx, &answer));
        assert_eq!(requests.list.len(), 0);
        let counters = line.nodes[0].ping.counters();
        assert_eq!((counters.answered, counters.late), (answered, late));
    }
}

/// An answer comes by the routing state of the session, over a channel as secure as the request.
#[test]
fn answer_of_another_origin_is_ignored() {
    for attributes in [Attributes::default(), Attributes { reliable: true, secure: true }] {
        let mut line = Line::new(3, false);
        let request = Request { attributes, count: Some(2), ..Request::new(line.end()) };
        let (requests, _) = line.call(0, |ping, cx| {
            ping.command(cx, Command::Ping { application: APP, request });
        });
        let (message, data) = sent(&requests).expect("a message");
        let back = SendMessage { mri: message.mri.inverted(), ..message };
        let answer = received(&back, &data, InterfaceId(2));
        let Mri::PathCoupled(flow) = answer.mri else { panic!("{answer:?}") };
        let other_flow = Mri::PathCoupled(PathCoupled { source_port: Some(9), ..flow });
        let explicit = Received { explicitly_routed: true, ..answer };
        let clear = Received { origin: Origin::datagram(None, InterfaceId(2)), ..answer };
        let foreign = [Received { mri: other_flow, ..answer }, explicit, clear];
        let count = if attributes.secure { 3 } else { 2 };
        for message in &foreign[..count] {
            assert_eq!(line.call(0, |ping, cx| ping.receive(cx, message)).1, []);
        }
        assert_eq!(line.nodes[0].ping.counters().foreign, count as u64);
        let (_, events) = line.call(0, |ping, cx| ping.receive(cx, &answer));
        assert!(matches!(events[..], [Event::Pong { .. }]), "{events:?}");
    }
}

#[test]
fn unlimited_request_ends_with_its_release() {
    let mut line = Line::new(2, false);
    line.ping(Request { count: None, ..Request::new(line.end()) });
    let begun = line.now;
    line.wait(begun + Duration::from_secs(10));
    assert_eq!(line.events().len(), 11);
    let release = Command::Release { application: APP };
    let (requests, events) = line.call(0, |ping, cx| ping.command(cx, release));
    assert_eq!(events, [Event::Finished { application: APP }]);
    let forgets = |(_, request): &(u16, GistRequest)| {
        matches!(request, GistRequest::SetStateLifetime { lifetime: Duration::ZERO, .. })
    };
    assert!(requests.list.len() == 1 && requests.list.iter().all(forgets), "{requests:?}");
    assert_eq!(line.nodes[0].ping.next_deadline(), None);
    let (_, events) = line.call(0, |ping, cx| ping.command(cx, release));
    let reason = Rejection::NotOpen;
    assert_eq!(events, [Event::Rejected { application: APP, reason }]);
}

#[test]
fn invalid_request_is_rejected() {
    let mut line = Line::new(3, false);
    let good = Request::new(line.end());
    let cases = [
        ("itself", Request { destination: line.address(0, 1), ..good }, Rejection::Destination),
        ("a group", Request { destination: [224, 0, 0, 1].into(), ..good }, Rejection::Destination),
        ("anybody", Request { destination: [0; 4].into(), ..good }, Rejection::Destination),
        ("nowhere", Request { destination: [192, 0, 2, 1].into(), ..good }, Rejection::NoRoute),
        ("no way in IPv6", Request { destination: [1; 16].into(), ..good }, Rejection::NoRoute),
        ("no time", Request { interval: Duration::ZERO, ..good }, Rejection::Interval),
        ("no message", Request { count: Some(0), ..good }, Rejection::Interval),
    ];
    for (what, request, reason) in cases {
        line.ping(request);
        assert_eq!(line.events(), [Event::Rejected { application: APP, reason }], "{what}");
    }
    let endless = Request { count: None, ..good };
    line.ping(endless);
    line.events();
    line.ping(endless);
    let reason = Rejection::Open;
    assert_eq!(line.events(), [Event::Rejected { application: APP, reason }]);
}

/// A malformed message is counted by its kind of error, and is not forwarded.
#[test]
fn malformed_messages_are_not_forwarded() {
    let mut line = Line::new(3, false);
    let request = Request::new(line.end());
    let (requests, _) = line.call(0, |ping, cx| {
        ping.command(cx, Command::Ping { application: APP, request });
    });
    let (message, mut data) = sent(&requests).expect("a message");
    data[0] = 3;
    let bad = received(&message, &data, InterfaceId(1));
    let (requests, _) = line.call(1, |ping, cx| ping.receive(cx, &bad));
    assert_eq!(requests.list.len(), 0);
    let counters = line.nodes[1].ping.counters();
    let reported: Vec<_> = counters.iter().filter(|(_, count)| *count > 0).collect();
    assert_eq!(reported, [("ping_version", 1)]);
}

/// Messages keep their transport and hop limit; the way back starts with a new hop limit.
#[test]
fn messages_are_forwarded_with_their_attributes() {
    let mut line = Line::new(3, false);
    let attributes = Attributes { reliable: true, secure: true };
    let request = Request { attributes, ..Request::new(line.end()) };
    let (requests, _) = line.call(0, |ping, cx| {
        ping.command(cx, Command::Ping { application: APP, request });
    });
    let (message, data) = sent(&requests).expect("a message");
    assert_eq!((message.attributes, message.hops), (attributes, None));
    let there = Received { hops: 9, ..received(&message, &data, InterfaceId(1)) };
    for (node, hops) in [(1, Some(9)), (2, None)] {
        let (requests, _) = line.call(node, |ping, cx| ping.receive(cx, &there));
        let (on, _) = sent(&requests).expect("a message");
        assert_eq!((on.attributes, on.hops, on.to), (attributes, hops, None));
        assert_eq!(on.session, message.session);
    }
}
