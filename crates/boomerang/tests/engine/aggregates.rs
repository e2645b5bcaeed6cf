//! Aggregates: a node that makes them, and the downstream node, which keeps aggregates only.
//!
//! ```text
//!   flows ----> [ maker ] ----> [ keeper ] ----> 10.0.9.9
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use earmark_boomerang::{AggregateRule, Change, Command, Config, Event, Selector};
use earmark_core::admission::ClaimId;
use earmark_core::{Prefix, Rate};
use earmark_wire::boomerang::iana::aggregation_flag::{LEAVES, RAISES};
use earmark_wire::boomerang::{Aggregation, OptionItem, Rates, Shape};
use earmark_wire::icmp::Kind;

use crate::common::*;

/// All UDP to one host.
fn rule(step: u64) -> AggregateRule {
    let selector = Selector {
        source: prefix("0.0.0.0/0"),
        destination: Prefix::host(ip(FAR)),
        protocol: Some(17),
        source_port: None,
        destination_port: None,
    };
    AggregateRule { name: "core".into(), selector, step: Rate::from_bps(step * 1_000) }
}

struct Core {
    maker: Bench,
    keeper: Bench,
    /// Traffic control of the keeper: ports of flows, 0 for the aggregate, kbit/s.
    installed: BTreeMap<ClaimId, (u16, u64)>,
}

fn core(rules: Vec<AggregateRule>) -> Core {
    Core {
        maker: with_config(Config { aggregates: rules, ..Config::default() }),
        keeper: with_config(Config { aggregate_only: true, ..Config::default() }),
        installed: BTreeMap::new(),
    }
}

impl Core {
    fn set_rules(&mut self, rules: &[AggregateRule]) {
        assert_eq!(self.maker.command(Command::Aggregate { rules: rules.to_vec() }), []);
    }

    /// Sends one message through both nodes and back. Returns what the initiating node receives.
    fn loop_(&mut self, message: &Message) -> Message {
        let between = one(&self.maker.passes(message));
        let outcomes = self.keeper.passes(&between);
        self.follow(&outcomes);
        let out = one(&outcomes);
        let back = self.keeper.passes(&out.back());
        self.follow(&back);
        one(&self.maker.passes(&one(&back)))
    }

    fn reserve(&mut self, port: u16, kbps: u32) -> bool {
        !self.loop_(&message(port, kbit(kbps, 0))).is_nack()
    }

    /// Follows the effects one by one, so that a moment without a reservation would show.
    fn follow(&mut self, outcomes: &[Outcome]) {
        for outcome in outcomes {
            match outcome {
                Outcome::Installed(i) => {
                    let rate = i.demand.rate.as_bps() / 1_000;
                    self.installed.insert(i.claim, (i.flow.source_port, rate));
                }
                Outcome::Removed(claim) => {
                    assert!(self.installed.remove(claim).is_some(), "it was never there");
                }
                _ => {}
            }
        }
    }

    /// Returns what the keeper has installed: by port, 0 for the aggregate.
    fn kept(&self) -> Vec<(u16, u64)> {
        let mut kept: Vec<_> = self.installed.values().copied().collect();
        kept.sort_unstable();
        kept
    }
}

fn notes(message: &Message) -> Vec<Aggregation> {
    let notes = message.options.iter().filter_map(|option| match option {
        OptionItem::Aggregation(note) => Some(*note),
        _ => None,
    });
    notes.collect()
}

#[test]
fn aggregating_node_appends_note_with_total() {
    let mut maker = with_config(Config { aggregates: vec![rule(0)], ..Config::default() });
    let first = one(&maker.passes(&message(1, kbit(1_000, 0))));
    let [note] = notes(&first)[..] else { panic!("{first:?}") };
    assert_eq!((note.rate, note.node, note.flags.0), (1_000_000, ip("10.0.2.1"), RAISES));
    assert_eq!(note.classifier.destination, ip(FAR));
    assert_eq!(note.shape().map(|shape| (shape.source, shape.destination)), Some((0, 32)));
    let note = |message: &Message| notes(message)[0];
    let second = note(&one(&maker.passes(&message(2, kbit(500, 0)))));
    assert_eq!((second.rate, second.flags.0), (1_500_000, RAISES));
    let refresh = note(&one(&maker.passes(&message(1, kbit(1_000, 0)))));
    assert_eq!((refresh.rate, refresh.flags.0), (1_500_000, 0), "it is no news any more");
    let grown = note(&one(&maker.passes(&message(1, kbit(1_200, 0)))));
    assert_eq!((grown.rate, grown.flags.0), (1_700_000, RAISES));
    let released = note(&one(&maker.passes(&message(2, Rates::ZERO))));
    assert_eq!(released.rate, 1_200_000);
    assert_eq!(notes(&one(&maker.passes(&message(3, kbit(9_000, 0))))), [], "refused here");
    maker.pass(Duration::from_secs(100));
    let again = note(&one(&maker.passes(&message(4, kbit(100, 0)))));
    assert_eq!(again.rate, 100_000, "what has expired counts no more");
}

