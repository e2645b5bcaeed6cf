//! Refreshes without changes allocate nothing, in any style, by message or by summary refresh.

#[path = "common/population.rs"]
mod population;

use population::{Arrival, Population};

#[global_allocator]
static ALLOCATOR: dhat::Alloc = dhat::Alloc;

/// Number of allocations while these messages are handled.
fn allocations(population: &mut Population, arrivals: &[Arrival]) -> u64 {
    let before = dhat::HeapStats::get().total_blocks;
    for arrival in arrivals {
        assert_eq!(population.handle(arrival), 0, "a refresh brings nothing about");
    }
    dhat::HeapStats::get().total_blocks - before
}

/// One test for all cases, because the allocator counts for the whole process.
#[test]
fn refresh_without_changes_allocates_nothing() {
    let _profiler = dhat::Profiler::builder().testing().build();
    let mut population = Population::new(1);
    let fixed = [population.path(0), population.resv(0)];
    assert_eq!(allocations(&mut population, &fixed), 0, "fixed filter");

    let ports = [4000, 4003, 4001, 4002];
    for wildcard in [false, true] {
        let mut population = Population::empty();
        let paths = ports.map(|port| population.path_from(0, port));
        for path in &paths {
            population.handle(path);
        }
        let resv = match wildcard {
            true => population.wildcard_resv(0),
            false => population.shared_resv(0, &ports),
        };
        assert!(population.handle(&resv) > 0, "it is reserved");
        let mut refreshes = Vec::from(paths);
        refreshes.push(resv);
        assert_eq!(allocations(&mut population, &refreshes), 0, "wildcard: {wildcard}");
    }

    let mut population = Population::reduced(10);
    let summary = [population.summary(0..10)];
    assert_eq!(allocations(&mut population, &summary), 0, "in a summary");
}
