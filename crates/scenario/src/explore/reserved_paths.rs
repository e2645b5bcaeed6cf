//! Reservations in force on the paths of flows, from the log of the simulator, entry by entry.

use std::collections::BTreeMap;

use earmark_core::admission::ClaimId;
use earmark_core::{Flow, InterfaceId, Rate, Time};
use earmark_node::Event;
use earmark_sim::{LogEntry, LogEvent, NodeId};

/// One end of a link.
type Place = (NodeId, InterfaceId);

/// Reservation of a flow in traffic control.
#[derive(Clone, Copy, Debug)]
struct Held {
    rate: Rate,
    /// Claim of the running daemon; `None` if a crashed one made it.
    claim: Option<ClaimId>,
}

/// A flow whose packets have to arrive.
#[derive(Debug, Default)]
struct TrackedFlow {
    rate: Rate,
    /// Links of its path; empty while it has none.
    path: Vec<Place>,
    /// Start of the current period with a reservation on all of them.
    since: Option<Time>,
    /// Earlier periods with a reservation on all of them.
    spans: Vec<(Time, Time)>,
}

impl TrackedFlow {
    fn set_reserved(&mut self, is_reserved: bool, at: Time) {
        match (self.since, is_reserved) {
            (None, true) => self.since = Some(at),
            (Some(since), false) => {
                self.spans.push((since, at));
                self.since = None;
            }
            _ => {}
        }
    }
}

/// State of all reservations; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct ReservedPaths {
    /// Reservable rate by link end.
    reservable: BTreeMap<Place, Rate>,
    held: BTreeMap<Place, BTreeMap<Flow, Held>>,
    claims: BTreeMap<(NodeId, ClaimId), (InterfaceId, Flow)>,
    tracked: BTreeMap<Flow, TrackedFlow>,
    /// Links whose reservations exceeded the reservable rate: time, link end and sum.
    pub(super) exceeded: Vec<(Time, Place, Rate)>,
}

impl ReservedPaths {
    /// Creates the state for the links of a network with their reservable rates.
    pub(super) fn new(reservable: BTreeMap<Place, Rate>) -> ReservedPaths {
        ReservedPaths { reservable, ..ReservedPaths::default() }
    }

    /// Returns the reservable rate of a link.
    pub(super) fn reservable(&self, node: NodeId, interface: InterfaceId) -> Option<Rate> {
        self.reservable.get(&(node, interface)).copied()
    }

    /// Halves all reservable rates.
    #[cfg(test)]
    pub(super) fn halve_reservable(&mut self) {
        self.reservable.values_mut().for_each(|rate| *rate = rate.share(0.5));
    }

    /// Sets the path of a flow, or none. From now on the packets of the flow must arrive while at least `rate` is
    /// reserved on the whole path.
    pub(super) fn set_path(&mut self, flow: Flow, rate: Rate, path: Vec<Place>, at: Time) {
        let tracked = self.tracked.entry(flow).or_default();
        tracked.rate = rate;
        if tracked.path != path {
            tracked.set_reserved(false, at);
            tracked.path = path;
        }
        self.update(&flow, at);
    }

    /// Returns whether a flow is reserved on its whole path now.
    pub(super) fn is_reserved(&self, flow: &Flow) -> bool {
        self.tracked.get(flow).is_some_and(|tracked| tracked.since.is_some())
    }

    /// Stops tracking a flow. Returns the periods with a reservation on its whole path.
    pub(super) fn untrack(&mut self, flow: &Flow, at: Time) -> Vec<(Time, Time)> {
        let Some(mut tracked) = self.tracked.remove(flow) else { return Vec::new() };
        tracked.set_reserved(false, at);
        tracked.spans
    }

    /// Processes entries of the log.
    pub(super) fn process(&mut self, log: &[LogEntry]) {
        for LogEntry { at, node, what } in log {
            match what {
                LogEvent::Installed(new) => {
                    let place = (*node, new.interface);
                    self.claims.insert((*node, new.claim), (new.interface, new.flow));
                    let held = Held { rate: new.demand.rate, claim: Some(new.claim) };
                    let flows = self.held.entry(place).or_default();
                    flows.insert(new.flow, held);
                    let all: Rate = flows.values().map(|held| held.rate).sum();
                    if self.reservable.get(&place).is_some_and(|most| all > *most) {
                        self.exceeded.push((*at, place, all));
                    }
                    self.update(&new.flow, *at);
                }
                LogEvent::Removed(claim) => {
                    if let Some((interface, flow)) = self.claims.remove(&(*node, *claim)) {
                        self.remove((*node, interface), &flow, Some(*claim), *at);
                    }
                }
                LogEvent::Reaped(interface, flow)
                | LogEvent::Event(Event::NotAdopted { interface, flow, .. }) => {
                    self.remove((*node, *interface), flow, None, *at);
                }
                LogEvent::Restarted => {
                    self.claims.retain(|(at, _), _| at != node);
                    let here = self.held.iter_mut().filter(|((at, _), _)| at == node);
                    here.flat_map(|(_, flows)| flows.values_mut())
                        .for_each(|held| held.claim = None);
                }
                _ => {}
            }
        }
    }

    /// Removes a reservation, if it still has this claim.
    fn remove(&mut self, place: Place, flow: &Flow, claim: Option<ClaimId>, at: Time) {
        let Some(flows) = self.held.get_mut(&place) else { return };
        if flows.get(flow).is_some_and(|held| held.claim == claim) {
            flows.remove(flow);
            self.update(flow, at);
        }
    }

    /// Updates whether a flow is reserved on its whole path.
    fn update(&mut self, flow: &Flow, at: Time) {
        let Some(tracked) = self.tracked.get_mut(flow) else { return };
        let has = |place: &Place| {
            let held = self.held.get(place).and_then(|flows| flows.get(flow));
            held.is_some_and(|held| held.rate >= tracked.rate)
        };
        let is_reserved = !tracked.path.is_empty() && tracked.path.iter().all(has);
        tracked.set_reserved(is_reserved, at);
    }
}
