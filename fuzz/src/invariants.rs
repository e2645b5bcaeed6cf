//! Invariants of a node, checked after each input; and of all nodes when everything has ended.

use std::collections::BTreeMap;

use earmark_core::admission::ClaimId;
use earmark_core::{Effects, InterfaceId, Rate, Time};
use earmark_node::{Event, HeldClaim, Node, QueueView, StateCount};

use crate::host::Host;
use crate::topology::RESERVABLE;

/// Most times that a node is called for deadlines of one instant.
pub const MOST_EXPIRIES: usize = 200;
/// Most effects of one input: some, and some for each unit of state.
const EFFECTS: usize = 64;
const EFFECTS_OF_STATE: usize = 24;
/// Longest IP packet.
const LONGEST: usize = 65_535;

/// Largest numbers of soft states, named as in [`earmark_node::NodeEngine::state_counts`].
pub type Limits = Vec<StateCount>;

/// Returns the number of units of state.
pub fn size(node: &Node) -> usize {
    node.engines().flat_map(|engine| engine.state_counts()).map(|(_, _, count)| count).sum()
}

/// The work of one input is bounded by the state that there is.
pub fn check_effects(before: usize, after: usize, effects: &Effects<Event>) {
    let most = EFFECTS + EFFECTS_OF_STATE * before.max(after);
    assert!(effects.len() <= most, "{} effects with a state of {before} to {after}", effects.len());
    for effect in effects.iter() {
        if let earmark_core::Effect::Send(how, range) = effect {
            assert!(range.len() <= LONGEST, "{how:?}: {} octets", range.len());
        }
    }
}

/// The engines, the ledger and traffic control agree, and no limit is exceeded.
pub fn check(host: &Host, limits: &Limits) {
    let node = &host.node;
    let mut listed: BTreeMap<ClaimId, HeldClaim> = BTreeMap::new();
    let ledger = node.ledger();
    for engine in node.engines() {
        for held in engine.claims() {
            let owner = ledger.owner(held.claim);
            let protocol = owner.map(|owner| owner.protocol);
            assert_eq!(protocol, Some(engine.kind().protocol), "{held:?}, owner {owner:?}");
            assert_eq!(ledger.link_of(held.claim), Some(held.interface), "{held:?}");
            listed.insert(held.claim, held);
        }
    }
    for (link, status) in ledger.links() {
        let (sum, count) = total(node, listed.values().filter(|held| held.interface == link));
        assert_eq!(count, status.claims, "claims on {link:?}");
        assert!(sum <= status.held, "{link:?} holds {:?}, listed {sum:?}", status.held);
        assert!(status.adopted > 0 || sum == status.held, "{link:?} holds {:?}", status.held);
        assert!(status.held <= RESERVABLE, "{link:?} holds {:?}", status.held);
        check_classes(host, link, &listed);
    }
    for (part, kind, most) in limits {
        let mut counts = node.engines().flat_map(|engine| engine.state_counts());
        let count =
            counts.find(|(counted, of, _)| (counted, of) == (part, kind)).map(|(.., it)| it);
        assert!(count.is_some_and(|count| count <= *most), "{count:?} {kind} of {part}");
    }
}

/// The listing of reservations has each claim once, on its link, and finds it alone as well.
pub fn check_listing(host: &Host, now: Time) {
    let node = &host.node;
    let mut listed = Vec::new();
    let rows = node.reservation_rows(now, |claim| {
        listed.push(claim);
        QueueView::default()
    });
    rows.for_each(drop);
    listed.sort_unstable();
    let mut held: Vec<ClaimId> =
        node.engines().flat_map(|engine| engine.claims()).map(|held| held.claim).collect();
    held.sort_unstable();
    assert_eq!(listed, held, "listed and held");
    for claim in held {
        let row = node.reservation_of(claim, now);
        let link = node.ledger().link_of(claim);
        let name = link.and_then(|link| node.interfaces().by_id(link)).map(|it| &it.name);
        assert_eq!(row.as_ref().and_then(|row| row.interface.as_ref()), name, "{claim:?} {row:?}");
    }
}

/// Traffic control has a class for each claim in force, and no other. A claim that is locked may have the class of an earlier
/// daemon, which has no more than the claim.
fn check_classes(host: &Host, link: InterfaceId, listed: &BTreeMap<ClaimId, HeldClaim>) {
    for (claim, class) in host.classes.iter().filter(|(_, class)| class.interface == link) {
        let held = host.node.ledger().demand(*claim).map(|demand| demand.rate);
        match listed.get(claim) {
            Some(listed) if listed.locked => assert!(Some(class.demand.rate) <= held, "{class:?}"),
            _ => assert_eq!(held, Some(class.demand.rate), "{class:?}"),
        }
    }
    for (claim, held) in listed.iter().filter(|(_, held)| held.interface == link && !held.locked) {
        assert!(host.classes.contains_key(claim), "{held:?} is not in traffic control");
    }
}

fn total<'a>(node: &Node, claims: impl Iterator<Item = &'a HeldClaim>) -> (Rate, u32) {
    let rate = |held: &HeldClaim| node.ledger().demand(held.claim).map_or(Rate::ZERO, |it| it.rate);
    claims.fold((Rate::ZERO, 0), |(sum, count), held| (sum.saturating_add(rate(held)), count + 1))
}

/// Nothing is left of a node's state.
pub fn check_empty(host: &Host) {
    let (node, at) = (&host.node, host.index);
    for engine in node.engines() {
        for (part, kind, count) in engine.state_counts() {
            assert_eq!(count, 0, "{kind} of {part} left at node {at}");
        }
    }
    for (link, status) in node.ledger().links() {
        let left = (status.held, status.claims, status.adopted, status.queued);
        assert_eq!(left, (Rate::ZERO, 0, 0, 0), "left on {link:?} of node {at}");
    }
    assert!(host.classes.is_empty(), "classes left at node {at}: {:?}", host.classes);
    assert_eq!(node.next_deadline(), None, "deadline left at node {at}");
}
