//! Preemption in the ledger: which claims are displaced, for which, and how much (RFC 3181, RFC 4495).

mod common;

use common::{flow, owner};
use earmark_core::admission::{
    ClaimId, Demand, Displaced, Ledger, LinkCapacity, PreemptionPolicy, Priority, Reason, Refusal,
    Service,
};
use earmark_core::{InterfaceId, Rate};
use proptest::prelude::*;
use proptest::sample::Index;

const LINK: InterfaceId = InterfaceId(1);
const OTHER: InterfaceId = InterfaceId(2);

/// Creates two links of `reservable` bit/s each.
fn ledger(reservable: u64, partial: bool) -> Ledger {
    let mut ledger = Ledger::new();
    for link in [LINK, OTHER] {
        let reservable = Rate::from_bps(reservable);
        ledger.set_link(link, LinkCapacity { bandwidth: Rate::MAX, reservable, mtu: 1_500 });
    }
    ledger.set_preemption(Some(PreemptionPolicy { partial }));
    ledger
}

fn demand(rate: u64) -> Demand {
    let rate = Rate::from_bps(rate);
    Demand { service: Service::ControlledLoad, rate, burst: 0, max_packet: 0, min_packet: 0 }
}

fn level(level: u16) -> Priority {
    Priority::new(level, level)
}

fn claim(ledger: &mut Ledger, block: u32, rate: u64, at: Priority) -> Result<ClaimId, Refusal> {
    ledger.claim_with_priority(LINK, owner(block), &flow(block as u16), demand(rate), at)
}

/// Returns the owners of displaced claims, and what they keep.
fn displaced(ledger: &mut Ledger) -> Vec<(u32, u64)> {
    std::iter::from_fn(|| ledger.next_displaced())
        .map(|Displaced { owner, kept, .. }| (owner.block, kept.as_bps()))
        .collect()
}

fn held(ledger: &Ledger) -> u64 {
    ledger.link(LINK).expect("known").held.as_bps()
}

fn refused(available: u64) -> Result<ClaimId, Refusal> {
    Err(Refusal { reason: Reason::Bandwidth, available: Rate::from_bps(available) })
}

#[test]
fn least_defended_then_newest_are_displaced() {
    let mut ledger = ledger(10, false);
    for (block, priority) in [(1, 5), (2, 3), (3, 3), (4, 4), (5, 9)] {
        claim(&mut ledger, block, 2, level(priority)).expect("fits");
    }
    claim(&mut ledger, 6, 2, level(6)).expect("somebody gives way");
    assert_eq!(displaced(&mut ledger), [(3, 0)]);
    claim(&mut ledger, 7, 4, level(6)).expect("two give way");
    assert_eq!(displaced(&mut ledger), [(2, 0), (4, 0)]);
    assert_eq!(held(&ledger), 10);
}

/// RFC 3181 section 4: equal priorities do not displace each other, and a held claim counts by its defending
/// priority.
#[test]
fn equal_priority_displaces_nobody() {
    let mut ledger = ledger(10, true);
    let moderate = Priority::new(3, 7);
    claim(&mut ledger, 1, 10, moderate).expect("fits");
    for preemption in [0, 3, 7] {
        assert_eq!(claim(&mut ledger, 2, 1, Priority::new(preemption, 9)), refused(0));
    }
    assert_eq!(displaced(&mut ledger), []);
    claim(&mut ledger, 2, 10, level(8)).expect("8 is more than 7");
    assert_eq!(displaced(&mut ledger), [(1, 0)]);
    assert_eq!(Priority::new(5, 2), level(5), "what attacks with 5 defends with no less");
}

#[test]
fn displacement_is_all_or_nothing_and_minimal() {
    let mut ledger = ledger(10, false);
    for (block, rate, priority) in [(1, 1, 1), (2, 6, 2), (3, 3, 9)] {
        claim(&mut ledger, block, rate, level(priority)).expect("fits");
    }
    assert_eq!(claim(&mut ledger, 4, 8, level(5)), refused(7), "1 and 2 have only 7");
    assert_eq!((displaced(&mut ledger), held(&ledger)), (vec![], 10));
    // 1 is chosen first, but 2 has to go in any case, and that is enough.
    claim(&mut ledger, 4, 6, level(5)).expect("2 gives way");
    assert_eq!((displaced(&mut ledger), held(&ledger)), (vec![(2, 0)], 10));
}

