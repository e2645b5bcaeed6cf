//! Invariants of a node, checked from outside.

use std::collections::BTreeMap;

use earmark_core::admission::{ClaimId, Protocol};
use earmark_core::{InterfaceId, Rate};
use earmark_node::{HeldClaim, Node};
use earmark_sim::Reserved;
use serde::Serialize;

earmark_core::named_enum! {
    /// An invariant, named by its violation; see the parent module.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Invariant {
        /// Ledger, engines and traffic control agree.
        BooksAgree = "books disagree",
        /// The reservations of a link never exceed its reservable rate.
        NothingPromisedTwice = "promised twice",
        /// Reserved packets arrive.
        ReservedPacketsArrive = "reserved packets lost",
        /// No state is left after the end.
        EmptyInTheEnd = "left behind",
        /// Reservations stay while their flows last. Only without faults.
        ReservationsStay = "reservation changed",
        /// Requests are granted or refused in time. Only without faults.
        RequestsAreAnswered = "not answered",
        /// The state of an engine stays below its bound. Only with attackers.
        StateIsBounded = "too much state",
    }
}

/// A violated invariant.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Breach {
    /// The invariant.
    pub invariant: Invariant,
    /// Time of detection, seconds from the start.
    pub at: f64,
    /// The node.
    pub node: String,
    /// Details.
    pub what: String,
}

/// A claim that an engine lists as its own.
#[derive(Clone, Copy, Debug)]
struct ListedClaim {
    protocol: Protocol,
    interface: InterfaceId,
    /// Whether it is held, but not in force: its initiator has not confirmed yet.
    locked: bool,
}

/// Returns the claims that the engines of a node list as theirs; a claim shared by several blocks is listed once.
fn listed_claims(node: &Node) -> BTreeMap<ClaimId, ListedClaim> {
    let engines = node.engines();
    let claims = engines.flat_map(|engine| {
        engine.claims().map(|held| {
            let HeldClaim { claim, interface, locked } = held;
            (claim, ListedClaim { protocol: engine.kind().protocol, interface, locked })
        })
    });
    claims.collect()
}

/// Returns the differences between the ledger of a node, its engines and its traffic control.
pub(crate) fn disagreements(
    node: &Node,
    traffic_control: &[(InterfaceId, Reserved)],
) -> Vec<String> {
    let ledger = node.ledger();
    let shown = listed_claims(node);
    let mut wrong = Vec::new();
    for (&claim, &ListedClaim { protocol, interface, .. }) in &shown {
        let (owner, link) = (ledger.owner(claim), ledger.link_of(claim));
        if owner.map(|owner| owner.protocol) != Some(protocol) || link != Some(interface) {
            let name = node.protocol_name(protocol).unwrap_or("nobody");
            wrong.push(format!(
                "{name} shows {claim:?} on interface {}, the ledger has it for {owner:?} on {link:?}",
                interface.0
            ));
        }
    }
    for (interface, status) in ledger.links() {
        let rate = |claim: &ClaimId| ledger.demand(*claim).map_or(Rate::ZERO, |d| d.rate);
        let mut all = (Rate::ZERO, 0);
        let mut locked = (Rate::ZERO, 0);
        for (claim, shown) in shown.iter().filter(|(_, shown)| shown.interface == interface) {
            let add = |(sum, count): (Rate, u32)| (sum.saturating_add(rate(claim)), count + 1);
            all = add(all);
            locked = if shown.locked { add(locked) } else { locked };
        }
        let held = (status.held, status.claims);
        if all.1 != held.1 || all.0 > held.0 || (status.adopted == 0 && all.0 < held.0) {
            let (place, held, all) = (interface.0, amount(held), amount(all));
            wrong.push(format!("interface {place}: the ledger holds {held}, the engines {all}"));
        }
        let installed = traffic_control
            .iter()
            .filter(|(at, _)| *at == interface)
            .fold((Rate::ZERO, 0), |(sum, count), (_, class)| {
                (sum.saturating_add(class.demand.rate), count + 1)
            });
        // A locked reservation has no class, except one left by a crashed daemon.
        let most = (status.held, status.claims + status.adopted);
        let least = (most.0.saturating_sub(locked.0), most.1.saturating_sub(locked.1));
        let fits =
            (least.0..=most.0).contains(&installed.0) && (least.1..=most.1).contains(&installed.1);
        if !fits {
            let (place, installed, least) = (interface.0, amount(installed), amount(least));
            wrong.push(format!(
                "interface {place}: traffic control has {installed}, the ledger {least} in force"
            ));
        }
    }
    wrong
}

