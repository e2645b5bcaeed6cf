//! Instructions per message of GIST on a router with 10^3 sessions, and with `EARMARK_BENCH_LARGE=1` with 10^5 too,
//! each with a previous and a next peer. Run with `cargo bench -p earmark-nsis --bench instructions`; it needs valgrind
//! and gungraun-runner.
//!
//! The cost of Data is that of GIST, with an application that does nothing; `relay` has one that forwards them.

#![allow(missing_docs)] // the harness writes modules of its own

#[path = "../tests/common/population.rs"]
mod population;

use earmark_testkit::instructions::{self, measured};
use gungraun::{library_benchmark, library_benchmark_group, main};
use population::{Arrival, Population};

/// A router, and a message about one of its sessions, or about the next.
type Case = instructions::Case<Population, Arrival>;

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

/// Returns the numbers of resident sessions.
fn populations() -> Vec<u32> {
    instructions::populations(&[1_000], 100_000)
}

#[library_benchmark(setup = known_data)]
#[benches::sessions(iter = populations())]
fn data(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = relayed_data)]
#[benches::sessions(iter = populations())]
fn relay(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = new_query)]
#[benches::sessions(iter = populations())]
fn query(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = known_query)]
#[benches::sessions(iter = populations())]
fn refresh(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = new_confirm)]
#[benches::sessions(iter = populations())]
fn confirm(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = new_response)]
#[benches::sessions(iter = populations())]
fn response(case: Case) -> Case {
    measured(case, Population::handle)
}

library_benchmark_group!(
    name = messages,
    benchmarks = [data, relay, query, refresh, confirm, response]
);
main!(library_benchmark_groups = messages);