#[test]
fn keeper_holds_one_session_for_all_flows() {
    let mut core = core(vec![rule(0)]);
    for port in 1..=50 {
        assert!(core.reserve(port, 100));
    }
    assert_eq!(core.keeper.engine.population(), (1, 0));
    assert_eq!(core.maker.engine.population(), (50, 0));
    assert_eq!(core.kept(), [(0, 5_000)]);
    // Any of its messages is a refresh of the aggregate.
    for port in 1..=5 {
        core.keeper.pass(Duration::from_secs(60));
        core.maker.pass(Duration::from_secs(15));
        for other in 1..=50 {
            core.maker.passes(&message(other, kbit(100, 0)));
        }
        assert!(core.reserve(port, 100));
    }
    assert_eq!(core.kept(), [(0, 5_000)]);
    for port in 1..=50 {
        core.loop_(&message(port, Rates::ZERO));
        let left = 5_000 - u64::from(port) * 100;
        let expected = if left == 0 { vec![] } else { vec![(0, left)] };
        assert_eq!(core.kept(), expected);
    }
    assert_eq!(core.keeper.engine.population(), (0, 0));
}

/// On a full link, flows are folded into an aggregate and leave it again, and are never unreserved.
#[test]
fn aggregates_form_and_dissolve_while_traffic_flows() {
    let mut core = core(vec![]);
    for port in 1..=5 {
        assert!(core.reserve(port, 1_500));
    }
    assert_eq!(core.keeper.held(ETH2), 7_500);
    let alone: Vec<(u16, u64)> = (1..=5).map(|port| (port, 1_500)).collect();
    assert_eq!(core.kept(), alone);
    core.set_rules(&[rule(0)]);
    for port in 1..=5 {
        assert!(core.reserve(port, 1_500));
        assert_eq!(core.keeper.held(ETH2), 7_500, "the claims go over");
        let folded = u64::from(port);
        assert_eq!(core.kept()[0], (0, folded * 1_500));
        assert_eq!(core.kept().len() as u64, 6 - folded);
    }
    assert_eq!(core.keeper.engine.population(), (1, 0));
    core.set_rules(&[]);
    for round in 0..5 {
        for port in 1..=5 {
            assert!(core.reserve(port, 1_500), "{round} {port}");
            assert_eq!(core.keeper.held(ETH2), 7_500);
        }
        assert_eq!(core.kept(), alone, "{round}");
    }
    let last = one(&core.maker.passes(&message(1, kbit(1_500, 0))));
    assert_eq!(notes(&last), [], "and in the end nobody speaks of it any more");
}

/// Traffic control never receives a decrease first.
#[test]
fn traffic_control_receives_increase_first() {
    let mut core = core(vec![]);
    assert!(core.reserve(1, 1_000));
    core.set_rules(&[rule(0)]);
    let between = one(&core.maker.passes(&message(1, kbit(1_000, 0))));
    let order = |outcomes: &[Outcome]| -> Vec<Option<(u16, u64)>> {
        let each = outcomes.iter().filter_map(|outcome| match outcome {
            Outcome::Installed(i) => {
                Some(Some((i.flow.source_port, i.demand.rate.as_bps() / 1_000)))
            }
            Outcome::Removed(_) => Some(None),
            _ => None,
        });
        each.collect()
    };
    let outcomes = core.keeper.passes(&between);
    assert_eq!(order(&outcomes), [Some((0, 1_000)), None]);
    let folded = |o: &Outcome| {
        matches!(o, Outcome::Event(Event::Reservation { change: Change::Aggregated, .. }))
    };
    assert!(outcomes.iter().any(folded));
    assert!(core.reserve(2, 500));
    core.set_rules(&[]);
    let between = one(&core.maker.passes(&message(2, kbit(500, 0))));
    assert_eq!(notes(&between)[0].flags.0, LEAVES);
    assert_eq!(order(&core.keeper.passes(&between)), [Some((2, 500)), Some((0, 1_000))]);
}

/// A flow for which the aggregate cannot grow is refused by itself; the others are not affected.
#[test]
fn full_aggregate_refuses_only_the_new_flow() {
    let mut core = core(vec![rule(0)]);
    core.keeper.passes(&other(5_000));
    for port in 1..=4 {
        assert!(core.reserve(port, 500));
    }
    assert!(!core.reserve(5, 1_000), "half of it is left");
    for port in 1..=4 {
        assert!(core.reserve(port, 500), "{port}");
    }
    assert_eq!(core.keeper.held(ETH2), 7_000);
    core.loop_(&message(5, Rates::ZERO));
    assert!(core.reserve(6, 500));
    assert_eq!(core.kept(), [(0, 2_500)]);
}

