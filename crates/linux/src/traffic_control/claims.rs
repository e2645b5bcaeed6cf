//! The claims on one flow, of any protocol, and the one that its packets are served by.
//!
//! Claims of this flow alone and claims that it shares with other flows are distinguished: another flow may use up a
//! shared one, so a smaller claim of its own must not be superseded by a larger shared one. The largest claim of each
//! sort applies. The others are on standby: their bandwidth is held, and when the largest ends the next one applies.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use earmark_core::admission::{ClaimId, Protocol};

use super::entry::Entry;
use super::guarantee::Guarantee;

/// Holder of a claim on a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Holder {
    /// An earlier daemon.
    Adopted,
    /// An installation of this daemon.
    Claim(ClaimId),
}

/// A claim as registered with one of its flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RegisteredClaim {
    pub(super) holder: Holder,
    pub(super) guarantee: Guarantee,
    /// Number of its bucket if it has several flows.
    pub(super) shared: Option<u32>,
    pub(super) protocol: Option<Protocol>,
}

impl RegisteredClaim {
    /// Returns the sort key. The best claim has the smallest: higher rate, then deeper bucket, then older claim.
    fn rank(&self) -> (u64, Reverse<u64>, Holder) {
        (self.guarantee.bucket.cost(), Reverse(self.guarantee.bucket.depth()), self.holder)
    }
}

