//! Memory of a QoS NSLP session: octets on the heap for its block, its QSPEC, its timer, its part of the indices and
//! its claim in the ledger, including the unused capacity of tables.

#[path = "common/qos_population.rs"]
mod population;

use earmark_nsis::qos::Config;
use earmark_testkit::memory::{octets_per_session, share_of_tables};
use population::{Population, refresh};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Tables grow by doubling, so the cost varies; it is measured where all are as full as possible, and right after the
/// index has doubled.
#[test]
fn session_takes_less_than_400_octets_and_refresh_none() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let heap = || dhat::HeapStats::get().curr_bytes;
    let empty = || Population::empty(Config::default());
    let costs = [7 << 11, (7 << 11) + 1]
        .map(|sessions| octets_per_session(heap, empty, sessions, Population::new));
    println!("octets a session: {costs:.0?} where the index is full, and just doubled");
    assert!(costs.iter().all(|cost| *cost <= 400.0), "{costs:?}");
    let share = share_of_tables(heap, empty, 7 << 11, Population::new, Population::table_octets);
    println!("of these the tables tell {:.0} %", share * 100.0);
    assert!((0.5..=1.0).contains(&share), "{share}");

    let mut population = Population::new(1_000);
    let arrivals: Vec<_> = (0..1_000).map(refresh).collect();
    population.handle(&arrivals[0]);
    population.forget_effects();
    let before = dhat::HeapStats::get().total_blocks;
    for arrival in &arrivals {
        assert_eq!(population.handle(arrival), 0, "it goes no further");
    }
    assert_eq!(dhat::HeapStats::get().total_blocks, before, "allocations");
    // Refreshes that this node sends.
    population.expire_next();
    population.forget_effects();
    let before = dhat::HeapStats::get().total_blocks;
    for _ in 0..2_000 {
        population.expire_next();
        population.forget_effects();
    }
    let allocated = dhat::HeapStats::get().total_blocks - before;
    assert!(allocated <= 4, "{allocated} allocations, but for tables that grow");
}
