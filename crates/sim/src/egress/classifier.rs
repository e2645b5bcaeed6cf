//! The classifier of an egress: the classes that the packets of a flow, or of a range of flows, may use.
//!
//! A flow can be claimed several times, and a packet can match several flows. The classifier returns all of them, the
//! narrowest first; the egress selects one.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use earmark_core::Flow;
use earmark_core::admission::Protocol;
use hashbrown::HashTable;

/// A claim on a flow: the class that its packets may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowClaim {
    pub(crate) class: u32,
    /// Whether the running daemon has requested it.
    pub(crate) claimed: bool,
    /// Protocol of the claim, if known.
    pub(crate) protocol: Option<Protocol>,
}

/// Flows and the claims on them.
#[derive(Debug, Default)]
pub(crate) struct Classifier {
    claims: BTreeMap<Flow, Vec<FlowClaim>>,
    /// The ranges among the flows, the narrowest first. Few.
    ranges: BTreeSet<(u32, Flow)>,
    /// Flows that lead to each class.
    members: BTreeMap<u32, BTreeSet<Flow>>,
    /// Cached lookups of streams since the last change, by our stream numbers.
    found: HashTable<(usize, Vec<u32>)>,
}

impl Classifier {
    /// Returns the claims on a flow.
    pub(crate) fn get(&self, flow: &Flow) -> &[FlowClaim] {
        self.claims.get(flow).map_or(&[], Vec::as_slice)
    }

    /// Enters or changes a claim on a flow.
    pub(crate) fn set(&mut self, flow: Flow, claim: FlowClaim) {
        if flow.is_range() {
            self.ranges.insert((flow.openness(), flow));
        }
        let claims = self.claims.entry(flow).or_default();
        match claims.iter_mut().find(|known| known.class == claim.class) {
            Some(known) => *known = claim,
            None => {
                claims.push(claim);
                self.members.entry(claim.class).or_default().insert(flow);
            }
        }
        self.found.clear();
    }

    /// Removes a claim on a flow, if it is present.
    pub(crate) fn remove(&mut self, flow: &Flow, class: u32) -> Option<FlowClaim> {
        let claims = self.claims.get_mut(flow)?;
        let at = claims.iter().position(|claim| claim.class == class)?;
        let gone = claims.remove(at);
        if claims.is_empty() {
            self.claims.remove(flow);
            self.ranges.remove(&(flow.openness(), *flow));
        }
        if let Some(members) = self.members.get_mut(&class) {
            members.remove(flow);
            if members.is_empty() {
                self.members.remove(&class);
            }
        }
        self.found.clear();
        Some(gone)
    }

    /// Removes all claims of a class; returns them by flow in ascending order.
    pub(crate) fn remove_class(&mut self, class: u32) -> Vec<(Flow, FlowClaim)> {
        let flows = self.members.get(&class).cloned().unwrap_or_default();
        flows.into_iter().filter_map(|flow| Some((flow, self.remove(&flow, class)?))).collect()
    }

    /// Removes the claims that `unwanted` selects; returns them by flow in ascending order. Visits all claims.
    pub(crate) fn extract(
        &mut self,
        mut unwanted: impl FnMut(&Flow, &FlowClaim) -> bool,
    ) -> Vec<(Flow, FlowClaim)> {
        let gone = self.iter().filter(|(flow, claim)| unwanted(flow, claim));
        let gone: Vec<(Flow, FlowClaim)> = gone.map(|(flow, claim)| (*flow, *claim)).collect();
        for (flow, claim) in &gone {
            self.remove(flow, claim.class);
        }
        gone
    }

    /// Returns all claims, by flow in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Flow, &FlowClaim)> {
        self.claims.iter().flat_map(|(flow, claims)| claims.iter().map(move |claim| (flow, claim)))
    }

    /// Returns all claims, by flow in ascending order; classes must not be changed.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&Flow, &mut FlowClaim)> {
        let claims = self.claims.iter_mut();
        claims.flat_map(|(flow, claims)| claims.iter_mut().map(move |claim| (flow, claim)))
    }

    /// Whether a flow leads to a class.
    pub(crate) fn has_members(&self, class: u32) -> bool {
        self.members.contains_key(&class)
    }

    /// Returns the first flow that leads to a class, and the claim on it.
    pub(crate) fn first_of(&self, class: u32) -> Option<(&Flow, FlowClaim)> {
        let flow = self.members.get(&class)?.first()?;
        let claim = self.get(flow).iter().find(|claim| claim.class == class)?;
        Some((flow, *claim))
    }

    /// Whether several flows share a class.
    pub(crate) fn is_shared(&self, class: u32) -> bool {
        self.members.get(&class).is_some_and(|flows| flows.len() > 1)
    }

    /// Returns the best claim of this flow alone and the best shared one; `better` compares classes.
    pub(crate) fn best(&self, flow: &Flow, better: &impl Fn(u32, u32) -> bool) -> [Option<u32>; 2] {
        let mut best = [None::<u32>; 2];
        for claim in self.get(flow) {
            let best = &mut best[usize::from(self.is_shared(claim.class))];
            if best.is_none_or(|best| better(claim.class, best)) {
                *best = Some(claim.class);
            }
        }
        best
    }

    /// Returns the classes that a packet of a stream may use, the narrowest claim first. All packets with one stream
    /// number are of one flow and have one DSCP.
    pub(crate) fn classes_of(
        &mut self,
        stream: usize,
        flow: impl FnOnce() -> Flow,
        better: &impl Fn(u32, u32) -> bool,
    ) -> &[u32] {
        let known = self.found.find(hash(stream), |(other, _)| *other == stream).is_some();
        if !known {
            let classes = self.look_up(&flow(), better);
            self.found.insert_unique(hash(stream), (stream, classes), |(stream, _)| hash(*stream));
        }
        let found = self.found.find(hash(stream), |(other, _)| *other == stream);
        found.map_or(&[], |(_, classes)| classes.as_slice())
    }

    /// Returns the classes of a packet, given as its exact flow, in the order of the kernel's classifier: flows with
    /// its source, then with any; each with both ports, the destination port, the source port, no port; then ranges,
    /// the narrowest first.
    pub(crate) fn look_up(&self, packet: &Flow, better: &impl Fn(u32, u32) -> bool) -> Vec<u32> {
        let exact = Flow { dscp: 0, ..*packet };
        let any_source = Flow { source: None, ..exact };
        let kinds = [exact, any_source].into_iter().flat_map(|flow| {
            let to_port = Flow { source_port: 0, ..flow };
            let from_port = Flow { destination_port: 0, ..flow };
            [flow, to_port, from_port, Flow { destination_port: 0, ..to_port }]
        });
        let mut classes: Vec<u32> =
            kinds.flat_map(|flow| self.best(&flow, better)).flatten().collect();
        let ranges = self.ranges.iter().filter(|(_, range)| range.covers(packet));
        classes.extend(ranges.flat_map(|(_, range)| self.best(range, better)).flatten());
        classes
    }
}

/// Spreads consecutive numbers over all bits (Knuth's multiplicative hashing).
fn hash(stream: usize) -> u64 {
    (stream as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