/// RFC 4495: one of them keeps the remainder.
#[test]
fn partial_preemption_keeps_the_remainder() {
    let mut ledger = ledger(100, true);
    claim(&mut ledger, 1, 80, level(100)).expect("fits");
    let first = claim(&mut ledger, 2, 80, level(300)).expect("1 is reduced");
    assert_eq!((displaced(&mut ledger), held(&ledger)), (vec![(1, 20)], 100));
    ledger.release(first);
    assert_eq!(held(&ledger), 20);
    claim(&mut ledger, 3, 70, level(50)).expect("fits");
    claim(&mut ledger, 4, 75, level(200)).expect("3 goes, 1 keeps some");
    assert_eq!((displaced(&mut ledger), held(&ledger)), (vec![(3, 5)], 100));
}

#[test]
fn increase_displaces_others_not_itself() {
    let mut ledger = ledger(10, false);
    let first = claim(&mut ledger, 1, 4, level(2)).expect("fits");
    claim(&mut ledger, 2, 6, level(1)).expect("fits");
    assert_eq!(ledger.change_with_priority(first, demand(5), level(2)), Ok(()));
    assert_eq!((displaced(&mut ledger), held(&ledger)), (vec![(2, 0)], 5));
    let whole = ledger.change_with_priority(first, demand(11), level(9));
    assert_eq!(whole.map_err(|refusal| refusal.available.as_bps()), Err(10));
    assert_eq!(held(&ledger), 5);
    // The claim still has its old priority, and a new one when that is granted.
    claim(&mut ledger, 3, 6, level(3)).expect("1 gives way");
    assert_eq!(displaced(&mut ledger), [(1, 0)]);
}

#[test]
fn priorities_without_preemption_have_no_effect() {
    let mut ledger = ledger(10, false);
    ledger.set_preemption(None);
    claim(&mut ledger, 1, 10, level(0)).expect("fits");
    assert_eq!(claim(&mut ledger, 2, 1, level(9)), refused(0));
    ledger.set_preemption(Some(PreemptionPolicy::default()));
    claim(&mut ledger, 2, 1, level(1)).expect("what was there before has the lowest priority");
    assert_eq!(displaced(&mut ledger), [(1, 0)]);
}

/// Adopted flows have no owner to notify, and stay.
#[test]
fn adopted_flows_are_not_displaced() {
    let mut ledger = ledger(10, false);
    assert_eq!(ledger.adopt(LINK, flow(9), Rate::from_bps(6), None), Ok(()));
    claim(&mut ledger, 1, 4, level(0)).expect("fits");
    assert_eq!(claim(&mut ledger, 2, 5, level(9)), refused(4));
    // The flow's own claim gets the bandwidth that was held for it.
    claim(&mut ledger, 9, 8, level(9)).expect("6 and 2 of the others");
    assert_eq!((displaced(&mut ledger), held(&ledger)), (vec![(1, 0)], 8));
}

/// A link that has shrunk below what is held grants nothing new before it is within its bounds.
#[test]
fn shrunk_link_displaces_down_to_its_bounds() {
    let mut ledger = ledger(10, false);
    for (block, priority) in [(1, 0), (2, 1), (3, 2)] {
        claim(&mut ledger, block, 3, level(priority)).expect("fits");
    }
    let reservable = Rate::from_bps(5);
    ledger.set_link(LINK, LinkCapacity { bandwidth: Rate::MAX, reservable, mtu: 1_500 });
    claim(&mut ledger, 4, 2, level(9)).expect("two of three give way");
    assert_eq!((displaced(&mut ledger), held(&ledger)), (vec![(1, 0), (2, 0)], 5));
}

#[derive(Clone, Debug)]
enum Step {
    Claim { link: InterfaceId, rate: u64, priority: Priority },
    Change { which: Index, rate: u64, priority: Priority },
    Release(Index),
    RemoveLink,
}

fn step() -> impl Strategy<Value = Step> {
    let link = prop_oneof![4 => Just(LINK), 1 => Just(OTHER)];
    let priority = || (0_u16..5, 0_u16..5).prop_map(|(p, d)| Priority::new(p, d));
    prop_oneof![
        12 => (link, 0_u64..40, priority())
            .prop_map(|(link, rate, priority)| Step::Claim { link, rate, priority }),
        6 => (any::<Index>(), 0_u64..60, priority())
            .prop_map(|(which, rate, priority)| Step::Change { which, rate, priority }),
        2 => any::<Index>().prop_map(Step::Release),
        1 => Just(Step::RemoveLink),
    ]
}

/// A claim in the reference model.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Kept {
    id: ClaimId,
    link: InterfaceId,
    rate: u64,
    defending: u16,
    age: usize,
}

const RESERVABLE: u64 = 100;

