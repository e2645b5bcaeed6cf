//! Model of the reservations on each link, by a few rules about the links of the senders' trees.
//!
//! Written from RFC 2205 sections 1.3 and 3.4 and RFC 2209 (RESV REFRESH), with the flowspecs merged according to RFC
//! 2211 section 8 and RFC 2212 ("Ordering and Merging"), to be read beside them. No state is stored and nothing is
//! optimized: the reservation on a link is computed from the receivers for each query. The result is that of a settled
//! network with room for all of it, where all receivers of a session use one style and one service.
//!
//! In the shared styles the request on a link depends on all links beyond it, and if the trees of a session's senders
//! together form a cycle these may depend on that link in turn. Then the rules have several solutions: a rate that was
//! once requested may sustain itself, by the RFC's own rules. The model computes the least solution, that of a network
//! without earlier requests; the senders of the reservations are the same in all of them.

use std::collections::{BTreeMap, BTreeSet};

use earmark_wire::intserv::{FlowSpec, Rspec, TokenBucket};

/// A node number, of any range.
pub(crate) type Node = usize;
/// A sender number, of any range.
pub(crate) type Sender = usize;
/// A link in the direction of the data: from, to.
pub(crate) type Hop = (Node, Node);

/// The settled facts of one session.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Links that each sender's packets cross. They form a tree from its host to the receivers.
    pub(crate) trees: BTreeMap<Sender, BTreeSet<Hop>>,
    /// Requests, with the requesting node.
    pub(crate) requests: Vec<(Node, Request)>,
}

/// Request of a receiver.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Request {
    /// FF: this much for each of these senders.
    Distinct(BTreeMap<Sender, FlowSpec>),
    /// SE: these senders together.
    Explicit(BTreeSet<Sender>, FlowSpec),
    /// WF: all senders together.
    Wildcard(FlowSpec),
}

/// One reservation on a link.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Pipe {
    /// Senders; `None` for every sender.
    pub(crate) senders: Option<BTreeSet<Sender>>,
    /// Flowspec, of each sender or of all together.
    pub(crate) flowspec: FlowSpec,
}

/// Reservations by link.
type Known<T> = BTreeMap<Hop, T>;
/// A shared-explicit reservation on a link.
type Shared = (BTreeSet<Sender>, FlowSpec);

/// A wildcard reservation on a link, and the SCOPE of its request.
#[derive(PartialEq)]
struct Wild {
    flowspec: FlowSpec,
    scope: Option<BTreeSet<Sender>>,
}

impl Facts {
    /// Returns all reservations of a link.
    pub(crate) fn pipes(&self, hop: Hop) -> Vec<Pipe> {
        let distinct = self.trees.keys().filter_map(|&sender| {
            let flowspec = self.distinct(sender, hop)?;
            Some(Pipe { senders: Some(BTreeSet::from([sender])), flowspec })
        });
        let explicit = self.settled(|hop, known| self.explicit(hop, known)).remove(&hop);
        let explicit =
            explicit.map(|(senders, flowspec)| Pipe { senders: Some(senders), flowspec });
        let wildcard = self.settled(|hop, known| self.wildcard(hop, known)).remove(&hop);
        let wildcard = wildcard.map(|wild| Pipe { senders: None, flowspec: wild.flowspec });
        distinct.chain(explicit).chain(wildcard).collect()
    }

    /// FF: returns the reservation of a link for one sender, the largest of the requests of the receivers at its end
    /// and of the reservations on the links beyond.
    fn distinct(&self, sender: Sender, hop: Hop) -> Option<FlowSpec> {
        if !self.trees[&sender].contains(&hop) {
            return None;
        }
        let here = self.requests_at(hop.1).filter_map(|request| match request {
            Request::Distinct(wanted) => wanted.get(&sender).copied(),
            _ => None,
        });
        let beyond = self.beyond(hop).filter_map(|next| self.distinct(sender, next));
        largest(here.chain(beyond))
    }

    /// SE: for each sender whose packets cross the link, the requests that name it are collected, among the receivers
    /// at its end and on those links beyond that its packets take. All senders found share the largest of all requests
    /// found.
    fn explicit(&self, hop: Hop, known: &Known<Shared>) -> Option<Shared> {
        let here = self.requests_at(hop.1).filter_map(|request| match request {
            Request::Explicit(senders, flowspec) => Some((senders.clone(), *flowspec)),
            _ => None,
        });
        let beyond = self.beyond(hop).filter_map(|next| known.get(&next).cloned());
        let requests: Vec<Shared> = here.chain(beyond).collect();
        let crossing = self.crossing(hop);
        let matching: Vec<_> =
            requests.iter().filter(|(senders, _)| !senders.is_disjoint(&crossing)).collect();
        let senders = matching.iter().flat_map(|(senders, _)| senders & &crossing).collect();
        Some((senders, largest(matching.iter().map(|(_, flowspec)| *flowspec))?))
    }

