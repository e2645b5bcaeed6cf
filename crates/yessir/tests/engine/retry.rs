//! Resource grabbing compared with the published loop (Pan and Schulzrinne, *Lightweight Resource Reservation
//! Signaling*, sections 2.4 and 2.5).
//!
//! The model below is that pseudo-code, with its open points settled as follows.
//!
//! - A request that needs exactly the remaining bandwidth fits. The set-up part of the pseudo-code has `<`, the retry
//!   part `<=`; with `<` the last bit of a link could be granted by waiting only.
//! - A flow whose counter is past T is not queued. The pseudo-code queues it, where its loop stops at it for ever and
//!   serves nobody behind it; the text says that such flows are not retried, not that they block.
//! - A flow that asks for more than the capacity of the link is not queued either.
//! - Refreshes try again and are not counted, as in the text; a flow in the queue keeps its position.
//! - A flow that asks for more than it holds waits for the difference.

use std::collections::BTreeMap;

use earmark_core::admission::{Discipline, RetryPolicy};
use earmark_wire::intserv::{FlowSpec, TokenBucket};
use earmark_wire::yessir::Flowspec;
use earmark_yessir::{Change, Event};
use proptest::prelude::*;

use crate::common::{Ask, DOWN, Node, mbps};

/// Reservable bandwidth, Mbit/s.
const ALL: u64 = 5;

#[derive(Clone, Copy, Debug, Default)]
struct Flow {
    /// Requested bandwidth, Mbit/s.
    wants: u64,
    holds: u64,
    /// The counter c.
    count: u32,
}

/// The published pseudo-code.
#[derive(Default)]
struct Model {
    /// Free bandwidth, the B of the paper.
    free: u64,
    threshold: u32,
    flows: BTreeMap<u16, Flow>,
    /// The queue Q.
    queue: Vec<u16>,
}

impl Model {
    fn new(threshold: u32) -> Model {
        Model { free: ALL, threshold, ..Model::default() }
    }

    /// Handles a set-up, a change, or a refresh.
    fn request(&mut self, number: u16, wants: u64) {
        let flow = self.flows.entry(number).or_default();
        flow.wants = wants;
        if wants <= flow.holds + self.free {
            self.free = self.free + flow.holds - wants;
            flow.holds = wants;
            self.queue.retain(|&other| other != number);
        } else if wants > ALL {
            self.queue.retain(|&other| other != number);
        } else if !self.queue.contains(&number) && flow.count < self.threshold {
            self.queue.push(number);
            flow.count += 1;
        }
        self.retry();
    }

    fn delete(&mut self, number: u16) {
        if let Some(flow) = self.flows.remove(&number) {
            self.free += flow.holds;
        }
        self.queue.retain(|&other| other != number);
        self.retry();
    }

