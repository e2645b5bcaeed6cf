//! Boomerang in whole networks: one loop reserves both directions, for any routes and with any losses.
//!
//! ```text
//!   h1 --0-- r1 --2-- r2 --1-- h2        h2 runs without Earmark
//!             \        /
//!              3      4
//!               \    /
//!                 r3
//! ```

use std::net::IpAddr;
use std::time::Duration;

use earmark_boomerang::{
    Application, Change, Command, Event, OnRefusal, Request, RequestedRates, Selector,
};
use earmark_core::{Flow, Hop, Prefix, Rate, Route, Time};
use earmark_node::{Command as NodeCommand, Event as NodeEvent, NodeConfig};
use earmark_sim::{Faults, LogEvent, NodeId};
use earmark_wire::boomerang::Rates;

use crate::common::{Bench, Family, books_are_right, boomerang_population};

const CALL: Application = Application(1);

struct Net {
    bench: Bench,
    h1: NodeId,
    r1: NodeId,
    r2: NodeId,
    r3: NodeId,
}

fn net(family: Family) -> Net {
    let boomerang =
        earmark_boomerang::Config { refresh_interval: 10, ..earmark_boomerang::Config::default() };
    let mut bench = Bench::with(7, family, NodeConfig { boomerang, ..NodeConfig::default() });
    let speed = Rate::from_mbps(10);
    let [r1, r2, r3] = ["r1", "r2", "r3"].map(|name| bench.router(name));
    let (h1, _) = bench.host("h1", r1, speed);
    bench.plain_host("h2", r2, speed);
    for (a, b) in [(r1, r2), (r1, r3), (r3, r2)] {
        bench.connect(a, b, speed);
    }
    bench.route();
    Net { bench, h1, r1, r2, r3 }
}

impl Net {
    fn address(&self, link: usize, side: usize) -> IpAddr {
        self.bench.links[link].addresses[side]
    }

    /// Returns the flow of a call from h1 to h2, by UDP from port 4000 to port 5000.
    fn flow(&self) -> Flow {
        Flow {
            destination: self.address(1, 0),
            source: Some(self.address(0, 0)),
            protocol: 17,
            destination_port: 5_000,
            source_port: 4_000,
            flow_label: 0,
            spi: 0,
            destination_open: 0,
            source_open: 0,
            dscp: 0,
        }
    }

    fn ask(&mut self, application: Application, source_port: u16, pair: RequestedRates) {
        self.ask_and(application, source_port, pair, OnRefusal::Retry);
    }

    fn ask_and(
        &mut self,
        application: Application,
        source_port: u16,
        pair: RequestedRates,
        on_refusal: OnRefusal,
    ) {
        let flow = Flow { source_port, ..self.flow() };
        let selector = Selector::of_flow(&flow);
        let request = Request { on_refusal, ..Request::new(flow.destination, selector, pair) };
        self.command(Command::Reserve { application, request });
    }

    fn command(&mut self, command: Command) {
        self.bench.network.command(self.h1, NodeCommand::Boomerang(command));
    }

    /// Returns the next event of this host's own that `wanted` accepts, within this many seconds.
    fn await_event(
        &mut self,
        seconds: u64,
        wanted: impl Fn(&Event) -> bool,
    ) -> Option<(Duration, Event)> {
        let begun = self.bench.network.now();
        let deadline = begun + Duration::from_secs(seconds);
        let found = self.bench.network.run_until_event(
            deadline,
            |_, event| matches!(event, NodeEvent::Boomerang(event) if wanted(event)),
        )?;
        match found.what {
            LogEvent::Event(NodeEvent::Boomerang(event)) => Some((found.at.since(begun), event)),
            _ => None,
        }
    }

    fn run(&mut self, seconds: u64) {
        let until = self.bench.network.now() + Duration::from_secs(seconds);
        self.bench.network.run_until(until);
    }

    /// Returns the reservations at each end of each link, Mbit/s: leaving by end 0, and by end 1.
    fn held(&self) -> Vec<[u64; 2]> {
        let end = |(node, interface)| {
            let rows = self.bench.network.node(node).map(|node| node.ledger().link(interface));
            rows.flatten().map_or(0, |link| link.held.as_bps() / 1_000_000)
        };
        self.bench.links.iter().map(|link| link.ends.map(end)).collect()
    }

