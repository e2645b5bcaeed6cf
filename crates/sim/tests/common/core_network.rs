//! RSVP flows across a core that reserves one aggregate for them.
//!
//! ```text
//!   h1 --0-- e1 --1-- c1 --2-- c2 --3-- e2 --4-- h2
//! ```

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::time::Duration;

use earmark_core::Rate;
use earmark_node::{
    Across, AggregateChange, AggregateRow, Border, Command, CoreProtocol, Event, Listen, NodeConfig,
};
use earmark_rsvp::{self as rsvp, Application};
use earmark_sim::{LogEvent, NodeId};
use earmark_wire::intserv::TokenBucket;
use earmark_wire::rsvp::{FilterSpec, Session, SourceSelector};

use crate::common::{Bench, Family};

/// Rate of a flow.
pub(crate) const FLOW: Rate = Rate::from_bps(64_000);
/// Step of the aggregate.
pub(crate) const STEP: Rate = Rate::from_mbps(4);

/// The network, and its nodes.
pub(crate) struct CoreNetwork {
    pub(crate) bench: Bench,
    pub(crate) h1: NodeId,
    pub(crate) e1: NodeId,
    pub(crate) c1: NodeId,
    #[allow(dead_code, reason = "not every network has it")]
    pub(crate) c2: NodeId,
    pub(crate) e2: NodeId,
    pub(crate) h2: NodeId,
}

/// Returns the settings of an aggregate from e1 to e2, for the flows to h2.
pub(crate) fn across(family: Family, by: CoreProtocol) -> Across {
    let (to, range) = match family {
        Family::V4 => ("10.0.3.2", "10.0.4.0/24"),
        Family::V6 => ("2001:db8:3::2", "2001:db8:4::/48"),
    };
    Across {
        to: to.parse().expect("an address"),
        range: range.parse().expect("a prefix"),
        by,
        step: STEP,
        lowest: Rate::ZERO,
        highest: Rate::from_mbps(200),
        margin: Rate::ZERO,
        shrink_after: Duration::from_secs(20),
        patience: Duration::from_secs(2),
        waiting: 1_000,
        pause: Duration::from_secs(5),
        recover: Duration::from_secs(5),
    }
}

impl CoreNetwork {
    /// Creates the network; `near` and `far` are the borders of e1 and e2, which hide the messages of the flows. All links have
    /// 1 Gbit/s except the one in the core.
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn new(
        family: Family,
        core: Rate,
        plain: &NodeConfig,
        [near, far]: [Border; 2],
    ) -> CoreNetwork {
        let mut bench = Bench::with(5, family, plain.clone());
        let border = |name: &str, border: Border| {
            let borders = [(name.into(), Border { hide: true, ..border })].into();
            NodeConfig { borders, ..plain.clone() }
        };
        let speed = Rate::from_mbps(1_000);
        let e1 = bench.router_with("e1", border("link1", near));
        let [c1, c2] = ["c1", "c2"].map(|name| bench.router(name));
        let e2 = bench.router_with("e2", border("link3", far));
        let (h1, _) = bench.host("h1", e1, speed);
        for (a, b, speed) in [(e1, c1, speed), (c1, c2, core), (c2, e2, speed)] {
            bench.connect(a, b, speed);
        }
        let (h2, _) = bench.host("h2", e2, speed);
        bench.route();
        CoreNetwork { bench, h1, e1, c1, c2, e2, h2 }
    }

    /// Returns the address of a side of a link.
    pub(crate) fn address(&self, link: usize, side: usize) -> IpAddr {
        self.bench.links[link].addresses[side]
    }

    /// Starts a flow from h1 to h2, reserved by the receiver; `number` is its port.
    pub(crate) fn begin(&mut self, number: u16, rate: Rate) {
        let session =
            Session { destination: self.address(4, 0), protocol: 17, flags: 0, port: number };
        let (source, application) = (self.address(0, 0), Application(number.into()));
        let network = &mut self.bench.network;
        network.command(self.h2, Command::Listen(Listen::new(application, session)));
        network.command(self.h1, Command::Rsvp(rsvp::Command::Session { application, session }));
        let template = FilterSpec { source, selector: SourceSelector::Port(number) };
        let tspec = TokenBucket {
            rate: rate.as_octets_per_second(),
            depth: 2_000.0,
            peak: f32::INFINITY,
            min_policed_unit: 100,
            max_packet_size: 1_000,
        };
        let send = rsvp::Command::Sender { application, template, tspec, ttl: 64 };
        network.command(self.h1, Command::Rsvp(send));
    }

