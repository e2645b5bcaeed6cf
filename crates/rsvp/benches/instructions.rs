//! Instructions per message at 10^3, 10^5 and 10^6 resident sessions. Run with `cargo bench -p earmark-rsvp`; it needs
//! valgrind and gungraun-runner. The largest population takes minutes to build under valgrind and is left out unless
//! `EARMARK_BENCH_LARGE` was set when the bench was compiled.

#[path = "../tests/common/population.rs"]
mod population;

use std::hint::black_box;

use gungraun::{library_benchmark, library_benchmark_group, main};
use population::{Arrival, Population};

/// A router with `sessions` sessions, and a message about one of them, or about the next.
type Case = (Population, Arrival);

fn new_path(sessions: u32) -> Case {
    let population = Population::new(sessions);
    let arrival = population.path(sessions);
    (population, arrival)
}

fn known_path(sessions: u32) -> Case {
    let population = Population::new(sessions);
    let arrival = population.path(sessions / 2);
    (population, arrival)
}

fn new_resv(sessions: u32) -> Case {
    let (mut population, path) = new_path(sessions);
    population.handle(&path);
    let arrival = population.resv(sessions);
    (population, arrival)
}

fn known_resv(sessions: u32) -> Case {
    let population = Population::new(sessions);
    let arrival = population.resv(sessions / 2);
    (population, arrival)
}

fn known_path_tear(sessions: u32) -> Case {
    let population = Population::new(sessions);
    let arrival = population.path_tear(sessions / 2);
    (population, arrival)
}

macro_rules! messages {
    ($($name:ident: $setup:path;)*) => {
        $(
            #[library_benchmark(setup = $setup)]
            #[bench::at_1000(1_000)]
            #[bench::at_100000(100_000)]
            #[cfg_attr(earmark_bench_large, bench::at_1000000(1_000_000))]
            fn $name((mut population, arrival): Case) -> (usize, Population) {
                (black_box(population.handle(black_box(&arrival))), population)
            }
        )*
        library_benchmark_group!(name = per_message, benchmarks = [$($name),*]);
    };
}

messages! {
    path_new: new_path;
    path_refreshed: known_path;
    resv_new: new_resv;
    resv_refreshed: known_resv;
    path_tear: known_path_tear;
}

main!(library_benchmark_groups = per_message);
