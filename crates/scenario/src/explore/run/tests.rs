//! Each invariant is seen to be violated.

use earmark_core::Trust;
use earmark_sim::TrafficPattern;

use super::*;

/// A seed whose flows send and get their reservations.
const SEED: u64 = 2;
/// A seed with attackers of any address, and without faults.
const ATTACKED_SEED: u64 = 10;

fn breaks(outcome: &Exploration, invariant: Invariant) -> bool {
    outcome.breaches.iter().any(|breach| breach.invariant == invariant)
}

/// With half of the reservable rate assumed, the network exceeds it.
#[test]
fn exceeded_reservable_rate_is_detected() {
    let mut run = ExplorationRun::new(SEED, &Protocols::default(), false);
    run.reserved_paths.halve_reservable();
    assert!(breaks(&run.play(), Invariant::NothingPromisedTwice));
}

/// Flows that send more than they have reserved lose packets.
#[test]
fn lost_reserved_packets_are_detected() {
    let mut run = ExplorationRun::new(SEED, &Protocols::default(), false);
    for flow in run.flows.iter_mut().filter(|flow| flow.by.is_some()) {
        let rate = earmark_core::Rate::from_bps(4 * flow.request.rate.as_bps());
        flow.pattern = Some(TrafficPattern::Constant(rate));
    }
    assert!(breaks(&run.play(), Invariant::ReservedPacketsArrive));
}

/// Behind interfaces that are trusted as those between routers, attackers take reservations away.
#[test]
fn changed_reservations_are_detected() {
    let mut run = ExplorationRun::new(ATTACKED_SEED, &Protocols::default(), true);
    for &node in &run.nodes {
        let known = run.network.node(node).map(|node| node.interfaces().iter());
        let interfaces: Vec<InterfaceId> = known.into_iter().flatten().map(|it| it.id).collect();
        for interface in interfaces {
            run.network.set_trust(node, interface, Trust::CORE);
        }
    }
    assert!(breaks(&run.play(), Invariant::ReservationsStay));
}

/// Requests that nobody has made are not answered.
#[test]
fn unanswered_requests_are_detected() {
    let mut run = ExplorationRun::new(ATTACKED_SEED, &Protocols::default(), true);
    let honest = run.honest.as_mut().expect("a network without faults");
    run.flows[0].by = None;
    honest.request(&run.flows[0].request, Time::ZERO);
    assert!(breaks(&run.play(), Invariant::RequestsAreAnswered));
}

/// Flows that never end leave state behind.
#[test]
fn remaining_state_is_detected() {
    let mut run = ExplorationRun::new(SEED, &Protocols::default(), false);
    let late = Time::ZERO + random_flows::END + 2 * DRAIN_TIME;
    for flow in &mut run.flows {
        (flow.pattern, flow.ends_at) = (None, late);
    }
    assert!(breaks(&run.play(), Invariant::EmptyInTheEnd));
}
