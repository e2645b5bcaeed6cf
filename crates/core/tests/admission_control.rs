//! Admission control: the contract of the trait, for both implementations, and the measured sum.

mod common;

use std::time::Duration;

use common::{flow, owner};
use earmark_core::admission::{
    AdmissionControl, ClaimId, Demand, Ledger, LinkCapacity, MeasuredSum, MeasurementBased,
    ParameterBased, PreemptionPolicy, Priority, QueuedRequest, Reason, Refusal, Service,
};
use earmark_core::{InterfaceId, Rate, Time};
use proptest::prelude::*;
use proptest::sample::Index;

const LINK: InterfaceId = InterfaceId(1);
/// Reservable rate of the link, kbit/s.
const RESERVABLE: u64 = 1_000;
/// Limit of controlled load by measurement, kbit/s.
const TARGET: u64 = 900;

fn kbps(rate: u64) -> Rate {
    Rate::from_bps(rate * 1_000)
}

fn ledger(control: Box<dyn AdmissionControl>) -> Ledger {
    let mut ledger = Ledger::new();
    let capacity =
        LinkCapacity { bandwidth: kbps(2 * RESERVABLE), reservable: kbps(RESERVABLE), mtu: 1_500 };
    ledger.set_link(LINK, capacity);
    ledger.set_admission(LINK, control);
    ledger
}

fn demand(service: Service, rate: u64) -> Demand {
    Demand { service, rate: kbps(rate), burst: 0, max_packet: 0, min_packet: 0 }
}

fn controlled(rate: u64) -> Demand {
    demand(Service::ControlledLoad, rate)
}

fn claim(ledger: &mut Ledger, block: u32, demand: Demand) -> Result<ClaimId, Refusal> {
    ledger.claim(LINK, owner(block), &flow(block as u16), demand)
}

fn refused(available: u64) -> Refusal {
    Refusal { reason: Reason::Bandwidth, available: kbps(available) }
}

/// A ledger by measurement whose link carries data: a window of 10 samples of one second.
struct Measured {
    ledger: Ledger,
    seconds: u64,
    octets: u64,
}

impl Measured {
    fn new() -> Measured {
        let control = MeasurementBased::new(MeasuredSum::default());
        let mut measured = Measured { ledger: ledger(Box::new(control)), seconds: 0, octets: 0 };
        measured.carry(0, 1); // the first sample begins
        measured
    }

    /// Carries a rate, kbit/s, for some seconds.
    fn carry(&mut self, rate: u64, seconds: u64) {
        for _ in 0..seconds {
            self.seconds += 1;
            self.octets += rate * 1_000 / 8;
            self.ledger.measured(LINK, self.octets, Time::from_secs(self.seconds));
        }
    }

    fn load(&self) -> Option<Rate> {
        self.ledger.admission(LINK).expect("known").measured_load()
    }

    fn claim(&mut self, block: u32, demand: Demand) -> Result<ClaimId, Refusal> {
        claim(&mut self.ledger, block, demand)
    }
}

#[test]
fn link_has_parameter_based_admission_by_default() {
    let mut ledger = Ledger::new();
    assert!(ledger.admission(LINK).is_none(), "no such link");
    ledger.set_link(LINK, LinkCapacity { bandwidth: kbps(9), reservable: kbps(9), mtu: 1_500 });
    let control = ledger.admission(LINK).expect("known");
    assert_eq!((control.name(), control.sample_interval()), ("parameter", None));
    ledger.measured(LINK, 1 << 40, Time::from_secs(1));
    assert_eq!(ledger.available(LINK), kbps(9));
}

#[test]
fn claims_count_in_full_before_the_first_window_ends() {
    let mut measured = Measured::new();
    measured.claim(1, controlled(500)).expect("fits");
    measured.carry(10, 9);
    assert_eq!(measured.load(), None);
    assert_eq!(measured.claim(2, controlled(500)), Err(refused(400)));
    measured.carry(10, 1);
    assert_eq!(measured.load(), Some(kbps(10)));
    assert!(measured.claim(2, controlled(500)).is_ok());
}

