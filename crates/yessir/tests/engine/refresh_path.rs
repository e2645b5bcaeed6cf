//! The refresh path compared with full processing.
//!
//! Two routers get the same messages, but those of the second have one more word in their sender reports, so that
//! none is recognised as a refresh. Whatever happens, both must hold, send and report the same.

use earmark_core::HostEvent;
use earmark_wire::yessir::{Command as Wire, LinkInfo, Style};
use earmark_yessir::{Counters, SessionView};
use proptest::prelude::*;

use crate::common::{Ask, DOWN, Node, SIDE, Sent, mbps};

#[derive(Clone, Debug)]
enum Step {
    Ask {
        number: u16,
        rate: u8,
        shared: bool,
        interval: u16,
        asks_way: bool,
        ttl: u8,
    },
    /// The last message again.
    Again(u16),
    Command(u16, bool),
    Goodbye(u16),
    Damage(u16),
    Wait(u8),
    Route(bool),
    Fail(prop::sample::Index),
}

fn step() -> impl Strategy<Value = Step> {
    let number = || 1_u16..5;
    prop_oneof![
        4 => (number(), 1_u8..24, prop::bool::weighted(0.2), 1_u16..40, any::<bool>(), 1_u8..66).prop_map(
            |(number, rate, shared, interval, asks_way, ttl)| Step::Ask { number, rate, shared, interval, asks_way, ttl }
        ),
        8 => number().prop_map(Step::Again),
        1 => (number(), any::<bool>()).prop_map(|(number, passive)| Step::Command(number, passive)),
        1 => number().prop_map(Step::Goodbye),
        1 => number().prop_map(Step::Damage),
        3 => (1_u8..40).prop_map(Step::Wait),
        1 => any::<bool>().prop_map(Step::Route),
        1 => any::<prop::sample::Index>().prop_map(Step::Fail),
    ]
}

/// A router, and the last messages of its sources.
struct Side {
    node: Node,
    asks: Vec<Ask>,
    extension: Vec<u8>,
    other_way: bool,
}

impl Side {
    fn new(extension: &[u8]) -> Side {
        let asks = (0..5).map(|number| Ask { extension: extension.into(), ..Ask::new(number) });
        Side {
            node: Node::new(),
            asks: asks.collect(),
            extension: extension.into(),
            other_way: false,
        }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Ask { number, rate, shared, interval, asks_way, ttl } => {
                let mut ask = Ask::new(number);
                ask.extension = self.extension.clone();
                ask.flowspec = Some(mbps(f32::from(rate) / 8.0));
                ask.generic.style = if shared { Style::Shared } else { Style::Individual };
                ask.generic.interval = interval;
                ask.link_info = asks_way.then(|| LinkInfo::unknown(64));
                ask.ttl = ttl;
                self.node.arrive(&ask.arrival());
                self.asks[usize::from(number)] = ask;
            }
            Step::Again(number) => self.node.arrive(&self.asks[usize::from(number)].arrival()),
            Step::Command(number, passive) => {
                let mut ask = self.asks[usize::from(number)].clone();
                ask.generic.command = if passive { Wire::Passive } else { Wire::Release };
                self.node.arrive(&ask.arrival());
            }
            Step::Goodbye(number) => {
                let ask = Ask { goodbye: true, ..self.asks[usize::from(number)].clone() };
                self.node.arrive(&ask.arrival());
            }
            Step::Damage(number) => {
                let mut arrival = self.asks[usize::from(number)].arrival();
                arrival.octets[6] ^= 0x55;
                self.node.arrive(&arrival);
            }
            Step::Wait(seconds) => self.node.advance(f64::from(seconds)),
            Step::Route(other_way) => {
                if other_way != self.other_way {
                    self.other_way = other_way;
                    let prefix = "10.9.0.0/16".parse().expect("a prefix");
                    let hop = earmark_core::Hop { interface: SIDE, gateway: None, source: None };
                    let route = earmark_core::Route { prefix, metric: 1, hop };
                    let changed = if other_way {
                        self.node.routes.insert(route)
                    } else {
                        self.node.routes.remove(&route)
                    };
                    assert!(changed);
                    self.node.host(HostEvent::RouteChanged(prefix));
                }
            }
            Step::Fail(index) => {
                let claims: Vec<_> = self.node.installed.keys().copied().collect();
                if !claims.is_empty() {
                    let claim = *index.get(&claims);
                    let owner = self.node.ledger.owner(claim).expect("ours");
                    self.node.host(HostEvent::TrafficControlRefused { claim, owner, errno: 1 });
                }
            }
        }
    }

    fn sessions(&self) -> Vec<SessionView> {
        self.asks.iter().filter_map(|ask| self.node.session(ask)).collect()
    }
}

/// Returns what a message contains, without the additional word.
fn contents(sent: &Sent) -> String {
    let packet = earmark_wire::udp::Packet::parse(&sent.octets).expect("UDP");
    let checksum = packet.verify(sent.how.source, sent.how.destination);
    let report = earmark_wire::yessir::Report::parse(packet.payload).expect("a report");
    let message = report.message.expect("a message").0;
    format!("{:?} {checksum:?} {message:?}", sent.how)
}

proptest! {
    #[test]
    fn refresh_path_equals_full_processing(steps in prop::collection::vec(step(), 1..80)) {
        let mut usual = Side::new(&[]);
        let mut long = Side::new(&[0; 4]);
        for step in &steps {
            usual.take(step);
            long.take(step);
            prop_assert_eq!(usual.sessions(), long.sessions(), "{:?}", step);
            for link in [DOWN, SIDE] {
                prop_assert_eq!(usual.node.held(link), long.node.held(link));
            }
            prop_assert_eq!(&usual.node.installed, &long.node.installed);
            prop_assert_eq!(usual.node.take_events(), long.node.take_events());
            let (one, other) = (std::mem::take(&mut usual.node.sent), std::mem::take(&mut long.node.sent));
            prop_assert_eq!(one.iter().map(contents).collect::<Vec<_>>(), other.iter().map(contents).collect::<Vec<_>>());
            let counted = |node: &Node| Counters { malformed: Default::default(), ..node.engine.counters().clone() };
            prop_assert_eq!(counted(&usual.node), counted(&long.node));
        }
    }
}
