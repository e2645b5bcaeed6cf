//! Memory of a NATFW NSLP session at a firewall: octets on the heap for its block, its timer, its rule and its part of the
//! indices, including the unused capacity of tables.

#[path = "common/natfw_population.rs"]
mod population;

use earmark_testkit::memory::{octets_per_session, share_of_tables};
use population::{Population, refresh};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Tables grow by doubling, so the cost varies.
#[test]
fn session_takes_less_than_700_octets_and_refresh_none() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let heap = || dhat::HeapStats::get().curr_bytes;
    let costs = [7 << 11, (7 << 11) + 1]
        .map(|sessions| octets_per_session(heap, Population::empty, sessions, Population::new));
    println!("octets a session: {costs:.0?}");
    assert!(costs.iter().all(|cost| *cost <= 700.0), "{costs:?}");
    let share = share_of_tables(
        heap,
        Population::empty,
        7 << 11,
        Population::new,
        Population::table_octets,
    );
    println!("of these the tables tell {:.0} %", share * 100.0);
    assert!((0.5..=1.0).contains(&share), "{share}");

    let mut population = Population::new(1_000);
    let arrivals: Vec<_> = (0..1_000).map(refresh).collect();
    population.handle(&arrivals[0]);
    population.forget_effects();
    let before = dhat::HeapStats::get().total_blocks;
    for arrival in &arrivals[1..] {
        assert_eq!(population.handle(arrival), 1, "it is sent on");
        population.forget_effects();
    }
    let allocated = dhat::HeapStats::get().total_blocks - before;
    println!("allocations of 999 refreshes: {allocated}");
    assert_eq!(allocated, 0);
}
