//! The classifier of an egress: which class the packets of a flow, or of a range of flows, go into.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use earmark_core::Flow;
use hashbrown::HashTable;

/// Where the packets of a flow go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) class: u32,
    /// Whether the living daemon has asked for it.
    pub(crate) named: bool,
}

/// Flows and their places.
#[derive(Debug, Default)]
pub(crate) struct Classifier {
    places: BTreeMap<Flow, Place>,
    /// Those that are ranges, the narrowest first. A few.
    ranges: BTreeSet<(u32, Flow)>,
    /// What was found for streams since something was changed, by their numbers, which are ours.
    found: HashTable<(usize, Option<u32>)>,
}

impl Classifier {
    pub(crate) fn get(&self, flow: &Flow) -> Option<Place> {
        self.places.get(flow).copied()
    }

    pub(crate) fn set(&mut self, flow: Flow, place: Place) {
        if flow.is_range() {
            self.ranges.insert((flow.openness(), flow));
        }
        self.places.insert(flow, place);
        self.found.clear();
    }

    pub(crate) fn remove(&mut self, flow: &Flow) {
        self.places.remove(flow);
        self.ranges.remove(&(flow.openness(), *flow));
        self.found.clear();
    }

    /// Takes out those that `unwanted` names, in ascending order.
    pub(crate) fn extract(&mut self, unwanted: impl Fn(&Place) -> bool) -> Vec<(Flow, Place)> {
        let gone: Vec<_> = self.places.extract_if(.., |_, place| unwanted(place)).collect();
        for (flow, _) in &gone {
            self.ranges.remove(&(flow.openness(), *flow));
        }
        self.found.clear();
        gone
    }

    /// All, in ascending order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Flow, &Place)> {
        self.places.iter()
    }

    /// Likewise; classes must stay as they are.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&Flow, &mut Place)> {
        self.places.iter_mut()
    }

    /// The class of a packet of a stream, all of which are of the same flow.
    pub(crate) fn class_of(&mut self, stream: usize, flow: impl FnOnce() -> Flow) -> Option<u32> {
        if let Some((_, class)) = self.found.find(hash(stream), |(other, _)| *other == stream) {
            return *class;
        }
        let class = self.look_up(&flow()).map(|place| place.class);
        self.found.insert_unique(hash(stream), (stream, class), |(stream, _)| hash(*stream));
        class
    }

    /// The place of a packet, given as the flow that only its like are in, looked for as the kernel's classifier does: for
    /// its source, then for any; each by both ports, the destination port, the source port, no port; then by the narrowest
    /// range.
    pub(crate) fn look_up(&self, packet: &Flow) -> Option<Place> {
        let any_source = Flow { source: None, ..*packet };
        let mut kinds = [*packet, any_source].into_iter().flat_map(|flow| {
            let to_port = Flow { source_port: 0, ..flow };
            let from_port = Flow { destination_port: 0, ..flow };
            [flow, to_port, from_port, Flow { destination_port: 0, ..to_port }]
        });
        kinds.find_map(|flow| self.get(&flow)).or_else(|| {
            let (_, range) = self.ranges.iter().find(|(_, range)| range.covers(packet))?;
            self.get(range)
        })
    }
}

/// Numbers in a row spread over all bits (Knuth's multiplicative hashing).
fn hash(stream: usize) -> u64 {
    (stream as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}