impl PartialOrd for RegisteredClaim {
    fn partial_cmp(&self, other: &RegisteredClaim) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RegisteredClaim {
    fn cmp(&self, other: &RegisteredClaim) -> std::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// All claims on one flow; usually one.
#[derive(Clone, Debug, Default)]
pub(super) enum FlowClaims {
    /// No claim.
    #[default]
    None,
    /// One claim.
    One(RegisteredClaim),
    /// Several claims.
    SeveralClaims(Box<SeveralClaims>),
}

/// Claims of each sort, the best first.
#[derive(Clone, Debug, Default)]
pub(super) struct SeveralClaims {
    own: BTreeSet<RegisteredClaim>,
    shared: BTreeSet<RegisteredClaim>,
}

impl SeveralClaims {
    fn sort(&mut self, registered: &RegisteredClaim) -> &mut BTreeSet<RegisteredClaim> {
        if registered.shared.is_some() { &mut self.shared } else { &mut self.own }
    }
}

impl FlowClaims {
    /// Adds a claim.
    pub(super) fn insert(&mut self, registered: RegisteredClaim) {
        match self {
            FlowClaims::None => *self = FlowClaims::One(registered),
            FlowClaims::One(first) if first.holder == registered.holder => *first = registered,
            FlowClaims::One(first) => {
                let mut several = SeveralClaims::default();
                for registered in [*first, registered] {
                    several.sort(&registered).insert(registered);
                }
                *self = FlowClaims::SeveralClaims(Box::new(several));
            }
            FlowClaims::SeveralClaims(several) => _ = several.sort(&registered).insert(registered),
        }
    }

    /// Removes a claim that was inserted with the same content; `false` if it is not present.
    pub(super) fn remove(&mut self, registered: &RegisteredClaim) -> bool {
        match self {
            FlowClaims::One(only) if only == registered => {
                *self = FlowClaims::None;
                true
            }
            FlowClaims::None | FlowClaims::One(_) => false,
            FlowClaims::SeveralClaims(several) => {
                let removed = several.sort(registered).remove(registered);
                let mut rest = several.own.iter().chain(&several.shared);
                if let (Some(&only), None) = (rest.next(), rest.next()) {
                    *self = FlowClaims::One(only);
                }
                removed
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        matches!(self, FlowClaims::None)
    }

    /// Returns the best claim of the flow alone.
    pub(super) fn own(&self) -> Option<&RegisteredClaim> {
        match self {
            FlowClaims::One(only) => Some(only).filter(|only| only.shared.is_none()),
            FlowClaims::SeveralClaims(several) => several.own.first(),
            FlowClaims::None => None,
        }
    }

    /// Returns the best claim that it shares with other flows.
    pub(super) fn shared(&self) -> Option<&RegisteredClaim> {
        match self {
            FlowClaims::One(only) => Some(only).filter(|only| only.shared.is_some()),
            FlowClaims::SeveralClaims(several) => several.shared.first(),
            FlowClaims::None => None,
        }
    }

    /// Returns the number of claims.
    pub(super) fn len(&self) -> usize {
        match self {
            FlowClaims::None => 0,
            FlowClaims::One(_) => 1,
            FlowClaims::SeveralClaims(several) => several.own.len() + several.shared.len(),
        }
    }

    /// Returns all claims, those of the flow alone first; the best of each sort first.
    pub(super) fn iter(&self) -> impl Iterator<Item = &RegisteredClaim> {
        let (one, several) = match self {
            FlowClaims::None => (None, None),
            FlowClaims::One(only) => (Some(only), None),
            FlowClaims::SeveralClaims(several) => {
                (None, Some(several.own.iter().chain(&several.shared)))
            }
        };
        one.into_iter().chain(several.into_iter().flatten())
    }

    /// Returns the classifier's entry for the flow; `None` without a claim.
    pub(super) fn entry(&self) -> Option<Entry> {
        let (own, shared) = (self.own(), self.shared());
        let first = own.or(shared)?;
        Some(Entry {
            own: own.map(|registered| registered.guarantee),
            shared: shared.and_then(|registered| registered.shared),
            protocol: first.protocol,
        })
    }
}

#[cfg(test)]
mod tests {
    use earmark_core::Rate;
    use earmark_core::admission::{Demand, Service};
    use proptest::prelude::*;

    use super::*;
    use crate::traffic_control::guarantee::BucketParameters;

    fn registered(slot: u32, kbps: u64, shared: bool) -> RegisteredClaim {
        let rate = Rate::from_bps(kbps * 1_000);
        let demand = Demand {
            service: Service::ControlledLoad,
            rate,
            burst: 3_000,
            max_packet: 1_500,
            min_packet: 0,
        };
        RegisteredClaim {
            holder: Holder::Claim(ClaimId { slot, generation: 0 }),
            guarantee: Guarantee {
                bucket: BucketParameters::reserved(&demand),
                class: slot,
                mark: None,
            },
            shared: shared.then_some(slot),
            protocol: None,
        }
    }

    #[test]
    fn smaller_claim_takes_nothing_and_larger_one_is_replaced_by_the_next() {
        let (large, small) = (registered(1, 2_000, false), registered(2, 8, false));
        for order in [[large, small], [small, large]] {
            let mut claims = FlowClaims::default();
            order.into_iter().for_each(|registered| claims.insert(registered));
            assert_eq!(claims.own(), Some(&large));
            assert!(claims.remove(&large) && !claims.remove(&large));
            assert_eq!(claims.own(), Some(&small));
            assert!(claims.remove(&small));
            assert!(claims.is_empty() && claims.entry().is_none());
        }
    }

    #[test]
    fn larger_shared_claim_stands_beside_own_one() {
        let (own, shared) = (registered(1, 1_000, false), registered(2, 2_000, true));
        let mut claims = FlowClaims::default();
        claims.insert(own);
        claims.insert(shared);
        let entry = claims.entry().expect("claimed");
        assert_eq!((entry.own, entry.shared), (Some(own.guarantee), Some(2)));
    }

    proptest! {
        /// After any sequence of insertions and removals, the largest present claim of each sort applies.
        #[test]
        fn best_claim_counts_after_any_sequence(
            steps in prop::collection::vec((0_u32..12, 1_u64..5, any::<bool>()), 0..60),
        ) {
            let mut claims = FlowClaims::default();
            let mut model: Vec<RegisteredClaim> = Vec::new();
            for (slot, kbps, shared) in steps {
                let holder = Holder::Claim(ClaimId { slot, generation: 0 });
                match model.iter().position(|registered| registered.holder == holder) {
                    Some(at) => prop_assert!(claims.remove(&model.remove(at))),
                    None => {
                        model.push(registered(slot, kbps, shared));
                        claims.insert(registered(slot, kbps, shared));
                    }
                }
                let best = |shared: bool| {
                    model.iter().filter(|registered| registered.shared.is_some() == shared).min()
                };
                prop_assert_eq!(claims.own(), best(false));
                prop_assert_eq!(claims.shared(), best(true));
                prop_assert_eq!(claims.iter().count(), model.len());
                prop_assert_eq!(claims.len(), model.len());
                prop_assert_eq!(claims.is_empty(), model.is_empty());
            }
        }
    }
}
