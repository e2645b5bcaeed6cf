//! Instructions per message of a session of QoS NSLP on GIST, both together, on a router with 10^3 sessions, and with
//! `EARMARK_BENCH_LARGE=1` with 10^5 too. Run with `cargo bench -p earmark-nsis --bench session_instructions`; it needs
//! valgrind and gungraun-runner.

#![allow(missing_docs)] // the harness writes modules of its own

#[path = "../tests/common/session_population.rs"]
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

fn new_query(sessions: u32) -> Case {
    case(Population::new(sessions), population::query(sessions))
}

fn known_query(sessions: u32) -> Case {
    case(Population::new(sessions), population::query(sessions / 2))
}

fn new_confirm(sessions: u32) -> Case {
    let mut population = Population::new(sessions);
    population.handle(&population::query(sessions));
    let confirm = population.confirm(sessions);
    case(population, confirm)
}

fn new_response(sessions: u32) -> Case {
    let (mut population, confirm) = *new_confirm(sessions);
    population.handle(&confirm);
    let response = population.response(sessions);
    case(population, response)
}

fn new_confirmation(sessions: u32) -> Case {
    let (mut population, response) = *new_response(sessions);
    population.handle(&response);
    case(population, population::confirmation(sessions))
}

fn known_session(sessions: u32) -> Case {
    case(Population::new(sessions), population::refresh(sessions / 2))
}

fn torn_session(sessions: u32) -> Case {
    case(Population::new(sessions), population::tear(sessions / 2))
}

/// Returns the numbers of resident sessions.
fn populations() -> Vec<u32> {
    instructions::populations(&[1_000], 100_000)
}

#[library_benchmark(setup = new_query)]
#[benches::sessions(iter = populations())]
fn query(case: Case) -> Case {
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

#[library_benchmark(setup = new_confirmation)]
#[benches::sessions(iter = populations())]
fn confirmation(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = known_query)]
#[benches::sessions(iter = populations())]
fn query_refresh(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = known_session)]
#[benches::sessions(iter = populations())]
fn reserve_refresh(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = torn_session)]
#[benches::sessions(iter = populations())]
fn reserve_tear(case: Case) -> Case {
    measured(case, Population::handle)
}

library_benchmark_group!(
    name = messages,
    benchmarks =
        [query, confirm, response, confirmation, query_refresh, reserve_refresh, reserve_tear]
);
main!(library_benchmark_groups = messages);