/// The sums by service are counted only while a link has a control other than the default.
#[test]
fn earlier_claims_count_by_service_under_a_new_control() {
    let capacity =
        LinkCapacity { bandwidth: kbps(9_000), reservable: kbps(RESERVABLE), mtu: 1_500 };
    let mut measured = Measured::new();
    measured.ledger = Ledger::new();
    measured.ledger.set_link(LINK, capacity);
    let first = measured.claim(1, demand(Service::Guaranteed, 300)).expect("fits");
    measured.claim(2, controlled(500)).expect("fits");
    measured.ledger.change(first, demand(Service::Guaranteed, 200)).expect("a decrease");
    let control = Box::new(MeasurementBased::new(MeasuredSum::default()));
    measured.ledger.set_admission(LINK, control);
    measured.carry(10, 11);
    assert_eq!(measured.load(), Some(kbps(10)));
    assert_eq!(measured.claim(3, controlled(691)), Err(refused(TARGET - 200 - 10)));
    measured.claim(3, controlled(690)).expect("to the last bit");
}

/// Sources that are silent most of the time: token rates of twice the link are admitted, a flow in each window. By
/// parameters it would be half of them.
#[test]
fn idle_sources_are_admitted_beyond_the_sum_of_rates() {
    let mut measured = Measured::new();
    for block in 1..=20 {
        measured.claim(block, controlled(100)).expect("the sources use a fifth of their rate");
        measured.carry(20 * u64::from(block), 10);
    }
    let status = measured.ledger.link(LINK).expect("known");
    assert_eq!((status.held, status.reservable), (kbps(2_000), kbps(RESERVABLE)));
    assert_eq!(measured.load(), Some(kbps(400)));
}

#[test]
fn load_and_rate_over_target_are_refused_with_available_rate() {
    let mut measured = Measured::new();
    measured.claim(1, controlled(800)).expect("fits");
    measured.carry(600, 10);
    assert_eq!(measured.claim(2, controlled(301)), Err(refused(TARGET - 600)));
    assert!(measured.claim(2, controlled(300)).is_ok(), "to the last bit");
    assert_eq!(measured.load(), Some(kbps(TARGET)), "raised at once");
    assert_eq!(measured.claim(3, controlled(1)), Err(refused(0)));
}

#[test]
fn increase_counts_with_its_difference() {
    let mut measured = Measured::new();
    let first = measured.claim(1, controlled(500)).expect("fits");
    measured.carry(300, 10);
    assert_eq!(measured.ledger.change(first, controlled(901)), Err(refused(TARGET)));
    assert_eq!(measured.ledger.change(first, controlled(700)), Ok(()));
    assert_eq!(measured.load(), Some(kbps(500)));
    assert_eq!(measured.ledger.change(first, controlled(100)), Ok(()), "a decrease always works");
    assert_eq!(measured.load(), Some(kbps(500)), "only the window lowers the load");
}

#[test]
fn burst_raises_the_load_and_the_window_forgets_it() {
    let mut measured = Measured::new();
    for block in 1..=8 {
        measured.claim(block, controlled(100)).expect("fits");
    }
    measured.carry(100, 10);
    assert_eq!(measured.load(), Some(kbps(100)));
    measured.carry(700, 1);
    assert_eq!(measured.load(), Some(kbps(700)), "at once");
    measured.carry(100, 9);
    assert_eq!(measured.load(), Some(kbps(700)), "the largest of its window");
    measured.carry(100, 9);
    assert_eq!(measured.load(), Some(kbps(700)), "until the next one ends");
    measured.carry(100, 1);
    assert_eq!(measured.load(), Some(kbps(100)));
}

#[test]
fn admission_restarts_the_window() {
    let mut measured = Measured::new();
    measured.claim(1, controlled(500)).expect("fits");
    measured.carry(100, 10);
    measured.carry(100, 9);
    measured.claim(2, controlled(200)).expect("fits");
    measured.carry(100, 9);
    assert_eq!(measured.load(), Some(kbps(300)), "what the new flow sends is not yet known");
    measured.carry(100, 1);
    assert_eq!(measured.load(), Some(kbps(100)));
}

