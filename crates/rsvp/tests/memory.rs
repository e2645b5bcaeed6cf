//! Measured memory of a session: octets on the heap for one sender, one reservation, their timers, index entries and
//! claim, with the spare capacity of growing tables; with and without refresh reduction in both directions.

#[path = "common/population.rs"]
mod population;

use earmark_testkit::memory::{octets_per_session, share_of_tables};
use population::Population;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Number of sessions that just fills the indexes, hash tables that double: seven eighths of a power of two. All other
/// tables grow by a sixteenth.
const FULL: u32 = 7_168;

/// Octets of a session with full indexes and right after they have doubled.
#[test]
fn session_needs_less_than_600_octets() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let plain = octets_a_session(Population::new);
    println!("octets a session: {:.0} before the indexes double, {:.0} after", plain[0], plain[1]);
    let reduced = octets_a_session(Population::reduced);
    println!("with refresh reduction: {:.0} and {:.0}", reduced[0], reduced[1]);
    for (octets, most) in plain.into_iter().zip([530.0, 550.0]) {
        assert!(octets <= most, "{octets}");
    }
    for (octets, most) in reduced.into_iter().zip([600.0, 650.0]) {
        assert!(octets <= most, "{octets} with refresh reduction");
    }
    let heap = || dhat::HeapStats::get().curr_bytes;
    let share = share_of_tables(
        heap,
        Population::empty,
        FULL,
        Population::reduced,
        Population::table_octets,
    );
    println!("of these the tables tell {:.0} %", share * 100.0);
    assert!((0.5..=1.0).contains(&share), "{share}");
}

fn octets_a_session(with: fn(u32) -> Population) -> [f64; 2] {
    let heap = || dhat::HeapStats::get().curr_bytes;
    [FULL, FULL + 1].map(|sessions| octets_per_session(heap, Population::empty, sessions, with))
}
