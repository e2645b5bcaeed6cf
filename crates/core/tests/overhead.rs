//! Overhead of a link: what packets take of it beside the rate of their flow.

mod common;

use common::{flow, owner};
use earmark_core::admission::{
    ClaimId, Demand, Ledger, LinkCapacity, MeasuredSum, MeasurementBased, PreemptionPolicy,
    Priority, QueuedRequest, Reason, Refusal, Service,
};
use earmark_core::{InterfaceId, Prefix, Rate, Time};

const LINK: InterfaceId = InterfaceId(1);
const LANE: InterfaceId = InterfaceId(1_000);

/// Returns a ledger with a link of 120 bit/s that adds 50 octets to each packet.
fn tunnel() -> Ledger {
    let mut ledger = Ledger::new();
    let reservable = Rate::from_bps(120);
    ledger.set_link(LINK, LinkCapacity { bandwidth: Rate::MAX, reservable, mtu: 1_500 });
    ledger.set_overhead(LINK, 50);
    ledger
}

/// Returns the demand of a flow; its packets have at least 100 octets, so that it takes half as much again.
fn demand(bps: u64) -> Demand {
    let rate = Rate::from_bps(bps);
    let service = Service::ControlledLoad;
    Demand { service, rate, burst: 0, max_packet: 1_500, min_packet: 100 }
}

fn claim(ledger: &mut Ledger, block: u32, demand: Demand) -> Result<ClaimId, Refusal> {
    ledger.claim(LINK, owner(block), &flow(block as u16), demand)
}

fn held(ledger: &Ledger) -> u64 {
    ledger.link(LINK).expect("known").held.as_bps()
}

fn refused(bps: u64) -> Refusal {
    Refusal { reason: Reason::Bandwidth, available: Rate::from_bps(bps) }
}

#[test]
fn claims_count_with_the_overhead_and_are_answered_without() {
    let mut ledger = tunnel();
    let first = claim(&mut ledger, 1, demand(40)).expect("fits");
    assert_eq!((held(&ledger), ledger.demand(first)), (60, Some(demand(40))));
    assert_eq!(claim(&mut ledger, 2, demand(41)), Err(refused(40)));
    assert_eq!(ledger.change(first, demand(81)), Err(refused(80)));
    claim(&mut ledger, 2, demand(40)).expect("what is available");
    assert_eq!((held(&ledger), ledger.available(LINK)), (120, Rate::ZERO));
    ledger.release(first);
    // Packets of unknown size count as 64 octets: 60 * 64 / 114.
    assert_eq!((held(&ledger), ledger.available(LINK)), (60, Rate::from_bps(33)));
    let unknown = Demand { min_packet: 0, ..demand(34) };
    assert_eq!(claim(&mut ledger, 3, unknown), Err(refused(33)));
}

/// At the same rate, smaller packets need more, and larger ones less.
#[test]
fn changed_packet_size_changes_the_claim() {
    let mut ledger = tunnel();
    let first = claim(&mut ledger, 1, demand(40)).expect("fits");
    let waiting = QueuedRequest { owner: owner(2), demand: demand(45), refusals: 1 };
    assert_eq!(ledger.enqueue(LINK, waiting), Ok(()));
    assert_eq!(ledger.next_grantable(), None);
    let small = Demand { min_packet: 20, ..demand(40) };
    assert_eq!(ledger.change(first, small), Err(refused(34)));
    let larger = Demand { min_packet: 200, ..demand(40) };
    assert_eq!((ledger.change(first, larger), held(&ledger)), (Ok(()), 50));
    assert_eq!(ledger.next_grantable(), Some((LINK, owner(2))), "10 more are free");
}