/// A session beside the aggregate: TCP.
fn other(kbps: u32) -> Message {
    let mut other = message(9, kbit(kbps, 0));
    other.classifier.protocol = 6;
    other
}

/// A flow that fits by itself, while the aggregate does not because of its wide steps, is reserved by itself.
#[test]
fn flow_beside_full_aggregate_is_reserved_alone() {
    let mut core = core(vec![rule(4_000)]);
    core.keeper.passes(&other(1_000));
    assert!(core.reserve(1, 3_000));
    assert_eq!(core.kept(), [(0, 4_000)]);
    assert!(core.reserve(2, 2_000), "5 Mbit/s would have to be 8");
    assert_eq!(core.kept(), [(0, 4_000), (2, 2_000)]);
}

#[test]
fn steps_and_hysteresis_damp_aggregate_changes() {
    let mut maker = with_config(Config { aggregates: vec![rule(1_000)], ..Config::default() });
    let mut announced = |port, kbps| {
        let message = one(&maker.passes(&message(port, kbit(kbps, 0))));
        notes(&message)[0].rate / 1_000
    };
    assert_eq!(announced(1, 300), 1_000);
    assert_eq!(announced(2, 600), 1_000);
    assert_eq!(announced(3, 200), 2_000);
    assert_eq!(announced(3, 0), 2_000, "one step of slack is kept");
    assert_eq!(announced(3, 200), 2_000);
    assert_eq!(announced(4, 2_500), 4_000);
    assert_eq!(announced(4, 0), 2_000);
}

/// The reverse direction is each flow's own, and a reply with a note is not a message about the aggregate.
#[test]
fn only_the_forward_direction_is_aggregated() {
    let mut core = core(vec![rule(0)]);
    let back = core.loop_(&message(1, kbit(1_000, 400)));
    assert_eq!(notes(&back).len(), 1, "nobody takes the note out");
    assert_eq!(core.keeper.held_both(), (1_000, 400));
    assert_eq!(core.maker.held_both(), (1_000, 400));
    assert_eq!(core.keeper.engine.population(), (2, 0));
}

/// Nodes that do not heed notes process such a message like any other, and so does a keeper whose traffic control
/// cannot match the mask.
#[test]
fn node_without_aggregation_reserves_each_flow() {
    let mut maker = with_config(Config { aggregates: vec![rule(0)], ..Config::default() });
    let noted = one(&maker.passes(&message(1, kbit(1_000, 0))));
    let mut plain = router();
    assert_eq!(one(&plain.passes(&noted)), noted);
    assert_eq!(plain.engine.sessions().next().map(|s| s.selector.source_port), Some(Some(1)));

    let unclear = Selector {
        destination: prefix("10.0.9.0/24"),
        protocol: Some(17),
        source_port: Some(1),
        destination_port: Some(5_000),
        ..rule(0).selector
    };
    let mut core = core(vec![AggregateRule { selector: unclear, ..rule(0) }]);
    assert!(core.reserve(1, 1_000));
    assert_eq!(core.kept(), [(1, 1_000)]);
}

/// One reservation for all flows to a network.
#[test]
fn aggregate_towards_network_is_reserved() {
    let network = Selector { destination: prefix("10.0.9.0/24"), ..rule(0).selector };
    let mut core = core(vec![AggregateRule { selector: network, ..rule(0) }]);
    assert!(core.reserve(1, 1_000) && core.reserve(2, 500));
    assert_eq!(core.kept(), [(0, 1_500)]);
    assert_eq!(core.keeper.engine.population(), (1, 0));
}

#[test]
fn unknown_option_keeps_flow_out_of_aggregate() {
    let mut maker = with_config(Config { aggregates: vec![rule(0)], ..Config::default() });
    let unknown = OptionItem::Unknown { code: 99, rest: &[1, 2, 3] };
    let strange = Message { options: vec![unknown], ..message(1, kbit(1_000, 0)) };
    assert_eq!(one(&maker.passes(&strange)), strange);
}

#[test]
fn ipv6_message_with_note_has_valid_checksum() {
    let (near, far) = (ip("2001:db8:1::1"), ip("2001:db8:9::9"));
    let selector =
        Selector { source: prefix("::/0"), destination: Prefix::host(far), ..rule(0).selector };
    let rules = vec![AggregateRule { selector, ..rule(0) }];
    let mut core = core(rules);
    for port in [1, 2] {
        let mut loop_ = message(port, kbit(1_000, 0));
        loop_.classifier.source = near;
        loop_.classifier.destination = far;
        loop_.mask = Shape { source: 128, destination: 128, ..loop_.mask };
        assert_eq!(loop_.kind, Kind::Request);
        assert!(!core.loop_(&loop_).is_nack());
    }
    assert_eq!(core.kept(), [(0, 2_000)]);
}