    /// WF: returns the largest of the requests at the end of the link and on the links beyond, as far as packets that
    /// cross the link get there. If senders come from several sides, or a request from beyond has a SCOPE, the request
    /// has a SCOPE with those of them that come over this link and are requested by someone; if there are none, it is
    /// not sent.
    fn wildcard(&self, hop: Hop, known: &Known<Wild>) -> Option<Wild> {
        let crossing = self.crossing(hop);
        let here = self.requests_at(hop.1).filter_map(|request| match request {
            Request::Wildcard(flowspec) => Some((crossing.clone(), *flowspec, None)),
            _ => None,
        });
        let beyond = self.beyond(hop).filter_map(|next| {
            let routed: BTreeSet<Sender> = &crossing & &self.crossing(next);
            let wild = if routed.is_empty() { None } else { known.get(&next) }?;
            Some((routed, wild.flowspec, wild.scope.clone()))
        });
        // Senders, flowspec and SCOPE.
        let requests: Vec<(BTreeSet<Sender>, FlowSpec, Option<BTreeSet<Sender>>)> =
            here.chain(beyond).filter(|(senders, ..)| !senders.is_empty()).collect();
        let flowspec = largest(requests.iter().map(|(_, flowspec, _)| *flowspec))?;
        let sides = self.trees.values().flatten().filter(|(_, to)| *to == hop.1);
        let one_side = sides.collect::<BTreeSet<&Hop>>().len() < 2;
        if one_side && requests.iter().all(|(_, _, scope)| scope.is_none()) {
            return Some(Wild { flowspec, scope: None });
        }
        let wanted = requests.iter().flat_map(|(senders, _, scope)| match scope {
            Some(scope) => senders & scope,
            None => senders.clone(),
        });
        let scope: BTreeSet<Sender> = wanted.collect();
        (!scope.is_empty()).then_some(Wild { flowspec, scope: Some(scope) })
    }

    /// Applies a rule, which depends on the reservations beyond a link, to all links until nothing changes any more,
    /// starting without reservations.
    fn settled<T: PartialEq>(&self, rule: impl Fn(Hop, &Known<T>) -> Option<T>) -> Known<T> {
        let links: BTreeSet<Hop> = self.trees.values().flatten().copied().collect();
        let mut known = Known::new();
        loop {
            let next = links.iter().filter_map(|&hop| Some((hop, rule(hop, &known)?))).collect();
            if next == known {
                return known;
            }
            known = next;
        }
    }

    fn requests_at(&self, node: Node) -> impl Iterator<Item = &Request> {
        self.requests.iter().filter(move |(at, _)| *at == node).map(|(_, request)| request)
    }

    /// Returns the senders whose packets cross a link.
    fn crossing(&self, hop: Hop) -> BTreeSet<Sender> {
        let crossing = self.trees.iter().filter(|(_, tree)| tree.contains(&hop));
        crossing.map(|(&sender, _)| sender).collect()
    }

    /// Returns the next links of packets that cross this one.
    fn beyond(&self, hop: Hop) -> impl Iterator<Item = Hop> {
        let trees = self.trees.values().filter(move |tree| tree.contains(&hop));
        let next = trees.flatten().filter(move |(from, _)| *from == hop.1);
        next.copied().collect::<BTreeSet<Hop>>().into_iter()
    }
}

/// Returns the least upper bound; `None` for no flowspecs.
fn largest(flowspecs: impl Iterator<Item = FlowSpec>) -> Option<FlowSpec> {
    flowspecs.reduce(|a, b| match (a, b) {
        (FlowSpec::ControlledLoad(a), FlowSpec::ControlledLoad(b)) => {
            FlowSpec::ControlledLoad(merged(a, b))
        }
        (FlowSpec::Guaranteed(a, c), FlowSpec::Guaranteed(b, d)) => {
            let rspec = Rspec { rate: c.rate.max(d.rate), slack_us: c.slack_us.min(d.slack_us) };
            FlowSpec::Guaranteed(merged(a, b), rspec)
        }
        _ => panic!("one service a session"),
    })
}

fn merged(a: TokenBucket, b: TokenBucket) -> TokenBucket {
    TokenBucket {
        rate: a.rate.max(b.rate),
        depth: a.depth.max(b.depth),
        peak: a.peak.max(b.peak),
        min_policed_unit: a.min_policed_unit.min(b.min_policed_unit),
        max_packet_size: a.max_packet_size.min(b.max_packet_size),
    }
}

/// The examples of RFC 2205 section 1.3: S1 behind interface (a) of a router, S2 and S3 behind (b), R1 behind (c), R2 and
/// R3 behind (d).
#[cfg(test)]
mod tests {
    use super::*;

    const ROUTER: Node = 0;
    const A: Node = 1;
    const B: Node = 2;
    const C: Node = 3;
    const D: Node = 4;
    const R2: Node = 5;
    const R3: Node = 6;

    /// Returns a multiple of the resource B of the figures.
    fn units(number: u16) -> FlowSpec {
        let rate = f32::from(number) * 1_000.0;
        FlowSpec::ControlledLoad(TokenBucket {
            rate,
            depth: rate,
            peak: f32::INFINITY,
            min_policed_unit: 64,
            max_packet_size: 1_500,
        })
    }

