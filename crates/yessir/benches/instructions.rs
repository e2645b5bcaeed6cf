//! Instructions per message at 10^3 and 10^5 resident streams, and with `EARMARK_BENCH_LARGE=1` at 10^6 too, which
//! takes minutes because valgrind also runs the set-up. Run with `cargo bench -p earmark-yessir --bench instructions`;
//! it needs valgrind and gungraun-runner.

#![allow(missing_docs)] // the harness writes modules of its own

#[path = "../tests/common/population.rs"]
mod population;

use std::hint::black_box;

use gungraun::{library_benchmark, library_benchmark_group, main};
use population::{Arrival, Population, goodbye, release, request};

/// A router with so many streams, and a message about one of them, or about the next.
///
/// The case is boxed, so that handing it over costs the measured function nothing.
type Case = Box<(Population, Arrival)>;

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

/// Numbers of resident streams. The largest population takes a minute per benchmark, so it is optional.
fn populations() -> Vec<u32> {
    // Read when this is compiled: the runner gives the measured process no environment.
    match option_env!("EARMARK_BENCH_LARGE") {
        Some(_) => vec![1_000, 100_000, 1_000_000],
        None => vec![1_000, 100_000],
    }
}

#[library_benchmark(setup = new)]
#[benches::sessions(iter = populations())]
fn set_up(mut case: Case) -> Case {
    let (population, arrival) = &mut *case;
    black_box(population.handle(black_box(arrival)));
    case
}

#[library_benchmark(setup = known)]
#[benches::sessions(iter = populations())]
fn refreshed(mut case: Case) -> Case {
    let (population, arrival) = &mut *case;
    black_box(population.handle(black_box(arrival)));
    case
}

#[library_benchmark(setup = releasing)]
#[benches::sessions(iter = populations())]
fn released(mut case: Case) -> Case {
    let (population, arrival) = &mut *case;
    black_box(population.handle(black_box(arrival)));
    case
}

#[library_benchmark(setup = leaving)]
#[benches::sessions(iter = populations())]
fn left(mut case: Case) -> Case {
    let (population, arrival) = &mut *case;
    black_box(population.handle(black_box(arrival)));
    case
}

library_benchmark_group!(name = messages, benchmarks = [set_up, refreshed, released, left]);
main!(library_benchmark_groups = messages);
