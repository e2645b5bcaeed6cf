//! Instructions per message of GIST on a router with 10^3 sessions, and with `EARMARK_BENCH_LARGE=1` with 10^5 too,
//! each with a previous and a next peer. Run with `cargo bench -p earmark-nsis --bench instructions`; it needs valgrind
//! and gungraun-runner.
//!
//! The cost of Data is that of GIST, with an application that does nothing; `relay` has one that forwards them.

#![allow(missing_docs)] // the harness writes modules of its own

#[path = "../tests/common/population.rs"]
mod population;

use std::hint::black_box;

use gungraun::{library_benchmark, library_benchmark_group, main};
use population::{Arrival, Population};

/// A router with `sessions` sessions, and a message about one of them, or about the next.
///
/// The box makes passing it to the measured function free.
type Case = Box<(Population, Arrival)>;

fn case(mut population: Population, arrival: Arrival) -> Case {
    population.forget_effects();
    Box::new((population, arrival))
}

fn known_data(sessions: u32) -> Case {
    let mut population = Population::new(sessions);
    population.sink();
    let arrival = population.data(sessions / 2);
    case(population, arrival)
}

fn relayed_data(sessions: u32) -> Case {
    let mut population = Population::new(sessions);
    let arrival = population.data(sessions / 2);
    case(population, arrival)
}

fn new_query(sessions: u32) -> Case {
    let mut population = Population::new(sessions);
    let arrival = population.query(sessions);
    case(population, arrival)
}

fn known_query(sessions: u32) -> Case {
    let mut population = Population::new(sessions);
    let arrival = population.refreshes().pop().expect("a Query");
    case(population, arrival)
}

fn new_confirm(sessions: u32) -> Case {
    let mut population = Population::new(sessions);
    population.sink();
    let arrival = population.confirm(sessions);
    case(population, arrival)
}

fn new_response(sessions: u32) -> Case {
    let mut population = Population::new(sessions);
    let arrival = population.response(sessions);
    case(population, arrival)
}

/// Returns the numbers of resident sessions. The large population takes minutes, so it is optional.
fn populations() -> Vec<u32> {
    // Read at compile time: the runner gives the measured process no environment.
    match option_env!("EARMARK_BENCH_LARGE") {
        Some(_) => vec![1_000, 100_000],
        None => vec![1_000],
    }
}

#[library_benchmark(setup = known_data)]
#[benches::sessions(iter = populations())]
fn data(mut case: Case) -> Case {
    let (population, arrival) = &mut *case;
    black_box(population.handle(black_box(arrival)));
    case
}

#[library_benchmark(setup = relayed_data)]
#[benches::sessions(iter = populations())]
fn relay(mut case: Case) -> Case {
    let (population, arrival) = &mut *case;
    black_box(population.handle(black_box(arrival)));
    case
}

#[library_benchmark(setup = new_query)]
#[benches::sessions(iter = populations())]
fn query(mut case: Case) -> Case {
    let (population, arrival) = &mut *case;
    black_box(population.handle(black_box(arrival)));
    case
}

#[library_benchmark(setup = known_query)]
#[benches::sessions(iter = populations())]
fn refresh(mut case: Case) -> Case {
    let (population, arrival) = &mut *case;
    black_box(population.handle(black_box(arrival)));
    case
}

#[library_benchmark(setup = new_confirm)]
#[benches::sessions(iter = populations())]
fn confirm(mut case: Case) -> Case {
    let (population, arrival) = &mut *case;
    black_box(population.handle(black_box(arrival)));
    case
}

#[library_benchmark(setup = new_response)]
#[benches::sessions(iter = populations())]
fn response(mut case: Case) -> Case {
    let (population, arrival) = &mut *case;
    black_box(population.handle(black_box(arrival)));
    case
}

library_benchmark_group!(
    name = messages,
    benchmarks = [data, relay, query, refresh, confirm, response]
);
main!(library_benchmark_groups = messages);
