//! The ledger compared with plain lists that are added up anew each time.

mod common;

use std::collections::{BTreeMap, BTreeSet};

use common::{flow, owner};
use earmark_core::admission::{
    ClaimId, Counting, Demand, Discipline, EnqueueError, Ledger, LinkCapacity, Owner, Protocol,
    QueuedRequest, Reason, RetryPolicy, Service,
};
use earmark_core::{Flow, InterfaceId, Rate};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::TestCaseResult;

const POLICY: RetryPolicy = RetryPolicy {
    threshold: 3,
    capacity: 4,
    discipline: Discipline::HeadOfLine,
    counting: Counting::Entries,
};

/// A step of a test. There are few links, flows and owners, so that steps concern the same ones.
#[derive(Clone, Debug)]
enum Step {
    SetLink(u32, LinkCapacity),
    SetOverhead(u32, u16),
    RemoveLink(u32),
    Claim {
        link: u32,
        owner: u32,
        flow: u16,
        demand: Demand,
    },
    /// Index among all claims ever made.
    Change(Index, Demand),
    Release(Index),
    Adopt {
        link: u32,
        flow: u16,
        rate: Rate,
        protocol: Option<Protocol>,
    },
    DropAdopted {
        link: u32,
        flow: u16,
    },
    DropAllAdopted,
    Enqueue {
        link: u32,
        owner: u32,
        demand: Demand,
        refusals: u32,
    },
    Withdraw {
        link: u32,
        owner: u32,
    },
    /// Grants a queued request the free bandwidth.
    Grant,
}

fn rate() -> impl Strategy<Value = Rate> {
    prop_oneof![
        9 => (0_u64..60).prop_map(Rate::from_bps),
        1 => Just(Rate::MAX),
    ]
}

fn demand() -> impl Strategy<Value = Demand> {
    let min_packet = prop_oneof![
        3 => Just(0_u16),
        3 => 1_u16..50,
        1 => Just(1_500),
        1 => Just(Demand::WITHOUT_OVERHEAD),
    ];
    (rate(), 0_u32..12, min_packet).prop_map(|(rate, max_packet, min_packet)| Demand {
        service: Service::Guaranteed,
        rate,
        burst: 0,
        max_packet,
        min_packet,
    })
}

fn protocol() -> impl Strategy<Value = Protocol> {
    prop_oneof![Just(Protocol::new(1)), Just(Protocol::new(4))]
}

fn step() -> impl Strategy<Value = Step> {
    let link = || 1_u32..4;
    let owner = || 0_u32..8;
    let flow = || 0_u16..6;
    let capacity = (prop_oneof![Just(Rate::ZERO), rate()], 5_u32..12)
        .prop_map(|(reservable, mtu)| LinkCapacity { bandwidth: Rate::MAX, reservable, mtu });
    prop_oneof![
        3 => (link(), capacity).prop_map(|(l, c)| Step::SetLink(l, c)),
        1 => link().prop_map(Step::RemoveLink),
        2 => (link(), prop_oneof![Just(0_u16), 1_u16..80, Just(1_000)])
            .prop_map(|(link, octets)| Step::SetOverhead(link, octets)),
        8 => (link(), owner(), flow(), demand())
            .prop_map(|(link, owner, flow, demand)| Step::Claim { link, owner, flow, demand }),
        3 => (any::<Index>(), demand()).prop_map(|(i, d)| Step::Change(i, d)),
        5 => any::<Index>().prop_map(Step::Release),
        3 => (link(), flow(), rate(), prop_oneof![Just(None), protocol().prop_map(Some)])
            .prop_map(|(link, flow, rate, protocol)| Step::Adopt { link, flow, rate, protocol }),
        1 => (link(), flow()).prop_map(|(link, flow)| Step::DropAdopted { link, flow }),
        1 => Just(Step::DropAllAdopted),
        4 => (link(), owner(), demand(), 0_u32..5).prop_map(|(link, owner, demand, refusals)| {
            Step::Enqueue { link, owner, demand, refusals }
        }),
        1 => (link(), owner()).prop_map(|(link, owner)| Step::Withdraw { link, owner }),
        4 => Just(Step::Grant),
    ]
}

/// Link, owner and demand of a claim.
type Held = (u32, Owner, Demand);

/// Reference model: it keeps nothing that could be added up.
#[derive(Default)]
struct Model {
    /// Capacity and overhead of each link.
    links: BTreeMap<u32, (LinkCapacity, u16)>,
    /// All claims ever made; removed ones hold nothing.
    claims: Vec<(ClaimId, Option<Held>)>,
    adopted: BTreeMap<(u32, Flow), (Rate, Option<Protocol>)>,
    queues: BTreeMap<u32, Vec<QueuedRequest>>,
}

