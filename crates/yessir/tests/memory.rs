//! Measured cost of a stream: octets on the heap for one stream with one reservation, its timer, its index entry, and
//! its claim in the ledger, including the slack of growing tables.

#[path = "common/population.rs"]
mod population;

use earmark_testkit::memory::{octets_per_session, share_of_tables};
use population::Population;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Tables grow by doubling, so the cost swings; it is measured where all are full, as for a router made for so many,
/// and right after the index has doubled.
#[test]
fn a_stream_takes_less_than_256_octets() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let heap = || dhat::HeapStats::get().curr_bytes;
    let costs = [1 << 13, 7 << 11, (1 << 14) + 1]
        .map(|sessions| octets_per_session(heap, Population::empty, sessions, Population::new));
    println!("octets a stream: {costs:.0?} where all tables are full, 7/8 full, and just doubled");
    assert!(costs[0] <= 256.0, "{costs:?}");
    let share = share_of_tables(
        heap,
        Population::empty,
        7 << 11,
        Population::new,
        Population::table_octets,
    );
    println!("of these the tables tell {:.0} %", share * 100.0);
    assert!((0.5..=1.0).contains(&share), "{share}");
}