#[test]
fn changed_overhead_counts_for_existing_claims() {
    let mut ledger = tunnel();
    claim(&mut ledger, 1, demand(40)).expect("fits");
    ledger.adopt(LINK, flow(9), Rate::from_bps(10), None).expect("fits");
    let queued =
        |block, bps| QueuedRequest { owner: owner(block), demand: demand(bps), refusals: 1 };
    ledger.enqueue(LINK, queued(2, 80)).expect("fits an empty link");
    ledger.enqueue(LINK, queued(3, 60)).expect("fits an empty link");
    // The flow of an earlier daemon keeps its rate: nobody knows its packets.
    ledger.set_overhead(LINK, 100);
    assert_eq!((held(&ledger), ledger.overhead(LINK)), (90, 100));
    assert_eq!(ledger.link(LINK).expect("known").queued, 1, "80 would need 160");
    assert_eq!(claim(&mut ledger, 4, demand(16)), Err(refused(15)));
    // Over the link, existing claims stay.
    ledger.set_overhead(LINK, 300);
    assert_eq!((held(&ledger), ledger.available(LINK)), (170, Rate::ZERO));
    ledger.enqueue(LINK, queued(3, 30)).expect("fits an empty link");
    ledger.set_overhead(LINK, 0);
    assert_eq!((held(&ledger), ledger.available(LINK)), (50, Rate::from_bps(70)));
    assert_eq!(ledger.next_grantable(), Some((LINK, owner(3))));
    ledger.set_overhead(InterfaceId(9), 20);
    assert_eq!(ledger.overhead(InterfaceId(9)), 0, "unknown");
}

/// One claim is limited by the rate of its flow.
#[test]
fn largest_claim_is_that_of_the_flow() {
    let mut ledger = tunnel();
    ledger.set_largest(LINK, Some(Rate::from_bps(40)));
    assert_eq!(claim(&mut ledger, 1, demand(41)), Err(refused(40)));
    claim(&mut ledger, 1, demand(40)).expect("60 of the link");
}

/// The displaced claim keeps what the new one does not take of the link, as a rate of its own packets.
#[test]
fn displaced_claim_keeps_the_rest_of_the_link() {
    let mut ledger = tunnel();
    ledger.set_preemption(Some(PreemptionPolicy { partial: true }));
    let small = Demand { min_packet: 50, ..demand(60) };
    let weak = claim(&mut ledger, 1, small).expect("takes 120");
    let priority = Priority::new(5, 5);
    let strong = ledger.claim_with_priority(LINK, owner(2), &flow(2), demand(20), priority);
    assert!(strong.is_ok(), "takes 30");
    let displaced = ledger.next_displaced().map(|displaced| displaced.kept.as_bps());
    assert_eq!((displaced, held(&ledger)), (Some(45), 120), "45 take 90");
    assert_eq!(ledger.demand(weak).map(|demand| demand.rate.as_bps()), Some(45));
    let refusal = ledger.claim_with_priority(LINK, owner(3), &flow(3), demand(81), priority);
    assert_eq!(refusal, Err(refused(60)), "30 belong to an equal");
}

/// What is measured has the overhead, too.
#[test]
fn measured_load_is_compared_with_the_rate_on_the_link() {
    let mut ledger = tunnel();
    let parameters = MeasuredSum { target: 1.0, ..MeasuredSum::default() };
    ledger.set_admission(LINK, Box::new(MeasurementBased::new(parameters)));
    claim(&mut ledger, 1, demand(80)).expect("takes 120");
    assert_eq!(claim(&mut ledger, 2, demand(1)), Err(refused(0)));
    for second in 0..=11 {
        ledger.measured(LINK, 15 * second / 2, Time::from_secs(second));
    }
    // 60 bit/s are used. Together the claims may exceed the link.
    assert_eq!(claim(&mut ledger, 2, demand(41)), Err(refused(37)));
    claim(&mut ledger, 2, demand(37)).expect("takes 56");
    assert_eq!(held(&ledger), 176);
}

/// The claim of an aggregate counts with the overhead of its link; the flows within do not count it again.
#[test]
fn lane_has_no_overhead() {
    let mut ledger = tunnel();
    let (all, protocol) = (Prefix::everything(false), owner(1).protocol);
    ledger.open_lane(LINK, all, protocol, LANE, Rate::from_bps(120));
    ledger.set_lane_rate(LANE, Rate::from_bps(80));
    claim(&mut ledger, 1, demand(80)).expect("fits the lane");
    assert_eq!((held(&ledger), ledger.available(LANE)), (0, Rate::ZERO));
}