    /// Returns the facts of the figures: all senders reach all receivers, except that S2 and S3 do not reach (c) if
    /// `partial`.
    fn figure(partial: bool, requests: Vec<(Node, Request)>) -> Facts {
        let down = [(ROUTER, C), (ROUTER, D), (D, R2), (D, R3)];
        let tree = |sender: Sender| {
            let entry = (if sender == 1 { A } else { B }, ROUTER);
            let down = down.into_iter().filter(|&hop| !(partial && sender > 1 && hop.1 == C));
            (sender, down.chain([entry]).collect())
        };
        Facts { trees: [1, 2, 3].map(tree).into(), requests }
    }

    fn pipe<const N: usize>(senders: [Sender; N], number: u16) -> Pipe {
        Pipe { senders: Some(senders.into()), flowspec: units(number) }
    }

    fn wild(number: u16) -> Pipe {
        Pipe { senders: None, flowspec: units(number) }
    }

    /// Returns the reservations at (c) and (d), and the requests sent to (a) and (b).
    fn reserved(facts: &Facts) -> [Vec<Pipe>; 4] {
        [(ROUTER, C), (ROUTER, D), (A, ROUTER), (B, ROUTER)].map(|hop| facts.pipes(hop))
    }

    #[test]
    fn figure_5_wildcard() {
        let asked = [(C, 4), (R2, 3), (R3, 2)];
        let asked = asked.map(|(node, number)| (node, Request::Wildcard(units(number))));
        let facts = figure(false, asked.to_vec());
        assert_eq!(reserved(&facts), [[wild(4)], [wild(3)], [wild(4)], [wild(4)]]);
    }

    #[test]
    fn figure_6_fixed_filter() {
        let asked = |list: &[(Sender, u16)]| {
            Request::Distinct(
                list.iter().map(|&(sender, number)| (sender, units(number))).collect(),
            )
        };
        let requests =
            [(C, asked(&[(1, 4), (2, 5)])), (R2, asked(&[(1, 3), (3, 1)])), (R3, asked(&[(1, 1)]))];
        let facts = figure(false, requests.to_vec());
        let [c, d, a, b] = reserved(&facts);
        assert_eq!(c, [pipe([1], 4), pipe([2], 5)]);
        assert_eq!(d, [pipe([1], 3), pipe([3], 1)]);
        assert_eq!(a, [pipe([1], 4)]);
        assert_eq!(b, [pipe([2], 5), pipe([3], 1)]);
    }

    #[test]
    fn figure_7_shared_explicit() {
        let asked = |senders: &[Sender], number| {
            Request::Explicit(senders.iter().copied().collect(), units(number))
        };
        let requests = [(C, asked(&[1, 2], 1)), (R2, asked(&[1, 3], 3)), (R3, asked(&[2], 2))];
        let facts = figure(false, requests.to_vec());
        let [c, d, a, b] = reserved(&facts);
        assert_eq!(c, [pipe([1, 2], 1)]);
        assert_eq!(d, [pipe([1, 2, 3], 3)]);
        assert_eq!(a, [pipe([1], 3)]);
        assert_eq!(b, [pipe([2, 3], 3)]);
    }

    #[test]
    fn figure_8_partial_routing() {
        let asked = [(C, 4), (R2, 3), (R3, 2)];
        let asked = asked.map(|(node, number)| (node, Request::Wildcard(units(number))));
        let facts = figure(true, asked.to_vec());
        assert_eq!(reserved(&facts), [[wild(4)], [wild(3)], [wild(4)], [wild(3)]]);
    }

    /// R1 requests nothing, and S1's packets are routed to no one else: no request downstream includes S1, as the SCOPE
    /// says.
    #[test]
    fn a_scope_keeps_requests_from_senders_that_nobody_gets() {
        // Before the router of the figure there is another one, which all senders pass; S1 goes no further than (c).
        const FIRST: Node = 7;
        let mut facts = figure(true, vec![(R2, Request::Wildcard(units(3)))]);
        for (sender, tree) in &mut facts.trees {
            if *sender == 1 {
                tree.retain(|&(_, to)| to == C || to == ROUTER);
            }
            let entry = if *sender == 1 { A } else { B };
            tree.remove(&(entry, ROUTER));
            tree.extend([(entry, FIRST), (FIRST, ROUTER)]);
        }
        assert_eq!(facts.pipes((FIRST, ROUTER)), [wild(3)]);
        assert_eq!(facts.pipes((B, FIRST)), [wild(3)]);
        // The router has one side only, so its request has no SCOPE, and is sent towards S1 as well.
        assert_eq!(facts.pipes((A, FIRST)), [wild(3)]);
        // With a sender from another side, the router's request has a SCOPE.
        facts.trees.insert(4, [(8, ROUTER), (ROUTER, C)].into());
        assert_eq!(facts.pipes((B, FIRST)), [wild(3)]);
        assert_eq!(facts.pipes((A, FIRST)), []);
        assert_eq!(facts.pipes((8, ROUTER)), []);
    }
}