/// Returns the sizes of the smallest packet of a demand and of its frame on a link with an overhead.
fn sizes(demand: &Demand, overhead: u16) -> (u128, u128) {
    match demand.min_packet {
        u16::MAX => (1, 1),
        0 => (64, 64 + u128::from(overhead)),
        m => (m.max(20).into(), u128::from(m.max(20)) + u128::from(overhead)),
    }
}

/// Returns what a demand takes of a link with an overhead.
fn on_link(demand: &Demand, overhead: u16) -> u128 {
    let (packet, frame) = sizes(demand, overhead);
    (u128::from(demand.rate.as_bps()) * frame).div_ceil(packet).min(u64::MAX.into())
}

impl Model {
    fn held_with(&self, link: u32, overhead: u16) -> u128 {
        let claimed = self.claims.iter().filter_map(|(_, c)| c.as_ref()).filter(|c| c.0 == link);
        let adopted = self.adopted.iter().filter(|((l, _), _)| *l == link);
        claimed.map(|c| on_link(&c.2, overhead)).sum::<u128>()
            + adopted.map(|(_, (rate, _))| u128::from(rate.as_bps())).sum::<u128>()
    }

    fn held(&self, link: u32) -> u128 {
        self.held_with(link, self.links[&link].1)
    }

    fn free(&self, link: u32) -> u128 {
        u128::from(self.links[&link].0.reservable.as_bps()).saturating_sub(self.held(link))
    }

    /// Returns the rate that `demand` could have if it may take `room` of a link.
    fn fitting(&self, link: u32, room: u128, demand: &Demand) -> Rate {
        let (packet, frame) = sizes(demand, self.links[&link].1);
        Rate::from_bps((room * packet / frame) as u64)
    }

    /// Returns the reason to refuse `demand` in place of `old`, and the available rate.
    fn judge(&self, link: u32, old: Option<&Demand>, demand: &Demand) -> (Option<Reason>, Rate) {
        let Some((capacity, overhead)) = self.links.get(&link) else {
            return (Some(Reason::NoSuchLink), Rate::ZERO);
        };
        let room = self.free(link) + old.map_or(0, |old| on_link(old, *overhead));
        let available = self.fitting(link, room, demand);
        let is_new = old.is_none_or(|old| old.rate == Rate::ZERO);
        let reason = if capacity.reservable == Rate::ZERO && is_new {
            Some(Reason::NoSuchLink)
        } else if demand.max_packet > capacity.mtu {
            Some(Reason::MaxPacket)
        } else if demand.rate > available {
            Some(Reason::Bandwidth)
        } else {
            None
        };
        (reason, available)
    }

    fn hopeless(&self, link: u32, demand: &Demand) -> bool {
        let (capacity, overhead) = self.links[&link];
        on_link(demand, overhead) > capacity.reservable.as_bps().into()
            || demand.max_packet > capacity.mtu
    }

    fn drop_hopeless(&mut self, link: u32) {
        let queue = self.queues.remove(&link).unwrap_or_default();
        let kept = queue.into_iter().filter(|w| !self.hopeless(link, &w.demand));
        let kept = kept.collect();
        self.queues.insert(link, kept);
    }

    /// Returns the first link whose first request fits.
    fn next_grantable(&mut self) -> Option<(InterfaceId, Owner)> {
        for link in self.links.keys().copied().collect::<Vec<_>>() {
            let head = self.queues.get(&link).and_then(|queue| queue.first().copied());
            let Some(head) = head else { continue };
            if self.judge(link, None, &head.demand).0.is_none() {
                self.queues.entry(link).or_default().remove(0);
                return Some((InterfaceId(link), head.owner));
            }
        }
        None
    }
}

#[derive(Default)]
struct Pair {
    model: Model,
    ledger: Ledger,
}

