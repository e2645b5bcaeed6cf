//! Measured cost of a stream: octets on the heap for one stream with one reservation, its timer, its index entry, and
//! its claim in the ledger, including the slack of growing tables.

#[path = "common/population.rs"]
mod population;

use population::Population;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Tables grow by doubling, so the cost swings; it is measured where all are full, as for a router made for so many,
/// and right after the index has doubled.
#[test]
fn a_stream_takes_less_than_256_octets() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let mut costs = Vec::new();
    for sessions in [1 << 13, 7 << 11, (1 << 14) + 1] {
        let before = dhat::HeapStats::get().curr_bytes;
        let empty = Population::empty();
        let base = dhat::HeapStats::get().curr_bytes - before;
        drop(empty);
        let population = Population::new(sessions);
        let octets = dhat::HeapStats::get().curr_bytes - before - base;
        costs.push(octets as f64 / f64::from(sessions));
        drop(population);
    }
    println!("octets a stream: {costs:.0?} where all tables are full, 7/8 full, and just doubled");
    assert!(costs[0] <= 256.0, "{costs:?}");
}
