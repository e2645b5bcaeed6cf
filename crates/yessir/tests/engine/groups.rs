//! Streams to groups, and senders that share.

use earmark_core::{Flow, MulticastRoute};
use earmark_wire::yessir::Style;
use earmark_yessir::{Config, DropReason, Event, Limits};
use proptest::prelude::*;

use crate::common::{Ask, DOWN, Node, SIDE, UP, address, mbps};

const GROUP: &str = "239.1.2.3";

fn grouped() -> Node {
    let mut node = Node::new();
    route(&mut node, &[DOWN, SIDE]);
    node
}

fn route(node: &mut Node, outgoing: &[earmark_core::InterfaceId]) {
    node.routes.insert_multicast(MulticastRoute {
        source: None,
        group: address(GROUP),
        incoming: Some(UP),
        outgoing: outgoing.to_vec(),
    });
}

/// Returns a request of sender `number` to the group.
fn ask(number: u16, rate: f32, style: Style) -> Ask {
    let mut ask = Ask { destination: address(GROUP), ..Ask::rate(number, rate) };
    ask.generic.style = style;
    ask
}

fn shared_flow() -> Flow {
    Flow { source: None, source_port: 0, ..ask(1, 1.0, Style::Shared).stream().flow() }
}

#[test]
fn each_branch_reserves_with_own_notes() {
    let mut node = grouped();
    node.set_route("10.9.7.7/32", SIDE, 0);
    let elsewhere = Ask { destination: address("10.9.7.7"), ..Ask::rate(9, 4.5) };
    node.pass(&elsewhere.arrival());
    node.arrive(&ask(1, 1.0, Style::Individual).arrival());
    let notes: Vec<_> =
        node.sent.iter().map(|sent| (sent.how.interface, sent.notes().len())).collect();
    assert_eq!(notes, [(Some(DOWN), 0), (Some(SIDE), 1)]);
    assert_eq!((node.held(DOWN), node.held(SIDE)), (1_000_000, 4_500_000));
    node.arrive(&elsewhere.release().arrival());
    assert_eq!(node.held(SIDE), 1_000_000, "a branch grabs like any other leg");
}

#[test]
fn branches_follow_multicast_tree() {
    let mut node = grouped();
    let ask = ask(1, 1.0, Style::Individual);
    node.arrive(&ask.arrival());
    route(&mut node, &[SIDE]);
    node.arrive(&ask.arrival());
    assert_eq!((node.held(DOWN), node.held(SIDE)), (0, 1_000_000));
    route(&mut node, &[]);
    node.sent.clear();
    node.arrive(&ask.arrival());
    assert_eq!((node.held(DOWN), node.held(SIDE), node.sent.len()), (0, 0, 0));
    let mut astray = ask.arrival();
    astray.interface = SIDE;
    node.take_events();
    node.arrive(&astray);
    let events = node.take_events();
    let reason = DropReason::WrongInterface;
    assert!(matches!(events[..], [Event::Ignored { reason: why, .. }] if why == reason));
}

#[test]
fn branch_over_limit_is_refused() {
    let limits = Limits { branches: 1, ..Limits::default() };
    let mut node = Node::with(Config { limits, ..Config::default() });
    route(&mut node, &[DOWN, SIDE]);
    node.arrive(&ask(1, 1.0, Style::Individual).arrival());
    assert_eq!(node.sent.len(), 2);
    assert_eq!(node.installed.len(), 1);
}

/// The merged demand is the largest, not the sum.
#[test]
fn shared_style_holds_largest_request() {
    let mut node = grouped();
    for (number, rate) in [(1, 1.0), (2, 3.0), (3, 2.0)] {
        node.arrive(&ask(number, rate, Style::Shared).arrival());
    }
    assert_eq!(node.installed.len(), 2, "one a link");
    assert_eq!((node.held(DOWN), node.held(SIDE)), (3_000_000, 3_000_000));
    assert!(node.installed.values().all(|installation| installation.flow == shared_flow()));
    node.arrive(&ask(2, 3.0, Style::Shared).release().arrival());
    assert_eq!(node.held(DOWN), 2_000_000);
    node.arrive(&ask(3, 0.5, Style::Shared).arrival());
    assert_eq!(node.held(DOWN), 1_000_000, "who asks for less leaves the others theirs");
    for number in [1, 3] {
        node.arrive(&ask(number, 1.0, Style::Shared).release().arrival());
    }
    assert_eq!((node.held(DOWN), node.held(SIDE), node.engine.session_count()), (0, 0, 0));
}

/// A sender whose own request is covered has not failed because another's is not.
#[test]
fn failure_note_is_for_uncovered_sender_only() {
    let mut node = grouped();
    node.arrive(&ask(1, 4.0, Style::Shared).arrival());
    node.sent.clear();
    node.arrive(&ask(2, 6.0, Style::Shared).arrival());
    assert!(node.sent.iter().all(|sent| sent.notes().len() == 1));
    node.sent.clear();
    node.arrive(&ask(1, 4.0, Style::Shared).arrival());
    assert!(node.sent.iter().all(|sent| sent.notes().is_empty()));
    assert_eq!(node.held(DOWN), 4_000_000);
}

