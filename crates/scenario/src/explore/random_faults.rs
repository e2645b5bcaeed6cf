//! Random faults, as rules of a scenario.

use std::time::Duration;

use earmark_core::random::Stream;
use earmark_sim::distributions::{fraction, happens};

use crate::faults::Fault;
use crate::sampling::{below, milliseconds};
use crate::topology::Topology;

/// Time at which the last fault ends, milliseconds: while there are still flows.
const OVER: u64 = 55_000;

/// Draws the faults of a network.
pub(super) fn draw(topology: &Topology, dice: &mut Stream) -> Vec<Fault> {
    let mut faults = Vec::new();
    // A fault without any other is the easiest to understand.
    let kinds = below(dice, 16);
    let several = |dice: &mut Stream, kind: usize, most: usize| {
        let number = below(dice, most + 1);
        if kinds & 1 << kind == 0 { 0 } else { number }
    };
    for _ in 0..several(dice, 0, topology.links.len()) {
        let (from, until) = span(dice, 1_000, 30_000);
        let mut share = |most: f64| if happens(dice, 0.5) { most * fraction(dice) } else { 0.0 };
        let (loss, duplication, corruption) = (share(0.4).into(), share(0.3), share(0.2));
        let jitter = milliseconds(dice, 1, 50); // ensures that the rule has an effect
        let link = link(topology, dice);
        let fault =
            Fault { link, from, until, loss, duplication, corruption, jitter, ..Fault::default() };
        faults.push(fault);
    }
    for _ in 0..several(dice, 1, 4) {
        let (from, until) = span(dice, 50, 15_000);
        faults.push(Fault {
            link: link(topology, dice),
            from,
            until,
            outage: true,
            ..Fault::default()
        });
    }
    for _ in 0..several(dice, 2, 4) {
        let (from, until) = span(dice, 50, 15_000);
        let grace = Some(milliseconds(dice, 100, 15_000));
        faults.push(Fault {
            node: node(topology, dice),
            from,
            until,
            crash: true,
            grace,
            ..Fault::default()
        });
    }
    for _ in 0..several(dice, 3, 3) {
        let (from, until) = span(dice, 50, 20_000);
        faults.push(Fault {
            node: node(topology, dice),
            from,
            until,
            refusal: true,
            ..Fault::default()
        });
    }
    faults
}

/// Draws a time span of `shortest` to `longest` milliseconds.
fn span(dice: &mut Stream, shortest: u64, longest: u64) -> (Duration, Option<Duration>) {
    let from = milliseconds(dice, 0, OVER - 1_000);
    let until = from + milliseconds(dice, shortest, longest);
    (from, Some(until.min(Duration::from_millis(OVER))))
}

fn link(topology: &Topology, dice: &mut Stream) -> Option<[String; 2]> {
    let link = &topology.links[below(dice, topology.links.len())];
    Some(link.ends.each_ref().map(|end| topology.nodes[end.node].name.clone()))
}

fn node(topology: &Topology, dice: &mut Stream) -> Option<String> {
    Some(topology.nodes[below(dice, topology.nodes.len())].name.clone())
}