    /// Starts flows of [`FLOW`], one after the other, and waits until they are reserved.
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn begin_all(&mut self, flows: u16) {
        for number in 1..=flows {
            self.begin(number, FLOW);
            self.run(Duration::from_millis(20));
        }
        self.seconds(3);
    }

    /// Ends a flow at both ends.
    pub(crate) fn end(&mut self, number: u16) {
        let application = Application(number.into());
        for node in [self.h1, self.h2] {
            let release = rsvp::Command::Release { application };
            self.bench.network.command(node, Command::Rsvp(release));
        }
    }

    /// Flows begin and end by these moves: number, whether it begins, its rate in units of 300 kbit/s, and the milliseconds until
    /// the next move. `check` looks at the network every 5 ms. All flows end after the last move.
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn come_and_go(
        &mut self,
        moves: Vec<(u16, bool, u64, u64)>,
        check: impl Fn(&CoreNetwork),
    ) {
        let mut there = BTreeSet::new();
        for (number, begins, rate, pause) in moves {
            if begins && there.insert(number) {
                self.begin(number, Rate::from_bps(rate * 300_000));
            } else if !begins && there.remove(&number) {
                self.end(number);
            }
            let until = self.bench.network.now() + Duration::from_millis(pause);
            check(self);
            while self.bench.network.now() < until {
                let next = self.bench.network.now() + Duration::from_millis(5);
                self.bench.network.run_until(next.min(until));
                check(self);
            }
        }
        there.into_iter().for_each(|number| self.end(number));
    }

    pub(crate) fn run(&mut self, time: Duration) {
        let until = self.bench.network.now() + time;
        self.bench.network.run_until(until);
    }

    pub(crate) fn seconds(&mut self, seconds: u64) {
        self.run(Duration::from_secs(seconds));
    }

    /// Kills the daemon of a node, starts another one, and waits until state has returned.
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn restart(&mut self, node: NodeId) {
        self.bench.network.kill(node);
        self.seconds(5);
        self.bench.network.restart(node, Duration::from_secs(60));
        self.seconds(60);
    }

    /// Returns the numbers of sessions, senders and reservations by RSVP at a node.
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn population(&self, node: NodeId) -> (usize, usize, usize) {
        let node = self.bench.network.node(node).expect("it lives");
        node.engine::<rsvp::Rsvp>().expect("a node with RSVP").population()
    }

    pub(crate) fn aggregate(&self) -> AggregateRow {
        let node = self.bench.network.node(self.e1).expect("it lives");
        node.aggregate_rows().next().expect("there is one")
    }

    /// Returns what a node holds of a link towards e2.
    pub(crate) fn held(&self, node: NodeId, link: usize) -> Rate {
        let interface = self.bench.links[link].ends[0].1;
        let node = self.bench.network.node(node).expect("it lives");
        node.ledger().link(interface).expect("a link").held
    }

    /// Asserts that the flows have no more than the aggregate, and that traffic control of the edge has a class for each flow and
    /// none for the aggregate. Returns the aggregate.
    #[allow(dead_code, reason = "not every test needs it")]
    pub(crate) fn check_edge(&self) -> AggregateRow {
        let row = self.aggregate();
        assert!(row.granted_bps >= row.need_bps, "{row:?}");
        let network = &self.bench.network;
        let classes = network.traffic_control(self.e1).map(|(_, reserved)| reserved.demand.rate);
        assert_eq!(classes.fold(Rate::ZERO, |sum, rate| sum + rate), row.need_bps, "{row:?}");
        assert_eq!(network.traffic_control(self.e1).count(), row.members as usize);
        row
    }

    /// Returns the changes of the aggregate, with its rate afterwards, Mbit/s.
    pub(crate) fn changes(&self) -> Vec<(AggregateChange, u64)> {
        let told = self.bench.network.log().iter().filter_map(|entry| match &entry.what {
            LogEvent::Event(Event::Aggregate { change, granted, .. }) => {
                Some((*change, granted.as_bps() / 1_000_000))
            }
            _ => None,
        });
        told.collect()
    }
}