/// Bounds of the state of an engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Bound of each kind of state that lasts.
    pub(super) state: usize,
    /// Bound of messages that wait for an answer.
    pub(super) messages: usize,
}

/// Returns the kinds of state of which a node has more than their bounds.
pub(super) fn unbounded_state(node: &Node, bounds: Bounds) -> Vec<String> {
    let counts = node.engines().flat_map(|engine| engine.state_counts());
    let exceeding = counts.filter_map(|(part, kind, count)| {
        let most = if kind.ends_with("messages") { bounds.messages } else { bounds.state };
        (count > most).then(|| format!("{count} {kind} of {part}, and {most} at most"))
    });
    exceeding.collect()
}

/// Formats a rate and a count for people.
fn amount((rate, count): (Rate, u32)) -> String {
    format!("{} bit/s in {count}", rate.as_bps())
}

/// Returns the state left on a node after all flows have ended.
pub(crate) fn remaining_state(node: &Node, traffic_control: usize) -> Vec<String> {
    let links = node.ledger().links();
    let held: u64 = links.map(|(_, status)| status.held.as_bps() + u64::from(status.queued)).sum();
    let counts = node.engines().flat_map(|engine| engine.state_counts()).chain([
        ("the ledger", "bit/s held, and requests that wait", held as usize),
        ("traffic control", "classes", traffic_control),
        ("the node", "timers", node.next_deadline().iter().count()),
    ]);
    let some = counts.filter(|(_, _, count)| *count > 0);
    some.map(|(part, kind, count)| format!("{count} {kind} of {part}")).collect()
}

#[cfg(test)]
mod tests {
    use earmark_core::Time;
    use earmark_node::NodeConfig;

    use super::*;
    use crate::protocols::{self, Protocols};
    use crate::reservation::ReservationRequest;
    use crate::topology::{DEMO, Topology};

    /// One reservation across the demo's network, by each protocol: differences at its first router, with intact
    /// traffic control, a lost class, and a class too many; and its state, with bounds below and above it.
    #[test]
    fn differing_traffic_control_is_detected() {
        for by in Protocols::default().all() {
            let topology = Topology::parse(DEMO).expect("the demo's");
            let (mut network, nodes) = crate::network(&topology, 1, &NodeConfig::default());
            let ends = ["h1", "h2"].map(|name| topology.node(name).expect("it is there"));
            let address = |end: usize| topology.address(end).expect("it has a link").into();
            let rate = Rate::from_mbps(1);
            let request = ReservationRequest {
                number: 1,
                time: 0,
                nodes: ends.map(|end| nodes[end]),
                addresses: ends.map(address),
                port: 5_000,
                rate,
                bucket_octets: 5_000,
                packet_octets: 500,
                priority: None,
            };
            protocols::request(*by, &request, &mut network);
            network.run_until(Time::from_secs(10));
            let router = nodes[topology.node("r1").expect("it is there")];
            let engines = network.node(router).expect("the daemon runs");
            let classes: Vec<_> = network.traffic_control(router).collect();
            assert_eq!(classes.len(), 1, "{by:?}");
            assert_eq!(disagreements(engines, &classes), [""; 0], "{by:?}");
            assert_eq!(disagreements(engines, &[]).len(), 1, "{by:?}");
            let twice = [classes.clone(), classes].concat();
            assert_eq!(disagreements(engines, &twice).len(), 1, "{by:?}");
            assert!(remaining_state(engines, 1).len() > 2, "{by:?}");
            let [none, some] = [0, 10].map(|most| Bounds { state: most, messages: most });
            assert_ne!(unbounded_state(engines, none), [""; 0], "{by:?}");
            assert_eq!(unbounded_state(engines, some), [""; 0], "{by:?}");
        }
    }
}