impl Pair {
    fn apply(&mut self, step: &Step) -> TestCaseResult {
        match *step {
            Step::SetLink(link, capacity) => {
                self.ledger.set_link(InterfaceId(link), capacity);
                self.model.links.entry(link).or_insert((capacity, 0)).0 = capacity;
                self.model.drop_hopeless(link);
            }
            Step::SetOverhead(link, octets) => {
                self.ledger.set_overhead(InterfaceId(link), octets);
                let known = self.model.links.contains_key(&link);
                // No change of the overhead makes the sum larger than a rate can be.
                if known && self.model.held_with(link, octets) <= u64::MAX.into() {
                    self.model.links.entry(link).and_modify(|(_, overhead)| *overhead = octets);
                    self.model.drop_hopeless(link);
                }
            }
            Step::RemoveLink(link) => self.remove_link(link)?,
            Step::Claim { link, owner: block, flow: port, demand } => {
                self.claim(link, block, flow(port), demand)?;
            }
            Step::Change(which, demand) => self.change(which, demand)?,
            Step::Release(which) => {
                if !self.model.claims.is_empty() {
                    let index = which.index(self.model.claims.len());
                    self.model.claims[index].1 = None;
                    self.ledger.release(self.model.claims[index].0);
                }
            }
            Step::Adopt { .. } | Step::DropAdopted { .. } | Step::DropAllAdopted => {
                self.adoption(step)?;
            }
            Step::Enqueue { .. } | Step::Withdraw { .. } => self.queueing(step)?,
            Step::Grant => {
                prop_assert_eq!(self.ledger.next_grantable(), self.model.next_grantable());
            }
        }
        self.check()
    }

    fn remove_link(&mut self, link: u32) -> TestCaseResult {
        let lost = self.ledger.remove_link(InterfaceId(link));
        self.model.links.remove(&link);
        let mut claims = BTreeSet::new();
        for (id, claim) in &mut self.model.claims {
            if let Some((_, owner, _)) = claim.take_if(|c| c.0 == link) {
                claims.insert((*id, owner));
            }
        }
        prop_assert_eq!(lost.claims, claims.into_iter().collect::<Vec<_>>());
        prop_assert_eq!(lost.waiting, self.model.queues.remove(&link).unwrap_or_default());
        let adopted = self.model.adopted.keys().filter(|k| k.0 == link).map(|k| k.1);
        prop_assert_eq!(lost.adopted, adopted.collect::<Vec<_>>());
        self.model.adopted.retain(|key, _| key.0 != link);
        Ok(())
    }

    fn claim(&mut self, link: u32, block: u32, flow: Flow, demand: Demand) -> TestCaseResult {
        let key = (link, flow);
        let adopted = self.model.adopted.get(&key).copied();
        let yields = adopted.filter(|(rate, protocol)| match protocol {
            Some(protocol) => *protocol == owner(block).protocol,
            None => {
                let free = self.model.fitting(link, self.model.free(link), &demand);
                demand.rate >= *rate || demand.rate > free
            }
        });
        let old =
            yields.map(|(rate, _)| Demand { rate, min_packet: Demand::WITHOUT_OVERHEAD, ..demand });
        let (reason, available) = self.model.judge(link, old.as_ref(), &demand);
        match self.ledger.claim(InterfaceId(link), owner(block), &flow, demand) {
            Ok(id) => {
                prop_assert_eq!(reason, None);
                prop_assert!(self.model.claims.iter().all(|(other, _)| *other != id), "id is new");
                if yields.is_some() {
                    self.model.adopted.remove(&key);
                }
                self.model.claims.push((id, Some((link, owner(block), demand))));
            }
            Err(refusal) => {
                prop_assert_eq!((Some(refusal.reason), refusal.available), (reason, available));
            }
        }
        Ok(())
    }

    fn change(&mut self, which: Index, demand: Demand) -> TestCaseResult {
        if self.model.claims.is_empty() {
            return Ok(());
        }
        let index = which.index(self.model.claims.len());
        let (id, claim) = self.model.claims[index];
        let result = self.ledger.change(id, demand);
        let Some((link, owner, old)) = claim else {
            prop_assert_eq!(result.map_err(|r| r.reason), Err(Reason::NoSuchLink));
            return Ok(());
        };
        let overhead = self.model.links[&link].1;
        let smaller = demand.rate <= old.rate
            && on_link(&demand, overhead) <= on_link(&old, overhead)
            && demand.max_packet <= old.max_packet;
        let (reason, available) = self.model.judge(link, Some(&old), &demand);
        match reason.filter(|_| !smaller) {
            Some(reason) => {
                let refusal = result.expect_err("the model refuses");
                prop_assert_eq!((refusal.reason, refusal.available), (reason, available));
            }
            None => {
                prop_assert_eq!(result, Ok(()));
                self.model.claims[index].1 = Some((link, owner, demand));
            }
        }
        Ok(())
    }