/// Finds the claims to displace by checking all of them: what each keeps, or the available rate.
fn who_gives_way(
    claims: &[Kept],
    link: InterfaceId,
    keeper: Option<ClaimId>,
    rate: u64,
    preemption: u16,
    partial: bool,
) -> Result<Vec<(ClaimId, u64)>, u64> {
    let others = || claims.iter().filter(|c| c.link == link && Some(c.id) != keeper);
    let free = RESERVABLE - others().map(|c| c.rate).sum::<u64>();
    let mut weaker: Vec<&Kept> =
        others().filter(|c| c.defending < preemption && c.rate > 0).collect();
    weaker.sort_by_key(|c| (c.defending, std::cmp::Reverse(c.age)));
    let sum = |chosen: &[&Kept]| free + chosen.iter().map(|c| c.rate).sum::<u64>();
    let enough = (0..=weaker.len()).find(|&count| sum(&weaker[..count]) >= rate);
    let mut chosen = weaker[..enough.ok_or(sum(&weaker))?].to_vec();
    for place in (0..chosen.len()).rev() {
        let mut without = chosen.clone();
        without.remove(place);
        if sum(&without) >= rate {
            chosen = without;
        }
    }
    let spare = sum(&chosen) - rate;
    let last = chosen.len().saturating_sub(1);
    let keeps = |place| if partial && place == last { spare } else { 0 };
    Ok(chosen.iter().enumerate().map(|(place, claim)| (claim.id, keeps(place))).collect())
}

proptest! {
    /// The ledger agrees with the exhaustive search; and whatever happens, no more is held than allowed, no equal is
    /// displaced, nothing is displaced without need, and the sums are right.
    #[test]
    fn random_claims_agree_with_model(
        steps in proptest::collection::vec(step(), 1..120),
        partial in any::<bool>(),
    ) {
        let mut ledger = ledger(RESERVABLE, partial);
        let mut claims: Vec<Kept> = Vec::new();
        for (age, step) in steps.into_iter().enumerate() {
            let (link, keeper, rate, priority) = match step {
                Step::Claim { link, rate, priority } => (link, None, rate, priority),
                Step::Change { which, rate, priority } if !claims.is_empty() => {
                    let claim = which.get(&claims);
                    (claim.link, Some(claim.id), rate, priority)
                }
                Step::Release(which) if !claims.is_empty() => {
                    let gone = claims.remove(which.index(claims.len()));
                    ledger.release(gone.id);
                    continue;
                }
                Step::RemoveLink => {
                    ledger.remove_link(OTHER);
                    claims.retain(|claim| claim.link != OTHER);
                    let reservable = Rate::from_bps(RESERVABLE);
                    ledger.set_link(OTHER, LinkCapacity { bandwidth: Rate::MAX, reservable, mtu: 0 });
                    continue;
                }
                _ => continue,
            };
            let expected = who_gives_way(&claims, link, keeper, rate, priority.preemption, partial);
            let granted = match keeper {
                None => ledger.claim_with_priority(
                    link, owner(age as u32), &flow(age as u16), demand(rate), priority,
                ),
                Some(id) => ledger.change_with_priority(id, demand(rate), priority).map(|()| id),
            };
            let gave_way: Vec<(ClaimId, u64)> = std::iter::from_fn(|| ledger.next_displaced())
                .map(|displaced| (displaced.claim, displaced.kept.as_bps()))
                .collect();
            for &(id, _) in &gave_way {
                let victim = claims.iter().find(|claim| claim.id == id).expect("it was there");
                prop_assert!(victim.defending < priority.preemption && victim.link == link);
            }
            match (expected, granted) {
                (Ok(expected), Ok(id)) => {
                    prop_assert_eq!(&gave_way, &expected);
                    for (gone, kept) in gave_way {
                        if kept == 0 {
                            claims.retain(|claim| claim.id != gone);
                        } else if let Some(claim) = claims.iter_mut().find(|c| c.id == gone) {
                            claim.rate = kept;
                        }
                    }
                    let defending = priority.defending;
                    match claims.iter_mut().find(|claim| claim.id == id) {
                        Some(claim) => (claim.rate, claim.defending) = (rate, defending),
                        None => claims.push(Kept { id, link, rate, defending, age }),
                    }
                }
                (Err(available), Err(refusal)) => {
                    prop_assert_eq!(refusal.available.as_bps(), available);
                    prop_assert_eq!(gave_way, vec![]);
                }
                (expected, granted) => prop_assert!(false, "{expected:?} {granted:?}"),
            }
            for link in [LINK, OTHER] {
                let status = ledger.link(link).expect("known");
                let here = || claims.iter().filter(|claim| claim.link == link);
                prop_assert_eq!(status.held.as_bps(), here().map(|claim| claim.rate).sum::<u64>());
                prop_assert_eq!(status.claims as usize, here().count());
                prop_assert!(status.held <= status.reservable);
            }
        }
        for claim in claims {
            ledger.release(claim.id);
        }
        prop_assert_eq!(held(&ledger), 0);
    }
}
