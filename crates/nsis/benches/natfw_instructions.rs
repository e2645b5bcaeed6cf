//! Instructions per message of NATFW NSLP at a firewall, without GIST, at 10^3 resident sessions, and with
//! `EARMARK_BENCH_LARGE=1` at 10^5 too. Run with `cargo bench -p earmark-nsis --bench natfw_instructions`; it needs valgrind and
//! gungraun-runner.

#![allow(missing_docs)] // the harness writes modules of its own

#[path = "../tests/common/natfw_population.rs"]
mod population;

use earmark_testkit::instructions::{self, measured};
use gungraun::{library_benchmark, library_benchmark_group, main};
use population::{Arrival, Population};

/// A firewall, and a message about one of its sessions, or about the next.
type Case = instructions::Case<Population, Arrival>;

fn case(sessions: u32, arrival: Arrival) -> Case {
    let mut population = Population::new(sessions);
    population.forget_effects();
    Box::new((population, arrival))
}

fn new_session(sessions: u32) -> Case {
    case(sessions, population::create(sessions))
}

fn answered_session(sessions: u32) -> Case {
    let mut case = case(sessions, population::response(sessions));
    case.0.handle(&population::create(sessions));
    case.0.forget_effects();
    case
}

fn refreshed_session(sessions: u32) -> Case {
    case(sessions, population::refresh(sessions / 2))
}

fn deleted_session(sessions: u32) -> Case {
    case(sessions, population::delete(sessions / 2))
}

/// Returns the numbers of resident sessions.
fn populations() -> Vec<u32> {
    instructions::populations(&[1_000], 100_000)
}

#[library_benchmark(setup = new_session)]
#[benches::sessions(iter = populations())]
fn create_new(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = answered_session)]
#[benches::sessions(iter = populations())]
fn response_opens(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = refreshed_session)]
#[benches::sessions(iter = populations())]
fn create_refreshed(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = deleted_session)]
#[benches::sessions(iter = populations())]
fn create_deleted(case: Case) -> Case {
    measured(case, Population::handle)
}

library_benchmark_group!(
    name = messages,
    benchmarks = [create_new, response_opens, create_refreshed, create_deleted]
);

main!(library_benchmark_groups = messages);