#[test]
fn counter_that_begins_again_is_no_sample() {
    let mut measured = Measured::new();
    measured.claim(1, controlled(500)).expect("fits");
    measured.carry(100, 10);
    measured.octets = 0;
    measured.carry(0, 1);
    measured.carry(100, 3);
    assert_eq!(measured.load(), Some(kbps(100)));
    // A sample that comes early is part of the next.
    let early = Time::from_secs(measured.seconds) + Duration::from_millis(1);
    measured.ledger.measured(LINK, measured.octets + 10_000, early);
    assert_eq!(measured.load(), Some(kbps(100)));
}

#[test]
fn guaranteed_service_is_admitted_by_parameters() {
    let guaranteed = |rate| demand(Service::Guaranteed, rate);
    let mut measured = Measured::new();
    let first = measured.claim(1, controlled(600)).expect("fits");
    measured.carry(0, 10);
    assert_eq!(measured.claim(2, guaranteed(401)), Err(refused(400)), "whatever is measured");
    let second = measured.claim(2, guaranteed(400)).expect("all of the link, not the target only");
    assert_eq!(measured.claim(3, controlled(501)), Err(refused(500)), "it counts although silent");
    measured.claim(3, controlled(500)).expect("beside a guarantee and a silent flow");
    measured.carry(0, 10);
    assert_eq!(measured.ledger.change(first, guaranteed(600)), Err(refused(100)), "not unseen");
    assert_eq!(measured.ledger.change(second, controlled(400)), Ok(()));
}

#[test]
fn queued_request_is_granted_when_the_load_has_fallen() {
    let mut measured = Measured::new();
    measured.claim(1, controlled(900)).expect("fits");
    assert_eq!(measured.claim(2, controlled(400)), Err(refused(0)));
    let request = QueuedRequest { owner: owner(2), demand: controlled(400), refusals: 1 };
    assert_eq!(measured.ledger.enqueue(LINK, request), Ok(()));
    measured.carry(300, 9);
    assert_eq!(measured.ledger.next_grantable(), None);
    measured.carry(300, 1);
    assert_eq!(measured.ledger.next_grantable(), Some((LINK, owner(2))));
    let never = QueuedRequest { owner: owner(3), demand: controlled(TARGET + 1), refusals: 1 };
    assert!(measured.ledger.enqueue(LINK, never).is_err(), "it would block the queue for ever");
}

/// The end of a flow frees what it sent, and nobody knows how much that was. Displacing helps only as far as the token
/// rates of the rest bound the load.
#[test]
fn claims_are_displaced_only_if_that_frees_enough() {
    let mut measured = Measured::new();
    measured.ledger.set_preemption(Some(PreemptionPolicy::default()));
    for block in 1..=4 {
        measured.claim(block, controlled(200)).expect("fits");
    }
    measured.carry(500, 10);
    let mut claim = |block, rate| {
        let priority = Priority::new(1, 1);
        measured.ledger.claim_with_priority(
            LINK,
            owner(block),
            &flow(block as u16),
            controlled(rate),
            priority,
        )
    };
    assert_eq!(claim(5, 901), Err(refused(TARGET)));
    claim(5, 600).expect("three go, and the last has at most 200");
    let displaced = std::iter::from_fn(|| measured.ledger.next_displaced());
    assert_eq!(displaced.map(|gone| gone.owner.block).collect::<Vec<_>>(), [4, 3, 2]);
}

/// A daemon that starts again finds flows whose rates exceed the link, as they were admitted.
#[test]
fn adopted_flows_beyond_the_link_return_to_their_owners() {
    let mut measured = Measured::new();
    for port in 1..=3 {
        assert_eq!(measured.ledger.adopt(LINK, flow(port), kbps(600), None), Ok(()));
    }
    assert!(measured.ledger.adopt(LINK, flow(4), kbps(TARGET + 1), None).is_err());
    assert_eq!(measured.claim(9, controlled(1)), Err(refused(0)));
    for block in 1..=3 {
        measured.claim(block, controlled(600)).expect("held for it");
    }
    let status = measured.ledger.link(LINK).expect("known");
    assert_eq!((status.held, status.claims, status.adopted), (kbps(1_800), 3, 0));
}

