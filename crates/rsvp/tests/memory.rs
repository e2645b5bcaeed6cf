//! What a session costs, measured: octets on the heap for one sender, one reservation, their timers, index entries and
//! claim, all slack of growing tables included.

#[path = "common/population.rs"]
mod population;

use population::Population;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Some tables grow by doubling, so the cost swings; it is taken where these are full and right after they doubled.
#[test]
fn a_session_takes_less_than_600_octets() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let mut costs = Vec::new();
    for sessions in [1 << 13, (1 << 13) + 1] {
        let before = dhat::HeapStats::get().curr_bytes;
        let empty = Population::empty();
        let base = dhat::HeapStats::get().curr_bytes - before;
        drop(empty);
        let population = Population::new(sessions);
        let octets = dhat::HeapStats::get().curr_bytes - before - base;
        costs.push(octets as f64 / f64::from(sessions));
        drop(population);
    }
    let [full, grown] = costs[..] else { unreachable!("two populations") };
    println!("octets a session: {full:.0} before timers and claims double, {grown:.0} after");
    assert!(full <= 600.0, "{full}");
    assert!(grown <= 700.0, "{grown}");
}
