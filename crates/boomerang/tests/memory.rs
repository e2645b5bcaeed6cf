//! Measured cost of a session: octets on the heap with its timer, its part of the initiating node's block and of the
//! indexes, and the slack of growing tables; and of its claims.

#[path = "common/population.rs"]
mod population;

use earmark_testkit::memory::{octets_per_session, share_of_tables};
use earmark_wire::icmp::Kind;
use population::Population;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Size of a claim in the ledger, octets.
const CLAIM: f64 = 32.0;

/// Returns the octets per session, with its claims.
fn cost(sessions: u32, passes: &[Kind]) -> f64 {
    let heap = || dhat::HeapStats::get().curr_bytes;
    let populated = |sessions| Population::with_halves(sessions, passes);
    octets_per_session(heap, Population::empty, sessions, populated)
}

/// The hash tables grow by doubling, so the cost swings; it is measured where they are fullest, and right after they
/// have doubled.
#[test]
fn a_session_takes_less_than_168_octets_and_its_claims() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let both = [Kind::Request, Kind::Reply];
    let full = cost(14_336, &both);
    let grown = cost(14_337, &both);
    let one_way = cost(14_336, &both[..1]);
    let alone = |octets: f64| octets - 2.0 * CLAIM;
    println!("octets a session: {full:.0} and {grown:.0}, {one_way:.0} for one direction");
    println!("without its claims: {:.0} and {:.0}", alone(full), alone(grown));
    assert!(alone(full) <= 168.0 && alone(grown) <= 168.0, "{full} {grown}");
    assert!(one_way <= 192.0, "{one_way}");
    let heap = || dhat::HeapStats::get().curr_bytes;
    let share =
        share_of_tables(heap, Population::empty, 14_336, Population::new, Population::table_octets);
    println!("of these the tables tell {:.0} %", share * 100.0);
    assert!((0.5..=1.0).contains(&share), "{share}");
}
