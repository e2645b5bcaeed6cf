//! Instructions per message at 10^3 and 10^5 resident streams, and with `EARMARK_BENCH_LARGE=1` at 10^6 too, which
//! takes minutes because valgrind also runs the set-up. Run with `cargo bench -p earmark-yessir --bench instructions`;
//! it needs valgrind and gungraun-runner.

#![allow(missing_docs)] // the harness writes modules of its own

#[path = "../tests/common/population.rs"]
mod population;

use earmark_testkit::instructions::{self, measured};
use gungraun::{library_benchmark, library_benchmark_group, main};
use population::{Arrival, Population, goodbye, release, request};

/// A router, and a message about one of its sessions, or about the next.
type Case = instructions::Case<Population, Arrival>;

fn new(sessions: u32) -> Case {
    Box::new((Population::new(sessions), request(sessions)))
}

fn known(sessions: u32) -> Case {
    Box::new((Population::new(sessions), request(sessions / 2)))
}

fn releasing(sessions: u32) -> Case {
    Box::new((Population::new(sessions), release(sessions / 2)))
}

/// The BYE of a stream. The message is longer than any before, so another one has made room for it, as in a running
/// router.
fn leaving(sessions: u32) -> Case {
    let mut population = Population::new(sessions);
    population.handle(&goodbye(sessions / 3));
    population.forget_effects();
    Box::new((population, goodbye(sessions / 2)))
}

/// Returns the numbers of resident sessions.
fn populations() -> Vec<u32> {
    instructions::populations(&[1_000, 100_000], 1_000_000)
}

#[library_benchmark(setup = new)]
#[benches::sessions(iter = populations())]
fn set_up(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = known)]
#[benches::sessions(iter = populations())]
fn refreshed(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = releasing)]
#[benches::sessions(iter = populations())]
fn released(case: Case) -> Case {
    measured(case, Population::handle)
}

#[library_benchmark(setup = leaving)]
#[benches::sessions(iter = populations())]
fn left(case: Case) -> Case {
    measured(case, Population::handle)
}

library_benchmark_group!(name = messages, benchmarks = [set_up, refreshed, released, left]);
main!(library_benchmark_groups = messages);