    fn nothing_is_held(&self) {
        assert_eq!(self.held(), vec![[0; 2]; 5]);
        books_are_right(&self.bench.network);
        for node in [self.h1, self.r1, self.r2, self.r3] {
            if let Some(node) = self.bench.network.node(node) {
                assert_eq!(boomerang_population(node), (0, 0), "{}", node.name());
            }
            assert_eq!(self.bench.network.traffic_control(node).count(), 0);
        }
    }

    /// Makes packets from r2 to h1 use r3.
    fn send_home_by_r3(&mut self) {
        let link = self.bench.links[4];
        let hop = Hop { interface: link.ends[1].1, gateway: Some(link.addresses[0]), source: None };
        let prefix = Prefix::host(self.address(0, 0));
        self.bench.network.add_route(self.r2, Route { prefix, metric: 0, hop });
    }
}

fn pair(forward: u64, reverse: u64) -> RequestedRates {
    RequestedRates { forward: Rate::from_mbps(forward), reverse: Rate::from_mbps(reverse) }
}

fn is_established(event: &Event) -> bool {
    matches!(event, Event::Established { application: CALL, .. })
}

fn rates(forward: u32, reverse: u32) -> Rates {
    Rates { forward: forward * 1_000_000, reverse: reverse * 1_000_000 }
}

/// After one round trip of 6 ms and the time on the links both directions are reserved; h2 has only answered a ping.
#[test]
fn one_loop_reserves_both_ways() {
    for family in [Family::V4, Family::V6] {
        let mut net = net(family);
        net.ask(CALL, 4_000, pair(3, 1));
        let (took, event) = net.await_event(5, is_established).expect("an answer");
        assert!(took < Duration::from_millis(8), "{took:?}");
        let expected = rates(3, 1);
        assert!(
            matches!(event, Event::Established { rates, confirmed: true, .. } if rates == expected),
            "{event:?}"
        );
        // h2 itself reserves nothing: on link 1 only r2's end has a reservation.
        assert_eq!(net.held(), [[3, 1], [0, 3], [3, 1], [0, 0], [0, 0]]);
        books_are_right(&net.bench.network);
        net.run(300);
        assert_eq!(net.held(), [[3, 1], [0, 3], [3, 1], [0, 0], [0, 0]], "refreshes keep it");
        net.command(Command::Release { application: CALL });
        net.await_event(5, |event| matches!(event, Event::Released { .. })).expect("the end");
        net.nothing_is_held();
    }
}

/// The reverse rate is reserved on the path of the reverse packets.
#[test]
fn each_direction_is_reserved_on_its_path() {
    let mut net = net(Family::V4);
    net.send_home_by_r3();
    net.ask(CALL, 4_000, pair(3, 1));
    net.await_event(5, is_established).expect("an answer");
    assert_eq!(net.held(), [[3, 1], [0, 3], [3, 0], [0, 1], [0, 1]]);
    books_are_right(&net.bench.network);
    net.command(Command::Release { application: CALL });
    net.run(1);
    net.nothing_is_held();
}

/// A refusal further down returns an offer. Nodes before the refusal keep their reservations until the offer is taken;
/// nothing of the first call changes.
#[test]
fn refusal_returns_an_acceptable_offer() {
    let mut net = net(Family::V4);
    // Another host has 8 of 10 Mbit/s from r2 to h2, on another path than h1's.
    let other = Application(9);
    let flow =
        Flow { source: Some(net.address(3, 1)), destination: net.address(1, 0), ..net.flow() };
    let request = Request::new(flow.destination, Selector::of_flow(&flow), pair(8, 0));
    let command = Command::Reserve { application: other, request };
    net.bench.network.command(net.r3, NodeCommand::Boomerang(command));
    net.run(1);
    let before = net.held();
    net.ask_and(CALL, 4_000, pair(5, 1), OnRefusal::TakeOffer);
    let refused = |event: &Event| matches!(event, Event::Refused { .. });
    let (_, event) = net.await_event(1, refused).expect("a refusal");
    let expected = rates(2, 1);
    assert!(
        matches!(event, Event::Refused { offer, reaction: OnRefusal::TakeOffer, .. } if offer == expected),
        "{event:?}"
    );
    let (_, event) = net.await_event(1, is_established).expect("the offer was taken");
    assert!(matches!(event, Event::Established { rates, .. } if rates == expected), "{event:?}");
    assert_eq!(net.held()[0..3], [[2, 1], [0, 10], [2, 1]]);
    books_are_right(&net.bench.network);
    net.command(Command::Release { application: CALL });
    net.run(1);
    assert_eq!(net.held(), before);
}

