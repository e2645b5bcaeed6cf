//! Memory of routing state: octets on the heap for a session with a peer on either side, including its timers, its part
//! of the indices, and the unused capacity of tables.

#[path = "common/population.rs"]
mod population;

use population::Population;

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

fn heap() -> usize {
    dhat::HeapStats::get().curr_bytes
}

/// Returns the octets for each session.
fn cost(sessions: u32) -> f64 {
    let mut population = Population::empty();
    population.heap = Some(heap);
    // Buffers for messages, which are kept.
    population.set_up(0);
    population.octets = 0;
    (1..=sessions).for_each(|number| population.set_up(number));
    assert_eq!(population.routing_states(), sessions as usize + 1);
    let views = population.engine().gist().routing_states(0);
    assert!(views.into_iter().all(|(_, view)| view.peer.is_some()));
    let told = population.engine().gist().table_octets() as f64;
    let share = told / population.octets as f64;
    println!("of these the tables tell {:.0} %", share * 100.0);
    assert!((0.5..=1.0).contains(&share), "{share}");
    population.octets as f64 / f64::from(sessions)
}

/// Returns the number of heap allocations for messages about existing sessions: forwarded Data, and a refreshing Query
/// with its Response. The first of each kind allocates buffers, which are kept.
fn blocks_of_refreshes() -> u64 {
    let mut population = Population::new(100);
    let relayed: Vec<_> = (10..13).map(|number| population.data(number)).collect();
    let refreshed = population.refreshes();
    assert_eq!(refreshed.len(), 100);
    population.handle(&refreshed[0]);
    population.handle(&relayed[0]);
    let before = dhat::HeapStats::get().total_blocks;
    for arrival in refreshed[1..].iter().chain(&relayed[1..]) {
        assert!(population.handle(arrival) > 0, "it is answered, or sent on");
    }
    dhat::HeapStats::get().total_blocks - before
}

/// The hash table grows by doubling, so the cost varies; it is measured where the table is as full as possible, and
/// right after doubling.
#[test]
fn session_takes_less_than_512_octets_and_refresh_none() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let (full, grown) = (cost(3_583), cost(3_585));
    println!("octets a session, both ways: {full:.0} and {grown:.0}");
    assert!(full <= 512.0 && grown <= 512.0, "{full} {grown}");
    assert_eq!(blocks_of_refreshes(), 0);
}
