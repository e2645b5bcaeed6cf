//! Extent of a reservation, by the record in which nodes count themselves: a host, two routers and a far end, some
//! without Boomerang.

use std::collections::VecDeque;
use std::net::IpAddr;

use earmark_boomerang::{Command, Event, Request, RequestedRates};
use earmark_core::outcome::{Kind, Message, NodeName, Outcome, OutcomeSource, Translation};
use earmark_core::{Datagram, Input, Rate};
use earmark_wire::boomerang::Rates;
use earmark_wire::icmp::{self, PseudoHeader};

use crate::common::{
    APP, Bench, ETH1, ETH2, ETH3, Outcome as Effect, ip, kbit, request_to, router,
};

const HOST: &str = "10.0.1.1";
const FAR: &str = "10.0.3.2";
const OUTSIDE: &str = "192.0.2.1";

/// Host, two routers, far end; one without an engine is a stock router, or a stock host that answers pings. The link
/// between node n and the next is 10.0.n+1.0/24.
struct Chain {
    nodes: Vec<Option<Bench>>,
    /// Whether the first router replaces the host's address by [`OUTSIDE`].
    translates: bool,
    events: Vec<Event>,
    messages: usize,
}

fn bench(place: u8) -> Bench {
    let mut bench = router();
    for interface in [ETH1, ETH2, ETH3] {
        bench.interfaces.remove(interface);
    }
    bench.routes = Default::default();
    if place > 0 {
        bench.add_interface(ETH1, &[&format!("10.0.{place}.2")]);
    }
    bench.add_interface(ETH2, &[&format!("10.0.{}.1", place + 1)]);
    for net in 1..=3_u8 {
        let to = format!("10.0.{net}.0/24");
        match net {
            net if net == place => bench.add_route(&to, ETH1, None),
            net if net == place + 1 => bench.add_route(&to, ETH2, None),
            net if net < place => bench.add_route(&to, ETH1, Some(&format!("10.0.{place}.1"))),
            _ => bench.add_route(&to, ETH2, Some(&format!("10.0.{}.2", place + 1))),
        }
    }
    if place > 1 {
        bench.add_route("192.0.2.0/24", ETH1, Some(&format!("10.0.{place}.1")));
    }
    bench
}

impl Chain {
    fn new(speaks: [bool; 3]) -> Chain {
        let others = (1..).zip(speaks).map(|(place, speaks)| speaks.then(|| bench(place)));
        let nodes = std::iter::once(Some(bench(0))).chain(others).collect();
        Chain { nodes, translates: false, events: Vec::new(), messages: 0 }
    }

    fn command(&mut self, command: Command) {
        let effects = self.nodes[0].as_mut().expect("the host speaks it").command(command);
        self.carry(0, effects);
    }

    /// Carries messages and their effects until none is left.
    fn carry(&mut self, from: usize, effects: Vec<Effect>) {
        let mut wire = VecDeque::new();
        let take = |place: usize, effects: Vec<Effect>, events: &mut Vec<Event>| {
            let mut sent = Vec::new();
            for effect in effects {
                match effect {
                    Effect::Sent(how, octets) => {
                        sent.push((place, how.source, how.destination, how.ttl, octets));
                    }
                    Effect::Event(event) if place == 0 => events.push(event),
                    _ => {}
                }
            }
            sent
        };
        wire.extend(take(from, effects, &mut self.events));
        while let Some((place, mut source, mut destination, ttl, octets)) = wire.pop_front() {
            let right = destination == ip(FAR);
            let next = if right { place + 1 } else { place - 1 };
            self.messages += 1;
            assert!(self.messages < 200, "it goes on for ever");
            match &mut self.nodes[next] {
                Some(node) => {
                    let interface = if right { ETH1 } else { ETH2 };
                    let datagram = Datagram {
                        interface,
                        source,
                        destination,
                        ttl,
                        router_alert: true,
                        encapsulated: false,
                        payload: &octets,
                    };
                    let effects = node.handle(Input::Datagram(datagram));
                    wire.extend(take(next, effects, &mut self.events));
                }
                None if next == 3 => {
                    let mut reply = octets;
                    icmp::make_reply(&mut reply, PseudoHeader::V4);
                    wire.push_back((3, destination, source, 64, reply));
                }
                None => {
                    if self.translates && next == 1 {
                        let host: IpAddr = ip(HOST);
                        match right {
                            true if source == host => source = ip(OUTSIDE),
                            false if destination == ip(OUTSIDE) => destination = host,
                            _ => {}
                        }
                    }
                    wire.push_back((next, source, destination, ttl - 1, octets));
                }
            }
        }
    }

    fn reserve(&mut self, rates: Rates) -> Outcome {
        self.command(Command::Reserve { application: APP, request: request(rates) });
        self.reached()
    }

    /// Returns the last outcome reported to the application.
    fn reached(&mut self) -> Outcome {
        let reported = std::mem::take(&mut self.events);
        let reach = reported.iter().rev().find_map(|event| match event {
            Event::Reached { application: APP, reach }
            | Event::Offered { application: APP, reach, .. } => Some((**reach).clone()),
            _ => None,
        });
        reach.unwrap_or_else(|| panic!("{reported:?}"))
    }
}