/// Of all messages on two links a third is lost, duplicated or late. The loop is repeated until it is complete; a
/// reservation stays, and ends in time.
#[test]
fn lost_messages_are_repeated() {
    let mut net = net(Family::V4);
    let bad =
        Faults { loss: 0.3, duplication: 0.2, corruption: 0.05, jitter: Duration::from_millis(20) };
    for link in [0, 2] {
        let (node, interface) = net.bench.links[link].ends[0];
        net.bench.network.set_faults(node, interface, bad);
    }
    net.ask(CALL, 4_000, pair(3, 1));
    net.await_event(60, is_established).expect("an answer in the end");
    for _ in 0..60 {
        net.run(5);
        books_are_right(&net.bench.network);
        let held = net.held();
        assert!(held.iter().flatten().all(|&rate| [0, 1, 3].contains(&rate)), "{held:?}");
    }
    net.command(Command::Release { application: CALL });
    // The release is repeated, too; nodes that did not receive it time out.
    net.run(60);
    net.nothing_is_held();
}

/// After a change of the route, the next message reserves the new path, and releases the old one, or that times out.
#[test]
fn the_reservation_follows_the_route() {
    let mut net = net(Family::V4);
    net.ask(CALL, 4_000, pair(3, 1));
    net.await_event(5, is_established).expect("an answer");
    let (node, interface) = net.bench.links[2].ends[0];
    net.bench.network.set_link_up(node, interface, false);
    for (router, link, side, to) in
        [(net.r1, 3, 0, net.address(1, 0)), (net.r2, 4, 1, net.address(0, 0))]
    {
        let link = net.bench.links[link];
        let hop = Hop {
            interface: link.ends[side].1,
            gateway: Some(link.addresses[1 - side]),
            source: None,
        };
        let route = Route { prefix: Prefix::host(to), metric: 0, hop };
        net.bench.network.add_route(router, route);
    }
    net.run(60);
    // Link 3 connects r1 and r3, link 4 r3 and r2.
    assert_eq!(net.held(), [[3, 1], [0, 3], [0, 0], [3, 1], [3, 1]]);
    books_are_right(&net.bench.network);
    net.command(Command::Release { application: CALL });
    net.run(2);
    net.nothing_is_held();
}

/// State without refresh for three intervals is removed everywhere.
#[test]
fn nothing_outlives_its_initiating_node() {
    let mut net = net(Family::V4);
    net.ask(CALL, 4_000, pair(3, 1));
    net.await_event(5, is_established).expect("an answer");
    net.bench.network.kill(net.h1);
    net.run(12);
    assert_eq!(net.held()[2], [3, 1], "not yet");
    net.run(20);
    net.bench.network.restart(net.h1, Duration::from_secs(1));
    net.run(5);
    net.nothing_is_held();
    let expired = net.bench.network.log().iter().filter(|entry| {
        matches!(
            entry.what,
            LogEvent::Event(NodeEvent::Boomerang(Event::Reservation {
                change: Change::Expired,
                ..
            }))
        )
    });
    assert_eq!(expired.count(), 4, "r1 and r2, both ways");
}

/// A router without Earmark forwards the messages, but holds no reservation.
#[test]
fn routers_without_boomerang_just_forward() {
    let mut net = net(Family::V4);
    net.bench.network.kill(net.r1);
    net.ask(CALL, 4_000, pair(3, 1));
    net.await_event(5, is_established).expect("an answer");
    assert_eq!(net.held()[0..3], [[3, 0], [0, 3], [0, 1]]);
}

/// Two runs with the same calls have equal logs, entry by entry.
#[test]
fn same_seed_gives_the_same_log() {
    let story = || {
        let mut net = net(Family::V4);
        net.ask(CALL, 4_000, pair(3, 1));
        net.ask(Application(2), 4_001, pair(8, 1));
        net.run(100);
        assert!(net.bench.network.now() > Time::ZERO);
        serde_json::to_string(net.bench.network.log()).expect("a log")
    };
    assert_eq!(story(), story());
}
