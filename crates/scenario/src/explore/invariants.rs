//! What must hold at a node, looked at from outside.

use std::collections::BTreeMap;

use earmark_core::admission::{ClaimId, Protocol};
use earmark_core::{InterfaceId, Rate};
use earmark_node::Node;
use earmark_sim::Reserved;
use serde::Serialize;

/// What must hold. See the module above.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Invariant {
    /// Ledger, engines and traffic control agree.
    BooksAgree,
    /// No link promises more than may be reserved of it.
    NothingPromisedTwice,
    /// What is reserved gets through.
    ReservedPacketsArrive,
    /// Nothing stays behind.
    EmptyInTheEnd,
}

impl Invariant {
    /// In words.
    pub const fn name(self) -> &'static str {
        match self {
            Invariant::BooksAgree => "books disagree",
            Invariant::NothingPromisedTwice => "promised twice",
            Invariant::ReservedPacketsArrive => "reserved packets lost",
            Invariant::EmptyInTheEnd => "left behind",
        }
    }
}

/// One that did not hold.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Breach {
    /// Which.
    pub invariant: Invariant,
    /// When it was seen, seconds from the beginning.
    pub at: f64,
    /// At which node.
    pub node: String,
    /// What was found.
    pub what: String,
}

/// A claim that an engine shows as its own.
#[derive(Clone, Copy, Debug)]
struct Shown {
    protocol: Protocol,
    interface: InterfaceId,
    /// Held, but not in force: its initiating node has yet to show that it got the key (Boomerang).
    locked: bool,
}

/// Which claims the engines of a node show as theirs; one that several blocks share is there once.
fn shown_claims(node: &Node) -> BTreeMap<ClaimId, Shown> {
    let shown = |claim, protocol, interface| (claim, Shown { protocol, interface, locked: false });
    let rsvp = node.rsvp_engine().reservations();
    let rsvp = rsvp.filter_map(|view| Some(shown(view.claim?, Protocol::Rsvp, view.outgoing?)));
    let boomerang = node.boomerang_engine().sessions().flat_map(|session| {
        let halves = [session.forward, session.reverse].into_iter().flatten();
        halves.map(move |half| {
            let (claim, own) = shown(half.claim, Protocol::Boomerang, half.interface);
            (claim, Shown { locked: session.locked, ..own })
        })
    });
    let yessir = node.yessir_engine().sessions(0).flat_map(|(_, session)| session.legs);
    let yessir = yessir.filter_map(|leg| Some(shown(leg.claim?, Protocol::Yessir, leg.interface)));
    let nsis = node.nsis_engine().qos().sessions(0);
    let nsis =
        nsis.filter_map(|(_, view)| Some(shown(view.claim?, Protocol::Nsis, view.interface?)));
    rsvp.chain(boomerang).chain(yessir).chain(nsis).collect()
}

/// Where the ledger of a node, its engines and its traffic control do not agree.
pub(super) fn disagreements(
    node: &Node,
    traffic_control: &[(InterfaceId, Reserved)],
) -> Vec<String> {
    let ledger = node.ledger();
    let shown = shown_claims(node);
    let mut wrong = Vec::new();
    for (&claim, &Shown { protocol, interface, .. }) in &shown {
        let (owner, link) = (ledger.owner(claim), ledger.link_of(claim));
        if owner.map(|owner| owner.protocol) != Some(protocol) || link != Some(interface) {
            wrong.push(format!(
                "{protocol:?} shows {claim:?} on interface {}, the ledger has it for {owner:?} on {link:?}",
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
        // What is locked has no class but one that a dead daemon may have left.
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

/// For people.
fn amount((rate, count): (Rate, u32)) -> String {
    format!("{} bit/s in {count}", rate.as_bps())
}

/// What a node has left, though nobody wants anything any more.
pub(super) fn remains(node: &Node, traffic_control: usize) -> Vec<String> {
    let (sessions, senders, reservations) = node.rsvp_engine().population();
    let (passing, own) = node.boomerang_engine().population();
    let nsis = node.nsis_engine();
    let links = node.ledger().links();
    let held: u64 = links.map(|(_, status)| status.held.as_bps() + u64::from(status.queued)).sum();
    let with_state =
        |neighbor: &earmark_rsvp::NeighborView| neighbor.senders > 0 || neighbor.reservations > 0;
    let counts = [
        ("sessions of RSVP", sessions),
        ("senders of RSVP", senders),
        ("reservations of RSVP", reservations),
        (
            "neighbours of RSVP with state",
            node.rsvp_engine().neighbors().filter(with_state).count(),
        ),
        ("messages of RSVP not acknowledged", node.rsvp_engine().reduction().1),
        ("sessions of Boomerang", passing),
        ("loops of Boomerang", own),
        ("streams of YESSIR", node.yessir_engine().session_count()),
        ("applications of YESSIR", node.yessir_engine().applications().count()),
        ("sessions of QoS NSLP", nsis.qos().session_count()),
        ("routing states of GIST", nsis.gist().routing_state_count()),
        ("associations of GIST", nsis.gist().associations().count()),
        ("peers of GIST", nsis.gist().peers().len()),
        ("bit/s held, and requests that wait", held as usize),
        ("classes of traffic control", traffic_control),
        ("timers", node.next_deadline().iter().count()),
    ];
    let some = counts.iter().filter(|(_, count)| *count > 0);
    some.map(|(what, count)| format!("{count} {what}")).collect()
}

#[cfg(test)]
mod tests {
    use earmark_core::Time;
    use earmark_node::NodeConfig;

    use super::*;
    use crate::reservation::ReservationRequest;
    use crate::scenario::Protocol;
    use crate::topology::{DEMO, Topology};

    /// One reservation over the demo's network, by each protocol: what is seen at its first router, as it is and with a
    /// traffic control that has lost a class, or has one too many.
    #[test]
    fn books_that_do_not_agree_are_seen() {
        for by in [Protocol::Rsvp, Protocol::Boomerang, Protocol::Yessir, Protocol::Nsis] {
            let topology = Topology::parse(DEMO).expect("the demo's");
            let (mut network, nodes) = crate::network(&topology, 1, &NodeConfig::default());
            let ends = ["h1", "h2"].map(|name| topology.node(name).expect("it is there"));
            let address = |end: usize| topology.address(end).expect("it has a link").into();
            let rate = Rate::from_mbps(1);
            let wish = ReservationRequest {
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
            wish.ask(&mut network, by);
            network.run_until(Time::from_secs(10));
            let router = nodes[topology.node("r1").expect("it is there")];
            let engines = network.node(router).expect("it lives");
            let classes: Vec<_> = network.traffic_control(router).collect();
            assert_eq!(classes.len(), 1, "{by:?}");
            assert_eq!(disagreements(engines, &classes), [""; 0], "{by:?}");
            assert_eq!(disagreements(engines, &[]).len(), 1, "{by:?}");
            let twice = [classes.clone(), classes].concat();
            assert_eq!(disagreements(engines, &twice).len(), 1, "{by:?}");
            assert!(remains(engines, 1).len() > 2, "{by:?}");
        }
    }
}