fn request(rates: Rates) -> Request {
    Request { count_nodes: true, ..request_to(ip(FAR), &[rates]) }
}

fn reply() -> Option<OutcomeSource> {
    Some(OutcomeSource {
        node: Some(NodeName::Address(ip(FAR))),
        message: Message::new("echo reply"),
    })
}

#[test]
fn nodes_that_all_take_part_are_the_whole_path() {
    let mut chain = Chain::new([true; 3]);
    let reported = chain.reserve(kbit(2_000, 500));
    assert_eq!((reported.kind, &reported.by, reported.nodes), (Kind::Whole, &reply(), Some(3)));
    assert_eq!((reported.from, reported.to), (Some(ip(HOST)), Some(ip("10.0.3.1"))));
    assert_eq!(reported.hops_without, Some(0));
    assert_eq!(chain.messages, 12, "the second loop counts, and no third is needed");
}

/// A stock host answers any ping, whatever the routers do: its reply alone proves nothing.
#[test]
fn reply_of_a_stock_host_alone_is_this_node_only() {
    let mut chain = Chain::new([false; 3]);
    let reported = chain.reserve(kbit(2_000, 0));
    assert_eq!(
        (reported.kind, reported.nodes, reported.hops_without),
        (Kind::OnlyHere, Some(0), None)
    );
    let reported = Chain::new([false; 3]).reserve(kbit(2_000, 500));
    assert_eq!(reported.kind, Kind::OnlyHere);
    let reported = Chain::new([false; 3]).reserve(kbit(0, 500));
    assert_eq!(reported.kind, Kind::Unanswered, "of the way back nobody reserves anything");
}

#[test]
fn stock_host_behind_routers_that_take_part_is_the_whole_path_there() {
    let mut chain = Chain::new([true, true, false]);
    let reported = chain.reserve(kbit(2_000, 0));
    assert_eq!((reported.kind, reported.nodes), (Kind::Whole, Some(2)));
    // On the way back the far end's own link is the first, and it reserves nothing there.
    let reported = Chain::new([true, true, false]).reserve(kbit(2_000, 500));
    assert_eq!((reported.kind, reported.hops_without), (Kind::Part, Some(1)));
    let reported = Chain::new([true, true, false]).reserve(kbit(0, 500));
    assert_eq!((reported.kind, reported.from), (Kind::Part, Some(ip("10.0.2.2"))), "{reported:?}");
}

#[test]
fn router_that_takes_no_part_is_counted() {
    for (speaks, hops_without, nodes, to) in [
        ([false, true, true], Some(1), 1, "10.0.3.1"),
        ([true, false, true], Some(1), 1, "10.0.2.1"),
        ([false, false, true], Some(2), 0, HOST),
        // Behind the last node that takes part no node counts.
        ([true, false, false], None, 1, "10.0.2.1"),
        ([false, true, false], Some(1), 1, "10.0.3.1"),
    ] {
        let reported = Chain::new(speaks).reserve(kbit(2_000, 0));
        // A far end that takes part only as receiver reserves nothing.
        let kind = if nodes == 0 { Kind::OnlyHere } else { Kind::Part };
        assert_eq!(
            (reported.kind, reported.nodes),
            (kind, Some(nodes)),
            "{speaks:?}: {reported:?}"
        );
        assert_eq!(
            (reported.hops_without, reported.to),
            (hops_without, Some(ip(to))),
            "{speaks:?}"
        );
    }
}

#[test]
fn change_of_rates_counts_anew() {
    let mut chain = Chain::new([true, true, true]);
    assert_eq!(chain.reserve(kbit(1_000, 0)).kind, Kind::Whole);
    chain.nodes[2] = None;
    let rates =
        vec![RequestedRates { forward: Rate::from_bps(2_000_000), reverse: Rate::from_bps(0) }];
    chain.command(Command::Modify { application: APP, rates });
    assert_eq!(chain.reached().kind, Kind::Part);
}

#[test]
fn query_reports_how_far_it_reached() {
    for (speaks, kind) in
        [([true; 3], Kind::Whole), ([true, false, false], Kind::Part), ([false; 3], Kind::OnlyHere)]
    {
        let mut chain = Chain::new(speaks);
        chain.command(Command::Query { application: APP, request: request(kbit(2_000, 0)) });
        let reported = chain.reached();
        assert_eq!((reported.kind, reported.offer), (kind, true), "{speaks:?}");
    }
}

#[test]
fn address_translation_is_named_by_the_node_behind_it() {
    let mut chain = Chain::new([false, true, true]);
    chain.translates = true;
    let reported = chain.reserve(kbit(2_000, 0));
    let translation = Translation { named: ip(HOST), seen: Some(ip(OUTSIDE)) };
    assert_eq!((reported.kind, reported.translation), (Kind::Part, Some(translation)));
}

/// Without `count_nodes`, messages carry no record.
#[test]
fn message_without_count_nodes_has_no_record() {
    let mut chain = Chain::new([true; 3]);
    let request = Request { count_nodes: false, ..request(kbit(2_000, 0)) };
    chain.command(Command::Reserve { application: APP, request });
    assert!(matches!(chain.events[..], [Event::Reservation { .. }, Event::Established { .. }]));
    assert_eq!(chain.messages, 6);
}