#[derive(Clone, Debug)]
enum Step {
    Claim(Demand),
    Change(Index, Demand),
    Release(Index),
    /// Seconds, and the share of the held rate that is sent.
    Carry(u64, f64),
}

fn step() -> impl Strategy<Value = Step> {
    let service = prop_oneof![3 => Just(Service::ControlledLoad), 1 => Just(Service::Guaranteed)];
    let any_demand = (service, 0_u64..400).prop_map(|(service, rate)| demand(service, rate));
    prop_oneof![
        5 => any_demand.clone().prop_map(Step::Claim),
        2 => (any::<Index>(), any_demand).prop_map(|(which, demand)| Step::Change(which, demand)),
        2 => any::<Index>().prop_map(Step::Release),
        3 => (1_u64..15, 0.0..1.0).prop_map(|(seconds, share)| Step::Carry(seconds, share)),
    ]
}

/// Checks the contract of the trait with random claims. `never_over`: whether the sum of the claims may not exceed the
/// link.
fn keeps_the_contract(
    control: Box<dyn AdmissionControl>,
    steps: Vec<Step>,
    never_over: bool,
) -> Result<(), TestCaseError> {
    let mut measured = Measured { ledger: ledger(control), seconds: 0, octets: 0 };
    let limit = |ledger: &Ledger, service| {
        ledger.admission(LINK).expect("known").limit(kbps(RESERVABLE), service)
    };
    let mut claims: Vec<ClaimId> = Vec::new();
    for step in steps {
        match step {
            Step::Claim(demand) => match measured.claim(0, demand) {
                Ok(id) => {
                    prop_assert!(demand.rate <= limit(&measured.ledger, demand.service));
                    claims.push(id);
                }
                Err(refusal) => {
                    prop_assert!(refusal.available < demand.rate);
                    let most = Demand { rate: refusal.available, ..demand };
                    let id = measured.claim(0, most).expect("the available rate is granted");
                    let more = measured.claim(0, Demand { rate: Rate::from_bps(1), ..demand });
                    prop_assert_eq!(more, Err(refused(0)), "and not a bit more");
                    claims.push(id);
                }
            },
            Step::Change(which, demand) if !claims.is_empty() => {
                let id = *which.get(&claims);
                let old = measured.ledger.demand(id).expect("held");
                let changed = measured.ledger.change(id, demand);
                if demand.service == old.service && demand.rate <= old.rate {
                    prop_assert_eq!(changed, Ok(()), "a decrease");
                }
                if let Err(refusal) = changed {
                    prop_assert!(refusal.available < demand.rate);
                    prop_assert_eq!(measured.ledger.demand(id), Some(old));
                }
            }
            Step::Release(which) if !claims.is_empty() => {
                measured.ledger.release(claims.swap_remove(which.index(claims.len())));
            }
            Step::Carry(seconds, share) => {
                let held = measured.ledger.link(LINK).expect("known").held;
                measured.carry(held.share(share).as_bps() / 1_000, seconds);
            }
            Step::Change(..) | Step::Release(_) => {}
        }
        let held = measured.ledger.link(LINK).expect("known").held;
        prop_assert!(!never_over || held <= kbps(RESERVABLE));
        let demands = claims.iter().filter_map(|id| measured.ledger.demand(*id));
        let guaranteed = demands.filter(|demand| demand.service == Service::Guaranteed);
        let guaranteed: Rate = guaranteed.map(|demand| demand.rate).sum();
        prop_assert!(guaranteed <= kbps(RESERVABLE), "guarantees are never over the link");
    }
    claims.into_iter().for_each(|id| {
        measured.ledger.release(id);
    });
    let most = limit(&measured.ledger, Service::ControlledLoad);
    prop_assert_eq!(measured.ledger.available(LINK), most, "nothing is left");
    Ok(())
}

proptest! {
    #[test]
    fn parameter_based_keeps_the_contract(steps in prop::collection::vec(step(), 1..80)) {
        keeps_the_contract(Box::new(ParameterBased), steps, true)?;
    }

    #[test]
    fn measurement_based_keeps_the_contract(steps in prop::collection::vec(step(), 1..80)) {
        let control = MeasurementBased::new(MeasuredSum::default());
        keeps_the_contract(Box::new(control), steps, false)?;
    }
}
