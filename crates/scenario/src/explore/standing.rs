//! What stands reserved where, as the log of the simulator tells it, entry by entry.

use std::collections::BTreeMap;

use earmark_core::admission::ClaimId;
use earmark_core::{Flow, InterfaceId, Rate, Time};
use earmark_node::Event;
use earmark_sim::{Entry, NodeId, What};

/// One end of a link.
type Place = (NodeId, InterfaceId);

/// What traffic control has for a flow.
#[derive(Clone, Copy, Debug)]
struct Held {
    rate: Rate,
    /// What the living daemon calls it; nothing, if a dead one made it.
    claim: Option<ClaimId>,
}

/// A flow whose packets are to get through.
#[derive(Debug, Default)]
struct Watched {
    rate: Rate,
    /// The links of its way; none, while it has no way.
    path: Vec<Place>,
    /// Since when its reservation stands on all of them.
    since: Option<Time>,
    /// From when until when it stood before.
    spans: Vec<(Time, Time)>,
}

impl Watched {
    fn set(&mut self, stands: bool, at: Time) {
        match (self.since, stands) {
            (None, true) => self.since = Some(at),
            (Some(since), false) => {
                self.spans.push((since, at));
                self.since = None;
            }
            _ => {}
        }
    }
}

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Standing {
    /// What may be reserved.
    reservable: BTreeMap<Place, Rate>,
    held: BTreeMap<Place, BTreeMap<Flow, Held>>,
    claims: BTreeMap<(NodeId, ClaimId), (InterfaceId, Flow)>,
    watched: BTreeMap<Flow, Watched>,
    /// Links that promised more: where, when, and how much.
    pub(super) overdrawn: Vec<(Time, Place, Rate)>,
}

impl Standing {
    /// With the links of a network, and what may be reserved of each.
    pub(super) fn new(reservable: BTreeMap<Place, Rate>) -> Standing {
        Standing { reservable, ..Standing::default() }
    }

    /// What may be reserved of a link.
    pub(super) fn reservable(&self, node: NodeId, interface: InterfaceId) -> Option<Rate> {
        self.reservable.get(&(node, interface)).copied()
    }

    /// As if half as much might be reserved.
    #[cfg(test)]
    pub(super) fn halve(&mut self) {
        self.reservable.values_mut().for_each(|rate| *rate = rate.share(0.5));
    }

    /// From now on a flow takes this way, or none, and shall get through where at least `rate` stands for it.
    pub(super) fn lead(&mut self, flow: Flow, rate: Rate, path: Vec<Place>, at: Time) {
        let watched = self.watched.entry(flow).or_default();
        watched.rate = rate;
        if watched.path != path {
            watched.set(false, at);
            watched.path = path;
        }
        self.review(&flow, at);
    }

    /// A flow is watched no more: the spans of time in which it stood.
    pub(super) fn leave(&mut self, flow: &Flow, at: Time) -> Vec<(Time, Time)> {
        let Some(mut watched) = self.watched.remove(flow) else { return Vec::new() };
        watched.set(false, at);
        watched.spans
    }

    /// Takes note of what has happened.
    pub(super) fn follow(&mut self, log: &[Entry]) {
        for Entry { at, node, what } in log {
            match what {
                What::Installed(new) => {
                    let place = (*node, new.interface);
                    self.claims.insert((*node, new.claim), (new.interface, new.flow));
                    let held = Held { rate: new.demand.rate, claim: Some(new.claim) };
                    let flows = self.held.entry(place).or_default();
                    flows.insert(new.flow, held);
                    let all: Rate = flows.values().map(|held| held.rate).sum();
                    if self.reservable.get(&place).is_some_and(|most| all > *most) {
                        self.overdrawn.push((*at, place, all));
                    }
                    self.review(&new.flow, *at);
                }
                What::Removed(claim) => {
                    if let Some((interface, flow)) = self.claims.remove(&(*node, *claim)) {
                        self.remove((*node, interface), &flow, Some(*claim), *at);
                    }
                }
                What::Reaped(interface, flow)
                | What::Event(Event::NotAdopted { interface, flow, .. }) => {
                    self.remove((*node, *interface), flow, None, *at);
                }
                What::Restarted => {
                    self.claims.retain(|(at, _), _| at != node);
                    let here = self.held.iter_mut().filter(|((at, _), _)| at == node);
                    here.flat_map(|(_, flows)| flows.values_mut())
                        .for_each(|held| held.claim = None);
                }
                _ => {}
            }
        }
    }

    /// Something has gone, if it is still called so.
    fn remove(&mut self, place: Place, flow: &Flow, claim: Option<ClaimId>, at: Time) {
        let Some(flows) = self.held.get_mut(&place) else { return };
        if flows.get(flow).is_some_and(|held| held.claim == claim) {
            flows.remove(flow);
            self.review(flow, at);
        }
    }

    /// Whether a flow has all it needs now.
    fn review(&mut self, flow: &Flow, at: Time) {
        let Some(watched) = self.watched.get_mut(flow) else { return };
        let has = |place: &Place| {
            let held = self.held.get(place).and_then(|flows| flows.get(flow));
            held.is_some_and(|held| held.rate >= watched.rate)
        };
        let stands = !watched.path.is_empty() && watched.path.iter().all(has);
        watched.set(stands, at);
    }
}