#[test]
fn pool_increase_waits_for_bandwidth() {
    let mut node = grouped();
    let other = Ask::rate(9, 3.0);
    node.arrive(&other.arrival());
    node.arrive(&ask(1, 1.0, Style::Shared).arrival());
    node.arrive(&ask(2, 4.0, Style::Shared).arrival());
    assert_eq!((node.held(DOWN), node.held(SIDE)), (4_000_000, 4_000_000));
    node.arrive(&other.release().arrival());
    assert_eq!(node.held(DOWN), 4_000_000);
    assert_eq!(node.rate_of_on(&shared_flow(), DOWN), Some(4_000_000));
}

#[test]
fn style_change_counts_sender_once() {
    let mut node = grouped();
    node.arrive(&ask(1, 1.0, Style::Shared).arrival());
    node.arrive(&ask(2, 2.0, Style::Shared).arrival());
    node.arrive(&ask(2, 2.0, Style::Individual).arrival());
    assert_eq!(node.held(DOWN), 3_000_000);
    node.arrive(&ask(2, 2.0, Style::Shared).arrival());
    assert_eq!(node.held(DOWN), 2_000_000);
    node.advance(200.0);
    assert_eq!((node.held(DOWN), node.engine.session_count()), (0, 0));
}

#[test]
fn sharer_over_limit_is_refused() {
    let limits = Limits { sharers: 2, ..Limits::default() };
    let mut node = Node::with(Config { limits, ..Config::default() });
    route(&mut node, &[DOWN]);
    for number in 1..=3 {
        node.arrive(&ask(number, 1.0, Style::Shared).arrival());
    }
    let notes: Vec<usize> = node.sent.iter().map(|sent| sent.notes().len()).collect();
    assert_eq!((notes, node.engine.session_count()), (vec![0, 0, 1], 2));
}

#[derive(Clone, Debug)]
enum Step {
    Ask { number: u16, rate: u16, shared: bool },
    Release(u16),
    Tree(Vec<bool>),
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1_u16..6, 1_u16..16, any::<bool>())
            .prop_map(|(number, rate, shared)| Step::Ask { number, rate, shared }),
        1 => (1_u16..6).prop_map(Step::Release),
        1 => prop::collection::vec(any::<bool>(), 2).prop_map(Step::Tree),
        1 => Just(Step::Wait),
    ]
}

/// State of a sender in the reference model.
#[derive(Clone, Debug)]
struct Known {
    rate: u16,
    shared: bool,
    /// Links of its last message.
    on: Vec<earmark_core::InterfaceId>,
    heard: u32,
}

proptest! {
    /// Everything fits, so the held bandwidth is the sum over individual senders and the largest of sharing ones.
    #[test]
    fn styles_agree_with_model(steps in prop::collection::vec(step(), 1..60)) {
        let mut node = grouped();
        for link in [DOWN, SIDE] {
            node.set_link(link, &["10.0.9.1"], 10);
        }
        let mut tree = vec![DOWN, SIDE];
        let mut known = std::collections::BTreeMap::<u16, Known>::new();
        let mut clock = 0;
        for step in steps {
            match step {
                Step::Ask { number, rate, shared } => {
                    let style = if shared { Style::Shared } else { Style::Individual };
                    let ask = Ask { flowspec: Some(mbps(f32::from(rate) / 16.0)), ..ask(number, 0.0, style) };
                    node.arrive(&ask.arrival());
                    known.insert(number, Known { rate, shared, on: tree.clone(), heard: clock });
                }
                Step::Release(number) => {
                    node.arrive(&ask(number, 1.0, Style::Shared).release().arrival());
                    known.remove(&number);
                }
                Step::Tree(branches) => {
                    tree = [DOWN, SIDE].into_iter().zip(branches).filter(|(_, on)| *on).map(|(link, _)| link).collect();
                    route(&mut node, &tree);
                }
                Step::Wait => {
                    node.advance(50.0);
                    clock += 50;
                    known.retain(|_, known| clock - known.heard < 117);
                }
            }
            for link in [DOWN, SIDE] {
                let here = known.values().filter(|known| known.on.contains(&link));
                let (shared, alone): (Vec<&Known>, Vec<&Known>) = here.partition(|known| known.shared);
                let largest = shared.iter().map(|known| known.rate).max().unwrap_or(0);
                let sum: u16 = alone.iter().map(|known| known.rate).sum();
                prop_assert_eq!(node.held(link), u64::from(largest + sum) * 62_500);
            }
            prop_assert_eq!(node.engine.session_count(), known.len());
        }
        node.advance(200.0);
        prop_assert_eq!((node.held(DOWN), node.held(SIDE), node.engine.session_count()), (0, 0, 0));
    }
}