    fn adoption(&mut self, step: &Step) -> TestCaseResult {
        match *step {
            Step::Adopt { link, flow: port, rate, protocol } => {
                let old = self.model.adopted.get(&(link, flow(port))).copied();
                let open =
                    self.model.links.get(&link).is_some_and(|(c, _)| c.reservable != Rate::ZERO);
                let old = old.map_or(0, |(rate, _)| u128::from(rate.as_bps()));
                let fits = open && u128::from(rate.as_bps()) <= self.model.free(link) + old;
                let result = self.ledger.adopt(InterfaceId(link), flow(port), rate, protocol);
                prop_assert_eq!(result.is_ok(), fits);
                if fits {
                    self.model.adopted.insert((link, flow(port)), (rate, protocol));
                }
            }
            Step::DropAdopted { link, flow: port } => {
                let dropped = self.model.adopted.remove(&(link, flow(port))).map(|(rate, _)| rate);
                prop_assert_eq!(self.ledger.drop_adopted(InterfaceId(link), &flow(port)), dropped);
            }
            _ => {
                let all = std::mem::take(&mut self.model.adopted).into_keys();
                let all: Vec<_> = all.map(|(link, flow)| (InterfaceId(link), flow)).collect();
                prop_assert_eq!(self.ledger.drop_all_adopted(), all);
            }
        }
        Ok(())
    }

    fn queueing(&mut self, step: &Step) -> TestCaseResult {
        match *step {
            Step::Enqueue { link, owner: block, demand, refusals } => {
                let waiting = QueuedRequest { owner: owner(block), demand, refusals };
                let result = self.ledger.enqueue(InterfaceId(link), waiting);
                if !self.model.links.contains_key(&link) {
                    prop_assert_eq!(result, Err(EnqueueError::NoSuchLink));
                    return Ok(());
                }
                let hopeless = self.model.hopeless(link, &demand);
                let queue = self.model.queues.entry(link).or_default();
                let place = queue.iter().position(|w| w.owner == owner(block));
                if hopeless || refusals > POLICY.threshold {
                    queue.retain(|w| w.owner != owner(block));
                    prop_assert!(result.is_err());
                } else if let Some(place) = place {
                    queue[place] = waiting;
                    prop_assert_eq!(result, Ok(()));
                } else if queue.len() < POLICY.capacity {
                    queue.push(waiting);
                    prop_assert_eq!(result, Ok(()));
                } else {
                    prop_assert_eq!(result, Err(EnqueueError::Full));
                }
            }
            Step::Withdraw { link, owner: block } => {
                let queue = self.model.queues.entry(link).or_default();
                let before = queue.len();
                queue.retain(|w| w.owner != owner(block));
                let withdrawn = queue.len() < before;
                prop_assert_eq!(self.ledger.withdraw(InterfaceId(link), owner(block)), withdrawn);
            }
            _ => unreachable!("no other step is about queues"),
        }
        Ok(())
    }

    /// Compares all answers of both.
    fn check(&self) -> TestCaseResult {
        let links: Vec<_> = self.ledger.links().collect();
        prop_assert_eq!(links.len(), self.model.links.len());
        for (id, status) in links {
            prop_assert_eq!(u128::from(status.held.as_bps()), self.model.held(id.0));
            prop_assert_eq!(self.ledger.overhead(id), self.model.links[&id.0].1);
            let claims = self.model.claims.iter().filter_map(|(_, claim)| claim.as_ref());
            let claims = claims.filter(|claim| claim.0 == id.0).count();
            prop_assert_eq!(status.claims as usize, claims);
            let adopted = self.model.adopted.keys().filter(|k| k.0 == id.0).count();
            prop_assert_eq!(status.adopted as usize, adopted);
            let queued = self.model.queues.get(&id.0).map_or(0, Vec::len);
            prop_assert_eq!(status.queued as usize, queued);
        }
        for (id, claim) in &self.model.claims {
            prop_assert_eq!(self.ledger.owner(*id), claim.map(|c| c.1));
            prop_assert_eq!(self.ledger.demand(*id), claim.map(|c| c.2));
        }
        Ok(())
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn ledger_agrees_with_model(steps in prop::collection::vec(step(), 0..150)) {
        let mut pair = Pair::default();
        pair.ledger.set_retry_policy(POLICY);
        for link in 1..3 {
            let capacity =
                LinkCapacity { bandwidth: Rate::MAX, reservable: Rate::from_bps(100), mtu: 10 };
            pair.apply(&Step::SetLink(link, capacity))?;
        }
        for step in steps {
            pair.apply(&step)?;
        }
        for (id, _) in &pair.model.claims {
            pair.ledger.release(*id);
        }
        pair.ledger.drop_all_adopted();
        for (_, status) in pair.ledger.links() {
            prop_assert_eq!((status.held, status.claims, status.adopted), (Rate::ZERO, 0, 0));
        }
    }
}