    /// "search through the queue".
    fn retry(&mut self) {
        while let Some(&head) = self.queue.first() {
            let flow = self.flows.get_mut(&head).expect("it waits");
            let lacks = flow.wants - flow.holds;
            if lacks > self.free || flow.count > self.threshold {
                return;
            }
            self.free -= lacks;
            flow.holds = flow.wants;
            self.queue.remove(0);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Request(u16, u64),
    Refresh(u16),
    Delete(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let flow = || 1_u16..=6;
    prop_oneof![
        3 => (flow(), 1..=6_u64).prop_map(|(flow, wants)| Step::Request(flow, wants)),
        2 => flow().prop_map(Step::Refresh),
        2 => flow().prop_map(Step::Delete),
    ]
}

/// Returns a request in small packets, so that only bandwidth counts.
fn wanting(number: u16, wants: u64) -> Ask {
    let bucket = TokenBucket {
        rate: wants as f32 * 125_000.0,
        depth: 5_000.0,
        peak: f32::INFINITY,
        min_policed_unit: 1,
        max_packet_size: 100,
    };
    let flowspec = Some(Flowspec::Intserv(FlowSpec::ControlledLoad(bucket)));
    Ask { flowspec, ..Ask::new(number) }
}

proptest! {
    #[test]
    fn grabbing_agrees_with_published_loop(
        threshold in 0_u32..4,
        steps in prop::collection::vec(step(), 1..60),
    ) {
        let mut node = Node::new();
        node.set_retries(threshold);
        let mut model = Model::new(threshold);
        for step in steps {
            match step {
                Step::Request(flow, wants) => {
                    let notes = node.pass(&wanting(flow, wants).arrival()).notes().len();
                    model.request(flow, wants);
                    // A request refused at first may have been granted from the queue at once.
                    let holds = model.flows[&flow].holds == wants;
                    prop_assert!(holds || notes == 1, "a failure is reported");
                }
                Step::Refresh(flow) => {
                    let Some(known) = model.flows.get(&flow) else { continue };
                    let wants = known.wants;
                    node.pass(&wanting(flow, wants).arrival());
                    model.request(flow, wants);
                }
                Step::Delete(flow) => {
                    node.pass(&wanting(flow, 1).release().arrival());
                    model.delete(flow);
                }
            }
            for number in 1..=6 {
                let expected = model.flows.get(&number);
                let view = node.session(&wanting(number, 1));
                prop_assert_eq!(view.is_some(), expected.is_some());
                let (Some(view), Some(flow)) = (view, expected) else { continue };
                let holds = node.rate_of(&wanting(number, 1).stream().flow()).unwrap_or(0);
                prop_assert_eq!(holds, flow.holds * 1_000_000, "flow {}", number);
                let leg = view.legs[0];
                prop_assert_eq!(leg.waiting, model.queue.contains(&number), "flow {}", number);
                prop_assert_eq!(leg.waits, flow.count, "flow {}", number);
                prop_assert_eq!(leg.full, flow.holds == flow.wants);
            }
            prop_assert_eq!(node.held(DOWN), (ALL - model.free) * 1_000_000);
            prop_assert_eq!(node.ledger.link(DOWN).expect("known").queued as usize, model.queue.len());
        }
        for number in 1..=6 {
            node.pass(&wanting(number, 1).release().arrival());
        }
        prop_assert_eq!((node.held(DOWN), node.engine.session_count()), (0, 0));
    }
}

/// Released bandwidth is granted from the queue at once, not with the next refresh, and the message after that has no
/// note.
#[test]
fn released_bandwidth_is_grabbed_at_once() {
    let mut node = Node::new();
    let (first, second, third) = (Ask::rate(1, 3.0), Ask::rate(2, 4.0), Ask::rate(3, 1.0));
    node.pass(&first.arrival());
    assert_eq!(node.pass(&second.arrival()).notes().len(), 1);
    node.pass(&third.arrival());
    node.take_events();
    node.pass(&first.release().arrival());
    assert_eq!(node.held(DOWN), 5_000_000);
    let events = node.take_events();
    let grabbed = |event: &Event| {
        matches!(event, Event::Reservation { change: Change::Grabbed, stream, .. }
            if *stream == second.stream())
    };
    assert_eq!(events.iter().filter(|event| grabbed(event)).count(), 1, "{events:?}");
    assert_eq!(node.pass(&second.arrival()).notes(), []);
    assert_eq!(node.engine.counters().grabbed, 1);
}

/// On a link that adds 64 octets to each packet, a stream whose packets become smaller waits for what it needs more at the same
/// rate.
#[test]
fn smaller_packets_wait_for_more_of_the_link() {
    let mut node = Node::new();
    node.ledger.set_overhead(DOWN, 64);
    let of = |number, rate, min_policed_unit| {
        let Flowspec::Intserv(FlowSpec::ControlledLoad(bucket)) = mbps(rate) else {
            unreachable!("it is controlled load")
        };
        let bucket = FlowSpec::ControlledLoad(TokenBucket { min_policed_unit, ..bucket });
        Ask { flowspec: Some(Flowspec::Intserv(bucket)), ..Ask::new(number) }
    };
    let (first, second) = (of(1, 2.0, 128), of(2, 1.0, 64));
    node.pass(&first.arrival());
    node.pass(&second.arrival());
    assert_eq!(node.held(DOWN), 5_000_000, "3 and 2 Mbit/s");
    let smaller = of(1, 2.0, 64);
    assert_eq!(node.pass(&smaller.arrival()).notes().len(), 1);
    assert_eq!(node.held(DOWN), 5_000_000);
    assert_eq!(node.engine.counters().refused, 1, "it is not tried before something is released");
    node.pass(&second.release().arrival());
    assert_eq!(node.held(DOWN), 4_000_000);
    assert_eq!(node.pass(&smaller.arrival()).notes(), []);
    assert_eq!(node.engine.counters().grabbed, 1);
}

/// Expiry releases bandwidth like a message.
#[test]
fn expired_bandwidth_is_grabbed() {
    let mut node = Node::new();
    let (first, second) = (Ask::rate(1, 3.0), Ask::rate(2, 4.0));
    node.pass(&first.arrival());
    node.advance(60.0);
    node.pass(&second.arrival());
    node.advance(60.0);
    assert_eq!(node.rate_of(&second.stream().flow()), Some(4_000_000));
}

#[test]
fn first_fit_grants_small_request_first() {
    for (discipline, rate) in
        [(Discipline::HeadOfLine, None), (Discipline::FirstFit, Some(1_000_000))]
    {
        let mut node = Node::new();
        let policy = RetryPolicy { discipline, ..RetryPolicy::default() };
        node.ledger.set_retry_policy(policy);
        node.pass(&Ask::rate(1, 4.0).arrival());
        node.pass(&Ask::rate(2, 1.0).arrival());
        node.pass(&Ask::rate(3, 3.0).arrival());
        let small = Ask::rate(4, 1.0);
        node.pass(&small.arrival());
        node.pass(&Ask::rate(2, 1.0).release().arrival());
        assert_eq!(node.rate_of(&small.stream().flow()), rate, "{discipline:?}");
    }
}

/// A stream that ends while it waits leaves the queue and blocks nobody.
#[test]
fn stream_that_ends_leaves_queue() {
    let mut node = Node::new();
    node.pass(&Ask::rate(1, 3.0).arrival());
    node.pass(&Ask::rate(2, 4.0).arrival());
    let behind = Ask::rate(3, 2.5);
    node.pass(&behind.arrival());
    node.pass(&Ask::rate(2, 4.0).release().arrival());
    assert_eq!(node.held(DOWN), 3_000_000);
    node.pass(&Ask::rate(1, 3.0).release().arrival());
    assert_eq!(node.held(DOWN), 2_500_000);
    assert_eq!(node.ledger.link(DOWN).expect("known").queued, 0);
}

/// The route moves away from the link that the stream waits for.
#[test]
fn rerouted_stream_leaves_queue() {
    let mut node = Node::new();
    node.pass(&Ask::rate(1, 4.0).arrival());
    let ask = Ask { flowspec: Some(mbps(2.0)), ..Ask::new(2) };
    node.pass(&ask.arrival());
    node.set_route("10.9.0.2/32", crate::common::SIDE, 0);
    assert_eq!(node.pass(&ask.arrival()).notes(), []);
    node.pass(&Ask::rate(1, 4.0).release().arrival());
    assert_eq!((node.held(DOWN), node.held(crate::common::SIDE)), (0, 2_000_000));
}
